// Package replay repeats a recorded run without touching the world. The plan is carried out
// again: the arguments of every call are computed and every decision is made anew. Only
// results, facts and approvals come from the record. A difference is a mismatch, and the
// first one is reported. Start at [Open] and [Recording.Compare].
package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Recording is a run's record, ready to answer in place of the world. It is
// the runner's Facts, Executor, Asker and Recall for the replay. Outputs are
// loaded when they are needed, not held.
type Recording struct {
	Run      ledger.Run
	Bound    policy.Env // the environment of the policies
	Policies []ledger.PolicySource
	Inputs   map[string]any
	Plan     []byte // nil if the run had no plan

	src   store.Store
	calls map[int]ledger.Call
	order []int

	judged  *judgedContexts // of the chain that was asked about last
	said    []Word          // in the run's session
	others  []Other         // the other runs of its context
	tracing sync.Mutex
	traced  *trace // under tracing: the values of the context up to the call that was replayed last

	erased int  // the first call that was erased; 0: none
	ran    int  // how many calls were not skipped
	cutOff bool // the run was cancelled or interrupted from outside
}

// Open reads the record of a run. A record that was altered is a ReplayMismatch that names the
// first damage.
func Open(ctx context.Context, src store.Store, run ledger.Run) (*Recording, error) {
	rep, err := src.Verify(ctx, store.VerifyOptions{Run: run.ID})
	if err != nil {
		return nil, err
	}
	if len(rep.Problems) > 0 {
		p := rep.Problems[0]
		return nil, fault.New(fault.ReplayMismatch, "the record was altered: %s %s: %s", p.Table, p.Key, p.Message).
			ForOperator("remit verify lists every damaged record")
	}
	r, err := read(ctx, src, run)
	if err == nil && r.erased > 0 {
		return nil, fault.New(fault.ReplayMismatch, "call %d was erased, so the run cannot be replayed", r.erased)
	}
	return r, err
}

// read reads the record of a run.
func read(ctx context.Context, src store.Store, run ledger.Run) (*Recording, error) {
	r := &Recording{Run: run, src: src, calls: map[int]ledger.Call{}}
	for part, into := range map[string]any{
		ledger.PartEnv: &r.Bound, ledger.PartPolicy: &r.Policies, ledger.PartInputs: &r.Inputs,
	} {
		if err := r.json(ctx, run.Parts, part, into); err != nil {
			return nil, err
		}
	}
	if p, ok := run.Parts[ledger.PartPlan]; ok {
		var err error
		if r.Plan, err = src.Load(ctx, p); err != nil {
			return nil, err
		}
	}
	for c, err := range src.Calls(ctx, run.Seq) {
		if err != nil {
			return nil, err
		}
		if c.Erased {
			r.erased = cmp.Or(r.erased, c.Index)
		}
		r.calls[c.Index] = c
		r.order = append(r.order, c.Index)
		if c.Status != tool.Skipped {
			r.ran++
		} else if err := r.noteCut(ctx, c); err != nil {
			return nil, err
		}
	}
	r.cutOff = r.cutOff || run.Status == tool.StatusInterrupted.String()
	slices.Sort(r.order)
	return r, nil
}

// noteCut notes whether a step was skipped because the run was cancelled.
func (r *Recording) noteCut(ctx context.Context, c ledger.Call) error {
	why, err := r.part(ctx, c, ledger.PartError)
	r.cutOff = r.cutOff || string(why) == schedule.ReasonCancelled || string(why) == schedule.ReasonTime
	return err
}

// json decodes a part if it is there, numbers as they were written.
func (r *Recording) json(ctx context.Context, parts map[string]ledger.Part, name string, into any) error {
	p, ok := parts[name]
	if !ok {
		return nil
	}
	b, err := r.src.Load(ctx, p)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return fault.Wrap(fault.ReplayMismatch, err, "the recorded %s cannot be read", name)
	}
	return nil
}

// Calls returns the indexes of the recorded calls in order.
func (r *Recording) Calls() []int { return r.order }

// Call is the recorded call at a place.
func (r *Recording) Call(index int) (ledger.Call, bool) {
	c, ok := r.calls[index]
	return c, ok
}

