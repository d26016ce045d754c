//go:build linux && (amd64 || arm64)

package supervisor

import (
	"maps"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// calls are the system calls that the supervisor carries out. Each returns a descriptor for the
// process, or -1, and 0 or an error.
var calls = func() map[uint32]func(*call) (int, unix.Errno) {
	all := map[uint32]func(*call) (int, unix.Errno){
		unix.SYS_OPENAT: func(c *call) (int, unix.Errno) {
			return c.openFile(opening{at: 0, path: 1, flags: int(c.n.Args[2]), mode: uint32(c.n.Args[3])})
		},
		unix.SYS_MKDIRAT:   func(c *call) (int, unix.Errno) { return c.mkdir(0, 1) },
		unix.SYS_MKNODAT:   func(c *call) (int, unix.Errno) { return c.mknod(0, 1) },
		unix.SYS_SYMLINKAT: func(c *call) (int, unix.Errno) { return c.symlink(0, 1, 2) },
		unix.SYS_UNLINKAT:  func(c *call) (int, unix.Errno) { return c.remove(0, 1, int(c.n.Args[2])) },
		unix.SYS_RENAMEAT2: func(c *call) (int, unix.Errno) { return c.rename(0, 1, 2, 3, uint(c.n.Args[4])) },
		unix.SYS_LINKAT:    func(c *call) (int, unix.Errno) { return c.link(0, 1, 2, 3, int(c.n.Args[4])) },
		unix.SYS_FCHMODAT:  func(c *call) (int, unix.Errno) { return c.chmod(0, 1, 0) },
		unix.SYS_FCHMODAT2: func(c *call) (int, unix.Errno) { return c.chmod(0, 1, int(c.n.Args[3])) },
		unix.SYS_FCHOWNAT:  func(c *call) (int, unix.Errno) { return c.chown(0, 1, int(c.n.Args[4])) },
		unix.SYS_UTIMENSAT: func(c *call) (int, unix.Errno) { return c.utimens(0, 1, int(c.n.Args[3]), c.timespecs(2)) },
		unix.SYS_TRUNCATE:  (*call).truncate,

		// A descriptor that only reads is enough for these.
		unix.SYS_FCHMOD: (*call).fchmod,
		unix.SYS_FCHOWN: (*call).fchown,

		unix.SYS_GETXATTR:     func(c *call) (int, unix.Errno) { return c.getAttribute(c.target(-1, 0, true, false)) },
		unix.SYS_LGETXATTR:    func(c *call) (int, unix.Errno) { return c.getAttribute(c.target(-1, 0, false, false)) },
		unix.SYS_LISTXATTR:    func(c *call) (int, unix.Errno) { return c.listAttributes(c.target(-1, 0, true, false)) },
		unix.SYS_LLISTXATTR:   func(c *call) (int, unix.Errno) { return c.listAttributes(c.target(-1, 0, false, false)) },
		unix.SYS_SETXATTR:     func(c *call) (int, unix.Errno) { return c.setAttribute(c.target(-1, 0, true, false)) },
		unix.SYS_LSETXATTR:    func(c *call) (int, unix.Errno) { return c.setAttribute(c.target(-1, 0, false, false)) },
		unix.SYS_FSETXATTR:    func(c *call) (int, unix.Errno) { return c.setAttribute(c.file(0)) },
		unix.SYS_REMOVEXATTR:  func(c *call) (int, unix.Errno) { return c.removeAttribute(c.target(-1, 0, true, false)) },
		unix.SYS_LREMOVEXATTR: func(c *call) (int, unix.Errno) { return c.removeAttribute(c.target(-1, 0, false, false)) },
		unix.SYS_FREMOVEXATTR: func(c *call) (int, unix.Errno) { return c.removeAttribute(c.file(0)) },
	}
	maps.Copy(all, callsHere)
	return all
}()

// Rules gives the instructions of a seccomp filter for each system call that is carried out by the
// supervisor. The number of the call is loaded before. An open with O_PATH is left to the process: by
// its descriptor nothing can be read or written without another open.
func Rules() map[uint32][]bpf.Instruction {
	ask, leave := bpf.RetConstant{Val: unix.SECCOMP_RET_USER_NOTIF}, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	out := map[uint32][]bpf.Instruction{}
	for nr := range calls {
		out[nr] = []bpf.Instruction{ask}
	}
	for nr, arg := range opens {
		out[nr] = []bpf.Instruction{bpf.LoadAbsolute{Off: argsOffset + 8*uint32(arg), Size: 4}, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_PATH, SkipTrue: 1}, ask, leave}
	}
	return out
}

// argsOffset is where the arguments are in struct seccomp_data.
const argsOffset = 16
