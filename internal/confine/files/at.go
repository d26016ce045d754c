package files

import (
	"errors"
	"io/fs"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// walkDir opens the folder at an absolute path one name at a time, following
// no link, as openat2 does in one call.
func walkDir(real string) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open("/", dirFlags, 0) })
	if err != nil {
		return -1, err
	}
	for _, name := range split(real) {
		if name == "" || name == "." {
			continue
		}
		next, err := retry(func() (int, error) { return unix.Openat(fd, name, dirFlags, 0) })
		if errors.Is(err, unix.ENOTDIR) && isLinkAt(fd, name) {
			err = unix.ELOOP
		}
		closeFD(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

func isLinkAt(dir int, name string) bool {
	fi, err := statAt(dir, name)
	return err == nil && fi.Mode.Type() == fs.ModeSymlink
}

// renameByLink gives a file a new name that must be free. Folders cannot be
// linked: for them the check is not atomic, and an empty folder may be replaced.
func renameByLink(fromDir int, from string, toDir int, to string) error {
	err := unix.Linkat(fromDir, from, toDir, to, 0)
	if err == nil {
		return unix.Unlinkat(fromDir, from, 0)
	}
	if errors.Is(err, unix.EEXIST) {
		return err
	}
	if _, err := statAt(toDir, to); err == nil {
		return unix.EEXIST
	}
	return unix.Renameat(fromDir, from, toDir, to)
}

// Info describes a file. Mode is the mode of the name itself: a symbolic link is
// not followed.
type Info struct {
	Name     string
	Size     int64 // bytes
	Mode     fs.FileMode
	ModTime  time.Time
	Links    uint64 // hard links
	dev, ino uint64
	uid, gid int
	changed  time.Time
}

// same reports whether both are one unchanged file.
func (i Info) same(o Info) bool {
	return i.dev == o.dev && i.ino == o.ino && i.Size == o.Size && i.ModTime.Equal(o.ModTime) && i.changed.Equal(o.changed)
}

func statAt(dir int, name string) (Info, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		return Info{}, err
	}
	return infoOf(name, &st), nil
}

func statFD(fd int, name string) (Info, error) {
	var st unix.Stat_t
	_, err := retry(func() (int, error) { return 0, unix.Fstat(fd, &st) })
	if err != nil {
		return Info{}, err
	}
	return infoOf(name, &st), nil
}

// is reports whether both are the same file, whatever changed in it.
func (i Info) is(o fs.FileInfo) bool {
	st, ok := o.Sys().(*syscall.Stat_t)
	return ok && i.dev == uint64(st.Dev) && i.ino == st.Ino //nolint:unconvert // the widths differ on other systems
}

// infoOf converts; field widths differ between systems.
func infoOf(name string, st *unix.Stat_t) Info {
	//nolint:unconvert // the widths differ on other systems
	return Info{Name: name, Size: st.Size, Mode: modeOf(uint32(st.Mode)), Links: uint64(st.Nlink),
		ModTime: time.Unix(int64(st.Mtim.Sec), int64(st.Mtim.Nsec)), changed: time.Unix(int64(st.Ctim.Sec), int64(st.Ctim.Nsec)),
		dev: uint64(st.Dev), ino: st.Ino, uid: int(st.Uid), gid: int(st.Gid)}
}

func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	default:
		mode |= fs.ModeIrregular
	}
	return mode
}

func readlinkAt(dir int, name string) (string, error) {
	buf := make([]byte, MaxPath+1)
	n, err := retry(func() (int, error) { return unix.Readlinkat(dir, name, buf) })
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

func retry(do func() (int, error)) (int, error) {
	for {
		n, err := do()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// closeFD closes a descriptor that nothing was written through.
func closeFD(fd int) { _ = unix.Close(fd) }

func notDir(err error) bool { return errors.Is(err, unix.ENOTDIR) }
