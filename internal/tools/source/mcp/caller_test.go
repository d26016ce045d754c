package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// inProcess is a source whose server is one of the SDK's, in this process.
func inProcess(t *testing.T, srv *sdk.Server, change ...func(*mcp.Config)) *mcp.Server {
	t.Helper()
	c := mcp.Config{Name: "t", Source: "mcp", Version: "1", Start: func(context.Context) (*mcp.Link, error) {
		ours, theirs := sdk.NewInMemoryTransports()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = srv.Run(ctx, theirs)
		}()
		return &mcp.Link{Transport: ours, Ended: ended, Why: func() error { return nil }, Stop: func() { cancel(); <-ended }}, nil
	}}
	for _, f := range change {
		f(&c)
	}
	s := mcp.New(c)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newSDK(o *sdk.ServerOptions) *sdk.Server {
	return sdk.NewServer(&sdk.Implementation{Name: "t", Version: "1"}, o)
}

// asking is a server with one tool that asks the person for a word, in the way of
// its revision.
func asking(modern bool) *sdk.Server {
	srv := newSDK(nil)
	srv.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		q := &sdk.ElicitParams{Message: "word?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"word": map[string]any{"type": "string"}}}}
		a, ok := r.Params.InputResponses["q"].(*sdk.ElicitResult)
		if !ok && modern {
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": q}, RequestState: "s"}, nil
		}
		if !modern {
			var err error
			if a, err = r.Session.Elicit(ctx, q); err != nil {
				return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: err.Error()}}}, nil //nolint:nilerr // it is the tool's
			}
		} else if r.Params.RequestState != "s" {
			return nil, errors.New("the state is lost")
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("%s %v", a.Action, a.Content["word"])}}}, nil
	})
	return srv
}

func mayAsk(t *testing.T, src string) permit.Permit {
	t.Helper()
	p, err := policy.Parse("p", []byte("version: 1\nname: p\n"+src))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return permit.Mint(permit.Terms{Chain: policy.Chain{r}})
}

// person answers every question with one word.
func person(word string) tool.Caller {
	return tool.Caller{Can: json.RawMessage(`{"elicitation":{"form":{}}}`), Ask: func(_ context.Context, qs map[string]tool.Question) (map[string]json.RawMessage, error) {
		out := map[string]json.RawMessage{}
		for name := range qs {
			out[name] = json.RawMessage(`{"action":"accept","content":{"word":"` + word + `"}}`)
		}
		return out, nil
	}}
}

// TestAServerAsksOnlyWhereOperatorAndPolicyLetIt tries all ways in which one of them
// does not.
func TestAServerAsksOnlyWhereOperatorAndPolicyLetIt(t *testing.T) {
	const lets = "mcp: {elicitation: ask}\n"
	for name, tc := range map[string]struct {
		asks   policy.MCP
		policy string
		caller tool.Caller
		want   string // of the output or the error with its hint
	}{
		"both let it":                    {policy.MCP{Elicitation: true}, lets, person("yes"), "accept yes"},
		"the operator does not":          {policy.MCP{Sampling: true, Roots: true}, lets, person("yes"), "--asks elicitation"},
		"the policy says nothing":        {policy.MCP{Elicitation: true}, "", person("yes"), "mcp: {elicitation: ask}"},
		"the policy denies":              {policy.MCP{Elicitation: true}, "mcp: {elicitation: deny, sampling: ask}\n", person("yes"), "mcp: {elicitation: ask}"},
		"nobody is there":                {policy.MCP{Elicitation: true}, lets, tool.Caller{}, "only a client of the gateway"},
		"the client cannot show a form":  {policy.MCP{Elicitation: true}, lets, tool.Caller{Can: json.RawMessage(`{"sampling":{}}`), Ask: person("yes").Ask}, "mcp: {elicitation: ask}"},
		"what the client can is no JSON": {policy.MCP{Elicitation: true}, lets, tool.Caller{Can: json.RawMessage(`nonsense`), Ask: person("yes").Ask}, "mcp: {elicitation: ask}"},
	} {
		for revision, modern := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
			t.Run(name+" "+revision, func(t *testing.T) {
				s := inProcess(t, asking(modern), func(c *mcp.Config) { c.Asks, c.Protocol = tc.asks, revision })
				res, err := permittest.Run(tool.WithCaller(t.Context(), tc.caller), discover(t, s)["ask"], mayAsk(t, tc.policy), nil)
				got := fmt.Sprint(res.Output, " ", err)
				if coded := (*fault.Error)(nil); errors.As(err, &coded) {
					got += " " + coded.Hint
				}
				if refused := !strings.HasPrefix(tc.want, "accept"); refused != (err != nil) {
					t.Fatalf("got %s, want %s", got, tc.want)
				}
				if modern && !strings.Contains(got, tc.want) { // in older revisions the server words it, or does not know the hint
					t.Errorf("got %s, want %s", got, tc.want)
				}
			})
		}
	}
}

