package agents

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/runs"
)

// Begin implements agent.RunStarter.
func (h *host) Begin(ctx context.Context, q agent.RunRequest) (agent.Run, error) {
	tools, err := overlay(q.Tools, h.Synced)
	if err != nil {
		return nil, err
	}
	var labels *runner.Context
	if q.Granted.Grant.Chain().HasFlows() {
		if labels, err = h.Labels(ctx, q.Session, q.Granted.Grant.Chain()); err != nil {
			return nil, err
		}
	}
	r := runs.Request{
		Name: q.Name, Planning: q.Mode.Planning, Frozen: q.Mode.Frozen, Workspace: q.Granted.Workspace, Asker: &desk{approvals: h.Approvals, asking: q.Asking, keep: q.Keep, here: h.q.Here},
		Agent: &runs.AgentRun{Session: q.Session, Inputs: q.Inputs, Outputs: q.Outputs, Granted: q.Granted, Tools: tools}, Context: labels,
		Observe: callBoth(h.q.Observe, q.Observe), Hooks: slices.Concat(h.q.Hooks, q.Hooks),
	}
	if q.Queued != nil {
		r.ID, r.Record = q.Queued.ID, q.Queued.Record
	}
	return h.Runs.Begin(ctx, r)
}

// callBoth calls two observers, of which each may be nil.
func callBoth(a, b func(runner.Notice)) func(runner.Notice) {
	if a == nil || b == nil {
		if a == nil {
			return b
		}
		return a
	}
	return func(n runner.Notice) {
		a(n)
		b(n)
	}
}

// overlay gives the tools of a session: its own, then those of the catalog.
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

// desk asks the questions of a session's calls and waits for the answers. The session
// shows that it waits.
type desk struct {
	approvals *approvals.Approvals
	asking    func(question string, c runner.Call) (answered func())
	keep      func(ctx context.Context)
	here      func(ctx context.Context, c approval.Case) (store.Vote, error) // nil: no person is at a terminal
}

// Ask implements runner.Asker.
func (d *desk) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) {
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
	asker := d.approvals.Desk(true, notify, nil)
	asker.Continues, asker.Before = true, d.keep
	a, err := asker.Ask(ctx, q)
	mu.Lock()
	defer mu.Unlock()
	if answered = true; over != nil && !errors.Is(err, fault.Interrupted) { // it still waits, also without a process
		over()
	}
	return a, err
}

// Propose implements runner.Proposer. The session does not wait for the answer.
func (d *desk) Propose(ctx context.Context, q runner.Question) (runner.Proposal, error) {
	return d.approvals.Desk(true, nil, nil).Propose(ctx, q)
}
