package files_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/walk/walktest"
	"github.com/remitrun/remit/internal/confine/files"
)

// shown has a folder stand for the workspace: the folder has a path that policies protect.
type shown int

func (s shown) Enter(context.Context) (int, func(), error) { return int(s), func() {}, nil }
func (shown) Room(context.Context, int64) error            { return nil }
func (shown) Alone(context.Context) (string, string, string, func(), error) {
	return "", "", "", nil, errors.New("no command runs here")
}

// allIn may do everything in a folder.
func allIn(t *testing.T, dir string, k permit.Keeper) *files.Files {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) }) // it was only used
	const all = "version: 1\nname: all\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}, delete: {allow: ['**']}}\n"
	return files.New(permittest.PermitWith(t, t.TempDir(), all, shown(fd), k))
}

// ended is the error of an operation whose context ended, as a context says it.
func ended(err error) error {
	if errors.Is(err, fault.ToolCancelled) {
		return context.Canceled
	}
	return err
}

// The walks of this package take bounded memory and files, whatever a command left.
func TestHostileFolders(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	dir := walktest.Hostile(t)
	since := files.Now()
	t.Run("labels", func(t *testing.T) {
		walktest.Check(t, walktest.Bounds{MiB: 4, Files: 300}, func(ctx context.Context) error {
			err := files.ChangedSince(ctx, []string{filepath.Join(dir, "many names"), dir}, since, func(p string) error { return nil })
			if err == nil || !strings.Contains(err.Error(), "deeper than a path") || !strings.Contains(err.Error(), dir+"/") {
				return errors.Join(err, errors.New("that a folder is too deep was not said"))
			}
			return unless(err, fault.LimitReached)
		})
	})
	f := allIn(t, dir, nil)
	t.Run("a recursive list", func(t *testing.T) {
		walktest.Check(t, walktest.Bounds{MiB: 16, Files: 100}, func(ctx context.Context) error {
			_, err := f.Walk(ctx, "several deep folders", func(files.Entry) error { return nil })
			if err == nil {
				_, err = f.Walk(ctx, "many folders", func(files.Entry) error { return nil })
			}
			return ended(err)
		})
	})
	t.Run("a removal", func(t *testing.T) {
		walktest.Check(t, walktest.Bounds{MiB: 16, Files: 100}, func(ctx context.Context) error {
			n, err := f.RemoveAll(ctx, "short and deep")
			if n > 0 || err == nil {
				t.Errorf("%d names were removed, %v", n, err)
			}
			return ended(unless(err, fault.LimitReached))
		})
	})
	t.Run("a move that is kept for an undo", func(t *testing.T) {
		k := &counting{}
		f := allIn(t, dir, k)
		walktest.Check(t, walktest.Bounds{MiB: 16, Files: 100}, func(ctx context.Context) error {
			err := f.Rename(ctx, "many folders", "moved", false, false)
			if err == nil {
				err = f.Rename(ctx, "moved", "many folders", false, false)
			}
			return ended(err)
		})
		if k.before == 0 || k.before != k.after {
			t.Errorf("%d names were kept before the moves, and %d after", k.before, k.after)
		}
	})
}

// unless gives nil for the error that is expected.
func unless(err, want error) error {
	if errors.Is(err, want) {
		return nil
	}
	return err
}

type counting struct{ before, after int }

func (c *counting) Before(string, int, string) error { c.before++; return nil }
func (c *counting) After(string, int, string) error  { c.after++; return nil }

// Long paths count, not only names.
func TestLongPathsAreBounded(t *testing.T) {
	racetest.Skip(t, "one goroutine walks")
	dir := walktest.Folder(t)
	const levels = 14
	walktest.CrowdBelow(t, dir, levels, 18_000)
	f := allIn(t, dir, nil)
	in := strings.Repeat(strings.Repeat("n", 255)+"/", levels)
	for name, do := range map[string]func(ctx context.Context) error{
		"recursive list": func(ctx context.Context) error {
			_, err := f.Walk(ctx, ".", func(files.Entry) error { return nil })
			return err
		},
		"removal": func(ctx context.Context) error { _, err := f.RemoveAll(ctx, in); return err },
	} {
		t.Run(name, func(t *testing.T) {
			walktest.Uses(t, walktest.Bounds{MiB: 200, Files: 20}, func() {
				if err := do(t.Context()); !errors.Is(err, fault.LimitReached) || !strings.Contains(err.Error(), "MiB of names and paths") {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// A list whose context ends in the last folder fails: it has not seen all of it.
func TestListEndsWithItsContext(t *testing.T) {
	dir := walktest.Folder(t)
	walktest.CrowdBelow(t, dir, 3, 3)
	f := allIn(t, dir, nil)
	walktest.Ends(t, func(ctx context.Context) error {
		_, err := f.Walk(ctx, ".", func(files.Entry) error { return nil })
		return ended(err)
	})
}

// No walk leaves the folder by a link that replaces a folder under way.
func TestWalksOfAChangingFolder(t *testing.T) {
	dir, ctx := walktest.Swapping(t)
	outside := func(p string) {
		if filepath.Base(p) == "secret" {
			t.Errorf("the walk went outside, to %s", p)
		}
	}
	for range 20 {
		_ = files.ChangedSince(ctx, []string{dir}, files.Moment{}, func(p string) error { outside(p); return nil }) // it may fail
		f := allIn(t, dir, nil)
		_, err := f.Walk(ctx, ".", func(e files.Entry) error { outside(e.Path); return nil })
		if err != nil && !errors.Is(err, fault.NotFound) && !errors.Is(err, fault.HandleRefused) {
			t.Error(err)
		}
	}
}

// A FIFO and a device are not opened, and a top that is one is only looked at.
func TestChangedSinceOfOneFile(t *testing.T) {
	dir := walktest.Folder(t)
	file, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Mkfifo(fifo, 0o600), os.Symlink(file, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	var got []string
	err := files.ChangedSince(t.Context(), []string{file, fifo, filepath.Join(dir, "link")}, files.Moment{}, func(p string) error { got = append(got, p); return nil })
	if err != nil || len(got) != 1 || got[0] != file {
		t.Errorf("%q, %v", got, err)
	}
}
