package admission_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/admission"
)

// open serves a handler through a door.
func open(t *testing.T, d admission.Door, h http.HandlerFunc) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at the end
	if err != nil {
		t.Fatal(err)
	}
	d = d.Settled()
	srv := d.Server(h)
	go func() { _ = srv.Serve(d.Listen(l)) }() // it ends with Close
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

// say sends a text over a new connection.
func say(t *testing.T, addr, text string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr) //nolint:noctx // the server is of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAClientThatDoesNotReadLosesItsConnection: an admitted client has time for each part of a
// response, and another one for all of it.
func TestAClientThatDoesNotReadLosesItsConnection(t *testing.T) {
	for _, path := range []string{"/admitted", "/stranger", "/stranger-by-parts"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			addr := open(t, admission.Door{Write: 300 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/admitted" {
					admission.Admit(r.Context(), "user:ann")
				}
				part := make([]byte, 1<<20)
				for {
					if _, err := w.Write(part); err != nil {
						ended <- err
						return
					}
				}
			})
			c := say(t, addr, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			if path == "/stranger-by-parts" { // which reads on, so each part is written in time
				go func() { _, _ = io.Copy(io.Discard, c) }()
			}
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("writing ended with %v", err)
			}
		})
	}
}

// TestConnectionsAreShared: however many connections some persons open, another one gets an
// answer, and keeps the connection while clients without a grant fill the rest.
func TestConnectionsAreShared(t *testing.T) {
	const conns = 16
	get := func(c net.Conn, person string) bool {
		_, err := io.WriteString(c, "GET /"+person+" HTTP/1.1\r\nHost: x\r\n\r\n")
		answer := make([]byte, len("HTTP/1.1 200"))
		if err == nil {
			_, err = io.ReadFull(c, answer)
		}
		for rest := bufio.NewReader(c); err == nil; { // up to the end of the header: there is no body
			var line string
			if line, err = rest.ReadString('\n'); line == "\r\n" {
				return true
			}
		}
		return false
	}
	for persons := range 4 {
		t.Run(fmt.Sprint(persons), func(t *testing.T) {
			t.Parallel()
			addr := open(t, admission.Door{Conns: conns}, func(w http.ResponseWriter, r *http.Request) {
				admission.Admit(r.Context(), r.URL.Path)
			})
			var first []net.Conn
			for i := range persons {
				for n := range 2 * conns {
					c := say(t, addr, "")
					if ok := get(c, fmt.Sprint(i)); n == 0 && ok {
						first = append(first, c)
					}
				}
			}
			ann := say(t, addr, "")
			if !get(ann, "ann") {
				t.Fatal("another person gets no answer")
			}
			for range 2 * conns {
				say(t, addr, "")
			}
			if !get(ann, "ann") {
				t.Error("the connection of a person was replaced by one without a grant")
			}
			if len(first) != persons {
				t.Errorf("%d of %d persons got an answer on their first connections", len(first), persons)
			}
			for i, c := range first {
				if !get(c, fmt.Sprint(i)) {
					t.Errorf("person %d lost the first connection", i)
				}
			}
		})
	}
}

// deadlines is a response that notes the sizes of the parts after each deadline.
type deadlines struct {
	*httptest.ResponseRecorder
	parts []int
}

func (d *deadlines) SetReadDeadline(time.Time) error { return nil }
func (d *deadlines) SetWriteDeadline(time.Time) error {
	d.parts = append(d.parts, 0)
	return nil
}

func (d *deadlines) Write(b []byte) (int, error) {
	d.parts[len(d.parts)-1] += len(b)
	return d.ResponseRecorder.Write(b)
}

// TestALargeResponseHasADeadlineForEachPart: whatever one write has, an admitted client need not
// read more than 64 KiB before the next deadline. A stranger has one deadline for all.
func TestALargeResponseHasADeadlineForEachPart(t *testing.T) {
	for _, size := range []int{0, 1, 64 << 10, 64<<10 + 1, 8 << 20} {
		for _, admitted := range []bool{true, false} {
			body := bytes.Repeat([]byte("0123456789abcdef"), size/16+1)[:size]
			d := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			admission.Door{}.Settled().Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if admitted {
					admission.Admit(r.Context(), "user:ann")
				}
				if n, err := w.Write(body); n != size || err != nil {
					t.Errorf("%d bytes: %d, %v", size, n, err)
				}
			})).Handler.ServeHTTP(d, httptest.NewRequest(http.MethodGet, "/", nil))
			if !bytes.Equal(d.Body.Bytes(), body) {
				t.Errorf("%d bytes arrive changed", size)
			}
			if most := slices.Max(d.parts); admitted && most > 64<<10 {
				t.Errorf("%d bytes: a part of %d bytes has one deadline", size, most)
			}
			if !admitted && len(d.parts) != 1 {
				t.Errorf("%d bytes: a stranger has %d deadlines", size, len(d.parts))
			}
		}
	}
}

// TestForwardedAddresses: behind a proxy that the settings trust, the client is the last address that
// is not a proxy's. Nobody else can say where a request comes from.
func TestForwardedAddresses(t *testing.T) {
	remote := make(chan string, 1)
	for name, tt := range map[string]struct {
		proxies   []string
		forwarded []string
		want      string
	}{
		"nobody is trusted":       {nil, []string{"192.0.2.1"}, "127.0.0.1"},
		"another is trusted":      {[]string{"10.0.0.0/8"}, []string{"192.0.2.1"}, "127.0.0.1"},
		"one proxy":               {[]string{"127.0.0.0/8"}, []string{"192.0.2.1"}, "192.0.2.1"},
		"a client that lies":      {[]string{"127.0.0.0/8"}, []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1"},
		"a lie in its own header": {[]string{"127.0.0.0/8"}, []string{"198.51.100.7", "192.0.2.1"}, "192.0.2.1"},
		"a client as a proxy":     {[]string{"127.0.0.0/8", "10.0.0.0/8"}, []string{"198.51.100.7, 192.0.2.1, 10.0.0.1"}, "192.0.2.1"},
		"only proxies":            {[]string{"127.0.0.0/8"}, []string{"127.0.0.9"}, "127.0.0.1"},
		"nothing":                 {[]string{"127.0.0.0/8"}, nil, "127.0.0.1"},
		"not an address":          {[]string{"127.0.0.0/8"}, []string{"192.0.2.1, unknown"}, "127.0.0.1"},
		"with a port":             {[]string{"127.0.0.0/8"}, []string{"[2001:db8::1]:80, 192.0.2.1:80"}, "192.0.2.1"},
		"IPv6 with a port":        {[]string{"127.0.0.0/8"}, []string{"[2001:db8::1]:80"}, "2001:db8::/64"},
		"IPv6":                    {[]string{"127.0.0.0/8"}, []string{"2001:db8::1"}, "2001:db8::/64"},
		"mapped":                  {[]string{"127.0.0.0/8"}, []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
	} {
		var d admission.Door
		for _, p := range tt.proxies {
			d.Proxies = append(d.Proxies, netip.MustParsePrefix(p))
		}
		addr := open(t, d, func(_ http.ResponseWriter, r *http.Request) { remote <- admission.Address(r.RemoteAddr) })
		header := ""
		for _, f := range tt.forwarded {
			header += "X-Forwarded-For: " + f + "\r\n"
		}
		say(t, addr, "GET / HTTP/1.1\r\nHost: x\r\n"+header+"\r\n")
		if got := <-remote; got != tt.want {
			t.Errorf("%s: the client is %s, want %s", name, got, tt.want)
		}
	}
}
