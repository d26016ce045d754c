package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// testServer builds the MCP server for tests into a folder beside the workspace,
// and adds it.
func (w *world) testServer(mode string, flags ...string) (folder string) {
	w.t.Helper()
	folder = filepath.Join(filepath.Dir(w.workspace), "server")
	w.mkdir(folder)
	build := exec.CommandContext(context.Background(), "go", "build", "-o", filepath.Join(folder, "server"), "../tools/source/mcp/testdata/server")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.t.Fatalf("%v\n%s", err, out)
	}
	w.must(0, append(append([]string{"mcp", "add", "t", "-w", folder}, flags...), "--", filepath.Join(folder, "server"), mode)...)
	return folder
}

func (w *world) confines() bool {
	return w.remit("doctor").status == 0
}

// say calls a tool and gives all its text.
func say(t *testing.T, cs *mcp.ClientSession, name string, args map[string]any) (string, bool) {
	t.Helper()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var all []string
	for _, c := range res.Content {
		if txt, ok := c.(*mcp.TextContent); ok {
			all = append(all, txt.Text)
		}
	}
	return strings.Join(all, "\n"), !res.IsError
}

// TestAnMCPServerIsConfinedAndDecided has a client of the gateway use a server
// that tries what it must not.
func TestAnMCPServerIsConfinedAndDecided(t *testing.T) {
	w := newWorld(t).durability("process").serve()
	if !w.confines() {
		t.Skip("this machine cannot confine")
	}
	secret := w.write("secret.txt", "the secret")
	folder := w.testServer("honest", "--env", "GIVEN=yes")
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools:\n  allow: ['mcp:t:*']\n  deny: ['mcp:t:write']\n")
	cs := w.mcpClient("", "-p", policy)
	defer func() { _ = cs.Close() }()

	listed(t, cs, "mcp__t__echo")
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]*mcp.Tool{}
	for _, tool := range list.Tools {
		names[tool.Name] = tool
	}
	if names["mcp__t__echo"] == nil || names["mcp__t__write"] != nil || names["fs_read"] != nil {
		t.Fatalf("listed: %v", names)
	}
	if out, _ := names["mcp__t__echo"].OutputSchema.(map[string]any); fmt.Sprint(out["properties"]) != "map[text:map[type:string]]" {
		t.Errorf("the server's own output schema is not shown: %v", out)
	}
	if got, ok := say(t, cs, "mcp__t__echo", map[string]any{"text": "hi"}); !ok || got != "hi" {
		t.Errorf("echo: %s", got)
	}
	for name, c := range map[string]struct {
		tool string
		args map[string]any
	}{
		"the workspace":     {"mcp__t__read", map[string]any{"path": secret}},
		"the ledger":        {"mcp__t__read", map[string]any{"path": filepath.Join(w.home, "remit.db")}},
		"the configuration": {"mcp__t__read", map[string]any{"path": filepath.Join(w.home, "mcp.json")}},
		"the network":       {"mcp__t__dial", map[string]any{"to": w.server}},
	} {
		if got, ok := say(t, cs, c.tool, c.args); ok {
			t.Errorf("%s was reached: %s", name, got)
		}
	}
	if got, ok := say(t, cs, "mcp__t__write", map[string]any{"path": "x"}); ok || !strings.Contains(got, "E1001") || !strings.Contains(got, "tools.deny[0]") {
		t.Errorf("write: %s", got)
	}
	if _, err := os.Stat(filepath.Join(folder, "x")); err == nil {
		t.Error("a denied call reached the server")
	}
	if got, ok := say(t, cs, "mcp__t__environment", nil); !ok || !strings.Contains(got, "GIVEN=yes") || strings.Contains(got, "REMIT") || strings.Contains(got, "ann") {
		t.Errorf("environment: %s", got)
	}
	if got, ok := say(t, cs, "mcp__t__crash", nil); ok || !strings.Contains(got, "status 9") {
		t.Errorf("crash: %s", got)
	}
	if got, ok := say(t, cs, "mcp__t__echo", map[string]any{"text": "again"}); !ok || got != "again" {
		t.Errorf("after a crash: %s", got)
	}
	if err := cs.Close(); err != nil {
		t.Fatal(err)
	}
	if got := w.must(0, "runs", "--all"); strings.Count(got, "mcp server t") < 2 || strings.Contains(got, "running") {
		t.Errorf("runs:\n%s", got)
	}
	if log, err := os.ReadFile(filepath.Join(w.home, "logs", "mcp-t.log")); err != nil || !strings.Contains(string(log), `server begins: honest \u001b`) {
		t.Errorf("the log: %q, %v", log, err)
	}
	w.must(0, "verify")
	w.replayServers()
	w.must(0, "mcp", "remove", "t")
	w.replayUses("mcp:t:echo")
}

