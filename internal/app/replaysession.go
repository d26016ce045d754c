package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/custom"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/model"
)

// SessionReplay is how the replay of a whole session went.
type SessionReplay struct {
	Session  uuid.UUID
	Runs     []ReplayResult // one for each of its runs, up to the first that differs
	Messages int            // that came out to the byte
	// Difference is the first message that did not; nil: there is none.
	Difference *agent.Difference
}

// Mismatch is the first call that differs, nil if there is none.
func (r SessionReplay) Mismatch() *replay.Mismatch {
	for _, run := range r.Runs {
		if run.Mismatch != nil {
			return run.Mismatch
		}
	}
	return nil
}

// SessionRuns gives a session's runs, oldest first; fault.SessionUnknown.
func (a *App) SessionRuns(ctx context.Context, id string) (uuid.UUID, []ledger.Run, error) {
	st, err := a.sessions(ctx)
	if err != nil {
		return uuid.Nil, nil, err
	}
	s, err := st.Session(ctx, id)
	if err != nil {
		return uuid.Nil, nil, err
	}
	runs, err := st.SessionRuns(ctx, s.ID)
	return s.ID, runs, err
}

// sessions is the ledger, as it keeps sessions.
func (a *App) sessions(ctx context.Context) (store.Backend, error) {
	_, st, err := a.Grants.Open(ctx)
	return st, err
}

// ReplaySession carries the loop of each of a session's runs out again from its
// record: no model, no tool and no network is used, and every message must come out
// to the byte. caps are the capabilities that a program's agents had besides those
// of Capabilities; nil: none.
func (a *App) ReplaySession(ctx context.Context, id string, caps ...*capability.Registry) (SessionReplay, error) {
	session, runs, err := a.SessionRuns(ctx, id)
	out := SessionReplay{Session: session}
	if err != nil {
		return out, err
	}
	for _, run := range runs {
		if run.Status == ledger.Running {
			return out, fault.New(fault.ReplayMismatch, "run %s of the session has not ended", run.ID).WithHint("end the process that works on it")
		}
		res, made, err := a.replayOne(ctx, run, runs, caps)
		out.Messages += made
		if out.Runs = append(out.Runs, res); errors.As(err, &out.Difference) {
			err = nil // it is told
		}
		if err != nil || out.Difference != nil || res.Mismatch != nil {
			return out, err
		}
	}
	return out, nil
}

// replayOne carries one run of a session out again, as a run of its own.
func (a *App) replayOne(ctx context.Context, run ledger.Run, runs []ledger.Run, caps []*capability.Registry) (ReplayResult, int, error) {
	res := ReplayResult{Of: run.ID}
	st, err := a.sessions(ctx)
	if err != nil {
		return res, 0, err
	}
	rec, err := replay.Open(ctx, st, run)
	if err != nil {
		return res, 0, err
	}
	r, tools, err := a.rehearse(rec, caps...)
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
	again, ctx, err := rn.Start(ctx, runner.Info{
		ID: res.ID, Name: run.Name, Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Policies: rec.Policies, Inputs: rec.Inputs,
		ReplayOf: run.ID, Recall: rec,
	})
	if err != nil {
		return res, 0, err
	}
	c := &replayedRun{runner: rn, run: again, tools: tools, rec: rec, check: rec.Checker(func() {})}
	made, err := r.Carry(ctx, c, runs, run)
	res.Status, _ = tool.ParseStatus(run.Status)
	if ferr := rn.Finish(ctx, again, res.Status); err == nil {
		err = ferr
	}
	res.Counts, res.Mismatch = again.Counts(), c.check.First()
	res.Calls = res.Counts.Total
	if res.Mismatch != nil && !errors.Is(err, fault.StoreFailed) {
		err = nil // what follows from it is no news
	}
	return res, made, err
}