// Args are the recorded arguments of a call.
func (r *Recording) Args(ctx context.Context, c ledger.Call) (tool.Args, error) {
	args := map[string]any{}
	if err := r.json(ctx, c.Parts, ledger.PartArgs, &args); err != nil {
		return nil, err
	}
	return args, nil
}

// Actions are the actions of a recorded call with the facts that its decision
// was made on.
func (r *Recording) Actions(ctx context.Context, c ledger.Call) ([]tool.Action, bool, error) {
	p, ok := c.Parts[ledger.PartFacts]
	if !ok {
		return nil, false, nil
	}
	b, err := r.src.Load(ctx, p)
	if err != nil {
		return nil, false, err
	}
	var facts ledger.Facts
	if err := json.Unmarshal(b, &facts); err != nil {
		return nil, false, fault.Wrap(fault.ReplayMismatch, err, "the recorded facts of call %d cannot be read", c.Index)
	}
	return facts.Actions, true, nil
}

// beforeIntent reports whether a call ended while its facts were looked up.
func beforeIntent(c ledger.Call) bool {
	return c.Status != tool.StatusDenied && c.Status != tool.Completed && c.Status != tool.Skipped &&
		len(c.Timeline) > 1 && c.Timeline[1] < 0 && !ofStore(c) // that was later, at a gate
}

// ofStore reports whether a call was refused because the ledger could not tell whether its grant
// may be used, or how much of its budgets remained.
func ofStore(c ledger.Call) bool {
	return c.Code/1000 == fault.StoreFailed/1000 && len(c.Timeline) > 1 && c.Timeline[1] < 0
}

// Fill answers with the recorded facts.
func (r *Recording) Fill(ctx context.Context, _ tool.Env, _ policy.Limits, c runner.Call, actions []tool.Action) error {
	rec, ok := r.calls[c.Index]
	if !ok {
		return fault.New(fault.ReplayMismatch, "call %d is not in the record", c.Index)
	}
	if beforeIntent(rec) {
		return r.failure(ctx, rec)
	}
	facts, ok, err := r.Actions(ctx, rec)
	if err != nil {
		return err
	}
	if !ok { // facts added nothing
		for i := range actions {
			actions[i].Real = actions[i].Path
		}
		return nil
	}
	if len(facts) != len(actions) {
		return fault.New(fault.ReplayMismatch, "call %d needs %d actions, the record has %d", c.Index, len(actions), len(facts))
	}
	for i := range actions {
		a, f := &actions[i], facts[i]
		if a.String() != f.String() {
			return fault.New(fault.ReplayMismatch, "call %d needs %s, the record has %s", c.Index, a, f)
		}
		a.Real, a.Lead, a.Addrs, a.Exe, a.Names, a.Contents, a.Uses = f.Real, f.Lead, f.Addrs, f.Exe, f.Names, f.Contents, f.Uses
		a.Labels, a.Below = f.Labels, f.Below
	}
	return nil
}

// Contents does nothing: Fill has given the recorded contents.
func (r *Recording) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

// Execute answers with the recorded result.
func (r *Recording) Execute(ctx context.Context, p permit.Permit, c runner.Call, _ permit.Prepared) (tool.Result, error) {
	rec, ok := r.calls[c.Index]
	if !ok {
		return tool.Result{}, fault.New(fault.ReplayMismatch, "call %d is not in the record", c.Index)
	}
	if err := r.refuse(ctx, p, rec); err != nil {
		return tool.Result{}, err
	}
	out, err := r.Output(ctx, rec)
	if err != nil {
		return tool.Result{}, err
	}
	if rec.Status == tool.Completed {
		return tool.Result{Output: out}, nil
	}
	return tool.Result{Output: out}, r.failure(ctx, rec)
}

// refuse records again the attempts that the call was refused while it ran.
func (r *Recording) refuse(ctx context.Context, p permit.Permit, c ledger.Call) error {
	var was ledger.Attempts
	if err := r.json(ctx, c.Parts, ledger.PartAttempts, &was); err != nil {
		return err
	}
	for _, one := range was.Refused {
		p.Refuse(one)
	}
	p.RefuseMore(was.More)
	return nil
}

