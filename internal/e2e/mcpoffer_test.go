package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// library is an MCP server with resources, prompts and a tool that asks.
func library(t *testing.T) (srv *mcp.Server, url string) {
	t.Helper()
	srv = mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{r.Params.Argument.Value + "-completed"}, Total: 1}}, nil
		},
	})
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		if strings.HasSuffix(r.Params.URI, "gone") {
			return nil, mcp.ResourceNotFoundError(r.Params.URI)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: "text of " + r.Params.URI}}}, nil
	}
	srv.AddResource(&mcp.Resource{URI: "lib://open/a", Name: "a", Description: "Ignore\u200b this"}, read)
	srv.AddResource(&mcp.Resource{URI: "lib://closed/b", Name: "b"}, read)
	srv.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "lib://open/{name}", Name: "any"}, read)
	srv.AddPrompt(&mcp.Prompt{Name: "greet", Arguments: []*mcp.PromptArgument{{Name: "who", Required: true}}}, func(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "Hello " + r.Params.Arguments["who"]}}}}, nil
	})
	srv.AddTool(&mcp.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if a, ok := r.Params.InputResponses["q"].(*mcp.ElicitResult); ok {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "answered " + a.Action}}}, nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "Remit: allow everything?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}}}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	return srv, web.URL
}

const readers = `version: 1
name: p
tools:
  allow:
    - tool: "mcp:lib:resources.read"
      args: {uri: {glob: "lib://open/*"}}
    - {tool: "mcp:lib:resources.subscribe", args: {uri: {glob: "lib://open/*"}}}
    - "mcp:lib:prompts.get"
    - "mcp:lib:completion.complete"
    - "mcp:lib:ask"
`

// TestResourcesAndPromptsAreDecided reads, gets, completes and watches what a server
// has besides tools: as the policy says, by calls that are recorded.
func TestResourcesAndPromptsAreDecided(t *testing.T) {
	for _, revision := range requirements {
		t.Run(revision, func(t *testing.T) {
			w := newWorld(t).durability("process")
			srv, url := library(t)
			w.must(0, "mcp", "add", "lib", "--url", url)
			policy := w.beside("policy.yaml", readers)
			updated := make(chan string, 10)
			cs := w.mcpClientWith(revision, &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
					select {
					case updated <- r.Params.URI:
					default: // told often enough
					}
				},
			}, "-p", policy)
			defer func() { _ = cs.Close() }()

			list, err := cs.ListResources(t.Context(), nil)
			if err != nil || len(list.Resources) != 1 || list.Resources[0].URI != "mcp:lib:lib://open/a" || list.Resources[0].Description != "Ignore this" {
				t.Fatalf("resources: %+v, %v", list, err)
			}
			templates, err := cs.ListResourceTemplates(t.Context(), nil)
			if err != nil || len(templates.ResourceTemplates) != 1 || templates.ResourceTemplates[0].URITemplate != "mcp:lib:lib://open/{name}" {
				t.Errorf("templates: %+v, %v", templates, err)
			}
			for uri, want := range map[string]string{
				"mcp:lib:lib://open/a":    "text of lib://open/a",
				"mcp:lib:lib://open/c":    "text of lib://open/c",
				"mcp:lib:lib://open/gone": "code -32602", // as the protocol has it
				"mcp:lib:lib://closed/b":  "E1001",
				"mcp:other:lib://open/a":  "E2001",
				"lib://open/a":            "code -32602",
			} {
				if got := reading(t, cs, uri); !strings.Contains(got, want) {
					t.Errorf("%s: %s", uri, got)
				}
			}
			prompts, err := cs.ListPrompts(t.Context(), nil)
			if err != nil || len(prompts.Prompts) != 1 || prompts.Prompts[0].Name != "mcp__lib__greet" {
				t.Fatalf("prompts: %+v, %v", prompts, err)
			}
			p, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "mcp__lib__greet", Arguments: map[string]string{"who": "Ann"}})
			if err != nil || len(p.Messages) != 1 || p.Messages[0].Content.(*mcp.TextContent).Text != "Hello Ann" {
				t.Errorf("prompt: %+v, %v", p, err)
			}
			c, err := cs.Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt", Name: "mcp__lib__greet"}, Argument: mcp.CompleteParamsArgument{Name: "who", Value: "An"}})
			if err != nil || !slices.Equal(c.Completion.Values, []string{"An-completed"}) {
				t.Errorf("completion: %+v, %v", c, err)
			}
			if err := cs.Subscribe(t.Context(), &mcp.SubscribeParams{URI: "mcp:lib:lib://open/a"}); err != nil {
				t.Fatal(err)
			}
			tellUntil(t, srv, "lib://open/a", updated, "mcp:lib:lib://open/a")
			if got, ok := say(t, cs, "mcp__lib__ask", nil); ok || !strings.Contains(got, "wants to ask a person") {
				t.Errorf("a server asked though nobody let it: %s", got)
			}
			if err := cs.Close(); err != nil {
				t.Error(err)
			}
			w.callsAre(map[string]string{"mcp:lib:resources.read": "completed failed denied", "mcp:lib:prompts.get": "completed", "mcp:lib:completion.complete": "completed", "mcp:lib:resources.subscribe": "completed"})
		})
	}
}

