package files

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

const plain = unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// dirFlags opens a folder to act in it: search permission is enough.
const dirFlags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOFOLLOW

// anyFlags opens anything, to look at.
const anyFlags = unix.O_PATH

// openDir opens the folder at an absolute path without going through any
// symbolic link.
func openDir(real string) (int, error) {
	// O_NOFOLLOW would open a final link itself, and report it as no folder.
	fd, err := openat2(real, dirFlags&^unix.O_NOFOLLOW)
	if unsupported(err) {
		return walkDir(real)
	}
	return fd, err
}

// isPlain reports that p exists and that no part of it is a link. It is a
// shortcut: false says nothing.
func isPlain(p string) bool {
	fd, err := openat2(p, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	closeFD(fd)
	return true
}

func openat2(p string, flags uint64) (int, error) { return openHow(unix.AT_FDCWD, p, flags, plain) }

// openBeneath opens what a relative path leads to from an open folder, through
// no link and on no other file system.
func openBeneath(root int, rel string, flags uint64) (int, error) {
	return openHow(root, rel, flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC, plain|unix.RESOLVE_BENEATH|unix.RESOLVE_NO_XDEV)
}

func openHow(at int, p string, flags, resolve uint64) (int, error) {
	for {
		fd, err := unix.Openat2(at, p, &unix.OpenHow{Flags: flags, Resolve: resolve})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

// unsupported tells an old kernel or a filter that knows no openat2.
func unsupported(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM)
}

// renameNew renames within the two folders; it fails with EEXIST where the new
// name is taken.
func renameNew(fromDir int, from string, toDir int, to string) error {
	err := unix.Renameat2(fromDir, from, toDir, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return renameByLink(fromDir, from, toDir, to)
	}
	return err
}

// onProc reports whether a link-free folder is on a process file system.
func onProc(dir string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path.Clean(dir), &st); err != nil {
		return true // if the file system is unknown, do not follow
	}
	return st.Type == unix.PROC_SUPER_MAGIC
}
