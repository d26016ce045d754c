//go:build linux && (amd64 || arm64)

package supervisor

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// opening is an open: its flags, the mode of a new file, and the arguments with the path.
type opening struct {
	at, path int // arguments; at -1: the working folder
	flags    int // as the process gave them
	mode     uint32
}

// openFile answers openat(2). fd is the descriptor that the process gets.
func (c *call) openFile(o opening) (fd int, errno unix.Errno) {
	const folderToMake = unix.O_CREAT | unix.O_DIRECTORY
	if o.flags&folderToMake == folderToMake {
		return -1, unix.EINVAL // since Linux 6.4; before, it made a file
	}
	p, errno := c.path(o.path)
	if errno != 0 {
		return -1, errno
	}
	base, errno := c.base(o.at, p)
	if errno != 0 {
		return -1, errno
	}
	if o.flags&unix.O_CREAT != 0 && strings.HasSuffix(p, "/") {
		if s, errno := c.spot(base, p); errno != 0 || !s.special() {
			return -1, cmp.Or(errno, unix.EISDIR)
		}
	}
	for range maxLinks { // of a link to nothing, which is created; and of races for a new name
		follow := o.flags&unix.O_NOFOLLOW == 0 && o.flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
		to, errno := c.find(base, p, follow)
		switch {
		case errno == 0:
			return c.reopen(to, o)
		case errno != unix.ENOENT || o.flags&unix.O_CREAT == 0:
			return -1, errno
		}
		s, errno := c.spot(base, p)
		if errno != 0 {
			return -1, errno
		}
		if follow {
			link, there, errno := readLink(s.dir, s.name)
			if errno != 0 {
				return -1, errno
			}
			if there {
				if base, p = s.dir, link; link[0] == '/' {
					base = c.root
				}
				continue
			}
		}
		fd, errno = c.create(s, o)
		if errno != unix.EEXIST || o.flags&unix.O_EXCL != 0 {
			return fd, errno
		}
	}
	return -1, unix.ELOOP
}

// readLink reads a link, if there is one.
func readLink(dir int, name string) (text string, there bool, errno unix.Errno) {
	var buf [pathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL): // nothing, or something else
		return "", false, 0
	case err != nil:
		return "", false, errnoOf(err)
	case n == 0 || n == len(buf):
		return "", false, unix.ENAMETOOLONG
	}
	return string(buf[:n]), true, 0
}

// create makes a file that was not there.
func (c *call) create(s spot, o opening) (fd int, errno unix.Errno) {
	c.Names.RLock()
	defer c.Names.RUnlock()
	if errno = c.locate(&s); errno != 0 {
		return -1, errno
	}
	if errno = c.may(Create|Write, s.real); errno != 0 {
		return -1, errno
	}
	if c.draft != nil {
		of, errno := c.status()
		if errno != 0 {
			return -1, errno
		}
		return c.makeDraft(s, o.mode&^uint32(of.umask), false)
	}
	if errno = c.masked(); errno != 0 {
		return -1, errno
	}
	fd, err := unix.Openat(s.dir, s.name, o.flags|unix.O_EXCL|unix.O_NOCTTY|unix.O_CLOEXEC, o.mode&0o7777)
	if err != nil {
		return -1, errnoOf(err)
	}
	c.tell(s.real, fd)
	c.undo = func() {
		made, errno := at(fd)
		if now, err := c.open(s.dir, s.name, unix.O_NOFOLLOW); errno == 0 && err == 0 && sameFile(now, made) {
			_ = unix.Unlinkat(s.dir, s.name, 0) // the process is told why it has no file
		}
	}
	return fd, 0
}

// sameFile reports whether a descriptor stands for a place.
func sameFile(fd int, p place) bool {
	is, errno := at(fd)
	return errno == 0 && is.st.Dev == p.st.Dev && is.st.Ino == p.st.Ino
}

// masked takes over the process's umask, as the last thing before something is made.
func (c *call) masked() unix.Errno {
	s, errno := c.status()
	if errno != 0 {
		return errno
	}
	unix.Umask(s.umask)
	return c.still()
}

