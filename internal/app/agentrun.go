package app

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/runs"
)

// sessionRuns starts the runs of agents' sessions.
type sessionRuns struct {
	app *App
	q   AgentsRequest
}

var _ agent.RunStarter = (*sessionRuns)(nil)

// Begin implements agent.RunStarter.
func (h *sessionRuns) Begin(ctx context.Context, q agent.RunRequest) (agent.Run, error) {
	tools, err := overlay(q.Tools, h.app.Extensions)
	if err != nil {
		return nil, err
	}
	s, err := h.app.Runs.Begin(ctx, runs.Request{
		Name: q.Name, Workspace: q.Granted.Workspace, Asker: &sessionDesk{app: h.app, asking: q.Asking, here: h.q.Here},
		Agent:   &runs.AgentRun{Session: q.Session, Inputs: q.Inputs, Granted: q.Granted, Tools: tools},
		Observe: h.q.Observe,
	})
	if err != nil {
		return nil, err
	}
	return &sessionRun{Session: s, tools: tools}, nil
}

// overlay is the tools of a session: its own before the catalog's.
func overlay(own []permit.Tool, rest runner.Catalog) (runner.Catalog, error) {
	c, err := catalog.New(own...)
	if err != nil {
		return nil, err
	}
	return overlaid{c, rest}, nil
}

type overlaid struct {
	own  *catalog.Catalog
	rest runner.Catalog
}

// Lookup implements runner.Catalog.
func (o overlaid) Lookup(id tool.ID) (runner.Entry, error) {
	e, err := o.own.Lookup(id)
	if errors.Is(err, fault.ToolUnknown) {
		return o.rest.Lookup(id)
	}
	return e, err
}

// sessionRun is a run as the agents' engine takes it.
type sessionRun struct {
	*runs.Session
	tools runner.Catalog
}

var _ agent.Run = (*sessionRun)(nil)

// ID is the run's.
func (r *sessionRun) ID() uuid.UUID { return r.Session.Run.ID }

// Seq is where the record of the run begins.
func (r *sessionRun) Seq() ledger.Seq { return r.Session.Run.Seq }

// Timed reports whether the run's time is limited.
func (r *sessionRun) Timed() bool { return r.Session.Run.Limits().Time > 0 }

// Lookup finds a tool of the session.
func (r *sessionRun) Lookup(id tool.ID) (runner.Entry, error) { return r.tools.Lookup(id) }

// End records the run's end.
func (r *sessionRun) End(ctx context.Context) error {
	_, err := r.Session.End(ctx)
	return err
}

// sessionDesk puts the questions of a session's calls: it waits for whoever may
// answer, and has the session show that it does.
type sessionDesk struct {
	app    *App
	asking func(question string, c runner.Call) (answered func())
	here   func(ctx context.Context, c approval.Case) (store.Vote, error) // nil: nobody is here
}

// Ask implements runner.Asker.
func (d *sessionDesk) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) {
	var mu sync.Mutex
	var over func()
	answered := false
	notify := func(ctx context.Context, c approval.Case) (store.Vote, error) {
		mu.Lock()
		if !answered && over == nil {
			over = d.asking(c.Question.ID.String(), q.Call)
		}
		mu.Unlock()
		if d.here != nil {
			return d.here(ctx, c)
		}
		return store.Vote{}, approval.ErrNotHere
	}
	a, err := d.app.Approvals.Desk(true, notify, nil).Ask(ctx, q)
	mu.Lock()
	defer mu.Unlock()
	if answered = true; over != nil {
		over()
	}
	return a, err
}
