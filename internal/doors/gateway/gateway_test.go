package gateway_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/home"
)

func TestMain(m *testing.M) {
	// The threads on which the supervisor of sandboxes uses files are kept for the next command.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/remitrun/remit/internal/confine/supervisor.serveThread"))
}

// revisions are the live ones of the protocol, each with its own way of asking.
var revisions = []string{"2025-11-25", "2026-07-28"}

const policy = `version: 1
name: docs
files:
  read: {allow: ["**"], deny: ["private/**"]}
  write: {allow: ["out/**"], ask: ["ask/**"]}
network: {allow: ["http://127.0.0.1"]}
`

// world is an app with a workspace and a gateway's connection.
type world struct {
	t         testing.TB
	app       *app.App
	workspace string
	served    chan error // what ServeMCP came to
}

func newWorld(t testing.TB) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, workspace: filepath.Join(dir, "work"), served: make(chan error, 1)}
	for name, text := range map[string]string{"home/config.yaml": "ledger: {durability: process}\n", "work/notes.txt": "one\n", "work/private/key": "secret\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + filepath.Join(dir, "home"), "HOME=" + dir, "USER=ann"})
	if err != nil {
		t.Fatal(err)
	}
	if w.app, err = app.New(cfg, app.Own{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.app.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// policy writes a policy file beside the workspace.
func (w *world) policy(src string) string {
	w.t.Helper()
	file := filepath.Join(filepath.Dir(w.workspace), "policy.yaml")
	if err := os.WriteFile(file, []byte(src), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return file
}

// serve starts the gateway on two pipes and gives the client's ends.
func (w *world) serve(q app.MCPRequest) (io.ReadCloser, io.WriteCloser) {
	w.t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	q.Workspace = w.workspace
	go func() {
		w.served <- w.app.ServeMCP(context.Background(), q, inR, outW)
		_ = outW.Close() // also where it never began
		_ = inR.Close()
	}()
	return outR, inW
}

// client connects a client of the SDK.
func (w *world) client(revision string, q app.MCPRequest, o *mcp.ClientOptions) *mcp.ClientSession {
	w.t.Helper()
	r, wr := w.serve(q)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test client", Version: "1"}, o).
		Connect(w.t.Context(), &mcp.IOTransport{Reader: r, Writer: wr}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cs.Close()
		select {
		case err := <-w.served:
			if err != nil {
				w.t.Errorf("the gateway ended with %v", err)
			}
		case <-time.After(time.Minute):
			w.t.Error("the gateway does not end when its client goes")
		}
	})
	if got := cs.InitializeResult().ProtocolVersion; got != revision {
		w.t.Fatalf("revision %s was agreed on, not %s", got, revision)
	}
	return cs
}

func call(t *testing.T, cs *mcp.ClientSession, name string, args any) *mcp.CallToolResult {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return res
}

// text is all that a result says.
func text(res *mcp.CallToolResult) string {
	var all []string
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			all = append(all, t.Text)
		}
	}
	return strings.Join(all, "\n")
}

// recorded are the calls of the only run.
func (w *world) recorded() (ledger.Run, []ledger.Call) {
	w.t.Helper()
	st, err := w.app.Store(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	runs, err := st.Runs(w.t.Context(), store.RunFilter{Limit: 5})
	if err != nil || len(runs) != 1 {
		w.t.Fatalf("%d runs, %v", len(runs), err)
	}
	var calls []ledger.Call
	for c, err := range st.Calls(w.t.Context(), runs[0].Seq) {
		if err != nil {
			w.t.Fatal(err)
		}
		calls = append(calls, c)
	}
	return runs[0], calls
}

func forRevisions(t *testing.T, test func(t *testing.T, revision string)) {
	for _, r := range revisions {
		t.Run(r, func(t *testing.T) { test(t, r) })
	}
}

func TestOnlyToolsThatTheGrantCouldAllowAreListed(t *testing.T) {
	tests := map[string]struct {
		policy string
		want   []string
	}{
		"reading":  {policy: "version: 1\nname: r\nfiles: {read: {allow: ['**']}}\n"},
		"one tool": {"version: 1\nname: r\nfiles: {read: {allow: ['**']}}\ntools: {allow: [fs.read]}\n", []string{"fs_read"}},
		"nothing":  {"version: 1\nname: r\ntools: {deny: ['**']}\n", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			cs := w.client(revisions[0], app.MCPRequest{Policy: w.policy(tt.policy)}, nil)
			res, err := cs.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, tool := range res.Tools {
				got = append(got, tool.Name)
			}
			want := tt.want
			if name == "reading" {
				want = readers(t, w)
			}
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

// readers are the client's names of the built-in tools that at most read files.
func readers(t *testing.T, w *world) []string {
	var names []string
	for _, listed := range w.app.Catalog().List(t.Context(), catalog.Filter{Source: "builtin"}).Tools {
		if e := listed.Spec.Effects; e == 0 || e == tool.EffectSet(tool.FSRead) {
			names = append(names, strings.ReplaceAll(string(listed.Spec.ID), ".", "_"))
		}
	}
	if !slices.Contains(names, "fs_read") || slices.Contains(names, "fs_write") {
		t.Fatalf("the built-in tools that only read are %q", names)
	}
	return names
}

func TestToolsAreDescribed(t *testing.T) {
	w := newWorld(t)
	cs := w.client(revisions[0], app.MCPRequest{Policy: w.policy(policy + "commands: {allow: [ls]}\n")}, nil)
	res, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*mcp.Tool{}
	for _, tool := range res.Tools {
		byName[tool.Name] = tool
		in := tool.InputSchema.(map[string]any)
		if in["type"] != "object" || in["oneOf"] != nil || in["anyOf"] != nil || in["allOf"] != nil {
			t.Errorf("%s: models' interfaces refuse the schema %v", tool.Name, in)
		}
		if tool.Description == "" || tool.Annotations == nil {
			t.Errorf("%s is not described", tool.Name)
		}
	}
	read, del := byName["fs_read"], byName["fs_delete"]
	if read == nil || !read.Annotations.ReadOnlyHint || *read.Annotations.DestructiveHint || *read.Annotations.OpenWorldHint {
		t.Errorf("fs.read: %+v", read)
	}
	if del == nil || del.Annotations.ReadOnlyHint || !*del.Annotations.DestructiveHint {
		t.Errorf("fs.delete: %+v", del)
	}
	if get := byName["http_get"]; get == nil || get.Annotations.ReadOnlyHint || !*get.Annotations.OpenWorldHint {
		t.Errorf("http.get: %+v", get)
	}
	for name, want := range map[string]string{
		"fs_read":  `{"run.remit/tool":{"id":"fs.read","risk":"low","side_effects":["fs.read"],"source":"builtin"}}`,
		"time_now": `{"run.remit/tool":{"id":"time.now","risk":"low","side_effects":[],"source":"builtin"}}`,
	} {
		if meta, err := json.Marshal(byName[name].Meta); err != nil || string(meta) != want {
			t.Errorf("_meta of %s:\n got %s, %v\nwant %s", name, meta, err, want)
		}
	}
	if res.NextCursor != "" || read.Title == "" {
		t.Errorf("page %q, title %q", res.NextCursor, read.Title)
	}
}

func TestACallIsAnsweredAndRecorded(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(policy)}, nil)
		res := call(t, cs, "fs_read", map[string]any{"path": "notes.txt"})
		out, _ := res.StructuredContent.(map[string]any)
		if res.IsError || out["content"] != "one\n" {
			t.Fatalf("got %s", text(res))
		}
		var same map[string]any
		if err := json.Unmarshal([]byte(text(res)), &same); err != nil || same["content"] != "one\n" {
			t.Errorf("the text is %q", text(res))
		}
		if err := cs.Close(); err != nil {
			t.Fatal(err)
		}
		w.served <- <-w.served // it has ended
		run, calls := w.recorded()
		if len(calls) != 1 || calls[0].Tool != "fs.read" || run.Status != "completed" {
			t.Errorf("recorded: run %s, calls %+v", run.Status, calls)
		}
	})
}

func TestADenialTellsWhatIsAllowed(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(policy)}, nil)
		for name, tt := range map[string]struct {
			tool string
			args any
			want []string
		}{
			"a deny rule":     {"fs_read", map[string]any{"path": "private/key"}, []string{"E1001", `files.read.deny[0] "private/**"`, `policy "docs", line 4`, `allowed: files.read.allow of policy "docs": "**"`, "record: run "}},
			"no rule":         {"fs_write", map[string]any{"path": "notes.txt", "content": "x"}, []string{"E1001", "no entry of files.write.allow matches", `allowed: files.write.allow of policy "docs": "out/**"; a person is asked about "ask/**"`}},
			"not listed":      {"shell_run", map[string]any{"argv": []string{"ls"}}, []string{"E1001", "commands.allow", "nothing"}},
			"wrong arguments": {"fs_read", map[string]any{"file": "x"}, []string{"E2002", "path"}},
			"a failure":       {"fs_read", map[string]any{"path": "missing"}, []string{"E2009", "missing"}},
		} {
			res := call(t, cs, tt.tool, tt.args)
			for _, want := range tt.want {
				if !strings.Contains(text(res), want) {
					t.Errorf("%s: %q is not in\n%s", name, want, text(res))
				}
			}
			if !res.IsError || res.StructuredContent != nil {
				t.Errorf("%s: no tool error: %+v", name, res)
			}
		}
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "no_such_tool"})
		if werr := (*jsonrpc.Error)(nil); !errors.As(err, &werr) || werr.Code != jsonrpc.CodeInvalidParams || !strings.Contains(werr.Message, "E2001") {
			t.Errorf("an unknown tool: %v", err)
		}
		if _, calls := w.recorded(); len(calls) != 6 {
			t.Errorf("%d calls are recorded, want all 6", len(calls))
		}
	})
}

