package history

import (
	"context"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	// followEvery is how often the ledger is asked for new events: other processes write to it too.
	followEvery = 100 * time.Millisecond
	// mostBatch is how many events a batch has at most.
	mostBatch = 256
	// mostKept is how many events are kept for those who follow. A follower that is further behind
	// is cut.
	mostKept = 8192
)

// Batch is events that were recorded one after the other. All who follow the record share it, so
// that each event is read once, whoever gets to see it.
type Batch struct {
	Events []AuditEvent // at least one

	mu   sync.Mutex
	memo map[string]any
}

// Once returns what make returned for a key at first, so that followers share it. An error is not
// kept.
func (b *Batch) Once(key string, make func() (any, error)) (any, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.memo[key]; ok {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return nil, err
	}
	if b.memo == nil {
		b.memo = map[string]any{}
	}
	b.memo[key] = v
	return v, nil
}

func (b *Batch) lastSeq() ledger.Seq { return b.Events[len(b.Events)-1].Seq }

// tailAfter is the part of a batch after a position; nil: nothing.
func (b *Batch) tailAfter(last ledger.Seq) *Batch {
	for i := range b.Events {
		switch {
		case b.Events[i].Seq <= last:
		case i == 0:
			return b
		default:
			return &Batch{Events: b.Events[i:]}
		}
	}
	return nil
}

// feed reads the events of the ledger once for all followers. It reads while there are any.
type feed struct {
	mu      sync.Mutex
	users   int
	reading *reading // nil: nobody follows
}

// reading is one reader of the ledger. Its end, with an error or the last follower, is final.
type reading struct {
	stop context.CancelFunc
	done chan struct{}

	mu      sync.Mutex
	batches []*Batch
	kept    int           // events in batches
	from    ledger.Seq    // batches have all events after this one
	last    ledger.Seq    // of the newest batch
	changed chan struct{} // closed and replaced with every batch, and at the end
	err     error
}

// join begins to follow. The first follower starts the reader.
func (f *feed) join(st store.Store, newest ledger.Seq) *reading {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.users++
	if f.reading != nil && f.reading.failed() == nil {
		return f.reading
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &reading{stop: stop, done: make(chan struct{}), from: newest, last: newest, changed: make(chan struct{})}
	f.reading = r
	go r.run(ctx, st)
	return r
}

// leave ends a follower. The last one ends the reader, and waits for it: it uses the store.
func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users--; f.users > 0 || f.reading == nil {
		return
	}
	f.reading.stop()
	<-f.reading.done
	f.reading = nil
}

func (r *reading) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

func (r *reading) run(ctx context.Context, st store.Store) {
	defer close(r.done)
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	au := forward(st)
	for last := r.last; ; {
		err := patiently(ctx, func() error {
			return batches(ctx, au, last, func(b *Batch) error {
				last = b.lastSeq()
				r.add(b)
				return nil
			})
		})
		if err == nil {
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-tick.C:
				continue
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err = err
		close(r.changed)
		return
	}
}

// patiently repeats a read of the ledger for a while, so that a short outage ends no stream.
func patiently(ctx context.Context, read func() error) error {
	return store.Patiently(ctx, store.LongPatience, followEvery, read)
}

func (r *reading) add(b *Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.last = append(r.batches, b), b.lastSeq()
	for r.kept += len(b.Events); r.kept > mostKept; {
		oldest := r.batches[0]
		r.from, r.kept = oldest.lastSeq(), r.kept-len(oldest.Events)
		r.batches[0] = nil
		r.batches = r.batches[1:]
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

// next gives the batches after a position. Without any, changed is closed when there is more.
func (r *reading) next(last ledger.Seq) (list []*Batch, behind bool, changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last < r.from {
		return nil, true, nil, nil
	}
	for i := len(r.batches) - 1; i >= 0; i-- {
		if r.batches[i].lastSeq() <= last {
			break
		}
		list = r.batches[i:]
	}
	if list == nil {
		return nil, false, r.changed, r.err
	}
	return append([]*Batch(nil), list...), false, nil, nil
}

// Follow emits events as they are recorded, those after a position first (nil: none), until
// ctx ends or emit fails. A follower that falls too far behind is cut: it goes on after its last
// event with another call.
func (h *History) Follow(ctx context.Context, after *ledger.Seq, emit func(*Batch) error) error {
	st, err := h.Reader(ctx)
	if err != nil {
		return err
	}
	var last ledger.Seq
	if err = patiently(ctx, func() (err error) { last, err = newest(ctx, st); return err }); err != nil {
		return err
	}
	r := h.feed.join(st, last)
	defer h.feed.leave()
	pass := func(b *Batch) error {
		if b = b.tailAfter(last); b == nil {
			return nil
		}
		err := emit(b)
		if err == nil {
			last = b.lastSeq()
		}
		return err
	}
	if after != nil {
		last = *after
	}
	for caughtUp := false; ; {
		list, behind, changed, err := r.next(last)
		switch {
		case behind && caughtUp:
			return fault.New(fault.LimitReached, "the client reads too slowly").WithHint("connect again: the stream goes on after the event in Last-Event-ID")
		case behind: // it was away for longer than events are kept
			err = patiently(ctx, func() error {
				return batches(ctx, forward(st), last, pass)
			})
		case list != nil:
			caughtUp = true
			for _, b := range list {
				if err = pass(b); err != nil {
					break
				}
			}
		case err == nil:
			caughtUp = true
			select {
			case <-ctx.Done():
				err = ctx.Err()
			case <-changed:
			}
		}
		if err != nil {
			return err
		}
	}
}

// batches reads the events after a position.
func batches(ctx context.Context, au *auditor, last ledger.Seq, emit func(*Batch) error) error {
	b := &Batch{}
	for ev, err := range au.st.Events(ctx, last+1) {
		if err != nil {
			return err
		}
		if len(au.runs)+len(au.calls) > mostKept { // needed ones are read again
			clear(au.runs)
			clear(au.calls)
		}
		e, err := au.view(ctx, ev)
		if err != nil {
			return err
		}
		if b.Events = append(b.Events, e); len(b.Events) < mostBatch {
			continue
		}
		if err := emit(b); err != nil {
			return err
		}
		b = &Batch{}
	}
	if len(b.Events) == 0 {
		return nil
	}
	return emit(b)
}

// newest gives the position of the newest event; 0: there is none.
func newest(ctx context.Context, st store.Store) (ledger.Seq, error) {
	for ev, err := range st.Find(ctx, store.EventFilter{}) {
		return ev.Seq, err
	}
	return 0, nil
}
