package egress_test

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/egress"
)

// direct connects as the supervisor does for a program that knows no proxy. It returns nil if the connection is refused at once.
func (b *box) direct(t *testing.T, host string, port uint16) net.Conn {
	t.Helper()
	hello, _, err := b.Expect(host, port)
	if err != nil {
		return nil
	}
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write(hello); err != nil {
		t.Fatal(err)
	}
	return c
}

// answer sends a text and reads all that comes back.
func answer(t *testing.T, c net.Conn, send string) string {
	t.Helper()
	defer c.Close()
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
	for _, host := range []string{"127.0.0.1:80", "localhost:80", "[::1]:80", "0.0.0.0", "127.0.0.1", "web.localhost"} { // names of one interface
		if got := answer(t, b.direct(t, "localhost", 80), strings.Replace(get, "plain.test", host, 1)); !strings.Contains(got, "hello from localhost") {
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
	// Without a person to ask, the refusal comes in the program's own protocol.
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
	if _, dialled := w.saw(); len(dialled) != 10 { // one for the TLS of another name, of which no byte left
		t.Errorf("dialled: %v", dialled)
	}
	if got := refusals(b); len(got) < 9 || !strings.Contains(strings.Join(got, "\n"), "no entry of network.allow matches http://evil.test") {
		t.Errorf("the report has %q", got)
	}
}

// However many connections fail, or pass under one rule, one under another rule is in the report and in the record.
func TestManyConnectionsHideNone(t *testing.T) {
	open := newCanary(t, false, nil)
	p := allowing(t, `{allow: ["tcp://nobody.test:1", "tcp://many.test:7000", "tcp://last.test:7001"]}`)
	b := serve(t, &world{servers: map[uint16]string{7000: open.at(), 7001: open.at()}}, egress.Options{Permit: p})
	const get = "GET / HTTP/1.0\r\n\r\n"
	for range 4200 {
		answer(t, b.direct(t, "nobody.test", 1), get)
	}
	for range 4200 {
		if got := answer(t, b.direct(t, "many.test", 7000), get); !strings.Contains(got, "hello") {
			t.Fatal(got)
		}
	}
	answer(t, b.direct(t, "last.test", 7001), get)
	b.Close()
	counts := map[string]int{}
	for _, c := range b.Connections() {
		counts[c.Rule[:len("network.allow[0]")]] += c.Count
	}
	if counts["network.allow[0]"] != 4200 || counts["network.allow[1]"] != 4200 || counts["network.allow[2]"] != 1 {
		t.Errorf("the report counts %v", counts)
	}
	notes, _ := p.Happened()
	if last := notes[len(notes)-1]; len(notes) > 300 || !strings.Contains(last.Rule, "last.test") || last.Bytes == 0 {
		t.Errorf("%d notes; the last one is %+v", len(notes), last)
	}
}

// A connection that begins with other bytes than the announced ones is none of them, and each is for one connection.
func TestOtherConnectionsAreNotDirect(t *testing.T) {
	open := newCanary(t, false, nil)
	b := serve(t, &world{servers: map[uint16]string{0: open.at()}}, egress.Options{Permit: allowing(t, `{allow: ["tcp://any.test:7000"]}`)})
	const get = "GET / HTTP/1.0\r\n\r\n"
	hello, _, err := b.Expect("any.test", 7000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range hello {
		other := slices.Clone(hello)
		other[i] ^= 1
		if got := b.raw(t, string(other)+get); strings.Contains(got, "hello") {
			t.Fatalf("with the byte %d changed: %s", i, got)
		}
	}
	if got := b.raw(t, string(hello)+get); !strings.Contains(got, "hello") {
		t.Errorf("the announced one: %q", got)
	}
	if got := b.raw(t, string(hello)+get); got != "" {
		t.Errorf("the second one: %q", got)
	}
	hello, forget, err := b.Expect("any.test", 7000)
	if err != nil {
		t.Fatal(err)
	}
	forget()
	if got := b.raw(t, string(hello)+get); got != "" {
		t.Errorf("one that was taken back: %q", got)
	}
	for range 5000 { // of which none comes
		if hello, _, err = b.Expect("any.test", 7000); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.raw(t, string(hello)+get); !strings.Contains(got, "hello") {
		t.Errorf("after many that do not come: %q", got)
	}
	b.Close()
	if _, _, err := b.Expect("any.test", 7000); err == nil {
		t.Error("a connection is expected after the end")
	}
}