// TestMalformedCalls talks to the gateway without the SDK.
func TestMalformedCalls(t *testing.T) {
	w := newWorld(t)
	r, wr := w.serve(app.MCPRequest{Policy: w.policy(policy)})
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	say := func(line string) {
		t.Helper()
		if _, err := io.WriteString(wr, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	hear := func() string {
		t.Helper()
		if !lines.Scan() {
			t.Fatalf("the gateway went: %v", lines.Err())
		}
		return lines.Text()
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
	if got := hear(); !strings.Contains(got, `"tools":{"listChanged":true}`) {
		t.Errorf("initialize: %s", got)
	}
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i, tt := range []struct{ params, want string }{
		{`{"name":"fs_read","arguments":{"path":"notes.txt","path":"private/key"}}`, "E2002"}, // whichever is read, the other was meant
		{`{"name":"fs_read","arguments":[1]}`, "E2002"},
		{`{"name":"fs_read","arguments":"x"}`, "E2002"},
		{`{"name":"fs_read","arguments":{"path":"\ud800"}}`, "E2002"},
		{`{"name":"fs_read"}`, "E2002"},
		{`{"name":""}`, `"code":-32602`},
		{`{"name":"fs_read","arguments":{"path":"notes.txt"},"requestState":"made up"}`, "waits for an answer"},
		{`{"arguments":{}}`, `"code":-32602`},
		{`7`, `"error"`},
	} {
		say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, i+2, tt.params))
		if got := hear(); !strings.Contains(got, tt.want) || !strings.Contains(got, fmt.Sprintf(`"id":%d`, i+2)) {
			t.Errorf("%s: want %s, got %s", tt.params, tt.want, got)
		}
	}
	if err := wr.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-w.served; err != nil {
		t.Error(err)
	}
	_, calls := w.recorded()
	for _, c := range calls {
		if c.Status.String() == "completed" {
			t.Errorf("call %d was made: %+v", c.Index, c)
		}
	}
	if len(calls) < 5 {
		t.Errorf("only %d calls are recorded", len(calls))
	}
}

func TestAskBecomesElicitation(t *testing.T) {
	answers := map[string]struct {
		answer  *mcp.ElicitResult
		nothing bool // the client cannot elicit
		noAsk   bool // the gateway is told not to
		done    bool
		want    string
	}{
		"allowed":         {answer: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, done: true},
		"denied":          {answer: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "deny", "reason": "not today"}}, want: "not today"},
		"declined":        {answer: &mcp.ElicitResult{Action: "decline"}, want: "declined"},
		"dismissed":       {answer: &mcp.ElicitResult{Action: "cancel"}, want: "remit approvals approve"},
		"accepted, empty": {answer: &mcp.ElicitResult{Action: "accept"}, want: "E1002"},
		"no form":         {nothing: true, want: "remit approvals approve"},
		"left to others":  {answer: &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}, noAsk: true, want: "remit approvals approve"},
	}
	forRevisions(t, func(t *testing.T, revision string) {
		for name, tt := range answers {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t)
				var asked atomic.Pointer[mcp.ElicitParams]
				o := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					asked.Store(r.Params)
					return tt.answer, nil
				}}
				if tt.nothing {
					o = nil
				}
				cs := w.client(revision, app.MCPRequest{Policy: w.policy(policy), Elicit: !tt.noAsk}, o)
				res := call(t, cs, "fs_write", map[string]any{"path": "ask/a.txt", "content": "x\u202e"})
				if res.IsError == tt.done || !strings.Contains(text(res), tt.want) {
					t.Errorf("error %v: %s", res.IsError, text(res))
				}
				if _, err := os.Stat(filepath.Join(w.workspace, "ask/a.txt")); (err == nil) != tt.done {
					t.Errorf("written: %v", err)
				}
				q := asked.Load()
				if (q != nil) == (tt.nothing || tt.noAsk) {
					t.Fatalf("asked: %+v", q)
				}
				if q == nil {
					return
				}
				for _, want := range []string{"fs.write", "ask/a.txt", "files.write", `\u202e`} {
					if !strings.Contains(q.Message, want) {
						t.Errorf("%q is not in the question\n%s", want, q.Message)
					}
				}
			})
		}
	})
}

