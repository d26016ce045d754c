package tables

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// InterruptRuns closes, as interrupted, the open runs of owners that are dead, and frees
// the budgets that ended runs still lease. It returns how many runs it closed. A damaged question
// of a closed run is told at the end.
func (s *Store) InterruptRuns(ctx context.Context, dead func(owner uuid.UUID) (bool, error)) (closed int, err error) {
	var damage error
	for before := ledger.Seq(0); ; {
		runs, err := s.Runs(ctx, store.RunFilter{Status: ledger.Running, Before: before, Limit: page})
		if err != nil || len(runs) == 0 {
			return closed, errors.Join(err, s.reclaim(ctx), damage)
		}
		for _, r := range runs {
			before = r.Seq
			if is, err := dead(r.Owner); err != nil || !is {
				if err != nil {
					return closed, err
				}
				continue
			}
			did, err := s.interrupt(ctx, r.Seq)
			if err != nil && !did {
				return closed, err
			}
			if damage = cmp.Or(damage, err); did {
				closed++
			}
		}
	}
}

// deaths counts dead owners, each once.
type deaths struct {
	mu    sync.Mutex
	found map[uuid.UUID]bool // their recovery has not succeeded yet
	count uint64
}

// CountDeaths notes dead owners. They count as soon as a recovery has succeeded.
func (s *Store) CountDeaths(owners iter.Seq[uuid.UUID], recovered bool) {
	d := &s.deaths
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.found == nil {
		d.found = map[uuid.UUID]bool{}
	}
	for owner := range owners {
		d.found[owner] = true
	}
	if recovered {
		d.count += uint64(len(d.found))
		clear(d.found)
	}
}

// Deaths implements store.Store.
func (s *Store) Deaths() uint64 {
	s.deaths.mu.Lock()
	defer s.deaths.mu.Unlock()
	return s.deaths.count
}

// endless are the runs of this process that it does not carry out, and that may be open. Their end
// could not be recorded: the store failed, or had failed before, so that the outcome of a call is
// missing. Or the answer to their start was an error, and the start may be recorded. As the process
// lives, no other one closes them.
type endless struct {
	mu      sync.Mutex
	runs    map[ledger.Seq]bool
	started map[uuid.UUID]time.Time // by their IDs: when the error came
}

// note notes the runs that entries were to begin or end, and failed with an error.
func (e *endless) note(entries []ledger.Entry, now time.Time, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.runs == nil {
		e.runs, e.started = map[ledger.Seq]bool{}, map[uuid.UUID]time.Time{}
	}
	for i := range entries {
		switch ev := &entries[i].Event; ev.Kind {
		case ledger.RunFinished:
			e.runs[ev.Run] = true
		case ledger.RunStarted:
			if fault.Passing(err) { // else it was refused
				e.started[uuid.UUID(ev.ID)] = now
			}
		}
	}
}

// begin forgets the earlier starts of the runs that entries begin.
func (e *endless) begin(entries []ledger.Entry) {
	for i := range entries {
		if ev := &entries[i].Event; ev.Kind == ledger.RunStarted {
			e.mu.Lock()
			delete(e.started, uuid.UUID(ev.ID))
			e.mu.Unlock()
		}
	}
}

// startLooked is how long a run whose start failed is looked for: a message that was sent may
// still be carried out.
const startLooked = time.Minute

// findStarted finds the runs of failed starts that are recorded all the same.
func (s *Store) findStarted(ctx context.Context) error {
	s.endless.mu.Lock()
	looked := maps.Clone(s.endless.started)
	s.endless.mu.Unlock()
	for id, since := range looked {
		r, err := s.Run(ctx, id.String())
		if err != nil && !errors.Is(err, fault.RunUnknown) {
			return err
		}
		s.endless.mu.Lock()
		if at, still := s.endless.started[id]; still && at.Equal(since) { // it was not begun again meanwhile
			if err == nil && r.Owner == s.Owner() {
				s.endless.runs[r.Seq] = true
			}
			if err == nil || time.Since(since) > startLooked {
				delete(s.endless.started, id)
			}
		}
		s.endless.mu.Unlock()
	}
	return nil
}

