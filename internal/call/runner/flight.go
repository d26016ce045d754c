package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// flight is one call on its way. Its methods are the stages, in order.
type flight struct {
	r   *Runner
	run *Run
	c   Call

	entry    Entry
	args     []byte          // canonical JSON
	prepared permit.Prepared // by the tool; the decided call is the one that runs
	actions  []tool.Action   // those of the tool and of the policies, with facts
	decision policy.Decision
	answer   *Answer
	permit   permit.Permit
	intent   ledger.Seq // of the recorded intent; 0: none
	result   tool.Result

	notes map[HookStage]string // of the operator's hook, not recorded yet

	skipped    bool  // a plan step that is not run
	noCall     bool  // a plan step that did not become a call
	handedOver bool  // the run's client carries out the call
	indexErr   error // the call's index is invalid or already taken
	resolveErr error // the tool was not found, or the arguments cannot be recorded

	chain  policy.Chain  // that decides the call
	whole  policy.Chain  // chain before labels narrowed it; nil: they did not
	limits policy.Limits // of chain
	bounds Bounds        // policies of this call alone

	wanted *permit.Wanted // the call is not made: its approval is requested ahead of it

	held  *ledger.HeldCall // the call waits for review, or carries out one that did; nil: neither
	waits bool             // the call waits for review: nothing is carried out

	flow *flowOf // nil: no policy has labels

	references []ledger.Reference // the outputs that the arguments refer to

	planFit  policy.PlanFit
	planErr  error // the call is not in the frozen plan
	planStep int   // its step of the frozen plan, from 1; 0: none

	reserved    []Reservation // of the source, of the run's limits and of the grant's budgets
	budget      Reservation   // the one of the grant's budgets; nil: none
	leaveSource func()        // frees the call's slot in its source; nil: it has none

	created time.Time
	marks   [4]int64 // microseconds to Validating, Executing, Processing, Logging; -1: not reached
}

func (r *Runner) begin(run *Run, c Call) *flight {
	f := &flight{r: r, run: run, chain: run.chain, limits: run.limits, created: r.now(), marks: [4]int64{-1, -1, -1, -1}}
	c.Index, f.indexErr = run.index(c.Index)
	c.Tool = recordableID(c.Tool)
	f.c = c
	f.notify(ledger.Created, nil)
	return f
}

// recordableID returns a tool ID that can be recorded. An invalid ID is changed so that it
// matches no tool.
func recordableID(id tool.ID) tool.ID {
	if _, err := tool.ParseID(string(id)); err == nil {
		return id
	}
	if id == "" {
		return "(none)"
	}
	return tool.ID(recordable(string(id)))
}

// stages takes the call through its stages until one of them refuses it. A panic is a
// refusal too, so that it is recorded.
func (f *flight) stages(ctx context.Context) (err error) {
	defer f.crashed(&err)
	for _, stage := range [...]func(context.Context) error{
		f.identify,     // the arguments and the tool, for the record
		f.checkGrant,   // revoked, paused or expired
		f.resolveTool,  // the tool exists
		f.bindPolicies, // policies of this call alone
		f.matchPlan,    // the frozen plan
		f.checkPhase,   // planning or execution
		f.checkPin,     // the tool is enabled and unchanged
		f.prepare,      // valid arguments; the actions and the function that runs
		f.decide,       // the policies
		f.checkFlows,   // the labels of data
		f.reserve,      // limits and budgets
		f.holdBack,     // calls that wait for review end here
		f.approve,      // a person, where the policies ask
		f.enterSource,  // a free slot in the tool's source
		f.recheck,      // the grant and the tool, after a wait that may have been long
		f.callBefore,   // the operator's hook
		f.addLabels,    // of the result, to the context
		f.recordIntent, // durable before any effect
		f.perform,      // under a permit
	} {
		if err = stage(ctx); err != nil || f.waits {
			return err
		}
	}
	return nil
}

// crashed, deferred, turns a panic into an error.
func (f *flight) crashed(err *error) {
	if p := recover(); p != nil {
		cause := fmt.Errorf("%v\n%s", p, debug.Stack())
		*err = fault.Wrap(fault.ToolPanicked, cause, "%s crashed; nothing else is affected", f.c.Tool)
	}
}

// mark notes that the call enters a state.
func (f *flight) mark(s ledger.State) {
	f.marks[s-ledger.Validating] = f.r.now().Sub(f.created).Microseconds()
	f.notify(s, nil)
}

