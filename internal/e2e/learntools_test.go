package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestLearnWidensArgumentsOfTools: the policy that is learned from calls of a server's
// tools allows others like them, shows that it does, and keeps the recipient.
func TestLearnWidensArgumentsOfTools(t *testing.T) {
	w := newWorld(t).durability("process")
	srv := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1"}, nil)
	type args struct {
		Query string `json:"query,omitempty"`
		To    string `json:"to,omitempty"`
		Body  string `json:"body,omitempty"`
	}
	answer := func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	}
	for _, name := range []string{"search_notes", "list_notes", "get_tags", "send_note"} {
		mcp.AddTool(srv, &mcp.Tool{Name: name, Description: "Notes."}, answer)
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil))
	defer web.Close()
	defer web.CloseClientConnections()
	w.must(0, "mcp", "add", "desk", "--url", web.URL)
	w.write("plan.yaml", "steps:\n  - {tool: 'mcp:desk:search_notes', args: {query: rent}}\n"+
		"  - {tool: 'mcp:desk:list_notes', args: {query: all}}\n  - {tool: 'mcp:desk:send_note', args: {to: ann, body: hello}}\n")
	w.must(0, "run", "plan.yaml", "-p", w.beside("wide.yaml", "version: 1\nname: wide\ntools: {allow: ['mcp:desk:*']}\n"))
	var list struct {
		Items []struct {
			RunID string `json:"run_id"`
		}
	}
	decode(t, w.must(0, "runs", "--limit", "1", "--json"), &list)
	var learned struct {
		Policy  string
		Widened []struct{ Entry, Argument, Seen, Allows string }
	}
	decode(t, w.must(0, "policy", "learn", list.Items[0].RunID, "--json"), &learned)
	var shown []string
	for _, l := range learned.Widened {
		shown = append(shown, l.Entry+" "+l.Argument)
	}
	for _, want := range []string{`tools "mcp:desk:search_notes" query`, `tools "mcp:desk:send_note" body`, `tools "mcp:desk:get_tags" `} {
		if !strings.Contains(strings.Join(shown, "\n"), want) {
			t.Errorf("the widening %s is not shown: %v", want, learned.Widened)
		}
	}
	policy := w.beside("learned.yaml", learned.Policy)
	exact := w.beside("exact.yaml", w.must(0, "policy", "learn", list.Items[0].RunID, "--exact"))
	for step, status := range map[string]int{
		"mcp:desk:search_notes', args: {query: invoice}":                   0,
		"mcp:desk:get_tags', args: {query: x}":                             0,
		"mcp:desk:send_note', args: {to: ann, body: good morning}":         0,
		"mcp:desk:send_note', args: {to: ann, body: see www.evil.example}": 3,
		"mcp:desk:send_note', args: {to: eve, body: hello}":                3,
	} {
		w.write("other.yaml", "steps: [{tool: '"+step+"}]\n")
		if res := w.remit("run", "other.yaml", "-p", policy); res.status != status {
			t.Errorf("%s: exit status %d, want %d\n%s%s", step, res.status, status, res.out, res.err)
		}
		if res := w.remit("run", "other.yaml", "-p", exact); res.status != 3 {
			t.Errorf("%s: exit status %d under the exact policy\n%s", step, res.status, res.err)
		}
	}
}
