package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Content identifies what is at a path: the size and the SHA-256 of a regular file, or a folder.
type Content struct {
	Folder bool
	Size   int64
	SHA256 string // hexadecimal; "": it was not computed
}

// ContentIn tells what is at an absolute path without links, as a run with held writes sees it.
// It reads a regular file only if want says so for its size. Nothing there is fs.ErrNotExist.
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
	n, err := io.Copy(h, untilDone{ctx, io.LimitReader(file, info.Size+1)})
	if err == nil && n != info.Size {
		err = fault.New(fault.Conflict, "the file %s changes while it is read", quote(name))
	}
	return Content{Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// Moment is a time by the clock that files are stamped with.
type Moment struct{ at time.Time }

// Now is the present moment: what is written from now on is stamped with it or with a later one.
func Now() Moment { return Moment{stampClock()} }

// maxWalked bounds the names that ChangedSince looks at.
const maxWalked = 1_000_000

// ChangedSince lists the regular files at and below absolute paths without links that were
// written, moved or linked since a moment: a process can set all times of a file but the one of
// its last change. It calls each with their paths, and fails if it cannot look at everything.
func ChangedSince(ctx context.Context, roots []string, since Moment, each func(path string) error) error {
	walked := 0
	for _, root := range roots {
		err := filepath.WalkDir(root, func(p string, _ fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				err = ctx.Err()
			}
			if walked++; err == nil && walked > maxWalked {
				err = fault.New(fault.LimitReached, "there are more than %d files below %s", maxWalked, quote(root))
			}
			if err != nil {
				return err
			}
			info, err := statAt(unix.AT_FDCWD, p)
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case info.Mode.IsRegular() && !info.changed.Before(since.at):
				return each(p)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// TopMost removes the paths that are in another one of a list.
func TopMost(paths []string) []string {
	slices.Sort(paths)
	paths = slices.Compact(paths)
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool {
		return slices.ContainsFunc(paths, func(dir string) bool { return dir != p && inside(dir, p) })
	})
}
