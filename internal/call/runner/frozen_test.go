package runner_test

import (
	"context"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

func TestAFrozenPlanBindsAnAgent(t *testing.T) {
	p := &probe{id: "p", effects: tool.EffectSet(tool.FSWrite), run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		return tool.Result{Output: map[string]any{"path": "b"}}, nil
	}}
	src := "steps: [{tool: p, id: one, args: {path: a}}, {tool: p, id: two, args: {path: '${{ steps.one.output.path }}'}}]"
	steps := []struct {
		path string
		step string
		code fault.Code
	}{
		{"b", "", fault.NotInPlan}, // its binding is not there yet
		{"x", "", fault.NotInPlan},
		{"a", "two", fault.NotInPlan},
		{"a", "", 0},
		{"a", "", fault.NotInPlan}, // once
		{"c", "", fault.NotInPlan},
		{"b", "two", 0},
		{"b", "", fault.NotInPlan},
		{"b", "none", fault.NotInPlan},
	}
	h := newHouse(t, open, p)
	h.under("files: {read: {allow: ['**']}}\ntools: {allow: ['*'], frozen_plan_from_risk: low}", func(in *runner.Info) { in.Frozen = freeze(t, src, p) })
	for i, s := range steps {
		o := h.rn.Execute(h.ctx, h.run, runner.Call{Tool: "p", Step: s.step, Args: tool.Args{"path": s.path}})
		if s.code == 0 && o.Err != nil || s.code != 0 && !errors.Is(o.Err, s.code) {
			t.Errorf("call %d, %q as %q: %v", i+1, s.path, s.step, o.Err)
		}
	}
	if p.ran.Load() != 2 {
		t.Errorf("it ran %d times", p.ran.Load())
	}
}

func TestWhatIsNotInTheFrozenPlanCanBeAsked(t *testing.T) {
	p, yes := &probe{id: "p"}, &votes{yes: true}
	h := newHouse(t, open, p)
	h.rn.Ask = yes
	h.under("files: {read: {allow: ['**']}}\ntools: {allow: ['*']}\nfrozen_plan: {otherwise: ask}", func(in *runner.Info) {
		in.Frozen = freeze(t, "steps: [{tool: p, args: {path: a}}]", p)
	})
	o := h.call("p", tool.Args{"path": "b"})
	if o.Status != tool.Completed || !o.Approved || o.Decision.Rule.Name != "frozen_plan.otherwise" || yes.asked.Load() != 1 {
		t.Errorf("%s %v %+v", o.Status, o.Err, o.Decision)
	}
	if o := h.call("p", tool.Args{"path": "a"}); o.Status != tool.Completed || o.Approved {
		t.Errorf("in the plan: %s %v", o.Status, o.Err)
	}
}
