package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/queue"
)

// Queue has the queued runs.
type Queue interface {
	// Submit queues a run; false: one with its unique key waits or runs already.
	Submit(ctx context.Context, s queue.Submission) (store.QueuedRun, bool, error)
	// SubmitMessage queues a message to a session that the caller may write to.
	SubmitMessage(ctx context.Context, m queue.Message) (store.QueuedRun, bool, error)
	ScheduleMessage(ctx context.Context, n queue.NewSchedule, m queue.Message) (store.Schedule, error)
	List(ctx context.Context, f store.QueueFilter) ([]store.QueuedRun, error)
	Find(ctx context.Context, id string) (store.QueuedRun, error) // fault.RunUnknown
	Cancel(ctx context.Context, id, by string) (store.QueuedRun, error)
	Requeue(ctx context.Context, id, by string) (store.QueuedRun, error)
	State(ctx context.Context) (queue.State, error)
	Pause(ctx context.Context, paused bool, by string) error

	Schedules(ctx context.Context) ([]store.Schedule, error)
	SubmitSchedule(ctx context.Context, n queue.NewSchedule, s queue.Submission) (store.Schedule, error)
	// ChangeSchedule changes a schedule by its ID: fault.NotFound.
	ChangeSchedule(ctx context.Context, id, by string, change func(*store.Schedule)) (store.Schedule, error)
	// RunSchedule queues a run of a schedule now: fault.Conflict if it is paused.
	RunSchedule(ctx context.Context, id string) (store.QueuedRun, error)
}

// QueueTerms says when a queued run starts.
type QueueTerms struct {
	Priority int          `json:"priority,omitempty" minimum:"1" maximum:"4" doc:"1 is started first; default 2"`
	Delay    int          `json:"delay,omitempty" minimum:"0" maximum:"31622400" doc:"Seconds: it is not started before"`
	At       time.Time    `json:"at,omitzero" doc:"Instead of delay"`
	Unique   string       `json:"unique,omitempty" maxLength:"200" doc:"While a run of the caller with this key waits or runs, that one is given and none is queued: of the person whose own grant it is, or else of the root grant"`
	Limits   []store.Slot `json:"limits,omitempty" nullable:"false" maxItems:"20" doc:"Bounds of the runs that carry the same limit and run at once. key is grant, tool:ID or source:NAME"`
}

func (q *QueueTerms) options() queue.Options {
	return queue.Options{Priority: q.Priority, Delay: time.Duration(q.Delay) * time.Second, At: q.At, Unique: q.Unique, Limits: q.Limits}
}

// QueueList is the queue, with a page of its runs.
type QueueList struct {
	queue.State
	Items []store.QueuedRun `json:"items"`
	Next  string            `json:"next,omitempty"`
}

var exampleQueued = map[string]any{"run_id": sampleSession, "status": "waiting", "name": "nightly", "principal": "user:ann", "workspace": "/home/ann/project", "priority": 2,
	"queued_at": "2026-11-21T12:00:00Z", "due_at": "2026-11-21T12:00:00Z", "total": 3, "completed": 0, "denied": 0, "failed": 0}

// queueRun queues a run.
func (s *Server) queueRun(ctx context.Context, who *Caller, q NewRun) (*runAnswer, error) {
	if s.o.Queue == nil {
		return nil, fault.New(fault.Conflict, "this service has no queue")
	}
	if who.Token == "" { // without a grant it would be a run of the person at this machine
		return nil, fault.New(fault.Internal, "the caller has no grant")
	}
	run, _, err := s.o.Queue.Submit(ctx, queue.Submission{ID: q.Run, Grant: who.Presented(), Plan: q.Plan, Frozen: q.Frozen, Inputs: q.Inputs, Changeset: q.Changeset, Planning: q.Planning, Options: q.Queue.options()})
	if err = whenFull(err); err != nil {
		return nil, err
	}
	return &runAnswer{Status: http.StatusAccepted, Location: "/v1/queue/" + run.ID.String(), Body: asRun(run)}, nil
}

// asRun describes a queued run as the run that it becomes.
func asRun(q store.QueuedRun) ledger.Run {
	return ledger.Run{ID: q.ID, Name: q.Name, Mode: ledger.Live, Status: q.Status, Principal: q.Principal, Workspace: q.Workspace, Grant: q.Grant, Started: q.Started, Total: q.Total}
}

// whenFull says when to try again, if an error is that the queue is full.
func whenFull(err error) error {
	if fault.CodeOf(err) != fault.QueueFull {
		return err
	}
	p := problem(err)
	p.retry = "5"
	return p
}

// queued finds a queued run that the caller may use.
func (s *Server) queued(ctx context.Context, in *asked, id string) (store.QueuedRun, error) {
	return reachable(ctx, fault.RunUnknown, "queued run", id, s.o.Queue.Find, func(q store.QueuedRun) (bool, error) {
		return s.reachesGrant(ctx, in, q.Grant.String())
	})
}

