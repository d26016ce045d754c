package tables

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// queuedDoc is the part of a RunQueued event besides its fields, its plan and its policies.
type queuedDoc struct {
	Priority int             `json:"priority"`
	Due      time.Time       `json:"due"`
	Unique   string          `json:"unique,omitempty"`
	Limits   []store.Slot    `json:"limits,omitempty"`
	Root     uuid.UUID       `json:"root,omitzero"`
	Total    int             `json:"total"`
	Session  uuid.UUID       `json:"session,omitzero"`
	Fixed    bool            `json:"fixed,omitempty"`
	Task     json.RawMessage `json:"task,omitempty"`
}

// Priorities of queued runs.
const (
	firstPriority = 1
	lastPriority  = 4
)

// uniqueOf is the digest of a queued run's unique key and its owner; empty without a key. Keys
// of different owners are different. A person's grants have one owner.
func uniqueOf(q *store.QueuedRun) []byte {
	if q.Unique == "" {
		return []byte{}
	}
	owner := q.Principal
	switch {
	case q.Owner != "":
		owner = "person\x00" + q.Owner
	case q.Root != uuid.Nil:
		owner = q.Root.String()
	}
	h := sha256.Sum256([]byte(owner + "\x00" + q.Unique))
	return h[:]
}

// queuedEntry is the event that records a queued run.
func queuedEntry(q *store.QueuedRun) (ledger.Entry, error) {
	if q.ID == uuid.Nil || q.Priority < firstPriority || q.Priority > lastPriority || q.Principal == "" {
		return ledger.Entry{}, fault.New(fault.Internal, "a queued run with ID %s, priority %d and principal %q", q.ID, q.Priority, q.Principal)
	}
	doc, err := json.Marshal(queuedDoc{Priority: q.Priority, Due: q.Due.UTC(), Unique: q.Unique, Limits: q.Limits, Root: q.Root, Total: q.Total, Session: q.Session, Fixed: q.Fixed, Task: q.Task.Doc})
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a queued run cannot be encoded")
	}
	policies, err := json.Marshal(q.Task.Policies)
	if err != nil {
		return ledger.Entry{}, fault.Wrap(fault.Internal, err, "a queued run cannot be encoded")
	}
	digest := sha256.Sum256(q.Task.Plan)
	e := ledger.Event{Kind: ledger.RunQueued, At: q.Queued.UnixMicro(), ID: q.ID[:], Principal: q.Principal, Name: q.Name, Workspace: q.Workspace,
		Plan: digest[:], Queued: ledger.QueueWaiting}
	if q.Grant != uuid.Nil {
		e.Grant = q.Grant[:]
	}
	if q.Schedule != uuid.Nil {
		e.Subject = q.Schedule[:]
	}
	return ledger.Entry{Event: e, Durable: true, Payload: ledger.Payload{ledger.PartPlan: q.Task.Plan, ledger.PartPolicy: policies, ledger.PartDoc: doc}}, nil
}

func (s *Store) queuedRow(q *store.QueuedRun) sealedRow {
	return sealedRow{queueID: q.ID[:], queueState: int64(ledger.QueueWaiting), queuePriority: int64(q.Priority), queueDue: q.Due.UnixMicro(), queueUnique: uniqueOf(q),
		queueRoot: q.Root[:], queueRun: int64(0), queueLast: int64(0), queueToken: s.keys.Hide(q.Task.Token, q.ID), queueSeq: int64(0)}
}

// Enqueue implements store.Queue.
func (s *Store) Enqueue(ctx context.Context, q store.QueuedRun, room store.QueueRoom) (store.QueuedRun, bool, error) {
	e, err := queuedEntry(&q)
	if err != nil {
		return q, false, err
	}
	row, id := s.queuedRow(&q), q.ID
	err = s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		same, err := w.queuedAlike(ctx, row.bytes(queueUnique))
		if err != nil {
			return err
		}
		if same != nil {
			copy(id[:], same.bytes(queueID))
			r.rows, r.apply = nil, nil
			return nil
		}
		return w.admitQueued(ctx, row, room)
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		row[queueSeq] = int64(first)
		return w.put(ctx, tableQueue, row)
	})
	if err != nil {
		return q, false, err
	}
	out, err := s.Queued(ctx, id.String())
	return out, id == q.ID, err
}

