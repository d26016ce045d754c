//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// nest makes folders in each other, and a repository in the last.
func nest(arg string) error {
	levels, bytes := two(arg)
	n, err := strconv.Atoi(levels)
	if err != nil {
		return err
	}
	size, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	name := strings.Repeat("d", size)
	for range n {
		if err := errors.Join(unix.Mkdir(name, 0o755), unix.Chdir(name)); err != nil {
			return err
		}
	}
	return errors.Join(os.Mkdir(".git", 0o755), os.WriteFile(".git/config", []byte(harmful), 0o644))
}

// What a command leaves behind does not decide how much memory Remit uses.
func TestNestedFoldersCostLittle(t *testing.T) {
	racetest.Skip(t, oneByOne)
	exe, err := os.Executable()
	must(t, err)
	levels := 1500
	if os.Getenv("REMIT_SOAK") != "" {
		levels = 10_000
	}
	for _, c := range []struct {
		name          string
		levels, bytes int
		deep          bool // a path does not reach the repository
	}{
		{"long names", levels, 200, true},
		{"short names", 1000, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, strings.Replace(allWritable, `commands:
  allow: ["**"]`, `commands:
  allow: ["**", "EXE **"]`, 1))
			defer func() {
				entries, err := os.ReadDir(w.dir)
				must(t, err)
				for _, e := range entries {
					must(t, walk.Remove(filepath.Join(w.dir, e.Name())))
				}
			}()
			w.sh("true") // so that the first command's survey is not measured
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "nest", strconv.Itoa(c.levels), strconv.Itoa(c.bytes)}})
			runtime.ReadMemStats(&after)
			must(t, err)
			if got := string(out.Stdout.Data); got != "SUCCEEDED\n" {
				t.Fatalf("the command failed: %s", got)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 128<<20 {
				t.Errorf("%d MiB were allocated for one command", used>>20)
			}
			notes := strings.Join(out.Notes, "\n")
			if deep := strings.Contains(notes, "deeper than a path can name"); deep != c.deep {
				t.Errorf("notes %q", notes)
			}
			if renamed := strings.Contains(notes, ".git.refused-"); renamed == c.deep {
				t.Errorf("notes %q", notes)
			}
		})
	}
}