// TestAQuestionReachesTheCallerThatItIsFor has many callers of one server at once,
// each of whom must get their own word back.
func TestAQuestionReachesTheCallerThatItIsFor(t *testing.T) {
	for revision, modern := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(revision, func(t *testing.T) {
			s := inProcess(t, asking(modern), func(c *mcp.Config) { c.Asks, c.Protocol = policy.MCP{Elicitation: true}, revision })
			ask, p := discover(t, s)["ask"], mayAsk(t, "mcp: {elicitation: ask}\n")
			var each sync.WaitGroup
			for i := range 20 {
				each.Go(func() {
					word := fmt.Sprintf("word%d", i)
					res, err := permittest.Run(tool.WithCaller(t.Context(), person(word)), ask, p, nil)
					if got := fmt.Sprint(res.Output); err != nil || !strings.Contains(got, "accept "+word+" ") && !strings.Contains(got, "accept "+word+"]") {
						t.Errorf("%s got %s, %v", word, got, err)
					}
				})
			}
			each.Wait()
		})
	}
}

// TestAServerThatNeverStopsAskingIsStopped bounds the rounds of one call.
func TestAServerThatNeverStopsAskingIsStopped(t *testing.T) {
	srv := newSDK(nil)
	srv.AddTool(&sdk.Tool{Name: "ask", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"q": &sdk.ElicitParams{Message: "again?"}}}, nil
	})
	s := inProcess(t, srv, func(c *mcp.Config) { c.Asks = policy.MCP{Elicitation: true} })
	_, err := permittest.Run(tool.WithCaller(t.Context(), person("x")), discover(t, s)["ask"], mayAsk(t, "mcp: {elicitation: ask}\n"), nil)
	if err == nil || !strings.Contains(err.Error(), "again and again") {
		t.Errorf("got %v", err)
	}
}

// TestLogsReachTheCallerThatWantsThem passes on what a server logs, all of it, before
// the call is over.
func TestLogsReachTheCallerThatWantsThem(t *testing.T) {
	srv := newSDK(nil)
	srv.AddTool(&sdk.Tool{Name: "log", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i := range 20 {
			_ = r.Session.Log(ctx, &sdk.LoggingMessageParams{Level: "info", Data: i})
		}
		return &sdk.CallToolResult{}, nil
	})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		s := inProcess(t, srv, func(c *mcp.Config) { c.Protocol = revision })
		log := discover(t, s)["log"]
		for level, want := range map[string]int{"": 0, "info": 20} {
			var mu sync.Mutex
			n := 0
			c := tool.Caller{Level: level, Log: func(string, string, json.RawMessage) { mu.Lock(); n++; mu.Unlock() }}
			if _, err := permittest.Run(tool.WithCaller(t.Context(), c), log, mayAsk(t, ""), nil); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			if level != "" && n != want || revision >= "2026" && n != want {
				t.Errorf("%s at level %q: %d messages, want %d", revision, level, n, want)
			}
			mu.Unlock()
		}
	}
}

