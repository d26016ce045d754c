package admission

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// The PROXY protocol, versions 1 and 2: a proxy says before everything else for which client it
// connects. https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt

const (
	maxLine     = 107     // bytes of a header of version 1
	maxBinary   = 4 << 10 // bytes of a header of version 2, after its length
	signature   = "\r\n\r\n\x00\r\nQUIT\n"
	lineBegin   = "PROXY "
	version2    = 0x20
	commandMask = 0x0f
	local       = 0x00 // the proxy itself connects, as to check the service
	proxied     = 0x01
	tcp4        = 0x11
	tcp6        = 0x21
)

var errProxyHeader = errors.New("not a valid PROXY header")

// readProxyHeader reads the header, and nothing after it. The zero address means that the
// connection is of the proxy itself, or of a client that the header does not name.
func readProxyHeader(r io.Reader) (netip.AddrPort, error) {
	begin := make([]byte, len(signature))
	if _, err := io.ReadFull(r, begin); err != nil {
		return netip.AddrPort{}, err
	}
	switch {
	case string(begin) == signature:
		return readBinary(r)
	case bytes.HasPrefix(begin, []byte(lineBegin)):
		return readLine(r, begin)
	}
	return netip.AddrPort{}, errProxyHeader
}

// readBinary reads the rest of a header of version 2.
func readBinary(r io.Reader) (netip.AddrPort, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return netip.AddrPort{}, err
	}
	size := int(binary.BigEndian.Uint16(head[2:]))
	command := head[0] & commandMask
	if head[0]&^commandMask != version2 || command != local && command != proxied || size > maxBinary {
		return netip.AddrPort{}, errProxyHeader
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return netip.AddrPort{}, err
	}
	each := map[byte]int{tcp4: 4, tcp6: 16}[head[1]] // bytes of an address
	if command == local || each == 0 {
		return netip.AddrPort{}, nil
	}
	if size < 2*each+4 {
		return netip.AddrPort{}, errProxyHeader
	}
	a, _ := netip.AddrFromSlice(body[:each]) // has this length
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(body[2*each:])), nil
}

// readLine reads the rest of a header of version 1, as "PROXY TCP4 192.0.2.1 192.0.2.2 1234 443".
func readLine(r io.Reader, line []byte) (netip.AddrPort, error) {
	var next [1]byte
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if len(line) == maxLine {
			return netip.AddrPort{}, errProxyHeader
		}
		if _, err := io.ReadFull(r, next[:]); err != nil { // one by one: the following bytes are the client's
			return netip.AddrPort{}, err
		}
		line = append(line, next[0])
	}
	words := strings.Split(strings.TrimSuffix(string(line), "\r\n"), " ")
	if words[1] == "UNKNOWN" {
		return netip.AddrPort{}, nil
	}
	if len(words) != 6 {
		return netip.AddrPort{}, errProxyHeader
	}
	from, err := lineAddress(words[1], words[2], words[4])
	if _, to := lineAddress(words[1], words[3], words[5]); err != nil || to != nil {
		return netip.AddrPort{}, errProxyHeader
	}
	return from, nil
}

// lineAddress reads an address and a port as version 1 writes them.
func lineAddress(family, address, port string) (netip.AddrPort, error) {
	a, err := netip.ParseAddr(address)
	n, perr := strconv.ParseUint(port, 10, 16)
	fits := family == "TCP4" && a.Is4() || family == "TCP6" && a.Is6() && a.Zone() == ""
	if err != nil || perr != nil || !fits || port != strconv.FormatUint(n, 10) {
		return netip.AddrPort{}, errProxyHeader
	}
	return netip.AddrPortFrom(a, uint16(n)), nil //nolint:gosec // parsed with 16 bits
}

// arrive reads the header of a connection of a proxy, before anything else, and counts the
// connection as one of the client's address. It is called when the server asks for the address, or
// reads: by then the connection has a goroutine of its own.
func (c *conn) arrive() {
	c.header.Do(func() {
		_ = c.Conn.SetReadDeadline(time.Now().Add(c.l.door.Arrive)) // a failure shows when it is read
		at, err := readProxyHeader(c.Conn)
		_ = c.Conn.SetReadDeadline(time.Time{}) // the server sets its own ones
		if err == nil && at.IsValid() {
			c.client = net.TCPAddrFromAddrPort(at)
			err = c.l.moveTo(c, c.client)
		}
		if c.failed = err; err != nil {
			_ = c.Close() // the error is more important
		}
	})
}

// RemoteAddr implements net.Conn. It is the client's address, where a proxy names it.
func (c *conn) RemoteAddr() net.Addr {
	if c.proxied {
		if c.arrive(); c.client != nil {
			return c.client
		}
	}
	return c.Conn.RemoteAddr()
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if c.proxied {
		if c.arrive(); c.failed != nil {
			return 0, c.failed
		}
	}
	return c.Conn.Read(b)
}
