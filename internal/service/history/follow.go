package history

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// followEvery is how often the ledger is asked for new events: other processes write to it too.
const followEvery = 100 * time.Millisecond

// Follow emits events as they are recorded, those after a position first (nil: none), until
// ctx ends or emit fails.
func (h *History) Follow(ctx context.Context, after *ledger.Seq, emit func(AuditEvent) error) error {
	st, err := h.Reader(ctx)
	if err != nil {
		return err
	}
	var last ledger.Seq
	if after != nil {
		last = *after
	} else if last, err = newest(ctx, st); err != nil {
		return err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		au := auditor{st: st, runs: map[ledger.Seq]uuid.UUID{}}
		for ev, err := range st.Events(ctx, last+1) {
			if err != nil {
				return err
			}
			e, err := au.view(ctx, ev)
			if err == nil {
				err = emit(e)
			}
			if err != nil {
				return err
			}
			last = ev.Seq
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// newest gives the position of the newest event; 0: there is none.
func newest(ctx context.Context, st store.Store) (ledger.Seq, error) {
	for ev, err := range st.Find(ctx, store.EventFilter{}) {
		return ev.Seq, err
	}
	return 0, nil
}
