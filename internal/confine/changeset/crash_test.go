package changeset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// TestMain lets the test binary be the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("CHANGESET_CRASH") != "" {
		crashing()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crashing applies or undoes a changeset, recovers one or writes a log, and
// kills itself at the step whose number it was given.
func crashing() {
	at, err := strconv.Atoi(os.Getenv("CHANGESET_CRASH"))
	if err != nil {
		panic(err)
	}
	n := 0
	step := func(string) {
		if n++; n == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	home := changeset.In(os.Getenv("CHANGESET_HOME")).At(step)
	switch os.Getenv("CHANGESET_DO") {
	case "apply":
		var s *changeset.Set
		if s, err = home.Load("run"); err == nil {
			_, err = s.Apply(context.Background(), anything)
		}
	case "undo":
		_, err = home.Undo("run")
	case "recover":
		_, err = home.Recover()
	case "log":
		ws := filepath.Join(filepath.Dir(os.Getenv("CHANGESET_HOME")), "ws")
		var dir int
		if dir, err = unix.Open(ws, unix.O_RDONLY|unix.O_DIRECTORY, 0); err == nil {
			err = errors.Join(home.Log("run").Before(ws+"/f", dir, "f"), os.WriteFile(ws+"/f", []byte("new"), 0o600))
			step("written")
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
}

// killed has a process do something with a place's changeset and be killed at a
// step; it reports whether it got that far.
func killed(t *testing.T, p place, do string, at int) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "CHANGESET_DO="+do, "CHANGESET_CRASH="+strconv.Itoa(at), "CHANGESET_HOME="+filepath.Join(p.dir, "home"))
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%s, step %d: %v\n%s", do, at, err, out)
	}
	return err != nil
}

// Killed at any step, an apply is finished or taken back by the next start:
// never half, and nothing of it is left lying about.
func TestKilledApply(t *testing.T) {
	outcomes := map[string]int{}
	for at := 1; ; at++ {
		p := newPlace(t)
		put(t, p.ws, map[string]string{"keep": "k", "change": "old", "dir/gone": "g", "dir/sub/gone": "g", "becomes-dir": "f",
			"becomes-file/x": "x", "mode": "m", "folder/": "", "noted": "n"})
		note := func(path, v string) { _ = unix.Setxattr(path, "user.note", []byte(v), 0) } // where there is such a thing
		for _, name := range []string{"change", "dir/gone"} {
			long := time.Now().Add(-1000 * time.Hour) // an old file is no old leftover
			must(t, os.Chtimes(filepath.Join(p.ws, name), long, long))
		}
		note(p.ws+"/noted", "before")
		note(p.ws+"/change", "stays")
		s := p.reviewed(t, "run", func(root string) {
			must(t, os.RemoveAll(root+"/dir"), os.Remove(root+"/becomes-dir"), os.RemoveAll(root+"/becomes-file"), os.Chmod(root+"/mode", 0o600),
				os.Chmod(root+"/folder", 0o700), os.Symlink("keep", root+"/link"))
			put(t, root, map[string]string{"change": "new", "becomes-dir/y": "y", "becomes-file": "now", "new/deep/er/file": "n"})
			note(root+"/noted", "after")
			note(root+"/folder", "on a folder")
			note(root+"/new/deep/er/file", "new")
		})
		before := snapshot(t, p.ws)
		after := wanted(t, p, s)
		if !killed(t, p, "apply", at) {
			if at < 20 {
				t.Fatalf("only %d steps", at)
			}
			if got := snapshot(t, p.ws); got != after {
				t.Fatalf("applied\n%s\nwant\n%s", got, after)
			}
			break
		}
		killed(t, p, "recover", 1+at*7%11) // and once more on the way back up
		if _, err := p.home.Sweep(changeset.Retention{}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.home.Recover(); err != nil {
			t.Fatalf("step %d: recover: %v", at, err)
		}
		got := snapshot(t, p.ws)
		s, err := p.home.Load("run")
		must(t, err)
		switch {
		case got == before && s.State() == changeset.Review:
			outcomes["back"]++
		case got == after && s.State() == changeset.Applied:
			outcomes["forward"]++
		default:
			t.Fatalf("step %d: %s with\n%s\nwhich is neither\n%s\nnor\n%s", at, s.State(), got, before, after)
		}
		if again, err := p.home.Recover(); err != nil || len(again) > 0 {
			t.Fatalf("step %d: a second recovery did %v, %v", at, again, err)
		}
		if got == before {
			if _, err := s.Apply(t.Context(), anything); err != nil {
				t.Fatalf("step %d: applying once more: %v", at, err)
			}
		}
		if killed(t, p, "undo", at) {
			if _, err := p.home.Recover(); err != nil {
				t.Fatalf("step %d: recover: %v", at, err)
			}
			if now := snapshot(t, p.ws); now != after && now != before {
				t.Fatalf("step %d: an undo was half done:\n%s", at, now)
			}
			if _, err := p.home.Undo("run"); err != nil && !errors.Is(err, fault.NotFound) {
				t.Fatalf("step %d: undo: %v", at, err)
			}
		}
		if got := snapshot(t, p.ws); got != before {
			t.Fatalf("step %d: undone\n%s\nwant\n%s", at, got, before)
		}
	}
	if outcomes["back"] == 0 || outcomes["forward"] == 0 {
		t.Fatalf("outcomes %v: one never happened", outcomes)
	}
	t.Logf("outcomes %v", outcomes)
}

// Who writes to a file in place while an apply goes wrong keeps what they wrote.
// The rest is taken back, the journal ends, and no copy is spoilt.
func TestFailedApplyBesideAnEditor(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"a": "old a", "b": "old b", "c": "old c"})
	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"a": "new", "b": "new", "c": "new"}) })
	add := func(f *os.File) {
		_, err := f.WriteString(" + theirs")
		must(t, err)
	}
	open := func(name string) *os.File {
		f, err := os.OpenFile(filepath.Join(p.ws, name), os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	a, c, renames := open("a"), open("c"), 0
	s.OnPoint(func(what string) {
		if what != "rename" {
			return
		}
		if renames++; renames == 2 { // a is replaced, c is still to be
			add(a)
			add(c)
		}
	})
	_, err := s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict)
	if err == nil || !strings.Contains(err.Error(), `left as they are, since they have changed meanwhile: "c"`) {
		t.Errorf("it says %v", err)
	}
	if got, want := snapshot(t, p.ws), "\"a\" -rw-r--r-- \"old a + theirs\"\n\"b\" -rw-r--r-- \"old b\"\n\"c\" -rw-r--r-- \"old c + theirs\"\n"; got != want {
		t.Errorf("taken back\n%s\nwant\n%s", got, want)
	}
	if again, err := p.home.Recover(); err != nil || len(again) > 0 {
		t.Errorf("a recovery did %v, %v", again, err)
	}
	if n := copies(t, p); n != 0 {
		t.Errorf("%d copies were left", n)
	}
	put(t, p.ws, map[string]string{"d": "old c"}) // as c was
	s = p.reviewed(t, "next", func(root string) { must(t, os.Remove(root+"/d")) })
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	_, err = p.home.Undo("next")
	must(t, err)
	if b, err := os.ReadFile(p.ws + "/d"); err != nil || string(b) != "old c" {
		t.Errorf("put back as %q, %v", b, err)
	}
}

