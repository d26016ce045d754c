package listen

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"

	"github.com/remitrun/remit/internal/base/fault"
)

// tries is how often Localhost looks for a port that is free at all addresses.
const tries = 20

// Localhost listens at an address and, with the same port, wherever browsers look for a name
// under localhost: 127.0.0.1 and [::1]. Another process that listened there would receive
// the requests and cookies that are meant for this one, so a taken port is an error.
func Localhost(ctx context.Context, a Address) (net.Listener, error) {
	for try := 1; ; try++ {
		l, err := Open(ctx, a)
		if err != nil {
			return nil, err
		}
		at, err := netip.ParseAddrPort(l.Addr().String())
		if err != nil {
			_ = l.Close() // the error is more important
			return nil, fault.Wrap(fault.Internal, err, "the address of a listener cannot be read")
		}
		all, err := listenBeside(ctx, l, at)
		if err == nil {
			return join(all), nil
		}
		for _, one := range all {
			_ = one.Close() // the error is more important
		}
		if ap, perr := netip.ParseAddrPort(a.Listen); perr != nil || ap.Port() != 0 || try == tries {
			return nil, err
		}
	}
}

// listenBeside listens at the addresses of localhost that l does not cover. l is the first of the list.
func listenBeside(ctx context.Context, l net.Listener, at netip.AddrPort) ([]net.Listener, error) {
	all := []net.Listener{l}
	for _, ip := range []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()} {
		own := at.Addr()
		if own == ip || own == netip.IPv6Unspecified() || own == netip.IPv4Unspecified() && ip.Is4() {
			continue
		}
		next := netip.AddrPortFrom(ip, at.Port()).String()
		more, err := (&net.ListenConfig{}).Listen(ctx, "tcp", next)
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			continue // this machine does not have the address, so no program can listen on it
		}
		if err != nil {
			return all, fault.Wrap(fault.Usage, err, "cannot listen on %q: %v; browsers may send requests for the web UI to whoever listens there", next, errors.Unwrap(err)).
				WithHint("stop the program that listens there, or choose another port with --listen")
		}
		all = append(all, more)
	}
	return all, nil
}

// joined accepts the connections of several listeners.
type joined struct {
	net.Listener // the first one, for its address

	all    []net.Listener
	in     chan accepted
	closed chan struct{}
	once   sync.Once
	tasks  sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

func join(all []net.Listener) net.Listener {
	if len(all) == 1 {
		return all[0]
	}
	j := &joined{Listener: all[0], all: all, in: make(chan accepted), closed: make(chan struct{})}
	for _, l := range all {
		j.tasks.Go(func() { j.accept(l) })
	}
	return j
}

func (j *joined) accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		select {
		case j.in <- accepted{conn, err}:
		case <-j.closed:
			if conn != nil {
				_ = conn.Close() // nobody serves it
			}
			return
		}
	}
}

// Accept implements net.Listener.
func (j *joined) Accept() (net.Conn, error) {
	select {
	case a := <-j.in:
		return a.conn, a.err
	case <-j.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (j *joined) Close() error {
	var err error
	j.once.Do(func() {
		close(j.closed)
		for _, l := range j.all {
			err = errors.Join(err, l.Close())
		}
		j.tasks.Wait()
	})
	return err
}
