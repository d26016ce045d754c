package seatbelt

import (
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canonical is the path by which the kernel knows a file: without links, and in the case
// of letters that the disk has. Seatbelt compares with that path.
func canonical(p string) (string, error) {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return "", err
	}
	fd, err := unix.Open(real, unix.O_EVTONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return real, nil // it cannot be opened, so it cannot be shown under another name
	}
	defer func() { _ = unix.Close(fd) }() // nothing was written
	buf := make([]byte, unix.PathMax)
	if _, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_GETPATH, uintptr(unsafe.Pointer(&buf[0]))); e != 0 {
		return "", e
	}
	return unix.ByteSliceToString(buf), nil
}
