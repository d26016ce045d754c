package store_test

import (
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

func TestBucketTake(t *testing.T) {
	const now = 1_000_000_000
	for name, c := range map[string]struct {
		bucket    store.Bucket
		full      int64
		want, got int
		then      int64
		wait      time.Duration
	}{
		"full":                         {store.Bucket{Each: 10, Most: 5}, 0, 2, 2, now + 200_000, 0},
		"less than is wanted":          {store.Bucket{Each: 10, Most: 5}, now + 300_000, 5, 2, now + 500_000, 0},
		"almost one":                   {store.Bucket{Each: 10, Most: 5}, now + 400_001, 1, 0, now + 400_001, time.Microsecond},
		"empty":                        {store.Bucket{Each: 10, Most: 5}, now + 500_000, 1, 0, now + 500_000, 100 * time.Millisecond},
		"filled later than it can be":  {store.Bucket{Each: 10, Most: 5}, now + 1e12, 1, 0, now + 500_000, 100 * time.Millisecond},
		"no size":                      {store.Bucket{Each: 10}, 0, 5, 1, now + 100_000, 0},
		"no rate":                      {store.Bucket{Most: 1}, now, 1, 1, now + 1e12, 0},
		"many in each microsecond":     {store.Bucket{Each: 1e9, Most: 1e9}, 0, 1e8, 1e8, now + 100_000, 0},
		"a third of a second for each": {store.Bucket{Each: 3, Most: 3}, now + 666_666, 1, 1, now + 999_999, 0},
	} {
		got, then, wait := c.bucket.Take(now, c.full, c.want)
		if got != c.got || then != c.then || wait != c.wait {
			t.Errorf("%s: got %d, full at %d, wait %s; want %d, %d, %s", name, got, then-now, wait, c.got, c.then-now, c.wait)
		}
	}
}
