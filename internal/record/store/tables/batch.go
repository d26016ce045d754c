package tables

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// admit checks that a request's entries may follow the recorded events. A refused
// request leaves no trace. Only an ioError affects other requests.
func (w *writer) admit(ctx context.Context, size int64, r *request) error {
	w.size = size
	if err := w.readEnding(ctx, r); err != nil {
		return err
	}
	touched := make([]ledger.Seq, 0, 4)
	for i := range r.rows {
		e, seq := r.rows[i].event, ledger.Seq(size)+ledger.Seq(i)+1
		run := e.Run
		if e.Kind == ledger.RunStarted {
			run = seq
		}
		touched = append(touched, run)
		err := w.s.refuseOld(&r.rows[i])
		if err == nil {
			err = w.admitRow(ctx, seq, e)
		}
		if err == nil && e.Kind == ledger.RunStarted {
			for _, earlier := range r.rows[:i] {
				if bytes.Equal(earlier.event.ID, e.ID) {
					err = fault.New(fault.Internal, "two runs with the ID %s", runID(e.ID))
				}
			}
		}
		if err == nil {
			continue
		}
		for _, t := range touched { // read again when needed
			delete(w.runs, t)
		}
		return err
	}
	return nil
}

// readEnding reads all calls of the runs that a request ends: the last event of a run
// has its totals.
func (w *writer) readEnding(ctx context.Context, r *request) error {
	for i := range r.rows {
		e := r.rows[i].event
		if e.Kind != ledger.RunFinished || int64(e.Run) > w.size {
			continue
		}
		if _, err := w.wholeRun(ctx, e.Run); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) admitRow(ctx context.Context, seq ledger.Seq, e *ledger.Event) error {
	if e.Kind == ledger.RunStarted {
		st, err := w.stmt(ctx, selectID)
		if err != nil {
			return ioError{err}
		}
		var n int
		if err := st.QueryRowContext(ctx, e.ID).Scan(&n); err != nil {
			return ioError{err}
		}
		if n > 0 {
			return fault.New(fault.Internal, "a run with the ID %s exists", runID(e.ID))
		}
		if err := w.admitSession(ctx, e); err != nil {
			return err
		}
		w.runs[seq] = ledger.NewProgress(seq)
		return nil
	}
	if e.Run == 0 {
		return nil // of authority, and of no run
	}
	p, err := w.run(ctx, e.Run)
	if err != nil {
		return err
	}
	if err := p.Add(seq, e); err != nil {
		if disk := (ioError{}); errors.As(err, &disk) {
			return err
		}
		return fault.Wrap(fault.Internal, err, "refused by the ledger: %s", fault.Message(err))
	}
	return nil
}

// run returns the state of a run. If another writer began the run, it is resumed from
// its row and, call by call, from its events.
func (w *writer) run(ctx context.Context, run ledger.Seq) (*ledger.Progress, error) {
	if p := w.runs[run]; p != nil {
		return p, nil
	}
	if w.dirty[run] { // this batch has added events to it, and its row is not up to date
		return w.load(ctx, run, readProgress)
	}
	return w.load(ctx, run, w.resume)
}

// wholeRun returns the state of a run with all its calls.
func (w *writer) wholeRun(ctx context.Context, run ledger.Seq) (*ledger.Progress, error) {
	if p := w.runs[run]; p != nil && !p.Resumed() {
		return p, nil
	}
	return w.load(ctx, run, readProgress)
}

// load reads the state of a run and keeps it.
func (w *writer) load(ctx context.Context, run ledger.Seq, read func(context.Context, Querier, ledger.Seq) (*ledger.Progress, error)) (*ledger.Progress, error) {
	err := w.readVersion(ctx, run)
	var p *ledger.Progress
	if err == nil {
		p, err = read(ctx, w.conn, run)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fault.New(fault.Internal, "no run %d has begun", run)
	case err != nil:
		return nil, ioError{err}
	}
	w.runs[run] = p
	return p, nil
}

const (
	selectProgress = "SELECT status, ended, completed, denied, failed, refused FROM runs WHERE seq = ?"
	selectPast     = "SELECT body FROM events WHERE run = ? AND call = ? AND seq <= ? ORDER BY seq"
)

// resume reads a run's row; sql.ErrNoRows if there is no such run. The time that it takes
// does not depend on the number of the run's calls.
func (w *writer) resume(ctx context.Context, _ Querier, run ledger.Seq) (*ledger.Progress, error) {
	st, err := w.stmt(ctx, selectProgress)
	if err != nil {
		return nil, err
	}
	var p ledger.Progress
	if err := st.QueryRowContext(ctx, int64(run)).Scan(&p.Status, &p.Ended, &p.Completed, &p.Denied, &p.Failed, &p.Refused); err != nil {
		return nil, err
	}
	size := w.size
	return ledger.ResumeProgress(run, p, func(call uint32) (open, seen bool, err error) {
		open, seen, err = w.pastCall(ctx, run, call, size)
		if err != nil {
			err = ioError{err}
		}
		return open, seen, err
	}), nil
}

// pastCall looks for a call in the first size events of the log.
func (w *writer) pastCall(ctx context.Context, run ledger.Seq, call uint32, size int64) (open, seen bool, err error) {
	st, err := w.stmt(ctx, selectPast)
	if err != nil {
		return false, false, err
	}
	rows, err := st.QueryContext(ctx, int64(run), int64(call), size)
	if err != nil {
		return false, false, err
	}
	defer rows.Close()
	for rows.Next() {
		var body sql.RawBytes
		if err := rows.Scan(&body); err != nil {
			return false, false, err
		}
		e, err := ledger.Decode(body)
		if err != nil {
			return false, false, err
		}
		switch e.Kind {
		case ledger.CallIntent:
			open, seen = true, true
		case ledger.CallOutcome, ledger.CallDone:
			open, seen = false, true
		}
	}
	return open, seen, rows.Err()
}

// readProgress folds a run's events; sql.ErrNoRows if there is no such run.
func readProgress(ctx context.Context, q Querier, run ledger.Seq) (*ledger.Progress, error) {
	var body []byte
	if err := q.QueryRowContext(ctx, "SELECT body FROM events WHERE seq = ?", int64(run)).Scan(&body); err != nil {
		return nil, err
	}
	if e, err := ledger.Decode(body); err != nil {
		return nil, err
	} else if e.Kind != ledger.RunStarted {
		return nil, sql.ErrNoRows
	}
	rows, err := q.QueryContext(ctx, "SELECT seq, body FROM events WHERE run = ? ORDER BY seq", int64(run))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	p := ledger.NewProgress(run)
	for rows.Next() {
		var seq ledger.Seq
		var raw sql.RawBytes
		if err := rows.Scan(&seq, &raw); err != nil {
			return nil, err
		}
		e, err := ledger.Decode(raw)
		if err == nil {
			err = p.Add(seq, &e)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, rows.Err()
}

// insert writes an admitted request's rows and adds them to the log.
func (w *writer) insert(ctx context.Context, l *logState, r *request) error {
	if len(r.rows) > 0 {
		r.first = ledger.Seq(w.next) + 1
	}
	for i := range r.rows {
		if err := w.insertRow(ctx, l, &r.rows[i]); err != nil {
			return err
		}
	}
	if r.apply != nil {
		return r.apply(ctx, w, r.first)
	}
	return nil
}

func (w *writer) insertRow(ctx context.Context, l *logState, r *row) error {
	seq, e := ledger.Seq(w.next)+1, r.event
	if err := w.encode(r); err != nil {
		return err
	}
	for _, b := range r.blobs {
		if _, err := w.exec(ctx, insertBlob, b.address[:], b.size, b.enc, b.data); err != nil {
			return err
		}
	}
	insert, args := insertEvent, []any{int64(seq), int64(e.Run), int64(e.Call), w.tags.tag(w.s.tagged(seq), r.body, r.salt, r.data), r.body, orNull(r.salt), orNull(r.data)}
	if w.s.parts != nil {
		insert, args = w.s.dialect.InsertEvent, append(args, int64(PartOf(e)))
	}
	if _, err := w.exec(ctx, insert, args...); err != nil {
		return err
	}
	if err := w.project(ctx, seq, e); err != nil {
		return err
	}
	if err := w.markBlock(ctx, seq, r); err != nil {
		return err
	}
	w.next++
	if w.s.shared != nil {
		w.batch.Events = append(w.batch.Events, EventRow{Body: r.body})
		if changesRun(e) {
			w.changed[e.Run] = true
		}
		return nil
	}
	var err error
	l.Append(tlog.RecordHash(r.body), func(n ledger.Node) {
		if n.Level >= storedLevel && err == nil {
			_, err = w.exec(ctx, insertNode, index(n), n.Hash[:])
		}
	})
	return err
}

// encode encodes the event of an admitted row, unless it is encoded already.
func (w *writer) encode(r *row) (err error) {
	e := r.event
	if e.Kind == ledger.RunFinished {
		t := w.runs[e.Run].Tally
		e.Total, e.Completed, e.Denied, e.Failed = uint32(t.Total), uint32(t.Completed), uint32(t.Denied), uint32(t.Failed)
		e.Refused = uint32(t.Refused)
		r.body = nil
	}
	if r.body == nil {
		r.body, err = ledger.Encode(e)
	}
	return err
}

func orNull(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// project updates the tables that are used to find runs.
func (w *writer) project(ctx context.Context, seq ledger.Seq, e *ledger.Event) error {
	if e.Kind == ledger.RunStarted {
		if _, err := w.exec(ctx, insertRun, int64(seq), e.ID, int64(e.Mode), e.At, int64(e.Total)); err != nil {
			return err
		}
		return w.projectSession(ctx, seq, e)
	}
	if e.Status != tool.Pending {
		w.dirty[e.Run] = true
	}
	if e.Tool == "" || w.listed[toolOf{e.Run, e.Tool}] {
		return nil
	}
	w.listed[toolOf{e.Run, e.Tool}] = true
	_, err := w.exec(ctx, insertTool, string(e.Tool), int64(e.Run))
	return err
}

// finish writes, once for each batch, the projections, a checkpoint if one is
// due, and the log's new state.
func (w *writer) finish(ctx context.Context, l *logState, sign bool, batch []*request) error {
	for run := range w.dirty {
		p, err := w.run(ctx, run)
		if err != nil {
			return err
		}
		if p.Status == tool.Pending {
			_, err = w.exec(ctx, updateTally, p.Completed, p.Denied, p.Failed, p.Refused, int64(run))
		} else {
			_, err = w.exec(ctx, updateRun, int64(p.Status), p.Ended, p.Total, p.Completed, p.Denied, p.Failed, p.Refused, int64(run))
		}
		if err != nil {
			return err
		}
	}
	if err := w.finishSeals(ctx, l); err != nil {
		return err
	}
	if err := w.note(ctx); err != nil {
		return err
	}
	var signed []byte
	if sign {
		var err error
		if signed, err = w.s.checkpoint(ctx, w.conn, l); err != nil {
			return err
		}
	}
	for _, r := range batch {
		if r.sign {
			r.note = signed
		}
	}
	if l.Size == w.log.Size && l.signed == w.log.signed && l.seals == w.log.seals {
		l.mac = w.log.mac
		return nil
	}
	l.mac = l.sum(w.s.keys)
	_, err := w.exec(ctx, updateLog, l.Size, l.Bytes(), l.signed, l.mac)
	return err
}

// checkpoint signs the state, or returns its existing checkpoint.
func (s *Store) checkpoint(ctx context.Context, conn *sql.Conn, l *logState) ([]byte, error) {
	if l.Size > 0 && l.Size == l.signed {
		var b []byte
		return b, conn.QueryRowContext(ctx, selectNote, l.Size).Scan(&b)
	}
	b, err := s.sign(l)
	if err != nil || l.Size == 0 {
		return b, err // an empty log's checkpoint is not stored
	}
	l.signed = l.Size
	_, err = conn.ExecContext(ctx, insertNote, l.Size, b)
	return b, err
}

// forget bounds the writer's caches.
func (w *writer) forget() {
	for seq, p := range w.runs {
		if p.Status != tool.Pending || len(w.runs) > maxRunStates {
			delete(w.runs, seq)
		}
	}
	if len(w.listed) > 16*maxRunStates {
		clear(w.listed)
	}
	if len(w.marker.open) > 16*maxRunStates {
		clear(w.marker.open)
	}
}

// signOnClose is the number of events without a checkpoint from which Close signs one.
// Programs that live for one event each, as hooks do, would otherwise spend a tenth of
// their time on signatures.
const signOnClose = 32

// checkpointOnClose signs the events since the newest checkpoint if this store appended
// to the log and they are many. The end of a run is always signed.
func (w *writer) checkpointOnClose() error {
	w.turn <- struct{}{}
	unsigned := w.log.Size - w.log.signed
	if w.s.shared != nil {
		unsigned = int64(w.appended)
	}
	<-w.turn
	if unsigned < signOnClose {
		return nil
	}
	if _, err := w.s.readLog(context.Background(), w.s.read); err != nil { // authenticates the state once more
		return w.s.fault(err, "the ledger cannot be read")
	}
	_, err := w.s.Checkpoint(context.Background())
	return err
}

// stmt prepares a statement once.
func (w *writer) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := w.stmts[query]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, query)
	if err == nil {
		w.stmts[query] = st
	}
	return st, err
}

func (w *writer) exec(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := w.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	return st.ExecContext(ctx, args...)
}
