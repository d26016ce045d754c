package admission

import (
	"context"
	"crypto/sha256"
	"maps"
	"math"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

// partTime is how long this process may use a part that it took of a shared bucket.
const partTime = time.Second

// Shared has a token bucket for each key, which all processes of a ledger share. A process
// takes a tenth of a second's requests at a time, so that most requests ask no database. It
// is safe for concurrent use.
type Shared struct {
	bucket store.Bucket
	part   int // requests that are taken at a time
	rates  func(context.Context, [32]byte, store.Bucket, int) (int, time.Duration, error)

	mu    sync.Mutex
	parts map[string]*part
}

type part struct {
	mu    sync.Mutex // held while more is taken
	left  int
	until time.Time
}

// NewShared makes buckets as NewRates does; take keeps them. A process may still have a part when
// the bucket is full again, so the bucket is smaller than burst: by the requests of one partTime.
func NewShared(each float64, burst int, take func(ctx context.Context, key [32]byte, b store.Bucket, want int) (got int, wait time.Duration, err error)) *Shared {
	s := &Shared{part: int(max(1, min(each/10, math.MaxInt32))), rates: take, parts: map[string]*part{}}
	s.bucket = store.Bucket{Each: each, Most: burst}
	if s.part > 1 {
		s.bucket.Most = max(s.part, burst-int(math.Ceil(each*partTime.Seconds())))
	}
	return s
}

// Take takes a request from the bucket of every key. It returns how long to wait if one of
// them has none. Equal keys count once.
func (s *Shared) Take(ctx context.Context, keys ...string) (wait time.Duration, err error) {
	for i, key := range keys {
		if i > 0 && key == keys[i-1] {
			continue
		}
		if wait, err = s.take(ctx, key); wait > 0 || err != nil {
			return wait, err
		}
	}
	return 0, nil
}

func (s *Shared) take(ctx context.Context, key string) (time.Duration, error) {
	p := s.partOf(key)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); p.left == 0 || now.After(p.until) {
		got, wait, err := s.rates(ctx, sha256.Sum256([]byte("requests\x00"+key)), s.bucket, s.part)
		if err != nil || got == 0 {
			return max(wait, 1), err
		}
		p.left, p.until = got, now.Add(partTime)
	}
	p.left--
	return 0, nil
}

// partOf gives the part of a key. Parts that may not be used any more are forgotten once they are many.
func (s *Shared) partOf(key string) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.parts[key]
	if p != nil {
		return p
	}
	if len(s.parts) >= maxBuckets {
		now := time.Now()
		maps.DeleteFunc(s.parts, func(_ string, p *part) bool {
			idle := p.mu.TryLock() // else it takes more at this moment
			if idle {
				idle = now.After(p.until)
				p.mu.Unlock()
			}
			return idle
		})
	}
	p = &part{}
	s.parts[key] = p
	return p
}
