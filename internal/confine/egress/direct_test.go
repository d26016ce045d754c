//go:build linux

package egress_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/egress"
)

// direct connects as a program that knows no proxy, to a host and port. It returns nil if the connection is refused at once.
func (b *box) direct(t *testing.T, host string, port uint16) net.Conn {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	at := name.(*unix.SockaddrInet4)
	if _, err := b.Expect(netip.AddrPortFrom(netip.AddrFrom4(at.Addr), uint16(at.Port)), host, port); err != nil {
		return nil
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: b.port}); err != nil {
		t.Fatal(err)
	}
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	return c
}

// answer sends a text and reads all that comes back.
func answer(t *testing.T, c net.Conn, send string) string {
	t.Helper()
	_, _ = io.WriteString(c, send)
	b, _ := io.ReadAll(c)
	return string(b)
}

func TestDirectConnections(t *testing.T) {
	open, secure := newCanary(t, false, nil), newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{80: open.at(), 443: secure.at(), 7000: open.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://plain.test/in/**", "https://tls.test", "tcp://any.test:7000", "GET http://localhost:80"], ask: ["https://asked.test"]}`)})
	const get = "GET /in/x HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n"

	if got := answer(t, b.direct(t, "plain.test", 80), get); !strings.HasSuffix(got, "hello from plain.test") {
		t.Errorf("plain HTTP: %s", got)
	}
	if got := answer(t, b.direct(t, "plain.test", 80), strings.Replace(get, "/in/", "/out/", 1)); !strings.HasPrefix(got, "HTTP/1.1 403 ") {
		t.Errorf("another path: %s", got)
	}
	if got := answer(t, b.direct(t, "plain.test", 80), strings.Replace(get, "plain.test", "other.test", 1)); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("another Host: %s", got)
	}
	if got := answer(t, b.direct(t, "plain.test", 80), "GET http://other.test/in/x HTTP/1.1\r\nHost: other.test\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 400 ") {
		t.Errorf("a request to a proxy: %s", got)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} { // names of one interface
		if got := answer(t, b.direct(t, "localhost", 80), strings.Replace(get, "plain.test", host+":80", 1)); !strings.Contains(got, "hello from localhost") {
			t.Errorf("the Host %s: %s", host, got)
		}
	}
	if got := answer(t, b.direct(t, "any.test", 7000), get); !strings.HasSuffix(got, "hello from plain.test") {
		t.Errorf("any bytes: %s", got)
	}
	for name, want := range map[string]bool{"tls.test": true, "else.test": false} {
		c := tls.Client(b.direct(t, "tls.test", 443), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err := c.Handshake(); (err == nil) != want {
			t.Errorf("TLS for %s: %v", name, err)
		}
	}
	// Where a person could be asked, and nobody is there, the program finds it out in its own protocol.
	c := tls.Client(b.direct(t, "asked.test", 443), &tls.Config{ServerName: "asked.test"})
	if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("TLS that is refused: %v", err)
	}
	if got := answer(t, b.direct(t, "asked.test", 443), get); !strings.HasPrefix(got, "HTTP/1.1 403 ") || !strings.Contains(got, "no approver") {
		t.Errorf("HTTP that is refused: %s", got)
	}
	if got := answer(t, b.direct(t, "asked.test", 443), "\x00\x00"); got != "" {
		t.Errorf("another protocol that is refused: %s", got)
	}
	for _, port := range []uint16{22, 80, 443, 0} {
		if b.direct(t, "evil.test", port) != nil {
			t.Errorf("the port %d of a host that nobody allows was not refused at once", port)
		}
	}
	if b.direct(t, "o'dd", 443) != nil {
		t.Error("a host that is none was not refused")
	}
	b.Close()
	if _, dialled := w.saw(); len(dialled) != 7 { // one for the TLS of another name, of which no byte left
		t.Errorf("dialled: %v", dialled)
	}
	if got := refusals(b); len(got) < 9 || !strings.Contains(strings.Join(got, "\n"), "no entry of network.allow matches http://evil.test") {
		t.Errorf("the report has %q", got)
	}
}

// A connection that nobody announced, or that was taken back, needs the credentials.
func TestOtherConnectionsAreNotDirect(t *testing.T) {
	b := serve(t, &world{}, egress.Options{Permit: allowing(t, `{allow: ["http://plain.test"]}`)})
	const get = "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n"
	if got := b.raw(t, get); !strings.HasPrefix(got, "HTTP/1.1 407 ") {
		t.Errorf("without the credentials: %s", got)
	}
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	from := netip.MustParseAddrPort(c.LocalAddr().String())
	forget, err := b.Expect(netip.AddrPortFrom(from.Addr(), from.Port()+1), "plain.test", 80)
	if err != nil {
		t.Fatal(err)
	}
	forget()
	if got := answer(t, c, "GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 407 ") {
		t.Errorf("another connection: %s", got)
	}
	b.Close()
	if _, err := b.Expect(from, "plain.test", 80); err == nil {
		t.Error("a connection is expected after the end")
	}
}
