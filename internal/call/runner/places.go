package runner

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

// Placed is a Recorder of several nodes, which share the limits of calls at once.
type Placed interface {
	// TakePlaces notes how many calls of a key this node wants to have under way, of the most
	// that all nodes together may. It returns how many it may have, which are never fewer than
	// it has. The places of a node that has died are free.
	TakePlaces(ctx context.Context, key []byte, most, want int) (got int, err error)
}

// placeEvery is how often a call that waits asks for a place that another node may have left.
const placeEvery = 25 * time.Millisecond

// places are the calls of a provider that this node has under way.
type places struct {
	mu   sync.Mutex // held while the database is told
	held int
}

// enterShared waits for a place among the calls of all nodes, until late.
func (s *Sources) enterShared(ctx context.Context, of provider, most int, late <-chan time.Time, placed Placed) (leave func(), err error) {
	s.mu.Lock()
	p := s.places[of]
	if p == nil {
		p = &places{}
		s.places[of] = p
	}
	s.mu.Unlock()
	key := sha256.Sum256([]byte(string(of.tier) + "\x00" + of.name))
	tell := func(ctx context.Context, more int) (bool, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		got, err := placed.TakePlaces(ctx, key[:], most, p.held+more)
		if more < 0 || err == nil && got == p.held+more {
			p.held += more // also if the database does not know it yet: the next call tells it
			return true, err
		}
		if err != nil { // it may have been noted, and nobody uses it
			_, _ = placed.TakePlaces(context.WithoutCancel(ctx), key[:], most, p.held)
		}
		return false, err
	}
	var again *time.Ticker
	for {
		if ok, err := tell(ctx, 1); ok || err != nil {
			if err != nil {
				return nil, err
			}
			return func() { _, _ = tell(context.WithoutCancel(ctx), -1) }, nil
		}
		if again == nil {
			again = time.NewTicker(placeEvery)
			defer again.Stop()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late:
			return nil, errNoRoom
		}
	}
}