// rehearse prepares a recorded run of a session, and the tools that it had.
func (a *App) rehearse(rec *replay.Recording, caps ...*capability.Registry) (*agent.Rehearsal, runner.Catalog, error) {
	in, ok := agent.ReadInputs(rec.Inputs)
	if !ok {
		return nil, nil, fault.New(fault.ReplayMismatch, "the record of run %s does not say which agent it was of", rec.Run.ID)
	}
	q := AgentsRequest{Workspace: rec.Bound.Workspace, still: true}
	if len(caps) > 0 {
		q.Capabilities = caps[0]
	}
	var err error
	if q.Capabilities, err = a.capabilitiesThen(q.Capabilities, in.Sources); err != nil {
		return nil, nil, err
	}
	s, err := a.agents(q)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.Rehearse(in)
	if err != nil {
		return nil, nil, err
	}
	tools, err := overlay(r.Tools(), a.catalog.Still())
	return r, tools, err
}

// capabilitiesThen are the capabilities that a recorded run had: those that are files
// as they were then, whatever the files hold now. reg may be nil.
func (a *App) capabilitiesThen(reg *capability.Registry, sources map[string]string) (*capability.Registry, error) {
	if len(sources) == 0 {
		return reg, nil
	}
	if reg == nil {
		var err error
		if reg, err = a.Capabilities(); err != nil {
			return nil, err
		}
	}
	var then []capability.Capability
	for _, id := range slices.Sorted(maps.Keys(sources)) {
		c, err := custom.Parse("(record) "+id+".yaml", []byte(sources[id]))
		if err != nil {
			return nil, err
		}
		then = append(then, c)
	}
	return reg.With(func() ([]capability.Capability, []capability.Broken) { return then, nil }), nil
}

// replayedRun makes calls whose answers come from the record, and compares them.
type replayedRun struct {
	runner *runner.Runner
	run    *runner.Run
	tools  runner.Catalog
	rec    *replay.Recording
	check  *replay.Checker
}

// Lookup finds a tool that the session had.
func (r *replayedRun) Lookup(id tool.ID) (runner.Entry, error) { return r.tools.Lookup(id) }

// Chain is what the run's grant allowed.
func (r *replayedRun) Chain() policy.Chain { return r.run.Grant.Chain() }

// Call makes a call once more.
func (r *replayedRun) Call(ctx context.Context, c runner.Call) (runner.Outcome, error) {
	args, err := runs.Plain(c.Args)
	if c.Args = args; err != nil {
		return r.Refuse(ctx, c, err)
	}
	return r.after(ctx, c, r.runner.Execute(ctx, r.run, c))
}

// Refuse records once more that a call could not be made.
func (r *replayedRun) Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error) {
	c.Args = nil
	return r.after(ctx, c, r.runner.Refuse(ctx, r.run, c, why))
}

// after compares a call. One that the record does not have had not begun when the
// recorded run was cut off.
func (r *replayedRun) after(ctx context.Context, c runner.Call, o runner.Outcome) (runner.Outcome, error) {
	if o.Fatal != nil {
		return o, o.Fatal
	}
	if _, known := r.rec.Call(c.Index); !known {
		return o, nil
	}
	return o, r.check.After(ctx, c, o)
}

