package tables

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"runtime"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// writer owns the one connection that writes. Everything except its channels
// belongs to the goroutine whose turn it is. That is the one that runs loop, or a
// lone caller, which then need not wait for another goroutine.
type writer struct {
	s     *Store
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
	turn  chan struct{} // full during a write
	ended chan struct{} // closed when loop has returned

	answering sync.WaitGroup // lone callers that have the turn, or had it and sync

	log   logState
	known bool  // log is the state that this writer saw last
	size  int64 // of the log within the batch, before the request that is admitted now
	runs  map[ledger.Seq]*ledger.Progress
	dirty map[ledger.Seq]bool // runs whose projection the batch must bring up to date

	tags   *tagger
	listed map[toolOf]bool // the known rows of table run_tools
	marker *marker
	block  int64               // the newest one
	marked map[store.Mark]bool // its marks that are known to be in table blocks
	seals  map[string]*seal    // of tables that the batch has read
	tables map[string]*wholeTable
	open   *openQuestions // as they were last read; nil: not known

	// Of a shared database. Within a transaction: locked, once no other node can append;
	// next, the number of events; the batch so far, and the runs that it changes.
	locked   bool
	next     int64
	batch    *Batch
	changed  map[ledger.Seq]bool
	versions map[ledger.Seq]int64 // how often each of runs was changed
	appended int                  // events, by this writer
	broken   bool                 // the connection may be lost

	mu       sync.Mutex
	unsynced []*request // that wait for the next sync
	syncing  bool
}

// toolOf is a row of run_tools.
type toolOf struct {
	run  ledger.Seq
	tool tool.ID
}

// The statements. Each is prepared once.
const (
	commit      = "COMMIT"
	rollback    = "ROLLBACK"
	insertEvent = "INSERT INTO events(seq, run, call, tag, body, salt, data) VALUES(?, ?, ?, ?, ?, ?, ?)"
	eraseEvent  = "UPDATE events SET tag = ?, salt = NULL, data = ? WHERE seq = ?"
	insertBlob  = "INSERT INTO blobs(address, size, enc, data) VALUES(?, ?, ?, ?) ON CONFLICT(address) DO NOTHING"
	insertNode  = "INSERT INTO nodes(idx, hash) VALUES(?, ?)"
	insertNote  = "INSERT INTO checkpoints(size, note) VALUES(?, ?)"
	insertRun   = "INSERT INTO runs(seq, id, status, mode, started, ended, total, completed, denied, failed) VALUES(?, ?, 0, ?, ?, 0, ?, 0, 0, 0)"
	insertTool  = "INSERT INTO run_tools(tool, run) VALUES(?, ?) ON CONFLICT DO NOTHING"
	updateRun   = "UPDATE runs SET status = ?, ended = ?, total = CASE WHEN CAST(?1 AS bigint) = 0 THEN total ELSE ?3 END, completed = ?, denied = ?, failed = ?, refused = ? WHERE seq = ?"
	updateTally = "UPDATE runs SET completed = ?, denied = ?, failed = ?, refused = ? WHERE seq = ?" // of an open run: the index of open runs is left alone
	updateLog   = "UPDATE log SET size = ?, frontier = ?, signed = ?, mac = ? WHERE id = 1"
	selectNote  = "SELECT note FROM checkpoints WHERE size = ?"
	selectID    = "SELECT count(*) FROM runs WHERE id = ?"
)

const maxRunStates = 1024 // runs that a writer caches

func newWriter(s *Store, conn *sql.Conn) *writer {
	return &writer{s: s, conn: conn, stmts: map[string]*sql.Stmt{}, turn: make(chan struct{}, 1), ended: make(chan struct{}), runs: map[ledger.Seq]*ledger.Progress{}, dirty: map[ledger.Seq]bool{}, listed: map[toolOf]bool{}, marker: newMarker(), marked: map[store.Mark]bool{}, seals: map[string]*seal{}, tables: map[string]*wholeTable{}, changed: map[ledger.Seq]bool{}, versions: map[ledger.Seq]int64{}, tags: newTagger(s.keys)}
}

// close releases the connection after loop has returned.
func (w *writer) close() error {
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, w.s.db.Close())...)
}

// loop writes batches until the queue is closed.
func (w *writer) loop() {
	defer close(w.ended)
	var batch []*request
	for {
		runtime.Gosched() // lets the callers woken by the last batch queue their next entries
		if batch = w.s.queue.take(batch); batch == nil {
			return
		}
		w.turn <- struct{}{}
		w.answer(batch, w.writeAndLeave(batch))
		clear(batch)
	}
}

// writeAlone writes r at once if no other goroutine has the turn. It reports whether
// r was written.
func (w *writer) writeAlone(r *request) bool {
	select {
	case w.turn <- struct{}{}:
	default:
		return false
	}
	if w.s.queue.isClosed() || !r.state.CompareAndSwap(waiting, taken) {
		<-w.turn
		return false
	}
	w.answering.Add(1)
	defer w.answering.Done()
	batch := []*request{r}
	w.answer(batch, w.writeAndLeave(batch))
	return true
}

// writeAndLeave writes a batch in the turn that the goroutine has, and ends the turn.
func (w *writer) writeAndLeave(batch []*request) error {
	defer func() { <-w.turn }()
	if w.s.shared != nil {
		ctx, stop := w.s.shared.Leased(context.Background())
		defer stop()
		w.writeShared(ctx, batch)
		return nil
	}
	return w.write(context.Background(), batch)
}

