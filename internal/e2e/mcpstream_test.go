package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestAServerElsewhereTellsOfChanges has the policy's time limit cut the stream on
// which a server elsewhere tells of changes, again and again: calls go on, and a
// change is still noticed.
func TestAServerElsewhereTellsOfChanges(t *testing.T) {
	t.Parallel() // it mostly waits
	for name, stateless := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).durability("process")
			srv := mcp.NewServer(&mcp.Implementation{Name: "there", Version: "1"}, nil)
			type none struct{}
			ok := func(context.Context, *mcp.CallToolRequest, none) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "here"}}}, nil, nil
			}
			mcp.AddTool(srv, &mcp.Tool{Name: "first"}, ok)
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: stateless}))
			defer web.Close()
			defer web.CloseClientConnections()
			own := w.beside("own.yaml", "version: 1\nname: far\nnetwork: {allow: ['"+web.URL+"'], timeout: 5s}\n")
			w.must(0, "mcp", "add", "far", "--url", web.URL, "--protocol", name, "-p", own)
			policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:far:*']}\n")
			cs := w.mcpClient("2025-11-25", "-p", policy)
			defer func() { _ = cs.Close() }()
			for began := time.Now(); time.Since(began) < 7*time.Second; time.Sleep(500 * time.Millisecond) {
				if got, ok := say(t, cs, "mcp__far__first", nil); !ok || got != "here" {
					t.Fatalf("after %s: %s", time.Since(began), got)
				}
			}
			mcp.AddTool(srv, &mcp.Tool{Name: "second"}, ok)
			for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				list, err := cs.ListTools(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				all := ""
				for _, tool := range list.Tools {
					all += tool.Name + " "
				}
				if strings.Contains(all, "mcp__far__second") {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("the change is never noticed: %s", all)
				}
			}
		})
	}
}