func (s *Server) queue() {
	if s.o.Queue == nil {
		return
	}
	s.listQueue()
	s.schedules()
	s.changeSchedules()
	route(s, operation{
		id: "getQueuedRun", method: http.MethodGet, path: "/v1/queue/{run_id}", tag: "queue", action: "runs.read", summary: "Get a queued run", errors: []int{404}, answer: exampleQueued,
	}, func(ctx context.Context, in *runIn) (*struct{ Body store.QueuedRun }, error) {
		q, err := s.queued(ctx, &in.asked, in.ID)
		return &struct{ Body store.QueuedRun }{q}, err
	})
	route(s, operation{
		id: "cancelQueuedRun", method: http.MethodPost, path: "/v1/queue/{run_id}/cancel", tag: "queue", action: "tools.invoke", summary: "Cancel a queued run",
		text: "One that has started is stopped by the process that carries it out; its status is stopping until then.", errors: []int{404, 409}, answer: exampleQueued,
	}, func(ctx context.Context, in *runIn) (*struct{ Body store.QueuedRun }, error) {
		q, err := s.queued(ctx, &in.asked, in.ID)
		if err == nil {
			q, err = s.o.Queue.Cancel(ctx, in.ID, in.who.Name)
		}
		return &struct{ Body store.QueuedRun }{q}, err
	})
	route(s, operation{
		id: "requeueRun", method: http.MethodPost, path: "/v1/queue/{run_id}/requeue", tag: "queue", action: "tools.invoke", summary: "Queue a dead letter again",
		text: "A queued run that could not be started many times is dead. Its grant is looked at anew when it starts. Cancel it to drop it.", errors: []int{404, 409}, answer: exampleQueued,
	}, func(ctx context.Context, in *runIn) (*struct{ Body store.QueuedRun }, error) {
		q, err := s.queued(ctx, &in.asked, in.ID)
		if err == nil {
			q, err = s.o.Queue.Requeue(ctx, in.ID, in.who.Name)
		}
		return &struct{ Body store.QueuedRun }{q}, err
	})
	s.pauseQueue("pauseQueue", "/v1/queue/pause", "Pause the queue", "No queued run is started until the queue is resumed, on all nodes. Runs that have started go on, and runs can be queued.", true)
	s.pauseQueue("resumeQueue", "/v1/queue/resume", "Resume the queue", "", false)
}

func (s *Server) pauseQueue(id, path, summary, text string, paused bool) {
	type plain struct{ asked }
	route(s, operation{
		id: id, method: http.MethodPost, path: path, tag: "queue", action: "queue.write", summary: summary, text: text,
		answer: map[string]any{"paused": paused, "waiting": 3, "scheduled": 1},
	}, func(ctx context.Context, in *plain) (*struct{ Body queue.State }, error) {
		if err := s.o.Queue.Pause(ctx, paused, in.who.Name); err != nil {
			return nil, err
		}
		state, err := s.o.Queue.State(ctx)
		return &struct{ Body queue.State }{state}, err
	})
}

func (s *Server) listQueue() {
	type list struct {
		asked
		Page
		Ended bool `query:"ended" doc:"The queued runs that ended, were refused or cancelled, newest first"`
		Dead  bool `query:"dead" doc:"The queued runs that could not be started, with the reasons, newest first"`
	}
	route(s, operation{
		id: "listQueue", method: http.MethodGet, path: "/v1/queue", tag: "queue", action: "runs.read", summary: "List queued runs",
		text:   "Those that run, then those that wait in the order in which they start: under the caller's grant, or under those that derive from it. The numbers are of the whole queue.",
		answer: map[string]any{"paused": false, "waiting": 1, "scheduled": 0, "items": []any{exampleQueued}},
	}, func(ctx context.Context, in *list) (*struct{ Body QueueList }, error) {
		from, err := in.number("queue")
		if err != nil {
			return nil, err
		}
		out := QueueList{Items: []store.QueuedRun{}}
		if out.State, err = s.o.Queue.State(ctx); err != nil {
			return nil, err
		}
		at := int(min(from, 1<<30))
		for scanned := 0; ; {
			all, err := s.o.Queue.List(ctx, store.QueueFilter{Ended: in.Ended, Dead: in.Dead, From: at, Limit: in.Limit + 1})
			if err != nil {
				return nil, err
			}
			for _, q := range all {
				if len(out.Items) == in.Limit || scanned >= maxScan {
					out.Next = cursor("queue", strconv.Itoa(at))
					return &struct{ Body QueueList }{out}, nil
				}
				ok, err := s.reachesGrant(ctx, &in.asked, q.Grant.String())
				if err != nil {
					return nil, err
				}
				if ok {
					out.Items = append(out.Items, q)
				}
				at++
				scanned++
			}
			if len(all) <= in.Limit {
				return &struct{ Body QueueList }{out}, nil
			}
		}
	})
}
