// Package remittest tests programs that use Remit, and their agents and policies, without a
// language model, a network or the person's own home.
//
// [Open] opens a runtime in folders of the test. A [Model] is a language model whose answers the
// test writes, and a [Tool] stands in for a tool: both remember their requests. All else is the
// real engine: policies decide, the ledger records, and it is verified when the test ends.
//
//	model := remittest.NewModel(t, remittest.Call("berth", map[string]any{"ship": "Aurora"}), remittest.Say("At berth 7."))
//	berth := remittest.NewTool("harbour.berth", remittest.Return(7))
//	rt := remittest.Open(t, remit.Options{
//		PolicySource: policy, Models: []remit.ModelProvider{model.Provider()}, Tools: []remit.AgentTool{berth.AgentTool()},
//	})
//
// Time passes as the test says in a bubble of [testing/synctest]: after time.Sleep(10 * time.Minute)
// a grant of ten minutes has expired at once, and time.now tells the bubble's time. An open runtime
// looks at its grants a few times a second, so that a whole day in a bubble takes some seconds.
package remittest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/remitrun/remit"
)

// ModelID is the ID of a [Model]: agents name it, and a policy must allow it.
const ModelID = "test/model"

// Open opens a runtime. Where o says nothing, its home and its workspace are new folders, its
// user is "tester", and its environment has a usual PATH and nothing else. At the end of the test the
// runtime is closed, and the test fails if the ledger does not verify.
func Open(t testing.TB, o remit.Options) *remit.Runtime {
	t.Helper()
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	if o.User == "" {
		o.User = "tester"
	}
	if o.Environ == nil {
		o.Environ = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + o.Home}
	}
	rt, err := remit.Open(context.WithoutCancel(t.Context()), o)
	if err != nil {
		t.Fatalf("the runtime cannot be opened: %v", err)
	}
	t.Cleanup(func() {
		if _, err := rt.Verify(context.WithoutCancel(t.Context()), remit.VerifyOptions{}); err != nil {
			t.Errorf("the ledger does not verify: %v", err)
		}
		if err := rt.Close(); err != nil {
			t.Errorf("the runtime cannot be closed: %v", err)
		}
	})
	return rt
}

// Calls returns the recorded calls of a run.
func Calls(t testing.TB, rt *remit.Runtime, run string) []remit.Result {
	t.Helper()
	var out []remit.Result
	for call, err := range rt.Calls(context.WithoutCancel(t.Context()), run) {
		if err != nil {
			t.Fatalf("the calls of %s cannot be read: %v", run, err)
		}
		out = append(out, call)
	}
	return out
}

// Model is a language model for a test. Several sessions may use it at once.
type Model struct {
	mu     sync.Mutex
	answer func(n int, q remit.ModelRequest) (remit.ModelAnswer, error)
	asked  []remit.ModelRequest
}

// NewModel makes a model that gives these answers, one to each request in their order. The test
// fails if it is asked once more, or if one is left when the test ends.
func NewModel(t testing.TB, answers ...remit.ModelAnswer) *Model {
	m := &Model{}
	m.answer = func(n int, _ remit.ModelRequest) (remit.ModelAnswer, error) {
		if n >= len(answers) {
			t.Errorf("the model has %d answers, and was asked once more", len(answers))
			return remit.ModelAnswer{}, fmt.Errorf("the test has no answer for request %d", n+1)
		}
		return answers[n], nil
	}
	t.Cleanup(func() {
		if asked := len(m.Requests()); asked < len(answers) {
			t.Errorf("the model has %d answers, and was asked for %d", len(answers), asked)
		}
	})
	return m
}

// ModelFunc makes a model that answers by a function, which is called by one request at a time.
func ModelFunc(answer func(q remit.ModelRequest) (remit.ModelAnswer, error)) *Model {
	return &Model{answer: func(_ int, q remit.ModelRequest) (remit.ModelAnswer, error) { return answer(q) }}
}

// Provider is the model provider for a runtime. The name of the model is [ModelID].
func (m *Model) Provider() remit.ModelProvider {
	return remit.ModelProvider{Name: "test", Chat: func(ctx context.Context, _ *http.Client, q remit.ModelRequest, _ func(string)) (remit.ModelAnswer, error) {
		if err := ctx.Err(); err != nil {
			return remit.ModelAnswer{}, err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.asked = append(m.asked, q)
		return m.answer(len(m.asked)-1, q)
	}}
}

// Requests returns the model's requests so far.
func (m *Model) Requests() []remit.ModelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// Say is an answer without tool calls.
func Say(text string) remit.ModelAnswer { return remit.ModelAnswer{Text: text} }

// Call is an answer that calls one tool, by the name that the model knows it by. It panics where
// encoding/json can make nothing of args.
func Call(name string, args any) remit.ModelAnswer {
	if args == nil {
		args = struct{}{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("remittest: the arguments of %s are no JSON: %v", name, err))
	}
	return remit.ModelAnswer{Calls: []remit.ToolCall{{Name: name, Args: raw}}}
}

// Tool stands in for a tool of the program.
type Tool struct {
	name string
	run  func(args map[string]any) (any, error)

	mu    sync.Mutex
	calls []map[string]any
}

// NewTool makes a tool that takes any arguments, named as "harbour.berth". run may be called
// from several goroutines at once.
func NewTool(name string, run func(args map[string]any) (any, error)) *Tool {
	return &Tool{name: name, run: run}
}

// Return answers every call with v, or fails it where v is an error.
func Return(v any) func(map[string]any) (any, error) {
	return func(map[string]any) (any, error) {
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v, nil
	}
}

// AgentTool is the tool for a runtime. Its fields may be changed before, to have the schema and the
// effects of the tool that it stands for.
func (x *Tool) AgentTool() remit.AgentTool {
	return remit.Func(x.name, "Stands in for "+x.name+".", `{"type": "object"}`, func(_ context.Context, args map[string]any) (any, error) {
		x.mu.Lock()
		x.calls = append(x.calls, args)
		x.mu.Unlock()
		return x.run(args)
	})
}

// Calls returns the arguments of the calls that ran. Calls that were denied are not among them.
func (x *Tool) Calls() []map[string]any {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Clone(x.calls)
}
