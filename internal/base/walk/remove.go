package walk

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Remove removes a path with all that is in it, also folders that are closed to
// their owner. A path that is not there is removed already.
func Remove(name string) error {
	name = filepath.Clean(name)
	parent, err := os.OpenRoot(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // it was only used
	return RemoveIn(parent, filepath.Base(name))
}

// RemoveIn is Remove for a name in an open folder.
func RemoveIn(dir *os.Root, name string) error { return (&remover{}).name(dir, name, 0) }

// remover removes one tree. Folders below maxOpen others are moved up into the first one.
type remover struct {
	top *os.File
}

func (r *remover) name(dir *os.Root, name string, depth int) error {
	err := dir.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	st, lerr := dir.Lstat(name)
	if lerr != nil || !st.IsDir() {
		return err
	}
	if st.Mode()&0o700 != 0o700 {
		_ = dir.Chmod(name, 0o700) // opening it tells
	}
	if depth == maxOpen {
		return r.moveUp(dir, name)
	}
	sub, err := Enter(dir, name)
	if err != nil {
		return err
	}
	err = r.empty(sub, depth)
	if err := errors.Join(err, sub.Close()); err != nil {
		return err
	}
	return dir.Remove(name)
}

// empty removes all names in a folder. It returns the first error after the pass in which it occurred.
func (r *remover) empty(dir *os.Root, depth int) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if depth == 0 {
		r.top = f
	}
	for {
		seen, err := r.pass(dir, f, depth)
		if err != nil || seen == 0 {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
}

// pass lists a folder once and removes what it finds.
func (r *remover) pass(dir *os.Root, f *os.File, depth int) (seen int, err error) {
	for {
		names, end := f.Readdirnames(batch)
		seen += len(names)
		for _, name := range names {
			if failed := r.name(dir, name, depth+1); err == nil {
				err = failed
			}
		}
		if errors.Is(end, io.EOF) {
			return seen, err
		}
		if end != nil {
			return seen, end
		}
	}
}

// moveUp moves a folder into the first one, where a later pass removes it.
func (r *remover) moveUp(dir *os.Root, name string) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only used
	return unix.Renameat(int(f.Fd()), name, int(r.top.Fd()), rand.Text())
}
