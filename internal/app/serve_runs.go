package app

import (
	"cmp"
	"context"
	"encoding/json"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// Start implements httpapi.Runs.
func (s *served) Start(ctx context.Context, who *httpapi.Caller, q httpapi.NewRun, started func(id string)) error {
	if who.Token == "" { // without a grant it would be a run of the person at this machine
		return fault.New(fault.Internal, "the caller has no grant")
	}
	req := runs.Request{ID: q.Run, Workspace: s.workspace, Grant: who.Presented(), Changeset: q.Changeset, Planning: q.Planning,
		Wait: true, Advice: adviceOn, Observe: s.observe, Started: func(run *runner.Run, _ policies.Hint) { started(run.ID.String()) }}
	err := s.app.Runs.Read(&req, q.Plan, q.Frozen, q.Inputs)
	if err == nil {
		_, err = s.app.Runs.Plan(ctx, req)
	}
	return err
}

// Open implements httpapi.Runs.
func (s *served) Open(ctx context.Context, who *httpapi.Caller, q httpapi.NewRun, onEnd func()) (string, error) {
	if who.Token == "" { // without a grant it would be a run of the person at this machine
		return "", fault.New(fault.Internal, "the caller has no grant")
	}
	id, err := s.OpenRuns.Open(ctx, runs.Request{
		ID: q.Run, Name: cmp.Or(q.Name, "api"), Workspace: s.workspace, Grant: who.Presented(), Changeset: q.Changeset, Planning: q.Planning, Observe: s.observe, Advice: adviceOn,
	}, who.Leaf, onEnd)
	return id.String(), err
}

// CollectPlan implements httpapi.Runs.
func (s *served) CollectPlan(ctx context.Context, id string) (httpapi.CollectedPlan, error) {
	got, err := s.app.History.Collect(ctx, id, true, s.app.Runs.Plannable)
	out := httpapi.CollectedPlan{Steps: got.Steps, LeftOut: []string{}}
	for _, t := range got.Left {
		out.LeftOut = append(out.LeftOut, string(t))
	}
	if err != nil || got.Steps == 0 {
		return out, err
	}
	p, err := s.app.Runs.ParsePlan("plan", got.Source)
	if err == nil {
		out.Plan = string(p.Print())
	}
	return out, err
}

// Freeze implements httpapi.Runs.
func (s *served) Freeze(_ context.Context, plan string, inputs map[string]json.RawMessage) (json.RawMessage, error) {
	var q runs.Request
	if err := s.app.Runs.Read(&q, plan, nil, inputs); err != nil {
		return nil, err
	}
	f, err := s.app.Runs.Freeze(q.Plan, q.Inputs)
	if err != nil {
		return nil, err
	}
	return f.Encode(), nil
}