// What a question cannot show at once is shown before it is answered, and nothing that
// looks like a secret is left out.
func TestAllOfACallCanBeReadBeforeItIsApproved(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		content := strings.Repeat("# Cookie: a=1; password=hunter2hunter2\n", 600) + "the last line"
		var mu sync.Mutex
		var forms []*mcp.ElicitParams
		o := &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			mu.Lock()
			defer mu.Unlock()
			forms = append(forms, r.Params)
			answer := "allow once"
			if schema, err := json.Marshal(r.Params.RequestedSchema); err != nil || strings.Contains(string(schema), "show more") {
				answer = "show more"
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}, nil
		}}
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(policy), Elicit: true}, o)
		if res := call(t, cs, "fs_write", map[string]any{"path": "ask/a.txt", "content": content}); res.IsError {
			t.Fatal(text(res))
		}
		mu.Lock()
		defer mu.Unlock()
		if len(forms) < 4 {
			t.Fatalf("%d forms", len(forms))
		}
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		if first := forms[0].Message; !strings.Contains(first, "sha256 ") || !strings.Contains(first, "show more") || strings.Contains(first, "the last line") {
			t.Errorf("the first form: %s", first)
		}
		var all strings.Builder
		for _, f := range forms[1:] {
			if len(f.Message) > 10_000 {
				t.Errorf("a form of %d bytes", len(f.Message))
			}
			all.WriteString(f.Message)
		}
		for _, want := range []string{sum, "  | # Cookie: a=1; password=hunter2hunter2", "  | the last line"} {
			if !strings.Contains(all.String(), want) {
				t.Errorf("%q was not shown", want)
			}
		}
	})
}

