//go:build linux

package linux

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// refusedHere are the calls that only this architecture has.
var refusedHere = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_USELIB, unix.SYS_USTAT,
	unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_GET_KERNEL_SYMS, unix.SYS_QUERY_MODULE}

// modes are the calls that set a file's mode, with the number of its argument. opens
// are calls by which a file can be created, with the number of the flags' argument. The
// mode follows the flags.
var (
	modes = map[uint32]uint32{unix.SYS_CHMOD: 1, unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2,
		unix.SYS_CREAT: 1, unix.SYS_MKNOD: 1, unix.SYS_MKNODAT: 2}
	opens = map[uint32]uint32{unix.SYS_OPEN: 1, unix.SYS_OPENAT: 2}
)

// Of the calls without a folder, which only this architecture has: those that
// make files, and those that set something of one.
var (
	makesHere      = []uint32{unix.SYS_CREAT, unix.SYS_MKNOD}
	attributesHere = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
)
