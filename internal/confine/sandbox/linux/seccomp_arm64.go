//go:build linux

package linux

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// refusedHere are the calls that only this architecture has.
var refusedHere []uint32

// modes are the calls that set a file's mode, with the number of its argument. opens
// are calls by which a file can be created, with the number of the flags' argument. The
// mode follows the flags.
var (
	modes = map[uint32]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2, unix.SYS_MKNODAT: 2}
	opens = map[uint32]uint32{unix.SYS_OPENAT: 2}
)

// There are no calls without a folder here.
var makesHere, attributesHere []uint32
