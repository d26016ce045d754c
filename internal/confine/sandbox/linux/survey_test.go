//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// A survey of too many names is refused, with a way out: nothing vanishes in silence.
func TestASurveyIsBounded(t *testing.T) {
	w := newWorld(t, openPolicy)
	for i := range 9 {
		w.file(fmt.Sprintf("d%d/x", i), "")
	}
	const names = 10 + 9 // out, the folders and the files
	if err := surveyUpTo(names, w); err != nil {
		t.Errorf("%d names: %v", names, err)
	}
	err := surveyUpTo(names-1, w)
	if !errors.Is(err, fault.SandboxMissing) || !strings.Contains(err.Error(), "more than 18") {
		t.Errorf("with room for one less: %v", err)
	}
}

func surveyUpTo(most int, w *world) error {
	s := surveyOf(w.dir)
	s.Most = most
	return s.Fill(context.Background(), &sandbox.Inputs{Chain: w.p.Chain()})
}

func surveyOf(roots ...string) sandbox.Survey {
	return sandbox.Survey{Roots: roots, Real: filepath.EvalSymlinks, Skip: func(string) bool { return false }, Open: os.Open}
}

// whole makes the nodes of all that is below a folder.
func whole(t *rapid.T, p string) *sandbox.Node {
	n := &sandbox.Node{Path: p, Kind: sandbox.FolderNode, Complete: true}
	entries, err := os.ReadDir(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		one := &sandbox.Node{Path: filepath.Join(p, e.Name())}
		switch {
		case e.IsDir():
			one = whole(t, one.Path)
		case e.Type()&os.ModeSymlink != 0:
			one.Kind = sandbox.LinkNode
			one.Target, _ = filepath.EvalSymlinks(one.Path)
		case e.Type()&os.ModeNamedPipe != 0:
			one.Kind = sandbox.SpecialNode
		}
		n.Children = append(n.Children, one)
	}
	return n
}

// What a survey leaves out makes no difference: the profile is that of all names.
func TestSurveysGiveTheProfileOfAllNames(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	patterns := rapid.SampledFrom([]string{"**", "*", "a/**", "a/*", "b/**", "**/x", "*/x", "a/b/x", "**/*.k", "*.k", "a", ".env", ".git/**", "x", "[a-b]/**", "?", "HEAD", "A/**", "b/x.", ".config/op/**"})
	names := rapid.SampledFrom([]string{"a", "b", "x", "y.k", ".env", ".git", "hooks", "config", "HEAD", "plain", "other", "A", "x.", "ü", ".config", "op"})
	list := func(t *rapid.T, label string, least int) string {
		return "['" + strings.Join(rapid.SliceOfN(patterns, least, 3).Draw(t, label), "', '") + "']"
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(top, "")
		if err != nil {
			t.Fatal(err)
		}
		pol, err := policy.Parse("p", []byte("version: 1\nname: p\nfiles:\n  read: {allow: "+list(t, "read", 1)+", deny: "+list(t, "noread", 0)+", ask: "+list(t, "askread", 0)+"}\n"+
			"  write: {allow: "+list(t, "write", 0)+", deny: "+list(t, "nowrite", 0)+"}\n"))
		if err != nil {
			t.Skip(err)
		}
		rules, err := pol.Bind(policy.Env{Workspace: dir})
		if err != nil {
			t.Fatal(err)
		}
		chain := policy.Chain{rules}
		for range rapid.IntRange(0, 25).Draw(t, "changes") {
			change(dir, rapid.SliceOfN(names, 1, 4).Draw(t, "path"), rapid.IntRange(0, 5).Draw(t, "change"))
		}
		in := sandbox.Inputs{Chain: chain, Dir: dir, Isolation: policy.LandlockIsolation, State: filepath.Join(dir, "b/other"), Seatbelt: rapid.Bool().Draw(t, "seatbelt")}
		s := surveyOf(slices.Concat(sandbox.RootsOf(chain, tool.FileRead), sandbox.RootsOf(chain, tool.FileWrite))...)
		s.Keep, s.Together = []string{in.State}, !in.Seatbelt
		if err := s.Fill(t.Context(), &in); err != nil {
			t.Fatal(err)
		}
		got, err := sandbox.Compile(in)
		if err != nil {
			t.Fatal(err)
		}
		for i, n := range in.Trees {
			if n.Kind == sandbox.FolderNode {
				in.Trees[i] = whole(t, n.Path)
			}
		}
		want, err := sandbox.Compile(in)
		if err != nil {
			t.Fatal(err)
		}
		if got.String() != want.String() {
			t.Fatalf("%s\nof the survey gives\n%s\nand of all names\n%s", pol.Print(), got, want)
		}
	})
}

// tick waits until file systems date a change later than all before.
func tick(t interface{ Fatal(...any) }) {
	var began, now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &began); err != nil {
		t.Fatal(err)
	}
	for now = began; now == began; {
		_ = unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &now) // it worked before
	}
}

