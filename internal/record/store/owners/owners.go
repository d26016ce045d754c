// Package owners has a lock file for each process that uses a ledger, by which other processes of the
// home know whether it lives. The kernel frees the lock when the process ends, however it ends. Start
// at [Folder.Hold] and [Folder.Take].
package owners

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Folder has the lock files of one home.
type Folder string

// In is the folder of a home.
func In(home string) Folder { return Folder(filepath.Join(home, "owners")) }

func (d Folder) path(id uuid.UUID) string { return filepath.Join(string(d), id.String()+".lock") }

// Hold makes the locked file of this process, which closes it at its end. The file gets its name once
// it is locked, so that no other process finds it free.
func (d Folder) Hold(id uuid.UUID) (*os.File, error) {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.path(id)+".new", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		err = os.Rename(f.Name(), d.path(id))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Take takes the lock of an ended process. The lock of a living one is nil, and without a file the error
// is os.ErrNotExist.
func (d Folder) Take(id uuid.UUID) (*os.File, error) {
	for range 100 {
		f, err := os.OpenFile(d.path(id), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && isAt(f, d.path(id)) {
			return f, nil
		}
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		// Another process has removed the opened file. A living process may hold a
		// new file at the same path, so look again.
	}
	return nil, nil // in doubt the process lives
}

// Remove removes the file of a lock that this process holds.
func (d Folder) Remove(id uuid.UUID, f *os.File) error {
	if !isAt(f, d.path(id)) {
		return nil
	}
	if err := os.Remove(d.path(id)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// All lists the processes that have files.
func (d Folder) All() ([]uuid.UUID, error) {
	files, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var out []uuid.UUID
	for _, f := range files {
		name, found := strings.CutSuffix(f.Name(), ".lock")
		if id, err := uuid.Parse(name); found && err == nil && id.String() == name {
			out = append(out, id)
		}
	}
	return out, nil
}

// isAt reports whether a path names an open file.
func isAt(f *os.File, path string) bool {
	mine, ferr := f.Stat()
	there, perr := os.Stat(path)
	return ferr == nil && perr == nil && os.SameFile(mine, there)
}
