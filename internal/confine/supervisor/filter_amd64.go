//go:build linux

package supervisor

import "golang.org/x/sys/unix"

// callsHere are the calls that only this architecture has.
var callsHere = map[uint32]func(*call) (int, unix.Errno){
	unix.SYS_OPEN: func(c *call) (int, unix.Errno) {
		return c.openFile(opening{at: -1, path: 0, flags: int(c.n.Args[1]), mode: uint32(c.n.Args[2])})
	},
	unix.SYS_CREAT: func(c *call) (int, unix.Errno) {
		return c.openFile(opening{at: -1, path: 0, flags: unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, mode: uint32(c.n.Args[1])})
	},
	unix.SYS_MKDIR:     func(c *call) (int, unix.Errno) { return c.mkdir(-1, 0) },
	unix.SYS_MKNOD:     func(c *call) (int, unix.Errno) { return c.mknod(-1, 0) },
	unix.SYS_SYMLINK:   func(c *call) (int, unix.Errno) { return c.symlink(0, -1, 1) },
	unix.SYS_UNLINK:    func(c *call) (int, unix.Errno) { return c.remove(-1, 0, 0) },
	unix.SYS_RMDIR:     func(c *call) (int, unix.Errno) { return c.remove(-1, 0, unix.AT_REMOVEDIR) },
	unix.SYS_RENAME:    func(c *call) (int, unix.Errno) { return c.rename(-1, 0, -1, 1, 0) },
	unix.SYS_RENAMEAT:  func(c *call) (int, unix.Errno) { return c.rename(0, 1, 2, 3, 0) },
	unix.SYS_LINK:      func(c *call) (int, unix.Errno) { return c.link(-1, 0, -1, 1, 0) },
	unix.SYS_CHMOD:     func(c *call) (int, unix.Errno) { return c.chmod(-1, 0, 0) },
	unix.SYS_CHOWN:     func(c *call) (int, unix.Errno) { return c.chown(-1, 0, 0) },
	unix.SYS_LCHOWN:    func(c *call) (int, unix.Errno) { return c.chown(-1, 0, unix.AT_SYMLINK_NOFOLLOW) },
	unix.SYS_UTIME:     func(c *call) (int, unix.Errno) { return c.utimens(-1, 0, 0, c.seconds(1)) },
	unix.SYS_UTIMES:    func(c *call) (int, unix.Errno) { return c.utimens(-1, 0, 0, c.timevals(1)) },
	unix.SYS_FUTIMESAT: func(c *call) (int, unix.Errno) { return c.utimens(0, 1, 0, c.timevals(2)) },
}

// opens are the calls that open a file, with the argument that has the flags.
var opens = map[uint32]int{unix.SYS_OPENAT: 2, unix.SYS_OPEN: 1}
