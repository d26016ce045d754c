package runner

import (
	"context"
	"crypto/sha256"
	"maps"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
)

// Rated is a Recorder of several nodes, which share the limits of calls a minute.
type Rated interface {
	// TakeCalls takes at most want calls of a key, to begin within six seconds, out of the most
	// that all nodes begin in any minute. It returns how many it got, when that was, and if none
	// are left, when to ask again. Before that, it gives back the unused calls that were taken at
	// an earlier time.
	TakeCalls(ctx context.Context, key []byte, most, want int, earlier int64, unused int) (got int, at int64, wait time.Duration, err error)
}

// partTime is how long a part may be used. It is a bit less than the six seconds of TakeCalls.
const partTime = 5 * time.Second

// part is this node's share of a user's calls in a minute: a tenth of the limit, so that most calls
// ask no database.
type part struct {
	mu    sync.Mutex // held while more is taken
	left  int
	at    int64     // names the part
	until time.Time // it may be used
}

// reserveShared counts a call among those of all nodes.
func (s *Sources) reserveShared(ctx context.Context, u user, most int, rated Rated) (Reservation, error) {
	p := s.part(u)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := s.now(); p.left == 0 || now.After(p.until) {
		key := sha256.Sum256([]byte(string(u.tier) + "\x00" + u.name + "\x00" + u.holder))
		got, at, wait, err := rated.TakeCalls(ctx, key[:], most, max(1, most/10), p.at, p.left)
		if err != nil {
			p.left = 0 // whether they were given back is not known
			return nil, err
		}
		if p.left, p.at, p.until = got, at, now.Add(partTime); got == 0 {
			return nil, overRate(u, most, wait)
		}
	}
	p.left--
	return &partReservation{p, p.at}, nil
}

func (s *Sources) part(u user) *part {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[u]; p != nil {
		return p
	}
	if len(s.parts) >= maxUsers { // their unused calls count as used until the minute is over
		maps.DeleteFunc(s.parts, func(_ user, p *part) bool {
			unused := p.mu.TryLock() // else it takes more at this moment
			if unused {
				unused = s.now().Sub(p.until) > time.Minute
				p.mu.Unlock()
			}
			return unused
		})
	}
	p := &part{}
	s.parts[u] = p
	return p
}

// partReservation is a call of a part. It goes back to the part if the call does not run.
type partReservation struct {
	part *part
	at   int64
}

// Given implements Reservation.
func (*partReservation) Given() grant.Amounts { return grant.Amounts{} }

// Over implements Reservation.
func (*partReservation) Over() <-chan struct{} { return nil }

// Settle implements Reservation.
func (r *partReservation) Settle(used grant.Amounts) {
	r.part.mu.Lock()
	defer r.part.mu.Unlock()
	if used.Calls == 0 && r.part.at == r.at {
		r.part.left++
	}
}