// TestAnAnswerIsForTheCallThatAsked makes a call again with the answer of another.
func TestAnAnswerIsForTheCallThatAsked(t *testing.T) {
	w := newWorld(t)
	o := &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return nil, errors.New("not used")
		},
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	}
	cs := w.client("2026-07-28", app.MCPRequest{Policy: w.policy(policy), Elicit: true}, o)
	first := call(t, cs, "fs_write", map[string]any{"path": "ask/a.txt", "content": "x"})
	if !first.NeedsInput() || first.InputRequests["approval"] == nil || len(first.RequestState) < 20 {
		t.Fatalf("%+v", first)
	}
	yes := mcp.InputResponseMap{"approval": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "allow once"}}}
	again := func(args map[string]any, state string) *mcp.CallToolResult {
		t.Helper()
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs_write", Arguments: args, InputResponses: yes, RequestState: state})
		if werr := (*jsonrpc.Error)(nil); errors.As(err, &werr) && werr.Code == jsonrpc.CodeInvalidParams {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: werr.Message}}}
		}
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := again(map[string]any{"path": "ask/b.txt", "content": "x"}, first.RequestState); !res.IsError {
		t.Errorf("another call: %s", text(res))
	}
	if res := again(map[string]any{"path": "ask/a.txt", "content": "x"}, first.RequestState+"A"); !res.IsError {
		t.Errorf("another state: %s", text(res))
	}
	if res := again(map[string]any{"path": "ask/a.txt", "content": "x"}, first.RequestState); res.IsError {
		t.Errorf("the call itself: %s", text(res))
	}
	if res := again(map[string]any{"path": "ask/a.txt", "content": "x"}, first.RequestState); !res.IsError {
		t.Errorf("a second time: %s", text(res))
	}
	if _, err := os.Stat(filepath.Join(w.workspace, "ask/b.txt")); err == nil {
		t.Error("what nobody approved was written")
	}
	// One that is never answered ends with the connection.
	if res := call(t, cs, "fs_write", map[string]any{"path": "ask/c.txt", "content": "x"}); !res.NeedsInput() {
		t.Errorf("%s", text(res))
	}
}

