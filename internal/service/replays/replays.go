// Package replays carries recorded runs and sessions out again from their record, without models,
// tools or network, and decides recorded calls anew under another policy. Start at [Replays.Run]
// and [Replays.Session].
package replays

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/agents"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/servers"
)

// Replays replays the runs and sessions recorded in one ledger. Its fields are set before it is
// used.
type Replays struct {
	Home    *home.Home
	Catalog *catalog.Catalog
	Agents  *agents.Agents
	// Reader opens the ledger to look at, also one that cannot be written.
	Reader func(context.Context) (store.Backend, error)
}

// Result is the result of a replay.
type Result struct {
	ID       uuid.UUID // the replay's own run; zero if it could not begin
	Of       uuid.UUID // the recorded run
	Status   tool.Status
	Calls    int
	Counts   runner.Counts
	Mismatch *replay.Mismatch // the first difference, nil if there is none
}

// Run carries out a recorded run again from its record. with, if not nil, is a plan that is
// checked against the record in place of the recorded plan.
func (s *Replays) Run(ctx context.Context, id string, with *plan.Plan) (Result, error) {
	var res Result
	st, err := s.Home.Ledger(ctx)
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
	tools, err := s.ToolsOf(ctx, rec)
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
		Plan: rec.Plan, Policies: rec.Policies, Inputs: rec.Inputs, Total: run.Total, ReplayOf: run.ID, Recall: rec, Foreign: run.Client != "",
	}
	if err := recalled(ctx, rec, &info); err != nil {
		return res, err
	}
	started, ctx, err := rn.Start(ctx, info)
	if err != nil {
		return res, err
	}
	var cause error // why the recorded run ended before its plan
	if run.Status == tool.TimedOut.String() {
		cause = fault.LimitReached
	}
	res.Status, res.Mismatch, err = s.replayCalls(ctx, st, rn, started, rec, with, cause)
	if ferr := rn.Finish(ctx, started, res.Status); err == nil {
		err = ferr
	}
	res.Counts = started.Counts()
	res.Calls = res.Counts.Total
	return res, err
}

// replayCalls carries out the run's plan again, or the recorded calls of a run without a plan.
func (s *Replays) replayCalls(
	ctx context.Context, st store.Store, rn *runner.Runner, run *runner.Run, rec *replay.Recording, with *plan.Plan, cause error,
) (tool.Status, *replay.Mismatch, error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	check := rec.Checker(func() { end(cause) })
	if m, err := rec.CheckLabels(ctx); err != nil {
		return tool.Failed, m, err
	} else if m != nil {
		check.Differs(*m)
	}
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

// recalled adds the bounds that the recorded run had besides its policies.
func recalled(ctx context.Context, rec *replay.Recording, in *runner.Info) error {
	planning, err := rec.Planning(ctx)
	if err != nil {
		return err
	}
	if planning {
		in.Phase = runner.Planning
	}
	in.Context = &runner.Context{}
	in.Context.Add(rec.Run.Labels)
	in.Frozen, err = rec.Frozen(ctx)
	return err
}

// ToolsOf gives the tools that a recorded run could call. No source of tools is started.
func (s *Replays) ToolsOf(ctx context.Context, rec *replay.Recording) (runner.Catalog, error) {
	if c, ok := rec.Call(1); ok && c.Tool == runs.ExecID {
		return runs.RecordedTools()
	} else if ok && servers.IsMCPRun(c.Tool) {
		return servers.RecordedTools()
	} else if ok && apis.IsLoginRun(c.Tool) {
		return apis.RecordedTools()
	}
	if rec.Run.Session != uuid.Nil {
		_, tools, err := s.Agents.Rehearse(ctx, rec, nil)
		return tools, err
	}
	return s.Catalog.Still(), nil
}
