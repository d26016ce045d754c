package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Phase is whether a run executes or only plans.
type Phase uint8

// The phases of a run.
const (
	Execution Phase = iota // all calls that the grant allows
	Planning               // only calls without side effects
)

func (p Phase) String() string {
	if p == Planning {
		return "planning"
	}
	return "execution"
}

// Gate is a check whose result depends on state outside the policies and the call, such
// as budgets. A replay takes the result from the record.
type Gate uint8

// The gates.
const (
	GrantGate   Gate = iota + 1 // may the grant be used at this moment?
	PlanGate                    // is the call in the frozen plan?
	ModeGate                    // does the run's phase permit the call?
	ToolGate                    // is the tool enabled, and unchanged since it was pinned?
	BudgetGate                  // do the limits and budgets leave enough?
	SlotGate                    // has the tool's provider room for one more call?
	RecheckGate                 // after a wait: may the grant be used, and is the tool unchanged?
	HoldGate                    // can a call wait that is to wait for review?
	HookGate                    // does the operator's hook refuse the call?
)

// Recall answers a gate from the record: nil, or the recorded error.
type Recall interface {
	Recall(ctx context.Context, c Call, at Gate) error
	// Bounds returns the recorded bounds of the call.
	Bounds(ctx context.Context, c Call) (Bounds, error)
	// Flow returns the labels with which the call was decided.
	Flow(ctx context.Context, c Call) (ledger.CallFlow, error)
	// Released returns which held call the recorded call carried out; nil: none.
	Released(ctx context.Context, c Call) (*ledger.HeldCall, error)
	// Origins calls use with where the values of the call's context came from when it was decided.
	Origins(ctx context.Context, c Call, use func(*provenance.Index)) error
	// Tool returns the recorded tool of the call; false: the catalog's tool is used.
	Tool(ctx context.Context, c Call) (Entry, bool, error)
}

// gate runs judge, or in a replay asks the record.
func (f *flight) gate(ctx context.Context, at Gate, judge func(context.Context) error) error {
	if f.run.Recall != nil {
		return f.run.Recall.Recall(ctx, f.c, at)
	}
	return judge(ctx)
}

// identify encodes the arguments and looks up the tool, so that they are recorded
// whichever stage refuses the call. resolveTool reports its error.
func (f *flight) identify(ctx context.Context) error {
	if f.indexErr != nil {
		return f.indexErr
	}
	f.mark(ledger.Validating)
	f.resolveErr = f.lookUp(ctx)
	return nil
}

