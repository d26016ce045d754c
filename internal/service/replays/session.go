package replays

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// SessionResult is the result of replaying a session.
type SessionResult struct {
	Session  uuid.UUID
	Runs     []Result // one for each of its runs, up to the first that differs
	Messages int      // messages that are the same to the byte
	// Difference is the first message that differs; nil: none does.
	Difference *agent.Difference
}

// Mismatch is the first call that differs, nil if there is none.
func (r SessionResult) Mismatch() *replay.Mismatch {
	for _, run := range r.Runs {
		if run.Mismatch != nil {
			return run.Mismatch
		}
	}
	return nil
}

// SessionSummary is what the replay of a session found, for programs.
type SessionSummary struct {
	Session    uuid.UUID         `json:"session_id"`
	OK         bool              `json:"ok" doc:"All calls and messages are identical"`
	Runs       int               `json:"runs" doc:"The session's runs that were carried out again, each as a run of its own"`
	Calls      int               `json:"calls"`
	Messages   int               `json:"messages" doc:"Messages that are the same to the byte"`
	Mismatch   *replay.Mismatch  `json:"mismatch,omitempty" doc:"The first call that differs"`
	Difference *agent.Difference `json:"difference,omitempty" doc:"The first message that differs"`
}

// Summary counts the replayed runs.
func (r SessionResult) Summary() SessionSummary {
	out := SessionSummary{Session: r.Session, Runs: len(r.Runs), Messages: r.Messages, Mismatch: r.Mismatch(), Difference: r.Difference}
	for _, run := range r.Runs {
		out.Calls += run.Calls
	}
	out.OK = out.Mismatch == nil && out.Difference == nil
	return out
}

// SessionRuns gives a session's runs, oldest first. An unknown session is
// fault.SessionUnknown.
func (s *Replays) SessionRuns(ctx context.Context, id string) (uuid.UUID, []ledger.Run, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return uuid.Nil, nil, err
	}
	record, err := st.Session(ctx, id)
	if err != nil {
		return uuid.Nil, nil, err
	}
	runs, err := st.SessionRuns(ctx, record.ID)
	return record.ID, runs, err
}

// Session carries the loop of each of a session's runs out again from its record. No model,
// tool or network is used, and every message must be the same to the byte. caps are the
// capabilities that a program's agents had; nil: those of today.
func (s *Replays) Session(ctx context.Context, id string, caps *capability.Registry) (SessionResult, error) {
	session, runs, err := s.SessionRuns(ctx, id)
	out := SessionResult{Session: session}
	if err != nil {
		return out, err
	}
	for _, run := range runs {
		if run.Status == ledger.Running {
			return out, fault.New(fault.ReplayMismatch, "run %s of the session has not ended", run.ID).WithHint("end the process that works on it")
		}
		res, made, err := s.replayOne(ctx, run, runs, caps)
		out.Messages += made
		if out.Runs = append(out.Runs, res); errors.As(err, &out.Difference) {
			err = nil // it is in the result
		}
		if err != nil || out.Difference != nil || res.Mismatch != nil {
			return out, err
		}
	}
	return out, nil
}

// replayOne carries out one run of a session again, as a run of its own.
func (s *Replays) replayOne(ctx context.Context, run ledger.Run, runs []ledger.Run, caps *capability.Registry) (Result, int, error) {
	res := Result{Of: run.ID}
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return res, 0, err
	}
	rec, err := replay.Open(ctx, st, run)
	if err != nil {
		return res, 0, err
	}
	r, tools, err := s.Agents.Rehearse(ctx, rec, caps)
	if err != nil {
		return res, 0, err
	}
	g, err := rec.Grant()
	if err != nil {
		return res, 0, err
	}
	if res.ID, err = home.NewID(); err != nil {
		return res, 0, err
	}
	rn := &runner.Runner{Catalog: tools, Record: st, Facts: rec, Execs: rec, Ask: rec}
	in := runner.Info{
		ID: res.ID, Name: run.Name, Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Policies: rec.Policies, Inputs: rec.Inputs,
		ReplayOf: run.ID, Recall: rec, Outputs: r.Outputs(),
	}
	if err := recalled(ctx, rec, &in); err != nil {
		return res, 0, err
	}
	again, ctx, err := rn.Start(ctx, in)
	if err != nil {
		return res, 0, err
	}
	c := &replayedRun{runner: rn, run: again, tools: tools, rec: rec, check: rec.Checker(func() {})}
	m, err := rec.CheckLabels(ctx)
	if err != nil {
		return res, 0, errors.Join(err, rn.Finish(ctx, again, tool.Failed))
	}
	if m != nil {
		c.check.Differs(*m)
	}
	made, err := r.Carry(ctx, c, runs, run)
	res.Status, _ = tool.ParseStatus(run.Status)
	if ferr := rn.Finish(ctx, again, res.Status); err == nil {
		err = ferr
	}
	res.Counts, res.Mismatch = again.Counts(), c.check.First()
	res.Calls = res.Counts.Total
	if res.Mismatch != nil && !errors.Is(err, fault.StoreFailed) {
		err = nil // the mismatch is the cause
	}
	return res, made, err
}

// replayedRun answers calls from the record, and compares them with it.
type replayedRun struct {
	runner *runner.Runner
	run    *runner.Run
	tools  runner.Catalog
	rec    *replay.Recording
	check  *replay.Checker
}

// Lookup finds a tool that the session had.
func (r *replayedRun) Lookup(id tool.ID) (runner.Entry, error) { return r.tools.Lookup(id) }

// Chain gives the policies of the run's grant.
func (r *replayedRun) Chain() policy.Chain { return r.run.Grant.Chain() }

// Call makes a call again.
func (r *replayedRun) Call(ctx context.Context, c runner.Call) (runner.Outcome, error) {
	args, err := runs.Plain(c.Args)
	if c.Args = args; err != nil {
		return r.Refuse(ctx, c, err)
	}
	return r.compareCall(ctx, c, r.runner.Execute(ctx, r.run, c))
}

// Refuse records again that a call could not be made.
func (r *replayedRun) Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error) {
	c.Args = nil
	return r.compareCall(ctx, c, r.runner.Refuse(ctx, r.run, c, why))
}

// compareCall compares a call with its record. A call without a record had not begun when the
// recorded run was cut off.
func (r *replayedRun) compareCall(ctx context.Context, c runner.Call, o runner.Outcome) (runner.Outcome, error) {
	if o.Fatal != nil {
		return o, o.Fatal
	}
	if _, known := r.rec.Call(c.Index); !known {
		return o, nil
	}
	return o, r.check.After(ctx, c, o)
}
