//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// pump copies one output of a command until the command has ended. Later output of its other processes
// is read and dropped, so that SIGPIPE does not end them.
type pump struct {
	from *os.File
	to   *os.File
	over chan struct{} // closed after the last copied byte
}

// pump makes streams with pipes between the command's outputs and the given ones. These stay open: the command may
// have to be started in another sandbox.
func (s *streams) pump(given *sandbox.Stdio) error {
	var own sandbox.Stdio
	var err error
	own.In, err = duplicate(given.In)
	for _, ends := range [][2]**os.File{{&given.Out, &own.Out}, {&given.Err, &own.Err}} {
		var to, from *os.File
		if err == nil {
			to, err = duplicate(*ends[0])
		}
		if err == nil {
			if from, *ends[1], err = os.Pipe(); err != nil {
				_ = to.Close()
			}
		}
		if err != nil {
			own.Close()
			s.end(0)
			return fault.Wrap(fault.ToolFailed, err, "the streams cannot be prepared: %v", sandbox.RootCause(err))
		}
		one := &pump{from: from, to: to, over: make(chan struct{})}
		s.pumps = append(s.pumps, one)
		go one.run()
	}
	if err = s.take(&own); err != nil {
		s.end(0)
	}
	return err
}

// duplicate returns another descriptor of a pipe.
func duplicate(f *os.File) (*os.File, error) {
	if err := isPipe(f); err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var fd int
	if cerr := raw.Control(func(of uintptr) { fd, err = unix.FcntlInt(of, unix.F_DUPFD_CLOEXEC, 0) }); cerr != nil || err != nil {
		return nil, errors.Join(cerr, err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// run copies until the command is over or its last process has closed the pipe.
func (p *pump) run() {
	defer func() { _ = p.from.Close() }()
	_, err := io.Copy(p.to, p.from)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = p.from.SetReadDeadline(time.Time{})
		err = p.rest()
	}
	_ = p.to.Close()
	close(p.over)
	if err == nil {
		_, _ = io.Copy(io.Discard, p.from) // until the last process has ended
	}
}

// rest copies the present content of the pipe.
func (p *pump) rest() error {
	raw, err := p.from.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	if cerr := raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); cerr != nil || err != nil {
		return errors.Join(cerr, err)
	}
	_, err = io.CopyN(p.to, p.from, int64(n))
	return err
}

// end copies the rest. It waits until the reader has taken it or is gone, as a command without a pump does.
func (p *pump) end() {
	_ = p.from.SetReadDeadline(time.Now()) // fails if it has ended
	<-p.over
}
