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

// accept is the agreement for the key of RFC 6455, section 1.3.
const accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

// echoes is a server that agrees to a WebSocket, sends bytes at once, and then all that it gets. To others it tells what they asked
// for. At /liar it agrees without the proof that it speaks the protocol.
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
	proof := accept
	if r.URL.Path == "/liar" {
		proof = "x"
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+proof+"\r\nAuth: "+r.Header.Get("Authorization")+"\r\n\r\nearly ")
	_, _ = io.Copy(conn, both)
}

// opening is a request for a WebSocket.
func opening(path, upgrade string, more ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: " + upgrade +
		"\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n" + strings.Join(more, "") + "\r\n"
}

// Programs open WebSockets on inspected connections where they may send anything, and the key of the request is Remit's.
func TestWebSockets(t *testing.T) {
	const key, any = "real-key-0123456789", `{url: "https://example.com/**", inspect: true}`
	const keyed = `{url: "https://example.com/**", secret: {header: Authorization, env: K, prefix: "Bearer ", instead_of: placeholder-of-key}}`
	auth := "Authorization: Bearer placeholder-of-key\r\n"
	for _, tt := range []struct {
		name, entries, request string
		status                 int
		want                   string
	}{
		{"allowed", keyed, opening("/socket", "websocket", auth), 101, "early hello"},
		{"in capitals", keyed, opening("/socket", "WebSocket", auth), 101, "early hello"},
		{"a key of somebody else", keyed, opening("/socket", "websocket", "Authorization: Bearer other\r\n"), 403, "other keys"},
		{"a key in the protocol", keyed, opening("/socket", "websocket", "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-x\r\n"), 403, "Sec-WebSocket-Protocol"},
		{"a key for GET alone", `{url: "GET https://example.com/**", secret: {header: Authorization, env: K, prefix: "Bearer ", instead_of: placeholder-of-key}}, "https://example.com"`, opening("/socket", "websocket", auth), 403, "same secrets"},
		{"another protocol", any, opening("/socket", "h2c"), 200, "plain GET"},
		{"two protocols", any, opening("/socket", "websocket, h2c"), 200, "plain GET"},
		{"no key of the protocol", any, strings.Replace(opening("/socket", "websocket"), "Sec-WebSocket-Key", "X-Key", 1), 200, "plain GET"},
		{"only reading is allowed", `{url: "GET https://example.com/**", inspect: true}`, opening("/socket", "websocket"), 403, "POST"},
		{"a host that does not speak it", any, opening("/liar", "websocket"), 502, "switched protocols"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := newCanary(t, true, echoes)
			w := &world{servers: map[uint16]string{0: srv.at()}}
			b := serve(t, w, egress.Options{Permit: allowing(t, "{allow: ["+tt.entries+"]}"), RootCAs: pool(t, srv), Secret: func(string) (string, bool) { return key, true }})
			c, answer := b.connect(t, "example.com:443")
			if c == nil {
				t.Fatal(answer)
			}
			inside := tls.Client(c, &tls.Config{ServerName: "example.com", RootCAs: pool(t, nil, b.CA())})
			if _, err := io.WriteString(inside, tt.request+strings.Repeat("hello", btoi(tt.status == 101))); err != nil {
				t.Fatal(err)
			}
			from := bufio.NewReader(inside)
			resp, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			got := make([]byte, len(tt.want))
			if resp.StatusCode == 101 {
				_, err = io.ReadFull(from, got)
			} else {
				got, err = io.ReadAll(resp.Body)
			}
			if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(got), tt.want) {
				t.Errorf("%d %q, %v", resp.StatusCode, got, err)
			}
			if tt.entries == keyed && tt.status == 101 && resp.Header.Get("Auth") != "Bearer "+key {
				t.Errorf("the host got %v", resp.Header)
			}
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// What both sides send by a WebSocket arrives, to the last byte, and counts. The time of a request does not end it.
func TestWebSocketsCarryAllBytes(t *testing.T) {
	srv := newCanary(t, false, echoes)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://example.com"], total_bytes: 1MiB, timeout: 1s}`)})
	c, answer := b.connect(t, "example.com:80")
	if c == nil {
		t.Fatal(answer)
	}
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	from := bufio.NewReader(c)
	fmt.Fprint(c, opening("/", "websocket")+"with the head")
	resp, err := http.ReadResponse(from, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	defer resp.Body.Close()
	time.Sleep(1500 * time.Millisecond) // longer than a request may take
	want := "early with the head"
	for i := range 100 {
		piece := strings.Repeat(string(rune('a'+i%26)), 1000)
		want += piece
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
	}
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

// Where a program has a placeholder, requests with it get the key, others of the header are refused, and those without it get none.
func TestPlaceholdersAreReplaced(t *testing.T) {
	const value, other = "real-key-0123456789", "real-login-0123456789"
	srv, local := newCanary(t, true, nil), newCanary(t, false, nil)
	w := &world{servers: map[uint16]string{0: srv.at(), 9: local.at()}}
	section := `{allow: [{url: "https://example.com", secret: {header: x-api-key, env: K, instead_of: placeholder-of-key}}, {url: "https://example.com", secret: {header: Authorization, login: claude, prefix: "Bearer ", instead_of: placeholder-of-login}}, {url: "https://other.example.com", inspect: true}, {url: "http://127.0.0.1:9", secret: {header: x-api-key, env: K, instead_of: placeholder-of-key}}, {url: "https://none.example.com", secret: {header: x-api-key, none: true}}]}`
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
		{"https://example.com/a", [][2]string{{"x-api-key", "placeholder-of-key"}}, 200, "X-Api-Key=" + value},
		{"https://example.com/a", [][2]string{{"X-API-KEY", "placeholder-of-key"}}, 200, "X-Api-Key=" + value},
		{"https://example.com/a", [][2]string{{"x_api_key", "placeholder-of-key"}}, 200, "X-Api-Key=" + value},
		{"https://example.com/a", [][2]string{{"authorization", "Bearer placeholder-of-login"}}, 200, "Authorization=Bearer " + other},
		{"https://example.com/a", nil, 200, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "sk-of-somebody-else"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "placeholder-of-key and more"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "placeholder-of-login"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "placeholder-of-key"}, {"x-api-key", "other"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"x-api-key", "placeholder-of-key"}, {"X_API-KEY", "other"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"Authorization", "placeholder-of-login"}}, 403, ""},
		{"https://example.com/a", [][2]string{{"Authorization", "Bearer placeholder-of-key"}}, 403, ""},
		{"https://none.example.com/a", [][2]string{{"x-api-key", "no-key"}}, 403, ""},
		{"https://none.example.com/a", [][2]string{{"X_API-Key", "placeholder-of-key"}}, 403, ""},
		{"https://none.example.com/a", nil, 200, "none.example.com"},
		{"http://127.0.0.1:9/a", [][2]string{{"x-api-key", "placeholder-of-key"}}, 200, "X-Api-Key=" + value},
		{"http://127.0.0.1:9/a", [][2]string{{"x-api-key", "other"}}, 403, ""},
		{"https://other.example.com/a", [][2]string{{"x-api-key", "placeholder-of-key"}}, 200, "X-Api-Key=placeholder-of-key"},
		{"https://example.com/placeholder-of-key", [][2]string{{"x-other", "placeholder-of-key"}}, 200, "X-Other=placeholder-of-key"},
	} {
		req, _ := http.NewRequest("POST", tt.url, strings.NewReader("placeholder-of-key"))
		for _, h := range tt.header {
			req.Header[h[0]] = append(req.Header[h[0]], h[1])
		}
		before, alsoBefore := len(srv.requests()), len(local.requests())
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		seen := strings.Join(append(srv.requests()[before:], local.requests()[alsoBefore:]...), "\n")
		if resp.StatusCode != tt.status || !strings.Contains(seen, tt.sees) || tt.sees == "" && (strings.Contains(seen, value) || strings.Contains(seen, other)) {
			t.Errorf("%s %v: %d, the host saw %q", tt.url, tt.header, resp.StatusCode, seen)
		}
		if strings.Contains(tt.sees, "=placeholder") && strings.Contains(seen, value) {
			t.Errorf("%s %v: the host saw the key: %q", tt.url, tt.header, seen)
		}
	}
	now = "renewed-key-0123456789"
	req, _ := http.NewRequest("GET", "https://example.com/b", nil)
	req.Header.Set("x-api-key", "placeholder-of-key")
	if resp, err := c.Do(req); err != nil || resp.Body.Close() != nil || !strings.Contains(strings.Join(srv.requests(), "\n"), now) {
		t.Errorf("the new key is not used: %v", err)
	}
}
