package files

import "golang.org/x/sys/unix"

// WalkDir is the way to a folder on systems without openat2, for tests.
func WalkDir(real string) error { return closing(walkDir(real)) }

// OpenDir is the usual way to a folder, for tests.
func OpenDir(real string) error { return closing(openDir(real)) }

// RenameByLink is the way to a new name on systems without renameat2, for tests.
func RenameByLink(from, to string) error {
	return renameByLink(unix.AT_FDCWD, from, unix.AT_FDCWD, to)
}

func closing(fd int, err error) error {
	if err == nil {
		closeFD(fd)
	}
	return err
}
