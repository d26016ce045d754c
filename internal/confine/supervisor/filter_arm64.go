//go:build linux

package supervisor

import "golang.org/x/sys/unix"

// callsHere are the calls that only this architecture has.
var callsHere = map[uint32]func(*call) (int, unix.Errno){
	unix.SYS_RENAMEAT: func(c *call) (int, unix.Errno) { return c.rename(0, 1, 2, 3, 0) },
}

// opens are the calls that open a file, with the argument that has the flags.
var opens = map[uint32]int{unix.SYS_OPENAT: 2}
