package keeper

import (
	"errors"
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// streams are the standard input, output and error of a client. Its agent uses the same open files, so
// their flags are never changed. Reads and writes wait in poll(2) only, which stop ends.
type streams struct {
	list  [3]stream
	ended int // an eventfd that is readable after stop

	mu     sync.RWMutex // held to read while a descriptor is used
	closed bool
}

// stream is one of them.
type stream struct {
	of     *streams
	fd     int
	use    int // for reads and writes: fd itself, or the same pipe or terminal, opened again
	socket bool
}

var errFile = errors.New("not a file, pipe, socket or terminal")

// newStreams takes the descriptors over.
func newStreams(files []int) (*streams, error) {
	ended, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	s := &streams{ended: ended}
	for i := range s.list {
		s.list[i] = stream{of: s, fd: files[i], use: files[i]}
	}
	for i := range s.list {
		if err := s.list[i].prepare(); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

// prepare chooses how the descriptor is used without waiting in a read or write. Pipes and terminals are
// opened again for that, with flags of their own.
func (s *stream) prepare() error {
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		s.socket = true
		return nil
	case unix.S_IFREG:
		return nil
	case unix.S_IFCHR:
		if !isTerminal(s.fd) {
			return nil
		}
	case unix.S_IFIFO:
	default:
		return errFile
	}
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	again, err := unix.Open("/proc/self/fd/"+strconv.Itoa(s.fd), flags&unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err == nil {
		s.use = again // only poll of the other one sees that a named pipe has lost its writers before
	}
	return err
}

func isTerminal(fd int) bool {
	_, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	return err == nil
}

// Fd tells whether it is a terminal.
func (s *stream) Fd() uintptr { return uintptr(s.fd) }

// Read implements io.Reader.
func (s *stream) Read(b []byte) (int, error) {
	n, err := s.once(unix.POLLIN, func() (int, error) {
		if s.socket {
			n, _, err := unix.Recvfrom(s.use, b, unix.MSG_DONTWAIT)
			return n, err
		}
		return unix.Read(s.use, b)
	})
	if n == 0 && err == nil && len(b) > 0 {
		err = io.EOF
	}
	return n, err
}

// Write implements io.Writer.
func (s *stream) Write(b []byte) (done int, err error) {
	for done < len(b) {
		n, err := s.once(unix.POLLOUT, func() (int, error) {
			if s.socket {
				return unix.SendmsgN(s.use, b[done:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			}
			return unix.Write(s.use, b[done:])
		})
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return done, err
		}
		done += n
	}
	return done, nil
}

// once waits until the descriptor is ready, and uses it.
func (s *stream) once(event int16, use func() (int, error)) (int, error) {
	s.of.mu.RLock()
	defer s.of.mu.RUnlock()
	for !s.of.closed {
		p := []unix.PollFd{{Fd: int32(s.of.ended), Events: unix.POLLIN}, {Fd: int32(s.fd), Events: event}} //nolint:gosec // descriptors are small
		if _, err := unix.Poll(p, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return 0, err
		}
		if p[0].Revents != 0 {
			break
		}
		if p[1].Revents == 0 {
			continue
		}
		if n, err := use(); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return max(n, 0), err
		}
	}
	return 0, os.ErrClosed
}

// stop ends each read and write, also later ones.
func (s *streams) stop() {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.closed {
		_, _ = unix.Write(s.ended, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // fails if its counter is full: it is readable then
	}
}

// close closes the descriptors, which nothing uses then.
func (s *streams) close() {
	s.stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	for _, one := range s.list {
		_ = unix.Close(one.fd)
		if one.use != one.fd {
			_ = unix.Close(one.use)
		}
	}
	_ = unix.Close(s.ended)
}
