package tables

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// scheduleDoc is the part of a ScheduleSaved event besides its fields, its plan and its
// policies.
type scheduleDoc struct {
	Cron      string          `json:"cron"`
	Zone      string          `json:"zone"`
	Next      time.Time       `json:"next"` // when it was saved
	Principal string          `json:"principal"`
	Root      uuid.UUID       `json:"root,omitzero"`
	RunName   string          `json:"run_name"`
	Priority  int             `json:"priority"`
	Limits    []store.Slot    `json:"limits,omitempty"`
	Session   uuid.UUID       `json:"session,omitzero"`
	Task      json.RawMessage `json:"task,omitempty"`
}

const selectSchedules = "SELECT c.id, c.name, c.version, c.state, c.gone, c.next, c.last, c.token, c.seq, c.mac" + toldColumns + " FROM schedules c JOIN " + EventsAndPayloads + " e ON e.seq = c.seq WHERE c.gone = 0"

func scheduleEntry(c *store.Schedule) (ledger.Entry, error) {
	if c.ID == uuid.Nil || c.Name == "" || len(c.Name) > 100 || c.Principal == "" || c.Priority < firstPriority || c.Priority > lastPriority {
		return ledger.Entry{}, fault.New(fault.Internal, "a schedule with ID %s, name %q, principal %q and priority %d", c.ID, c.Name, c.Principal, c.Priority)
	}
	doc, err := json.Marshal(scheduleDoc{Cron: c.Cron, Zone: c.Zone, Next: c.Next.UTC(), Principal: c.Principal, Root: c.Root, RunName: c.RunName, Priority: c.Priority,
		Limits: c.Limits, Session: c.Session, Task: c.Task.Doc})
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a schedule cannot be encoded")
	}
	policies, err := json.Marshal(c.Task.Policies)
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a schedule cannot be encoded")
	}
	e := ledger.Event{Kind: ledger.ScheduleSaved, At: c.Saved.UnixMicro(), Subject: c.ID[:], Number: uint32(c.Version) + 1, Name: c.Name, Principal: c.By, Workspace: c.Workspace,
		Gone: c.Deleted, Queued: ledger.QueueWaiting}
	if c.Paused {
		e.Queued = ledger.QueueHeld
	}
	if c.Grant != uuid.Nil {
		e.Grant = c.Grant[:]
	}
	return ledger.Entry{Event: e, Durable: true, Payload: ledger.Payload{ledger.PartPlan: c.Task.Plan, ledger.PartPolicy: policies, ledger.PartDoc: doc}}, nil
}

// SaveSchedule implements store.Queue.
func (s *Store) SaveSchedule(ctx context.Context, c store.Schedule) (store.Schedule, error) {
	e, err := scheduleEntry(&c)
	if err != nil {
		return c, err
	}
	row := sealedRow{scheduleID: c.ID[:], scheduleName: c.Name, scheduleVersion: int64(c.Version) + 1, scheduleState: int64(e.Event.Queued), scheduleGone: flag(c.Deleted),
		scheduleNext: c.Next.UnixMicro(), scheduleLast: int64(0), scheduleToken: s.keys.Hide(c.Task.Token, c.ID), scheduleSeq: int64(0)}
	err = s.change(ctx, e, func(ctx context.Context, w *writer, _ *request) error {
		was, err := w.wholeRow(ctx, tableSchedules, c.ID[:])
		if err != nil {
			return err
		}
		switch {
		case was == nil && c.Version > 0, was != nil && (was.int(scheduleVersion) != int64(c.Version) || was.int(scheduleGone) == 1):
			return fault.New(fault.Stale, "the schedule %q was changed meanwhile", c.Name).WithHint("look at it again, and repeat the change")
		case was == nil:
			return w.newSchedule(ctx, c.Name)
		}
		row[scheduleLast] = was.int(scheduleLast)
		if c.Task.Token == "" && !c.Deleted {
			row[scheduleToken] = was.bytes(scheduleToken)
		}
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		row[scheduleSeq] = int64(first)
		return w.put(ctx, tableSchedules, row)
	})
	c.Version++
	c.Task.Token = ""
	return c, err
}

// newSchedule fails if there is a schedule of this name.
func (w *writer) newSchedule(ctx context.Context, name string) error {
	c, err := w.wholeTable(ctx, tableSchedules)
	if err != nil {
		return err
	}
	for _, is := range c.rows {
		if is.row.text(scheduleName) != name || is.row.int(scheduleGone) == 1 {
			continue
		}
		return fault.New(fault.Conflict, "a schedule %q exists", name).ForOperator("choose another name, or remove it with remit schedule remove %s", name)
	}
	return nil
}

// Schedule implements store.Queue.
func (s *Store) Schedule(ctx context.Context, name string) (store.Schedule, error) {
	all, err := s.Schedules(ctx)
	for i := range all {
		if all[i].Name == name || all[i].ID.String() == name {
			return all[i], nil
		}
	}
	if err == nil {
		err = fault.New(fault.NotFound, "no schedule has the name %q", name).ForOperator("remit schedule lists them")
	}
	return store.Schedule{}, err
}

