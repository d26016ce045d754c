//go:build linux

package linux

import "golang.org/x/sys/unix"

// observedHere are the calls that only this architecture has, or by this name.
var observedHere = map[uint32][]named{
	unix.SYS_FSTATAT:  looksAt(0, 1),
	unix.SYS_RENAMEAT: append(namesAt(0, 1), namesAt(2, 3)...),
}
