// Package admission limits the requests, connections and other resources that clients of
// a service use, before and after they are authenticated. Start at [NewRates], [NewSeats]
// and [Door].
//
// Left out on purpose: admission knows no grants. Its users choose the keys that it counts
// by: a client's address, a person, or a grant and its root grant.
package admission

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// maxBuckets is how many keys of one Rates can have a bucket that is not full.
const maxBuckets = 10000

// sweepEvery is the shortest time between two searches for full buckets.
const sweepEvery = 100 * time.Millisecond

// Rates has a token bucket for each key. It is safe for concurrent use.
type Rates struct {
	each  float64 // a second
	burst float64

	mu    sync.Mutex
	all   map[string]*bucket
	swept time.Time
}

type bucket struct {
	left float64
	at   time.Time
}

// NewRates makes buckets that hold burst tokens at first, and gain each tokens a second.
func NewRates(each float64, burst int) *Rates {
	return &Rates{each: each, burst: float64(burst), all: map[string]*bucket{}}
}

// Take takes a token from the bucket of every key, and reports whether each had one. Equal
// keys count once. While too many keys are in use, a new key has no tokens: forgetting
// another one would favour those who make the most requests.
func (r *Rates) Take(now time.Time, keys ...string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, key := range keys {
		if i > 0 && key == keys[i-1] {
			continue
		}
		b := r.bucket(key, now)
		if b == nil || b.left < 1 {
			return false
		}
		b.left--
	}
	return true
}

// bucket gives a key's bucket with its tokens until now; nil: there are too many buckets.
// The caller holds the lock.
func (r *Rates) bucket(key string, now time.Time) *bucket {
	b := r.all[key]
	if b == nil {
		if len(r.all) >= maxBuckets && now.Sub(r.swept) >= sweepEvery {
			r.sweep(now)
		}
		if len(r.all) >= maxBuckets {
			return nil
		}
		b = &bucket{left: r.burst, at: now}
		r.all[key] = b
	}
	b.left = min(r.burst, b.left+r.each*now.Sub(b.at).Seconds())
	b.at = now
	return b
}

// sweep drops full buckets.
func (r *Rates) sweep(now time.Time) {
	r.swept = now
	for k, b := range r.all {
		if b.left+r.each*now.Sub(b.at).Seconds() >= r.burst {
			delete(r.all, k)
		}
	}
}

// Seats has a fixed number of seats that are taken for a while. It is safe for concurrent use.
type Seats struct {
	most int

	mu  sync.Mutex
	all int
	of  map[string]int
}

// NewSeats makes a number of seats.
func NewSeats(most int) *Seats { return &Seats{most: most, of: map[string]int{}} }

// Take takes a seat for a key; false: the key has as many as are free. So one key can take half
// of the seats, further keys take less, and the last seats are for keys that have none. The
// function that it returns gives the seat back, once.
func (s *Seats) Take(key string) (release func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[key] >= s.most-s.all {
		return nil, false
	}
	s.all++
	s.of[key]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all--
		if s.of[key]--; s.of[key] == 0 {
			delete(s.of, key)
		}
	}), true
}

// Turns lets a number of users of each key work at the same time. The others wait, and the longest
// waiters are first. It is safe for concurrent use.
type Turns struct {
	each int

	mu sync.Mutex
	of map[string]*line
}

// line is the users of a key.
type line struct {
	working chan struct{}
	all     int // who work or wait; guarded by the lock of Turns
}

// NewTurns makes turns, each at a time for a key.
func NewTurns(each int) *Turns { return &Turns{each: each, of: map[string]*line{}} }

// Wait waits for a turn until ctx ends, and reports whether there was one. The function that it
// returns ends the turn, once.
func (t *Turns) Wait(ctx context.Context, key string) (leave func(), ok bool) {
	t.mu.Lock()
	l := t.of[key]
	if l == nil {
		l = &line{working: make(chan struct{}, t.each)}
		t.of[key] = l
	}
	l.all++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.all--; l.all == 0 {
			delete(t.of, key)
		}
	}
	select {
	case l.working <- struct{}{}: // channels serve those who wait in order
		return sync.OnceFunc(func() { <-l.working; forget() }), true
	case <-ctx.Done():
		forget()
		return nil, false
	}
}

// Address is the key of a remote address: an IPv4 address, or the /64 network of an IPv6
// address, which usually belongs to one client.
func Address(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}
