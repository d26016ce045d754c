package cli_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal as a person has one: the screen and keyboard,
// and what programs are given of it.
func openTerminal(t *testing.T) (mine, theirs *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("NOT TESTED: no terminal can be made here: %v", err)
	}
	must(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	slave, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		t.Fatal(e)
	}
	return os.NewFile(uintptr(fd), "terminal"), os.NewFile(slave, "terminal")
}
