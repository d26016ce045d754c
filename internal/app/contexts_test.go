package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/remitrun/remit/internal/app"
)

// contextPolicy lets everything be read and sent, but the private file only to itself.
const contextPolicy = `version: 1
name: contexts
api: {allow: ["*"]}
models: {allow: ["*"]}
files: {read: {allow: ["**"]}}
network: {allow: ["%s/**"]}
delegate: {actions: [api, files.read, models, tools, network], to: ["*"], depth: 8}
labels: {private: {from: ["files prices.txt"], kind: confidential}}
flows: {private: {only: ["files prices.txt"]}}
`

// leak is a service with a private file, and a server that counts the requests that it gets.
type leak struct {
	*service
	sent atomic.Int32
	send string // URL
}

func newLeak(t *testing.T) *leak {
	l := &leak{}
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { l.sent.Add(1) }))
	t.Cleanup(web.Close)
	l.send = web.URL + "/?q=apples"
	l.service = newService(t, func(q *app.ServeRequest) {
		if err := os.WriteFile(q.Policy, fmt.Appendf(nil, contextPolicy, web.URL), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.WriteFile(filepath.Join(l.dir, "prices.txt"), []byte("apples 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return l
}

// mcp makes a request to the gateway in a session, and gives the answer's text.
func (l *leak) mcp(session *string, body string) string {
	l.t.Helper()
	header := []string{"Accept", "application/json, text/event-stream"}
	if *session != "" {
		header = append(header, "Mcp-Session-Id", *session, "Mcp-Protocol-Version", "2025-11-25")
	}
	_, h, b := l.raw("POST", "/mcp", l.token, body, header...)
	if id := h.Get("Mcp-Session-Id"); id != "" {
		*session = id
	}
	return string(b)
}

// TestEveryDoorKeepsLabels: at each door over HTTP, a client reads a private file and then sends
// something. The door has the label by then, or it makes no such call at all.
func TestEveryDoorKeepsLabels(t *testing.T) {
	l := newLeak(t)
	invoke := func(id, args string) string {
		_, got := l.ask("POST", "/v1/tools/"+id+"/invoke", l.token, `{"args":`+args+`}`)
		return fmt.Sprint(got["code"], got["hint"])
	}
	command := func(session, line string) string {
		_, got := l.ask("POST", "/v1/commands", l.token, fmt.Sprintf(`{"line":%q,"session_id":%q}`, line, session))
		return fmt.Sprint(got["code"], got["hint"])
	}
	alone := func(line string) string {
		_, got := l.ask("POST", "/v1/commands", l.token, fmt.Sprintf(`{"line":%q}`, line))
		return fmt.Sprint(got["code"], got["hint"])
	}
	b := l.browser()
	page := func(id, args string) string {
		_, text := b.do("POST", "/ui/tools/"+id, url.Values{"do": {"call"}, "args": {args}})
		return text
	}
	session, other, mcp := l.session(l.token, `[]`), l.session(l.token, `[]`), ""
	l.mcp(&mcp, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
	l.mcp(&mcp, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	call := func(name, args string) string {
		return l.mcp(&mcp, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+name+`","arguments":`+args+`}}`)
	}
	file, address := `{"path":"prices.txt"}`, fmt.Sprintf(`{"url":%q}`, l.send)
	for _, door := range []struct {
		name       string
		read, send func() string
		reads      bool // the door makes calls that flows have a say in
	}{
		{"invoke", func() string { return invoke("fs.read", file) }, func() string { return invoke("http.get", address) }, false},
		{"a command without a session", func() string { return alone("/call fs.read path=prices.txt") }, func() string { return alone("/call http.get url=" + l.send) }, false},
		{"a command of a session", func() string { return command(session, "/call fs.read path=prices.txt") }, func() string { return command(session, "/call http.get url="+l.send) }, true},
		{"the web UI's page of a tool", func() string { return page("fs.read", file) }, func() string { return page("http.get", address) }, false},
		{"the web UI's page of a session", func() string {
			_, text := b.do("POST", "/ui/sessions/"+other, url.Values{"do": {"say"}, "content": {"/call fs.read path=prices.txt"}})
			return text
		}, func() string {
			_, text := b.do("POST", "/ui/sessions/"+other, url.Values{"do": {"say"}, "content": {"/call http.get url=" + l.send}})
			return text
		}, true},
		{"MCP", func() string { return call("fs_read", file) }, func() string { return call("http_get", address) }, true},
		{"a plan", func() string { return "" }, func() string {
			run := l.must(202, "POST", "/v1/runs", planBody(t, "steps:\n  - {id: r, tool: fs.read, args: {path: prices.txt}}\n  - {needs: [r], tool: http.get, args: {url: \""+l.send+"\"}}\n", ""))["run_id"].(string)
			l.ended(run)
			_, got := l.ask("GET", "/v1/runs/"+run+"/calls", l.token, "")
			return fmt.Sprint(got)
		}, true},
	} {
		read, send := door.read(), door.send()
		if door.reads && strings.Contains(read, "E6024") {
			t.Errorf("%s: reading alone: %.300s", door.name, read)
		}
		if !door.reads && (!strings.Contains(read, "E6024") && !strings.Contains(read, "flows") || !strings.Contains(read, "or use a plan, a session or MCP")) {
			t.Errorf("%s: a call without a run: %.300s", door.name, read)
		}
		if door.reads && send != "" && !strings.Contains(send, "E6024") { // a redirect of the web UI has no text
			t.Errorf("%s: sending: %.300s", door.name, send)
		}
		if n := l.sent.Swap(0); n > 0 {
			t.Errorf("%s: what was read left: %.300s", door.name, send)
		}
	}
}

// TestACallOfItsOwnWithoutFlows: where no flow needs a context, each call can have its own run.
func TestACallOfItsOwnWithoutFlows(t *testing.T) {
	s := newService(t)
	s.must(200, "POST", "/v1/tools/time.now/invoke", `{}`)
	s.must(200, "POST", "/v1/commands", `{"line":"/call time.now"}`)
	l := newLeak(t)
	if status, got := l.ask("POST", "/v1/tools/time.now/invoke", l.token, `{}`); status != 403 || got["code"] != "E6024" || got["run_id"] == nil {
		t.Errorf("with flows: %d %v", status, got)
	}
}
