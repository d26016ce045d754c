package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// crashing parts: each panics where the test says.
type crashing struct {
	*probe
	at string
}

func (c crashing) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	if c.at == "prepare" {
		panic("boom")
	}
	prepared, err := c.probe.Prepare(env, args)
	prepared.Actions = []tool.Action{{Kind: tool.FileRead, Path: env.Workspace + "/ask"}}
	return prepared, err
}

func (c crashing) Fill(context.Context, tool.Env, policy.Limits, runner.Call, []tool.Action) error {
	panic("boom")
}

func (c crashing) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

func (c crashing) Ask(context.Context, runner.Question) (runner.Answer, error) { panic("boom") }

func (c crashing) Lookup(tool.ID) (runner.Entry, error) {
	if c.at == "lookup" {
		panic("boom")
	}
	return runner.Entry{Tool: c, Spec: c.Spec(), Validate: func(tool.Args) error { panic("boom") }}, nil
}

func TestWhateverCrashesTheCallIsRecorded(t *testing.T) {
	for _, at := range []string{"prepare", "facts", "ask", "lookup", "validate", "observe"} {
		t.Run(at, func(t *testing.T) {
			c := crashing{&probe{id: "probe", effects: tool.EffectSet(tool.FSWrite)}, at}
			h := newHouse(t, open, c)
			want := tool.Failed
			switch at {
			case "facts":
				h.rn.Facts = c
			case "lookup", "validate":
				h.rn.Catalog = c
			case "observe":
				h.rn.Observe, want = func(runner.Notice) { panic("boom") }, tool.StatusDenied // nobody to ask
			}
			if at == "ask" {
				h.rn.Ask = c
			}
			o := h.call("probe", nil)
			if o.Status != want || want == tool.Failed && !errors.Is(o.Err, fault.ToolPanicked) || o.Fatal != nil {
				t.Errorf("%s, %v, fatal %v", o.Status, o.Err, o.Fatal)
			}
			if c.ran.Load() != 0 {
				t.Error("the tool ran")
			}
			if calls := h.recorded(); len(calls) != 1 || calls[0].Status != want {
				t.Errorf("recorded %+v", calls)
			}
		})
	}
}

func TestACallCancelledBeforeItStartsIsRecorded(t *testing.T) {
	for name, effects := range map[string]tool.Effects{"with side effects": tool.EffectSet(tool.FSWrite), "without": tool.EffectSet(tool.FSRead)} {
		t.Run(name, func(t *testing.T) {
			p := &probe{id: "probe", effects: effects}
			h := newHouse(t, open, p)
			ctx, cancel := context.WithCancel(h.ctx)
			cancel()
			if o := h.rn.Execute(ctx, h.run, runner.Call{Tool: "probe"}); o.Status != tool.Cancelled || o.Fatal != nil {
				t.Errorf("%s, %v, fatal %v", o.Status, o.Err, o.Fatal)
			}
			if calls := h.recorded(); len(calls) != 1 || calls[0].Status != tool.Cancelled || p.ran.Load() != 0 {
				t.Errorf("ran %d times, recorded %+v", p.ran.Load(), calls)
			}
		})
	}
}

func TestATakenPlaceIsRefusedAndRecorded(t *testing.T) {
	for name, index := range map[string]int{"taken": 1, "negative": -1, "too high": 1 << 40} {
		t.Run(name, func(t *testing.T) {
			p := &probe{id: "probe", effects: tool.EffectSet(tool.FSRead)}
			h := newHouse(t, open, p)
			if o := h.rn.Execute(h.ctx, h.run, runner.Call{Tool: "probe", Index: 1}); o.Err != nil {
				t.Fatal(o.Err)
			}
			o := h.rn.Execute(h.ctx, h.run, runner.Call{Tool: "probe", Index: index})
			if o.Status != tool.Failed || o.Index != 2 || o.Fatal != nil || p.ran.Load() != 1 {
				t.Errorf("%s in place %d, fatal %v; the tool ran %d times", o.Status, o.Index, o.Fatal, p.ran.Load())
			}
			if calls := h.recorded(); len(calls) != 2 {
				t.Errorf("recorded %+v", calls)
			}
		})
	}
}