// notify calls the observer. If the observer panics, the call goes on.
func (f *flight) notify(s ledger.State, o *Outcome) {
	if f.r.Observe != nil {
		defer func() { _ = recover() }()
		f.r.Observe(Notice{Run: f.run, Call: f.c, Entry: f.entry, State: s, Outcome: o})
	}
}

// validate checks the arguments and prepares the call.
func (f *flight) prepare(context.Context) (err error) {
	if err := f.checkReferences(); err != nil {
		return err
	}
	if err := f.entry.Validate(f.c.Args); err != nil {
		return err
	}
	if f.prepared, err = f.entry.Tool.Prepare(f.run.Env, f.c.Args); err != nil {
		return err
	}
	f.actions = append(slices.Clone(f.prepared.Actions), f.chain.Within(f.entry.Spec, f.c.Args)...)
	return nil
}

// decide asks the policies twice: first on the actions as the arguments name them, and
// if they are not denied, on the facts. So a denied call reveals no facts.
func (f *flight) decide(ctx context.Context) error {
	call := f.policyCall()
	f.decision = f.chain.Decide(call)
	if f.decision.Effect == policy.Deny {
		return denied(f.decision)
	}
	if len(f.actions) > 0 {
		if err := f.r.Facts.Fill(ctx, f.run.Env, f.limits, f.c, f.actions); err != nil {
			return err
		}
		if f.decision = f.chain.Decide(call); f.decision.Effect == policy.Deny {
			return denied(f.decision)
		}
	}
	return nil
}

// denied is the error of a denied call, with the rule that denies it.
func denied(d policy.Decision) error {
	if d.Rule != nil && d.Rule.Pattern != "" {
		return fault.New(fault.Denied, "%s", d.Reason)
	}
	return fault.New(fault.Denied, "denied: %s", d.Reason)
}

// recordIntent makes the intent of a call with side effects durable. Other calls are
// recorded once, when they have ended.
func (f *flight) recordIntent(ctx context.Context) error {
	f.marks[ledger.Executing-ledger.Validating] = f.r.now().Sub(f.created).Microseconds()
	if err := ctx.Err(); err != nil {
		return ended(ctx, err)
	}
	if f.run.Client != "" || f.entry.Spec.Effects.Effectful() || f.released() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
		defer stop() // also for a cancelled call: its outcome is recorded too
		ev := f.event(ledger.CallIntent)
		ev.At = f.created.UnixMicro()
		ev.Effects, ev.Client = f.entry.Spec.Effects, f.run.Client
		ev.Timeline = f.marks[:2:2]
		if f.budget != nil {
			ev.Usage = f.budget.Given().List()
		}
		pay, err := f.payload()
		if err == nil {
			err = f.recordFlow(&ev, pay)
		}
		if err != nil {
			return err
		}
		labels, err := f.labelsBefore()
		if err != nil {
			return err
		}
		if f.intent, err = f.r.append(ctx, f.run, append([]ledger.Entry{{Event: ev, Payload: pay, Durable: !f.run.Volatile}}, labels...)...); err != nil {
			return recordError{err}
		}
	}
	f.notify(ledger.Executing, nil)
	return nil
}

// recordError means that the record could not be written.
type recordError struct{ error }

func (e recordError) Unwrap() error { return e.error }

// perform runs the prepared call under a permit, within its time limit. In the run of a
// client there is no permit: the client carries out the call.
func (f *flight) perform(ctx context.Context) error {
	if f.run.Client != "" {
		f.handedOver = true
		return nil
	}
	defer f.mark(ledger.Processing)
	ctx, release, err := f.checkLease(ctx)
	if err != nil {
		return err
	}
	defer release()
	f.permit = permit.Mint(f.permitTerms())
	defer f.permit.End()

	limit := f.timeout()
	cause := fault.New(fault.ToolTimeout, "the call's time limit of %s was reached", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, cause)
	defer cancel()
	ctx, stop := f.watchTime(ctx)
	defer stop()
	if p, ok := f.r.authority(f.run.Grant).(Patient); ok && f.run.Mode == ledger.Live {
		var done context.CancelFunc
		ctx, done = p.Sight(ctx, f.run.Grant)
		defer done()
	}
	if err := ctx.Err(); err != nil {
		return ended(ctx, err)
	}
	type done struct {
		res tool.Result
		err error
	}
	ch := make(chan done, 1) // buffered: an abandoned tool can still end
	go func() {
		res, err := f.guarded(ctx)
		ch <- done{res, err}
	}()
	var d done
	select {
	case d = <-ch:
	case <-ctx.Done():
		select {
		case d = <-ch:
		case <-time.After(abandonAfter):
			d.err = ctx.Err() // its permit ends now, so it can do nothing more
		}
	}
	f.result = d.res
	if d.err != nil {
		d.err = ended(ctx, d.err)
	}
	if c := f.c.Commitment; c != nil {
		return c.Judge(d.res.Output, d.err)
	}
	return d.err
}

