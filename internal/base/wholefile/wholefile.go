// Package wholefile reads, replaces and locks the small files that Remit keeps
// beside the ledger. Whoever reads one finds a whole version of it, whatever
// writes, dies or loses power meanwhile.
package wholefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// ErrNotRegular is the error of ReadRegular for folders, FIFOs, sockets and devices.
var ErrNotRegular = errors.New("not a regular file")

// Read reads a file, or a pipe that a person named. More than most bytes are an
// error.
func Read(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readAll(f, st, most)
}

// ReadRegular is Read for a file that somebody else may have put there: a FIFO
// must not hold the reader up.
func ReadRegular(name string, most int64) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EOPNOTSUPP) { // a socket
		err = ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	return readAll(f, st, most)
}

func readAll(f *os.File, st os.FileInfo, most int64) ([]byte, error) {
	var b bytes.Buffer
	if st.Mode().IsRegular() {
		b.Grow(int(min(st.Size(), most)) + bytes.MinRead) // to be read in one go
	}
	_, err := b.ReadFrom(io.LimitReader(f, most+1))
	if err == nil && int64(b.Len()) > most {
		err = fmt.Errorf("the file is larger than %d bytes", most)
	}
	return b.Bytes(), err
}

// Replace replaces the file's content by b, or leaves it unchanged. Only the file's owner can read
// it. Once Replace returns, a loss of power undoes nothing.
func Replace(name string, b []byte) error { return ReplaceMode(name, b, 0o600) }

// ReplaceMode is [Replace] for a file with another mode.
func ReplaceMode(name string, b []byte, mode os.FileMode) error {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncFolder(dir)
}

// SyncFolder makes the names in a folder survive a loss of power.
func SyncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) { // a file system that cannot
		err = nil
	}
	return errors.Join(err, d.Close())
}

// Lock waits until nobody else, in this process or another, holds the lock that a
// file stands for. The file and its folder are made; they stay. A process that
// ends lets go of its locks.
func Lock(name string) (unlock func(), err error) { return lock(name, unix.LOCK_EX) }

// TryLock is Lock, but does not wait: unlock is nil while somebody else holds the lock.
func TryLock(name string) (unlock func(), err error) {
	unlock, err = lock(name, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, nil
	}
	return unlock, err
}

func lock(name string, how int) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(f.Fd()), how)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("it cannot be locked: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil // nothing was written to it
}

// Cause drops the path from a file error, for a message that names the path already.
func Cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Exists reports whether a file exists. Any doubt counts as yes.
func Exists(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
