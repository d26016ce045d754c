package files

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Content identifies the file at a path: the size and the SHA-256 of a regular file, or a folder.
type Content struct {
	Folder bool
	Size   int64
	SHA256 string // hexadecimal; "": it was not computed
}

// ContentIn returns the content at an absolute path without links, as a run with held writes sees
// it. It reads a regular file only if want returns true for its size. A missing file is
// fs.ErrNotExist.
func ContentIn(ctx context.Context, held permit.Held, env tool.Env, real string, want func(size int64) (bool, error)) (Content, error) {
	v := view{env.Workspace, -1}
	if held != nil {
		root, leave, err := held.Enter(ctx)
		if err != nil {
			return Content{}, err
		}
		defer leave()
		v.root = root
	}
	if real == "/" {
		return Content{Folder: true}, nil
	}
	dir, err := v.openDir(path.Dir(real))
	if err != nil {
		return Content{}, err
	}
	defer closeFD(dir)
	return contentAt(ctx, dir, path.Base(real), want)
}

func contentAt(ctx context.Context, dir int, name string, want func(size int64) (bool, error)) (Content, error) {
	info, err := statAt(dir, name)
	if err != nil || info.Mode.IsDir() || !info.Mode.IsRegular() {
		return Content{Folder: err == nil && info.Mode.IsDir()}, err
	}
	read, err := want(info.Size)
	if err != nil || !read {
		return Content{Size: info.Size}, err
	}
	fd, err := retry(func() (int, error) {
		return unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return Content{}, err
	}
	file := os.NewFile(uintptr(fd), name)
	defer func() { _ = file.Close() }() // nothing was written
	if opened, err := statFD(fd, name); err != nil || !opened.Mode.IsRegular() {
		return Content{}, errors.Join(err, errSwapped)
	}
	h := sha256.New()
	n, err := io.Copy(h, walk.Reader(ctx, io.LimitReader(file, info.Size+1)))
	if err == nil && n != info.Size {
		err = fault.New(fault.Conflict, "the file %s changes while it is read", quote(name))
	}
	return Content{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// Moment is a time by the clock that files are stamped with.
type Moment struct{ at time.Time }

// Now is the present moment: later writes are stamped with it or with a later one.
func Now() Moment { return Moment{stampClock()} }

// ChangedSince lists the regular files at and below absolute paths without links that were
// written, moved or linked since a moment: a process can set all times of a file but the one of
// its last change. It calls each with their paths, in any order, and fails if it cannot look at
// everything.
func ChangedSince(ctx context.Context, roots []string, since Moment, each func(path string) error) error {
	left, told := walk.Most(), walk.Most()
	for _, root := range roots {
		c := changes{since: since, top: root, each: func(path string) error {
			if told.Take(1, len(path)) != nil {
				return tooMuch(root)
			}
			return each(path)
		}}
		err := c.below(ctx, left)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// changes finds the changed files at and below one path.
type changes struct {
	since  Moment
	top    string
	each   func(path string) error
	missed error // why the first folder was left out
}

// below looks at the path, and through the folder if it is one.
func (c *changes) below(ctx context.Context, left *walk.Budget) error {
	dir, err := openDir(path.Dir(c.top))
	if err != nil {
		return err
	}
	info, err := statAt(dir, path.Base(c.top))
	closeFD(dir)
	if err != nil || !info.Mode.IsDir() {
		return cmp.Or(err, c.tell(c.top, info))
	}
	root, err := os.OpenRoot(c.top)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // only read
	if opened, err := root.Stat("."); err != nil || !info.is(opened) {
		return errors.Join(err, errSwapped)
	}
	w := walk.Walk{Top: c.top, Names: left.Names, Visit: c.visit, Skipped: c.skipped}
	err = w.Down(ctx, root)
	left.Names = w.Names
	return cmp.Or(err, c.missed)
}

func (c *changes) visit(in *walk.Folder, name string, kind fs.FileMode) (enter bool, err error) {
	if !kind.IsRegular() {
		return true, nil
	}
	dir, err := in.Dir()
	if err != nil {
		return false, err
	}
	info, err := statAt(int(dir.Fd()), name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return false, cmp.Or(err, c.tell(path.Join(c.top, in.At(name)), info))
}

func (c *changes) tell(path string, info Info) error {
	if info.Mode.IsRegular() && !info.changed.Before(c.since.at) {
		return c.each(path)
	}
	return nil
}

func (c *changes) skipped(at string, why error) {
	switch at = path.Join(c.top, at); {
	case c.missed != nil || errors.Is(why, fs.ErrNotExist):
	case errors.Is(why, walk.ErrDeep):
		c.missed = tooDeep(at)
	case errors.Is(why, walk.ErrMany):
		c.missed = tooMuch(c.top)
	default:
		c.missed = fault.Wrap(fault.ToolFailed, why, "the folder %s cannot be looked through: %v", quote(at), wholefile.Cause(why))
	}
}

// TopMost removes the paths that are in another one of a list.
func TopMost(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.ContainsFunc(paths, func(dir string) bool { return dir != p && inside(dir, p) })
	})
}
