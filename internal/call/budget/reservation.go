package budget

import (
	"context"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
)

// slice is how much time a call draws at once, and again while it runs.
const slice = 2 * time.Second

// reservation holds the amounts that one call has drawn.
type reservation struct {
	run    *runBudget
	meters []*meter

	mu    sync.Mutex
	given vector
	over  chan struct{} // nil: time is not limited
	timer *time.Timer
	began time.Time
	done  bool
}

// unlimited is the reservation of a run without limits.
type unlimited struct{}

func (unlimited) Given() grant.Amounts  { return grant.Amounts{} }
func (unlimited) Over() <-chan struct{} { return nil }
func (unlimited) Settle(grant.Amounts)  {}

// start draws the first slice of time.
func (r *reservation) start(ctx context.Context) error {
	timed := false
	for _, m := range r.meters {
		timed = timed || m.field == elapsed
	}
	if !timed {
		return nil
	}
	r.over, r.began = make(chan struct{}), time.Now()
	if err := r.drawTime(ctx); err != nil {
		r.Settle(grant.Amounts{})
		return err
	}
	return nil
}

// drawTime draws a slice of time and schedules the next.
func (r *reservation) drawTime(ctx context.Context) error {
	var got vector
	if err := r.run.draw(ctx, r.meters, vector{elapsed: slice.Microseconds()}, &got); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given[elapsed] += got[elapsed]
	if r.done { // the call ended meanwhile
		r.run.release(r.meters, vector{elapsed: got[elapsed]}, vector{})
		return nil
	}
	left := time.Duration(r.given[elapsed])*time.Microsecond - time.Since(r.began)
	r.timer = time.AfterFunc(left*9/10, r.renew)
	return nil
}

// renew draws more time before the drawn time is over, or closes over when it is.
func (r *reservation) renew() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if r.drawTime(ctx) == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	left := time.Duration(r.given[elapsed])*time.Microsecond - time.Since(r.began)
	r.timer = time.AfterFunc(left, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.done {
			close(r.over)
		}
	})
}

// Given implements runner.Reservation.
func (r *reservation) Given() grant.Amounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := grant.AmountsOf(r.given[:])
	g.Time = 0
	return g
}

// Over implements runner.Reservation.
func (r *reservation) Over() <-chan struct{} { return r.over }

// Settle implements runner.Reservation.
func (r *reservation) Settle(used grant.Amounts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	if r.timer != nil {
		r.timer.Stop()
	}
	r.run.release(r.meters, r.given, amounts(used))
}

// release charges the used part of a draw and frees the rest.
func (p *runBudget) release(ms []*meter, given, used vector) {
	p.mu.Lock()
	for _, m := range ms {
		g, u := given[m.field], max(0, used[m.field])
		if p.over {
			continue // accounted for as used when the run was closed
		}
		m.taken -= g
		m.free += g - u
		m.spent += u
	}
	p.mu.Unlock()
	p.manager.wakeWaiters()
}
