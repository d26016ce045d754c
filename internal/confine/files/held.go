package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// view is what absolute paths mean to a call: the host's files, or, beneath the
// workspace of a run whose writes are held, those of its layers.
type view struct {
	workspace string
	root      int // the folder that stands for the workspace, or -1
}

// shows reports whether a path is the layers' to show, not the host's.
func (v view) shows(p string) bool { return v.root >= 0 && inside(v.workspace, p) }

// rel is a path that the layers show, relative to their root.
func (v view) rel(p string) string {
	if p == v.workspace {
		return "."
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, v.workspace), "/")
}

func (v view) isPlain(p string) bool {
	if !v.shows(p) {
		return isPlain(p)
	}
	fd, err := openBeneath(v.root, v.rel(p), anyFlags)
	if err == nil {
		closeFD(fd)
	}
	return err == nil
}

func (v view) lstat(p string) (fs.FileMode, error) {
	if !v.shows(p) {
		fi, err := os.Lstat(p)
		if err != nil {
			return 0, err
		}
		return fi.Mode(), nil
	}
	i, err := statAt(v.root, v.rel(p))
	return i.Mode, err
}

func (v view) readlink(p string) (string, error) {
	if !v.shows(p) {
		return os.Readlink(p)
	}
	return readlinkAt(v.root, v.rel(p))
}

// openDir opens the folder at an absolute path through no link.
func (v view) openDir(real string) (int, error) {
	if !v.shows(real) {
		return openDir(real)
	}
	return openBeneath(v.root, v.rel(real), dirFlags)
}

// enter gives the root of the layers of a held run, else -1, until leave is
// called.
func (f *Files) enter() (root int, leave func(), err error) {
	h := f.p.Held()
	if h == nil {
		return -1, func() {}, nil
	}
	return h.Enter(context.Background()) // most operations have no context
}

func (f *Files) openDir(real string) (int, error) {
	root, leave, err := f.enter()
	if err != nil {
		return -1, err
	}
	defer leave()
	return view{f.env.Workspace, root}.openDir(real)
}

func (f *Files) resolve(clean string) (string, error) {
	root, leave, err := f.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	return resolve(f.env, view{f.env.Workspace, root}, clean)
}

// heldBack refuses writes of a held run outside of the workspace.
func (f *Files) heldBack(clean, real string) error {
	if f.p.Held() == nil || inside(f.env.Workspace, real) {
		return nil
	}
	return fault.New(fault.HandleRefused, "%s is outside the workspace, and the writes of this run are held as a changeset of the workspace", quote(Rel(f.env, clean))).
		WithHint("write inside the workspace, or run without --changeset and files.write.hold")
}

// room refuses n more bytes that a held run has none for.
func (f *Files) room(n int64) error {
	if h := f.p.Held(); h != nil {
		return h.Room(context.Background(), n) // most operations have no context
	}
	return nil
}

// keeping keeps a copy of the content at a place before act changes it.
func (f *Files) keeping(real string, dir int, name string, act func() error) error {
	k := f.p.Keeper()
	if k == nil {
		return act()
	}
	if err := k.Before(real, dir, name); err != nil {
		return err
	}
	err := act()
	return errors.Join(err, k.After(real, dir, name))
}

// keepingMove does the same for all that a move takes along, listed in all.
func (f *Files) keepingMove(src, dst *place, all []Entry, act func() error) error {
	k := f.p.Keeper()
	if k == nil {
		return act()
	}
	each := func(tell func(string, int, string) error) error {
		var errs []error
		for _, e := range all {
			for _, real := range []string{e.real, path.Clean(dst.real + strings.TrimPrefix(e.real, src.real))} {
				err := f.tellAt(real, tell)
				if err != nil {
					errs = append(errs, err)
				}
			}
		}
		return errors.Join(errs...)
	}
	if err := each(k.Before); err != nil {
		return err
	}
	err := act()
	return errors.Join(err, each(k.After))
}

// tellAt tells a keeper of a path; a name in a folder that is not there is
// nothing, in any folder.
func (f *Files) tellAt(real string, tell func(string, int, string) error) error {
	fd, err := f.openDir(path.Dir(real))
	if errors.Is(err, fs.ErrNotExist) || notDir(err) {
		if fd, err = f.openDir("/"); err == nil {
			defer closeFD(fd)
			return tell(real, fd, absentName)
		}
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return tell(real, fd, path.Base(real))
}

// absentName is a name that no folder has.
const absentName = ".remit-7f3a9c51-no-such-name"

// moveTree moves a folder name by name, as an overlay cannot rename folders.
func (f *Files) moveTree(src, dst *place, all []Entry) error {
	to := func(e Entry) string { return path.Clean(dst.real + strings.TrimPrefix(e.real, src.real)) }
	for _, e := range all {
		if err := f.moveEntry(e, to(e)); err != nil {
			return err
		}
	}
	for n := len(all) - 1; n >= 0; n-- {
		e := all[n]
		if !e.Mode.IsDir() {
			continue
		}
		fd, err := f.openDir(path.Dir(e.real))
		if err != nil {
			return err
		}
		err = unix.Unlinkat(fd, path.Base(e.real), unix.AT_REMOVEDIR)
		closeFD(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) moveEntry(e Entry, to string) error {
	into, err := f.openDir(path.Dir(to))
	if err != nil {
		return err
	}
	defer closeFD(into)
	if e.Mode.IsDir() {
		if err := unix.Mkdirat(into, path.Base(to), 0o700); err != nil {
			return err
		}
		return unix.Fchmodat(into, path.Base(to), uint32(e.Mode.Perm()), 0)
	}
	from, err := f.openDir(path.Dir(e.real))
	if err != nil {
		return err
	}
	defer closeFD(from)
	return renameNew(from, path.Base(e.real), into, path.Base(to))
}
