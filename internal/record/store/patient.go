package store

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
)

const (
	// Patience is how long a request waits for a store that fails.
	Patience = 10 * time.Second
	// LongPatience is how long an open stream does, and a call that is to begin.
	LongPatience = 30 * time.Second
	// PatientEvery is how often both try again.
	PatientEvery = 100 * time.Millisecond
)

// Patiently repeats an access to a store while that fails in a way that passes ([fault.Passing]), at an interval,
// for a time at most and until ctx ends. It returns the last error.
func Patiently(ctx context.Context, limit, every time.Duration, access func() error) error {
	for until := time.Now().Add(limit); ; {
		err := access()
		if !fault.Passing(err) || !time.Now().Before(until) || pause.For(ctx, every) != nil {
			return err
		}
	}
}
