package app

import (
	"context"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// Start implements httpapi.Runs.
func (s *served) Start(ctx context.Context, who *httpapi.Caller, q httpapi.NewRun, started func(id string)) error {
	if who.Token == "" { // without a grant it would be a run of the person at this machine
		return fault.New(fault.Internal, "the caller has no grant")
	}
	req := runs.Request{Workspace: s.workspace, Grant: grants.Presented{Token: who.Token}, Changeset: q.Changeset, Planning: q.Planning,
		Wait: true, Advice: adviceOn, Observe: s.observe, Started: func(run *runner.Run, _ policies.Hint) { started(run.ID.String()) }}
	err := s.app.Runs.Read(&req, q.Plan, q.Frozen, q.Inputs)
	if err == nil {
		_, err = s.app.Runs.Plan(ctx, req)
	}
	return err
}
