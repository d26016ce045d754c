package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/service/grants"
)

// greet begins a session over HTTP and gives the answer's status.
func greet(t *testing.T, addr, token string) int {
	t.Helper()
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, strings.NewReader(hello))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode
}

// events counts the ledger's events.
func (w *world) events() int {
	w.t.Helper()
	st, err := w.app.Store(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, err := range st.Events(w.t.Context(), 0) {
		if err != nil {
			w.t.Fatal(err)
		}
		n++
	}
	return n
}

// Half of the places are for one person, with all root grants and all that was narrowed of
// them, also offline; another one has places still.
func TestTooManyHTTPClients(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	roots := []string{w.grant(w.policy(policy), "agent:x"), w.grant(w.policy(policy), "agent:x")}
	other := w.grant(w.policy(policy), "agent:y")
	w.app.Home.Settings.Limits.Clients = 64
	addr := w.listen(app.MCPRequest{})
	statuses := map[int]int{}
	for i := range 40 {
		leaf := roots[i%len(roots)]
		if i%4 > 1 {
			narrowed, err := w.app.Grants.Narrow(leaf, grants.Terms{Workspace: w.workspace, Expires: time.Hour + time.Duration(i)*time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			leaf = narrowed.Text
		}
		statuses[greet(t, addr, leaf)]++
	}
	if statuses[200] != 32 || statuses[503] != 8 {
		t.Errorf("40 clients of one person: %v", statuses)
	}
	if got := greet(t, addr, other); got != 200 {
		t.Errorf("a client of another one: %d", got)
	}
}

// A grant that opens nothing takes no place and begins no run.
func TestAGrantThatOpensNothingIsNotServed(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	nothing := w.grant(w.policy("version: 1\nname: n\ntools: {allow: []}\n"), "agent:x")
	token := w.grant(w.policy(policy), "agent:y")
	addr := w.listen(app.MCPRequest{})
	if got := greet(t, addr, nothing); got != 403 {
		t.Fatalf("a grant that allows no tool: %d", got)
	}
	before := w.events()
	for range 100 {
		if got := greet(t, addr, nothing); got != 403 {
			t.Fatalf("a grant that allows no tool: %d", got)
		}
	}
	if after := w.events(); after != before {
		t.Errorf("it wrote %d events", after-before)
	}
	if got := greet(t, addr, token); got != 200 {
		t.Errorf("another grant: %d", got)
	}
}

// Whoever has no grant writes nothing, and is soon not even listened to.
func TestABadTokenWritesNothing(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	token := w.grant(w.policy(policy), "agent:x")
	addr := w.listen(app.MCPRequest{})
	before, statuses := w.events(), map[int]int{}
	for i := range 100 {
		bad := token[:len(token)-4] + "AAAA" // its end is not the one that belongs to it
		if i%2 > 0 {
			bad = "remit1_xyz"
		}
		statuses[greet(t, addr, bad)]++
	}
	if after := w.events(); after != before {
		t.Errorf("bad tokens wrote %d events", after-before)
	}
	if statuses[401] < 21 || statuses[401]+statuses[429] != 100 {
		t.Errorf("answers %v", statuses)
	}
}

// TestForwardedClientsAreCountedApart: behind a proxy, each client has its own share of requests
// without a grant. Of an untrusted peer the header does not count.
func TestForwardedClientsAreCountedApart(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	for proxy, tt := range map[string]struct{ requests, want int }{"127.0.0.1/32": {100, 401}, "10.0.0.1/32": {10_000, 429}} {
		addr := w.listen(app.MCPRequest{Door: admission.Door{Proxies: []netip.Prefix{netip.MustParsePrefix(proxy)}}})
		last := 0
		for i := 0; i < tt.requests && last != 429; i++ {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("192.0.%d.%d", i/256, i%256))
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			last = res.StatusCode
			_ = res.Body.Close()
		}
		if last != tt.want {
			t.Errorf("with the proxy %s, the last client gets %d, want %d", proxy, last, tt.want)
		}
	}
}