func TestACallCanBeCancelled(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		began := make(chan struct{})
		srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
		}))
		defer srv.Close()
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(strings.Replace(policy, "http://127.0.0.1", srv.URL, 1))}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-began
			cancel()
		}()
		if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "http_get", Arguments: map[string]any{"url": srv.URL + "/"}}); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		// The connection goes on, and the record says what became of the call.
		call(t, cs, "time_now", nil)
		deadline := time.Now().Add(time.Minute)
		for {
			_, calls := w.recorded()
			if len(calls) > 0 && calls[0].Status.String() == "cancelled" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("recorded: %+v", calls)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

func TestManyCallsAtOnce(t *testing.T) {
	w := newWorld(t)
	cs := w.client(revisions[1], app.MCPRequest{Policy: w.policy(policy)}, nil)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			name := fmt.Sprintf("out/%d.txt", i)
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs_write", Arguments: map[string]any{"path": name, "content": name}})
			if err != nil || res.IsError {
				t.Errorf("%v %+v", err, res)
			}
		})
	}
	wg.Wait()
	if _, calls := w.recorded(); len(calls) != 100 {
		t.Errorf("%d calls are recorded", len(calls))
	}
}

func TestAPolicyThatCannotBeReadServesNobody(t *testing.T) {
	w := newWorld(t)
	r, wr := w.serve(app.MCPRequest{Policy: w.policy("version: 1\nfoo: bar\n")})
	defer func() { _, _ = r.Close(), wr.Close() }()
	if err := <-w.served; err == nil || !strings.Contains(err.Error(), "foo") {
		t.Errorf("got %v", err)
	}
}

func TestAQuestionThatIsAnsweredElsewhere(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(policy)}, nil)
		args := map[string]any{"path": "ask/a.txt", "content": "x"}
		first := text(call(t, cs, "fs_write", args))
		_, rest, ok := strings.Cut(first, "remit approvals approve ")
		id, _, _ := strings.Cut(rest, ";")
		if !ok {
			t.Fatal(first)
		}
		if _, err := w.app.Approvals.Answer(t.Context(), id, approvals.Here(true, false, "")); err != nil {
			t.Fatal(err)
		}
		if res := call(t, cs, "fs_write", map[string]any{"path": "ask/b.txt", "content": "x"}); !res.IsError {
			t.Error("another call went through on it")
		}
		if res := call(t, cs, "fs_write", args); res.IsError {
			t.Error(text(res))
		}
		if res := call(t, cs, "fs_write", args); !res.IsError {
			t.Error("a yes for one call was good for two")
		}
	})
}

func TestACallCanWaitForAnAnswerFromElsewhere(t *testing.T) {
	w := newWorld(t)
	cs := w.client(revisions[0], app.MCPRequest{Policy: w.policy(policy), Wait: true, Elicit: true}, nil)
	answered := make(chan error, 1)
	go func() {
		for {
			list, err := w.app.Approvals.List(context.Background(), store.QuestionFilter{State: store.Waiting})
			if err == nil && len(list) == 0 {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			if err == nil {
				_, err = w.app.Approvals.Answer(context.Background(), list[0].ID.String(), approvals.Here(false, false, "not now"))
			}
			answered <- err
			return
		}
	}()
	res := call(t, cs, "fs_write", map[string]any{"path": "ask/a.txt", "content": "x"})
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if !res.IsError || !strings.Contains(text(res), "not now") {
		t.Error(text(res))
	}
}

func TestTheGatewayEndsWhenItIsTold(t *testing.T) {
	w := newWorld(t)
	began := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
	}))
	defer srv.Close()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		w.served <- w.app.ServeMCP(ctx, app.MCPRequest{Policy: w.policy(strings.Replace(policy, "http://127.0.0.1", srv.URL, 1)), Workspace: w.workspace}, inR, outW)
	}()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-began
		stop()
	}()
	// The call is given up with the gateway.
	if res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "http_get", Arguments: map[string]any{"url": srv.URL + "/"}}); err == nil && !res.IsError {
		t.Error("the call succeeded")
	}
	select {
	case err := <-w.served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("it does not end")
	}
	_ = cs.Close()
	if run, _ := w.recorded(); run.Status == "" || run.Status == "running" {
		t.Errorf("the run is %q", run.Status)
	}
}
