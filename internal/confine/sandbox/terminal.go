package sandbox

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal is a terminal for one command.
type Terminal struct {
	Columns, Rows int // its size when the command starts
	// Opened is given the end that Remit keeps, once, before the command starts
	// to run; not if no sandbox could be made. Opened must close it.
	Opened func(*os.File)
}

// Resize tells a terminal its size in characters.
func Resize(terminal *os.File, columns, rows int) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	size := &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}
	cerr := raw.Control(func(fd uintptr) { err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
	return errors.Join(cerr, err)
}
