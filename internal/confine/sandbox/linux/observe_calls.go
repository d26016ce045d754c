//go:build linux && (amd64 || arm64)

package linux

import (
	"maps"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// observed are the system calls that name paths, with the arguments. Calls on descriptors
// need no look: a descriptor comes from one of these.
var observed = func() map[uint32][]named {
	all := map[uint32][]named{
		unix.SYS_OPENAT:            {{use: sandbox.Read, at: 0, path: 1, flags: 2}},
		unix.SYS_EXECVE:            {{use: sandbox.Executed, at: -1, path: 0, flags: -1}},
		unix.SYS_EXECVEAT:          {{use: sandbox.Executed, at: 0, path: 1, flags: -1}},
		unix.SYS_STATX:             looksAt(0, 1),
		unix.SYS_FACCESSAT:         looksAt(0, 1),
		unix.SYS_FACCESSAT2:        looksAt(0, 1),
		unix.SYS_READLINKAT:        {{use: sandbox.Looked, at: 0, path: 1, flags: -1, link: true}},
		unix.SYS_CHDIR:             looksAt(-1, 0),
		unix.SYS_STATFS:            looksAt(-1, 0),
		unix.SYS_INOTIFY_ADD_WATCH: looksAt(-1, 1),
		unix.SYS_MKDIRAT:           foldersAt(0, 1),
		unix.SYS_MKNODAT:           namesAt(0, 1),
		unix.SYS_UNLINKAT:          namesAt(0, 1),
		unix.SYS_SYMLINKAT:         namesAt(1, 2),
		unix.SYS_LINKAT:            append(writesAt(0, 1), namesAt(2, 3)...),
		unix.SYS_RENAMEAT2:         append(namesAt(0, 1), namesAt(2, 3)...),
		unix.SYS_TRUNCATE:          writesAt(-1, 0),
		unix.SYS_FCHMODAT:          writesAt(0, 1),
		unix.SYS_FCHMODAT2:         writesAt(0, 1),
		unix.SYS_FCHOWNAT:          writesAt(0, 1),
		unix.SYS_UTIMENSAT:         writesAt(0, 1),
		unix.SYS_SETXATTR:          writesAt(-1, 0),
		unix.SYS_LSETXATTR:         writesAt(-1, 0),
		unix.SYS_REMOVEXATTR:       writesAt(-1, 0),
	}
	maps.Copy(all, observedHere)
	return all
}()

func looksAt(at, path int) []named {
	return []named{{use: sandbox.Looked, at: at, path: path, flags: -1}}
}

func writesAt(at, path int) []named {
	return []named{{use: sandbox.Wrote, at: at, path: path, flags: -1, link: true}}
}

// namesAt are the calls that make, move or remove a name.
func namesAt(at, path int) []named {
	return []named{{use: sandbox.Wrote, at: at, path: path, flags: -1, link: true, named: true}}
}

func foldersAt(at, path int) []named {
	return []named{{use: sandbox.Wrote, at: at, path: path, flags: -1, link: true, named: true, mkdir: true}}
}
