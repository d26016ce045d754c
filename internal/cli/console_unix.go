//go:build unix

package cli

import (
	"os"
	"syscall"
)

// windowChanged are the signals that tell of a terminal's new size.
var windowChanged = []os.Signal{syscall.SIGWINCH}