// begun are the owners of the runs that this process has begun, and whose end is not recorded.
type begun struct {
	mu     sync.Mutex
	owners map[ledger.Seq]uuid.UUID
}

// note notes the runs that a request has begun or ended.
func (b *begun) note(r *request) {
	for i := range r.rows {
		switch ev := r.rows[i].event; {
		case r.rows[i].own:
			b.mu.Lock()
			if b.owners == nil {
				b.owners = map[ledger.Seq]uuid.UUID{}
			}
			b.owners[r.first+ledger.Seq(i)] = uuid.UUID(ev.Owner)
			b.mu.Unlock()
		case ev.Kind == ledger.RunFinished:
			b.mu.Lock()
			delete(b.owners, ev.Run)
			b.mu.Unlock()
		}
	}
}

// refuseOld refuses new work in a run that this process began as another owner: since that may no
// longer act, other nodes take its work over.
func (s *Store) refuseOld(r *row) error {
	e := r.event
	if (e.Kind == ledger.RunStarted || e.Kind == ledger.RunQueued) && s.claims.lapsed(uuid.UUID(e.ID), s.Owner()) {
		return errInterruptedHere()
	}
	switch e.Kind {
	case ledger.CallIntent, ledger.CallDone, ledger.MessageAdded:
	case ledger.RunStarted:
		if r.own && uuid.UUID(e.Owner) != s.Owner() {
			return errOtherOwner
		}
		return nil
	default:
		return nil // events are recorded as long as the run is open
	}
	s.begun.mu.Lock()
	owner, known := s.begun.owners[e.Run]
	s.begun.mu.Unlock()
	if !known || owner == s.Owner() {
		return nil
	}
	return errInterruptedHere()
}

func errInterruptedHere() error {
	return fault.New(fault.StoreFailed, "the run was interrupted: this node could not renew its lease").WithHint("begin another run")
}

func (e *endless) list() []ledger.Seq {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.runs))
}

func (e *endless) forget(run ledger.Seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.runs, run)
}

// InterruptEndless closes, as interrupted, the runs of this process whose end it could not record.
// It returns how many it closed. A damaged question is told as in InterruptRuns.
func (s *Store) InterruptEndless(ctx context.Context) (closed int, err error) {
	if err := s.findStarted(ctx); err != nil {
		return 0, err
	}
	var damage error
	for _, run := range s.endless.list() {
		did, err := s.interrupt(ctx, run)
		if err != nil && !did {
			return closed, err
		}
		s.endless.forget(run)
		if damage = cmp.Or(damage, err); did {
			closed++
		}
	}
	return closed, damage
}

// interrupt closes a run and its open calls. If another process was faster, the
// writer refuses the entries and nothing is changed. With true, an error is about the run's questions.
func (s *Store) interrupt(ctx context.Context, run ledger.Seq) (bool, error) {
	return s.endRun(ctx, run, tool.StatusInterrupted, fault.Interrupted)
}

// endRun is interrupt with another status of the run. A run that goes on meanwhile is read again.
func (s *Store) endRun(ctx context.Context, run ledger.Seq, status tool.Status, code fault.Code) (bool, error) {
	var refused error
	for range maxListed {
		p, err := readProgress(ctx, s.read, run)
		if err != nil {
			return false, s.fault(cmp.Or(refused, err), "an interrupted run cannot be read")
		}
		if p.Status != tool.Pending {
			return false, nil
		}
		var damage error
		end := endOf(p, status, code)
		refused = s.endWithOrphans(ctx, run, end)
		if fault.CodeOf(refused) == fault.StoreCorrupt { // a damaged question is told once, and keeps no run open
			damage = refused
			_, refused = s.prepareAndSubmit(ctx, end, func(*request) {})
		}
		if refused == nil {
			return true, damage
		}
		if !errors.Is(refused, fault.Internal) && !errors.Is(refused, errMeanwhile) {
			return false, refused
		}
	}
	return false, refused
}

