package cli

import "golang.org/x/sys/unix"

// The requests that read a terminal's settings, and write them and drop typed input.
const (
	getTermios      = unix.TCGETS
	setTermiosFlush = unix.TCSETSF
)