// replayUses replays the runs that called a tool, whose source may be gone.
func (w *world) replayUses(tool string) {
	w.t.Helper()
	var list struct {
		Runs []struct {
			ID    string `json:"run_id"`
			Total int    `json:"total"`
		} `json:"items"`
	}
	decode(w.t, w.must(0, "runs", "--tool", tool, "--mode", "run", "--json"), &list)
	if len(list.Runs) == 0 {
		w.t.Errorf("no run is recorded that called %s", tool)
	}
	for _, r := range list.Runs {
		if got := w.must(0, "replay", r.ID); !strings.Contains(got, fmt.Sprintf("%d call", r.Total)) {
			w.t.Errorf("the replay says %s", got)
		}
	}
}

// replayServers replays the runs that servers are.
func (w *world) replayServers() {
	w.t.Helper()
	var list struct {
		Runs []struct {
			ID   string `json:"run_id"`
			Name string `json:"name"`
		} `json:"items"`
	}
	decode(w.t, w.must(0, "runs", "--all", "--json"), &list)
	n := 0
	for _, r := range list.Runs {
		if strings.HasPrefix(r.Name, "mcp server ") {
			w.must(0, "replay", r.ID)
			n++
		}
	}
	if n == 0 {
		w.t.Error("no run of a server is recorded")
	}
}

