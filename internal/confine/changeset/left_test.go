package changeset_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/files"
)

const anyFile = "version: 1\nname: any\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\n"

// writeUntilKilled writes a file again and again, and is killed once the new
// content waits for its rename.
func writeUntilKilled(t *testing.T, home, ws string) {
	log := changeset.In(home).Log("run")
	h := files.New(permittest.PermitWith(t, ws, anyFile, nil, log))
	_, err := h.Write("d/whole", []byte("x"), files.WriteOptions{Parents: true})
	must(t, err)
	go func() {
		for {
			if left, _ := filepath.Glob(filepath.Join(ws, "d", ".remit-*.tmp")); len(left) > 0 {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			}
		}
	}()
	for {
		_, err := h.Write("d/whole", make([]byte, 1<<20), files.WriteOptions{Mode: files.Replace})
		must(t, err)
	}
}

// leaveOne kills processes, each in a folder of its own, until one leaves a file.
func leaveOne(t *testing.T) (dir, name string) {
	for range 100 {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		must(t, os.Mkdir(filepath.Join(dir, "ws"), 0o755))
		cmd := exec.Command(os.Args[0], "-test.run=^TestLeftoversOfAKilledProcessAreRemoved$")
		cmd.Env = append(os.Environ(), "CHANGESET_LEAVE="+dir)
		if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "FAIL") {
			t.Fatalf("it was not killed: %v\n%s", err, out)
		}
		left, err := filepath.Glob(filepath.Join(dir, "ws", "d", ".remit-*.tmp"))
		must(t, err)
		if len(left) > 0 {
			return dir, filepath.Base(left[0])
		}
	}
	t.Fatal("no killed process left a file, so the test shows nothing")
	return "", ""
}

// What a killed process left is removed by the next one that begins. What others
// write, and what only looks like it, stays.
func TestLeftoversOfAKilledProcessAreRemoved(t *testing.T) {
	if dir := os.Getenv("CHANGESET_LEAVE"); dir != "" {
		writeUntilKilled(t, filepath.Join(dir, "home"), filepath.Join(dir, "ws"))
		return
	}
	dir, name := leaveOne(t)
	ws, home := filepath.Join(dir, "ws"), changeset.In(filepath.Join(dir, "home"))
	used := strings.Replace(name, name[7:12], "AAAAA", 1)
	for _, n := range []string{".remit-notes.tmp", used, "sub/" + used} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(ws, "d", n)), 0o755))
		must(t, os.WriteFile(filepath.Join(ws, "d", n), nil, 0o644))
	}
	held, err := os.Open(filepath.Join(ws, "d", used))
	must(t, err)
	defer held.Close()
	must(t, unix.Flock(int(held.Fd()), unix.LOCK_EX))

	for range 2 {
		_, err = home.Recover()
		must(t, err)
		var names []string
		entries, err := os.ReadDir(filepath.Join(ws, "d"))
		must(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if want := []string{used, ".remit-notes.tmp", "sub", "whole"}; !slices.Equal(names, want) {
			t.Errorf("there is %q, want %q", names, want)
		}
	}
	if marks, _ := os.ReadDir(filepath.Join(dir, "home", "undo", "writing")); len(marks) != 0 {
		t.Errorf("%d marks are left", len(marks))
	}
}

// A run that goes on keeps its files, and one that ended leaves no mark.
func TestLeftoversOfARunThatGoesOn(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	ws, home := filepath.Join(dir, "ws"), changeset.In(filepath.Join(dir, "home"))
	must(t, os.Mkdir(ws, 0o755))
	log := home.Log("run")
	_, err = files.New(permittest.PermitWith(t, ws, anyFile, nil, log)).Write("a", []byte("x"), files.WriteOptions{})
	must(t, err)
	mark := filepath.Join(dir, "home", "undo", "writing", "run")
	_, err = home.Recover()
	must(t, err)
	if _, err := os.Stat(mark); err != nil {
		t.Errorf("the mark of a run that goes on is gone: %v", err)
	}
	must(t, log.Close())
	if _, err := os.Stat(mark); err == nil {
		t.Error("a run that ended left its mark")
	}
}