// Output is the recorded output of a call, nil if it had none.
func (r *Recording) Output(ctx context.Context, c ledger.Call) (map[string]any, error) {
	p, ok := c.Parts[ledger.PartOutput]
	if !ok {
		return nil, nil
	}
	b, err := r.src.Load(ctx, p)
	if err != nil {
		return nil, err
	}
	v, err := canon.Decode(b)
	if err != nil {
		return nil, fault.Wrap(fault.ReplayMismatch, err, "the recorded output of call %d cannot be read", c.Index)
	}
	out, ok := v.(map[string]any)
	if !ok {
		return nil, fault.New(fault.ReplayMismatch, "the recorded output of call %d is not an object", c.Index)
	}
	return out, nil
}

// failure is the recorded error of a call.
func (r *Recording) failure(ctx context.Context, c ledger.Call) error {
	code := c.Code
	if code == 0 {
		code = fault.Interrupted
	}
	msg, err := r.errorText(ctx, c)
	if err != nil {
		return err
	}
	e := &fault.Error{Code: code, Msg: msg}
	hint, err := r.part(ctx, c, ledger.PartHint)
	if err != nil {
		return err
	}
	if hint != nil {
		e = e.ForOperator("%s", hint)
	}
	if c.Status == tool.TimedOut {
		e.Err = fault.ToolTimeout // it was the run's time that ended
	}
	return e
}

// errorText is the recorded message of a call's error, "" if it had none. Of
// one that was cut off nobody was left to write a message.
func (r *Recording) errorText(ctx context.Context, c ledger.Call) (string, error) {
	msg, err := r.part(ctx, c, ledger.PartError)
	if msg == nil && (c.Status == tool.Pending || c.Status == tool.StatusInterrupted) {
		return fmt.Sprintf("call %d did not end", c.Index), err
	}
	return string(msg), err
}

// askedByClient reports whether a call that needed approval was left to a client that asks
// its own user. The record has no answer then.
func askedByClient(c ledger.Call) bool {
	return c.Client != "" && c.Effect == policy.Ask && !c.Approved
}

// Ask returns the recorded answer.
func (r *Recording) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) {
	var a runner.Answer
	rec, ok := r.calls[q.Call.Index]
	if ok && askedByClient(rec) {
		return runner.Answer{Yes: true}, nil
	}
	if !ok || rec.Parts[ledger.PartAnswer].Size() == 0 {
		if ok && rec.Code != 0 && rec.Intent == 0 { // nobody answered, then as now
			return a, r.failure(ctx, rec)
		}
		return a, fault.New(fault.NeedsApproval, "the record contains no answer")
	}
	return a, r.json(ctx, rec.Parts, ledger.PartAnswer, &a)
}

// Recall repeats the refusals of gates in the record: whether a grant was revoked by then, and
// which of several calls side by side took the last place of a budget, are facts of a run.
func (r *Recording) Recall(ctx context.Context, c runner.Call, at runner.Gate) error {
	rec, ok := r.calls[c.Index]
	if !ok || !refusedAt(rec, at) {
		return nil
	}
	return r.failure(ctx, rec)
}

// Flow returns the labels with which a call was decided. The order of calls side by side is a fact;
// [Recording.CheckLabels] checks it.
func (r *Recording) Flow(ctx context.Context, c runner.Call) (ledger.CallFlow, error) {
	rec, ok := r.calls[c.Index]
	if !ok {
		return ledger.CallFlow{}, nil // a mismatch of its own
	}
	return r.flow(ctx, rec)
}

// Released returns which held call a recorded call carried out; nil: none.
func (r *Recording) Released(ctx context.Context, c runner.Call) (*ledger.HeldCall, error) {
	rec, ok := r.calls[c.Index]
	if !ok {
		return nil, nil //nolint:nilnil // a missing record is a mismatch of its own
	}
	var h ledger.HeldCall
	if err := r.json(ctx, rec.Parts, ledger.PartHeld, &h); err != nil || h.Run == "" {
		return nil, err
	}
	return &h, nil
}