// endOf ends a run and its open calls.
func endOf(p *ledger.Progress, status tool.Status, code fault.Code) []ledger.Entry {
	now := time.Now().UnixMicro()
	var entries []ledger.Entry
	for _, call := range p.Open() {
		entries = append(entries, ledger.Entry{Event: ledger.Event{
			Kind: ledger.CallOutcome, At: now, Run: p.Run, Call: call, Status: tool.StatusInterrupted, Code: fault.Interrupted,
		}})
	}
	return append(entries, ledger.Entry{Durable: true, Event: ledger.Event{
		Kind: ledger.RunFinished, At: now, Run: p.Run, Status: status, Code: code,
	}})
}

// endWithOrphans appends the end of a run together with that of its open questions: both or none. It
// fails with errMeanwhile if the questions changed after they were listed. A failure makes the run not
// endless: its owner may live, and the caller tries again.
func (s *Store) endWithOrphans(ctx context.Context, run ledger.Seq, end []ledger.Entry) error {
	at := time.Now()
	ids, err := s.orphans(ctx, s.read, run)
	if err != nil {
		return s.fault(err, "questions cannot be read")
	}
	var entries []ledger.Entry
	for _, id := range ids {
		entries = append(entries, closing(id, store.Closing{By: "remit", Why: "the process that asked ended while the call waited, so the call was not made", Code: fault.Interrupted, At: at}))
	}
	entries = append(entries, end...)
	_, err = s.prepareAndSubmit(ctx, entries, func(r *request) {
		var rows []sealedRow
		r.check = func(ctx context.Context, w *writer) (err error) {
			rows, err = w.orphanRows(ctx, run, ids, at)
			return asIO(err)
		}
		r.apply = func(ctx context.Context, w *writer, _ ledger.Seq) error {
			for _, row := range rows {
				row[questionState] = int64(store.Lapsed)
				if err := w.putQuestion(ctx, row, nil); err != nil {
					return err
				}
			}
			return nil
		}
	})
	return err
}

// orphanRows returns the rows of the open questions of a run. It fails if they are not the listed ones.
func (w *writer) orphanRows(ctx context.Context, run ledger.Seq, ids [][]byte, at time.Time) (rows []sealedRow, err error) {
	now, err := w.s.orphans(ctx, w.conn, run)
	if err == nil && !slices.EqualFunc(ids, now, bytes.Equal) {
		err = fault.Wrap(fault.Conflict, errMeanwhile, "the questions of run %d changed at the same moment", run)
	}
	for i := 0; err == nil && i < len(ids); i++ {
		var row sealedRow
		row, err = w.openQuestion(ctx, ids[i], at.UnixMicro())
		if err == nil && (row == nil || row.int(questionState) != int64(store.Waiting) || i > 0 && bytes.Equal(ids[i], ids[i-1])) {
			err = w.s.sealBroken(tableQuestions) // it is listed and does not wait, or is listed twice
		}
		rows = append(rows, row)
	}
	return rows, err
}

// orphans lists the open questions of a run without a session, by their IDs. A session's turn is
// continued, so its questions stay open.
func (s *Store) orphans(ctx context.Context, q Querier, run ledger.Seq) (ids [][]byte, err error) {
	if s.format < SealedFormat {
		return nil, nil
	}
	var body []byte
	if err := q.QueryRowContext(ctx, "SELECT body FROM events WHERE seq = ?", int64(run)).Scan(&body); err != nil {
		return nil, err
	}
	if e, err := ledger.Decode(body); err != nil || len(e.Subject) > 0 {
		return nil, err
	}
	err = each(ctx, q, "SELECT id FROM questions WHERE state = ? AND run = ? ORDER BY id", func(rows *sql.Rows) error {
		var id []byte
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	}, int64(store.Waiting), int64(run))
	return ids, err
}
