package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	rules "github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/service/grants"
)

// twice is a session whose calls ask two questions, one after the other. The first
// is given up when elsewhere is closed.
type twice struct {
	lister
	elsewhere chan struct{}
	second    chan struct{} // closed when the second is about to be asked
	said      chan string   // what the second was answered
}

func (s *twice) Call(ctx context.Context, c runner.Call) (runner.Outcome, error) {
	ask := func(ctx context.Context, message string) string {
		q := tool.Question{Method: "elicitation/create", Params: json.RawMessage(`{"message":"` + message + `","requestedSchema":{"type":"object","properties":{}}}`)}
		got, err := tool.CallerOf(ctx).Ask(ctx, map[string]tool.Question{"q": q})
		if err != nil {
			return err.Error()
		}
		return string(got["q"])
	}
	first, stop := context.WithCancel(ctx)
	go func() {
		defer stop()
		select {
		case <-s.elsewhere:
		case <-ctx.Done():
		}
	}()
	ask(first, "the first")
	close(s.second)
	s.said <- ask(ctx, "the second")
	return runner.Outcome{Index: c.Index, Tool: c.Tool, Status: tool.Completed, Output: map[string]any{}}, nil
}

// TestAnAnswerThatComesTooLateIsNotTheNextOnes: the first question of a call is
// answered elsewhere and the second is open when the client brings its answer to
// the first. It is asked the second.
func TestAnAnswerThatComesTooLateIsNotTheNextOnes(t *testing.T) {
	p, err := rules.Parse("p", []byte("version: 1\nname: p\ntools: {allow: ['mcp:s:*']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	bound, err := p.Bind(rules.Env{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	s := &twice{lister: lister{rules.Chain{bound}}, elsewhere: make(chan struct{}), second: make(chan struct{}), said: make(chan string, 1)}
	spec := &tool.Spec{ID: "mcp:s:twice", Source: "mcp", Description: "asks twice", Input: []byte(`{"type":"object"}`)}
	g := gateway.New(gateway.Options{
		Server: "s",
		Tools:  func(context.Context) []*tool.Spec { return []*tool.Spec{spec} },
		Begin:  func(context.Context, grants.Presented, gateway.Asker) (gateway.Session, error) { return s, nil },
	})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	served := make(chan error, 1)
	go func() { served <- g.Serve(context.Background(), inR, outW) }()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "test client", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return nil, nil },
		MultiRoundTrip:     &mcp.MultiRoundTripOptions{Disabled: true},
	}).Connect(t.Context(), &mcp.IOTransport{Reader: outR, Writer: inW}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cs.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	step := func(state, answer string) *mcp.CallToolResult {
		t.Helper()
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		q := &mcp.CallToolParams{Name: "twice", RequestState: state}
		if answer != "" {
			q.InputResponses = mcp.InputResponseMap{"q": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": answer}}}
		}
		res, err := cs.CallTool(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	asked := func(res *mcp.CallToolResult) string {
		if q, ok := res.InputRequests["q"].(*mcp.ElicitParams); ok {
			return q.Message
		}
		return text(res)
	}
	first := step("", "")
	if got, want := asked(first), `MCP server "s" asks: the first`; got != want {
		t.Fatalf("asked %q, want %q", got, want)
	}
	close(s.elsewhere)
	<-s.second
	next := step(first.RequestState, "late")
	if got, want := asked(next), `MCP server "s" asks: the second`; got != want {
		t.Fatalf("asked %q, want %q", got, want)
	}
	if res := step(next.RequestState, "in time"); res.NeedsInput() || res.IsError {
		t.Errorf("the call itself: %+v", res)
	}
	if got, want := <-s.said, `{"action":"accept","content":{"answer":"in time"}}`; got != want {
		t.Errorf("the second question was answered with %s, want %s", got, want)
	}
}
