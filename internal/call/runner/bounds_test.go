package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// fenced is a probe that brings bounds of its own.
type fenced struct {
	*probe
	bounds []*policy.Policy
	own    string
}

func (f fenced) Bounds() []*policy.Policy { return f.bounds }
func (f fenced) Own() string              { return f.own }

func parsed(t *testing.T, src string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("bounds.yaml", []byte("version: 1\n"+src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What a tool or its caller bounds a call by holds when it is decided, and for
// its handles, and for no other call; it is recorded.
func TestBoundsOfACall(t *testing.T) {
	asks := func(p permit.Permit, path string) error {
		return p.Check(tool.Action{Kind: tool.FileRead, Path: path, Real: path})
	}
	var checked error
	run := func(_ context.Context, p permit.Permit, _ tool.Args) (tool.Result, error) {
		checked = asks(p, "/ws/private/y")
		return tool.Result{}, nil
	}
	closed := parsed(t, "rest: inherit\nfiles: {read: {allow: ['src/**', '/own/**']}}")
	h := newHouse(t, open, &probe{id: "free", run: run}, fenced{&probe{id: "fenced", run: run}, []*policy.Policy{closed}, "/own"})
	for _, c := range []struct {
		call   runner.Call
		status tool.Status
		handle bool // may the handle read /ws/private/y?
	}{
		{runner.Call{Tool: "free", Args: tool.Args{"path": "private/x"}}, tool.Completed, true},
		{runner.Call{Tool: "fenced", Args: tool.Args{"path": "private/x"}}, tool.StatusDenied, false},
		{runner.Call{Tool: "fenced", Args: tool.Args{"path": "src/x"}}, tool.Completed, false},
		{runner.Call{Tool: "fenced", Args: tool.Args{"path": "../own/x"}}, tool.StatusDenied, false}, // not a clean path
		{runner.Call{Tool: "free", Args: tool.Args{"path": "private/x"}, Bounds: []*policy.Policy{closed}}, tool.StatusDenied, false},
		{runner.Call{Tool: "free", Args: tool.Args{"path": "src/x"}, Bounds: []*policy.Policy{closed}}, tool.Completed, false},
		{runner.Call{Tool: "fenced", Args: tool.Args{"path": "src/x"}, Bounds: []*policy.Policy{parsed(t, "rest: inherit\nfiles: {read: {}}")}}, tool.StatusDenied, false},
	} {
		checked = errors.New("it did not run")
		o := h.rn.Execute(h.ctx, h.run, c.call)
		if o.Status != c.status {
			t.Errorf("%s %v: %v (%v), want %v", c.call.Tool, c.call.Args, o.Status, o.Err, c.status)
		}
		if got := checked == nil; got != c.handle {
			t.Errorf("%s %v: its handle says %v", c.call.Tool, c.call.Args, checked)
		}
	}
	var bounds ledger.CallBounds
	for i, c := range h.recorded() {
		p, there := c.Parts[ledger.PartBounds]
		if want := i != 0; there != want {
			t.Errorf("call %d: bounds recorded: %v", i+1, there)
		}
		if i == 1 {
			b, err := h.st.Load(t.Context(), p)
			if err == nil {
				err = json.Unmarshal(b, &bounds)
			}
			if err != nil || bounds.Own != "/own" || len(bounds.Policies) != 1 || !strings.Contains(bounds.Policies[0].Source, "src/**") {
				t.Errorf("the record says %+v, %v", bounds, err)
			}
		}
	}
}

// costly is a probe that wants to spend.
type costly struct {
	*probe
	tokens int64
}

func (c costly) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	prepared, err := c.probe.Prepare(env, args)
	prepared.Spends = func() permit.Spending { return permit.Spending{Out: c.tokens} }
	return prepared, err
}

// Tokens are set aside before a call, so that calls side by side never use more
// than a run may, and what was not used is there again.
func TestTokensOfARun(t *testing.T) {
	var mu sync.Mutex
	total := int64(0)
	spend := func(_ context.Context, p permit.Permit, args tool.Args) (tool.Result, error) {
		n, err := args["n"].(json.Number).Int64()
		if err != nil {
			return tool.Result{}, err
		}
		if most, _ := p.Spendable(); most > 0 && n > most && n < 50 {
			n = most
		}
		p.Spend(permit.Spending{Out: n})
		mu.Lock()
		total += n
		mu.Unlock()
		return tool.Result{Output: map[string]any{"answer": "paid for"}}, nil
	}
	h := newHouse(t, open+"models: {tokens: 100}\n", costly{&probe{id: "m", run: spend}, 40})
	ask := func(n string) runner.Outcome { return h.call("m", tool.Args{"n": json.Number(n)}) }
	if o := ask("10"); o.Status != tool.Completed {
		t.Fatal(o.Err)
	}
	if o := ask("50"); o.Status != tool.Completed || o.Output["answer"] != "paid for" {
		t.Errorf("more than was set aside, while the run has more: %v %v", o.Status, o.Err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { ask("20") })
	}
	wg.Wait()
	if total > 100 {
		t.Errorf("%d tokens of 100 were used", total)
	}
	for range 5 {
		ask("20")
	}
	if o := ask("1"); !errors.Is(o.Err, fault.LimitReached) || o.Status != tool.StatusDenied {
		t.Errorf("nothing is left, and it ran: %v %v", o.Status, o.Err)
	}

	h = newHouse(t, open+"models: {tokens: 100}\n", costly{&probe{id: "m", run: spend}, 40})
	if o := h.call("m", tool.Args{"n": json.Number("500")}); o.Status != tool.Completed || o.Output["answer"] != "paid for" {
		t.Errorf("more than there is: the answer is lost: %v %v", o.Status, o.Err)
	}
	if o := h.call("m", tool.Args{"n": json.Number("1")}); !errors.Is(o.Err, fault.LimitReached) {
		t.Errorf("after more than there is was used: %v", o.Err)
	}
}