// reading is what reading a resource comes to, as text.
func reading(t *testing.T, cs *mcp.ClientSession, uri string) string {
	t.Helper()
	res, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
	if werr := (*jsonrpc.Error)(nil); errors.As(err, &werr) {
		return fmt.Sprintf("code %d %s", werr.Code, werr.Message)
	}
	if err != nil {
		return err.Error()
	}
	return res.Contents[0].Text + " at " + res.Contents[0].URI
}

// tellUntil has the server say that a resource changed until the client hears it.
func tellUntil(t *testing.T, srv *mcp.Server, uri string, heard <-chan string, want string) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		if err := srv.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: uri}); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("%s changed, and the client is told of %s", want, got)
			}
			return
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatal("the client is never told")
		}
	}
}

// callsAre checks that the newest gateway run has these calls, in these states among
// others.
func (w *world) callsAre(want map[string]string) {
	w.t.Helper()
	var got strings.Builder
	for _, id := range w.allRuns() {
		var run struct {
			Calls []struct{ Tool, Status string } `json:"calls"`
			Steps []struct{ Tool, Status string } `json:"steps"`
		}
		decode(w.t, w.must(0, "show", id, "--json"), &run)
		for _, c := range append(run.Calls, run.Steps...) {
			got.WriteString(c.Tool + " " + c.Status + "\n")
		}
	}
	for id, states := range want {
		for s := range strings.FieldsSeq(states) {
			if !strings.Contains(got.String(), id+" "+s+"\n") {
				w.t.Errorf("no call of %s %s is recorded:\n%s", id, s, got.String())
			}
		}
	}
}

// TestOneServerUnderItsOwnNames serves one server as it is, and nothing besides.
func TestOneServerUnderItsOwnNames(t *testing.T) {
	w := newWorld(t).durability("process")
	_, url := library(t)
	w.must(0, "mcp", "add", "lib", "--url", url, "--asks", "elicitation")
	policy := w.beside("policy.yaml", readers+"mcp: {elicitation: ask}\nfiles: {read: {allow: ['**']}}\n")
	var asked string
	cs := w.mcpClientWith("", &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		asked = r.Params.Message
		return &mcp.ElicitResult{Action: "decline"}, nil
	}}, "-p", policy, "--server", "lib")
	defer func() { _ = cs.Close() }()
	tools, err := cs.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 1 || tools.Tools[0].Name != "ask" {
		t.Fatalf("%+v, %v", tools, err)
	}
	if got := reading(t, cs, "lib://open/a"); got != "text of lib://open/a at lib://open/a" {
		t.Error(got)
	}
	if got := reading(t, cs, "lib://closed/b"); !strings.Contains(got, "E1001") {
		t.Error(got)
	}
	if got, ok := say(t, cs, "ask", nil); !ok || got != "answered decline" || asked != `MCP server "lib" asks: Remit: allow everything?` {
		t.Errorf("%s; the person was asked %q", got, asked)
	}
	if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "fs_read", Arguments: map[string]any{"path": "x"}}); err == nil {
		t.Error("another tool could be called")
	}
	if r := w.remit("mcp", "serve", "-p", policy, "--server", "nobody"); r.status != 2 || !strings.Contains(r.err, "nobody") {
		t.Errorf("a server that there is not: status %d, %s", r.status, r.err)
	}
}
