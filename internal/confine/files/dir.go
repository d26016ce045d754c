package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// maxEntries bounds how many names of one folder are held.
const maxEntries = 1_000_000

// Entry is one name in a folder.
type Entry struct {
	Info
	Path   string // as shown: relative to the workspace, or absolute
	Target string // of a link, as written
	abs    string
	real   string
}

// Listing is what a folder shows under the policy.
type Listing struct {
	Entries []Entry // sorted by name, byte by byte
	Denied  int     // names that policy keeps out
}

// ReadDir lists a folder. Names that policy does not let be read, and links
// that lead where it does not, are only counted.
func (f *Files) ReadDir(ctx context.Context, asked string) (Listing, error) {
	var l Listing
	err := f.at(how{kind: tool.FileRead, follow: true}, asked, func(pl *place) error {
		var err error
		l, err = f.list(ctx, pl, tool.FileRead)
		return err
	})
	if err == nil {
		f.note(tool.FSRead, f.abs(asked), 0)
	}
	return l, err
}

// list reads the folder at pl and decides every name in it.
func (f *Files) list(ctx context.Context, pl *place, kinds ...tool.ActionKind) (Listing, error) {
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
	names, err := f.names(ctx, pl, dir)
	if err != nil {
		return l, err
	}
	for i, name := range names {
		if i%256 == 0 && ctx.Err() != nil {
			return l, cancelled(ctx)
		}
		e, err := f.entry(pl, fd, name, kinds)
		switch {
		case errors.Is(err, fs.ErrNotExist): // gone since
		case err != nil:
			l.Denied++
		default:
			l.Entries = append(l.Entries, e)
		}
	}
	return l, nil
}

func (f *Files) names(ctx context.Context, pl *place, dir *os.File) ([]string, error) {
	var names []string
	for {
		if ctx.Err() != nil {
			return nil, cancelled(ctx)
		}
		more, err := dir.Readdirnames(1024)
		names = append(names, more...)
		if err == io.EOF || err == nil && len(more) == 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		if len(names) > maxEntries {
			return nil, fault.New(fault.LimitReached, "%s has more than %d entries", quote(Rel(f.env, pl.path)), maxEntries)
		}
	}
	slices.Sort(names)
	return names, nil
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

// Walk visits what is beneath a folder in the order of its paths, folders
// before what they hold; links are visited, not followed. denied says how many
// names policy kept out so far. fs.SkipAll from visit ends the walk.
func (f *Files) Walk(ctx context.Context, asked string, visit func(e Entry) error) (denied int, err error) {
	l, err := f.ReadDir(ctx, asked)
	if err != nil {
		return 0, err
	}
	denied, err = f.walk(ctx, l, visit)
	if errors.Is(err, fs.SkipAll) {
		err = nil
	}
	return denied, err
}

func (f *Files) walk(ctx context.Context, l Listing, visit func(e Entry) error) (int, error) {
	denied := l.Denied
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
		sub, err := f.ReadDir(ctx, e.abs)
		if err != nil && !f.p.Live() {
			return denied, err
		}
		if err != nil {
			denied++ // swapped, gone or unreadable since
			continue
		}
		n, err := f.walk(ctx, sub, visit)
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
