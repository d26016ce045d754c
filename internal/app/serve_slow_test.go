package app_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/service/home"
)

// entrance is a request that anybody can send to a door.
type entrance struct {
	addr         string
	host         string
	trusts       *x509.CertPool // nil: without TLS
	method, path string
}

// head is the request's header, with the length of its body.
func (e entrance) head(length int) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n", e.method, e.path, e.host, length)
}

func (e entrance) dial(t *testing.T) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", e.addr) //nolint:noctx // the service is of this test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if e.trusts != nil {
		return tls.Client(c, &tls.Config{RootCAs: e.trusts, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12})
	}
	return c
}

// trickle sends a text byte by byte, until the connection ends.
func trickle(c net.Conn, text string) {
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for i := 0; ; i++ {
		if _, err := io.WriteString(c, text[i%len(text):][:1]); err != nil {
			return
		}
		<-pace.C
	}
}

// slow are the ways in which a client holds its connection.
var slow = map[string]func(c net.Conn, e entrance){
	"nothing":             func(net.Conn, entrance) {},
	"half a header":       func(c net.Conn, e entrance) { _, _ = io.WriteString(c, e.head(1)[:20]) },
	"a slow header":       func(c net.Conn, e entrance) { trickle(c, "X-Slow: 1\r\n") },
	"no body":             func(c net.Conn, e entrance) { _, _ = io.WriteString(c, e.head(1000)) },
	"an endless body":     func(c net.Conn, e entrance) { _, _ = io.WriteString(c, e.head(1<<40)) },
	"half a body":         func(c net.Conn, e entrance) { _, _ = io.WriteString(c, e.head(1000)+"code=") },
	"a slow body":         func(c net.Conn, e entrance) { _, _ = io.WriteString(c, e.head(100_000)); trickle(c, "a") },
	"a slow chunked body": func(c net.Conn, e entrance) { _, _ = io.WriteString(c, chunked(e)); trickle(c, "1\r\na\r\n") },
	"a body when asked": func(c net.Conn, e entrance) {
		_, _ = io.WriteString(c, strings.Replace(e.head(1000), "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1))
	},
	"nothing afterwards":    func(c net.Conn, e entrance) { _, _ = io.WriteString(c, e.head(0)) },
	"many requests at once": func(c net.Conn, e entrance) { _, _ = io.WriteString(c, strings.Repeat(e.head(0), 100)) },
	"HTTP/2":                func(c net.Conn, e entrance) { _, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") },
}

func chunked(e entrance) string {
	return strings.Replace(e.head(0), "Content-Length: 0", "Transfer-Encoding: chunked", 1)
}

// ends fails if the service keeps a connection.
func ends(t *testing.T, what string, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%s: the connection is still open", what)
	}
}

// unread sends requests without reading the answers, until the connection ends.
func unread(t *testing.T, e entrance) {
	t.Helper()
	c := e.dial(t)
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	for {
		if _, err := io.WriteString(c, e.head(0)); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s %s: the connection of a client that does not read is still open", e.method, e.path)
		} else if err != nil {
			return
		}
	}
}

// short are times that a test can wait for, and that a client on this machine keeps to.
var short = admission.Door{Arrive: time.Second, Read: time.Second, Write: time.Second, Idle: time.Second, Linger: 100 * time.Millisecond}

// TestAStrangersConnectionEnds: however a client without a grant slows a door down, its connection
// ends, while streams of clients with one stay open.
func TestAStrangersConnectionEnds(t *testing.T) {
	cert, key, pool := certificate(t)
	plain := newService(t, func(q *app.ServeRequest) { q.Limits.Door = short })
	secure := newService(t, func(q *app.ServeRequest) { q.Limits.Door, q.Cert, q.Key = short, cert, key })
	doors := []entrance{{addr: plain.gateway(), method: http.MethodPost, path: "/mcp"}}
	for _, s := range []*service{plain, secure} {
		ui, err := url.Parse(s.told.UI)
		if err != nil {
			t.Fatal(err)
		}
		at := entrance{addr: strings.SplitN(s.url, "//", 2)[1]}
		if s == secure {
			at.trusts = pool
		}
		for _, of := range [][3]string{
			{"POST", "/v1/agents"}, {"POST", "/nothing"}, {"GET", "/healthz"}, {"POST", "/mcp"}, {"POST", "/oauth/token"},
			{"POST", "/ui/sign-in", ui.Host}, {"GET", "/ui/static/app.css", ui.Host}, {"POST", "/ui/approvals/x", ui.Host}, {"GET", "/ui/events", ui.Host},
		} {
			at.method, at.path, at.host = of[0], of[1], of[2]
			doors = append(doors, at)
		}
	}
	streams := []*http.Response{plain.stream("/v1/events", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+plain.token) })} //nolint:bodyclose // all are closed together, at the end
	streams = append(streams, plain.browser().send(t.Context(), http.MethodGet, "/ui/events", nil))                                         //nolint:bodyclose // as above
	var all sync.WaitGroup
	for _, e := range doors {
		if e.host == "" {
			e.host = e.addr
		}
		for name, hold := range slow {
			c := e.dial(t)
			go hold(c, e)
			all.Go(func() { ends(t, fmt.Sprintf("%s %s, %s", e.method, e.path, name), c) })
		}
		all.Go(func() { unread(t, e) })
	}
	half := entrance{addr: strings.SplitN(secure.url, "//", 2)[1]}.dial(t)
	if _, err := half.Write([]byte{22, 3, 1, 2, 0, 1, 0}); err != nil { // a ClientHello begins
		t.Fatal(err)
	}
	ends(t, "half a TLS handshake", half)
	all.Wait()
	plain.must(http.StatusCreated, http.MethodPost, "/v1/agents", `{"name":"later"}`)
	for _, res := range streams {
		lines, told := bufio.NewScanner(res.Body), false
		for !told && lines.Scan() {
			told = strings.Contains(lines.Text(), "agent")
		}
		if !told {
			t.Errorf("a stream with a grant ended: %v", lines.Err())
		}
	}
}

// stream opens an event stream.
func (s *service) stream(path string, change func(*http.Request)) *http.Response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	change(r)
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %v %v", path, res, err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// gateway serves MCP clients by themselves, and gives the address.
func (s *service) gateway() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at the end
	if err != nil {
		s.t.Fatal(err)
	}
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	a := s.beside()
	served.Go(func() {
		if err := a.ServeMCPOverHTTP(ctx, app.MCPRequest{Workspace: dir, Door: short}, l, nil); err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() { cancel(); served.Wait() })
	return l.Addr().String()
}

// TestStrangersTakeNoConnectionOfOthers: all connections are taken by clients without a grant whose
// time is not over, and a client with one is served at once, again and again.
func TestStrangersTakeNoConnectionOfOthers(t *testing.T) {
	for name, hold := range slow {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, func(q *app.ServeRequest) {
				q.Limits.Conns = 4
				q.Limits.Arrive, q.Limits.Read, q.Limits.Linger = time.Hour, time.Hour, time.Hour
			})
			http.DefaultClient.CloseIdleConnections()
			e := entrance{addr: strings.TrimPrefix(s.url, "http://"), method: http.MethodPost, path: "/v1/agents"}
			e.host = e.addr
			client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
			for range 5 {
				for range 5 {
					c := e.dial(t)
					go hold(c, e)
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/v1/agents", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Authorization", "Bearer "+s.token)
				res, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
					t.Errorf("the request has the status %d", res.StatusCode)
				}
			}
		})
	}
}
