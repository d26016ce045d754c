// Package walk goes through folders with hostile content, and removes them. It
// bounds memory and open files for any tree of folders, and follows no link.
// Start at [Walk.Down] and [Remove].
package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

const (
	// MaxPath is how many bytes a path has at most.
	MaxPath = 4095

	maxOpen  = 128  // folders that are open at the same time, one in the other
	maxLater = 4096 // folders that wait until their parents are closed
	batch    = 256  // names that are read at a time
)

// Reasons for which a folder is not entered.
var (
	ErrDeep = errors.New("its path is longer than a path can be")
	ErrMany = errors.New("there are too many names")
)

// Folder is a folder on the way. It is opened when it is needed.
type Folder struct {
	Path string // from where the walk began, with slashes; "." is that folder
	name string
	in   *Folder // nil: root is open
	root *os.Root
	dir  *os.File
}

// At is the path of a name in the folder.
func (f *Folder) At(name string) string { return path.Join(f.Path, name) }

// Root opens the folder, to be used with single names until the walk leaves it.
func (f *Folder) Root() (*os.Root, error) {
	if f.root != nil {
		return f.root, nil
	}
	in, err := f.in.Root()
	if err != nil {
		return nil, err
	}
	f.root, err = Enter(in, f.name)
	return f.root, err
}

// Dir opens the folder for calls that take a descriptor, until the walk leaves it.
func (f *Folder) Dir() (*os.File, error) {
	if f.dir != nil {
		return f.dir, nil
	}
	root, err := f.Root()
	if err == nil {
		f.dir, err = root.Open(".")
	}
	return f.dir, err
}

func (f *Folder) close() {
	if f.dir != nil {
		_ = f.dir.Close() // it was only read
	}
	if f.root != nil && f.in != nil {
		_ = f.root.Close() // it was only used
	}
}

// Walk is a way through a folder and those in it.
type Walk struct {
	Top   string // the path of the first folder: with it, no path is longer than MaxPath
	Names int    // how many names are looked at

	// Visit looks at one name. enter has effect on folders only. An error ends the walk.
	Visit func(in *Folder, name string, kind fs.FileMode) (enter bool, err error)
	// Skipped is told the folders that are not looked into: for ErrDeep, ErrMany, or
	// because they cannot be opened or read.
	Skipped func(at string, why error)
	// Sort has the names of a folder visited in order. The names of the folders that the walk
	// is in are taken from this budget. It may be nil.
	Sort *Budget

	later []string // folders below maxOpen others
}

// Down looks through root and the folders in it. The error is that of ctx or of Visit.
func (w *Walk) Down(ctx context.Context, root *os.Root) error {
	if err := w.folder(ctx, &Folder{Path: ".", root: root}, 0); err != nil {
		return err
	}
	for len(w.later) > 0 {
		at := w.later[len(w.later)-1]
		w.later = w.later[:len(w.later)-1]
		dir, err := EnterPath(root, at)
		if err != nil {
			w.Skipped(at, err)
			continue
		}
		err = errors.Join(w.folder(ctx, &Folder{Path: at, root: dir}, 0), dir.Close())
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *Walk) folder(ctx context.Context, in *Folder, depth int) error {
	defer in.close()
	f, err := in.Dir()
	if err != nil {
		w.Skipped(in.Path, err)
		return ctx.Err()
	}
	if w.Sort != nil {
		return w.sorted(ctx, in, f, depth)
	}
	return w.list(ctx, in, f, depth)
}

// sorted visits the names of an open folder in order.
func (w *Walk) sorted(ctx context.Context, in *Folder, f *os.File, depth int) error {
	left := *w.Sort
	defer func() { *w.Sort = left }()
	entries, err := Entries(ctx, f, w.Sort)
	if w.Names -= len(entries); w.Names < 0 && err == nil {
		err = ErrMany
	}
	if ctx.Err() == nil && err != nil {
		w.Skipped(in.Path, err)
	}
	for _, e := range entries {
		if err != nil {
			return ctx.Err()
		}
		if err := w.name(ctx, in, e.Name(), e.Type(), depth); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// list visits the names of an open folder.
func (w *Walk) list(ctx context.Context, in *Folder, f *os.File, depth int) error {
	for {
		entries, end := f.ReadDir(batch)
		if w.Names -= len(entries); w.Names < 0 {
			w.Skipped(in.Path, ErrMany)
			return ctx.Err()
		}
		for _, e := range entries {
			if err := w.name(ctx, in, e.Name(), e.Type(), depth); err != nil {
				return err
			}
		}
		if errors.Is(end, io.EOF) {
			return ctx.Err()
		}
		if end != nil {
			w.Skipped(in.Path, end)
			return ctx.Err()
		}
	}
}

// name visits one name, and goes into it if it is a folder to be entered.
func (w *Walk) name(ctx context.Context, in *Folder, name string, kind fs.FileMode, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	enter, err := w.Visit(in, name, kind)
	if err != nil || !enter || !kind.IsDir() {
		return err
	}
	at := in.At(name)
	switch {
	case len(w.Top)+1+len(at) > MaxPath:
		w.Skipped(at, ErrDeep)
	case depth == maxOpen && len(w.later) == maxLater:
		w.Skipped(at, ErrMany)
	case depth == maxOpen:
		w.later = append(w.later, at)
	default:
		return w.folder(ctx, &Folder{Path: at, name: name, in: in}, depth+1)
	}
	return nil
}

// Enter opens a folder in a folder, and no link.
func Enter(dir *os.Root, name string) (*os.Root, error) {
	before, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	after, err := sub.Stat(".")
	if err != nil || !before.IsDir() || !os.SameFile(before, after) {
		_ = sub.Close() // only looked at
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.ENOTDIR}
	}
	return sub, nil
}

// EnterPath opens a folder some levels below another one, through no link. The path
// is clean and has slashes.
func EnterPath(root *os.Root, at string) (*os.Root, error) {
	dir := root
	for name := range strings.SplitSeq(at, "/") {
		sub, err := Enter(dir, name)
		if dir != root {
			_ = dir.Close() // only looked at
		}
		if err != nil {
			return nil, err
		}
		dir = sub
	}
	return dir, nil
}
