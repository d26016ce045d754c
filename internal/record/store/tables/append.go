package tables

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/record/ledger"
)

// row is an entry ready to be written. It can still fail only if it does not fit
// its run, or if the disk fails.
type row struct {
	event *ledger.Event
	body  []byte // nil for RunFinished: the writer encodes that event, since it knows the counts
	salt  []byte
	data  []byte
	blobs []blob
	known [][32]byte // blobs that were in the ledger when the row was prepared

	bounded bool // the payload has a ledger.PartBounds
	own     bool // the event begins a run, and has this process as its owner
}

type blob struct {
	address [32]byte
	size    int64
	enc     int
	data    []byte
}

// request is a caller's entries on their way through the queue.
type request struct {
	rows    []row
	durable bool
	sign    bool // sign a checkpoint

	// check and apply change tables in the same transaction; both may be nil and
	// run in the writer's turn. check only reads: its error refuses this request
	// and no other (an ioError ends the batch). It may change the events of rows,
	// with their body set to nil, or leave rows out. apply writes, after the
	// request's events, of which first is the first one's Seq; its error ends the
	// batch.
	check func(ctx context.Context, w *writer) error
	apply func(ctx context.Context, w *writer, first ledger.Seq) error

	state  atomic.Int32 // waiting, taken or withdrawn
	done   chan struct{}
	first  ledger.Seq
	number int64 // of its batch, in a shared database
	note   []byte
	err    error
}

const (
	waiting = iota
	taken
	withdrawn
)

func newRequest() *request { return &request{done: make(chan struct{})} }

// Append implements store.Store. An invalid entry (see ledger.Progress) is
// refused with fault.Internal. Other callers' entries are still written. Once
// writing has begun, Append ignores the end of ctx, so that the result is known
// when it returns.
func (s *Store) Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error) {
	if s.readOnly {
		return 0, s.ErrReadOnly()
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		return 0, fault.New(fault.Internal, "nothing to append")
	}
	for i := range entries {
		if k := entries[i].Event.Kind; k.OfAuthority() && k != ledger.Violation || k.OfAgents() || k.OfQueue() {
			return 0, fault.New(fault.Internal, "%s: the store itself records it, with what it changes", k)
		}
	}
	labels, err := labelChanges(entries)
	if err != nil {
		return 0, err
	}
	return s.submitEntries(ctx, entries, labels.complete)
}

// submitEntries prepares and submits entries, again if a blob was erased in between, or if the
// database failed in a way that passes. It notes which runs they begin and end.
func (s *Store) submitEntries(ctx context.Context, entries []ledger.Entry, complete func(*request)) (ledger.Seq, error) {
	s.endless.begin(entries)
	first, err := s.prepareAndSubmit(ctx, entries, complete)
	if err != nil {
		s.endless.note(entries, time.Now(), err)
	}
	return first, err
}

func (s *Store) prepareAndSubmit(ctx context.Context, entries []ledger.Entry, complete func(*request)) (ledger.Seq, error) {
	for since := time.Now(); ; {
		r := newRequest()
		r.rows = make([]row, len(entries))
		for i := range entries {
			if err := s.prepare(ctx, &entries[i], &r.rows[i]); err != nil {
				return 0, err
			}
			r.durable = r.durable || entries[i].Durable
		}
		complete(r)
		err := s.submitOnce(ctx, r)
		if errors.Is(err, errBlobErased) || errors.Is(err, errOtherOwner) || s.mayRepeat(ctx, err, since) {
			continue
		}
		if err != nil {
			return 0, err
		}
		s.begun.note(r)
		return r.first, nil
	}
}

// errBlobErased is the error of a request that refers to a blob that was erased after the
// request was prepared.
var errBlobErased = errors.New("a blob was erased meanwhile")

// errOtherOwner is the error of a request that begins a run, and was prepared before this process
// became another owner.
var errOtherOwner = errors.New("this process has become another owner meanwhile")

const (
	repeatAfter = 20 * time.Millisecond // the time before a request is submitted again
	repeatFor   = 30 * time.Second      // how long; the lease of a node that cannot reach its database ends before
)

// mayRepeat reports whether a request that failed can be submitted again. It waits a moment. Once
// the lease of this node is over, nothing is submitted again.
func (s *Store) mayRepeat(ctx context.Context, err error, since time.Time) bool {
	if again := (repeatable{}); !errors.As(err, &again) || time.Since(since) > repeatFor {
		return false
	}
	ctx, stop := s.shared.Leased(ctx)
	defer stop()
	return pause.For(ctx, repeatAfter) == nil
}

// checkBlobs refuses a request that relies on a blob that was erased meanwhile.
func (w *writer) checkBlobs(ctx context.Context, r *request) error {
	for i := range r.rows {
		for _, a := range r.rows[i].known {
			st, err := w.stmt(ctx, "SELECT count(*) FROM blobs WHERE address = ?")
			if err != nil {
				return ioError{err}
			}
			var n int
			if err := st.QueryRowContext(ctx, a[:]).Scan(&n); err != nil {
				return ioError{err}
			}
			if n == 0 {
				return errBlobErased
			}
		}
	}
	return nil
}

