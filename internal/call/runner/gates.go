package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Phase says what a run may do besides what its grant allows.
type Phase uint8

// The phases of a run.
const (
	Execution Phase = iota // whatever the grant allows
	Planning               // only calls without side effects
)

func (p Phase) String() string {
	if p == Planning {
		return "planning"
	}
	return "execution"
}

// Gate is a gate whose answer depends on more than the policies and the call.
type Gate uint8

// The gates that a replay passes as the record says.
const (
	GrantGate  Gate = iota + 1 // may the grant be used at this moment?
	PlanGate                   // is the call in the frozen plan?
	ModeGate                   // may a run that only plans make the call?
	ToolGate                   // is the tool enabled and the one that was pinned?
	BudgetGate                 // do the limits and budgets leave enough?
	StillGate                  // may the grant be used now, after a wait, and is the tool still the one?
)

// Recall answers, in a replay, what a gate said of a call: nil, or the error that
// is recorded.
type Recall interface {
	Recall(ctx context.Context, c Call, at Gate) error
	// Bounds gives what bounded the call besides its run's grant.
	Bounds(ctx context.Context, c Call) (Bounds, error)
	// Tool gives the call's tool as the record has it; false: it is as the catalog
	// has it.
	Tool(ctx context.Context, c Call) (Entry, bool, error)
}

// gate passes a gate: by its own judgement, or in a replay by the record's.
func (f *flight) gate(ctx context.Context, at Gate, judge func(context.Context) error) error {
	if f.run.Recall != nil {
		return f.run.Recall.Recall(ctx, f.c, at)
	}
	return judge(ctx)
}

// prepare finds out what is asked for, so that it is recorded whatever refuses
// it. What is wrong with it is told by resolve.
func (f *flight) prepare(ctx context.Context) error {
	if f.refused != nil {
		return f.refused
	}
	f.mark(ledger.Validating)
	f.unfit = f.identify(ctx)
	return nil
}

func (f *flight) identify(ctx context.Context) (err error) {
	if f.args, err = canon.Marshal(map[string]any(f.c.Args)); err != nil {
		return fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err)
	}
	if err := f.keepsSecrets(); err != nil {
		return err
	}
	if f.r.Catalog == nil || f.r.Facts == nil || f.r.Execs == nil {
		return fault.New(fault.Denied, "the runner is not configured")
	}
	if f.run.Recall != nil {
		e, recorded, err := f.run.Recall.Tool(ctx, f.c)
		if f.entry = e; err != nil || recorded {
			return err
		}
	}
	f.entry, err = f.r.Catalog.Lookup(f.c.Tool)
	return err
}

// live refuses calls of a grant that is revoked, paused or out of its time.
func (f *flight) live(ctx context.Context) error {
	err := f.gate(ctx, GrantGate, f.standing)
	if err != nil {
		f.refuse("grant", err)
	}
	return err
}

// refuse makes a gate's refusal the decision on the call.
func (f *flight) refuse(rule string, err error) {
	f.decision = policy.Decision{Effect: policy.Deny, Rule: &policy.Rule{Name: rule}, Reason: fault.Message(err)}
}

func (f *flight) standing(ctx context.Context) error { return f.r.Usable(ctx, f.run) }

// Usable says why a run's grant may not be used now; nil: it may.
func (r *Runner) Usable(ctx context.Context, run *Run) error {
	if err := run.over(); err != nil {
		return err
	}
	g := run.Grant
	if err := g.At(r.now()); err != nil {
		return err
	}
	switch {
	case !g.Kept():
		return nil
	case r.Authority == nil:
		return fault.New(fault.Denied, "grant %s: its revocation status cannot be checked here", g.ID())
	}
	return r.Authority.Check(ctx, g)
}

// resolve tells what is wrong with the tool's name, or with arguments that
// cannot even be written down.
func (f *flight) resolve(context.Context) error { return f.unfit }

// planned refuses calls that are not in the frozen plan, and those that would
// need one. Where the policy asks about them, decide does.
func (f *flight) planned(ctx context.Context) error {
	f.fit = policy.NoPlan
	if f.run.progress != nil {
		f.fit = policy.OutOfPlan
	}
	why := f.gate(ctx, PlanGate, func(context.Context) error { return nil })
	if why == nil && f.run.progress != nil {
		f.planStep, f.outside = f.run.progress.begin(frozen.Call{Step: f.c.Step, Tool: f.c.Tool, Digest: f.entry.Digest, Args: f.args})
		if f.outside == nil {
			f.fit = policy.InPlan
		}
	}
	d := f.chain.DecidePlan(f.policyCall())
	if d.Effect != policy.Deny {
		return why
	}
	f.decision = d
	if why != nil {
		return why
	}
	if f.outside != nil {
		return fault.New(fault.NotInPlan, "%s", fault.Message(f.outside)).WithHint("%s", d.Reason)
	}
	return fault.New(fault.NotInPlan, "%s", d.Reason).ForOperator("freeze the plan with remit plan freeze, and run it with --frozen")
}

func (f *flight) policyCall() policy.Call {
	return policy.Call{Tool: f.entry.Spec, Args: f.c.Args, Actions: f.actions, Plan: f.fit}
}