// permitTerms are the terms of the call's permit.
func (f *flight) permitTerms() permit.Terms {
	given := f.givenAmounts()
	replaced, _ := f.run.Keep.(permit.CommandKeeper) // nil, if the run keeps nothing
	terms := permit.Terms{Call: f.digest(), Tool: f.entry.Spec.ID, Chain: f.chain.Carrying(f.data()), Env: f.run.Env, Limits: f.limits, Keep: f.keeper(), Replaced: replaced, Held: f.run.Held,
		BytesIn: given.BytesIn, BytesOut: given.BytesOut, Tokens: given.Tokens, TokensIn: given.TokensIn, TokensOut: given.TokensOut, Money: given.Money}
	terms.Scope, terms.Whole, terms.Holder = f.run.Scope(), f.whole, f.run.Grant.Holder()
	terms.Released = f.released()
	terms.Intent = permit.Intent{Run: f.run.ID.String(), Call: f.c.Index, Seq: uint64(f.intent), Tool: f.entry.Digest}
	if f.answer != nil && f.answer.Yes {
		terms.Approved = f.actions
	}
	if f.r.Ask != nil {
		terms.Ask = f.askWithin
	}
	if f.entry.Spec.ID == tool.AuthorityRequest && f.entry.Source == "" {
		terms.Request = f.request
	}
	return terms
}

// checkLease refuses a call of a node that lost its lease, also between the intent and now.
// The context ends when it loses it later.
func (f *flight) checkLease(ctx context.Context) (context.Context, func(), error) {
	leased, ok := f.r.Record.(Leased)
	if !ok {
		return ctx, func() {}, nil
	}
	lost, err := leased.HoldsLease()
	if err == nil && f.run.Interrupted() {
		err = fault.New(fault.StoreFailed, "the run was interrupted: this node could not renew its lease")
	}
	if err != nil {
		return nil, nil, recordError{err}
	}
	if f.run.lost != nil {
		lost = f.run.lost // also if the node has joined anew since
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		select {
		case <-lost:
			cancel(fault.New(fault.Interrupted, "the node lost its lease in the middle of the call: it may or may not have taken effect"))
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel(nil) }, nil
}

// askWithin asks for approval of an action while the call runs.
func (f *flight) askWithin(ctx context.Context, a tool.Action, d policy.Decision) bool {
	ans, err := f.r.Ask.Ask(ctx, Question{
		Run: f.run, Call: f.c, Spec: f.entry.Spec, Digest: f.entry.Digest, Args: f.args, Actions: []tool.Action{a}, Decision: d, Terms: f.run.terms, Within: true,
	})
	return err == nil && ans.Yes
}

// timeout is the time limit of the call. It is longer than the limits of commands and
// requests, which their handles enforce themselves.
func (f *flight) timeout() time.Duration {
	t := DefaultTimeout
	if f.entry.Spec.ID == tool.AuthorityRequest {
		return max(t, f.run.terms.ApprovalTimeout+abandonAfter) // it waits for a person
	}
	if most := f.r.Sources.limitsOf(f.tier()).RunTime; most > 0 {
		return most
	}
	if f.c.Long {
		if t = f.limits.CommandTimeout; t > 0 {
			return t + abandonAfter
		}
		return math.MaxInt64
	}
	if e := f.entry.Spec.Effects; e.Has(tool.SystemExec) {
		t = max(t, f.limits.CommandTimeout+abandonAfter)
	} else if e.Has(tool.NetworkHTTP) {
		t = max(t, f.limits.RequestTimeout+abandonAfter)
	}
	return t
}

// guarded turns a panic of a tool into an error.
func (f *flight) guarded(ctx context.Context) (res tool.Result, err error) {
	defer f.crashed(&err)
	return f.r.Execs.Execute(f.maskProgress(ctx), f.permit, f.c, f.prepared)
}

// ended turns an error into one with a code: that of the context's end, if it ended.
func ended(ctx context.Context, err error) error {
	var coded *fault.Error
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		if errors.As(cause, &coded) {
			return coded
		}
		if !errors.As(err, &coded) || errors.Is(err, context.Canceled) {
			return fault.Wrap(fault.ToolCancelled, err, "the call was cancelled")
		}
	}
	if errors.As(err, &coded) {
		return err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.Wrap(fault.ToolTimeout, err, "the tool's time ran out")
	}
	return fault.Wrap(fault.ToolFailed, err, "the tool failed")
}

