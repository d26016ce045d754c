//go:build linux && (amd64 || arm64)

package supervisor

import (
	"encoding/binary"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Detour leads TCP connections of the processes to a port of the loopback address in their network namespace, instead
// of the address that they gave. getpeername(2) then shows the detour.
type Detour struct {
	Port uint16

	// Expect is called before each connection. hello are the first bytes of the connection, which the supervisor sends. forget is
	// called if there is no connection. After an error the process gets EACCES.
	Expect func() (hello []byte, forget func(), err error)
}

// detour gives the detour of a call of connect(2); nil: the kernel connects to the address.
func (c *call) detour(socket, domain int, a address) *Detour {
	to, family := a.internet()
	if c.Detour == nil || family == 0 || family != domain || !isStream(socket) {
		return nil
	}
	if _, err := unix.Getpeername(socket); err == nil {
		return nil // the kernel tells the state of a connection whatever the address
	}
	return c.Detour(netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
}

// follow connects a socket by a detour. The process waits until the connection is there. That takes no time, unless the process
// prevents it by options of its socket.
func (c *call) follow(d *Detour, socket, domain int) (int, unix.Errno) {
	hello, forget, err := d.Expect()
	if err != nil {
		return -1, unix.EACCES
	}
	errno := c.still()
	if errno == 0 {
		if domain == unix.AF_INET6 {
			_ = unix.SetsockoptInt(socket, unix.SOL_IPV6, unix.IPV6_V6ONLY, 0) // fails for a socket with a port, which then cannot be connected
		}
		errno = loopback(domain, d.Port).with(unix.SYS_CONNECT, socket)
	}
	if errno == unix.EINPROGRESS || errno == unix.EINTR {
		errno = c.connected(socket)
	}
	if errno == 0 {
		errno = send(socket, hello)
	}
	if errno != 0 {
		forget()
	}
	return -1, errno
}

// connectTime is how long a connection to the detour may take: its listener has a long queue. lookTime is the time between two
// looks at the process that waits.
const (
	connectTime = 5 * time.Second
	lookTime    = 50 * time.Millisecond
)

// connected waits for the end of connect(2).
func (c *call) connected(socket int) unix.Errno {
	poll := []unix.PollFd{{Fd: int32(socket), Events: unix.POLLOUT}} //nolint:gosec // a descriptor
	for end := time.Now().Add(connectTime); ; {
		switch {
		case c.over.Load() || c.still() != 0:
			return unix.EINTR
		case time.Now().After(end):
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll(poll, int(lookTime.Milliseconds()))
		switch {
		case err != nil && errnoOf(err) != unix.EINTR:
			return errnoOf(err)
		case err == nil && n > 0:
			failed, err := unix.GetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_ERROR)
			if err != nil {
				return errnoOf(err)
			}
			return unix.Errno(failed) //nolint:gosec // an error number
		}
	}
}

// send sends all bytes or none: the buffer of a new connection is empty.
func send(socket int, b []byte) unix.Errno {
	n, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(socket), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if errno == 0 && int(n) != len(b) {
		return unix.ECONNABORTED
	}
	return errno
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

// internet reads an address of the Internet and its family; 0: it is none.
func (a address) internet() (to netip.AddrPort, family int) {
	if len(a.raw) < inetSize {
		return to, 0
	}
	port := binary.BigEndian.Uint16(a.raw[2:])
	switch binary.NativeEndian.Uint16(a.raw) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(a.raw[4:])), port), unix.AF_INET
	case unix.AF_INET6:
		if len(a.raw) >= inet6Size {
			return netip.AddrPortFrom(netip.AddrFrom16([16]byte(a.raw[8:])), port), unix.AF_INET6
		}
	}
	return to, 0
}

// loopback is a port of 127.0.0.1 as a socket of the domain names it.
func loopback(domain int, port uint16) address {
	at := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	raw := make([]byte, 28) // sizeof(struct sockaddr_in6)
	binary.NativeEndian.PutUint16(raw, uint16(domain))
	binary.BigEndian.PutUint16(raw[2:], port)
	if domain == unix.AF_INET {
		copy(raw[4:], at.AsSlice())
		return address{raw: raw[:inetSize]}
	}
	mapped := at.As16()
	copy(raw[8:], mapped[:])
	return address{raw: raw}
}
