package tables

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

var (
	queueColumns      = "q." + strings.Join(tableQueue.columns, ", q.") + ", q.mac" + toldColumns
	selectQueuedEvent = "SELECT " + queueColumns + " FROM queue q JOIN " + EventsAndPayloads + " e ON e.seq = q.seq WHERE "
	selectQueued      = "SELECT " + queueColumns + ", coalesce(r.status, 0), coalesce(r.started, 0), coalesce(r.ended, 0), coalesce(r.total, 0), coalesce(r.completed, 0), coalesce(r.denied, 0), coalesce(r.failed, 0)" +
		" FROM queue q JOIN " + EventsAndPayloads + " e ON e.seq = q.seq LEFT JOIN runs r ON r.seq = q.run WHERE "
)

const (
	queueWaits  = "q.state = 1"
	queueRuns   = "r.status = 0 AND q.run > 0"
	queueStops  = "q.run IN (SELECT seq FROM runs WHERE status = 0) AND q.run > 0 AND q.state = 5 ORDER BY +q.seq DESC" // by the open runs, which are few
	queueOver   = "(q.state IN (3, 4) OR q.run > 0 AND r.status <> 0)"
	queueOrder  = " ORDER BY q.priority, q.due, q.seq"
	queueNewest = " ORDER BY q.seq DESC"
)

// maxQueued is how many queued runs a list has if it says nothing else.
const maxQueued = 100

// Queued implements store.Queue.
func (s *Store) Queued(ctx context.Context, id string) (store.QueuedRun, error) {
	lo, hi, err := prefix(id)
	if err != nil {
		return store.QueuedRun{}, err
	}
	found, err := s.selectQueue(ctx, "q.id BETWEEN ? AND ?"+queueNewest+" LIMIT 2", lo, hi)
	switch {
	case err != nil:
		return store.QueuedRun{}, err
	case len(found) == 0:
		return store.QueuedRun{}, fault.New(fault.RunUnknown, "no queued run has the ID %q", id).ForOperator("remit queue lists them")
	case len(found) > 1:
		return store.QueuedRun{}, fault.New(fault.RunUnknown, "several queued runs have an ID that begins with %q", id).
			WithHint("write more of it: %s, %s", found[0].ID, found[1].ID)
	}
	return found[0], nil
}

// QueuedRuns implements store.Queue.
func (s *Store) QueuedRuns(ctx context.Context, f store.QueueFilter) ([]store.QueuedRun, error) {
	limit := f.Limit
	if limit <= 0 {
		limit = maxQueued
	}
	const page = " LIMIT ? OFFSET ?"
	if f.Sealed && f.From == 0 {
		if err := s.checkQueue(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case !f.Due.IsZero():
		return s.selectQueue(ctx, queueWaits+" AND q.due <= ?"+queueOrder+page, f.Due.UnixMicro(), limit, f.From)
	case f.Schedule != nil:
		fired := firedBy(f.Schedule)
		list, err := s.selectQueue(ctx, "q.uniq = ?"+queueNewest+page, uniqueOf(&fired), limit, f.From)
		return slices.DeleteFunc(list, func(q store.QueuedRun) bool { return q.Schedule != f.Schedule.ID }), err // a caller can choose the same key
	case f.Later:
		return s.selectQueue(ctx, queueWaits+" AND q.due > ? ORDER BY q.seq"+page, s.now(), limit, f.From)
	case f.Dead:
		return s.selectQueue(ctx, "q.state = 7"+queueNewest+page, limit, f.From)
	case f.Stopping:
		return s.selectQueue(ctx, queueStops+page, limit, f.From)
	case f.Ended:
		return s.selectQueue(ctx, queueOver+queueNewest+page, limit, f.From)
	}
	running, err := s.selectQueue(ctx, queueRuns+" ORDER BY q.run")
	if err != nil {
		return nil, err
	}
	out := running[min(f.From, len(running)):]
	if len(out) >= limit {
		return out[:limit], nil
	}
	waiting, err := s.selectQueue(ctx, queueWaits+" ORDER BY CASE WHEN q.due > ?1 THEN q.due ELSE 0 END, q.priority, q.due, q.seq LIMIT ?2 OFFSET ?3",
		s.now(), limit-len(out), max(0, f.From-len(running)))
	return slices.Concat(out, waiting), err
}

// checkQueue fails if the queue is not as it was sealed, or the list of its newest runs, which is
// not sealed, was edited.
func (s *Store) checkQueue(ctx context.Context) error {
	if s.format < QueueFormat {
		return nil
	}
	if err := s.eachOfWhole(ctx, tableQueue, func(sealedRow) error { return nil }); err != nil {
		return err
	}
	runs, err := s.selectRuns(ctx, s.runColumns()+" WHERE r.seq IN (SELECT run FROM queue WHERE run > 0 ORDER BY run DESC LIMIT ?)", maxLeftOut)
	if err == nil {
		_, err = s.countOpen(ctx, runs)
	}
	for _, r := range runs {
		if err == nil && r.Unverified {
			err = fault.New(fault.StoreCorrupt, "not verified: the row of the run %s in the list of runs differs from its events", r.ID).
				ForOperator("remit verify lists the changed records")
		}
	}
	return s.fault(err, "the queue cannot be read")
}

// QueueSize implements store.Queue.
func (s *Store) QueueSize(ctx context.Context, now time.Time) (waiting, scheduled int, err error) {
	if s.format < QueueFormat {
		return 0, 0, nil
	}
	err = s.read.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM queue WHERE state = 1), (SELECT count(*) FROM queue WHERE state = 1 AND due > ?)", now.UnixMicro()).Scan(&waiting, &scheduled)
	return waiting, scheduled, s.fault(err, "the queue cannot be read")
}

