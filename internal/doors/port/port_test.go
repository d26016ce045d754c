package port_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/doors/port"
)

// open serves a handler as the server of a sandbox, and returns the door's address.
func open(t *testing.T, h http.Handler) *url.URL {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return door(t, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
}

func door(t *testing.T, dial func(context.Context) (net.Conn, error)) *url.URL {
	t.Helper()
	d, err := port.New(0, 3000, dial)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(d.URL())
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// ask sends a request to a door under a host name.
func ask(t *testing.T, u *url.URL, host, path string, header http.Header) (status int, location, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+u.Port()+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Header = host, header
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, a.Header.Get("Location"), string(b)
}

// TestOnlyTheNameOpens: the server gets no request under another name.
func TestOnlyTheNameOpens(t *testing.T) {
	served := 0
	u := open(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served++ }))
	label, _, _ := strings.Cut(u.Host, ".")
	if len(label) < 26 {
		t.Errorf("the name %q can be guessed", label)
	}
	at := ":" + u.Port()
	for _, host := range []string{"localhost" + at, "127.0.0.1" + at, "evil.example" + at, "x.localhost" + at, label, label + at, label + ".localhost", label + ".localhost:1", "x" + u.Host, u.Host + "x", label[1:] + ".localhost" + at} {
		if status, _, _ := ask(t, u, host, "/", nil); status != http.StatusMisdirectedRequest {
			t.Errorf("%s: status %d", host, status)
		}
	}
	if served != 0 {
		t.Errorf("the server got %d requests", served)
	}
	for _, host := range []string{u.Host, strings.ToUpper(u.Host)} {
		if status, _, _ := ask(t, u, host, "/", nil); status != http.StatusOK {
			t.Errorf("%s: status %d", host, status)
		}
	}
	if other := open(t, http.NotFoundHandler()); strings.HasPrefix(other.Host, label) {
		t.Error("two doors have one name")
	}
}

// TestEachSideSeesItsOwnNames: the server sees localhost and its port, the browser the name of the door. Other sites stay as they are.
func TestEachSideSeesItsOwnNames(t *testing.T) {
	u := open(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
		fmt.Fprint(w, r.Host, " ", r.Header.Get("Origin"), " ", r.Header.Get("Referer"), " ", r.Header.Get("X-Forwarded-For"))
	}))
	own := "http://" + u.Host
	for _, c := range []struct{ origin, seen, to, told string }{
		{own, "http://localhost:3000", "/login?x=1", "/login?x=1"},
		{own, "http://localhost:3000", "http://localhost:3000/a#b", own + "/a#b"},
		{own, "http://localhost:3000", "http://localhost:30001/a", "http://localhost:30001/a"},
		{"https://evil.example", "https://evil.example", "https://other.example/", "https://other.example/"},
		{own + ".evil.example", own + ".evil.example", "//localhost:3000/x", "//localhost:3000/x"},
	} {
		_, told, body := ask(t, u, u.Host, "/?to="+url.QueryEscape(c.to), http.Header{"Origin": {c.origin}, "Referer": {c.origin + "/p"}, "X-Forwarded-For": {"1.2.3.4"}})
		if want := "localhost:3000 " + c.seen + " " + c.seen + "/p "; body != want || told != c.told {
			t.Errorf("%+v: the server saw %q, the browser %q", c, body, told)
		}
	}
}

// TestAWebSocketPasses: both ways, as servers use it that reload the page.
func TestAWebSocketPasses(t *testing.T) {
	u := open(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(conn, "said "+line)
	}))
	conn, err := net.Dial("tcp", "127.0.0.1:"+u.Port())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /hmr HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", u.Host)
	in := bufio.NewReader(conn)
	a, err := http.ReadResponse(in, nil)
	if err != nil || a.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", a, err)
	}
	defer a.Body.Close()
	fmt.Fprint(conn, "hi\n")
	if line, err := in.ReadString('\n'); line != "said hi\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// TestAnEndedServerIsTold: the door stays, so that a server that begins again is reached.
func TestAnEndedServerIsTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer server.Close()
	ended := true
	u := door(t, func(ctx context.Context) (net.Conn, error) {
		if ended {
			return nil, errors.New("a text with <b>names</b>")
		}
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	})
	status, _, body := ask(t, u, u.Host, "/", nil)
	if status != http.StatusBadGateway || !strings.Contains(body, "http://localhost:3000") || strings.Contains(body, "names") {
		t.Errorf("status %d, %q", status, body)
	}
	ended = false
	if status, _, body := ask(t, u, u.Host, "/", nil); status != http.StatusOK || body != "ok" {
		t.Errorf("status %d, %q", status, body)
	}
}