// queuedAlike returns the queued run with a unique key that has not ended; nil: none. The whole
// table tells which run it is: a query would not find a removed row.
func (w *writer) queuedAlike(ctx context.Context, unique []byte) (sealedRow, error) {
	if len(unique) == 0 {
		return nil, nil
	}
	c, err := w.wholeTable(ctx, tableQueue)
	if err != nil || c.unique[string(unique)].id == nil {
		return nil, err
	}
	row, err := w.wholeRow(ctx, tableQueue, c.unique[string(unique)].id)
	if err != nil {
		return nil, err
	}
	switch ledger.QueueState(row.int(queueState)) {
	case ledger.QueueWaiting:
		return row, nil
	case ledger.QueueStarted, ledger.QueueStopping:
		if over, err := w.s.hasEnded(ctx, ledger.Seq(row.int(queueRun))); err != nil || !over {
			return row, asIO(err)
		}
	}
	return nil, nil
}

// admitQueued refuses a run that was queued before, or for which the queue has no room.
func (w *writer) admitQueued(ctx context.Context, row sealedRow, room store.QueueRoom) error {
	known, err := w.wholeRow(ctx, tableQueue, row.bytes(queueID))
	if err == nil && known != nil {
		err = fault.New(fault.Internal, "a run with the ID %s was queued already", runID(row.bytes(queueID)))
	}
	if err != nil {
		return err
	}
	var all, ofRoot int
	err = w.conn.QueryRowContext(ctx, "SELECT (SELECT count(*) FROM queue WHERE state = 1), (SELECT count(*) FROM queue WHERE state = 1 AND root = ?)", row.bytes(queueRoot)).Scan(&all, &ofRoot)
	if err != nil {
		return ioError{err}
	}
	switch {
	case room.Most > 0 && all >= room.Most:
		return fault.New(fault.QueueFull, "the queue is full: %d runs wait, and at most %d may", all, room.Most).
			WithHint("try again when some of them have started")
	case room.PerRoot > 0 && !bytes.Equal(row.bytes(queueRoot), uuid.Nil[:]) && ofRoot >= room.PerRoot:
		return fault.New(fault.QueueFull, "the queue is full for this grant: %d runs under its root wait, and at most %d may", ofRoot, room.PerRoot).
			WithHint("try again when some of them have started")
	}
	return nil
}

// StartQueued implements store.Queue.
func (s *Store) StartQueued(ctx context.Context, e ledger.Entry, slots []store.Slot) (ledger.Seq, error) {
	if e.Event.Kind != ledger.RunStarted {
		return 0, fault.New(fault.Internal, "%s starts no run", e.Event.Kind)
	}
	var row sealedRow
	var ended []sealedRow
	var run ledger.Seq
	err := s.changes(ctx, []ledger.Entry{e}, e.Durable, func(ctx context.Context, w *writer, _ *request) error {
		var err error
		if row, err = w.wholeRow(ctx, tableQueue, e.Event.ID); err != nil {
			return err
		}
		if err = w.mayBe(row, e.Event.ID, ledger.QueueStarted); err == nil {
			ended, err = w.freeSlots(ctx, slots)
		}
		return err
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		for _, old := range ended {
			if err := w.remove(ctx, tableSlots, old[:tableSlots.keys]...); err != nil {
				return err
			}
		}
		for _, l := range slots {
			if err := w.put(ctx, tableSlots, sealedRow{slotRun: int64(first), slotKey: l.Key}); err != nil {
				return err
			}
		}
		run = first
		row[queueState], row[queueRun], row[queueLast], row[queueToken] = int64(ledger.QueueStarted), int64(first), int64(0), []byte{}
		return w.put(ctx, tableQueue, row)
	})
	return run, err
}

// mayBe reports whether a queued run's state may become another.
func (w *writer) mayBe(row sealedRow, id []byte, to ledger.QueueState) error {
	if row == nil {
		return fault.New(fault.RunUnknown, "no queued run has the ID %s", runID(id)).ForOperator("remit queue lists them")
	}
	is := ledger.QueueState(row.int(queueState))
	if is == ledger.QueueWaiting || is == ledger.QueueStarted && to == ledger.QueueStopping || is == ledger.QueueDead && (to == ledger.QueueWaiting || to == ledger.QueueCancelled) {
		return nil
	}
	return fault.New(fault.Conflict, "the queued run %s is %s", runID(id), is)
}

const selectTaken = "SELECT s.run, s.key, s.mac, r.status FROM slots s JOIN runs r ON r.seq = s.run"

// eachSlot gives the slots, and whether their runs have ended.
func (s *Store) eachSlot(ctx context.Context, q Querier, take func(row sealedRow, ended bool)) error {
	return each(ctx, q, selectTaken, func(rows *sql.Rows) error {
		var status tool.Status
		row, _, err := s.scanSealed(tableSlots, func(into ...any) error { return rows.Scan(append(into, &status)...) })
		if err == nil {
			take(row, status != tool.Pending)
		}
		return err
	})
}

