package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/egress"
)

// echoes is a server that agrees to a WebSocket, sends bytes at once, and then all that it gets. To others it tells what they asked
// for.
func echoes(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Connection") != "Upgrade" {
		_, _ = io.WriteString(w, "plain "+r.Method)
		return
	}
	conn, both, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\nAuth: "+r.Header.Get("Authorization")+"\r\n\r\nearly ")
	_, _ = io.Copy(conn, both)
}

// Programs open WebSockets on inspected and plain connections where they may send anything, and the key of the request is Remit's.
func TestWebSockets(t *testing.T) {
	const key = "real-key-0123456789"
	for _, tt := range []struct {
		name, entry, upgrade string
		want                 string
	}{
		{"allowed", `{url: "https://example.com/socket", inspect: true, secret: {header: Authorization, env: K, prefix: "Bearer ", instead_of: stand-in-of-key}}`, "websocket", "early hello"},
		{"in capitals", `{url: "https://example.com/socket", inspect: true, secret: {header: Authorization, env: K, prefix: "Bearer ", instead_of: stand-in-of-key}}`, "WebSocket", "early hello"},
		{"another protocol", `{url: "https://example.com/socket", inspect: true}`, "h2c", "plain GET"},
		{"two protocols", `{url: "https://example.com/socket", inspect: true}`, "websocket, h2c", "plain GET"},
		{"only reading is allowed", `{url: "GET https://example.com/socket", inspect: true}`, "websocket", "plain GET"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newCanary(t, true, echoes)
			w := &world{servers: map[uint16]string{0: srv.at()}}
			b := serve(t, w, egress.Options{Permit: allowing(t, "{allow: ["+tt.entry+"]}"), RootCAs: pool(t, srv), Secret: func(string) (string, bool) { return key, true }})
			c, answer := b.connect(t, "example.com:443")
			if c == nil {
				t.Fatal(answer)
			}
			inside := tls.Client(c, &tls.Config{ServerName: "example.com", RootCAs: pool(t, nil, b.CA())})
			fmt.Fprintf(inside, "GET /socket HTTP/1.1\r\nHost: example.com\r\nAuthorization: Bearer stand-in-of-key\r\nConnection: keep-alive, Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Key: x\r\n\r\n", tt.upgrade)
			resp, err := http.ReadResponse(bufio.NewReader(inside), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusSwitchingProtocols {
				if got, _ := io.ReadAll(resp.Body); string(got) != tt.want {
					t.Errorf("%d %q", resp.StatusCode, got)
				}
				return
			}
			if tt.want == "plain GET" || resp.Header.Get("Auth") != "Bearer "+key || resp.Header.Get("Sec-Websocket-Accept") != "x" {
				t.Errorf("%d %v", resp.StatusCode, resp.Header)
			}
		})
	}
}

// What both sides send by a WebSocket arrives, to the last byte, and counts.
func TestWebSocketsCarryAllBytes(t *testing.T) {
	srv := newCanary(t, false, echoes)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://example.com"], total_bytes: 1MiB}`)})
	c, answer := b.connect(t, "example.com:80")
	if c == nil {
		t.Fatal(answer)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	from := bufio.NewReader(c)
	fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nwith the head")
	resp, err := http.ReadResponse(from, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	want := "early with the head"
	for i := range 100 {
		piece := strings.Repeat(string(rune('a'+i%26)), 1000)
		want += piece
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
	}
	defer resp.Body.Close()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(from, got); err != nil || string(got) != want {
		t.Fatalf("%v, %.60q", err, got)
	}
	go func() { _, _ = io.WriteString(c, strings.Repeat("x", 2<<20)) }() // it is cut off
	if n, _ := io.Copy(io.Discard, from); n > 1<<20 {
		t.Errorf("%d bytes more, and 1 MiB are allowed", n)
	}
	_ = c.Close()
	b.Close()
	list := b.Connections()
	if len(list) != 1 || list[0].Status != 101 || list[0].In < 100_000 {
		t.Errorf("the record: %+v", list)
	}
}

// Where a text stands for the key, requests with it get the key, others of the header are refused, and those without it get none.
func TestStandInsAreReplaced(t *testing.T) {
	const value, other = "real-key-0123456789", "real-login-0123456789"
	srv := newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	section := `{allow: [{url: "https://example.com", secret: {header: x-api-key, env: K, instead_of: stand-in-of-key}}, {url: "https://example.com", secret: {header: Authorization, login: claude, prefix: "Bearer ", instead_of: stand-in-of-login}}, {url: "https://other.example.com", inspect: true}, {url: "http://127.0.0.1:9", secret: {header: x-api-key, env: K, instead_of: stand-in-of-key}}]}`
	now := value // the key changes while the command runs
	b := serve(t, w, egress.Options{Permit: allowing(t, section), RootCAs: pool(t, srv), Secret: func(name string) (string, bool) {
		v, ok := map[string]string{"K": now, "login:claude": other}[name]
		return v, ok
	}})
	c := b.client(t, pool(t, nil, b.CA()))
	for _, tt := range []struct {
		url    string
		header [][2]string
		status int
		sees   string
	}{
		{"https://example.com/a", [][2]string{{"x-api-key", "stand-in-of-key"}}, 200, "X-Api-Key=" + value},
		{"https://example.com/a", [][2]string{{"X-API-KEY", "stand-in-of-key"}}, 200, "X-Api-Key=" + value},
		{"https://example.com/a", [][2]string{{"x_api_key", "stand-in-of-key"}}, 200, "X-Api-Key=" + value},
		{"https://example.com/a", [][2]string{{"authorization", "Bearer stand-in-of-login"}}, 200, "Authorization=Bearer " + other},
		{"https://example.com/a", nil, 200, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "sk-of-somebody-else"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "stand-in-of-key and more"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "stand-in-of-login"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "stand-in-of-key"}, {"x-api-key", "other"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "stand-in-of-key"}, {"X_API-KEY", "other"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"Authorization", "stand-in-of-login"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"Authorization", "Bearer stand-in-of-key"}}, 403, ""},
		{"https://other.example.com/a", [][2]string{{"x-api-key", "stand-in-of-key"}}, 200, "X-Api-Key=stand-in-of-key"},
		{"https://example.com/stand-in-of-key", [][2]string{{"x-other", "stand-in-of-key"}}, 200, "X-Other=stand-in-of-key"},
	} {
		req, _ := http.NewRequest("POST", tt.url, strings.NewReader("stand-in-of-key"))
		for _, h := range tt.header {
			req.Header[h[0]] = append(req.Header[h[0]], h[1])
		}
		before := len(srv.requests())
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		seen := strings.Join(srv.requests()[before:], "\n")
		if resp.StatusCode != tt.status || !strings.Contains(seen, tt.sees) || tt.sees == "" && (strings.Contains(seen, value) || strings.Contains(seen, other)) {
			t.Errorf("%s %v: %d, the host saw %q", tt.url, tt.header, resp.StatusCode, seen)
		}
		if strings.Contains(tt.sees, "=stand-in") && strings.Contains(seen, value) {
			t.Errorf("%s %v: the host saw the key: %q", tt.url, tt.header, seen)
		}
	}
	now = "renewed-key-0123456789"
	req, _ := http.NewRequest("GET", "https://example.com/b", nil)
	req.Header.Set("x-api-key", "stand-in-of-key")
	if resp, err := c.Do(req); err != nil || resp.Body.Close() != nil || !strings.Contains(strings.Join(srv.requests(), "\n"), now) {
		t.Errorf("the new key is not used: %v", err)
	}
}
