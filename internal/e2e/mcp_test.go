package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/gateway"
)

// mcpClient starts remit mcp serve as a client of MCP does.
func (w *world) mcpClient(revision string, args ...string) *mcp.ClientSession {
	w.t.Helper()
	return w.mcpClientWith(revision, nil, args...)
}

func (w *world) mcpClientWith(revision string, o *mcp.ClientOptions, args ...string) *mcp.ClientSession {
	w.t.Helper()
	cmd := exec.Command(binary, append([]string{"mcp", "serve", "-w", w.workspace}, args...)...)
	cmd.Env = w.environ()
	cmd.Stderr = nil // which run it is, for people
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, o).
		Connect(context.Background(), &mcp.CommandTransport{Command: cmd, TerminateDuration: 30 * time.Second}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		w.t.Fatal(err)
	}
	return cs
}

// mcp makes the calls as a client of the gateway, on standard input and output.
func (d *doors) mcp(calls []call) (out []verdict, after map[string]string) {
	d.w.t.Helper()
	d.w.fill()
	return d.over(d.w.mcpClient("", "-p", d.policy), calls)
}

// mcpHTTP makes them over HTTP, under a grant of the same policy.
func (d *doors) mcpHTTP(calls []call) (out []verdict, after map[string]string) {
	d.w.t.Helper()
	d.w.fill()
	token := filepath.Join(d.w.home, "http.token")
	if err := os.Remove(token); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.w.t.Fatal(err)
	}
	d.w.must(0, "grant", "issue", "-p", d.policy, "-w", d.w.workspace, "-o", token)
	addr, stop := d.w.gatewayOverHTTP()
	defer stop()
	return d.over(d.w.httpClient("", addr, token), calls)
}

// over makes the calls over a client's connection, and closes it.
func (d *doors) over(cs *mcp.ClientSession, calls []call) (out []verdict, after map[string]string) {
	d.w.t.Helper()
	run := ""
	results := make([]*mcp.CallToolResult, len(calls))
	for i, c := range calls {
		res, err := cs.CallTool(context.Background(), &mcp.CallToolParams{Name: gateway.NameOf(tool.ID(c.Tool)), Arguments: c.Args})
		if werr := (*jsonrpc.Error)(nil); errors.As(err, &werr) && werr.Code == jsonrpc.CodeInvalidParams {
			continue // there is no such tool
		}
		if err != nil {
			d.w.t.Fatalf("%+v: %v", c, err)
		}
		results[i] = res
		run, _ = res.Meta["run.remit/call"].(map[string]any)["run"].(string)
	}
	if err := cs.Close(); err != nil {
		d.w.t.Error(err)
	}
	if run == "" {
		run = d.newestRun()
	}
	for r, err := range d.rt.Calls(context.Background(), run) {
		if err != nil {
			d.w.t.Fatal(err)
		}
		if r.Output == nil && r.OutputBytes > 0 {
			if r.Output, err = d.rt.Output(context.Background(), run, r.Index); err != nil {
				d.w.t.Fatal(err)
			}
		}
		v := verdictOf(r)
		out = append(out, v)
		d.told(calls[r.Index-1], results[r.Index-1], v)
	}
	return out, tree(d.w.t, d.w.workspace)
}