// freeSlots fails if one of the slots is taken too often. It returns those of ended runs.
func (w *writer) freeSlots(ctx context.Context, slots []store.Slot) (ended []sealedRow, err error) {
	if len(slots) == 0 {
		return nil, nil
	}
	c, err := w.wholeTable(ctx, tableSlots)
	if err != nil {
		return nil, err
	}
	taken := map[string]int{}
	for _, r := range c.rows {
		over, err := w.s.hasEnded(ctx, ledger.Seq(r.row.int(slotRun)))
		if err != nil {
			return nil, asIO(err)
		}
		if over {
			ended = append(ended, r.row)
		} else {
			taken[r.row.text(slotKey)]++
		}
	}
	for _, l := range slots {
		if taken[l.Key] >= l.Most {
			return nil, fault.New(fault.LimitReached, "%d runs with the limit %s run already", taken[l.Key], l.Key)
		}
	}
	return ended, nil
}

// hasEnded reports whether a run has ended. The table of runs is not sealed, so its status
// counts only together with an event.
func (s *Store) hasEnded(ctx context.Context, run ledger.Seq) (bool, error) {
	var status tool.Status
	err := s.read.QueryRowContext(ctx, "SELECT status FROM runs WHERE seq = ?", int64(run)).Scan(&status)
	if errors.Is(err, sql.ErrNoRows) || err == nil && status == tool.Pending { // begun in the same transaction, or open
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ended := false
	err = s.eachAuthentic(ctx, "run = ? AND call = 0", func(r *rawEvent) error {
		e, err := ledger.Decode(r.body)
		ended = ended || e.Kind == ledger.RunFinished
		return err
	}, int64(run))
	return ended, err
}

// TimeOutQueued implements store.Queue.
func (s *Store) TimeOutQueued(ctx context.Context, id uuid.UUID) error {
	q, err := s.Queued(ctx, id.String())
	if err != nil || q.Run == 0 {
		return err
	}
	_, err = s.endRun(ctx, q.Run, tool.TimedOut, fault.LimitReached)
	return err
}

// TakenSlots implements store.Queue.
func (s *Store) TakenSlots(ctx context.Context) (map[string]int, error) {
	taken := map[string]int{}
	if s.format < QueueFormat {
		return taken, nil
	}
	err := s.eachSlot(ctx, s.read, func(row sealedRow, ended bool) {
		if !ended {
			taken[row.text(slotKey)]++
		}
	})
	return taken, s.fault(err, "the queue cannot be read")
}

// ChangeQueued implements store.Queue.
func (s *Store) ChangeQueued(ctx context.Context, c store.QueueChange) error {
	var row sealedRow
	e := ledger.Entry{Durable: c.To != ledger.QueueWaiting, Event: ledger.Event{Kind: ledger.QueueChanged, At: c.At.UnixMicro(), ID: c.ID[:], Principal: c.By, Code: c.Code, Queued: c.To}}
	if c.Reason != "" {
		e.Payload = ledger.Payload{ledger.PartReason: []byte(c.Reason)}
	}
	return s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		var err error
		if row, err = w.wholeRow(ctx, tableQueue, c.ID[:]); err != nil {
			return err
		}
		to := c.To
		if to == ledger.QueueCancelled && row != nil && row.int(queueState) == int64(ledger.QueueStarted) {
			if to, err = ledger.QueueStopping, w.stillRuns(ctx, row); err != nil {
				return err
			}
		}
		if err := w.mayBe(row, c.ID[:], to); err != nil {
			return err
		}
		r.rows[0].event.Queued, r.rows[0].body = to, nil
		row[queueState] = int64(to)
		switch to {
		case ledger.QueueWaiting:
			row[queueDue] = c.Due.UnixMicro()
			return w.onlyOfItsKey(ctx, row)
		case ledger.QueueDead: // it may be queued again
		default:
			row[queueToken] = []byte{}
		}
		return nil
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		row[queueLast] = int64(first)
		return w.put(ctx, tableQueue, row)
	})
}

// onlyOfItsKey fails if another queued run with the unique key of one waits or runs.
func (w *writer) onlyOfItsKey(ctx context.Context, row sealedRow) error {
	same, err := w.queuedAlike(ctx, row.bytes(queueUnique))
	if err == nil && same != nil && !bytes.Equal(same.bytes(queueID), row.bytes(queueID)) {
		err = fault.New(fault.Conflict, "the run %s with the same unique key waits or runs", runID(same.bytes(queueID)))
	}
	return err
}

// stillRuns fails if the run of a queued run has ended.
func (w *writer) stillRuns(ctx context.Context, row sealedRow) error {
	if over, err := w.s.hasEnded(ctx, ledger.Seq(row.int(queueRun))); err != nil || !over {
		return asIO(err)
	}
	return fault.New(fault.Conflict, "the run %s has ended", runID(row.bytes(queueID)))
}

