package changeset_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// told makes changes in a workspace, of which it tells a log before.
type told struct {
	ws  string
	log *changeset.Log
}

// change tells the log, and makes one random change.
func (c told) change(t *rapid.T) {
	names := rapid.SampledFrom([]string{"a", "b", "d", "d/a", "d/b", "d/e", "d/e/a"})
	one, other := filepath.Join(c.ws, names.Draw(t, "one")), filepath.Join(c.ws, names.Draw(t, "other"))
	what, text := rapid.IntRange(0, 6).Draw(t, "change"), rapid.String().Draw(t, "text")
	for _, p := range []string{one, other} {
		if at, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil && at != filepath.Dir(p) {
			return // the log is told paths without links
		}
	}
	switch what {
	case 0:
		c.log.Keep(one)
		if fd, err := unix.Open(one, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o644); err == nil {
			_, _ = unix.Write(fd, []byte(text))
			_ = unix.Close(fd)
		}
	case 1:
		c.log.Keep(one)
		_ = os.Remove(one)
	case 2:
		c.log.Keep(one)
		_ = os.Mkdir(one, 0o755)
	case 3:
		c.log.Keep(one)
		_ = os.Symlink("a", one)
	case 4:
		c.log.Keep(one)
		_ = unix.Fchmodat(unix.AT_FDCWD, one, 0o700, unix.AT_SYMLINK_NOFOLLOW)
	case 5:
		c.log.KeepMoved(one, other)
		_ = os.Rename(one, other)
	case 6:
		c.log.KeepMoved(one, other)
		c.log.KeepMoved(other, one)
		_ = unix.Renameat2(unix.AT_FDCWD, one, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	}
}

// TestChangesOfCommandsAreUndone: after any changes by any number of commands, an undo restores what was there.
func TestChangesOfCommandsAreUndone(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := newPlace(t)
		put(t, p.ws, map[string]string{"a": "aaa", "d/a": "daa", "d/e/a": "dea"})
		was := snapshot(t, p.ws)
		c := told{p.ws, p.home.Log("run")}
		for range rapid.IntRange(1, 3).Draw(r, "commands") {
			for range rapid.IntRange(1, 6).Draw(r, "changes") {
				c.change(r)
			}
			c.log.Kept()
		}
		must(t, c.log.Close())
		is := snapshot(t, p.ws)
		if _, err := p.home.Undo("run"); err != nil {
			r.Fatalf("%v\n%s", err, is)
		}
		if got := snapshot(t, p.ws); got != was {
			r.Fatalf("it was\n%s\nand is\n%s\nthe commands left\n%s", was, got, is)
		}
	})
}

// TestWhatIsNotKeptIsListed: an undo restores the rest, and lists what was too large, too much, or is no file.
func TestWhatIsNotKeptIsListed(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"large": strings.Repeat("x", changeset.MaxKeptFile+1), "same": strings.Repeat("x", changeset.MaxKeptFile+1), "a": "old"})
	must(t, unix.Mkfifo(p.ws+"/fifo", 0o600))
	log := p.home.Log("run")
	for _, name := range []string{"large", "same", "a", "fifo"} {
		log.Keep(filepath.Join(p.ws, name))
	}
	put(t, p.ws, map[string]string{"large": "new", "a": "new"})
	must(t, os.Remove(p.ws+"/fifo"))
	log.Kept()
	for i := range changeset.MaxKept + 1 {
		log.Keep(filepath.Join(p.ws, strings.Repeat("n", i%200+1), strings.Repeat("m", i/200+1)))
	}
	log.Kept()
	must(t, log.Close())
	back, err := p.home.Undo("run")
	must(t, err)
	if want := []string{p.ws + "/fifo", p.ws + "/large"}; !slices.Equal(back.Lost, want) || !back.More || len(back.Restored) != 1 {
		t.Errorf("not kept: %q %v, want %q; restored %v", back.Lost, back.More, want, back.Restored)
	}
	if b, err := os.ReadFile(p.ws + "/a"); err != nil || string(b) != "old" {
		t.Errorf("%q %v", b, err)
	}
}

// TestChangesBetweenCommandsAreNotUndone: what somebody else wrote between two commands is overwritten by force alone.
func TestChangesBetweenCommandsAreNotUndone(t *testing.T) {
	p := newPlace(t)
	log := p.home.Log("run")
	for _, text := range []string{"first", "second"} {
		put(t, p.ws, map[string]string{"a": "of the person, before the " + text})
		log.Keep(p.ws + "/a")
		put(t, p.ws, map[string]string{"a": text})
		log.Kept()
	}
	must(t, log.Close())
	if back, err := p.home.Undo("run"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("%+v, %v", back, err)
	}
	_, err := p.home.Undo("run", p.ws+"/a")
	must(t, err)
	if b, _ := os.ReadFile(p.ws + "/a"); string(b) != "of the person, before the first" {
		t.Errorf("%q", b)
	}
}
