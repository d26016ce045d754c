package fleet_test

import (
	"fmt"
	"net/http"
	"strings"
)

// mcpClient is an MCP client with a session.
type mcpClient struct {
	token, id string
	other     string // token of another grant
}

// speak sends a message of a client with a session, under a grant.
func (n *node) speak(token, session, body string) (status int, id, answer string) {
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
	res := n.f.fetch(r)
	return res.status, res.header.Get("Mcp-Session-Id"), res.text
}

// act makes a call in the session. A caller with another grant is refused.
func (c *mcpClient) act(n *node, path string) {
	n.f.Helper()
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"http_request","arguments":{"method":"POST","url":"%s/%s"}}}`, path, n.f.world, path)
	if status, _, body := n.speak(c.token, c.id, call); status != 200 || n.f.happened("/"+path) != 1 {
		n.f.Errorf("%s: %d %s", path, status, body)
	}
	if status, _, body := n.speak(c.other, c.id, strings.ReplaceAll(call, path, "stolen")); status != 404 || n.f.happened("/stolen") != 0 {
		n.f.Errorf("under another grant: %d %s", status, body)
	}
	if status, _, body := n.speak(c.token, c.id+"x", `{"jsonrpc":"2.0","id":9,"method":"ping"}`); status != 404 {
		n.f.Errorf("a made-up session: %d %s", status, body)
	}
}

func (c *mcpClient) visit(a, b *node) {
	for _, token := range []*string{&c.token, &c.other} {
		*token, _ = a.must(201, "POST", "/v1/grants", `{"policies":["version: 1\nrest: inherit\n"]}`)["token"].(string)
	}
	var status int
	var body string
	status, c.id, body = a.speak(c.token, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
	if status != 200 || c.id == "" {
		a.f.Fatalf("%d %s", status, body)
	}
	c.act(b, "first")
	c.act(a, "second")
}

// stay goes on at the node that knew the session, and at one that did not.
func (c *mcpClient) stay(b *node) {
	c.act(b, "third")
	c.act(b.f.start(), "fourth")
}