// answer wakes the callers of a batch that was written, or not because of err: those of
// durable requests after a sync, the others at once.
func (w *writer) answer(batch []*request, err error) {
	var durable []*request
	for _, r := range batch {
		if r.err == nil {
			r.err = err
		}
		if w.mustSync(r) {
			durable = append(durable, r)
			continue
		}
		close(r.done)
	}
	if len(durable) == 0 {
		return
	}
	if w.s.shared != nil {
		w.syncLater(durable)
		return
	}
	err = w.s.sync()
	for _, r := range durable {
		r.err = err
		close(r.done)
	}
}

// mustSync reports whether a request that was written must survive a loss of power, or
// waits for a checkpoint of a shared database. There the start of a run is synced too: its
// number names the run, and a server that lost the start would give it to another event.
func (w *writer) mustSync(r *request) bool {
	return r.err == nil && (r.durable && w.s.power || w.s.shared != nil && (r.wantsCheckpoint() || r.beginsRun()))
}

// write commits a batch, or none of it. A request that was refused individually
// gets its own error.
func (w *writer) write(ctx context.Context, batch []*request) error {
	release, err := w.s.db.Turn()
	defer release()
	if err == nil {
		err = w.reconnect(ctx)
	}
	if err == nil {
		err = w.transact(ctx, batch)
	}
	if err == nil {
		return nil
	}
	w.broken = true
	_, _ = w.exec(ctx, rollback) // fails where the database has rolled back already
	w.forgetAll()
	return w.markRepeatable(ctx, w.s.fault(err, "the ledger cannot be written"))
}

// forgetAll empties the writer's caches.
func (w *writer) forgetAll() {
	w.known = false
	clear(w.runs)
	clear(w.versions)
	clear(w.listed)
	clear(w.marker.open)
	clear(w.marked)
}

func (w *writer) transact(ctx context.Context, batch []*request) error {
	if _, err := w.exec(ctx, w.s.dialect.Begin); err != nil {
		return err
	}
	if err := w.catchUp(ctx); err != nil {
		return err
	}
	l := logState{Frontier: w.log.Clone(), signed: w.log.signed, seals: w.log.seals}
	clear(w.dirty)
	clear(w.seals)
	clear(w.changed)
	w.next, w.locked = l.Size, false
	sign := false
	for _, r := range batch {
		if r.check != nil {
			r.err = r.check(ctx, w)
		}
		if r.err == nil {
			r.err = w.lock(ctx, r)
		}
		if r.err == nil {
			r.err = w.checkBlobs(ctx, r)
		}
		if r.err == nil {
			r.err = w.admit(ctx, w.next, r)
		}
		if r.err != nil {
			var disk ioError
			if errors.As(r.err, &disk) {
				r.err = nil
				return disk.error
			}
			continue
		}
		if err := w.insert(ctx, &l, r); err != nil {
			return err
		}
		sign = sign || r.wantsCheckpoint() && w.s.shared == nil
	}
	if err := w.finish(ctx, &l, sign, batch); err != nil {
		return err
	}
	number, err := w.commit(ctx)
	if err != nil {
		return err
	}
	if w.s.shared != nil {
		for _, r := range batch {
			r.number = number
		}
		w.appended += len(w.batch.Events)
	}
	w.log, w.known = l, true
	w.forget()
	return nil
}

func (r *request) wantsCheckpoint() bool {
	for i := range r.rows {
		if r.rows[i].event.Kind == ledger.RunFinished {
			return true
		}
	}
	return r.sign
}

// catchUp reads the log's state, and the events of known runs that another
// process appended since.
func (w *writer) catchUp(ctx context.Context) error {
	st, err := w.stmt(ctx, selectOld+w.s.dialect.Lock)
	if err != nil {
		return err
	}
	var origin string
	var size int64
	var frontier []byte
	var l logState
	if err := st.QueryRowContext(ctx).Scan(&origin, &size, &frontier, &l.signed, &l.mac, &l.seals); err != nil {
		return err
	}
	if w.known && size == w.log.Size && bytes.Equal(l.mac, w.log.mac) {
		return nil
	}
	l.seals = w.log.seals // most events change no sealed table
	if w.s.authenticate(&l, origin, size, frontier) != nil {
		if l.seals, err = w.readSeals(ctx); err != nil {
			return err
		}
		if err := w.s.authenticate(&l, origin, size, frontier); err != nil {
			return err
		}
	}
	if w.known && size < w.log.Size {
		return fault.New(fault.StoreCorrupt, "the ledger %q has shrunk from %d to %d events", w.s.name, w.log.Size, size).
			WithHint("it was replaced by an older copy while it was in use")
	}
	if w.known && len(w.runs) > 0 && w.s.shared == nil {
		if err := w.follow(ctx, w.log.Size); err != nil {
			return err
		}
	}
	w.log, w.known = l, true
	return nil
}

// follow applies other processes' events to known runs.
func (w *writer) follow(ctx context.Context, after int64) error {
	query, args := "SELECT seq, run, body FROM events WHERE seq > ?", []any{after}
	if len(w.runs) == 1 {
		for run := range w.runs {
			query, args = query+" AND +run = ?", append(args, int64(run)) // + is for the order of seq, not the index of runs
		}
	}
	st, err := w.stmt(ctx, query+" ORDER BY seq")
	if err != nil {
		return err
	}
	rows, err := st.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var seq, run ledger.Seq
		var body sql.RawBytes
		if err := rows.Scan(&seq, &run, &body); err != nil {
			return err
		}
		st := w.runs[run]
		if st == nil {
			continue
		}
		e, err := ledger.Decode(body)
		if err == nil {
			err = st.Add(seq, &e)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// ioError is a failure of the disk, which ends the whole batch.
type ioError struct{ error }