const pausedQueue = "queue" // the row of table pauses

// PauseQueue implements store.Queue.
func (s *Store) PauseQueue(ctx context.Context, paused bool, by string) error {
	to := ledger.QueueWaiting
	if paused {
		to = ledger.QueueHeld
	}
	e := ledger.Entry{Durable: true, Event: ledger.Event{Kind: ledger.QueuePaused, At: time.Now().UnixMicro(), Name: pausedQueue, Principal: by, Queued: to}}
	return s.change(ctx, e, func(ctx context.Context, w *writer, r *request) error {
		row, err := w.wholeRow(ctx, tablePauses, pausedQueue)
		if is := row != nil && row.int(pauseState) == int64(ledger.QueueHeld); err == nil && is == paused {
			r.rows, r.apply = nil, nil
		}
		return err
	}, func(ctx context.Context, w *writer, first ledger.Seq) error {
		return w.put(ctx, tablePauses, sealedRow{pauseName: pausedQueue, pauseState: int64(to), pauseSeq: int64(first)})
	})
}

// QueueIsPaused implements store.Queue.
func (s *Store) QueueIsPaused(ctx context.Context) (bool, error) {
	if s.format < QueueFormat {
		return false, nil
	}
	paused := false
	err := s.eachOfWhole(ctx, tablePauses, func(row sealedRow) error { // a renamed row would end the pause
		paused = paused || row.text(pauseName) == pausedQueue && row.int(pauseState) == int64(ledger.QueueHeld)
		return nil
	})
	return paused && err == nil, s.fault(err, "the queue cannot be read")
}

// Hide encrypts a token, which only processes of this ledger can read; empty stays empty.
func (k *Keys) Hide(token string, id uuid.UUID) []byte {
	if token == "" {
		return []byte{}
	}
	return k.encrypt([]byte(token), id[:])
}

// encrypt encrypts data that only processes of this ledger can read, bound to a name.
func (k *Keys) encrypt(data, name []byte) []byte {
	nonce := make([]byte, 12)
	_, _ = rand.Read(nonce) // never fails
	return append(nonce, k.tokenCipher().Seal(nil, nonce, data, name)...)
}

// decrypt decrypts what encrypt gave for the same name; false: it gave something else.
func (k *Keys) decrypt(hidden, name []byte) ([]byte, bool) {
	if len(hidden) <= 12 {
		return nil, false
	}
	b, err := k.tokenCipher().Open(nil, hidden[:12], hidden[12:], name)
	return b, err == nil
}

// Reveal decrypts what Hide gave for the same ID.
func (k *Keys) Reveal(hidden []byte, id uuid.UUID) (string, error) {
	if len(hidden) == 0 {
		return "", nil
	}
	if b, ok := k.decrypt(hidden, id[:]); ok {
		return string(b), nil
	}
	return "", fault.New(fault.StoreCorrupt, "the token of %s was not written by this ledger", id).ForOperator("remit verify lists the changed records")
}

func (k *Keys) tokenCipher() cipher.AEAD {
	block, err := aes.NewCipher(k.token)
	if err != nil {
		panic(err) // the key has 32 bytes
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // the block has 16 bytes
	}
	return aead
}

// QueuedTask implements store.Queue.
func (s *Store) QueuedTask(ctx context.Context, id uuid.UUID) (store.Task, error) {
	var t store.Task
	all, err := s.readTold(ctx, tableQueue, queueSeq, selectQueuedEvent+"q.id = ?", id[:])
	if err == nil && len(all) == 0 {
		err = fault.New(fault.RunUnknown, "no queued run has the ID %s", id)
	}
	if err == nil {
		t, err = s.task(ctx, &all[0].raw)
	}
	if err == nil {
		var d queuedDoc
		if err = json.Unmarshal(t.Doc, &d); err == nil {
			t.Doc = d.Task
			t.Token, err = s.keys.Reveal(all[0].row.bytes(queueToken), id)
		}
	}
	return t, s.fault(err, "the queue cannot be read")
}

// task reads the task of a RunQueued or ScheduleSaved event, with the event's whole document.
func (s *Store) task(ctx context.Context, raw *rawEvent) (store.Task, error) {
	var t store.Task
	st, err := s.decode(raw)
	if err != nil {
		return t, err
	}
	if st.Erased {
		return t, fault.New(fault.PlanInvalid, "the plan of this queued run was erased")
	}
	if t.Plan, err = s.Load(ctx, st.Parts[ledger.PartPlan]); err != nil {
		return t, err
	}
	if err := s.loadJSON(ctx, st.Parts[ledger.PartPolicy], &t.Policies); err != nil {
		return t, err
	}
	t.Doc, err = s.Load(ctx, st.Parts[ledger.PartDoc])
	return t, err
}
