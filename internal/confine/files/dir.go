package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
)

// tooMuch is the error for a folder with more content than an operation keeps in memory.
func tooMuch(folder string) error {
	return fault.New(fault.LimitReached, "%s has more than %d entries, or more than %d MiB of names and paths", quote(folder), walk.Most().Names, walk.Most().Bytes>>20).
		WithHint("name a folder with less in it")
}

// tooDeep is the error for a folder that cannot be opened by its path.
func tooDeep(folder string) error {
	return fault.New(fault.LimitReached, "the folder %s is deeper than a path of %d bytes can name", quote(folder), walk.MaxPath)
}

// Entry is one name in a folder.
type Entry struct {
	Info
	Path   string // as shown: relative to the workspace, or absolute
	Target string // of a link, as written
	abs    string
	real   string
}

// text is how many bytes the paths of an entry have.
func (e *Entry) text() int { return len(e.abs) + len(e.real) + len(e.Target) }

// Listing is what a folder shows under the policy.
type Listing struct {
	Entries []Entry // sorted by name, byte by byte
	Denied  int     // names that policy keeps out
	deep    int     // names among them whose path is too long
}

// ReadDir lists a folder. Names that policy does not let be read, and links
// that lead where it does not, are only counted.
func (f *Files) ReadDir(ctx context.Context, asked string) (Listing, error) {
	return f.readDir(ctx, asked, walk.Most())
}

// readDir takes what it lists from a budget.
func (f *Files) readDir(ctx context.Context, asked string, b *walk.Budget) (Listing, error) {
	var l Listing
	left := *b
	err := f.at(how{kind: tool.FileRead, follow: true}, asked, func(pl *place) error {
		var err error
		*b = left // also when it is tried again
		l, err = f.list(ctx, pl, b, tool.FileRead)
		return err
	})
	if err == nil {
		f.note(tool.FSRead, f.abs(asked), 0)
	}
	return l, err
}

// list reads the folder at pl and decides every name in it.
func (f *Files) list(ctx context.Context, pl *place, b *walk.Budget, kinds ...tool.ActionKind) (Listing, error) {
	var l Listing
	fd, err := retry(func() (int, error) {
		return unix.Openat(pl.dir, pl.base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		if notDir(err) && isLinkAt(pl.dir, pl.base) {
			return l, errSwapped
		}
		if _, serr := statAt(pl.dir, pl.base); serr == nil && notDir(err) {
			return l, fault.New(fault.ToolFailed, "%s is not a folder", quote(Rel(f.env, pl.path))).WithHint("fs.read reads files")
		}
		return l, err
	}
	dir := os.NewFile(uintptr(fd), pl.base)
	defer func() { _ = dir.Close() }() // nothing was written
	names, err := walk.Names(ctx, dir, b)
	for i, name := range names {
		if err != nil {
			break
		}
		if i%256 == 0 && ctx.Err() != nil {
			return l, cancelled(ctx)
		}
		e, gone := f.entry(pl, fd, name, kinds)
		switch {
		case errors.Is(gone, fs.ErrNotExist):
		case gone != nil:
			l.Denied++
			if len(pl.real)+1+len(name) > walk.MaxPath {
				l.deep++
			}
		default:
			l.Entries = append(l.Entries, e)
			err = b.Take(0, e.text())
		}
	}
	switch {
	case errors.Is(err, walk.ErrMany):
		return Listing{}, tooMuch(Rel(f.env, pl.path))
	case ctx.Err() != nil:
		return Listing{}, cancelled(ctx)
	}
	return l, err
}

// entry looks at one name and decides it. A link counts as where it leads.
func (f *Files) entry(pl *place, dir int, name string, kinds []tool.ActionKind) (Entry, error) {
	abs := path.Join(pl.path, name)
	e := Entry{Path: Rel(f.env, abs), abs: abs, real: path.Join(pl.real, name)}
	for _, k := range kinds {
		if err := f.check(tool.Action{Kind: k, Path: abs, Real: e.real}); err != nil {
			return e, err
		}
	}
	var err error
	if e.Info, err = statAt(dir, name); err != nil || e.Mode.Type() != fs.ModeSymlink {
		return e, err
	}
	if e.Target, err = readlinkAt(dir, name); err != nil || slices.Contains(kinds, tool.FileDelete) {
		return e, err // to remove or rename a link, its own place counts
	}
	real, err := f.resolve(abs)
	if err != nil {
		return e, about(f.env, abs, err)
	}
	return e, f.check(tool.Action{Kind: tool.FileRead, Path: abs, Real: real})
}

// Walk visits the names below a folder in the order of their paths, folders
// before their contents; links are visited, not followed. denied is the number
// of names that the policy denied so far. fs.SkipAll from visit ends the walk.
func (f *Files) Walk(ctx context.Context, asked string, visit func(e Entry) error) (denied int, err error) {
	b := walk.Most()
	l, err := f.readDir(ctx, asked, b)
	if err != nil {
		return 0, err
	}
	denied, err = f.walk(ctx, l, b, visit)
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return denied, err
}

// walk visits the entries of a listing, and the folders beneath. The budget is for the
// listings of the folders on the way.
func (f *Files) walk(ctx context.Context, l Listing, b *walk.Budget, visit func(e Entry) error) (int, error) {
	denied, left := l.Denied, *b
	for _, e := range l.Entries {
		if ctx.Err() != nil {
			return denied, cancelled(ctx)
		}
		err := visit(e)
		if errors.Is(err, fs.SkipDir) {
			continue
		}
		if err != nil {
			return denied, err
		}
		if !e.Mode.IsDir() {
			continue
		}
		*b = left
		sub, err := f.readDir(ctx, e.abs, b)
		if err != nil && (!f.p.Live() || ctx.Err() != nil || errors.Is(err, fault.LimitReached)) {
			return denied, err
		}
		if err != nil {
			denied++ // swapped, gone or unreadable since
			continue
		}
		n, err := f.walk(ctx, sub, b, visit)
		denied += n
		if err != nil {
			return denied, err
		}
	}
	return denied, nil
}

func cancelled(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.Wrap(fault.ToolTimeout, ctx.Err(), "the call's time ran out")
	}
	return fault.Wrap(fault.ToolCancelled, ctx.Err(), "the call was cancelled")
}
