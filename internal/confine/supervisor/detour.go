//go:build linux && (amd64 || arm64)

package supervisor

import (
	"cmp"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Detour leads TCP connections of the processes to a port of the loopback address in their network namespace, instead
// of the address that they gave. getpeername(2) then shows the detour.
type Detour struct {
	Port uint16

	// Expect is told of each connection before it is made, with its local address. Denied: the process gets EACCES. forget is called
	// if no connection comes from the address.
	Expect func(from netip.AddrPort) (forget func(), err error)
}

// prepare gives the address of a detour for a socket that is not connected, and has the connection expected. forget is called if
// connect(2) fails. Without a detour the address stays as it is.
func (c *call) prepare(socket, domain int, a address) (to address, forget func(), errno unix.Errno) {
	none := func() {}
	at, ok := a.internet()
	if c.Detour == nil || !ok || !isStream(socket) {
		return a, none, 0
	}
	if _, err := unix.Getpeername(socket); err == nil {
		return a, none, 0 // the kernel tells the state of a connection whatever the address
	}
	d := c.Detour(netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
	if d == nil {
		return a, none, 0
	}
	from, errno := localAddress(socket, domain)
	if errno != 0 {
		return a, none, errno
	}
	forget, err := d.Expect(from)
	if err != nil {
		return a, none, unix.EACCES
	}
	return loopback(domain, d.Port), forget, 0
}

// isStream reports whether a socket has a TCP connection, or one of several paths (MPTCP), which listeners of TCP accept.
func isStream(socket int) bool {
	protocol, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_PROTOCOL)
	return err == nil && (protocol == unix.IPPROTO_TCP || protocol == unix.IPPROTO_MPTCP)
}

// Sizes of the kernel's addresses.
const (
	inetSize  = 16 // sizeof(struct sockaddr_in)
	inet6Size = 24 // the least of struct sockaddr_in6 that the kernel takes
)

// internet reads an address of the Internet.
func (a address) internet() (to netip.AddrPort, ok bool) {
	if len(a.raw) < inetSize {
		return to, false
	}
	port := binary.BigEndian.Uint16(a.raw[2:])
	switch binary.NativeEndian.Uint16(a.raw) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.raw[4:])), port), true
	case unix.AF_INET6:
		if len(a.raw) >= inet6Size {
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte(a.raw[8:])), port), true
		}
	}
	return to, false
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// loopback is a port of 127.0.0.1 as a socket of the domain names it.
func loopback(domain int, port uint16) address {
	raw := make([]byte, 28) // sizeof(struct sockaddr_in6)
	binary.NativeEndian.PutUint16(raw, uint16(domain))
	binary.BigEndian.PutUint16(raw[2:], port)
	if domain == unix.AF_INET {
		copy(raw[4:], loopback4.AsSlice())
		return address{raw: raw[:inetSize]}
	}
	at := netip.AddrFrom16(loopback4.As16()).As16()
	copy(raw[8:], at[:])
	return address{raw: raw}
}

// localAddress gives a socket a local address, if it has none yet, and returns it.
func localAddress(socket, domain int) (netip.AddrPort, unix.Errno) {
	from, errno := boundAt(socket)
	if errno == 0 && from.Port() == 0 {
		// These cannot fail. No other socket may take the same port, which the connection is known by.
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 0)
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 0)
		_ = unix.SetsockoptInt(socket, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 0)
		if domain == unix.AF_INET6 {
			_ = unix.SetsockoptInt(socket, unix.SOL_IPV6, unix.IPV6_V6ONLY, 0)
		}
		if errno = loopback(domain, 0).with(unix.SYS_BIND, socket); errno == 0 {
			from, errno = boundAt(socket)
		}
	}
	if from.Addr().IsUnspecified() {
		from = netip.AddrPortFrom(loopback4, from.Port())
	}
	return from, errno
}

func boundAt(socket int) (netip.AddrPort, unix.Errno) {
	name, err := unix.Getsockname(socket)
	switch at := name.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), 0 //nolint:gosec // a port has 16 bits
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(at.Addr).Unmap(), uint16(at.Port)), 0 //nolint:gosec // a port has 16 bits
	}
	return netip.AddrPort{}, cmp.Or(errnoOf(err), unix.EAFNOSUPPORT)
}
