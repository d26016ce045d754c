package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
)

// Remove removes a file, a link (not its target) or an empty folder.
func (f *Files) Remove(asked string) error {
	return f.at(how{kind: tool.FileDelete}, asked, func(pl *place) error {
		i, err := statAt(pl.dir, pl.base)
		if err != nil {
			return err
		}
		return f.removeAt(pl, i)
	})
}

func (f *Files) removeAt(pl *place, i Info) error {
	if err := f.keep(pl); err != nil {
		return err
	}
	if pl.dirOnly && !i.Mode.IsDir() {
		return unix.ENOTDIR
	}
	if err := f.unmoved(tool.FileDelete, pl); err != nil {
		return err
	}
	flags := 0
	if i.Mode.IsDir() {
		flags = unix.AT_REMOVEDIR
	}
	err := f.keeping(pl.real, pl.dir, pl.base, func() error { return unix.Unlinkat(pl.dir, pl.base, flags) })
	switch {
	case errors.Is(err, unix.ENOTEMPTY):
		return fault.New(fault.Conflict, "the folder %s is not empty", quote(Rel(f.env, pl.path))).WithHint("remove it with recursive")
	case errors.Is(err, unix.EISDIR):
		return errSwapped
	case err == nil:
		f.note(tool.FSDelete, pl.path, i.Size)
	}
	return err
}

// keep refuses to remove or rename the workspace and what holds it.
func (f *Files) keep(pl *place) error {
	if pl.real == "/" || f.env.Workspace == pl.real || strings.HasPrefix(f.env.Workspace, pl.real+"/") {
		return fault.New(fault.HandleRefused, "%s holds the workspace, and that stays", quote(Rel(f.env, pl.path)))
	}
	return nil
}

// RemoveAll removes a file or a folder with all it holds. Everything is
// decided before anything is removed, and once more as it is removed. It gives
// how many names it removed, also when it fails halfway.
func (f *Files) RemoveAll(ctx context.Context, asked string) (removed int, err error) {
	_, leave, err := f.enter() // once for all of it
	if err != nil {
		return 0, err
	}
	defer leave()
	var all []Entry
	err = f.at(how{kind: tool.FileDelete}, asked, func(pl *place) error {
		if err := f.keep(pl); err != nil {
			return err
		}
		i, err := statAt(pl.dir, pl.base)
		if err != nil {
			return err
		}
		if pl.dirOnly && !i.Mode.IsDir() {
			return unix.ENOTDIR
		}
		all, err = f.beneath(ctx, pl, i, tool.FileDelete)
		return err
	})
	for n := len(all) - 1; n >= 0 && err == nil; n-- { // what a folder holds before the folder
		if ctx.Err() != nil {
			return removed, cancelled(ctx)
		}
		if err = f.removeEntry(all[n]); err == nil {
			removed++
		}
	}
	return removed, err
}

func (f *Files) removeEntry(e Entry) error {
	fd, err := f.openDir(path.Dir(e.real))
	if err != nil {
		return about(f.env, e.abs, err)
	}
	pl := &place{path: e.abs, real: e.real, base: path.Base(e.real), dir: fd}
	defer pl.close()
	if err := f.removeAt(pl, e.Info); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return about(f.env, e.abs, err)
	}
	return nil
}

// beneath lists a place and all it holds, folders first. It fails if policy
// denies any of it for any of the kinds.
func (f *Files) beneath(ctx context.Context, pl *place, i Info, kinds ...tool.ActionKind) ([]Entry, error) {
	all := []Entry{{Info: i, Path: Rel(f.env, pl.path), abs: pl.path, real: pl.real}}
	b := walk.Most()
	for n := 0; n < len(all); n++ { // it grows
		e := all[n]
		if !e.Mode.IsDir() {
			continue
		}
		l, err := f.listEntry(ctx, e, b, kinds)
		if err != nil {
			return nil, err
		}
		if l.deep > 0 {
			return nil, tooDeep(e.Path)
		}
		if l.Denied > 0 {
			return nil, fault.New(fault.HandleRefused, "%s holds %d entries that policy does not let be changed", quote(e.Path), l.Denied)
		}
		all = append(all, l.Entries...)
	}
	return all, nil
}

// listEntry lists the folder of an entry.
func (f *Files) listEntry(ctx context.Context, e Entry, b *walk.Budget, kinds []tool.ActionKind) (Listing, error) {
	if len(e.real) > walk.MaxPath {
		return Listing{}, tooDeep(e.Path)
	}
	dir, err := f.openDir(path.Dir(e.real))
	if err != nil {
		return Listing{}, err
	}
	pl := &place{path: e.abs, real: e.real, base: path.Base(e.real), dir: dir}
	defer pl.close()
	return f.list(ctx, pl, b, kinds...)
}

