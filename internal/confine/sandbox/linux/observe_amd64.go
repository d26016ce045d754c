//go:build linux

package linux

import (
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// observedHere are the calls that only this architecture has, or by this name.
var observedHere = map[uint32][]named{
	unix.SYS_OPEN:       {{use: sandbox.Read, at: -1, path: 0, flags: 1}},
	unix.SYS_CREAT:      {{use: sandbox.Wrote, at: -1, path: 0, flags: -1}},
	unix.SYS_STAT:       looksAt(-1, 0),
	unix.SYS_LSTAT:      {{use: sandbox.Looked, at: -1, path: 0, flags: -1, link: true}},
	unix.SYS_NEWFSTATAT: looksAt(0, 1),
	unix.SYS_ACCESS:     looksAt(-1, 0),
	unix.SYS_READLINK:   {{use: sandbox.Looked, at: -1, path: 0, flags: -1, link: true}},
	unix.SYS_MKDIR:      foldersAt(-1, 0),
	unix.SYS_MKNOD:      namesAt(-1, 0),
	unix.SYS_RMDIR:      namesAt(-1, 0),
	unix.SYS_UNLINK:     namesAt(-1, 0),
	unix.SYS_SYMLINK:    namesAt(-1, 1),
	unix.SYS_LINK:       append(writesAt(-1, 0), namesAt(-1, 1)...),
	unix.SYS_RENAME:     append(namesAt(-1, 0), namesAt(-1, 1)...),
	unix.SYS_RENAMEAT:   append(namesAt(0, 1), namesAt(2, 3)...),
	unix.SYS_CHMOD:      writesAt(-1, 0),
	unix.SYS_CHOWN:      writesAt(-1, 0),
	unix.SYS_LCHOWN:     writesAt(-1, 0),
	unix.SYS_UTIME:      writesAt(-1, 0),
	unix.SYS_UTIMES:     writesAt(-1, 0),
	unix.SYS_FUTIMESAT:  writesAt(0, 1),
}