// Bounds returns the recorded bounds of a call.
func (r *Recording) Bounds(ctx context.Context, c runner.Call) (runner.Bounds, error) {
	rec, ok := r.calls[c.Index]
	if !ok {
		return runner.Bounds{}, nil // a missing record is a mismatch of its own
	}
	return r.boundsOf(ctx, rec)
}

func (r *Recording) boundsOf(ctx context.Context, c ledger.Call) (runner.Bounds, error) {
	var b ledger.CallBounds
	if err := r.json(ctx, c.Parts, ledger.PartBounds, &b); err != nil {
		return runner.Bounds{}, err
	}
	out := runner.Bounds{Own: b.Own, Programs: b.Programs}
	for _, src := range b.Policies {
		p, err := policy.Parse(src.File, []byte(src.Source))
		if err != nil {
			return out, fault.Wrap(fault.ReplayMismatch, err, "the recorded bounds of call %d cannot be read", c.Index)
		}
		out.Policies = append(out.Policies, p)
	}
	return out, nil
}

// bounded is a chain with what else bounded a recorded call.
func (r *Recording) bounded(ctx context.Context, chain policy.Chain, c ledger.Call) (policy.Chain, error) {
	b, err := r.boundsOf(ctx, c)
	if err != nil {
		return nil, err
	}
	return b.Narrow(chain, r.Bound)
}

// refusedAt reports whether a gate refused the call.
func refusedAt(c ledger.Call, at runner.Gate) bool {
	if c.Status != tool.StatusDenied && c.Status != tool.Failed {
		return false
	}
	started := len(c.Timeline) > 1 && c.Timeline[1] >= 0
	asked := c.Parts[ledger.PartAnswer].Size() > 0
	ofTool := c.Code == fault.ToolDisabled || c.Code == fault.ToolChanged
	ofGrant := c.Code >= fault.GrantInvalid && c.Code <= fault.GrantVersion
	switch at {
	case runner.GrantGate:
		return c.Rule == "grant"
	case runner.PlanGate:
		return c.Code == fault.NotInPlan
	case runner.ModeGate:
		return c.Code == fault.PlanOnly
	case runner.ToolGate:
		return c.Rule == "tool" && ofTool
	case runner.BudgetGate:
		return !started && (!asked && c.Code == fault.LimitReached || c.Code == fault.BudgetSpent) || ofStore(c) && !asked
	case runner.SlotGate:
		return !started && asked && c.Code == fault.LimitReached
	case runner.HoldGate:
		return c.Rule == "hold"
	case runner.HookGate:
		return c.Code == fault.HookRefused
	case runner.RecheckGate:
		return c.Rule != "grant" && ofGrant || c.Rule != "tool" && ofTool || ofStore(c) && asked
	}
	return false
}

// fit is how a call stood to the frozen plan of the recorded run.
func (r *Recording) fit(c ledger.Call) policy.PlanFit {
	if _, bound := r.Run.Parts[ledger.PartFrozen]; !bound {
		return policy.NoPlan
	}
	if c.Code == fault.NotInPlan || strings.HasPrefix(c.Rule, "frozen_plan.otherwise") {
		return policy.OutOfPlan
	}
	return policy.InPlan
}

// Planning reports whether the recorded run was to plan only.
func (r *Recording) Planning(ctx context.Context) (bool, error) {
	b, err := r.runPart(ctx, ledger.PartPhase)
	return string(b) == runner.Planning.String(), err
}

// Frozen is the plan that the recorded run was bound to, nil for none.
func (r *Recording) Frozen(ctx context.Context) (*frozen.Plan, error) {
	b, err := r.runPart(ctx, ledger.PartFrozen)
	if b == nil || err != nil {
		return nil, err
	}
	return frozen.Parse("(recorded frozen plan)", b)
}

func (r *Recording) runPart(ctx context.Context, name string) ([]byte, error) {
	p, ok := r.Run.Parts[name]
	if !ok {
		return nil, nil
	}
	return r.src.Load(ctx, p)
}
