package database

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// RecoverEvery is the least time between two recoveries of [Recovery.Seldom].
const RecoverEvery = time.Second

// Recovery closes the runs and changes that dead processes left open in a ledger, and records
// changes of the settings.
type Recovery struct {
	Home      *home.Home
	Changes   func(ctx context.Context, s store.Store) error // recovers changes of files
	Recovered func(runs int, owners uint64)                  // tells operators

	last  atomic.Int64 // time of the last recovery, in Unix nanoseconds; 0: none
	mu    sync.Mutex
	noted bool // changes of the settings were recorded
}

// Seldom recovers for the first caller, and then at most once in RecoverEvery: a recovery costs
// more than a call. After a failure the next caller tries again.
func (r *Recovery) Seldom(ctx context.Context, s store.Backend) error {
	now, last := time.Now().UnixNano(), r.last.Load()
	if last != 0 && (now >= last && now-last < int64(RecoverEvery) || // a clock that was set back counts as late
		!r.last.CompareAndSwap(last, now)) {
		return nil
	}
	err := r.Now(ctx, s)
	if err != nil {
		now = last
	}
	r.last.Store(now)
	return err
}

// Now recovers. It does not wait for the leases of nodes.
func (r *Recovery) Now(ctx context.Context, s store.Backend) error {
	before := s.Deaths()
	runs, err := s.RecoverKnown(ctx)
	r.Recovered(runs, s.Deaths()-before)
	if err == nil {
		err = r.note(ctx, s)
	}
	if err != nil {
		return err
	}
	return r.Changes(ctx, s)
}

// note records changes of the settings once in this process.
func (r *Recovery) note(ctx context.Context, s store.Backend) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.noted {
		return nil
	}
	err := r.Home.RecordSettings(ctx, s)
	r.noted = err == nil
	return err
}
