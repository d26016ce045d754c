package changeset

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/wholefile"
)

// blobs keeps contents under their hash, in a folder that only Remit sees.
type blobs struct {
	dir string
	// volatile: copies need not survive a loss of power by itself, because
	// of the settings or because settle follows.
	volatile bool
}

func (b blobs) file(hash string) string { return filepath.Join(b.dir, hash[:2], hash) }

// has reports whether a file's content is kept. The copy may be the
// earlier file, changed later by a process that had it open. It does not count then.
func (b blobs) has(n Node) bool {
	fi, err := os.Lstat(b.file(n.Hash))
	return err == nil && fi.Size() == n.Size
}

// keep copies an open file's content and gives its hash and size.
func (b blobs) keep(from int) (hash string, size int64, err error) {
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return "", 0, err
	}
	tmp := filepath.Join(b.dir, unfinished+rand.Text())
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

// lent is a further name of a file that a job is about to replace or delete. It
// is not a copy yet: writing to the file in place changes both.
func (b blobs) lent(job string, s Step) string {
	sum := sha256.Sum256([]byte(s.Path))
	return filepath.Join(b.dir, s.From.Hash[:2], unfinished+job+"."+hex.EncodeToString(sum[:16]))
}

// unfinished is the prefix of names that are not copies yet.
const unfinished = "new-"

// lentTo gives the job that a name was lent to, "" if it is none of lent.
func lentTo(name string) string {
	job, _, ok := strings.Cut(strings.TrimPrefix(name, unfinished), ".")
	if !ok {
		return ""
	}
	return job
}

// lend gives a file that will go a further name, where that can be: nothing is
// copied.
func (b blobs) lend(dir int, name, job string, s Step) bool {
	to := b.lent(job, s)
	err := unix.Linkat(dir, name, unix.AT_FDCWD, to, 0)
	if errors.Is(err, unix.ENOENT) {
		if os.MkdirAll(filepath.Dir(to), 0o700) == nil {
			err = unix.Linkat(dir, name, unix.AT_FDCWD, to, 0)
		}
	}
	return err == nil
}

// adopt keeps a lent file, once another file has its place: the file itself if it has
// no other name and was not written to since was, and otherwise a copy. If was is not
// known, the file is read. Content that was written over in the
// meantime is lost, as an undo will say.
func (b blobs) adopt(job string, s Step, was key) error {
	name := b.lent(job, s)
	st, err := statAt(unix.AT_FDCWD, name)
	if errors.Is(err, unix.ENOENT) {
		return nil // it was copied, or adopted before a crash
	}
	if err != nil {
		return err
	}
	now := keyOf(&st)
	now.Changed = was.Changed // a name went
	if st.Nlink == 1 && now == was {
		return b.place(name, s.From.Hash)
	}
	fd, err := openFile(unix.AT_FDCWD, name, &st)
	if err != nil {
		return err
	}
	defer shut(fd)
	if _, _, err := b.keep(fd); err != nil {
		return err
	}
	return os.Remove(name)
}

// giveBack gives a file that was lent its name in an open folder again, with
// all that was written to it since.
func (b blobs) giveBack(job string, s Step, dir int, name string) bool {
	return unix.Linkat(unix.AT_FDCWD, b.lent(job, s), dir, name, 0) == nil
}

// drop forgets the lent files.
func (b blobs) drop(job string, s Step) error {
	err := os.Remove(b.lent(job, s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was copied, or nothing was to be kept
	}
	return err
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

// sound reports whether a file's content is kept as it was.
func (b blobs) sound(n Node) bool {
	fd, err := b.open(n.Hash)
	if err != nil {
		return false
	}
	defer shut(fd)
	hash, size, err := hashOf(fd, -1)
	return err == nil && hash == n.Hash && size == n.Size
}

// sync makes one kept content survive a loss of power.
func (b blobs) sync(hash string) error {
	fd, err := b.open(hash)
	if err != nil {
		return err
	}
	defer shut(fd)
	if err := unix.Fsync(fd); err != nil {
		return err
	}
	return wholefile.SyncFolder(filepath.Dir(b.file(hash)))
}

// settle makes the kept files survive a loss of power.
func (b blobs) settle() error {
	fd, err := rootFolder(b.dir)
	if errors.Is(err, unix.ENOENT) {
		return nil // nothing was ever kept
	}
	if err != nil {
		return err
	}
	defer shut(fd)
	return wholefile.Settle(fd)
}
