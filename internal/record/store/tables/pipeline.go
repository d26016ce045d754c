package tables

import (
	"context"
	"database/sql"
	"errors"
	"slices"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Shared is a database that several nodes append to over a network. Its writer never
// waits for the network while it keeps other nodes from appending: events get their
// numbers from the server, in one message, and one node at a time adds them to the Merkle
// tree afterwards (see Store.Integrate). Until then batches have MACs.
type Shared interface {
	// Append writes a batch in one message to the server. It returns the batch's number
	// among those of this node, and the number of its first event. With ErrMoved nothing
	// was written. The batch is durable after Sync, unless it is Lost.
	Append(ctx context.Context, b *Batch) (number int64, first ledger.Seq, err error)
	// Lock keeps all other nodes from appending until the end of conn's transaction. It
	// returns how many events there are.
	Lock(ctx context.Context, conn *sql.Conn) (total int64, err error)
	// Note gives conn's transaction, at its end, the node's next number, and records the
	// batch that it appended; one without events is not recorded.
	Note(ctx context.Context, conn *sql.Conn, first ledger.Seq, b *Batch) error
	// Noted tells that the transaction of Note was committed, and returns the batch's number.
	Noted() (number int64)
	// Committed replaces the writer's connection after the answer to its commit was an
	// error. It returns the batch's number if the transaction was committed all the same,
	// else 0.
	Committed(ctx context.Context) (conn *sql.Conn, number int64, err error)
	// Lost reports whether a server that crashed has lost a batch.
	Lost(number int64) error
	// Total returns how many events there are.
	Total(ctx context.Context, q Querier) (int64, error)
	// Tail returns the batches after an event, in order, at most limit.
	Tail(ctx context.Context, q Querier, after int64, limit int) ([]TailBatch, error)
	// Integrated forgets, within conn's transaction, the batches up to an event.
	Integrated(ctx context.Context, conn *sql.Conn, upTo int64) error
	// Durable returns a connection whose commits are durable. The caller closes it.
	Durable(ctx context.Context) (*sql.Conn, error)
	// Present fails if the server has lost batches, unless Lost reports them.
	Present(ctx context.Context, q Querier) error
	// Reconnect replaces the writer's connection after it was lost; nil: it was not.
	Reconnect(ctx context.Context) (*sql.Conn, error)
	// Deadlock reports whether the server ended a transaction so that another one, which
	// waited for it, can go on.
	Deadlock(err error) bool
	// Transient reports whether an error can pass by itself.
	Transient(err error) bool
	// Leased returns a context that also ends with the lease of this node.
	Leased(ctx context.Context) (context.Context, context.CancelFunc)
}

// ErrMoved is the error of an append that was based on an old state of a run.
var ErrMoved = errors.New("another process changed the run")

// ErrInDoubt is the error of a commit whose answer was lost, and that could not be looked up.
var ErrInDoubt = errors.New("it is not known whether the change was committed")

// repeatable is the error of a request that the database has not carried out, for a reason that
// can pass.
type repeatable struct{ error }

// Unwrap returns the reason.
func (e repeatable) Unwrap() error { return e.error }

// markRepeatable marks the error of a batch that can be written again. Once ctx has ended with the
// lease of this node, it returns the reason.
func (w *writer) markRepeatable(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if w.s.shared == nil || errors.Is(err, ErrInDoubt) || !w.s.shared.Transient(err) {
		return err
	}
	return repeatable{err}
}

// pipelined reports whether a request can be appended without a transaction of the
// writer: it changes no other table and begins no run.
func (r *request) pipelined() bool {
	return r.check == nil && r.apply == nil && len(r.rows) > 0 && !r.beginsRun()
}

func (r *request) beginsRun() bool {
	return slices.ContainsFunc(r.rows, func(l row) bool { return l.event.Kind == ledger.RunStarted })
}

// writeShared writes a batch to a shared database. Each request gets its own error.
func (w *writer) writeShared(ctx context.Context, batch []*request) {
	var fast, slow []*request
	for _, r := range batch {
		switch {
		case r.pipelined():
			fast = append(fast, r)
		case len(r.rows) > 0 || r.check != nil || r.apply != nil:
			slow = append(slow, r)
		}
	}
	if err := w.pipeline(ctx, fast); errors.Is(err, ErrMoved) {
		slow = append(slow, fast...)
	} else {
		setErrors(fast, w.markRepeatable(ctx, w.s.fault(err, "the ledger cannot be written")))
	}
	if len(slow) > 0 {
		setErrors(slow, w.writeSlow(ctx, slow))
	}
}

// deadlocks is how often in a row a transaction is repeated that the server ended.
const deadlocks = 8

// writeSlow writes a batch in a transaction, and repeats it where the server ended it: a
// message locks runs before the end of the log, a transaction the other way round. Requests
// with checks of their own are not repeated.
func (w *writer) writeSlow(ctx context.Context, batch []*request) error {
	err := w.write(ctx, batch)
	if slices.ContainsFunc(batch, func(r *request) bool { return r.check != nil || r.apply != nil }) {
		return err
	}
	for try := 0; try < deadlocks && w.s.shared.Deadlock(err); try++ {
		err = w.write(ctx, batch)
	}
	return err
}

func setErrors(batch []*request, err error) {
	for _, r := range batch {
		if r.err == nil {
			r.err = err
		}
	}
}

// afterAll is a number beyond all events, for a batch that does not know its own.
const afterAll = 1 << 62

// pipeline appends requests in one message.
func (w *writer) pipeline(ctx context.Context, batch []*request) error {
	if len(batch) == 0 {
		return nil
	}
	b := &Batch{keys: w.s.keys, Sync: len(batch) == 1 && batch[0].durable && w.s.power && w.s.callers.Load() == 1}
	changed, in := map[ledger.Seq]bool{}, batch[:0:0]
	err := w.reconnect(ctx)
	for _, r := range batch {
		if err != nil {
			break
		}
		if r.err = w.admit(ctx, afterAll, r); r.err != nil {
			if disk := (ioError{}); errors.As(r.err, &disk) {
				err, r.err = disk.error, nil
			} else if r.touches(changed) {
				err = ErrMoved // admit forgot what earlier requests of this batch made of the run
			}
			continue
		}
		err = w.collect(ctx, b, r, changed)
		in = append(in, r)
	}
	var number int64
	var first ledger.Seq
	if err == nil && len(in) > 0 {
		if err = w.runRows(ctx, b, changed); err == nil {
			number, first, err = w.s.shared.Append(ctx, b)
		}
	}
	if err != nil {
		w.broken = true
		w.forgetAll()
		return err
	}
	for _, r := range in {
		r.number, r.first = number, first
		first += ledger.Seq(len(r.rows))
	}
	for run := range changed {
		w.versions[run]++
	}
	w.appended += len(b.Events)
	w.forget()
	return nil
}

// touches reports whether a request is about one of the runs.
func (r *request) touches(runs map[ledger.Seq]bool) bool {
	return slices.ContainsFunc(r.rows, func(l row) bool { return runs[l.event.Run] })
}

// collect adds the rows of an admitted request to a batch.
func (w *writer) collect(ctx context.Context, b *Batch, r *request, changed map[ledger.Seq]bool) error {
	for i := range r.rows {
		l := &r.rows[i]
		e := l.event
		if err := w.encode(l); err != nil {
			return err
		}
		for _, bl := range l.blobs {
			b.Blobs = append(b.Blobs, BlobRow{Address: bl.address[:], Size: bl.size, Enc: int64(bl.enc), Data: bl.data})
		}
		for _, a := range l.known {
			if !slices.ContainsFunc(b.Known, func(k []byte) bool { return string(k) == string(a[:]) }) {
				b.Known = append(b.Known, a[:])
			}
		}
		if changesRun(e) {
			changed[e.Run] = true
		}
		if key := (toolOf{e.Run, e.Tool}); e.Tool != "" && !w.listed[key] {
			w.listed[key] = true
			b.Tools = append(b.Tools, ToolRow{Tool: string(e.Tool), Run: int64(e.Run)})
		}
		marks, err := w.marker.marks(e, l.bounded, func() (store.Called, error) { return w.s.called(ctx, w.conn, e.Run, e.Call) })
		if err != nil {
			return err
		}
		for _, m := range marks {
			b.Marks = append(b.Marks, MarkRow{Mark: string(m), At: int64(len(b.Events))})
		}
		b.Events = append(b.Events, EventRow{Run: int64(e.Run), Call: int64(e.Call), Tag: w.tags.tag(0, l.body, l.salt, l.data), Part: PartOf(e), Body: l.body, Salt: l.salt, Data: l.data})
	}
	return nil
}

// changesRun reports whether an event changes the state that decides which events may
// follow in its run.
func changesRun(e *ledger.Event) bool {
	return e.Kind == ledger.CallIntent || e.Kind == ledger.CallOutcome || e.Kind == ledger.CallDone || e.Kind == ledger.RunFinished
}

// runRows adds the new states of the changed runs, in their order, so that nodes lock the
// rows in one order.
func (w *writer) runRows(ctx context.Context, b *Batch, changed map[ledger.Seq]bool) error {
	for run := range changed {
		p, err := w.run(ctx, run)
		if err != nil {
			return err
		}
		l := RunRow{Seq: int64(run), Version: w.versions[run], Status: int64(p.Status), Ended: p.Ended,
			Completed: int64(p.Completed), Denied: int64(p.Denied), Failed: int64(p.Failed), Refused: int64(p.Refused)}
		if p.Status != tool.Pending {
			l.Total = int64(p.Total)
		}
		b.Runs = append(b.Runs, l)
	}
	slices.SortFunc(b.Runs, func(a, c RunRow) int { return int(a.Seq - c.Seq) })
	return nil
}

// lock begins to append to a shared database within the writer's transaction. The states
// of the request's runs are read anew: other nodes may have changed them.
func (w *writer) lock(ctx context.Context, r *request) error {
	if w.s.shared == nil || len(r.rows) == 0 {
		return nil
	}
	if !w.locked {
		total, err := w.s.shared.Lock(ctx, w.conn)
		if err != nil {
			return ioError{err}
		}
		w.locked, w.next, w.batch = true, total, &Batch{keys: w.s.keys}
	}
	for i := range r.rows {
		if run := r.rows[i].event.Run; !w.changed[run] {
			delete(w.runs, run)
		}
	}
	return nil
}

// note records the events that the writer's transaction has appended to a shared database.
func (w *writer) note(ctx context.Context) error {
	if w.s.shared == nil {
		return nil
	}
	if !w.locked {
		w.batch = &Batch{}
	}
	for run := range w.changed {
		if _, err := w.exec(ctx, "UPDATE runs SET version = version + 1 WHERE seq = ?", int64(run)); err != nil {
			return err
		}
		delete(w.versions, run)
	}
	return w.s.shared.Note(ctx, w.conn, ledger.Seq(w.next)-ledger.Seq(len(w.batch.Events))+1, w.batch)
}

// reconnect replaces the writer's connection if it was lost.
func (w *writer) reconnect(ctx context.Context) error {
	if w.s.shared == nil || !w.broken {
		return nil
	}
	conn, err := w.s.shared.Reconnect(ctx)
	w.use(conn)
	w.broken = err != nil
	return err
}

// use makes another connection the writer's; nil: it keeps its own.
func (w *writer) use(conn *sql.Conn) {
	if conn != nil {
		w.conn = conn
		clear(w.stmts)
		w.forgetAll()
	}
}

// commit ends the writer's transaction. It returns the batch's number in a shared database.
// If the answer is lost, it finds out whether the transaction was committed.
func (w *writer) commit(ctx context.Context) (number int64, err error) {
	_, err = w.exec(ctx, commit)
	switch {
	case w.s.shared == nil:
		return 0, err
	case err == nil:
		return w.s.shared.Noted(), nil
	}
	conn, number, lerr := w.s.shared.Committed(ctx)
	w.use(conn)
	if lerr != nil || number == 0 {
		if lerr != nil {
			err = errors.Join(ErrInDoubt, err, lerr)
		}
		return 0, err
	}
	return number, nil
}

// readVersion notes how often a run was changed, before its state is read.
func (w *writer) readVersion(ctx context.Context, run ledger.Seq) error {
	if w.s.shared == nil {
		return nil
	}
	st, err := w.stmt(ctx, "SELECT version FROM runs WHERE seq = ?")
	if err != nil {
		return err
	}
	var v int64
	err = st.QueryRowContext(ctx, int64(run)).Scan(&v)
	w.versions[run] = v
	return err
}

// syncLater makes a batch durable on a shared database and answers it. While that takes
// its time, other batches are written; the next sync is for all of them.
func (w *writer) syncLater(batch []*request) {
	w.mu.Lock()
	w.unsynced = append(w.unsynced, batch...)
	begin := !w.syncing
	w.syncing = true
	w.mu.Unlock()
	if !begin {
		return
	}
	w.answering.Go(func() {
		for {
			w.mu.Lock()
			batch := w.unsynced
			w.unsynced = nil
			if len(batch) == 0 {
				w.syncing = false
				w.mu.Unlock()
				return
			}
			w.mu.Unlock()
			w.syncNow(batch)
		}
	})
}

// syncNow makes requests durable, signs a checkpoint if one of them asks for it, and
// answers them.
func (w *writer) syncNow(batch []*request) {
	var note []byte
	var err error
	if slices.ContainsFunc(batch, (*request).wantsCheckpoint) {
		ctx, stop := w.s.shared.Leased(context.Background())
		if note, err = w.s.Integrate(ctx, true); err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		stop()
	} else {
		err = w.s.sync()
	}
	for _, r := range batch {
		if r.err = err; r.err == nil {
			r.err = w.s.shared.Lost(r.number)
		}
		if r.wantsCheckpoint() && r.err == nil {
			r.note = note
		}
		close(r.done)
	}
}
