package runner

import (
	"context"
	"fmt"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// holdBack ends a call here that waits for review. It is decided, and its exact arguments are
// recorded, but nothing is carried out: a person applies it later with another call, which
// names this one (Call.Release). The policy can also say that a call's answer is needed; then
// it does not wait, and a person is asked.
func (f *flight) holdBack(ctx context.Context) error {
	if f.c.Thought {
		return nil
	}
	hold, rule := f.chain.Holding(f.policyCall())
	switch hold {
	case policy.NoHold:
		return nil
	case policy.HoldAsk:
		if f.decision.Effect == policy.Allow {
			f.decision = policy.Decision{Effect: policy.Ask, Rule: rule, Reason: "needs approval by " + rule.String() + ": the call does not wait for review, since its answer is needed"}
		}
		return nil
	}
	err := f.gate(ctx, HoldGate, func(context.Context) error { return f.holdable(rule) })
	if err != nil {
		f.refuse("hold", err)
		return err
	}
	of := f.c.Release
	if f.run.Recall != nil {
		if of, err = f.run.Recall.Released(ctx, f.c); err != nil {
			return err
		}
	}
	if of != nil {
		f.held = of
		return nil
	}
	f.run.mu.Lock()
	f.run.waiting++
	f.run.mu.Unlock()
	f.waits, f.held = true, &ledger.HeldCall{Rule: rule.String()}
	for _, a := range f.actions {
		f.held.Touches = append(f.held.Touches, a.String())
	}
	f.result = tool.Result{Output: map[string]any{
		"status": "held", "number": f.c.Index,
		"message": fmt.Sprintf("This call was not carried out. It waits as number %d in the list of held changes, until a person applies or discards them. "+
			"There is no answer yet: do not repeat the call, and do not assume its effect.", f.c.Index),
	}}
	return nil
}

// holdable refuses a call that is to wait for review and cannot.
func (f *flight) holdable(rule *policy.Rule) error {
	command := func(a tool.Action) bool { return a.Kind == tool.Command }
	switch {
	case f.c.Release != nil:
		return nil
	case slices.ContainsFunc(f.actions, command):
		return fault.New(fault.Denied, "%s lets such calls wait for review, and a command cannot wait", rule).
			WithHint("make the request with a tool, as http.request")
	case f.run.Held == nil:
		return fault.New(fault.Denied, "%s lets such calls wait for review, and this run holds nothing back", rule).
			ForOperator("run it with --changeset, or write files: {write: {hold: true}} in the policy")
	}
	return nil
}

// released reports whether the call carries out one that was held.
func (f *flight) released() bool { return f.held != nil && !f.waits }
