//go:build linux

package linux_test

import "golang.org/x/sys/unix"

// randomCallsHere are those that only this architecture has.
var randomCallsHere = []uintptr{unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_MKDIR, unix.SYS_MKNOD, unix.SYS_SYMLINK, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_RENAME, unix.SYS_RENAMEAT,
	unix.SYS_LINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
