//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// streams are the standard streams of one command.
type streams struct {
	fds   [3]int // what the command gets
	files []*os.File
	out   *capture
	err   *capture
	pumps []*pump
}

// newStreams makes the streams of a command. outlives says that processes of the command may write to them when it is over.
func newStreams(c sandbox.Command, keep int64, outlives bool) (*streams, error) {
	s := &streams{}
	switch {
	case terminalSize(c.Stdio) != nil:
		return s, s.none()
	case c.Stdio != nil && outlives:
		return s, s.pump(c.Stdio)
	case c.Stdio != nil:
		return s, s.take(c.Stdio)
	}
	in, err := stdin(c.Stdin)
	if err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "stdin cannot be prepared: %v", err)
	}
	s.files = append(s.files, os.NewFile(uintptr(in), "stdin"))
	if s.out, err = newCapture(keep); err == nil {
		s.err, err = newCapture(keep)
	}
	if err != nil {
		s.close()
		s.end(0)
		return nil, fault.Wrap(fault.ToolFailed, err, "the output cannot be prepared: %v", err)
	}
	s.fds = [3]int{in, s.out.write, s.err.write}
	return s, nil
}

// none is for a command whose streams are made inside the sandbox.
func (s *streams) none() error {
	f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the streams cannot be prepared: %v", sandbox.RootCause(err))
	}
	s.files = []*os.File{f}
	s.fds = [3]int{int(f.Fd()), int(f.Fd()), int(f.Fd())}
	return nil
}

// take uses streams that were given. Through a regular file, a folder or a terminal of
// the host's, a command would reach files that the mounts do not show.
func (s *streams) take(given *sandbox.Stdio) error {
	s.files = []*os.File{given.In, given.Out, given.Err}
	for i, f := range s.files {
		if err := isPipe(f); err != nil {
			s.close()
			return fault.Wrap(fault.Internal, err, "stream %d of the command: %v", i, err)
		}
		s.fds[i] = int(f.Fd())
	}
	return nil
}

// isPipe returns why a file is no pipe.
func isPipe(f *os.File) error {
	st, err := f.Stat() // of nil: os.ErrInvalid
	if err == nil && st.Mode()&os.ModeType != os.ModeNamedPipe {
		err = errors.New("not a pipe")
	}
	return err
}

// close lets go of the command's ends.
func (s *streams) close() {
	for _, f := range s.files {
		_ = f.Close() // the same file may be there three times
	}
	for _, c := range []*capture{s.out, s.err} {
		if c != nil {
			c.closeWrite()
		}
	}
}

// end returns the captured output.
func (s *streams) end(patience time.Duration) (out, err sandbox.Stream) {
	for _, p := range s.pumps {
		p.end()
	}
	if s.out != nil {
		out = s.out.end(patience)
	}
	if s.err != nil {
		err = s.err.end(patience)
	}
	return out, err
}

// capture reads what a command writes, keeps the first bytes and counts the
// rest, so that neither a flood nor a reader that stopped can do harm.
type capture struct {
	read  *os.File
	write int
	done  chan struct{}
	s     sandbox.Stream
}

func newCapture(keep int64) (*capture, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(p[0], true); err != nil {
		return nil, err
	}
	c := &capture{read: os.NewFile(uintptr(p[0]), "output"), write: p[1], done: make(chan struct{})}
	go c.drain(keep)
	return c, nil
}

func (c *capture) closeWrite() {
	if c.write >= 0 {
		_ = unix.Close(c.write)
		c.write = -1
	}
}

func (c *capture) drain(keep int64) {
	defer close(c.done)
	buf := make([]byte, 32<<10)
	for {
		n, err := c.read.Read(buf)
		c.s.Total += int64(n)
		if room := keep - int64(len(c.s.Data)); room > 0 {
			c.s.Data = append(c.s.Data, buf[:min(int64(n), room)]...)
		}
		if err != nil {
			break
		}
	}
	c.s.Truncated = c.s.Total > int64(len(c.s.Data))
}

// end returns the captured output, waiting at most patience for the writers to go.
func (c *capture) end(patience time.Duration) sandbox.Stream {
	c.closeWrite()
	_ = c.read.SetReadDeadline(time.Now().Add(patience))
	<-c.done
	_ = c.read.Close()
	return c.s
}

// stdin puts the input into memory, from where the command reads it as a file.
func stdin(b []byte) (fd int, err error) {
	if len(b) == 0 { // a closed pipe costs less
		var p [2]int
		if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return -1, err
		}
		return p[0], unix.Close(p[1])
	}
	if fd, err = unix.MemfdCreate("stdin", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING); err != nil {
		return -1, err
	}
	for off := 0; off < len(b) && err == nil; {
		var n int
		n, err = unix.Pwrite(fd, b[off:], int64(off))
		off += n
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_WRITE)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
