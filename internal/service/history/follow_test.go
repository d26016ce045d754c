package history_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/history"
)

// counting counts the records that are read of a ledger.
type counting struct {
	store.Backend
	reads atomic.Int64
}

func (c *counting) Events(ctx context.Context, from ledger.Seq) iter.Seq2[ledger.Stored, error] {
	return func(yield func(ledger.Stored, error) bool) {
		for ev, err := range c.Backend.Events(ctx, from) {
			c.reads.Add(1)
			if !yield(ev, err) {
				return
			}
		}
	}
}

func (c *counting) Call(ctx context.Context, run ledger.Seq, index int) (ledger.Call, error) {
	c.reads.Add(1)
	return c.Backend.Call(ctx, run, index)
}

// record records a run with a number of calls, and gives the position of its end.
func record(t *testing.T, s store.Store, calls int) ledger.Seq {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	at := time.Now().UnixMicro()
	run := ok[ledger.Seq](t)(s.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: at, ID: id[:], Mode: ledger.Live}}))
	for i := range calls {
		ok[ledger.Seq](t)(s.Append(t.Context(),
			ledger.Entry{Event: ledger.Event{Kind: ledger.CallIntent, At: at, Run: run, Call: uint32(i + 1), Tool: "fs.write"}},
			ledger.Entry{Event: ledger.Event{Kind: ledger.CallOutcome, At: at, Run: run, Call: uint32(i + 1), Status: tool.Completed}}))
	}
	return ok[ledger.Seq](t)(s.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: at, Run: run, Status: tool.Completed}}))
}

// follow follows the record with many followers until each has an event, and gives the number of
// records that were read meanwhile and the number of different batches.
func follow(t *testing.T, followers int) (reads int64, batches int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := ok[*sqlite.Store](t)(sqlite.Open(ctx, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process}))
	defer func() { _ = s.Close() }()
	c := &counting{Backend: s}
	h := &history.History{Reader: func(context.Context) (store.Backend, error) { return c, nil }}
	start := record(t, s, 1)
	var all, begun, over sync.WaitGroup
	var mu sync.Mutex
	different := map[*history.Batch]bool{}
	var last atomic.Int64
	begun.Add(followers)
	over.Add(followers)
	for range followers {
		all.Go(func() {
			first, end, next := sync.OnceFunc(begun.Done), sync.OnceFunc(over.Done), start+1
			after := start - 1 // its first event is there already: it tells that the follower follows
			err := h.Follow(ctx, &after, func(b *history.Batch) error {
				mu.Lock()
				defer mu.Unlock()
				for _, e := range b.Events {
					if e.Seq == start {
						first()
						continue
					}
					if e.Seq != next {
						t.Errorf("event %d comes, want %d", e.Seq, next)
					}
					different[b] = true
					if next = e.Seq + 1; e.Seq == ledger.Seq(last.Load()) {
						end()
					}
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	begun.Wait()
	before := c.reads.Load()
	mu.Lock() // nobody gets an event before the last one is known
	last.Store(int64(record(t, s, 100)))
	mu.Unlock()
	over.Wait()
	reads = c.reads.Load() - before
	cancel()
	all.Wait()
	return reads, len(different)
}

// TestManyFollowersReadTheRecordOnce: each event is read once, be there one follower or 300.
func TestManyFollowersReadTheRecordOnce(t *testing.T) {
	one, _ := follow(t, 1)
	many, batches := follow(t, 300)
	if one != 202 || many != 202 {
		t.Errorf("one follower reads %d records, 300 read %d, want 202", one, many)
	}
	if batches > 202 { // each event by itself, at most
		t.Errorf("300 followers got %d different batches of 202 events", batches)
	}
}

// TestAFollowerThatIsTooSlowIsCut: a slow follower delays no other. It is cut with the reason, and
// can go on after its last event.
func TestAFollowerThatIsTooSlowIsCut(t *testing.T) {
	s := ok[*sqlite.Store](t)(sqlite.Open(t.Context(), sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process}))
	defer func() { _ = s.Close() }()
	h := &history.History{Reader: func(context.Context) (store.Backend, error) { return s, nil }}
	start := record(t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var fast, slow sync.WaitGroup
	var reached atomic.Int64
	follows, joined, holdUp, seen := make(chan struct{}), make(chan struct{}), make(chan struct{}), ledger.Seq(0)
	var cut error
	join := sync.OnceFunc(func() { close(joined) })
	slow.Go(func() {
		after := start - 1 // its first event is there already: it tells that the follower follows
		cut = h.Follow(ctx, &after, func(b *history.Batch) error {
			if b.Events[len(b.Events)-1].Seq == start {
				close(follows)
				return nil
			}
			seen = b.Events[len(b.Events)-1].Seq
			join()
			<-holdUp
			return nil
		})
	})
	fast.Go(func() {
		after := start
		for ctx.Err() == nil { // it may be cut too, on a busy machine
			_ = h.Follow(ctx, &after, func(b *history.Batch) error {
				after = b.Events[len(b.Events)-1].Seq
				reached.Store(int64(after))
				return nil
			})
		}
	})
	<-follows
	record(t, s, 1)
	<-joined
	last := record(t, s, 5000) // more than are kept
	for reached.Load() < int64(last) {
		time.Sleep(time.Millisecond)
	}
	close(holdUp)
	slow.Wait()
	if !errors.Is(cut, fault.LimitReached) {
		t.Errorf("the slow follower ended with %v", cut)
	}
	goesOn := errors.New("it goes on")
	if err := h.Follow(ctx, &seen, func(b *history.Batch) error {
		if b.Events[0].Seq != seen+1 {
			t.Errorf("it goes on with event %d after %d", b.Events[0].Seq, seen)
		}
		return goesOn
	}); !errors.Is(err, goesOn) {
		t.Error(err)
	}
	cancel()
	fast.Wait()
}

// away cannot be read for a number of reads.
type away struct {
	store.Backend
	left atomic.Int64
}

func (a *away) Events(ctx context.Context, from ledger.Seq) iter.Seq2[ledger.Stored, error] {
	if a.left.Add(-1) >= 0 {
		return func(yield func(ledger.Stored, error) bool) {
			yield(ledger.Stored{}, fault.New(fault.StoreFailed, "away"))
		}
	}
	return a.Backend.Events(ctx, from)
}

// TestAFailedReadCutsNoFollower: who follows the record goes on when it can be read again, and
// misses nothing.
func TestAFailedReadCutsNoFollower(t *testing.T) {
	s := ok[*sqlite.Store](t)(sqlite.Open(t.Context(), sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process}))
	defer func() { _ = s.Close() }()
	a := &away{Backend: s}
	h := &history.History{Reader: func(context.Context) (store.Backend, error) { return a, nil }}
	start, over := record(t, s, 1), errors.New("all were told")
	after, next, end := start-1, start, ledger.Seq(0)
	err := h.Follow(t.Context(), &after, func(b *history.Batch) error {
		for _, e := range b.Events {
			if e.Seq != next {
				t.Errorf("event %d comes, want %d", e.Seq, next)
			}
			next = e.Seq + 1
		}
		if end == 0 { // it follows: now the record cannot be read
			a.left.Store(math.MaxInt32)
			for a.left.Load() == math.MaxInt32 { // no read that began earlier goes on
				time.Sleep(time.Millisecond)
			}
			end = record(t, s, 3)
			a.left.Store(3)
		}
		if next > end {
			return over
		}
		return nil
	})
	if !errors.Is(err, over) || a.left.Load() >= 0 {
		t.Errorf("it ended with %v", err)
	}
}
