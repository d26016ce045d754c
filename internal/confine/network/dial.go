package network

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

const (
	maxAddrs   = 8 // tried for one connection
	minPerAddr = 2 * time.Second
)

// Guard is the last check of an address, made by the dialler between the
// socket's making and its connecting.
type Guard func(network, address string, _ syscall.RawConn) error

// DialFunc dials one address under a guard, as [DialTCP] does.
type DialFunc func(ctx context.Context, to netip.AddrPort, g Guard) (net.Conn, error)

// DialChecked connects to the first of the addresses that answers, and to
// nothing else: the decision was made with these addresses. Each gets a fair
// share of the time left.
func DialChecked(ctx context.Context, dial DialFunc, addrs []netip.Addr, port uint16) (net.Conn, error) {
	if len(addrs) == 0 {
		return nil, fault.New(fault.HandleRefused, "no decided address is left")
	}
	addrs = alternate(addrs)
	guard := func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || ap.Port() != port || !slices.Contains(addrs, ap.Addr().Unmap()) {
			return fault.New(fault.HandleRefused, "the address %q is not one that was decided on", address)
		}
		return nil
	}
	var errs []error
	for i, a := range addrs {
		one, cancel := share(ctx, len(addrs)-i)
		conn, err := dial(one, netip.AddrPortFrom(a, port), guard)
		cancel()
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}

// alternate orders addresses so that the two families take turns, beginning
// with the resolver's choice: a dead family then costs one attempt.
func alternate(addrs []netip.Addr) []netip.Addr {
	var same, other []netip.Addr
	for _, a := range addrs {
		if a.Is4() == addrs[0].Is4() {
			same = append(same, a)
		} else {
			other = append(other, a)
		}
	}
	out := make([]netip.Addr, 0, len(addrs))
	for i := 0; len(out) < len(addrs); i++ {
		if i < len(same) {
			out = append(out, same[i])
		}
		if i < len(other) {
			out = append(out, other[i])
		}
	}
	return out[:min(len(out), maxAddrs)]
}

func share(ctx context.Context, parts int) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok || parts <= 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, max(time.Until(end)/time.Duration(parts), minPerAddr))
}

// DialTCP dials one address.
func DialTCP(ctx context.Context, to netip.AddrPort, g Guard) (net.Conn, error) {
	d := net.Dialer{Control: g, KeepAlive: -1}
	return d.DialContext(ctx, "tcp", to.String())
}
