package wholefile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Pin asks all of Remit's processes to keep a file or folder under its name, until the
// descriptor is closed. A mount of a running sandbox hangs on that name: the kernel takes
// the mount away when the name is replaced, moved or removed. Pins are shared locks of one
// byte far behind the end, so they end with their process.
func Pin(name string) (fd int, err error) {
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, err
	}
	_ = lockPin(fd) // where another program has it locked, the sandbox's watch is left
	return fd, nil
}

// Pinned reports whether a name in an open folder is pinned, or locked by another program.
// It is then written in place.
func Pinned(dir int, name string) bool {
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written to it
	return hasPin(fd)
}

// PinnedPath is Pinned for a path.
func PinnedPath(name string) bool { return Pinned(unix.AT_FDCWD, name) }

// Rename puts a new file in the place of another one. A pinned file gets the content instead.
func Rename(temp, name string) error {
	if !PinnedPath(name) {
		return os.Rename(temp, name)
	}
	b, err := os.ReadFile(temp)
	if err == nil {
		err = overwrite(name, b)
	}
	return errors.Join(err, os.Remove(temp))
}

// Overwrite replaces the content of an open file in place. A reader can see a part of it.
func Overwrite(f *os.File, b []byte) error {
	_, err := f.WriteAt(b, 0)
	return errors.Join(err, f.Truncate(int64(len(b))), f.Sync())
}

// overwrite is Overwrite for the name of a file that is there.
func overwrite(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(Overwrite(f, b), f.Close())
}
