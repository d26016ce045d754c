package changeset_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

// TestWhatIsNotKeptIsListed: an undo restores the other paths, and lists large files, FIFOs and paths beyond the limit.
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
	if want := []string{p.ws + "/fifo", p.ws + "/large"}; !slices.Equal(back.Lost, want) || !back.More || len(back.Restored) != 1 || len(back.Left) != 0 {
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

// commanded has the log of a run told of changes as a command makes them. The run is over then.
func (p place) commanded(t *testing.T, tell func(l *changeset.Log), do func()) {
	t.Helper()
	l := p.home.Log("run")
	tell(l)
	do()
	l.Kept()
	must(t, l.Close())
}

// TestTheOnlyCopyOfALostFileStays: an undo removes no new file that may have the content of one that it cannot restore.
func TestTheOnlyCopyOfALostFileStays(t *testing.T) {
	large := strings.Repeat("x", changeset.MaxKeptFile+1)
	for name, do := range map[string]func(l *changeset.Log, a, b string) func(){
		"moved": func(l *changeset.Log, a, b string) func() {
			l.KeepMoved(a, b)
			return func() { _ = os.Rename(a, b) }
		},
		"moved over another": func(l *changeset.Log, a, b string) func() {
			_ = os.WriteFile(b, []byte("other"), 0o600)
			l.KeepMoved(a, b)
			return func() { _ = os.Rename(a, b) }
		},
		"moved, and its name used": func(l *changeset.Log, a, b string) func() {
			l.KeepMoved(a, b)
			return func() { _ = os.Rename(a, b); _ = os.WriteFile(a, []byte("small"), 0o600) }
		},
		"packed": func(l *changeset.Log, a, b string) func() {
			l.Keep(b)
			l.Keep(a)
			return func() {
				text, _ := os.ReadFile(a)
				_ = os.WriteFile(b, text, 0o600)
				_ = os.Remove(a)
			}
		},
		"in a moved folder": func(l *changeset.Log, a, b string) func() {
			_ = os.Mkdir(a+".d", 0o700)
			_ = os.Rename(a, a+".d/a")
			l.KeepMoved(a+".d", b)
			return func() { _ = os.Rename(a+".d", b) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.ws, map[string]string{"a": large, "c": "old"})
			var change func()
			p.commanded(t, func(l *changeset.Log) {
				change = do(l, p.ws+"/a", p.ws+"/b")
				l.Keep(p.ws + "/c")
			}, func() {
				change()
				put(t, p.ws, map[string]string{"c": "new"})
			})
			back, err := p.home.Undo("run")
			must(t, err)
			if after := snapshot(t, p.ws); !strings.Contains(after, large) || !strings.Contains(after, `"c" -rw-r--r-- "old"`) || len(back.Lost)+len(back.Left) == 0 {
				t.Errorf("lost %q, left %q; there is %.300s", back.Lost, back.Left, after)
			}
		})
	}
}

// TestAFolderWithManyFilesComesBack: although the log has no line about the folder itself.
func TestAFolderWithManyFilesComesBack(t *testing.T) {
	p := newPlace(t)
	files := map[string]string{}
	for i := range changeset.MaxKept + 100 {
		files[fmt.Sprintf("big/%d", i)] = "x"
	}
	put(t, p.ws, files)
	p.commanded(t, func(l *changeset.Log) {
		for name := range files {
			l.Keep(filepath.Join(p.ws, name))
		}
		l.Keep(p.ws + "/big")
	}, func() { must(t, os.RemoveAll(p.ws+"/big")) })
	back, err := p.home.Undo("run")
	must(t, err)
	if list, err := os.ReadDir(p.ws + "/big"); err != nil || len(list) != changeset.MaxKept || !back.More {
		t.Errorf("%d files are back, %v; more: %v", len(list), err, back.More)
	}
}

