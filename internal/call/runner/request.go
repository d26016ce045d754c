package runner

import (
	"cmp"
	"context"
	"errors"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/cases"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// request is the permit.Requester of the run. It decides the wanted call as the call itself
// will be decided, and puts its question to a person. The call is not made, and the approval
// is left for it to use. A call that is denied becomes a proposal to change the policy.
func (f *flight) request(ctx context.Context, w permit.Wanted) (permit.Reply, error) {
	switch {
	case f.run.progress != nil:
		return permit.Reply{}, fault.New(fault.NotInPlan, "the run follows a frozen plan, so it can request nothing besides it")
	case len(w.Operations) > 0:
		return f.requestOperations(ctx, w)
	case recordableID(w.Tool) == tool.AuthorityRequest:
		return permit.Reply{}, fault.New(fault.ArgsInvalid, "a request cannot be requested").In("tool")
	}
	t := f.aheadOf(w)
	err := t.judge(ctx)
	if errors.Is(err, fault.Denied) && t.decision.Effect == policy.Deny {
		return t.propose(ctx)
	}
	if err != nil {
		return permit.Reply{}, err
	}
	if t.decision.Effect == policy.Allow {
		return permit.Reply{Status: permit.ReplyAllowed, Reason: t.decision.Reason}, nil
	}
	err = t.ask(ctx)
	switch a := t.answer; {
	case a == nil:
		return permit.Reply{}, cmp.Or(err, error(fault.New(fault.Internal, "the question has no answer")))
	case !a.Yes:
		return permit.Reply{Status: permit.ReplyRefused, By: a.By, Reason: a.Reason}, nil
	case err != nil:
		return permit.Reply{}, err
	case a.Session:
		return permit.Reply{Status: permit.ReplySession, By: a.By}, nil
	default:
		return permit.Reply{Status: permit.ReplyOnce, By: a.By}, nil
	}
}

// aheadOf is the flight of a call that is not made. It takes no index and is observed by
// nobody. The question names the call that requests it.
func (f *flight) aheadOf(w permit.Wanted) *flight {
	r := *f.r
	r.Observe = nil
	return &flight{r: &r, run: f.run, chain: f.run.chain, limits: f.run.limits, created: r.now(), wanted: &w,
		c: Call{Index: f.c.Index, Step: f.c.Step, Agent: f.c.Agent, Tool: recordableID(w.Tool), Args: w.Args, Bounds: f.c.Bounds, AnswerBy: f.c.AnswerBy, Pause: f.c.Pause}}
}

// Ahead decides a call of a run that is not begun, records nothing, and gives the question about it. An error says why
// the call would be refused.
func (r *Runner) Ahead(ctx context.Context, in Info, c Call) (Question, error) {
	run, err := newRun(in, r.now())
	if err != nil {
		return Question{}, err
	}
	c.Tool = recordableID(c.Tool)
	f := &flight{r: r, run: run, chain: run.chain, limits: run.limits, created: r.now(), c: c}
	if err = f.judge(ctx); err == nil && f.decision.Effect == policy.Ask {
		err = f.r.Facts.Contents(ctx, run.Env, f.chain, f.c, f.actions)
	}
	if err != nil {
		return Question{}, err
	}
	return f.question(), nil
}

// judge takes the call through the stages up to its decision, which have no effect.
func (f *flight) judge(ctx context.Context) (err error) {
	defer f.crashed(&err)
	for _, stage := range [...]func(context.Context) error{
		f.identify, f.checkGrant, f.resolveTool, f.bindPolicies, f.matchPlan, f.checkPhase, f.checkPin, f.prepare, f.decide,
	} {
		if err = stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

// requestOperations decides operations without looking anything up. Only a call can be
// approved, so operations are allowed, asked about when a call needs them, or proposed.
func (f *flight) requestOperations(ctx context.Context, w permit.Wanted) (permit.Reply, error) {
	t := f.aheadOf(w)
	t.entry, t.args = f.entry, f.args // the request itself, which is allowed
	t.c.Tool, t.c.Args = f.c.Tool, f.c.Args
	for _, op := range w.Operations {
		a, err := cases.ParseAction(op, f.run.Env.Workspace, f.run.Bound.Home)
		if err != nil {
			return permit.Reply{}, fault.New(fault.ArgsInvalid, "%s", fault.Message(err)).In("operations")
		}
		t.actions = append(t.actions, a)
	}
	switch t.decision = t.chain.Decide(policy.Call{Tool: t.entry.Spec, Args: t.c.Args, Actions: t.actions, Plan: policy.NoPlan}); t.decision.Effect {
	case policy.Allow:
		return permit.Reply{Status: permit.ReplyAllowed, Reason: t.decision.Reason}, nil
	case policy.Ask:
		return permit.Reply{Status: permit.ReplyAsks, Reason: t.decision.Reason}, nil
	default:
		return t.propose(ctx)
	}
}

// propose files a proposal to change the policy that denies the call.
func (f *flight) propose(ctx context.Context) (permit.Reply, error) {
	p, ok := f.r.Ask.(Proposer)
	if !ok {
		return permit.Reply{}, fault.New(fault.Denied, "%s; nobody is here to whom a change of the policy could be proposed", f.decision.Reason)
	}
	filed, err := p.Propose(ctx, f.question())
	if err != nil {
		return permit.Reply{}, err
	}
	return permit.Reply{Status: permit.ReplyProposed, Question: filed.ID, Until: filed.Until, Reason: f.decision.Reason}, nil
}
