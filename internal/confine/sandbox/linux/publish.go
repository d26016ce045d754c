//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// publishedAtOnce bounds the connections to the published ports of one sandbox.
const publishedAtOnce = 32

// families are those of the sockets that lead to a sandbox's loopback addresses: servers that
// listen on "localhost" may have either.
func families() []uint64 {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return []uint64{unix.AF_INET}
	}
	return []uint64{unix.AF_INET, unix.AF_INET6}
}

// dialers hands out sockets that are not connected yet. A socket stays in the network that it
// was made in, so each can be connected to the sandbox's own addresses, and to nothing else.
func (b *builder) dialers() {
	if len(b.p.Publish) == 0 {
		return
	}
	for range publishedAtOnce {
		b.dialer()
	}
}

// dialer hands out the sockets of one connection, by family.
func (b *builder) dialer() {
	const step = "sockets of published ports"
	for _, family := range families() {
		b.Save(step, b.fd, unix.SYS_SOCKET, spawn.Int(family), spawn.Int(unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK), none)
		b.Hand(step, b.fd)
		b.Call(step, unix.SYS_CLOSE, spawn.From(b.fd))
	}
}

// publisher joins connections to this machine's loopback address with new ones to the ports of a
// sandbox. Nothing in the sandbox can open a connection through it.
type publisher struct {
	ports   []*publishedPort
	free    chan []*os.File // the sockets of one connection, by family
	made    []*os.File
	ended   chan struct{}
	serving sync.WaitGroup
}

type publishedPort struct {
	sandbox.Port
	l       net.Listener
	in, out atomic.Int64
	used    atomic.Int64
}

// newPublisher takes the ports of this machine; nil for none.
func newPublisher(list []sandbox.Port) (*publisher, error) {
	if len(list) == 0 {
		return nil, nil
	}
	p := &publisher{free: make(chan []*os.File, publishedAtOnce), ended: make(chan struct{})}
	for _, port := range list {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port.Host))
		if err != nil {
			p.stop()
			return nil, portError(port, err)
		}
		p.ports = append(p.ports, &publishedPort{Port: port, l: l})
	}
	return p, nil
}

func portError(port sandbox.Port, err error) error {
	why := "cannot be used"
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		why = "is taken by another program"
	case errors.Is(err, unix.EACCES):
		why = "is reserved by the system"
	}
	return fault.Wrap(fault.Usage, err, "the port %d of this machine %s, so the sandbox's port %d cannot be published there", port.Host, why, port.Inside).
		ForOperator("choose another: --publish OTHER:%d", port.Inside)
}

// serve takes the sockets from the sandbox and serves the ports until close.
func (p *publisher) serve(child *spawn.Child) error {
	if p == nil {
		return nil
	}
	for range publishedAtOnce {
		var sockets []*os.File
		for range families() {
			f := child.Take()
			if f == nil {
				return fault.New(fault.ToolFailed, "the sandbox ended before its network was there")
			}
			sockets = append(sockets, f)
			p.made = append(p.made, f)
		}
		p.free <- sockets
	}
	for _, port := range p.ports {
		p.serving.Go(func() { p.accept(port) })
	}
	return nil
}

func (p *publisher) accept(port *publishedPort) {
	for {
		conn, err := port.l.Accept()
		if err != nil {
			return
		}
		select {
		case sockets := <-p.free:
			port.used.Add(1)
			p.serving.Go(func() {
				p.join(conn, sockets, port)
				p.free <- sockets
			})
		case <-p.ended:
			_ = conn.Close()
			return
		}
	}
}

// join joins one connection with the server in the sandbox.
func (p *publisher) join(conn net.Conn, sockets []*os.File, port *publishedPort) {
	defer func() { _ = conn.Close() }()
	for i, f := range sockets {
		inside, err := dialInside(p.ended, f, families()[i], port.Inside)
		if err != nil {
			disconnect(f)
			continue
		}
		over := make(chan struct{})
		p.serving.Go(func() {
			select {
			case <-p.ended:
			case <-over:
			}
			_, _ = conn.Close(), inside.Close()
		})
		port.out.Add(exchange(conn, inside, &port.in))
		close(over)
		_ = inside.Close()
		disconnect(f)
		return
	}
}

// exchange copies both ways until both ends are through. It returns what came out of the sandbox.
func exchange(conn, inside net.Conn, in *atomic.Int64) (out int64) {
	there := make(chan struct{})
	go func() {
		defer close(there)
		n, _ := io.Copy(inside, conn) // a broken connection is the client's to notice
		in.Add(n)
		_ = inside.(*net.TCPConn).CloseWrite()
	}()
	out, _ = io.Copy(conn, inside)
	_ = conn.(*net.TCPConn).CloseWrite()
	<-there
	return out
}

// dialTime is how long a busy server may take to accept a connection.
const dialTime = 30 * time.Second

// dialInside connects a socket of the sandbox to a port of its loopback address, until the channel is closed.
func dialInside(ended <-chan struct{}, f *os.File, family uint64, port uint16) (net.Conn, error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: int(port), Addr: [4]byte{127, 0, 0, 1}}
	if family == unix.AF_INET6 {
		to = &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}}
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = connect(ended, int(fd), to) })
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}

// connect waits for a server whose queue is full, until the channel is closed.
func connect(ended <-chan struct{}, fd int, to unix.Sockaddr) error {
	err := unix.Connect(fd, to)
	if err != unix.EINPROGRESS {
		return err
	}
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}} //nolint:gosec // a descriptor
	for begun := time.Now(); ; {
		n, err := unix.Poll(ready, 50)
		if n > 0 {
			break
		}
		if err != nil && err != unix.EINTR || time.Since(begun) > dialTime {
			return unix.ETIMEDOUT
		}
		select {
		case <-ended:
			return unix.ECANCELED
		default:
		}
	}
	code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && code != 0 {
		err = unix.Errno(code)
	}
	return err
}

// disconnect ends a socket's connection, so that it can be connected anew.
func disconnect(f *os.File) {
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	none := unix.RawSockaddr{Family: unix.AF_UNSPEC}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = unix.Syscall(unix.SYS_CONNECT, fd, uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
	})
}

// stop ends the listeners and connections, and waits for them.
func (p *publisher) stop() {
	close(p.ended)
	for _, port := range p.ports {
		_ = port.l.Close()
	}
	p.serving.Wait()
	for _, f := range p.made {
		_ = f.Close()
	}
}

// close ends the published ports, and notes the transferred bytes on the permit.
func (p *publisher) close(to permit.Permit) {
	if p == nil {
		return
	}
	p.stop()
	for _, port := range p.ports {
		to.Note(tool.Happened{Effect: tool.NetworkSocket, On: "publish " + port.String(), Bytes: port.out.Load(), Received: port.in.Load(),
			Purpose: fmt.Sprintf("connections: %d", port.used.Load())})
	}
}
