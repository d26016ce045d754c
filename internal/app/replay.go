package app

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// ReplayResult is how a replay went.
type ReplayResult struct {
	ID       uuid.UUID // the replay's own run; zero if it could not begin
	Of       uuid.UUID
	Status   tool.Status
	Calls    int
	Counts   runner.Counts
	Mismatch *replay.Mismatch // the first difference, nil if there is none
}

// Replay runs a recorded run again from its record. With a plan it checks that
// plan against the record instead of the recorded one.
func (a *App) Replay(ctx context.Context, id string, with *plan.Plan) (ReplayResult, error) {
	var res ReplayResult
	st, err := a.Store(ctx)
	if err != nil {
		return res, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return res, err
	}
	res.Of = run.ID
	if run.Status == "running" {
		return res, fault.New(fault.ReplayMismatch, "run %s has not ended", run.ID)
	}
	rec, err := replay.Open(ctx, st, run)
	if err != nil {
		return res, err
	}
	tools, err := a.toolsOf(rec)
	if err != nil {
		return res, err
	}
	g, err := rec.Grant()
	if err != nil {
		return res, err
	}
	if res.ID, err = home.NewID(); err != nil {
		return res, err
	}
	rn := &runner.Runner{Catalog: tools, Record: st, Facts: rec, Execs: rec, Ask: rec}
	info := runner.Info{
		ID: res.ID, Name: run.Name, Mode: ledger.Replay, Grant: g, Bound: rec.Bound,
		Plan: rec.Plan, Policies: rec.Policies, Inputs: rec.Inputs, Total: run.Total, ReplayOf: run.ID, Recall: rec,
	}
	if err := recalled(ctx, rec, &info); err != nil {
		return res, err
	}
	started, ctx, err := rn.Start(ctx, info)
	if err != nil {
		return res, err
	}
	var cause error // of a run that ended before its plan did
	if run.Status == tool.TimedOut.String() {
		cause = fault.LimitReached
	}
	res.Status, res.Mismatch, err = a.replayCalls(ctx, st, rn, started, rec, with, cause)
	if ferr := rn.Finish(ctx, started, res.Status); err == nil {
		err = ferr
	}
	res.Counts = started.Counts()
	res.Calls = res.Counts.Total
	return res, err
}

// replayCalls carries the run out again: its plan, or where it had none, the
// calls that were made.
func (a *App) replayCalls(
	ctx context.Context, st store.Store, rn *runner.Runner, run *runner.Run, rec *replay.Recording, with *plan.Plan, cause error,
) (tool.Status, *replay.Mismatch, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	check := rec.Checker(func() { end(cause) })
	if rec.Plan == nil {
		status, err := rec.Again(ctx, rn, run, check)
		return status, check.First(), err
	}
	p, err := plan.Parse("(recorded plan)", rec.Plan)
	if err != nil {
		return tool.Failed, nil, err
	}
	if with != nil {
		if was, is := p.Digest(), with.Digest(); was != is {
			check.Differs(replay.Mismatch{What: "plan", Was: was.String(), Is: is.String()})
		}
		p = with
	}
	through := &schedule.Through{Runner: rn, Run: run, After: check.After, Load: func(ctx context.Context, at ledger.Seq) (map[string]any, error) {
		return runs.LoadOutput(ctx, st, at)
	}}
	sum, err := schedule.Run(ctx, p, rec.Inputs, through, schedule.Options{Ran: rec.Ran})
	if err != nil {
		return sum.Status, check.First(), err
	}
	check.Ended(sum.Status, run.Counts().Total)
	return sum.Status, check.First(), nil
}

// Rejudged is a recorded call whose decision another policy would change.
type Rejudged struct {
	Index int     `json:"index"`
	Step  string  `json:"id,omitempty"`
	Tool  tool.ID `json:"tool"`
	On    string  `json:"on"` // the deciding action
	Was   string  `json:"was"`
	Is    string  `json:"is"`
	Rule  string  `json:"rule"`
	Why   string  `json:"reason"`
}

// Rejudge decides a recorded run's calls anew under another policy and gives
// those whose decision would change, and how many calls were judged.
func (a *App) Rejudge(ctx context.Context, id string, p *policy.Policy) ([]Rejudged, int, error) {
	st, err := a.Reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	run, err := st.Run(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	rec, err := replay.Open(ctx, st, run)
	if err != nil {
		return nil, 0, err
	}
	tools, err := a.toolsOf(rec)
	if err != nil {
		return nil, 0, err
	}
	g, err := grant.Root(run.ID, run.Principal, rec.Bound, p)
	if err != nil {
		return nil, 0, err
	}
	out, judged := []Rejudged{}, 0
	for _, i := range rec.Calls() {
		c, _ := rec.Call(i)
		if c.Status == tool.Skipped {
			continue
		}
		judged++
		d, on, err := rec.Judge(ctx, tools, g.Chain(), c)
		if err != nil {
			return nil, 0, fmt.Errorf("call %d: %w", i, err)
		}
		if d.Effect != c.Effect {
			out = append(out, Rejudged{i, c.Step, c.Tool, on, c.Effect.String(), d.Effect.String(), d.Rule.String(), d.Reason})
		}
	}
	return out, judged, nil
}
