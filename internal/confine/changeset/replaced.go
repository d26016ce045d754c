package changeset

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/walk"
)

// The bounds of the copies for one command.
const (
	maxKept      = 2000     // names
	maxKeptFile  = 16 << 20 // bytes of one file
	maxKeptBytes = 64 << 20 // bytes of all
)

// replaced are the names that commands may have changed since the last Kept.
type replaced struct {
	mu    sync.Mutex
	names map[string]bool // absolute paths
	bytes int64           // of the files among them
	full  bool            // a further name was left out
}

// Keep copies the file at an absolute path without links, or notes its state, before a command changes it. The command goes
// on also without a copy: [Home.Undo] lists these paths. A loss of power may lose the copies.
func (l *Log) Keep(real string) {
	l.replaced.mu.Lock()
	defer l.replaced.mu.Unlock()
	if !l.over() {
		l.keep(real)
	}
}

// over reports whether the run has ended. Its processes may go on.
func (l *Log) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// KeepMoved is Keep for a file or a folder with all that is in it, before it gets another path.
func (l *Log) KeepMoved(from, to string) {
	l.replaced.mu.Lock()
	defer l.replaced.mu.Unlock()
	if l.over() {
		return
	}
	l.keep(from)
	l.keep(to)
	machine, err := os.OpenRoot("/")
	if err != nil {
		l.leaveOut(from)
		return
	}
	defer func() { _ = machine.Close() }() // it was only read
	root, err := walk.EnterPath(machine, strings.TrimPrefix(from, "/"))
	if err != nil {
		return // not a folder
	}
	defer func() { _ = root.Close() }() // it was only read
	w := walk.Walk{Top: from, Names: maxKept, Visit: func(in *walk.Folder, name string, _ fs.FileMode) (bool, error) {
		l.keep(path.Join(from, in.At(name)))
		l.keep(path.Join(to, in.At(name)))
		return true, nil
	}, Skipped: func(at string, _ error) { l.leaveOut(path.Join(from, at)) }}
	_ = w.Down(context.Background(), root) // neither the context nor Visit gives an error
}

// keep is Keep for a caller that has replaced.
func (l *Log) keep(real string) {
	r := &l.replaced
	dir, name := path.Split(real)
	switch {
	case r.names[real] || name == "":
		return
	case len(r.names) >= maxKept:
		if !r.full {
			r.full = true
			l.leaveOut("/")
		}
		return
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	r.names[real] = true
	fd, err := rootFolder(dir)
	if absent(err) { // a folder that is moved there brings it
		if err = l.write(line{Path: real, Before: &Node{}}, false); err != nil {
			l.leaveOut(real)
		}
		return
	}
	defer shut(fd)
	var st unix.Stat_t
	if err == nil {
		st, err = statAt(fd, name)
	}
	switch {
	case !utf8.ValidString(real): // JSON would change it
		l.leaveOut(real)
		return
	case err != nil: // nothing is there, as before tells, or nothing can be looked at
	case typeOf(&st) == Special, typeOf(&st) == File && (st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 || !r.fits(st.Size)):
		l.leaveOut(real)
		return
	}
	if err = l.before(real, fd, name, false); err != nil {
		l.leaveOut(real)
	}
}

// fits counts the bytes of a file, if a command may have them copied or read.
func (r *replaced) fits(size int64) bool {
	if size > maxKeptFile || r.bytes+size > maxKeptBytes {
		return false
	}
	r.bytes += size
	return true
}

// LeaveOut notes a folder of which nothing is kept, before a command changes something in it.
func (l *Log) LeaveOut(folder string) {
	l.replaced.mu.Lock()
	defer l.replaced.mu.Unlock()
	if r := &l.replaced; !l.over() && !r.names[folder] && len(r.names) < maxKept {
		if r.names == nil {
			r.names = map[string]bool{}
		}
		r.names[folder] = true
		_ = l.write(line{Path: folder, Lost: new(key)}, false) // without it, an undo does not list the folder
	}
}

// leaveOut notes a path that is not kept; "/": names beyond maxKept.
func (l *Log) leaveOut(real string) {
	var is key
	if st, err := statAt(unix.AT_FDCWD, real); err == nil {
		is = keyOf(&st)
	}
	_ = l.write(line{Path: real, Lost: &is}, false) // without it, an undo does not list the path
}

// Kept notes the state of all that Keep was told of, after a command. Later changes are not those of the command. Without
// these notes, an undo restores the paths only by force.
func (l *Log) Kept() {
	l.replaced.mu.Lock()
	defer l.replaced.mu.Unlock()
	names := slices.Sorted(maps.Keys(l.replaced.names))
	l.replaced.names, l.replaced.bytes, l.replaced.full = nil, 0, false
	var read replaced // the same bounds: a command can make very large files
	if len(names) == 0 {
		return
	}
	root, err := rootFolder("/")
	if err != nil {
		return
	}
	defer shut(root)
	folders := newParents(root)
	defer folders.close()
	for _, real := range names {
		dir, name, err := folders.at(strings.TrimPrefix(real, "/"))
		var st unix.Stat_t
		if err == nil {
			st, err = statAt(dir, name)
		}
		switch {
		case absent(err):
			_ = l.write(line{Path: real, After: &Node{}}, false)
		case err == nil && typeOf(&st) == File && !read.fits(st.Size):
			is := keyOf(&st)
			_ = l.write(line{Path: real, Is: &is}, false)
		case err == nil:
			_ = l.After(real, dir, name)
		}
	}
}
