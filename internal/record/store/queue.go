package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Queue keeps queued runs, the slots of those that run, and schedules. Each change is an
// event. A queued run has the ID of the run that it becomes, and a ledger takes each run's
// ID once: so a queued run is started at most once, by any number of processes, whatever
// their clocks say.
//
// A queued run has no authority. The caller of StartQueued decides anew.
type Queue interface {
	// Enqueue records a queued run, durably. If one of the same Root or Principal with the
	// same Unique key waits or runs, it returns that one and false. A full queue is
	// fault.QueueFull.
	Enqueue(ctx context.Context, q QueuedRun, room QueueRoom) (QueuedRun, bool, error)
	// Queued finds one by its ID or a unique prefix of it (at least 4 characters):
	// fault.RunUnknown.
	Queued(ctx context.Context, id string) (QueuedRun, error)
	// QueuedRuns lists queued runs: those that run, then those that wait in the order in
	// which they start; of those that ended, the newest first.
	QueuedRuns(ctx context.Context, f QueueFilter) ([]QueuedRun, error)
	// QueueSize counts the waiting runs, and how many of them are for later.
	QueueSize(ctx context.Context, now time.Time) (waiting, scheduled int, err error)
	// QueueAge tells how long the longest-waiting run could have been started already.
	QueueAge(ctx context.Context, now time.Time) (time.Duration, error)
	// QueuedTask gives the whole task of a queued run, with the token of its grant.
	QueuedTask(ctx context.Context, id uuid.UUID) (Task, error)
	// StartQueued appends the RunStarted event of a queued run and takes its slots, both or
	// none. One that does not wait is fault.Conflict; if a slot is taken as often as it may
	// be, that is fault.LimitReached. The slots are free once the run has ended.
	StartQueued(ctx context.Context, e ledger.Entry, slots []Slot) (ledger.Seq, error)
	// TimeOutQueued ends the run of a queued run after its time, together with its open questions.
	// If that is refused, nothing changes. A queued run without a run is left alone.
	TimeOutQueued(ctx context.Context, id uuid.UUID) error
	// TakenSlots counts, by key, the slots of runs that have not ended.
	TakenSlots(ctx context.Context) (map[string]int, error)
	// ChangeQueued refuses, cancels, stops or postpones a queued run, sets it aside or queues it
	// again: fault.Conflict if its state does not allow that.
	ChangeQueued(ctx context.Context, c QueueChange) error
	// PauseQueue pauses or resumes the whole queue. Paused, it takes runs and starts none.
	PauseQueue(ctx context.Context, paused bool, by string) error
	// QueueIsPaused reports whether the queue is paused.
	QueueIsPaused(ctx context.Context) (bool, error)

	// SaveSchedule keeps a schedule's new state. If s.Version is 0 it must be a new one with
	// a name that no other has (fault.Conflict), else its version must be s.Version:
	// fault.Stale. An empty token leaves the kept one.
	SaveSchedule(ctx context.Context, s Schedule) (Schedule, error)
	// Schedule finds one that is not deleted, by its name or ID: fault.NotFound.
	Schedule(ctx context.Context, name string) (Schedule, error)
	// Schedules lists all schedules except deleted ones, by name.
	Schedules(ctx context.Context) ([]Schedule, error)
	// FireSchedule queues a run of a schedule and sets its next time. A schedule that is not
	// due at the time was as it is given, as another process fired it, is fault.Stale.
	// While a run of it waits or runs, the new one is recorded as refused. A full queue is
	// fault.QueueFull, and the schedule stays due.
	FireSchedule(ctx context.Context, s Schedule, next time.Time, run uuid.UUID, at time.Time, room QueueRoom) error
}

// Task describes the work of a queued run or a schedule. The service that queues runs gives and
// reads its documents.
type Task struct {
	Plan     []byte                // its source
	Policies []ledger.PolicySource // the policies that bounded the caller
	Doc      json.RawMessage       // the rest
	Token    string                // of the grant that was presented; kept encrypted, and only as long as it is needed
}

// Slot is a limit of runs at once: a run that has it counts for Key, and starts only while
// fewer than Most others do.
type Slot struct {
	Key  string `json:"key" example:"tool:shell.run"`
	Most int    `json:"most" example:"2"`
}

// QueueRoom bounds the queue. Zero fields are without limit.
type QueueRoom struct {
	Most    int // runs that wait
	PerRoot int // of them under one root grant
}

