package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
)

// listen starts the gateway over HTTP and gives its address.
func (w *world) listen(q app.MCPRequest) string {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	q.Workspace = w.workspace
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.app.ServeMCPOverHTTP(ctx, q, l, []string{"gate.example"}) }()
	w.t.Cleanup(func() {
		stop()
		select {
		case err := <-ended:
			if err != nil {
				w.t.Errorf("the gateway ended with %v", err)
			}
		case <-time.After(60 * time.Second):
			w.t.Error("the gateway does not end")
		}
	})
	return l.Addr().String()
}

// grant issues a token.
func (w *world) grant(policy, holder string) string {
	w.t.Helper()
	tok, err := w.app.Grants.Issue(w.t.Context(), grants.Terms{Policies: []string{policy}, Holder: holder, Workspace: w.workspace})
	if err != nil {
		w.t.Fatal(err)
	}
	return tok.Text
}

// bearer adds a token to requests.
type bearer struct {
	token string
	by    http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.by.RoundTrip(r)
}

func (w *world) httpClient(revision, addr, token string, o *mcp.ClientOptions) *mcp.ClientSession {
	w.t.Helper()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "http client", Version: "1"}, o).Connect(w.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + addr + "/mcp", HTTPClient: &http.Client{Transport: bearer{token, http.DefaultTransport}},
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		w.t.Fatal(err)
	}
	if got := cs.InitializeResult().ProtocolVersion; got != revision {
		w.t.Fatalf("revision %s was agreed on, not %s", got, revision)
	}
	return cs
}

func TestEachHTTPClientIsUnderItsOwnGrantAndRun(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		reader := w.grant(w.policy("version: 1\nname: r\nfiles: {read: {allow: ['**']}}\n"), "agent:reader")
		writer := w.grant(w.policy("version: 1\nname: w\nfiles: {write: {allow: ['**']}}\n"), "agent:writer")
		addr := w.listen(app.MCPRequest{})
		a, b := w.httpClient(revision, addr, reader, nil), w.httpClient(revision, addr, writer, nil)
		if res := call(t, a, "fs_read", map[string]any{"path": "notes.txt"}); res.IsError {
			t.Error(text(res))
		}
		if res := call(t, b, "fs_write", map[string]any{"path": "w.txt", "content": "x"}); res.IsError {
			t.Error(text(res))
		}
		for name, res := range map[string]*mcp.CallToolResult{
			"the reader writes": call(t, a, "fs_write", map[string]any{"path": "r.txt", "content": "x"}),
			"the writer reads":  call(t, b, "fs_read", map[string]any{"path": "notes.txt"}),
		} {
			if !res.IsError || !strings.Contains(text(res), "E1001") {
				t.Errorf("%s: %s", name, text(res))
			}
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		st, err := w.app.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		runs, err := st.Runs(t.Context(), store.RunFilter{Limit: 10})
		if err != nil || len(runs) != 2 {
			t.Fatalf("%d runs, %v", len(runs), err)
		}
		holders := map[string]bool{}
		for _, r := range runs {
			holders[r.Principal] = true
		}
		if !holders["agent:reader"] || !holders["agent:writer"] {
			t.Errorf("the runs are of %v", holders)
		}
	})
}

