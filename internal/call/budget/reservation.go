package budget

import (
	"context"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
)

// slice is how much time a call takes at once, and again while it runs.
const slice = 2 * time.Second

// reservation is what one call took.
type reservation struct {
	purse  *purse
	meters []*meter

	mu    sync.Mutex
	given vector
	over  chan struct{} // nil: nothing limits its time
	timer *time.Timer
	began time.Time
	done  bool
}

// unlimited is the reservation of a run that nothing limits.
type unlimited struct{}

func (unlimited) Given() grant.Amounts  { return grant.Amounts{} }
func (unlimited) Over() <-chan struct{} { return nil }
func (unlimited) Settle(grant.Amounts)  {}

// start takes the first slice of time.
func (r *reservation) start(ctx context.Context) error {
	timed := false
	for _, m := range r.meters {
		timed = timed || m.field == elapsed
	}
	if !timed {
		return nil
	}
	r.over, r.began = make(chan struct{}), time.Now()
	if err := r.more(ctx); err != nil {
		r.Settle(grant.Amounts{})
		return err
	}
	return nil
}

// more takes a slice of time and sees to the next.
func (r *reservation) more(ctx context.Context) error {
	var got vector
	if err := r.purse.draw(ctx, r.meters, vector{elapsed: slice.Microseconds()}, &got); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.given[elapsed] += got[elapsed]
	if r.done { // the call ended meanwhile
		r.purse.back(r.meters, vector{elapsed: got[elapsed]}, vector{})
		return nil
	}
	left := time.Duration(r.given[elapsed])*time.Microsecond - time.Since(r.began)
	r.timer = time.AfterFunc(left*9/10, r.renew)
	return nil
}

// renew takes more time before what was taken is over, or says that it is.
func (r *reservation) renew() {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if r.more(ctx) == nil {
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
	r.purse.back(r.meters, r.given, amounts(used))
}

// back accounts for what was taken: used, or free again.
func (p *purse) back(ms []*meter, given, used vector) {
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
	p.bank.tell()
}
