//go:build linux && (amd64 || arm64)

package supervisor

import (
	"strings"

	"golang.org/x/sys/unix"
)

// spotOf reads a path and finds the folder of its last name.
func (c *call) spotOf(at, arg int) (s spot, errno unix.Errno) {
	p, errno := c.path(arg)
	if errno != 0 {
		return s, errno
	}
	base, errno := c.base(at, p)
	if errno != 0 {
		return s, errno
	}
	return c.spot(base, p)
}

// mayName is may for a name. The kernel refuses to make a name twice and to remove a missing one, so the
// policy is not asked then.
func (c *call) mayName(s spot, act Act) unix.Errno {
	if s.special() {
		return 0
	}
	_, errno := c.open(s.dir, strings.TrimRight(s.name, "/"), unix.O_NOFOLLOW)
	switch {
	case act&Remove != 0 && errno != 0:
		return errno
	case act == Create && errno == 0:
		return unix.EEXIST
	}
	return c.may(act, s.real)
}

// makeName makes a name that does not exist.
func (c *call) makeName(at, arg int, make func(s spot) error) unix.Errno {
	s, errno := c.spotOf(at, arg)
	if errno == 0 {
		errno = c.mayName(s, Create)
	}
	if errno == 0 {
		errno = c.masked()
	}
	if errno != 0 {
		return errno
	}
	return errnoOf(make(s))
}

func (c *call) mkdir(at, arg int) (int, unix.Errno) {
	mode := uint32(c.n.Args[arg+1]) & 0o7777
	return -1, c.makeName(at, arg, func(s spot) error { return unix.Mkdirat(s.dir, s.name, mode) })
}

func (c *call) mknod(at, arg int) (int, unix.Errno) {
	mode, device := uint32(c.n.Args[arg+1]), int(c.n.Args[arg+2])
	return -1, c.makeName(at, arg, func(s spot) error { return unix.Mknodat(s.dir, s.name, mode, device) })
}

func (c *call) symlink(text, at, arg int) (int, unix.Errno) {
	to, errno := c.path(text)
	switch {
	case errno != 0:
		return -1, errno
	case to == "":
		return -1, unix.ENOENT
	}
	return -1, c.makeName(at, arg, func(s spot) error { return unix.Symlinkat(to, s.dir, s.name) })
}

func (c *call) remove(at, arg, flags int) (int, unix.Errno) {
	s, errno := c.spotOf(at, arg)
	if errno == 0 {
		errno = c.mayName(s, Remove)
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	return -1, errnoOf(unix.Unlinkat(s.dir, s.name, flags))
}

// rename moves a name. The policy also decides on the name that is replaced or exchanged.
func (c *call) rename(fromAt, from, toAt, to int, flags uint) (int, unix.Errno) {
	old, errno := c.spotOf(fromAt, from)
	if errno != 0 {
		return -1, errno
	}
	s, errno := c.spotOf(toAt, to)
	if errno != 0 {
		return -1, errno
	}
	leave, take := Remove|Moved, Create|Moved
	if flags&unix.RENAME_EXCHANGE != 0 {
		leave, take = leave|Create, take|Remove
	}
	if !old.special() && !s.special() { // else the kernel refuses it
		if errno = c.mayName(old, leave); errno == 0 {
			errno = c.mayName(s, take)
		}
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	return -1, errnoOf(unix.Renameat2(old.dir, old.name, s.dir, s.name, flags))
}

// link gives a file one more name, by which it can be read and written.
func (c *call) link(fromAt, from, toAt, to, flags int) (int, unix.Errno) {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return -1, unix.EINVAL
	}
	file, errno := c.target(fromAt, from, flags&unix.AT_SYMLINK_FOLLOW != 0, flags&unix.AT_EMPTY_PATH != 0)
	if errno != 0 {
		return -1, errno
	}
	s, errno := c.spotOf(toAt, to)
	if errno == 0 {
		_, errno = c.mayAt(Read|Write, file)
	}
	if errno == 0 {
		errno = c.mayName(s, Create)
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	return -1, errnoOf(unix.Linkat(unix.AT_FDCWD, fdPath(file.fd), s.dir, s.name, unix.AT_SYMLINK_FOLLOW))
}