// RejudgeSession decides the calls of all of a session's runs anew under another
// policy. It gives those whose decision would change, oldest first, with the run of
// each, and how many were judged.
func (a *App) RejudgeSession(ctx context.Context, id string, p *policy.Policy) ([]RejudgedIn, int, error) {
	_, runs, err := a.SessionRuns(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	out, judged := []RejudgedIn{}, 0
	for _, run := range runs {
		changed, n, err := a.Rejudge(ctx, run.ID.String(), p)
		if err != nil {
			return nil, 0, err
		}
		judged += n
		for _, c := range changed {
			out = append(out, RejudgedIn{Run: run.ID, Rejudged: c})
		}
	}
	return out, judged, nil
}

// RejudgedIn is a decision that would change, and the run that it is of.
type RejudgedIn struct {
	Run uuid.UUID `json:"run_id"`
	Rejudged
}

// forkPoint gives the step of a call of a session, which is named by its number in the newest run, RUN/NUMBER, or its
// step as the record shows it.
func (a *App) forkPoint(ctx context.Context, runs []ledger.Run, from string) (string, error) {
	st, err := a.sessions(ctx)
	if err != nil {
		return "", err
	}
	id, number, inRun := strings.Cut(from, "/")
	if !inRun {
		id, number = "", from
	}
	n, err := strconv.Atoi(number)
	byStep := err != nil
	for i := len(runs) - 1; i >= 0; i-- {
		if inRun && !byStep && !strings.HasPrefix(runs[i].ID.String(), id) {
			continue
		}
		for c, err := range st.Calls(ctx, runs[i].Seq) {
			if err != nil {
				return "", err
			}
			if byStep && c.Step == from || !byStep && c.Index == n {
				return c.Step, nil
			}
		}
		if !byStep {
			break
		}
	}
	return "", fault.New(fault.MessageUnknown, "the session has no call %.100q", from).
		WithHint("name a call of its newest run by its number, one of another as RUN/NUMBER; remit show RUN lists them")
}

// ContinueFrom makes a session that has another's conversation up to a call, and
// goes on from there for real, under the policy of a file, or today's of the
// workspace where none is named.
func (a *App) ContinueFrom(ctx context.Context, id, from, policyFile string, on func(agent.Event)) (agent.Session, error) {
	session, runs, err := a.SessionRuns(ctx, id)
	if err != nil {
		return agent.Session{}, err
	}
	if len(runs) == 0 {
		return agent.Session{}, fault.New(fault.MessageUnknown, "the session has made no call yet")
	}
	step, err := a.forkPoint(ctx, runs, from)
	if err != nil {
		return agent.Session{}, err
	}
	s, err := a.Agents(ctx, AgentsRequest{Policy: policyFile, Workspace: runs[len(runs)-1].Workspace})
	if err != nil {
		return agent.Session{}, err
	}
	out, err := continueFrom(ctx, s, session.String(), step, on)
	return out, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

func continueFrom(ctx context.Context, s *agent.Service, session, step string, on func(agent.Event)) (agent.Session, error) {
	by := agent.Caller{Name: home.Person()}
	upTo, err := before(ctx, s, session, step)
	if err != nil {
		return agent.Session{}, err
	}
	if upTo == 0 {
		return agent.Session{}, fault.New(fault.MessageUnknown, "nothing comes before that call")
	}
	fork, err := s.Fork(ctx, by, session, upTo)
	if err != nil {
		return fork, err
	}
	watch, stop := context.WithCancel(ctx)
	told := make(chan error, 1)
	go func() {
		told <- s.Events(watch, fork.ID.String(), strconv.Itoa(fork.Last), func(e agent.Event) error {
			if on != nil {
				on(e)
			}
			return nil
		})
	}()
	_, err = s.Resume(ctx, by, fork.ID.String())
	if err == nil {
		err = s.Wait(ctx, fork.ID.String())
	}
	stop()
	err = errors.Join(err, <-told)
	now, serr := s.Session(context.WithoutCancel(ctx), fork.ID.String())
	return now, errors.Join(err, serr)
}

// before is the last message before a step's call: for an answer the one before it,
// for a tool call the one before its result.
func before(ctx context.Context, s *agent.Service, session, step string) (int, error) {
	if n, _, answer := strings.Cut(step, "/"); answer {
		at, err := strconv.Atoi(n)
		return at - 1, err
	}
	n, call, _ := strings.Cut(step, ":")
	at, err := strconv.Atoi(n)
	if err != nil {
		return 0, fault.New(fault.MessageUnknown, "the call %.100q is of no message", step)
	}
	ms, err := s.Messages(ctx, session, at, 0)
	if err != nil {
		return 0, err
	}
	for _, m := range ms {
		if m.Role == model.ToolRole && m.CallID == call {
			return m.Number - 1, nil
		}
	}
	return at, nil
}
