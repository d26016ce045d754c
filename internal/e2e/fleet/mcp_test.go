package fleet_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// speak sends a message of an MCP client.
func (n *node) speak(token, session, body string) (int, string, string) {
	n.f.Helper()
	r, err := http.NewRequestWithContext(n.f.Context(), http.MethodPost, n.url+"/mcp", strings.NewReader(body))
	if err != nil {
		n.f.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		n.f.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.f.Fatal(err)
	}
	return res.StatusCode, res.Header.Get("Mcp-Session-Id"), string(b)
}

// TestNodesShareSessionsOfMCPClients: a session that began at one node goes on at the other, also
// after the first was killed, and for nobody else.
func TestNodesShareSessionsOfMCPClients(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a, b := f.start(), f.start()
	issue := func() string {
		token, _ := a.must(201, "POST", "/v1/grants", `{"policies":["version: 1\nrest: inherit\n"]}`)["token"].(string)
		return token
	}
	ann, eve := issue(), issue()
	status, id, body := a.speak(ann, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
	if status != 200 || id == "" {
		t.Fatalf("%d %s", status, body)
	}
	act := func(n *node, path string) {
		t.Helper()
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"http_request","arguments":{"method":"POST","url":"%s/%s"}}}`, path, f.world, path)
		if status, _, body := n.speak(ann, id, call); status != 200 || f.happened("/"+path) != 1 {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if status, _, body := n.speak(eve, id, strings.ReplaceAll(call, path, "stolen")); status != 404 || f.happened("/stolen") != 0 {
			t.Errorf("under another grant: %d %s", status, body)
		}
	}
	act(b, "first")
	act(a, "second")
	a.kill()
	act(b, "third")
	c := f.start()
	act(c, "fourth")
	for _, n := range []*node{b, c} {
		if status, _, body := n.speak(ann, id+"x", `{"jsonrpc":"2.0","id":9,"method":"ping"}`); status != 404 {
			t.Errorf("a made-up session: %d %s", status, body)
		}
	}
	verified(t, f)
}