// reopen opens a file that was found, with the flags of the process.
func (c *call) reopen(to place, o opening) (fd int, errno unix.Errno) {
	flags := o.flags
	switch {
	case flags&unix.O_CREAT != 0 && flags&unix.O_EXCL != 0:
		return -1, unix.EEXIST
	case flags&unix.O_DIRECTORY != 0 && !to.is(unix.S_IFDIR):
		return -1, unix.ENOTDIR
	case to.is(unix.S_IFLNK):
		return -1, unix.ELOOP
	case flags&unix.O_CREAT != 0 && to.is(unix.S_IFDIR):
		return -1, unix.EISDIR
	case to.is(unix.S_IFCHR) && to.st.Rdev == unix.Mkdev(5, 0):
		if to, errno = c.terminal(); errno != 0 {
			return -1, errno
		}
	}
	act := actOf(flags)
	where, errno := c.mayOpen(act, to, o)
	if errno != 0 || c.blank {
		return c.emptyFile(errno)
	}
	if c.draft != nil {
		s, errno := c.spot(c.root, where)
		if errno != 0 || s.real != where || !to.is(unix.S_IFREG) {
			return -1, unix.EACCES
		}
		return c.makeDraft(s, to.st.Mode, true)
	}
	if to.st.Dev == c.procDev && (act&Write != 0 || !c.readable(where)) {
		return -1, unix.EACCES // the kernel would take such a write for one of the supervisor's user, outside of the processes' namespace
	}
	if strings.HasPrefix(where, "/sys/") && to.st.Mode&0o004 == 0 {
		return -1, unix.EACCES // the kernel keeps it for the machine's administrator
	}
	if act != Read || !to.is(unix.S_IFREG) && !to.is(unix.S_IFDIR) { // else the open changes nothing
		if errno = c.still(); errno != 0 {
			return -1, errno
		}
	}
	flags = flags&^(unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW) | unix.O_NOCTTY | unix.O_CLOEXEC
	if to.is(unix.S_IFIFO) && flags&unix.O_NONBLOCK == 0 {
		if act&Write != 0 {
			c.tell(where, to.fd)
		}
		return c.apart(func(c *call) (int, unix.Errno) { return c.again(to.fd, flags, 0) }) // it waits for its other end
	}
	switch {
	case isTemporary(flags):
		fd, errno = c.temporary(to, o)
	case flags&unix.O_TRUNC == 0 || flags&unix.O_ACCMODE == unix.O_RDONLY || !to.is(unix.S_IFREG):
		fd, errno = c.again(to.fd, flags, 0)
	default:
		fd, errno = c.again(to.fd, flags&^unix.O_TRUNC, 0)
		c.had = func() unix.Errno { return errnoOf(unix.Ftruncate(fd, 0)) }
	}
	if errno == 0 && act&Write != 0 {
		c.tell(where, fd)
	}
	return fd, errno
}

// again opens what a descriptor stands for once more.
func (c *call) again(fd, flags int, mode uint32) (int, unix.Errno) {
	fd, err := unix.Openat(c.self, strconv.Itoa(fd), flags, mode)
	if err != nil {
		return -1, errnoOf(err)
	}
	return fd, 0
}

// mayOpen asks the policy about an open. Only a regular file can be a blank one.
func (c *call) mayOpen(act Act, to place, o opening) (where string, errno unix.Errno) {
	where, errno = c.askAt(Request{Act: act, Beneath: o.at >= 0 && int32(uint32(c.n.Args[o.at])) != unix.AT_FDCWD}, to)
	if errno == 0 && c.blank && !to.is(unix.S_IFREG) {
		errno = unix.EACCES
	}
	return where, errno
}

// emptyFile gives the process a file without content, which nothing can be written to, unless there was an error before.
func (c *call) emptyFile(before unix.Errno) (int, unix.Errno) {
	if before != 0 {
		return -1, before
	}
	memory, err := unix.MemfdCreate("remit", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, errnoOf(err)
	}
	defer drop(memory)
	if _, err := unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL); err != nil {
		return -1, errnoOf(err)
	}
	return c.again(memory, unix.O_RDONLY|unix.O_CLOEXEC, 0)
}

func isTemporary(flags int) bool { return flags&unix.O_TMPFILE == unix.O_TMPFILE }

// temporary makes a file without a name.
func (c *call) temporary(to place, o opening) (int, unix.Errno) {
	if errno := c.masked(); errno != 0 {
		return -1, errno
	}
	return c.again(to.fd, o.flags|unix.O_CLOEXEC, o.mode&0o7777)
}

// actOf returns the acts of an open.
func actOf(flags int) (act Act) {
	switch flags & unix.O_ACCMODE {
	case unix.O_RDONLY:
		act = Read
	case unix.O_WRONLY:
		act = Write
	default:
		act = Read | Write
	}
	if flags&unix.O_TRUNC != 0 {
		act |= Write | Anew
	}
	return act
}

// terminal finds the controlling terminal, which /dev/tty stands for.
func (c *call) terminal() (place, unix.Errno) {
	name := terminalOf(c.n.PID)
	if name == "" {
		return place{}, unix.ENXIO
	}
	return c.find(c.root, "/dev/pts/"+name, true)
}
