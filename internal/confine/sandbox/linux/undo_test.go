//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// undone are scripts whose changes are undone, besides those of changing.
var undone = []string{
	"rm -rf *",
	"chmod 700 d; rm a; mkdir a; echo x > a/a",
	"mv a d/a; echo z > a; mv d e; ln -s e d; echo x > d/b",
	"mkdir -p t/u/v; cp -r d t/u; mv t/u d/u; rm -r t",
	"printf x | dd of=a conv=notrunc; truncate -s 0 d/b; rm a; echo again > a",
	"ln -s /etc/passwd l; mv l d/b; ln d/b h 2>/dev/null; true",
	"python3 -c 'import os\nos.rename(\"d\", \"x\"); os.mkdir(\"d\"); os.rename(\"x\", \"d/x\"); os.truncate(\"a\", 1)'",
	"tar cf t.tar a d; rm -r a d; tar xf t.tar; echo y >> d/b",
	"mkdir node_modules; mv d node_modules/d; mv a node_modules/",
	"mkdir -p node_modules/m; echo x > node_modules/m/i; mv node_modules/m m; mv node_modules n; echo y >> m/i",
	"git init -q . 2>/dev/null; mkdir -p node_modules/m; echo x > node_modules/m/i; echo x > a",
}

// TestWhatCommandsChangedIsUndone: an undo restores what a command changed, whatever it did, and nothing that changed since.
func TestWhatCommandsChangedIsUndone(t *testing.T) {
	scripts := slices.Clone(undone)
	for script := range changing {
		scripts = append(scripts, script)
	}
	for _, script := range scripts {
		t.Run(script, func(t *testing.T) {
			home := changeset.In(t.TempDir())
			w := newWorld(t, allWritable)
			log := home.Log("run")
			w.replaced = log
			w.allow(allWritable)
			w.file("a", "aaa")
			w.file("d/b", "bbb")
			was := treeOf(t, w.dir)
			p, err := w.inSession(context.Background(), script, script)
			must(t, err)
			must(t, log.Close())
			is := treeOf(t, w.dir)
			back, err := home.Undo("run")
			if was == is && fault.CodeOf(err) == fault.NotFound {
				return
			}
			back.Lost = slices.DeleteFunc(back.Lost, func(p string) bool {
				return slices.Contains([]string{".git", "node_modules"}, filepath.Base(p))
			})
			if err != nil || back.More || len(back.Lost)+len(back.Left)+len(back.Kept) > 0 {
				t.Fatalf("%v %+v; the command: %s", err, back, p.err)
			}
			if got := treeOf(t, w.dir); got != was {
				t.Errorf("it was\n%s\nand is\n%s\nthe command left\n%s", was, got, is)
			}
		})
	}
}

// TestStagedFilesAreOutOfReach: of a file that an undo or an apply is about to put in its place, the rules of that place are asked,
// and a command does not reach it under its first name.
func TestStagedFilesAreOutOfReach(t *testing.T) {
	w := newWorld(t, allWritable)
	w.file("d/.remit-abc-0.tmp", "of a file that is denied")
	p, err := w.inSession(context.Background(), "s", `cd d; f=.remit-abc-0.tmp
		cat $f; ln $f a; mv $f b; echo x >> $f; rm $f; chmod 777 $f; ln -s $f l; cat l; cd ..; cp -r d e; mv d g; cat g/$f; exec 3< g/$f`)
	must(t, err)
	if strings.Contains(p.out, "denied") {
		t.Errorf("it prints %s", p.out)
	}
	if got := treeOf(t, w.dir); strings.Count(got, "of a file that is denied") != 1 || !strings.Contains(got, `.remit-abc-0.tmp" -rw-r--r-- `) {
		t.Errorf("there is %s", got)
	}
}

// treeOf prints names, modes and contents. It leaves out .git and node_modules.
func treeOf(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		must(t, err)
		if e.Name() == ".git" || e.Name() == "node_modules" {
			return fs.SkipDir
		}
		fi, err := e.Info()
		must(t, err)
		fmt.Fprintf(&out, "%q %v", strings.TrimPrefix(p, dir), fi.Mode())
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(p)
			must(t, err)
			fmt.Fprintf(&out, " %q", b)
		case fi.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			must(t, err)
			fmt.Fprintf(&out, " -> %q", to)
		}
		out.WriteByte('\n')
		return nil
	}))
	return out.String()
}