// QueuedRun is a queued run, with what became of it.
type QueuedRun struct {
	ID        uuid.UUID `json:"run_id" format:"uuid" doc:"Of the run, also once it is started"`
	Status    string    `json:"status" enum:"waiting,scheduled,running,stopping,refused,dead,completed,denied,failed,timeout,cancelled,interrupted" doc:"scheduled: its time has not come; refused: it was not started; dead: it could not be started, and a person may queue it again; stopping: it runs and a person cancelled it"`
	Name      string    `json:"name"`
	Principal string    `json:"principal"`
	Workspace string    `json:"workspace"`
	Priority  int       `json:"priority" minimum:"1" maximum:"4" doc:"1 is started first"`
	Queued    time.Time `json:"queued_at"`
	Due       time.Time `json:"due_at" doc:"It is not started before"`
	Started   time.Time `json:"started_at,omitzero"`
	Ended     time.Time `json:"ended_at,omitzero"`
	Total     int       `json:"total" doc:"Steps of the plan, or calls of a run that has ended"`
	Completed int       `json:"completed"`
	Denied    int       `json:"denied"`
	Failed    int       `json:"failed"`
	Unique    string    `json:"unique,omitempty"`
	Limits    []Slot    `json:"limits,omitempty" nullable:"false"`
	Grant     uuid.UUID `json:"grant_id,omitzero" format:"uuid" doc:"Under which it was queued"`
	Schedule  uuid.UUID `json:"schedule_id,omitzero" format:"uuid" doc:"That queued it"`
	Session   uuid.UUID `json:"session_id,omitzero" format:"uuid" doc:"That a queued message is for"`
	By        string    `json:"by,omitempty" doc:"Who cancelled it"`
	Code      string    `json:"code,omitempty" example:"E6004" doc:"Why it was refused, or could not start yet"`
	Reason    string    `json:"reason,omitempty"`

	State   ledger.QueueState `json:"-"`
	Fixed   bool              `json:"-"` // Due is a time of the day, and not the end of a delay
	Changed time.Time         `json:"-"` // when its state last changed by an event of its own; zero: never
	Root    uuid.UUID         `json:"-"` // root of the grant; zero: it was queued by the person at the machine
	Owner   string            `json:"-"` // given to Enqueue: whose own grant it is, as grants.OwnerOf gives it; "": nobody's
	Run     ledger.Seq        `json:"-"` // 0: it was not started
	Seq     ledger.Seq        `json:"-"` // of the event that queued it
	Task    Task              `json:"-"` // given to Enqueue; read with QueuedTask
}

// Waits reports whether the run may still be started.
func (q *QueuedRun) Waits() bool { return q.State == ledger.QueueWaiting }

// QueueFilter chooses queued runs. The zero filter chooses all that have not ended.
type QueueFilter struct {
	Due      time.Time // not zero: only waiting ones that are due then
	Stopping bool      // only those that run and that a person cancelled
	Ended    bool      // only ended, refused and cancelled ones
	Dead     bool      // only dead letters, newest first
	Later    bool      // only waiting ones whose time has not come, oldest first
	Schedule *Schedule // only runs that it queued, newest first, without those refused at once
	Sealed   bool      // for people: fault.StoreCorrupt if the queue is not as it was sealed, or the list of its newest runs was edited
	From     int       // for the next page: how many are left out
	Limit    int       // 0 means 100
}

// QueueChange is a change of a queued run that does not start it.
type QueueChange struct {
	ID     uuid.UUID
	To     ledger.QueueState // refused, dead, cancelled (stopping, if it has started), or waiting: postponed or queued again
	Due    time.Time         // of one that is postponed
	Code   fault.Code
	Reason string
	By     string
	At     time.Time
}

// Schedule queues a run again and again.
type Schedule struct {
	ID        uuid.UUID `json:"schedule_id" format:"uuid"`
	Name      string    `json:"name"`
	Version   int       `json:"version"`
	Cron      string    `json:"cron" example:"30 6 * * 1-5"`
	Zone      string    `json:"zone" example:"Europe/Berlin"`
	Paused    bool      `json:"paused,omitempty"`
	Next      time.Time `json:"next_at"`
	Last      time.Time `json:"last_at,omitzero" doc:"When it last queued a run, or tried to"`
	Principal string    `json:"principal"`
	Workspace string    `json:"workspace"`
	Priority  int       `json:"priority"`
	Limits    []Slot    `json:"limits,omitempty" nullable:"false"`
	Grant     uuid.UUID `json:"grant_id,omitzero" format:"uuid"`
	Session   uuid.UUID `json:"session_id,omitzero" format:"uuid" doc:"Of one that sends messages: to which session"`
	By        string    `json:"by" doc:"Who last changed it"`
	Saved     time.Time `json:"saved_at"`

	Deleted bool      `json:"-"`
	Root    uuid.UUID `json:"-"`
	RunName string    `json:"-"` // of its runs
	Task    Task      `json:"-"`
}