// gatewayOverHTTP starts remit mcp serve --listen.
func (w *world) gatewayOverHTTP(args ...string) (addr string, stop func()) {
	w.t.Helper()
	cmd := w.command(append([]string{"mcp", "serve", "-w", w.workspace, "--listen", "127.0.0.1:0"}, args...)...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	line, err := bufio.NewReader(errs).ReadString('\n')
	if err != nil {
		w.t.Fatalf("the gateway says %q, %v", line, err)
	}
	_, rest, _ := strings.Cut(line, "http://")
	addr, _, _ = strings.Cut(rest, " ")
	return addr, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // interrupted
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func (w *world) httpClient(revision, addr, tokenFile string) *mcp.ClientSession {
	w.t.Helper()
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(http.DefaultClient.CloseIdleConnections)
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, nil).Connect(context.Background(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + addr, HTTPClient: &http.Client{Transport: bearer(strings.TrimSpace(string(token)))},
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		w.t.Fatal(err)
	}
	return cs
}

// told checks that the client was told what the record says.
func (d *doors) told(c call, res *mcp.CallToolResult, v verdict) {
	d.w.t.Helper()
	if res == nil {
		return
	}
	if done := v.Status == "completed"; res.IsError == done {
		d.w.t.Errorf("%+v: recorded as %s, told as an error: %v", c, v.Status, res.IsError)
	}
	if !res.IsError {
		b, err := json.Marshal(res.StructuredContent)
		if err != nil {
			d.w.t.Fatal(err)
		}
		// The client's decoder keeps no order of keys: compare as values.
		if !sameJSON(d.w.t, scrub(v.Tool, b), briefly(d.w.t, v)) {
			d.w.t.Errorf("%+v: the client got\n%s\nand the record has\n%s", c, b, v.Output)
		}
		return
	}
	if text := res.Content[0].(*mcp.TextContent).Text; !strings.Contains(text, v.Code) {
		d.w.t.Errorf("%+v: the client is not told %s:\n%s", c, v.Code, text)
	}
}

// briefly is the recorded output as the gateway shows it.
func briefly(t *testing.T, v verdict) string {
	t.Helper()
	var out map[string]any
	if json.Unmarshal([]byte(v.Output), &out) != nil {
		return v.Output // it was scrubbed
	}
	b, err := json.Marshal(gateway.BriefOutput(tool.ID(v.Tool), out))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	if a == b {
		return true
	}
	var va, vb any
	for text, v := range map[string]*any{a: &va, b: &vb} {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			return false
		}
	}
	ja, _ := json.Marshal(va)
	jb, _ := json.Marshal(vb)
	return bytes.Equal(ja, jb)
}

func (d *doors) newestRun() string {
	d.w.t.Helper()
	var list struct {
		Runs []struct {
			ID string `json:"run_id"`
		} `json:"items"`
	}
	decode(d.w.t, d.w.remit("runs", "--json").out, &list)
	if len(list.Runs) == 0 {
		d.w.t.Fatal("no run is recorded")
	}
	return list.Runs[0].ID
}

// TestTheGatewayIsARunOfItsOwn looks at what is left when a client has gone.
func TestTheGatewayIsARunOfItsOwn(t *testing.T) {
	w := newWorld(t).durability("process")
	w.write("notes.txt", "one\n")
	policy := w.beside("policy.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}}\n")
	for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		cs := w.mcpClient(revision, "-p", policy)
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs_read", Arguments: map[string]any{"path": "notes.txt"}})
		if err != nil || res.IsError {
			t.Fatalf("%s: %v %+v", revision, err, res)
		}
		run := res.Meta["run.remit/call"].(map[string]any)["run"].(string)
		if err := cs.Close(); err != nil {
			t.Fatal(err)
		}
		if r := w.remit("show", run, "--json"); r.status != 0 || !strings.Contains(r.out, `"fs.read"`) || !strings.Contains(r.out, `"completed"`) {
			t.Errorf("%s: status %d\n%s%s", revision, r.status, r.out, r.err)
		}
	}
	if r := w.remit("verify"); r.status != 0 {
		t.Errorf("verify: %s%s", r.out, r.err)
	}
}

// TestAClientUnderAGrant is stopped when the grant is revoked, and cannot answer
// its own questions.
func TestAClientUnderAGrant(t *testing.T) {
	w := newWorld(t).durability("process")
	w.write("notes.txt", "one\n")
	policy := w.beside("policy.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}, write: {ask: ['**']}}\n")
	token := filepath.Join(w.home, "docs.token")
	w.must(0, "grant", "issue", "-p", policy, "--holder", "agent:docs", "-w", w.workspace, "-o", token)
	cs := w.mcpClient("", "--grant", "@"+token)
	defer func() { _ = cs.Close() }()
	read := func() *mcp.CallToolResult {
		t.Helper()
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs_read", Arguments: map[string]any{"path": "notes.txt"}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := read(); res.IsError {
		t.Fatalf("%+v", res.Content[0])
	}
	w.must(0, "grant", "revoke", "@"+token)
	deadline := time.Now().Add(time.Minute)
	for {
		res := read()
		if res.IsError && strings.Contains(res.Content[0].(*mcp.TextContent).Text, "E6004") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the revoked grant still works: %+v", res.Content[0])
		}
		time.Sleep(20 * time.Millisecond)
	}
}