// A process that has a file open and writes to it after an apply does not
// change what is kept of others with the same content.
func TestSpoiltCopyIsMadeAgain(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"a": "same", "b": "same"})
	f, err := os.OpenFile(p.ws+"/a", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	s := p.reviewed(t, "one", func(root string) { must(t, os.Remove(root+"/a")) })
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	_, err = f.WriteString(" + more")
	must(t, err, f.Close())
	s = p.reviewed(t, "two", func(root string) { must(t, os.Remove(root+"/b")) })
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	for _, run := range []string{"two", "one"} {
		_, err := p.home.Undo(run)
		must(t, err)
	}
	if got, want := snapshot(t, p.ws), "\"a\" -rw-r--r-- \"same\"\n\"b\" -rw-r--r-- \"same\"\n"; got != want {
		t.Errorf("put back\n%s\nwant\n%s", got, want)
	}
}

// wanted is what the workspace shall be like: what the run saw.
func wanted(t *testing.T, p place, s *changeset.Set) (out string) {
	t.Helper()
	p.within(t, s, func(root string) { out = snapshot(t, root+"/") })
	return out
}

// An apply that fails halfway takes back what it did.
func TestFailedApplyIsTakenBack(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"a": "old", "b/x": "old", "c": "old"})
	s := p.reviewed(t, "run", func(root string) {
		put(t, root, map[string]string{"a": "new", "b/x": "new", "c": "new", "0/new": "n"})
		must(t, os.Remove(root+"/c"))
	})
	before := snapshot(t, p.ws)
	renames := 0
	s.OnPoint(func(what string) {
		if what == "rename" {
			if renames++; renames == 2 { // somebody takes a waiting file away
				old, err := filepath.Glob(p.ws + "/b/.remit-*")
				must(t, err)
				for _, f := range old {
					must(t, os.Remove(f))
				}
			}
		}
	})
	if _, err := s.Apply(t.Context(), anything); err == nil {
		t.Fatal("it was applied")
	}
	if got := snapshot(t, p.ws); got != before || s.State() != changeset.Review {
		t.Fatalf("%s with\n%s\nwant\n%s", s.State(), got, before)
	}
	s.OnPoint(nil)
	if _, err := s.Apply(t.Context(), anything); err != nil {
		t.Fatalf("applying once more: %v", err)
	}
}