func (f *flight) lookUp(ctx context.Context) (err error) {
	if f.args, err = canon.Marshal(map[string]any(f.c.Args)); err != nil {
		return fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err)
	}
	if err := f.takeOutputs(ctx); err != nil {
		return err
	}
	if err := f.refuseSecrets(); err != nil {
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

// checkGrant refuses the call if its grant is revoked, paused or expired.
func (f *flight) checkGrant(ctx context.Context) error {
	err := f.gate(ctx, GrantGate, f.usable)
	if err != nil {
		f.refuse("grant", err)
	}
	return err
}

// refuse makes a stage's refusal the decision on the call.
func (f *flight) refuse(rule string, err error) {
	f.decision = policy.Decision{Effect: policy.Deny, Rule: &policy.Rule{Name: rule}, Reason: fault.Message(err)}
}

// usable is Usable that waits for a ledger that is slow or away.
func (f *flight) usable(ctx context.Context) error {
	return f.r.usable(f.run, func(a Authority) error {
		if p, ok := a.(Patient); ok {
			return p.Await(ctx, f.run.Grant)
		}
		return a.Check(ctx, f.run.Grant)
	})
}

// Usable returns an error if a run's grant may not be used now.
func (r *Runner) Usable(ctx context.Context, run *Run) error {
	return r.usable(run, func(a Authority) error { return a.Check(ctx, run.Grant) })
}

func (r *Runner) usable(run *Run, check func(Authority) error) error {
	if err := run.stopReason(); err != nil {
		return err
	}
	g := run.Grant
	if err := g.At(r.now()); err != nil {
		return err
	}
	return check(r.authority(g))
}

// resolveTool refuses the call if its tool is unknown or its arguments cannot be recorded.
func (f *flight) resolveTool(context.Context) error { return f.resolveErr }

// matchPlan refuses a call that is not in the frozen plan, or that needs one. Where the
// policy asks for approval instead, decide handles it.
func (f *flight) matchPlan(ctx context.Context) error {
	f.planFit = policy.NoPlan
	if f.run.progress != nil {
		f.planFit = policy.OutOfPlan
		if f.c.Thought {
			f.planFit = policy.InPlan
		}
	}
	why := f.gate(ctx, PlanGate, func(context.Context) error { return nil })
	if why == nil && f.planFit == policy.OutOfPlan {
		step := f.c.Step
		if f.c.Agent {
			step = "" // an agent's name of the call is none of the plan's
		}
		f.planStep, f.planErr = f.run.progress.claimStep(frozen.Call{Step: step, Tool: f.c.Tool, Digest: f.entry.Digest, Args: f.args})
		if f.planErr == nil {
			f.planFit = policy.InPlan
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
	if f.planErr != nil {
		return fault.New(fault.NotInPlan, "%s", fault.Message(f.planErr)).WithHint("%s", d.Reason)
	}
	return fault.New(fault.NotInPlan, "%s", d.Reason).ForOperator("freeze the plan with remit plan freeze, and run it with --frozen")
}

func (f *flight) policyCall() policy.Call {
	return policy.Call{Tool: f.entry.Spec, Args: f.c.Args, Actions: f.actions, Plan: f.planFit}
}

// checkPhase refuses calls with side effects while the run only plans.
func (f *flight) checkPhase(ctx context.Context) error {
	err := f.gate(ctx, ModeGate, func(context.Context) error {
		e := f.entry.Spec.Effects
		if f.run.Phase == Execution || !e.Effectful() || f.c.Thought {
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

// checkPin refuses a tool that is disabled, or that changed since the grant pinned it.
func (f *flight) checkPin(ctx context.Context) error {
	err := f.gate(ctx, ToolGate, func(context.Context) error {
		if why := f.entry.Disabled; why != "" {
			return fault.New(fault.ToolDisabled, "the tool %q is disabled: %s", f.c.Tool, why).ForOperator("%s", f.wayOn())
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

// approve asks a person where the policies say so. It comes last, so that people are
// only asked about calls that can run.
func (f *flight) approve(ctx context.Context) error {
	if f.decision.Effect != policy.Ask {
		return nil
	}
	if f.run.ClientAsks && f.run.terms.NeedsOthers(f.decision.Admin, false) == "" {
		return nil // the client asks its user before it carries out the call
	}
	return f.ask(ctx)
}

// ask asks for approval and waits for the answer.
func (f *flight) ask(ctx context.Context) error {
	if f.r.Ask == nil {
		return fault.New(fault.NeedsApproval, "no approver is available: %s", f.decision.Reason).
			ForOperator("run it in a terminal to be asked, or allow it in the policy")
	}
	if err := f.r.Facts.Contents(ctx, f.run.Env, f.chain, f.c, f.actions); err != nil {
		return err
	}
	f.tellHooks(ctx, HookEvent{Stage: HookAsked, Reason: f.decision.Reason})
	for range maxAsked {
		a, err := f.r.Ask.Ask(ctx, f.question())
		if err != nil && ctx.Err() != nil && fault.CodeOf(err) == fault.Internal {
			err = ended(ctx, err) // the call ended, and nobody refused it
		}
		if errors.Is(err, fault.NeedsApproval) || notAnswered(ctx, err) {
			return err
		}
		if err != nil {
			return fault.Wrap(fault.NeedsApproval, err, "needs approval, but the question could not be asked (%s): %s", fault.Message(err), f.decision.Reason)
		}
		if f.answer = &a; !a.Yes {
			return refusal(a)
		}
		if same, err := f.sameContents(ctx); same || err != nil {
			return err
		}
		f.answer = nil // the approval was for other content
	}
	return fault.New(fault.NeedsApproval, "needs approval, but its files changed %d times while it waited: %s", maxAsked, f.decision.Reason).
		WithHint("run it again when nothing writes to these files")
}

// notAnswered reports whether a call ended while its question waited, so that nobody refused it.
func notAnswered(ctx context.Context, err error) bool {
	switch code := fault.CodeOf(err); code {
	case fault.Interrupted, fault.ToolCancelled, fault.StoreFailed, fault.StoreFull:
		return true
	default:
		return ctx.Err() != nil && (code.OfGrant() || code == fault.LimitReached || code == fault.ToolTimeout)
	}
}

// question is the question whether the call may run.
func (f *flight) question() Question {
	q := Question{Run: f.run, Call: f.c, Spec: f.entry.Spec, Digest: f.entry.Digest, Args: f.args, Actions: slices.Clone(f.actions), Decision: f.decision, Terms: f.run.terms}
	if f.wanted != nil {
		q.Ahead, q.Reason = true, f.wanted.Reason
	}
	return q
}

// maxAsked is how often one call may ask again because its files changed meanwhile.
const maxAsked = 3

// sameContents reports whether the call's files still have the approved content.
func (f *flight) sameContents(ctx context.Context) (bool, error) {
	before := slices.Clone(f.actions)
	if err := f.r.Facts.Contents(ctx, f.run.Env, f.chain, f.c, f.actions); err != nil {
		return false, err
	}
	return slices.EqualFunc(before, f.actions, func(a, b tool.Action) bool { return slices.Equal(a.Contents, b.Contents) }), nil
}

// refusal is the error of a refused approval: who refused it, and why.
func refusal(a Answer) error {
	by := cmp.Or(a.By, "the person asked")
	if a.Reason != "" {
		return fault.New(fault.NeedsApproval, "approval was refused by %s: %s", by, recordable(a.Reason))
	}
	return fault.New(fault.NeedsApproval, "approval was refused by %s", by)
}

// recheck refuses a call whose grant was revoked or paused while it waited for a budget,
// a person or its source, or whose tool changed since the decision.
func (f *flight) recheck(ctx context.Context) error {
	return f.gate(ctx, RecheckGate, func(ctx context.Context) error {
		if err := f.usable(ctx); err != nil {
			return err
		}
		if f.decision.Effect != policy.Ask && f.tier() == BuiltIn {
			return nil // built-in tools do not change, and the call did not wait for a person
		}
		return f.unchanged()
	})
}

// unchanged refuses a call whose tool was disabled, changed or removed since it was
// looked up.
func (f *flight) unchanged() error {
	now, err := f.r.Catalog.Lookup(f.c.Tool)
	switch {
	case err != nil:
		return fault.Wrap(fault.ToolChanged, err, "the tool %q was removed while the call waited: %v", f.c.Tool, err)
	case now.Disabled != "":
		return fault.New(fault.ToolDisabled, "the tool %q was disabled while the call waited: %s", f.c.Tool, now.Disabled).
			ForOperator("%s", f.wayOn())
	case now.Digest != f.entry.Digest:
		return fault.New(fault.ToolChanged, "the tool %q changed while the call waited: its digest is %s, the decision was on %s", f.c.Tool, now.Digest, f.entry.Digest).
			ForOperator("see the change with remit tool %s --diff, and call it again", f.c.Tool)
	}
	return nil
}