// finish encodes the result, records the outcome and returns it.
func (f *flight) finish(ctx context.Context, err error) Outcome {
	o := Outcome{
		Index: f.c.Index, Tool: f.c.Tool, Digest: f.entry.Digest, Args: f.args, Decision: f.decision, Created: f.created,
		Approved: f.answer != nil && f.answer.Yes, Output: f.result.Output, Waits: f.waits, References: f.references,
	}
	if f.flow != nil {
		o.Labels = f.flow.added
	}
	o.ShowsKeys = f.chain.ShowsKeys(f.actions)
	var rec recordError
	if errors.As(err, &rec) {
		o.Fatal = rec.error
	}
	o.Status, o.Err = f.status(err), err
	o.Happened, o.More = f.permit.Happened()
	o.Attempts.Refused, o.Attempts.More = f.permit.Refused()
	f.maskOutcome(&o)
	out, perr := f.encodeOutput(&o)
	if perr != nil {
		o.Status, o.Err, o.Output = tool.Failed, perr, nil
	}
	f.tellEnd(ctx, &o)
	f.mark(ledger.Logging)
	o.Duration = time.Duration(f.marks[3]) * time.Microsecond
	used := f.used()
	o.Violations = f.violations(&o)
	if o.Fatal == nil && !f.handedOver {
		o.Seq, o.Fatal = f.recordOutcome(ctx, o, out, used)
	}
	f.settle(used)
	f.noteProgress(&o, out)
	if err := f.respond(ctx, o.Violations); err != nil && o.Fatal == nil {
		o.Fatal = err
	}
	if !f.handedOver {
		f.run.count(o.Status, o.Attempts.Count())
	}
	f.notify(ledger.Ended, &o)
	return o
}

// maxOutput is the largest output as JSON, in bytes. It is the last resort: tools cut
// their output at the policy's limits, which are far below.
const maxOutput = 128 << 20

func (f *flight) encodeOutput(o *Outcome) (out []byte, err error) {
	defer f.crashed(&err)
	if o.Output == nil {
		return nil, nil
	}
	if out, err = canon.Marshal(o.Output); err == nil {
		out, err = f.maskOutput(o, out)
	}
	if err != nil {
		return nil, fault.Wrap(fault.OutputInvalid, err, "%s returned an output that is not valid JSON", f.c.Tool)
	}
	if o.Size = len(out); o.Size > maxOutput {
		return nil, fault.New(fault.OutputInvalid, "%s returned %d bytes; the limit is %d", f.c.Tool, o.Size, maxOutput)
	}
	return out, nil
}

// status is the status of a call that ended with err.
func (f *flight) status(err error) tool.Status {
	if f.skipped {
		return tool.Skipped
	}
	if f.handedOver {
		return tool.Pending
	}
	if err == nil {
		return tool.Completed
	}
	switch code := fault.CodeOf(err); code {
	case fault.Denied, fault.NeedsApproval, fault.HandleRefused, fault.PlanOnly, fault.NotInPlan, fault.ToolDisabled, fault.ToolChanged,
		fault.NotDelegable, fault.HookRefused, fault.FlowRefused:
		return tool.StatusDenied
	case fault.LimitReached, fault.BudgetSpent:
		if errors.Is(err, fault.ToolTimeout) {
			return tool.TimedOut // the run's time ended
		}
		return tool.StatusDenied
	case fault.ToolTimeout:
		return tool.TimedOut
	case fault.ToolCancelled:
		return tool.Cancelled
	case fault.Interrupted:
		return tool.StatusInterrupted
	default:
		if code.OfGrant() && f.permit.Minted() {
			return tool.Cancelled // it was running when its grant ended
		} else if code.OfGrant() {
			return tool.StatusDenied
		}
	}
	return tool.Failed
}

// maxName is the longest caller-chosen name, in bytes, in the part of the record that
// cannot be erased.
const maxName = 200