// submit submits a request without events, again if the database failed in a way that passes.
func (s *Store) submit(ctx context.Context, r *request) error {
	for since := time.Now(); ; {
		err := s.submitOnce(ctx, r)
		if !s.mayRepeat(ctx, err, since) {
			return err
		}
		r.state.Store(waiting)
		r.done, r.err = make(chan struct{}), nil
	}
}

// submitOnce queues a request and waits for its end. Concurrent callers share a
// commit.
func (s *Store) submitOnce(ctx context.Context, r *request) error {
	defer s.callers.Add(-1)
	if s.callers.Add(1) == 1 && s.w.writeAlone(r) {
		<-r.done // a shared database answers later
		return r.err
	}
	if !s.queue.put(r) {
		return fault.New(fault.StoreFailed, "the ledger is closed")
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(waiting, withdrawn) {
			return ctx.Err()
		}
		<-r.done
	}
	return r.err
}

// prepare encodes, compresses and hashes in the caller's goroutine.
func (s *Store) prepare(ctx context.Context, in *ledger.Entry, out *row) error {
	e := in.Event
	out.event = &e
	_, out.bounded = in.Payload[ledger.PartBounds]
	switch { // from now on other processes must notice if this one dies
	case e.Kind == ledger.RunStarted && (len(e.Owner) == 0 || string(e.Owner) == string(uuid.Nil[:])):
		if err := s.db.HoldOwner(); err != nil {
			return err
		}
		owner := s.Owner()
		e.Owner, out.own = owner[:], true
	case e.Kind == ledger.Changeset && (e.Change == ledger.ChangesApplying || e.Change == ledger.ChangesUndoing):
		if err := s.db.HoldOwner(); err != nil {
			return err
		}
	}
	e.Commit = nil
	if len(in.Payload) > 0 {
		if err := s.preparePayload(ctx, e.Kind, in.Payload, out); err != nil {
			return err
		}
		c := ledger.Commitment(out.salt, out.data)
		e.Commit = c[:]
		if e.Kind != ledger.MessageAdded || len(out.data) >= packMessages {
			out.data, _ = s.pack.pack(out.data)
		}
	}
	if e.Kind == ledger.RunFinished {
		e.Total, e.Completed, e.Denied, e.Failed, e.Refused = 0, 0, 0, 0, 0
		e.Timeline, e.Policies = append([]int64(nil), e.Timeline...), append([][]byte(nil), e.Policies...)
		_, err := ledger.Encode(&e)
		return err
	}
	var err error
	out.body, err = ledger.Encode(&e)
	return err
}

func (s *Store) preparePayload(ctx context.Context, kind ledger.Kind, p ledger.Payload, out *row) error {
	parts := make(map[string]ledger.Part, len(p))
	for name, b := range p {
		inline := len(b) <= blobFrom
		if kind == ledger.FileSaved {
			inline = name != ledger.PartContent // file contents are always stored apart, so each is kept once
		}
		if inline {
			parts[name] = ledger.Part{Inline: b}
			continue
		}
		if len(b) > maxUnpacked {
			return fault.New(fault.StoreFailed, "a part of %d bytes is too large for the ledger", len(b))
		}
		a := s.keys.address(b)
		parts[name] = ledger.Part{Blob: &ledger.BlobRef{Address: a, Size: int64(len(b))}}
		known, err := s.hasBlob(ctx, a)
		if err != nil {
			return err
		}
		if known {
			out.known = append(out.known, a)
			continue // it need not be sent again, unless it is erased meanwhile
		}
		z, packed := s.pack.pack(b)
		bl := blob{address: a, size: int64(len(b)), enc: encRaw, data: z}
		if packed {
			bl.enc = encZstd
		}
		out.blobs = append(out.blobs, bl)
	}
	var err error
	out.salt = s.salts.next()
	out.data, err = ledger.EncodeParts(parts)
	return err
}

func (s *Store) hasBlob(ctx context.Context, a [32]byte) (bool, error) {
	var n int
	err := s.read.QueryRowContext(ctx, "SELECT count(*) FROM blobs WHERE address = ?", a[:]).Scan(&n)
	return n > 0, s.fault(err, "the ledger cannot be read")
}

// queue holds the requests that wait for the writer.
type queue struct {
	mu     sync.Mutex
	more   *sync.Cond
	list   []*request
	closed bool
}

func (q *queue) init() { q.more = sync.NewCond(&q.mu) }

// put reports false once the queue is closed.
func (q *queue) put(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.list = append(q.list, r)
	q.more.Signal()
	return true
}

// take waits for requests and returns all queued ones; nil once the queue is
// closed and empty. Requests that were withdrawn are left out.
func (q *queue) take(into []*request) []*request {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		into = into[:0]
		for _, r := range q.list {
			if r.state.CompareAndSwap(waiting, taken) {
				into = append(into, r)
			}
		}
		clear(q.list)
		q.list = q.list[:0]
		if len(into) > 0 {
			return into
		}
		if q.closed {
			return nil
		}
		q.more.Wait()
	}
}

func (q *queue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.more.Signal()
}