// Rename moves a file, a link or a folder. The policy must allow to read and to
// delete every moved name at its old place, and to write it at its new one. With
// overwrite a file may replace a file; nothing ever replaces a folder.
func (f *Files) Rename(ctx context.Context, from, to string, overwrite, parents bool) error {
	return f.at(how{kind: tool.FileDelete}, from, func(src *place) error {
		if err := f.check(tool.Action{Kind: tool.FileRead, Path: src.path, Real: src.real}); err != nil {
			return err
		}
		if err := f.keep(src); err != nil {
			return err
		}
		i, err := statAt(src.dir, src.base)
		if err != nil {
			return err
		}
		if t := i.Mode.Type(); t != 0 && t != fs.ModeDir && t != fs.ModeSymlink {
			return fault.New(fault.ToolFailed, "%s is a %s, which cannot be moved", quote(Rel(f.env, src.path)), TypeName(i.Mode))
		}
		return f.at(how{kind: tool.FileWrite, parents: parents}, to, func(dst *place) error {
			return f.renameAt(ctx, src, dst, i, overwrite)
		})
	})
}

func (f *Files) renameAt(ctx context.Context, src, dst *place, i Info, overwrite bool) error {
	old, err := statAt(dst.dir, dst.base)
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case exists && !overwrite:
		return fault.New(fault.Conflict, "%s exists already", quote(Rel(f.env, dst.path))).WithHint("set overwrite to replace a file")
	case exists && (old.Mode.Type()&^fs.ModeSymlink != 0 || i.Mode.IsDir()):
		return fault.New(fault.Conflict, "%s exists already, and only a file can replace a file", quote(Rel(f.env, dst.path)))
	case dst.dirOnly && !i.Mode.IsDir():
		return fault.New(fault.NotFound, "%s does not exist as a folder", quote(Rel(f.env, dst.path))).WithHint("name the new file, not its folder")
	}
	all, err := f.allowMove(ctx, src, dst, i)
	if err != nil {
		return err
	}
	if err := errors.Join(f.unmoved(tool.FileDelete, src), f.unmoved(tool.FileWrite, dst)); err != nil {
		return err
	}
	size := int64(0) // the layer gets all that moves
	for _, e := range all {
		size += e.Size
	}
	if err := f.room(size); err != nil {
		return err
	}
	now, err := statAt(src.dir, src.base)
	if err != nil || now.dev != i.dev || now.ino != i.ino {
		return errSwapped
	}
	err = f.keepingMove(src, dst, all, func() error {
		if exists {
			return unix.Renameat(src.dir, src.base, dst.dir, dst.base)
		}
		return renameNew(src.dir, src.base, dst.dir, dst.base)
	})
	if errors.Is(err, unix.EXDEV) && f.p.Held() != nil && i.Mode.IsDir() {
		err = f.moveTree(src, dst, all) // an overlay does not rename folders of its lower layer
	}
	return f.moved(src, dst, i, err)
}

func (f *Files) moved(src, dst *place, i Info, err error) error {
	switch {
	case errors.Is(err, unix.EXDEV):
		return fault.New(fault.ToolFailed, "%s and %s are on different file systems", quote(Rel(f.env, src.path)), quote(Rel(f.env, dst.path))).
			WithHint("read, write and delete instead")
	case errors.Is(err, unix.EINVAL):
		return fault.New(fault.ToolFailed, "%s cannot be moved into itself", quote(Rel(f.env, src.path)))
	case errors.Is(err, unix.EEXIST):
		return fault.New(fault.Conflict, "%s exists already", quote(Rel(f.env, dst.path)))
	case err == nil:
		f.note(tool.FSDelete, src.path, 0)
		f.note(tool.FSWrite, dst.path, i.Size)
	}
	return err
}

// allowMove decides all that a folder holds, at both of its places, and lists
// it.
func (f *Files) allowMove(ctx context.Context, src, dst *place, i Info) ([]Entry, error) {
	if !i.Mode.IsDir() {
		return []Entry{{Info: i, abs: src.path, real: src.real}}, nil
	}
	all, err := f.beneath(ctx, src, i, tool.FileRead, tool.FileDelete)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		rest := strings.TrimPrefix(e.real, src.real)
		a := tool.Action{Kind: tool.FileWrite, Path: path.Clean(dst.path + rest), Real: path.Clean(dst.real + rest)}
		if err := f.check(a); err != nil {
			return nil, err
		}
	}
	return all, nil
}