// TestAFileThatACommandMadeVeryLarge: it is not read at the end of the command, and an undo restores it.
func TestAFileThatACommandMadeVeryLarge(t *testing.T) {
	for _, touched := range []bool{false, true} {
		p := newPlace(t)
		put(t, p.ws, map[string]string{"a": "old"})
		p.commanded(t, func(l *changeset.Log) { l.Keep(p.ws + "/a") }, func() { must(t, os.Truncate(p.ws+"/a", 2*changeset.MaxKeptFile)) })
		if touched {
			must(t, os.Truncate(p.ws+"/a", 2*changeset.MaxKeptFile+1))
		}
		if _, err := p.home.Undo("run"); (fault.CodeOf(err) == fault.Conflict) != touched {
			t.Errorf("changed since: %v; %v", touched, err)
		}
		if b, err := os.ReadFile(p.ws + "/a"); !touched && (err != nil || string(b) != "old") {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		if n := copies(t, p); n != 1 {
			t.Errorf("%d copies are kept", n)
		}
	}
}

// TestACopyThatIsNotSound: it is listed, and the rest is restored.
func TestACopyThatIsNotSound(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"a": "aaa", "b": "bbb"})
	p.commanded(t, func(l *changeset.Log) { l.Keep(p.ws + "/a"); l.Keep(p.ws + "/b") }, func() {
		put(t, p.ws, map[string]string{"a": "new", "b": "new"})
	})
	must(t, filepath.WalkDir(filepath.Join(p.dir, "home", "undo", "blobs"), func(file string, d fs.DirEntry, err error) error {
		if b, rerr := os.ReadFile(file); rerr == nil && string(b) == "aaa" {
			return os.WriteFile(file, []byte("AAA"), 0o600)
		}
		return err
	}))
	back, err := p.home.Undo("run")
	must(t, err)
	if got := snapshot(t, p.ws); !slices.Equal(back.Lost, []string{p.ws + "/a"}) || got != "\"a\" -rw-r--r-- \"new\"\n\"b\" -rw-r--r-- \"bbb\"\n" {
		t.Errorf("lost %q; there is %s", back.Lost, got)
	}
}

// TestAnUndoKeepsNothingOfTheUndone: a process may still have the files open that go, so they are no copies.
func TestAnUndoKeepsNothingOfTheUndone(t *testing.T) {
	p := newPlace(t)
	p.commanded(t, func(l *changeset.Log) { l.Keep(p.ws + "/a") }, func() { put(t, p.ws, map[string]string{"a": "of the command"}) })
	held, err := os.OpenFile(p.ws+"/a", os.O_RDWR, 0)
	must(t, err)
	_, err = p.home.Undo("run")
	must(t, err)
	var st unix.Stat_t
	if must(t, unix.Fstat(int(held.Fd()), &st)); st.Nlink != 0 || copies(t, p) != 0 {
		t.Errorf("the file has %d names; %d copies are kept", st.Nlink, copies(t, p))
	}
	must(t, held.Close())
}

// TestFoldersAreForced: with all that is below them.
func TestFoldersAreForced(t *testing.T) {
	for _, force := range []string{"d", ""} {
		p := newPlace(t)
		put(t, p.ws, map[string]string{"d/a": "old", "d/e/b": "old", "f": "old"})
		was := snapshot(t, p.ws)
		p.commanded(t, func(l *changeset.Log) {
			for _, name := range []string{"d/a", "d/e/b", "f"} {
				l.Keep(filepath.Join(p.ws, name))
			}
		}, func() { put(t, p.ws, map[string]string{"d/a": "new", "d/e/b": "new", "f": "new"}) })
		put(t, p.ws, map[string]string{"d/a": "newer", "d/e/b": "newer"})
		if _, err := p.home.Undo("run"); fault.CodeOf(err) != fault.Conflict || !strings.Contains(err.Error(), strconv.Quote(p.ws+"/d/a")) {
			t.Errorf("the message is %v", err)
		}
		_, err := p.home.Undo("run", filepath.Join(p.ws, force))
		must(t, err)
		if got := snapshot(t, p.ws); got != was {
			t.Errorf("there is %s", got)
		}
	}
}

// TestFoldersWithoutCopiesAreListed: and do not keep new files from being removed.
func TestFoldersWithoutCopiesAreListed(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{".git/HEAD": "x"})
	p.commanded(t, func(l *changeset.Log) { l.LeaveOut(p.ws + "/.git"); l.Keep(p.ws + "/new") }, func() { put(t, p.ws, map[string]string{"new": "x"}) })
	back, err := p.home.Undo("run")
	must(t, err)
	if !slices.Equal(back.Lost, []string{p.ws + "/.git"}) || len(back.Restored) != 1 || len(back.Left) != 0 {
		t.Errorf("%+v", back)
	}
}
