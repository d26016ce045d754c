//go:build linux && (amd64 || arm64)

package supervisor

import "golang.org/x/sys/unix"

// target finds the file of a path argument. With empty, the path "" stands for the descriptor itself.
func (c *call) target(at, arg int, follow, empty bool) (to place, errno unix.Errno) {
	p, errno := c.path(arg)
	if errno != 0 {
		return to, errno
	}
	if p == "" && empty && at >= 0 {
		return c.held(at)
	}
	base, errno := c.base(at, p)
	if errno != 0 {
		return to, errno
	}
	return c.find(base, p, follow)
}

// held is what a descriptor stands for; AT_FDCWD: the working folder.
func (c *call) held(arg int) (to place, errno unix.Errno) {
	fd, errno := c.base(arg, ".")
	if errno != 0 {
		return to, errno
	}
	return at(fd)
}

// file is what a descriptor stands for. A process can have it without the right to write.
func (c *call) file(arg int) (to place, errno unix.Errno) {
	fd, errno := c.descriptor(arg)
	if errno != 0 {
		return to, errno
	}
	return at(fd)
}

// change calls do with a path of the supervisor's own that leads to a file, if the policy allows the
// process an act on it.
func (c *call) change(act Act, to place, errno unix.Errno, do func(self string) error) (int, unix.Errno) {
	var where string
	if errno == 0 {
		where, errno = c.mayAt(act, to)
	}
	if errno == 0 && to.st.Dev == c.procDev {
		errno = unix.EPERM // modes and owners there are the machine's
	}
	if errno == 0 {
		errno = c.still()
	}
	if errno != 0 {
		return -1, errno
	}
	errno = errnoOf(do(fdPath(to.fd)))
	if to.is(unix.S_IFREG) {
		c.tell(where, to.fd)
	}
	return -1, errno
}

// chmod is fchmodat2(2). The mode of a link cannot be changed.
func (c *call) chmod(at, arg, flags int) (int, unix.Errno) {
	to, errno := c.target(at, arg, flags&unix.AT_SYMLINK_NOFOLLOW == 0, flags&unix.AT_EMPTY_PATH != 0)
	return c.setMode(c.n.Args[arg+1], to, errno)
}

func (c *call) fchmod() (int, unix.Errno) {
	to, errno := c.file(0)
	return c.setMode(c.n.Args[1], to, errno)
}

func (c *call) setMode(arg uint64, to place, errno unix.Errno) (int, unix.Errno) {
	mode := uint32(arg) & 0o7777
	if errno == 0 && to.is(unix.S_IFLNK) {
		errno = unix.EOPNOTSUPP
	}
	return c.change(Change, to, errno, func(self string) error { return unix.Chmod(self, mode) })
}

// chown is fchownat(2). The IDs are those of the process's user namespace.
func (c *call) chown(at, arg, flags int) (int, unix.Errno) {
	to, errno := c.target(at, arg, flags&unix.AT_SYMLINK_NOFOLLOW == 0, flags&unix.AT_EMPTY_PATH != 0)
	return c.setOwner([2]uint64(c.n.Args[arg+1:]), to, errno)
}

func (c *call) fchown() (int, unix.Errno) {
	to, errno := c.file(0)
	return c.setOwner([2]uint64(c.n.Args[1:]), to, errno)
}

func (c *call) setOwner(args [2]uint64, to place, errno unix.Errno) (int, unix.Errno) {
	uid, gid := int(int32(uint32(args[0]))), int(int32(uint32(args[1])))
	if errno == 0 {
		uid, gid, errno = c.outside(uid, gid)
	}
	return c.change(Change, to, errno, func(string) error { return unix.Fchownat(to.fd, "", uid, gid, unix.AT_EMPTY_PATH) })
}

func (c *call) truncate() (int, unix.Errno) {
	to, errno := c.target(-1, 0, true, false)
	size := int64(c.n.Args[1])
	if errno == 0 && to.is(unix.S_IFDIR) {
		errno = unix.EISDIR
	}
	var most unix.Rlimit // of the process; the supervisor has none
	if errno == 0 && size > to.st.Size {
		errno = errnoOf(unix.Prlimit(int(c.n.PID), unix.RLIMIT_FSIZE, nil, &most))
		if errno == 0 && uint64(size) > most.Cur {
			errno = unix.EFBIG
		}
	}
	return c.change(Write, to, errno, func(self string) error { return unix.Truncate(self, size) })
}

// times are the two times of a file: of the last access and of the last change.
type times [2]unix.Timespec

// utimens is utimensat(2). read reads the times.
func (c *call) utimens(at, arg, flags int, read func() (*times, unix.Errno)) (int, unix.Errno) {
	var to place
	var errno unix.Errno
	if c.n.Args[arg] == 0 && at >= 0 { // futimens(3)
		to, errno = c.held(at)
	} else {
		to, errno = c.target(at, arg, flags&unix.AT_SYMLINK_NOFOLLOW == 0, flags&unix.AT_EMPTY_PATH != 0)
	}
	var ts *times
	if errno == 0 {
		ts, errno = read()
	}
	return c.change(Change, to, errno, func(string) error {
		return unix.UtimesNanoAt(to.fd, "", ts[:], unix.AT_EMPTY_PATH)
	})
}

// now is the time for both.
func now() *times { return &times{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}} }

// timespecs reads an argument with two times in nanoseconds.
func (c *call) timespecs(arg int) func() (*times, unix.Errno) {
	return func() (*times, unix.Errno) {
		if c.n.Args[arg] == 0 {
			return now(), 0
		}
		var ts times
		return &ts, readMemory(int(c.n.PID), uintptr(c.n.Args[arg]), &ts)
	}
}

// timevals reads an argument with two times in microseconds.
func (c *call) timevals(arg int) func() (*times, unix.Errno) {
	return func() (*times, unix.Errno) {
		if c.n.Args[arg] == 0 {
			return now(), 0
		}
		var tv [2]unix.Timeval
		errno := readMemory(int(c.n.PID), uintptr(c.n.Args[arg]), &tv)
		var ts times
		for i, t := range tv {
			if t.Usec < 0 || t.Usec >= 1_000_000 {
				return nil, unix.EINVAL
			}
			ts[i] = unix.Timespec{Sec: t.Sec, Nsec: t.Usec * 1000}
		}
		return &ts, errno
	}
}

// seconds reads an argument with two times in seconds.
func (c *call) seconds(arg int) func() (*times, unix.Errno) {
	return func() (*times, unix.Errno) {
		if c.n.Args[arg] == 0 {
			return now(), 0
		}
		var t [2]int64
		errno := readMemory(int(c.n.PID), uintptr(c.n.Args[arg]), &t)
		return &times{{Sec: t[0]}, {Sec: t[1]}}, errno
	}
}