// TestWhatAServerHasBesidesTools lists it, reads it and watches it.
func TestWhatAServerHasBesidesTools(t *testing.T) {
	srv := newSDK(&sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
	})
	srv.AddResource(&sdk.Resource{URI: "x://a", Name: "a"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Cacheable: sdk.Cacheable{TTLMs: 1 << 30}, Contents: []*sdk.ResourceContents{{URI: "x://a", Text: "A"}}}, nil
	})
	srv.AddPrompt(&sdk.Prompt{Name: "p"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "P"}}}}, nil
	})
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			told := make(chan string, 100)
			s := inProcess(t, srv, func(c *mcp.Config) { c.Protocol, c.Updated = revision, func(uri string) { told <- uri } })
			tools := discover(t, s)
			if o := s.Offered(); len(o.Resources) != 1 || len(o.Prompts) != 1 || !o.Subscribes || o.Completes || len(tools) != 3 {
				t.Fatalf("%+v, %d tools", o, len(tools))
			}
			for range 2 { // the server says that it is good for days: it is asked all the same
				if out, err := run(t.Context(), tools[tool.ReadResource], tool.Args{"uri": "x://a"}); err != nil || !strings.Contains(out, `"text":"A"`) {
					t.Errorf("read: %s, %v", out, err)
				}
			}
			if _, err := run(t.Context(), tools[tool.ReadResource], tool.Args{"uri": "x://b"}); !errors.Is(err, fault.NotFound) {
				t.Errorf("what is not there: %v", err)
			}
			if out, err := run(t.Context(), tools[tool.GetPrompt], tool.Args{"name": "p"}); err != nil || !strings.Contains(out, `"text":"P"`) {
				t.Errorf("prompt: %s, %v", out, err)
			}
			if _, err := run(t.Context(), tools[tool.WatchResource], tool.Args{"uri": "x://a"}); err != nil {
				t.Fatal(err)
			}
			deadline := time.After(time.Minute)
			for heard := false; !heard; {
				_ = srv.ResourceUpdated(t.Context(), &sdk.ResourceUpdatedNotificationParams{URI: "x://a"})
				select {
				case uri := <-told:
					heard = uri == "x://a"
				case <-time.After(20 * time.Millisecond):
				case <-deadline:
					t.Fatal("nobody is told of the change")
				}
			}
			s.Unwatch(t.Context(), "x://a")
			s.Unwatch(t.Context(), "x://a") // once too often is nothing
		})
	}
}

// TestListsThatNeverEnd come from servers that want memory.
func TestListsThatNeverEnd(t *testing.T) {
	srv := newSDK(&sdk.ServerOptions{PageSize: 1})
	for i := range 150 {
		srv.AddResource(&sdk.Resource{URI: fmt.Sprintf("x://%d", i), Name: "r"}, nil)
	}
	endless := func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, r)
			}
			return &sdk.ListToolsResult{Tools: []*sdk.Tool{{Name: "x", InputSchema: map[string]any{"type": "object"}}}, NextCursor: "more" + time.Now().String()}, nil
		}
	}
	s := inProcess(t, srv)
	if _, err := s.Discover(t.Context()); err != nil || len(s.Offered().Resources) != 100 {
		t.Errorf("%d resources, %v", len(s.Offered().Resources), err)
	}
	many := newSDK(nil)
	many.AddTool(&sdk.Tool{Name: "x", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	many.AddReceivingMiddleware(endless)
	s = inProcess(t, many)
	if _, err := s.Discover(t.Context()); err == nil {
		t.Error("an endless list of tools was read")
	}
}

// TestAToolCannotTakeTheNameOfWhatStandsForResources has a server that tries.
func TestAToolCannotTakeTheNameOfWhatStandsForResources(t *testing.T) {
	srv := newSDK(nil)
	srv.AddResource(&sdk.Resource{URI: "x://a", Name: "a"}, nil)
	srv.AddTool(&sdk.Tool{Name: tool.ReadResource, InputSchema: map[string]any{"type": "object"}}, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{}, nil
	})
	list, err := inProcess(t, srv).Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, tl := range list {
		if tl.Spec().ID == "mcp:t:"+tool.ReadResource {
			n++
		}
	}
	if n != 2 { // the catalog takes neither of two with one name
		t.Errorf("%d tools have the name", n)
	}
}
