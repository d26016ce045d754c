// Package pause waits, and reads how long a service asks to wait. Start at [For].
package pause

import (
	"context"
	"time"
)

// For waits for a time. It ends early with ctx, and returns ctx's error then.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
