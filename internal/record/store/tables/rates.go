package tables

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// kindRate is the kind of the records of TakeRequests. One expires when its bucket is full.
const kindRate = "rate"

// TakeRequests implements store.Rates for processes of one machine, which have one clock.
func (s *Store) TakeRequests(ctx context.Context, key [32]byte, b store.Bucket, want int) (got int, wait time.Duration, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return 0, 0, err
		}
		e, there, err := s.Ephemeral(ctx, kindRate, key)
		if err != nil {
			return 0, 0, err
		}
		var full int64
		if there {
			full = e.Until.UnixMicro()
		} else {
			e = store.Ephemeral{Kind: kindRate, Key: key}
		}
		got, then, wait := b.Take(time.Now().UnixMicro(), full, want)
		if got == 0 && then >= full { // else it was filled more slowly before
			return 0, wait, nil
		}
		e.Until = ledger.Time(then)
		if saved, err := s.SaveEphemeral(ctx, e, store.EphemeralBounds{}); err != nil || saved {
			return got, wait, err
		}
	}
}