// QueueAge implements store.Queue.
func (s *Store) QueueAge(ctx context.Context, now time.Time) (time.Duration, error) {
	if s.format < QueueFormat {
		return 0, nil
	}
	var due int64
	err := s.read.QueryRowContext(ctx, "SELECT coalesce(min(due), ?) FROM queue WHERE state = 1 AND due <= ?", now.UnixMicro(), now.UnixMicro()).Scan(&due)
	return time.Duration(now.UnixMicro()-due) * time.Microsecond, s.fault(err, "the queue cannot be read")
}

// queuedRow is a queued run as it was read: its row, its event and its run.
type queuedRow struct {
	toldRow
	status                           tool.Status
	started, ended                   int64
	total, completed, denied, failed int
}

// selectQueue reads queued runs.
func (s *Store) selectQueue(ctx context.Context, rest string, args ...any) ([]store.QueuedRun, error) {
	if s.format < QueueFormat {
		return nil, nil
	}
	var all []queuedRow
	tags := newTagger(s.keys)
	err := each(ctx, s.read, selectQueued+rest, func(rows *sql.Rows) error {
		var l queuedRow
		var err error
		l.toldRow, err = s.scanTold(tableQueue, queueSeq, tags, rows.Scan, &l.status, &l.started, &l.ended, &l.total, &l.completed, &l.denied, &l.failed)
		all = append(all, l)
		return err
	}, args...)
	out := make([]store.QueuedRun, len(all))
	now := s.Now()
	for i := range all {
		if err == nil {
			out[i], err = s.queuedRun(ctx, &all[i], now)
		}
	}
	return out, s.fault(err, "the queue cannot be read")
}

// queuedRun makes a queued run from its row, its event and its run.
func (s *Store) queuedRun(ctx context.Context, l *queuedRow, now time.Time) (store.QueuedRun, error) {
	st, err := s.decode(&l.raw)
	if err != nil {
		return store.QueuedRun{}, err
	}
	e := &st.Event
	if e.Kind != ledger.RunQueued || string(e.ID) != string(l.row.bytes(queueID)) {
		return store.QueuedRun{}, fault.New(fault.StoreCorrupt, "event %d in %q did not queue the run that is listed with it", st.Seq, s.name).
			ForOperator("remit verify lists the changed records")
	}
	var d queuedDoc
	if !st.Erased {
		if err := s.loadJSON(ctx, st.Parts[ledger.PartDoc], &d); err != nil {
			return store.QueuedRun{}, err
		}
	}
	q := store.QueuedRun{Name: e.Name, Principal: e.Principal, Workspace: e.Workspace, Priority: int(l.row.int(queuePriority)), Queued: ledger.Time(e.At), Due: ledger.Time(l.row.int(queueDue)),
		Total: d.Total, Unique: d.Unique, Session: d.Session, Fixed: d.Fixed, Limits: d.Limits, State: ledger.QueueState(l.row.int(queueState)), Run: ledger.Seq(l.row.int(queueRun)), Seq: st.Seq}
	copy(q.ID[:], e.ID)
	copy(q.Grant[:], e.Grant)
	copy(q.Root[:], l.row.bytes(queueRoot))
	copy(q.Schedule[:], e.Subject)
	q.Status = q.State.String()
	switch {
	case q.Run != 0:
		q.Started, q.Total, q.Completed, q.Denied, q.Failed = ledger.Time(l.started), l.total, l.completed, l.denied, l.failed
		if l.status != tool.Pending {
			q.Status, q.Ended = l.status.String(), ledger.Time(l.ended)
		} else if q.State == ledger.QueueStarted {
			q.Status = ledger.Running
		}
	case q.Waits() && q.Due.After(now):
		q.Status = "scheduled"
	}
	if e.Queued == ledger.QueueRefused { // at once
		return q, s.whyQueued(ctx, &st, &q)
	}
	return q, s.lastChange(ctx, ledger.Seq(l.row.int(queueLast)), &q)
}

// lastChange adds why a queued run has its state.
func (s *Store) lastChange(ctx context.Context, last ledger.Seq, q *store.QueuedRun) error {
	if last == 0 {
		return nil
	}
	found, err := s.selectEvents(ctx, "SELECT seq, run, call, body, salt, data FROM "+EventsAndPayloads+" e WHERE seq = ?", int64(last))
	if err != nil || len(found) == 0 {
		return err
	}
	q.Changed = ledger.Time(found[0].Event.At)
	if e := &found[0].Event; e.Queued == ledger.QueueCancelled || e.Queued == ledger.QueueStopping {
		q.By = e.Principal
	}
	return s.whyQueued(ctx, &found[0], q)
}

// whyQueued adds the code and the reason of an event.
func (s *Store) whyQueued(ctx context.Context, st *ledger.Stored, q *store.QueuedRun) error {
	if st.Event.Code != 0 {
		q.Code = st.Event.Code.Error()
	}
	p, there := st.Parts[ledger.PartReason]
	if !there {
		return nil
	}
	b, err := s.Load(ctx, p)
	q.Reason = string(b)
	return err
}
