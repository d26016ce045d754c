package changeset

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/remitrun/remit/internal/wholefile"
	"golang.org/x/sys/unix"
)

// blobs keeps contents under their hash, in a folder that only Remit sees.
type blobs struct {
	dir string
	// volatile: what is kept need not survive a loss of power by itself, because
	// of the settings or because settle follows.
	volatile bool
}

func (b blobs) file(hash string) string { return filepath.Join(b.dir, hash[:2], hash) }

func (b blobs) has(hash string) bool {
	_, err := os.Lstat(b.file(hash))
	return err == nil
}

// keep copies an open file's content and gives its hash and size.
func (b blobs) keep(from int) (hash string, size int64, err error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", 0, err
	}
	tmp := filepath.Join(b.dir, "new-"+rand.Text())
	out, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", 0, err
	}
	hash, size, err = hashOf(from, int(out.Fd()))
	if err == nil {
		err = own(from, int(out.Fd()))
	}
	if err == nil && !b.volatile {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = b.place(tmp, hash)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error is the one to tell
		return hash, size, err
	}
	if !b.volatile {
		err = wholefile.SyncFolder(filepath.Dir(b.file(hash)))
	}
	return hash, size, err
}

// link keeps a file that is about to be replaced or deleted by a further name
// of it, where that can be: nothing is copied.
func (b blobs) link(dir int, name, hash string) bool {
	to := b.file(hash)
	err := unix.Linkat(dir, name, unix.AT_FDCWD, to, 0)
	if errors.Is(err, unix.ENOENT) {
		if os.MkdirAll(filepath.Dir(to), 0o700) == nil {
			err = unix.Linkat(dir, name, unix.AT_FDCWD, to, 0)
		}
	}
	return err == nil
}

// place gives a finished copy its name.
func (b blobs) place(tmp, hash string) error {
	to := b.file(hash)
	err := os.Rename(tmp, to)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(filepath.Dir(to), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Rename(tmp, to)
		}
	}
	return err
}

// open gives a kept content back.
func (b blobs) open(hash string) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Open(b.file(hash), unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, fmt.Errorf("the copy of %s is gone: %w", hash, err)
	}
	return fd, nil
}

// settle makes what was kept survive a loss of power.
func (b blobs) settle() error {
	fd, err := rootFolder(b.dir)
	if errors.Is(err, unix.ENOENT) {
		return nil // nothing was ever kept
	}
	if err != nil {
		return err
	}
	defer shut(fd)
	return settle(fd)
}
