package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/remitrun/remit/internal/confine/egress"
)

// A host that sends a second response must not answer the next request with it:
// that request goes out on a new connection.
func TestAnUnsolicitedResponseEndsTheConnection(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, late %v", scheme, late), func(t *testing.T) { testUnsolicited(t, scheme, late) })
		}
	}
}

func testUnsolicited(t *testing.T, scheme string, late bool) {
	const first, poison = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfirst", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison"
	read, sent := make(chan struct{}), make(chan struct{})
	var held net.Conn
	srv := newCanary(t, scheme == "https", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			_, _ = io.WriteString(w, "fresh")
			return
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer close(sent)
		held = c
		if !late {
			_, _ = io.WriteString(c, first+poison)
			return
		}
		_, _ = io.WriteString(c, first)
		<-read
		_, _ = io.WriteString(c, poison)
	})
	w := &world{servers: map[uint16]string{0: srv.at()}}
	o := egress.Options{Permit: allowing(t, `{inspect: true, allow: ["*", "http://*"]}`)}
	if scheme == "https" {
		o.RootCAs = pool(t, srv)
	}
	b := serve(t, w, o)
	client := b.client(t, pool(t, nil, b.CA()))
	get := func(path string) string {
		resp, err := client.Get(scheme + "://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if got := get("/first"); got != "first" {
		t.Errorf("the first request got %q", got)
	}
	close(read)
	<-sent
	defer func() { _ = held.Close() }()
	if got := get("/next"); got != "fresh" {
		t.Errorf("the next request got %q", got)
	}
	if got := get("/last"); got != "fresh" {
		t.Errorf("the last request got %q", got)
	}
	if _, dialled := w.saw(); len(dialled) != 2 { // a connection without such a response is kept
		t.Errorf("%d connections, want 2", len(dialled))
	}
}
