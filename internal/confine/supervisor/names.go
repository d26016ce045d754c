//go:build linux && (amd64 || arm64)

package supervisor

import (
	"path"
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
	case act&(Create|Remove|Moved) == Create && errno == 0:
		return unix.EEXIST
	}
	return c.may(act, s.real)
}

// makeName makes a name that does not exist.
func (c *call) makeName(at, arg int, act Act, make func(s spot) error) unix.Errno {
	c.Names.RLock()
	defer c.Names.RUnlock()
	s, errno := c.spotOf(at, arg)
	if errno == 0 {
		errno = c.mayName(s, act)
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
	return -1, c.makeName(at, arg, Create|Folder, func(s spot) error { return unix.Mkdirat(s.dir, s.name, mode) })
}

func (c *call) mknod(at, arg int) (int, unix.Errno) {
	mode, device := uint32(c.n.Args[arg+1]), int(c.n.Args[arg+2])
	if kind := mode & unix.S_IFMT; kind == unix.S_IFCHR || kind == unix.S_IFBLK {
		return -1, unix.EPERM // the kernel allows one of them, which hides a name in an overlay
	}
	return -1, c.makeName(at, arg, Create, func(s spot) error { return unix.Mknodat(s.dir, s.name, mode, device) })
}

func (c *call) symlink(text, at, arg int) (int, unix.Errno) {
	to, errno := c.path(text)
	switch {
	case errno != 0:
		return -1, errno
	case to == "":
		return -1, unix.ENOENT
	}
	return -1, c.makeName(at, arg, Create|Link, func(s spot) error { return unix.Symlinkat(to, s.dir, s.name) })
}

func (c *call) remove(at, arg, flags int) (int, unix.Errno) {
	s, errno := c.spotOf(at, arg)
	if errno == 0 {
		act := Remove
		if flags&unix.AT_REMOVEDIR != 0 {
			act |= Folder
		}
		errno = c.mayName(s, act)
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	removed := c.last(s)
	if errno = errnoOf(unix.Unlinkat(s.dir, s.name, flags)); errno == 0 {
		removed()
	}
	return -1, errno
}

// rename moves a name. The policy also decides on the name that is replaced or exchanged.
func (c *call) rename(fromAt, from, toAt, to int, flags uint) (int, unix.Errno) {
	if flags&unix.RENAME_WHITEOUT != 0 {
		return -1, unix.EPERM // it makes such a device
	}
	c.Names.Lock()
	defer c.Names.Unlock()
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
		errno = c.mayMove(old, s, leave, take)
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	if c.instead != nil {
		return -1, c.copyOver(old, s, flags)
	}
	removed := c.last(s)
	if errno = errnoOf(unix.Renameat2(old.dir, old.name, s.dir, s.name, flags)); errno != 0 {
		return -1, errno
	}
	removed()
	c.tellNamed(s)
	if flags&unix.RENAME_EXCHANGE != 0 {
		c.tellNamed(old)
	}
	return -1, 0
}

// mayMove asks about a name that is moved, and about the one that it becomes.
func (c *call) mayMove(old, s spot, leave, take Act) unix.Errno {
	file, errno := c.open(old.dir, strings.TrimRight(old.name, "/"), unix.O_NOFOLLOW)
	if errno != 0 {
		return errno
	}
	if errno = c.may(leave, old.real); errno != 0 {
		return errno
	}
	if errno = c.ask(Request{Act: take, Path: s.real, From: old.real, File: file}); errno != 0 || take&Remove == 0 {
		return errno
	}
	other, errno := c.open(s.dir, strings.TrimRight(s.name, "/"), unix.O_NOFOLLOW)
	if errno != 0 {
		return errno
	}
	return c.ask(Request{Act: leave, Path: old.real, From: s.real, File: other})
}

// staged reports whether Remit writes a file at a path now, of which it changes the name later: package changeset does so. The
// rules of that name are not asked about this one.
func staged(p string) bool {
	name := path.Base(p)
	return strings.HasPrefix(name, ".remit-") && strings.HasSuffix(name, ".tmp")
}

// copyPrefix begins the name of a new file until it has its content and its name. Processes cannot open it: what they
// write to it would come to the new name.
const copyPrefix = ".remit-copy-"

// copyOver gives the new name a new file with the content that was decided on, and removes the old one.
func (c *call) copyOver(old, s spot, flags uint) unix.Errno {
	if flags&unix.RENAME_EXCHANGE != 0 {
		return unix.EACCES // the old name gets a file that was not decided on
	}
	file, errno := c.open(old.dir, old.name, unix.O_NOFOLLOW)
	if errno != 0 {
		return errno
	}
	from, errno := at(file)
	if errno != 0 {
		return errno
	}
	removed, replaced := c.last(old), c.last(s)
	if err := writeAt(s.dir, s.name, c.instead.Content, &from.st, flags); err != nil {
		return errnoOf(err)
	}
	replaced()
	c.tellNamed(s)
	if errno = errnoOf(unix.Unlinkat(old.dir, old.name, 0)); errno == 0 {
		removed()
	}
	return errno
}

// link gives a file one more name, by which it can be read and written.
func (c *call) link(fromAt, from, toAt, to, flags int) (int, unix.Errno) {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return -1, unix.EINVAL
	}
	c.Names.RLock()
	defer c.Names.RUnlock()
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
	if errno = errnoOf(unix.Linkat(unix.AT_FDCWD, fdPath(file.fd), s.dir, s.name, unix.AT_SYMLINK_FOLLOW)); errno == 0 {
		c.tellNamed(s)
	}
	return -1, errno
}
