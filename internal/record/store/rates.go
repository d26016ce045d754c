package store

import (
	"context"
	"math"
	"time"
)

// Rates has buckets of requests that all processes of a ledger share.
type Rates interface {
	// TakeRequests takes at most want requests out of a key's bucket, which gains some each
	// second until it is full. It returns how many it got, and if none are left, when there
	// is one again.
	TakeRequests(ctx context.Context, key [32]byte, b Bucket, want int) (got int, wait time.Duration, err error)
}

// slowest is the least Each of a bucket: a request in eleven days.
const slowest = 1e-6

// Bucket is how many requests may be made.
type Bucket struct {
	Each float64 // a second
	Most int     // at once: a full bucket
}

// Gap is the time, in microseconds, in which the bucket gains a request.
func (b Bucket) Gap() float64 { return 1e6 / max(b.Each, slowest) }

// Take takes at most want requests out of a bucket that is full at a time, in microseconds.
// It returns how many there are, when the bucket is full then, and for none, the time to wait.
func (b Bucket) Take(now, full int64, want int) (got int, then int64, wait time.Duration) {
	gap, most := b.Gap(), float64(max(b.Most, 1))
	full = max(now, min(full, now+int64(most*gap)))
	left := most - float64(full-now)/gap
	if left < 1 {
		return 0, full, time.Duration(math.Ceil((1-left)*gap)) * time.Microsecond
	}
	got = min(want, int(left))
	return got, full + int64(float64(got)*gap), 0
}
