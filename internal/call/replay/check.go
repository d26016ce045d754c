package replay

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Checker compares a replay with the record as it goes, and remembers the
// difference of the earliest call. It is safe for concurrent use.
type Checker struct {
	rec *Recording
	cut func() // ends the replay where the recorded run was cut off

	mu    sync.Mutex
	first *Mismatch
	left  int // recorded calls that ran and were not compared yet
}

// Checker makes a checker for one replay. It calls cut when the replay has
// come to where the recorded run was cancelled or interrupted from outside:
// that is one of the facts of a run.
func (r *Recording) Checker(cut func()) *Checker {
	k := &Checker{rec: r, cut: cut, left: r.ran}
	if r.cutOff && k.left == 0 {
		cut()
	}
	return k
}

// Differs reports a difference.
func (k *Checker) Differs(m Mismatch) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.first == nil || k.first.Index > 0 && m.Index > 0 && m.Index < k.first.Index {
		k.first = &m
	}
}

// First is the difference of the earliest call, or nil.
func (k *Checker) First() *Mismatch {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.first
}

// After compares one call.
func (k *Checker) After(ctx context.Context, c runner.Call, o runner.Outcome) error {
	was, known := k.rec.calls[c.Index]
	if known && was.Status != tool.Skipped {
		defer k.compared()
	}
	if !known && k.rec.cutOff && o.Status == tool.Skipped {
		return nil // the recorded run ended before it could say so
	}
	m, err := k.rec.Compare(ctx, c, o)
	if m != nil {
		k.Differs(*m)
	}
	return err
}

// compared counts a call that ran, and ends the replay with the last one where
// nothing more is known of the recorded run.
func (k *Checker) compared() {
	k.mu.Lock()
	k.left--
	over := k.left == 0
	k.mu.Unlock()
	if over && k.rec.cutOff {
		k.cut()
	}
}

// Ended compares the runs as wholes.
func (k *Checker) Ended(status tool.Status, calls int) {
	if calls != len(k.rec.order) && !k.rec.cutOff {
		k.Differs(Mismatch{What: "number of calls", Was: strconv.Itoa(len(k.rec.order)), Is: strconv.Itoa(calls)})
	}
	if was := k.rec.Run.Status; was != status.String() && !k.rec.cutOff {
		k.Differs(Mismatch{What: "status", Was: was, Is: status.String()})
	}
}

// Again makes the recorded calls of a run that had no plan once more.
func (r *Recording) Again(ctx context.Context, rn *runner.Runner, run *runner.Run, k *Checker) (tool.Status, error) {
	for _, i := range r.order {
		rec := r.calls[i]
		args, err := r.Args(ctx, rec)
		if err != nil {
			return tool.Failed, err
		}
		c := runner.Call{Index: i, Step: rec.Step, Tool: rec.Tool, Args: args, Agent: r.Run.Session != uuid.Nil}
		c.Thought = r.thought(rec)
		var o runner.Outcome
		if neverMade(rec) {
			c.Args = nil
			o = rn.Refuse(ctx, run, c, r.failure(ctx, rec))
		} else {
			o = rn.Execute(ctx, run, c)
		}
		if o.Fatal != nil {
			return tool.Failed, o.Fatal
		}
		if err := k.After(ctx, c, o); err != nil {
			return tool.Failed, err
		}
	}
	status, ok := tool.ParseStatus(r.Run.Status)
	if !ok {
		status = tool.Completed
	}
	return status, nil
}

// neverMade reports whether something asked for a call that could not be made: its
// arguments, or the name of its tool, could not be read. Its record has no arguments.
func neverMade(c ledger.Call) bool {
	_, ok := c.Parts[ledger.PartArgs]
	return !ok
}

// thought reports whether a session asked its model with the call.
func (r *Recording) thought(c ledger.Call) bool {
	return r.Run.Session != uuid.Nil && c.Tool == "model.chat" && strings.HasPrefix(strings.TrimLeft(c.Step, "0123456789"), "/")
}

// Grant is the authority of the recorded run, for deciding its calls anew. It
// is good for a replay only: nothing that it allows is done.
func (r *Recording) Grant() (grant.Grant, error) {
	var chain policy.Chain
	for _, src := range r.Policies {
		p, err := policy.Parse(src.File, []byte(src.Source))
		if err != nil {
			return grant.Grant{}, err
		}
		holders := src.Holders
		if holders == nil {
			holders = []string{r.Run.Principal}
		}
		links, err := grant.Links(r.Bound, p, holders...)
		if err != nil {
			return grant.Grant{}, err
		}
		chain = append(chain, links...)
	}
	return grant.New(grant.Terms{ID: r.Run.ID, Holder: r.Run.Principal, Policies: chain}), nil
}

// Descent is the recorded descent of the run's grant; nil: the ledger did not keep it.
func (r *Recording) Descent(ctx context.Context) ([]grant.Node, error) {
	b, err := r.runPart(ctx, ledger.PartGrant)
	if err != nil || b == nil {
		return nil, err
	}
	return grant.DecodeDescent(b)
}

