//go:build linux

package linux_test

import "golang.org/x/sys/unix"

// randomCallsHere are those that only this architecture has.
var randomCallsHere = []uintptr{unix.SYS_RENAMEAT}