// Schedules implements store.Queue.
func (s *Store) Schedules(ctx context.Context) ([]store.Schedule, error) {
	if s.format < QueueFormat {
		return nil, nil
	}
	all, err := s.readTold(ctx, tableSchedules, scheduleSeq, selectSchedules+" ORDER BY c.name")
	out := make([]store.Schedule, len(all))
	for i := range all {
		if err == nil {
			out[i], err = s.schedule(ctx, &all[i])
		}
	}
	return out, s.fault(err, "schedules cannot be read")
}

// schedule makes a schedule from its row and its event.
func (s *Store) schedule(ctx context.Context, l *toldRow) (store.Schedule, error) {
	st, err := s.decode(&l.raw)
	if err != nil {
		return store.Schedule{}, err
	}
	e := &st.Event
	if e.Kind != ledger.ScheduleSaved || !bytes.Equal(e.Subject, l.row.bytes(scheduleID)) {
		return store.Schedule{}, fault.New(fault.StoreCorrupt, "event %d in %q did not save the schedule that is listed with it", st.Seq, s.name).
			ForOperator("remit verify lists the changed records")
	}
	t, err := s.task(ctx, &l.raw)
	if err != nil {
		return store.Schedule{}, err
	}
	var d scheduleDoc
	if err := json.Unmarshal(t.Doc, &d); err != nil {
		return store.Schedule{}, fault.Wrap(fault.StoreCorrupt, err, "the schedule of event %d cannot be read", st.Seq)
	}
	t.Doc = d.Task
	c := store.Schedule{Name: e.Name, Version: int(e.Number), Cron: d.Cron, Zone: d.Zone, Paused: e.Queued == ledger.QueueHeld, Next: ledger.Time(l.row.int(scheduleNext)),
		Principal: d.Principal, Workspace: e.Workspace, Priority: d.Priority, Limits: d.Limits, Session: d.Session, By: e.Principal, Saved: ledger.Time(e.At), Root: d.Root, RunName: d.RunName, Task: t}
	if last := l.row.int(scheduleLast); last != 0 {
		c.Last = ledger.Time(last)
	}
	copy(c.ID[:], e.Subject)
	copy(c.Grant[:], e.Grant)
	return c, nil
}

// firedBy is a run that a schedule queues. All of them have one unique key.
func firedBy(c *store.Schedule) store.QueuedRun {
	return store.QueuedRun{Name: c.RunName, Principal: c.Principal, Workspace: c.Workspace, Priority: c.Priority, Unique: "schedule " + c.ID.String(),
		Limits: c.Limits, Grant: c.Grant, Schedule: c.ID, Session: c.Session, Root: c.Root, Task: c.Task}
}

// FireSchedule implements store.Queue.
func (s *Store) FireSchedule(ctx context.Context, c store.Schedule, next time.Time, run uuid.UUID, at time.Time, room store.QueueRoom) error {
	q := firedBy(&c)
	q.ID, q.Queued, q.Due = run, at, at
	e, err := queuedEntry(&q)
	if err != nil {
		return err
	}
	refused := e
	refused.Event.Queued, refused.Event.Code = ledger.QueueRefused, fault.Conflict
	refused.Payload = ledger.Payload{ledger.PartReason: []byte("the schedule's run before it had not ended")}
	maps.Copy(refused.Payload, e.Payload)
	var was sealedRow
	row := s.queuedRow(&q)
	return s.changes(ctx, []ledger.Entry{e, refused}, true, func(ctx context.Context, w *writer, r *request) error {
		var err error
		if was, err = w.dueSchedule(ctx, &c); err != nil {
			return err
		}
		same, err := w.queuedAlike(ctx, row.bytes(queueUnique))
		if err != nil {
			return err
		}
		if same != nil {
			r.rows = r.rows[1:]
			row[queueState], row[queueUnique] = int64(ledger.QueueRefused), []byte{}
			return nil
		}
		r.rows = r.rows[:1]
		token, err := s.keys.Reveal(was.bytes(scheduleToken), c.ID)
		row[queueToken] = s.keys.Hide(token, run)
		if err == nil {
			err = w.admitQueued(ctx, row, room)
		}
		return err
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		was[scheduleNext], was[scheduleLast] = next.UnixMicro(), at.UnixMicro()
		if err := w.put(ctx, tableSchedules, was); err != nil {
			return err
		}
		row[queueSeq] = int64(first)
		return w.put(ctx, tableQueue, row)
	})
}

// dueSchedule returns the row of a schedule that is to be fired.
func (w *writer) dueSchedule(ctx context.Context, c *store.Schedule) (sealedRow, error) {
	was, err := w.wholeRow(ctx, tableSchedules, c.ID[:])
	if err != nil {
		return nil, err
	}
	if was == nil || was.int(scheduleGone) == 1 || was.int(scheduleState) != int64(ledger.QueueWaiting) || was.int(scheduleNext) != c.Next.UnixMicro() || was.int(scheduleVersion) != int64(c.Version) {
		return nil, fault.New(fault.Stale, "the schedule %q was fired or changed meanwhile", c.Name)
	}
	return was, nil
}
