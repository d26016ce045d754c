package queue

import (
	"context"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/runs"
)

// Sessions sends messages to agents.
type Sessions interface {
	CheckMessage(text string) error
	SendQueued(ctx context.Context, by agent.Caller, session, text string, q agent.Queued) (agent.Turn, error)
}

// Message is a message to an agent's session that a client queues.
type Message struct {
	ID      uuid.UUID        // of the run; zero: a new one
	Grant   grants.Presented // the client's
	Session uuid.UUID
	Name    string // of the queued run
	Text    string
	Options
}

// SubmitMessage queues a message of a client. Its turn is a run, which begins when it is its
// turn, under the authority that the client's grant has then. Messages of one session are
// carried out one after the other.
func (d Door) SubmitMessage(ctx context.Context, m Message) (store.QueuedRun, bool, error) {
	run, err := d.message(ctx, m)
	if err != nil {
		return run, false, err
	}
	run.ID = m.ID
	st, err := d.Home.Ledger(ctx)
	if err != nil {
		return run, false, err
	}
	return d.enqueue(ctx, st, run, m.Options)
}

// ScheduleMessage makes a schedule of a client that queues a message again and again.
func (d Door) ScheduleMessage(ctx context.Context, n NewSchedule, m Message) (store.Schedule, error) {
	run, err := d.message(ctx, m)
	if err != nil {
		return store.Schedule{}, err
	}
	return d.saveSchedule(ctx, n, run)
}

// message checks a message and makes the queued run of it.
func (d Door) message(ctx context.Context, m Message) (store.QueuedRun, error) {
	if d.Sessions == nil {
		return store.QueuedRun{}, fault.New(fault.Conflict, "this service carries out no queued messages")
	}
	if m.Grant.Token == "" { // its authority could not be decided anew
		return store.QueuedRun{}, fault.New(fault.Internal, "a queued message has no grant")
	}
	if err := d.Sessions.CheckMessage(m.Text); err != nil {
		return store.QueuedRun{}, err
	}
	if err := m.check(); err != nil {
		return store.QueuedRun{}, err
	}
	run := store.QueuedRun{Name: m.Name, Workspace: d.Workspace, Priority: m.Priority, Unique: m.Unique, Session: m.Session}
	if err := d.authority(ctx, runs.Request{Workspace: d.Workspace, Grant: m.Grant}, &run); err != nil {
		return run, err
	}
	limits, err := d.limitsOf(&plan.Plan{}, &run, m.Limits)
	if err != nil {
		return run, err
	}
	run.Limits = append(limits, store.Slot{Key: "session:" + m.Session.String(), Most: 1})
	run.Task.Plan, run.Task.Token, run.Task.Doc = []byte(m.Text), m.Grant.Token, []byte("{}")
	return run, nil
}

// send carries out a queued message. began is called once its run is recorded.
func (w *working) send(ctx context.Context, st store.Backend, run *store.QueuedRun, t store.Task, began func()) (start, err error) {
	if t.Token == "" {
		return nil, fault.New(fault.GrantInvalid, "the grant of the queued message %s is not kept any more", run.ID)
	}
	if err := w.q.Grants.MayNow(ctx, grants.Presented{Token: t.Token, Proven: true}, run.Workspace, "sessions.write"); err != nil {
		return nil, err
	}
	by := agent.Caller{Name: run.Principal, Token: t.Token, Proven: true} // by the caller who queued it, see authority
	_, err = w.q.Sessions.SendQueued(ctx, by, run.Session.String(), string(t.Plan), agent.Queued{ID: run.ID, Record: func(ctx context.Context, e ledger.Entry) (ledger.Seq, error) {
		seq, err := st.StartQueued(ctx, e, run.Limits)
		if start = err; err == nil {
			began()
		}
		return seq, err
	}})
	return start, err
}