// Under a grant the client answers only as the person whom the grant was issued to: one
// that was given to an agent, or handed on, is in the hands of a delegate.
func TestElicitationOverHTTP(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		ann := w.grant(w.policy(policy+"delegate: {actions: [files.read, files.write, network], to: ['agent:*']}\n"), "user:ann")
		handed, err := w.app.Grants.Narrow(ann, grants.Terms{Holder: "agent:x", Workspace: w.workspace})
		if err != nil {
			t.Fatal(err)
		}
		narrowed, err := w.app.Grants.Narrow(ann, grants.Terms{Workspace: w.workspace, Budgets: grant.Budgets{Calls: 5}})
		if err != nil {
			t.Fatal(err)
		}
		addr := w.listen(app.MCPRequest{Elicit: true})
		for name, tt := range map[string]struct {
			token string
			done  bool
		}{
			"a.txt": {ann, true}, "b.txt": {w.grant(w.policy(policy), "agent:x"), false}, "c.txt": {handed.Text, false}, "d.txt": {narrowed.Text, false},
		} {
			var asked atomic.Bool
			cs := w.httpClient(revision, addr, tt.token, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				asked.Store(true)
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, nil
			}})
			if res := call(t, cs, "fs_write", map[string]any{"path": "ask/" + name, "content": "x"}); res.IsError == tt.done || asked.Load() != tt.done {
				t.Errorf("%s: asked %v, %s", name, asked.Load(), text(res))
			}
			if _, err := os.Stat(filepath.Join(w.workspace, "ask", name)); (err == nil) != tt.done {
				t.Errorf("%s: %v", name, err)
			}
			if err := cs.Close(); err != nil {
				t.Error(err)
			}
		}
		list, err := w.app.Approvals.List(t.Context(), store.QuestionFilter{State: store.Used})
		if err != nil || len(list) != 1 || len(list[0].Votes) != 1 || list[0].Votes[0].By != "user:ann" || list[0].Votes[0].Grant == uuid.Nil {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

func TestHTTPRequestsThatAreRefused(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	token := w.grant(w.policy(policy), "agent:x")
	other := w.grant(w.policy(policy), "agent:y")
	addr := w.listen(app.MCPRequest{})
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`
	send := func(body string, change func(*http.Request)) (int, http.Header, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+token)
		if change != nil {
			change(r)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header, string(b)
	}
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	_, port, _ := net.SplitHostPort(addr)
	for name, tt := range map[string]struct {
		change func(*http.Request)
		want   int
	}{
		"no token":                       {func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"no bearer":                      {header("Authorization", "Basic "+token), 401},
		"no grant":                       {header("Authorization", "Bearer remit1_xyz"), 401},
		"a changed grant":                {header("Authorization", "Bearer "+token[:len(token)-4]+"AAAA"), 401},
		"a rebound name":                 {func(r *http.Request) { r.Host = "evil.example:" + port }, 403},
		"loopback, another port":         {func(r *http.Request) { r.Host = "localhost:1" }, 403},
		"an address of the network":      {func(r *http.Request) { r.Host = "10.0.0.1:" + port }, 403},
		"a page of another origin":       {header("Origin", "https://evil.example"), 403},
		"a page of another local server": {header("Origin", "http://127.0.0.1:1"), 403},
		"a page without an origin":       {header("Origin", "null"), 403},
		"a browser says cross-site":      {header("Sec-Fetch-Site", "cross-site"), 403},
		"another's session":              {header("Mcp-Session-Id", "made-up"), 404},
		"localhost":                      {func(r *http.Request) { r.Host = "localhost:" + port }, 200},
		"a host that was told":           {func(r *http.Request) { r.Host = "gate.example" }, 200},
		"as it should be":                {nil, 200},
	} {
		if got, _, body := send(hello, tt.change); got != tt.want {
			t.Errorf("%s: status %d, want %d: %s", name, got, tt.want, body)
		}
	}
	// A session is its own client's, whatever grant another has.
	_, h, _ := send(hello, nil)
	id := h.Get("Mcp-Session-Id")
	if len(id) < 20 {
		t.Fatalf("the session is called %q", id)
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if got, _, body := send(list, header("Mcp-Session-Id", id)); got != 200 || !strings.Contains(body, "fs_read") {
		t.Errorf("the session's own: %d %s", got, body)
	}
	got, _, _ := send(list, func(r *http.Request) {
		r.Header.Set("Mcp-Session-Id", id)
		r.Header.Set("Authorization", "Bearer "+other)
	})
	if got != 404 {
		t.Errorf("with another grant: %d", got)
	}
	big := fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fs_read","arguments":{"path":%q}}}`, strings.Repeat("x", 17<<20))
	if got, _, _ := send(big, header("Mcp-Session-Id", id)); got != 413 {
		t.Errorf("17 MiB: status %d", got)
	}
}

// TestARepeatedMessageIsOneCall: a client that sends the same tools/call again, with its ID, causes
// no second call. Another ID is another call.
func TestARepeatedMessageIsOneCall(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	w := newWorld(t)
	token, addr := w.grant(w.policy(policy), "agent:x"), w.listen(app.MCPRequest{})
	session := ""
	send := func(body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token, "Mcp-Session-Id": session} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if id := res.Header.Get("Mcp-Session-Id"); id != "" {
			session = id
		}
		b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	call := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"time_now","arguments":{}}}`
	}
	for _, id := range []string{"7", `"seven"`} {
		if got := send(call(id)); !strings.Contains(got, `"structuredContent"`) {
			t.Errorf("the first message with ID %s: %s", id, got)
		}
		for range 2 {
			if got := send(call(id)); !strings.Contains(got, `"outcome":"unknown"`) || !strings.Contains(got, `"id":`+id) || strings.Contains(got, "structuredContent") {
				t.Errorf("the repeated message with ID %s: %s", id, got)
			}
		}
	}
	if got := send(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"time_now","arguments":{}}}`); !strings.Contains(got, `"index":3`) {
		t.Errorf("the next call is not the third: %s", got)
	}
}
