package queue

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/runs"
)

// Door is the queue as a service shows it to clients with grants.
type Door struct {
	*Queue
	Workspace string // of the runs that clients queue; absolute
}

// Submission is a run that a client queues.
type Submission struct {
	ID        uuid.UUID        // of the run; zero: a new one
	Grant     grants.Presented // the client's
	Plan      string
	Frozen    []byte
	Inputs    map[string]json.RawMessage
	Changeset bool
	Planning  bool
	Options
}

// State describes the whole queue.
type State struct {
	Paused    bool `json:"paused" doc:"No run is started"`
	Waiting   int  `json:"waiting" doc:"Runs that wait for a free place or a limit"`
	Scheduled int  `json:"scheduled" doc:"Runs whose time has not come"`
}

// Submit queues a run of a client.
func (d Door) Submit(ctx context.Context, s Submission) (store.QueuedRun, bool, error) {
	r := runs.Request{ID: s.ID, Workspace: d.Workspace, Grant: s.Grant, Changeset: s.Changeset, Planning: s.Planning}
	if err := d.Runs.Read(&r, s.Plan, s.Frozen, s.Inputs); err != nil {
		return store.QueuedRun{}, false, err
	}
	return d.Add(ctx, r, s.Options)
}

// SubmitSchedule makes a schedule of a client. Its runs have the authority of the client's grant.
func (d Door) SubmitSchedule(ctx context.Context, n NewSchedule, s Submission) (store.Schedule, error) {
	r := runs.Request{Workspace: d.Workspace, Grant: s.Grant, Changeset: s.Changeset, Planning: s.Planning}
	if err := d.Runs.Read(&r, s.Plan, s.Frozen, s.Inputs); err != nil {
		return store.Schedule{}, err
	}
	return d.AddSchedule(ctx, n, r, s.Options)
}

// State describes the queue.
func (q *Queue) State(ctx context.Context) (State, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return State{}, err
	}
	var out State
	if out.Waiting, out.Scheduled, err = st.QueueSize(ctx, st.Now()); err != nil {
		return out, err
	}
	out.Waiting -= out.Scheduled
	out.Paused, err = st.QueueIsPaused(ctx)
	return out, err
}

// List lists queued runs.
func (q *Queue) List(ctx context.Context, f store.QueueFilter) ([]store.QueuedRun, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	f.Sealed = f.Schedule == nil // of the schedules, each has a list of its own
	return st.QueuedRuns(ctx, f)
}

// Find finds a queued run by its ID.
func (q *Queue) Find(ctx context.Context, id string) (store.QueuedRun, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.QueuedRun{}, err
	}
	return st.Queued(ctx, id)
}