// Judge decides a recorded call under another chain, on the facts of the record. It also names the
// subject of the deciding rule.
func (r *Recording) Judge(ctx context.Context, tools runner.Catalog, chain policy.Chain, c ledger.Call) (policy.Decision, string, error) {
	on := string(c.Tool)
	contexts, err := r.contextsUnder(ctx, tools, chain)
	if err != nil {
		return policy.Decision{}, on, err
	}
	if chain, err = r.bounded(ctx, chain, c); err != nil {
		return policy.Decision{}, on, err
	}
	call, why, err := r.recordedCall(ctx, tools, chain, c)
	if err != nil || why != "" {
		return policy.Decision{Reason: why}, on, err
	}
	d := chain.Decide(call)
	if d.Effect != policy.Deny && !beforeIntent(c) {
		if err := r.addFacts(ctx, c, call.Actions); err != nil {
			return d, on, err
		}
		d = chain.Decide(call)
	}
	if !r.thought(c) {
		if d, err = r.judgeFlows(ctx, d, c, call, chain, contexts[c.Index]); err != nil {
			return d, on, err
		}
	}
	switch {
	case len(d.Refusals) > 0 && d.Refusals[0].Action != "":
		on = d.Refusals[0].Action
	case len(call.Actions) > 0:
		on = call.Actions[0].String()
	}
	return d, on, nil
}

// Needs is a recorded call as a chain decides it: its tool, arguments, and
// actions with the facts of the record. If that cannot be told, why says why.
func (r *Recording) Needs(ctx context.Context, tools runner.Catalog, chain policy.Chain, c ledger.Call) (call policy.Call, why string, err error) {
	call, why, err = r.recordedCall(ctx, tools, chain, c)
	if err == nil && why == "" && !beforeIntent(c) {
		err = r.addFacts(ctx, c, call.Actions)
	}
	return call, why, err
}

// recordedCall is a recorded call without facts.
func (r *Recording) recordedCall(ctx context.Context, tools runner.Catalog, chain policy.Chain, c ledger.Call) (call policy.Call, why string, err error) {
	if neverMade(c) || beforeTool(c) {
		why, err = r.errorText(ctx, c)
		return call, cmp.Or(why, "the call was not made"), err
	}
	e, recorded, err := r.toolOf(ctx, c)
	if err != nil {
		return call, "", err
	}
	if !recorded {
		if e, err = tools.Lookup(c.Tool); err != nil {
			return call, fault.Message(err), nil
		}
	}
	args, err := r.Args(ctx, c)
	if err != nil {
		return call, "", err
	}
	if err := e.Validate(args); err != nil {
		return call, fault.Message(err), nil
	}
	limits := chain.Limits()
	env := limits.ToolEnv(r.Bound.Workspace, r.Bound.Home)
	env.Foreign = r.Run.Client != ""
	prepared, err := e.Tool.Prepare(env, args)
	if err != nil {
		return call, fault.Message(err), nil
	}
	return policy.Call{Tool: e.Spec, Args: args, Actions: append(prepared.Actions, chain.Within(e.Spec, args)...), Plan: r.fit(c)}, "", nil
}

// addFacts adds the recorded facts to actions.
func (r *Recording) addFacts(ctx context.Context, c ledger.Call, actions []tool.Action) error {
	facts, ok, err := r.Actions(ctx, c)
	if err != nil {
		return err
	}
	for i := range actions {
		if a := &actions[i]; !ok {
			a.Real = a.Path
		} else if i < len(facts) && facts[i].String() == a.String() {
			a.Real, a.Lead, a.Addrs, a.Exe, a.Names, a.Contents, a.Uses = facts[i].Real, facts[i].Lead, facts[i].Addrs, facts[i].Exe, facts[i].Names, facts[i].Contents, facts[i].Uses
			a.Labels, a.Below = facts[i].Labels, facts[i].Below
		}
	}
	return nil
}

// Happened returns the effects of a recorded call, as its handles saw them, and the number of
// further effects that were not listed.
func (r *Recording) Happened(ctx context.Context, c ledger.Call) ([]tool.Happened, int, error) {
	var t ledger.Touched
	err := r.json(ctx, c.Parts, ledger.PartHappened, &t)
	return t.Effects, t.More, err
}

// Attempts returns the attempts of a recorded call that were refused while it ran.
func (r *Recording) Attempts(ctx context.Context, c ledger.Call) (ledger.Attempts, error) {
	var a ledger.Attempts
	err := r.json(ctx, c.Parts, ledger.PartAttempts, &a)
	return a, err
}

// Ran says of a step of the recorded run whether it ran, for schedule.Options.
// A step that a run which was cut off says nothing of had not begun.
func (r *Recording) Ran(index int) (ran, known bool) {
	c, ok := r.calls[index]
	return ok && c.Status != tool.Skipped, ok || r.cutOff
}