// moded refuses calls with side effects while the run only plans.
func (f *flight) moded(ctx context.Context) error {
	err := f.gate(ctx, ModeGate, func(context.Context) error {
		e := f.entry.Spec.Effects
		if f.run.Phase == Execution || !e.Effectful() {
			return nil
		}
		return fault.New(fault.PlanOnly, "the run is in planning mode, and %q may have side effects: %s", f.c.Tool, e).
			ForOperator("run it without --planning")
	})
	if err != nil {
		f.refuse("mode", err)
	}
	return err
}

// wayOn says how the operator switches the call's tool on.
func (f *flight) wayOn() string {
	return fmt.Sprintf("remit tools enable %[1]s switches it on; if it changed, look with remit tool %[1]s --diff, then remit tools accept %[1]s", f.c.Tool)
}

// pinned refuses tools that are switched off, and those that are not the ones
// that the grant pins.
func (f *flight) pinned(ctx context.Context) error {
	err := f.gate(ctx, ToolGate, func(context.Context) error {
		if why := f.entry.Disabled; why != "" {
			return fault.New(fault.ToolDisabled, "the tool %q is switched off: %s", f.c.Tool, why).ForOperator("%s", f.wayOn())
		}
		if d, ok := f.run.Grant.Pinned(f.c.Tool); ok && d != f.entry.Digest {
			return fault.New(fault.ToolChanged, "the tool %q has changed since the grant pinned it: its digest is %s, pinned is %s", f.c.Tool, f.entry.Digest, d).
				ForOperator("see the change with remit tool %s --diff, and ask for a new grant", f.c.Tool)
		}
		return nil
	})
	if err != nil {
		f.refuse("tool", err)
	}
	return err
}

// approve asks a person where the policies say so, last of all: nobody is asked
// about a call that cannot be made anyway.
func (f *flight) approve(ctx context.Context) error {
	if f.decision.Effect == policy.Ask {
		return f.ask(ctx)
	}
	return nil
}

// ask puts the question and waits for the answer.
func (f *flight) ask(ctx context.Context) error {
	if f.r.Ask == nil {
		return fault.New(fault.NeedsApproval, "no approver is available: %s", f.decision.Reason).
			ForOperator("run it in a terminal to be asked, or allow it in the policy")
	}
	if err := f.r.Facts.Contents(ctx, f.run.Env, f.chain, f.c, f.actions); err != nil {
		return err
	}
	for range maxAsked {
		a, err := f.r.Ask.Ask(ctx, Question{Run: f.run, Call: f.c, Spec: f.entry.Spec, Digest: f.entry.Digest,
			Args: f.args, Actions: slices.Clone(f.actions), Decision: f.decision, Terms: f.run.terms})
		if errors.Is(err, fault.NeedsApproval) {
			return err
		}
		if err != nil {
			return fault.Wrap(fault.NeedsApproval, err, "needs approval, but the question could not be asked: %s", f.decision.Reason)
		}
		if f.answer = &a; !a.Yes {
			return refusal(a)
		}
		if same, err := f.sameContents(ctx); same || err != nil {
			return err
		}
		f.answer = nil // it was for other content
	}
	return fault.New(fault.NeedsApproval, "needs approval, but its files changed %d times while it waited: %s", maxAsked, f.decision.Reason).
		WithHint("run it again when nothing writes to these files")
}

// maxAsked bounds the questions about one call whose files change during each.
const maxAsked = 3

// sameContents looks up the content of the call's files again, and reports whether
// it is what was approved.
func (f *flight) sameContents(ctx context.Context) (bool, error) {
	before := slices.Clone(f.actions)
	if err := f.r.Facts.Contents(ctx, f.run.Env, f.chain, f.c, f.actions); err != nil {
		return false, err
	}
	return slices.EqualFunc(before, f.actions, func(a, b tool.Action) bool { return slices.Equal(a.Contents, b.Contents) }), nil
}

// refusal tells the caller who said no, and why if they said so.
func refusal(a Answer) error {
	by := orElse(a.By, "the person asked")
	if a.Reason != "" {
		return fault.New(fault.NeedsApproval, "approval was refused by %s: %s", by, recordable(a.Reason))
	}
	return fault.New(fault.NeedsApproval, "approval was refused by %s", by)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// still refuses a call whose grant was revoked or paused while it waited, for a
// budget, a person or others; and one whose tool is not the one any more that was
// decided on.
func (f *flight) still(ctx context.Context) error {
	return f.gate(ctx, StillGate, func(ctx context.Context) error {
		if err := f.standing(ctx); err != nil {
			return err
		}
		if f.decision.Effect != policy.Ask && f.tier() == BuiltIn {
			return nil // built in, and nobody was asked
		}
		return f.unchanged()
	})
}

// unchanged refuses a call whose tool was switched off, changed or taken away since
// it was looked up.
func (f *flight) unchanged() error {
	now, err := f.r.Catalog.Lookup(f.c.Tool)
	switch {
	case err != nil:
		return fault.Wrap(fault.ToolChanged, err, "the tool %q was removed while the call waited: %v", f.c.Tool, err)
	case now.Disabled != "":
		return fault.New(fault.ToolDisabled, "the tool %q was switched off while the call waited: %s", f.c.Tool, now.Disabled).
			ForOperator("%s", f.wayOn())
	case now.Digest != f.entry.Digest:
		return fault.New(fault.ToolChanged, "the tool %q changed while the call waited: its digest is %s, the decision was on %s", f.c.Tool, now.Digest, f.entry.Digest).
			ForOperator("see the change with remit tool %s --diff, and call it again", f.c.Tool)
	}
	return nil
}