// change makes, replaces or removes a name; what cannot be is left.
func change(dir string, parts []string, how int) {
	p := filepath.Join(append([]string{dir}, parts...)...)
	if os.MkdirAll(filepath.Dir(p), 0o755) != nil {
		return
	}
	if how != 1 {
		_ = os.RemoveAll(p)
	}
	switch how {
	case 0:
	case 1:
		_ = os.Mkdir(p, 0o755)
	case 2:
		_ = os.Symlink(parts[0], p)
	case 3:
		_ = unix.Mkfifo(p, 0o644)
	default:
		_ = os.WriteFile(p, nil, 0o644)
	}
}

// All files may be readable: the sandbox's own folders stay its own, the system
// stays whole, and what was too much to look at is said.
//
// Root's tests see a machine without home folders and others that no system needs:
// caches there can hold a million names. `make soak` reads the machine as it is.
func TestAllowedThingsOfTheWholeMachine(t *testing.T) {
	racetest.Skip(t, oneByOne)
	const without = "REMIT_TEST_WITHOUT_HOMES"
	if os.Getuid() == 0 && os.Getenv("REMIT_SOAK") == "" && os.Getenv(without) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.v", "-test.run", "^"+t.Name()+"$")
		cmd.Dir, cmd.Env = "/", append(os.Environ(), without+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	if os.Getenv(without) != "" {
		hideFolders(t, []string{"bin", "boot", "dev", "etc", "lib", "proc", "run", "sbin", "sys", "tmp", "usr", "var"})
	}
	for _, in := range []string{"", "/var/tmp"} {
		w := newWorld(t, openPolicy)
		if in != "" {
			dir, err := os.MkdirTemp(in, "remit-test-")
			must(t, err)
			t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
			must(t, os.Chmod(dir, 0o755))
			w.dir, err = filepath.EvalSymlinks(dir)
			must(t, err)
		}
		w.file("plain", "plain")
		w.file(".env", "secret")
		must(t, os.MkdirAll(filepath.Join(w.dir, "out"), 0o755))
		w.allow(strings.Replace(openPolicy, `["**"]`, `["/**"]`, 1))
		const script = `cat plain && echo -new > out/new && cat out/new && echo -tmp > $TMPDIR/x && cat /tmp/x && test -r /etc/hostname -a -d /var/lib && cat .env`
		var out sandbox.Outcome
		var err error
		for range 10 { // other programs' files come and go
			if out, err = w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true}); err == nil || !strings.Contains(err.Error(), "files may have changed meanwhile") {
				break
			}
		}
		must(t, err)
		if got := string(out.Stdout.Data); got != "plain-new\n-tmp\n" {
			t.Errorf("in %s: got %q, %s\n%s", w.dir, got, out.Stderr.Data, strings.Join(out.Notes, "\n"))
		}
	}
}

// hideFolders puts empty folders over those of the root folder that are not named.
// The process has mounts of its own.
func hideFolders(t *testing.T, but []string) {
	entries, err := os.ReadDir("/")
	must(t, err)
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(but, e.Name()) {
			must(t, unix.Mount("none", "/"+e.Name(), "tmpfs", 0, "mode=755"))
		}
	}
}

// A folder that an earlier command found is not taken for what it was: a denied name
// that came since is out of sight, however it came.
func TestEscapesByNamesMadeBetweenCommands(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, allWritable, func(t *testing.T, src string) {
		for name, change := range map[string]func(w *world){
			"a new file, and the folder's old times": func(w *world) {
				st, err := os.Stat(filepath.Join(w.dir, "a/b"))
				must(w.t, err)
				w.file("a/b/.env", "secret")
				must(w.t, os.Chtimes(filepath.Join(w.dir, "a/b"), st.ModTime(), st.ModTime()))
			},
			"a file renamed": func(w *world) {
				must(w.t, os.Rename(filepath.Join(w.dir, "a/b/open"), filepath.Join(w.dir, "a/b/.env")))
			},
			"another folder in its place": func(w *world) {
				must(w.t, unix.Renameat2(unix.AT_FDCWD, filepath.Join(w.dir, "c"), unix.AT_FDCWD, filepath.Join(w.dir, "a/b"), unix.RENAME_EXCHANGE))
			},
			"a folder in place of a file": func(w *world) {
				must(w.t, unix.Renameat2(unix.AT_FDCWD, filepath.Join(w.dir, "c"), unix.AT_FDCWD, filepath.Join(w.dir, "a/b/open"), unix.RENAME_EXCHANGE))
			},
			"a folder from elsewhere": func(w *world) {
				must(w.t, os.Rename(filepath.Join(w.dir, "c"), filepath.Join(w.dir, "a/b/c")))
			},
			"by a command": func(w *world) { w.sh("mv a/b/open a/b/.env") },
		} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, src)
				w.file("a/b/open", "secret")
				w.file("c/.env", "secret")
				if got := w.sh("cat a/b/open").Stdout.Data; string(got) != "secret" {
					t.Fatalf("what is allowed shows %q", got)
				}
				tick(t)
				w.sh("true")
				change(w)
				if out := w.sh("cat .env */.env */*/.env */*/*/.env; echo done"); string(out.Stdout.Data) != "done\n" {
					t.Errorf("it shows %q", out.Stdout.Data)
				}
			})
		}
	})
}
