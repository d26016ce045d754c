//go:build linux && (amd64 || arm64)

package supervisor

import (
	"strings"

	"golang.org/x/sys/unix"
)

// maxAttribute bounds the value of an extended attribute, and a list of names, as the kernel does.
const maxAttribute = 64 << 10

// setAttribute is setxattr(2) and the like.
func (c *call) setAttribute(to place, errno unix.Errno) (int, unix.Errno) {
	name, nerrno := c.path(1)
	size, flags := c.n.Args[3], int(c.n.Args[4])
	switch {
	case errno != 0:
	case nerrno != 0:
		errno = nerrno
	case size > maxAttribute:
		errno = unix.E2BIG
	case to.is(unix.S_IFLNK):
		errno = unix.EPERM // links have none of the user's
	}
	value := make([]byte, min(size, maxAttribute))
	if errno == 0 && size > 0 {
		n, err := unix.ProcessVMReadv(int(c.n.PID), []unix.Iovec{{Base: &value[0], Len: size}}, []unix.RemoteIovec{{Base: uintptr(c.n.Args[2]), Len: int(size)}}, 0)
		if err != nil || n != int(size) {
			errno = unix.EFAULT
		}
	}
	return c.change(Change, to, errno, func(self string) error { return unix.Setxattr(self, name, value, flags) })
}

func (c *call) removeAttribute(to place, errno unix.Errno) (int, unix.Errno) {
	name, nerrno := c.path(1)
	switch {
	case errno != 0:
	case nerrno != 0:
		errno = nerrno
	case to.is(unix.S_IFLNK):
		errno = unix.EPERM
	}
	return c.change(Change, to, errno, func(self string) error { return unix.Removexattr(self, name) })
}

// getAttribute is getxattr(2) and lgetxattr(2). A file that may not be read has no attributes: many programs that only list a
// folder ask for them, so that is not told as a refusal.
func (c *call) getAttribute(to place, errno unix.Errno) (int, unix.Errno) {
	name, nerrno := c.path(1)
	if errno == 0 {
		errno = nerrno
	}
	return c.tellAttribute(to, errno, 2, unix.ENODATA, func(into []byte) (int, error) {
		if to.is(unix.S_IFLNK) {
			return 0, unix.ENODATA // links have none of the user's
		}
		return unix.Getxattr(fdPath(to.fd), name, into)
	})
}

// listAttributes is listxattr(2) and llistxattr(2).
func (c *call) listAttributes(to place, errno unix.Errno) (int, unix.Errno) {
	return c.tellAttribute(to, errno, 1, 0, func(into []byte) (int, error) {
		if to.is(unix.S_IFLNK) {
			return 0, nil
		}
		return unix.Listxattr(fdPath(to.fd), into)
	})
}

// tellAttribute writes what get returns to the memory that an argument stands for, of the size in the next one. hidden is the
// error where the file may not be read.
func (c *call) tellAttribute(to place, errno unix.Errno, arg int, hidden unix.Errno, get func(into []byte) (int, error)) (int, unix.Errno) {
	var where string
	if errno == 0 {
		where, errno = c.where(to)
	}
	if errno != 0 {
		return -1, errno
	}
	for _, p := range []string{where, strings.TrimSuffix(where, deleted)} {
		if p != "" && p[0] == '/' && c.Decide(Request{Act: Read, Path: p, PID: int(c.n.PID)}) != nil {
			return -1, hidden
		}
	}
	size := min(c.n.Args[arg+1], maxAttribute)
	into := make([]byte, size)
	n, err := get(into)
	if err != nil {
		return -1, errnoOf(err)
	}
	if errno = c.still(); errno != 0 {
		return -1, errno
	}
	if size > 0 && n > 0 {
		wrote, err := unix.ProcessVMWritev(int(c.n.PID), []unix.Iovec{{Base: &into[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(c.n.Args[arg]), Len: n}}, 0)
		if err != nil || wrote != n {
			return -1, unix.EFAULT
		}
	}
	c.listener.give(c.n, int64(n))
	return -1, errLater
}
