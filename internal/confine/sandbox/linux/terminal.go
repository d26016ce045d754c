//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// maxTerminals bounds the terminals of one sandbox; the kernel's own bound is
// for the whole machine.
const maxTerminals = 32

// terminals mounts a devpts of the sandbox's own: its terminals have numbers
// and names of their own, and the host's are not there.
func (b *builder) terminals() {
	const step = "terminals"
	b.folders("/dev/pts")
	b.Save(step, b.fs, unix.SYS_FSOPEN, b.Text("devpts"), spawn.Int(unix.FSOPEN_CLOEXEC))
	for _, kv := range [][2]string{{"ptmxmode", "0666"}, {"mode", "0600"}, {"max", fmt.Sprint(maxTerminals)}} {
		b.Call(step, unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_SET_STRING), b.Text(kv[0]), b.Text(kv[1]), none)
	}
	b.Call(step, unix.SYS_FSCONFIG, spawn.From(b.fs), spawn.Int(unix.FSCONFIG_CMD_CREATE), none, none, none)
	b.Save(step, b.fd, unix.SYS_FSMOUNT, spawn.From(b.fs), spawn.Int(unix.FSMOUNT_CLOEXEC), spawn.Int(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC))
	b.attach(step, b.fd, "/dev/pts")
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fs))
	b.symlink("pts/ptmx", "/dev/ptmx")
}

// terminal makes the command's own terminal, gives its other end to Remit and
// makes it the standard streams.
func (b *builder) terminal(size unix.Winsize) {
	const step = "terminal"
	b.Save(step, b.fs, unix.SYS_OPENAT, spawn.From(b.root), b.Text("dev/pts/ptmx"),
		spawn.Int(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK), none)
	b.Call(step, unix.SYS_IOCTL, spawn.From(b.fs), spawn.Int(unix.TIOCSPTLCK), spawn.At(b.zero))
	b.Call(step, unix.SYS_IOCTL, spawn.From(b.fs), spawn.Int(unix.TIOCSWINSZ), spawn.At(spawn.Object(b.Program, size)))
	b.Save(step, b.fd, unix.SYS_IOCTL, spawn.From(b.fs), spawn.Int(unix.TIOCGPTPEER), spawn.Int(unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC))
	for i := range 3 {
		b.Call(step, unix.SYS_DUP3, spawn.From(b.fd), spawn.Int(i), none)
	}
	b.Hand(step, b.fs)
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fs))
}

// terminalSize is that of the terminal to make; nil: there is none to make.
func terminalSize(s *sandbox.Stdio) *unix.Winsize {
	if s == nil || s.Terminal == nil {
		return nil
	}
	return &unix.Winsize{Col: uint16(s.Terminal.Columns), Row: uint16(s.Terminal.Rows)}
}

// handTerminal passes the terminal's other end on when the sandbox hands it out.
func handTerminal(s *sandbox.Stdio, child *spawn.Child) {
	if terminalSize(s) == nil {
		return
	}
	if f := child.Take(); f != nil { // else the sandbox ended, and Wait tells why
		s.Terminal.Opened(f)
	}
}