// TestAServerThatChangesItsToolIsStopped is the rug pull: after the first call the
// server's tool says something else.
func TestAServerThatChangesItsToolIsStopped(t *testing.T) {
	w := newWorld(t).durability("process")
	if !w.confines() {
		t.Skip("this machine cannot confine")
	}
	w.testServer("swaps")
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:t:*']}\n")
	cs := w.mcpClient("2025-11-25", "-p", policy)
	defer func() { _ = cs.Close() }()
	if got, ok := say(t, cs, "mcp__t__echo", map[string]any{"text": "hi"}); !ok {
		t.Fatal(got)
	}
	deadline := time.Now().Add(60 * time.Second)
	for {
		got, ok := say(t, cs, "mcp__t__echo", map[string]any{"text": "hi"})
		if !ok {
			if !strings.Contains(got, "E6017") && !strings.Contains(got, "E6016") || strings.Contains(got, "remit tool") {
				t.Errorf("refused with %s", got)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the changed tool still works")
		}
		time.Sleep(50 * time.Millisecond)
	}
	for {
		list, err := cs.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		shown := false
		for _, tool := range list.Tools {
			shown = shown || tool.Name == "mcp__t__echo"
		}
		if !shown {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the changed tool is still listed")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestAnMCPServerElsewhere reaches a server at a URL, and nothing besides.
func TestAnMCPServerElsewhere(t *testing.T) {
	w := newWorld(t).durability("process")
	srv := mcp.NewServer(&mcp.Implementation{Name: "there", Version: "1"}, nil)
	type in struct {
		Text string `json:"text"`
	}
	mcp.AddTool(srv, &mcp.Tool{Name: "shout", Description: "Says it louder"}, func(_ context.Context, _ *mcp.CallToolRequest, i in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ToUpper(i.Text)}}}, nil, nil
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	var elsewhere atomic.Int32
	mux.HandleFunc("/moved", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "/other", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/other", func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) })
	web := httptest.NewServer(mux)
	defer web.Close()

	w.must(0, "mcp", "add", "far", "--url", web.URL+"/mcp")
	if out := w.must(0, "mcp", "test", "far"); !strings.Contains(out, "mcp:far:shout") {
		t.Fatal(out)
	}
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:far:*']}\n")
	run := w.run(w.plan("far", 1, call{Tool: "mcp:far:shout", Args: args("text", "hello")}), policy)
	if s := run.Steps[0]; s.Status != "completed" || !strings.Contains(string(s.Output), "HELLO") {
		t.Errorf("%+v: %s", s, s.Output)
	}
	if out := w.must(0, "runs"); strings.Contains(out, "mcp server far") || !strings.Contains(out, "far") {
		t.Errorf("the server's run is listed without --all, or the plan's is not:\n%s", out)
	}
	if out := w.must(0, "runs", "--all"); !strings.Contains(out, "mcp server far") || strings.Contains(out, "failed") || strings.Contains(out, "running") {
		t.Errorf("runs:\n%s", out)
	}
	w.replayServers()
	w.must(0, "mcp", "add", "moved", "--url", web.URL+"/moved")
	if r := w.remit("mcp", "test", "moved"); r.status == 0 || elsewhere.Load() != 0 {
		t.Errorf("a redirect was followed %d times\n%s%s", elsewhere.Load(), r.out, r.err)
	}
	narrow := w.beside("narrow.yaml", "version: 1\nname: n\nnetwork: {allow: ['https://example.com']}\n")
	w.must(0, "mcp", "add", "denied", "--url", web.URL+"/mcp", "-p", narrow)
	if r := w.remit("mcp", "test", "denied"); r.status == 0 || !strings.Contains(r.err, "network") {
		t.Errorf("a URL that the policy does not allow: %s%s", r.out, r.err)
	}
	for _, bad := range []string{"ftp://x.example/mcp", "https://u:p@x.example/mcp", "x.example", "https://x.example/mcp?key=1"} {
		if r := w.remit("mcp", "add", "bad", "--url", bad); r.status != 2 {
			t.Errorf("%s: status %d", bad, r.status)
		}
	}
}

// TestWhatTheOperatorSaysOfArgumentsAlwaysHolds has a policy that allows all of a
// server's tools, and still decides the paths that they are given.
func TestWhatTheOperatorSaysOfArgumentsAlwaysHolds(t *testing.T) {
	w := newWorld(t).durability("process")
	if !w.confines() {
		t.Skip("this machine cannot confine")
	}
	folder := w.testServer("honest", "--within", "rea*.path=files.read")
	w.write(filepath.Join(folder, "mine.txt"), "mine")
	w.write(filepath.Join(folder, "private/p.txt"), "private")
	policy := w.beside("policy.yaml", fmt.Sprintf("version: 1\nname: p\nfiles: {read: {allow: [%q], deny: [\"**/private/**\"]}}\ntools: {allow: ['mcp:t:*']}\n", folder+"/**"))
	cs := w.mcpClient("", "-p", policy)
	defer func() { _ = cs.Close() }()
	for path, want := range map[string]bool{"mine.txt": true, folder + "/mine.txt": true, "private/p.txt": false, "/etc/passwd": false, "../x": false} {
		got, ok := say(t, cs, "mcp__t__read", map[string]any{"path": path})
		if ok != want || !want && !strings.Contains(got, "E1001") {
			t.Errorf("%s: %v %s", path, ok, got)
		}
	}
}

// TestRecursiveSchemas has a server whose schemas refer to themselves: one that makes
// sense, and one that never comes to an end.
func TestRecursiveSchemas(t *testing.T) {
	w := newWorld(t).durability("process")
	if !w.confines() {
		t.Skip("this machine cannot confine")
	}
	w.testServer("honest")
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:t:*']}\n")
	cs := w.mcpClient("", "-p", policy)
	defer func() { _ = cs.Close() }()
	nested := func(depth int, leaf any) map[string]any {
		out := map[string]any{"n": leaf}
		for range depth {
			out = map[string]any{"child": out}
		}
		return out
	}
	if got, ok := say(t, cs, "mcp__t__tree", nested(20, 1)); !ok || got != "grown" {
		t.Errorf("a tree: %s", got)
	}
	if got, ok := say(t, cs, "mcp__t__tree", nested(20, "one")); ok || !strings.Contains(got, "E2002") {
		t.Errorf("a tree with a wrong leaf: %s", got)
	}
	began := time.Now()
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp__t__loop", Arguments: map[string]any{"x": 1}})
	if err == nil && !res.IsError || time.Since(began) > 20*time.Second {
		t.Errorf("a schema without end: %+v, %v after %s", res, err, time.Since(began))
	}
	if got, ok := say(t, cs, "mcp__t__echo", map[string]any{"text": "still here"}); !ok || got != "still here" {
		t.Errorf("after that: %s", got)
	}
}
