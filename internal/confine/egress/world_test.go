package egress_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allowing makes a permit under a policy's network section, or several.
func allowing(t testing.TB, sections ...string) permit.Permit {
	t.Helper()
	var chain policy.Chain
	for _, s := range sections {
		p, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\nnetwork: "+s))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(policy.Env{Workspace: "/w"})
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, r)
	}
	return permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits()})
}

var public = netip.MustParseAddr("93.184.216.34")

// world is a resolver and a dialler without a way out: names have the answers
// that a test gives them in turn (others have a public one), and every
// connection goes to a server of the test, by its port.
type world struct {
	mu      sync.Mutex
	answers map[string][]netip.Addr
	asked   []string
	dialled []netip.AddrPort
	servers map[uint16]string // the address to really dial, by port; 0 for all others
}

func (w *world) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	if host == "localhost" {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	w.asked = append(w.asked, host)
	if strings.HasPrefix(host, "missing") {
		return nil, fault.New(fault.NotFound, "no such host")
	}
	list := w.answers[host]
	if len(list) == 0 {
		return []netip.Addr{public}, nil
	}
	if len(list) > 1 {
		w.answers[host] = list[1:]
	}
	return list[:1], nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort, guard func(string) error) (net.Conn, error) {
	if err := guard(to.String()); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.dialled = append(w.dialled, to)
	at := w.servers[to.Port()]
	if at == "" {
		at = w.servers[0]
	}
	w.mu.Unlock()
	if at == "" {
		return nil, fmt.Errorf("nothing listens at %s", to)
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	return elsewhere{c.(*net.TCPConn), to}, nil
}

// elsewhere is a connection that says it leads where the test pretends.
type elsewhere struct {
	*net.TCPConn
	to netip.AddrPort
}

func (e elsewhere) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(e.to) }

func (w *world) saw() (asked []string, dialled []netip.AddrPort) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked), slices.Clone(w.dialled)
}

// box is a proxy that serves.
type box struct {
	*egress.Proxy
	addr string
	port int
}

func serve(t testing.TB, w *world, o egress.Options) *box {
	t.Helper()
	p := egress.New(o)
	if w != nil {
		p.SetLookup(w.lookup)
		p.SetDial(w.dial)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Serve(l) }()
	t.Cleanup(func() {
		p.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return &box{p, l.Addr().String(), l.Addr().(*net.TCPAddr).Port}
}

// client is a Go client that goes through the proxy.
func (b *box) client(t testing.TB, roots *x509.CertPool) *http.Client {
	t.Helper()
	u, err := url.Parse(b.Env(b.port)["HTTP_PROXY"])
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{Proxy: http.ProxyURL(u), TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// auth is the line that shows the sandbox's credentials.
func (b *box) auth() string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth("remit", b.Password())
	return "Proxy-Authorization: " + r.Header.Get("Authorization") + "\r\n"
}

// raw sends bytes to the proxy and gives all that comes back until it closes, or
// for a while. $AUTH stands for the line with the credentials.
func (b *box) raw(t testing.TB, send string) string {
	t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, strings.ReplaceAll(send, "$AUTH", b.auth())); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second)) // some of it is never answered
	first := make([]byte, 1)
	if n, _ := c.Read(first); n == 0 {
		return ""
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	got, _ := io.ReadAll(c)
	return string(first) + string(got)
}

// connect opens a tunnel by CONNECT and gives it, or nil and the answer.
func (b *box) connect(t testing.TB, to string) (net.Conn, string) {
	t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", to, to, b.auth())
	// Byte by byte, so that nothing of the tunnel is lost.
	head := ""
	one := make([]byte, 1)
	for !strings.HasSuffix(head, "\r\n\r\n") {
		if _, err := io.ReadFull(c, one); err != nil {
			return nil, head
		}
		head += string(one)
	}
	if !strings.HasPrefix(head, "HTTP/1.1 200 ") {
		rest, _ := io.ReadAll(c)
		return nil, head + string(rest)
	}
	return c, head
}

// socks opens a tunnel by SOCKS5 and gives it, or nil and the reply's code (-1:
// the connection was closed before).
func (b *box) socks(t testing.TB, password string, request []byte) (net.Conn, int) {
	t.Helper()
	c, err := net.Dial("tcp", b.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	hello := append([]byte{5, 2, 0, 2}, 1, 5)
	hello = append(append(append(hello, "remit"...), byte(len(password))), password...)
	_, _ = c.Write(hello)
	var reply [4]byte
	if _, err := io.ReadFull(c, reply[:]); err != nil || reply != [4]byte{5, 2, 1, 0} {
		return nil, -1
	}
	_, _ = c.Write(request)
	var answer [10]byte
	if _, err := io.ReadFull(c, answer[:]); err != nil {
		return nil, -1
	}
	if answer[1] != 0 {
		return nil, int(answer[1])
	}
	return c, 0
}

func socksName(command byte, host string, port int) []byte {
	b := append([]byte{5, command, 0, 3, byte(len(host))}, host...)
	return append(b, byte(port>>8), byte(port))
}

// canary is a server that notes every request that it sees.
type canary struct {
	*httptest.Server
	mu   sync.Mutex
	seen []string // method, host, URI, selected headers and the body
}

func newCanary(t testing.TB, secure bool, more http.HandlerFunc) *canary {
	t.Helper()
	c := &canary{}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		line := r.Method + " " + r.Host + r.RequestURI
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for k := range r.Header {
				if !yield(k) {
					return
				}
			}
		}) {
			if name != "User-Agent" && name != "Accept-Encoding" && name != "Accept" && name != "Content-Length" && name != "Content-Type" {
				line += " " + name + "=" + strings.Join(r.Header[name], ",")
			}
		}
		c.mu.Lock()
		c.seen = append(c.seen, line+" "+strconv.Quote(string(body)))
		c.mu.Unlock()
		if more != nil {
			more(w, r)
			return
		}
		_, _ = io.WriteString(w, "hello from "+r.Host)
	})
	if secure {
		c.Server = httptest.NewTLSServer(h)
	} else {
		c.Server = httptest.NewServer(h)
	}
	t.Cleanup(c.Close)
	return c
}

func (c *canary) at() string { return c.Listener.Addr().String() }

func (c *canary) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen)
}

// pool trusts a TLS test server, or PEM.
func pool(t testing.TB, c *canary, more ...[]byte) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if c != nil {
		p.AddCert(c.Certificate())
	}
	for _, m := range more {
		if !p.AppendCertsFromPEM(m) {
			t.Fatal("no certificate")
		}
	}
	return p
}

// refusals are the report's, as "rule: reason".
func refusals(b *box) []string {
	var out []string
	for _, c := range b.Connections() {
		if c.Refused() {
			out = append(out, c.Rule+": "+c.Reason)
		}
	}
	return out
}
