// Package budget accounts for what grants spend. A call draws from its grant
// and from all that the grant descends from, at once: each node that the ledger
// keeps is charged, so that N children never outspend their parent.
//
// A process holds leased amounts of each limit ([store.Budgets]), so that most
// draws touch no disk; what is leased counts as gone for everybody else. Leases
// belong to a run. They are given back when the run is idle or over; those of a
// process that died are accounted for by the events of its run. Start at [Bank].
package budget

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Bank is where a process's runs draw from. It is safe for concurrent use.
type Bank struct {
	store store.Budgets

	mu     sync.Mutex
	purses map[ledger.Seq]*purse
	closed bool
	stop   chan struct{} // ends the goroutine that gives back what is idle; nil while there is none
	ended  chan struct{}

	waiting atomic.Int32
	news    sync.Mutex
	freed   chan struct{} // closed and replaced when something was given back
}

const (
	idleAfter = time.Second            // a run that drew nothing for so long gives back what is free
	idleEvery = 500 * time.Millisecond // how often that is looked at

	// How long a draw waits for what others hold: of calls and time they give it
	// back when they are idle, of all else when their calls end.
	patience     = 2 * idleAfter
	longPatience = 30 * time.Second
	pollEvery    = 100 * time.Millisecond
)

// New makes a bank over a store. It must be closed.
func New(s store.Budgets) *Bank {
	return &Bank{store: s, purses: map[ledger.Seq]*purse{}, freed: make(chan struct{})}
}

// Reserve takes from every kept node of the run's grant what a call may use:
// the calls and children exactly, and of bytes, tokens and money as much as is
// wanted or there is. See runner.Authority.
func (b *Bank) Reserve(ctx context.Context, run *runner.Run, id tool.ID, want grant.Amounts) (runner.Reservation, error) {
	p, err := b.purse(ctx, run)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return unlimited{}, nil
	}
	r := &reservation{purse: p, meters: p.of(id)}
	want.Time = 0 // taken while it passes
	if err := p.draw(ctx, r.meters, amounts(want), &r.given); err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Done accounts for all that a run reserved and gives back the rest. It must be
// called before the run's end is recorded.
func (b *Bank) Done(ctx context.Context, run *runner.Run) error {
	b.mu.Lock()
	p := b.purses[run.Seq]
	delete(b.purses, run.Seq)
	b.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.close(ctx)
}

// Close gives back what the runs still hold.
func (b *Bank) Close() error {
	b.mu.Lock()
	list := make([]*purse, 0, len(b.purses))
	for _, p := range b.purses {
		list = append(list, p)
	}
	clear(b.purses)
	b.closed = true
	stop := b.stop
	b.stop = nil
	b.mu.Unlock()
	if stop != nil {
		close(stop)
		<-b.ended
	}
	var errs []error
	for _, p := range list {
		errs = append(errs, p.close(context.Background()))
	}
	return errors.Join(errs...)
}

// purse gives what a run draws from; nil if nothing limits it.
func (b *Bank) purse(ctx context.Context, run *runner.Run) (*purse, error) {
	b.mu.Lock()
	p, closed := b.purses[run.Seq], b.closed
	b.mu.Unlock()
	if p != nil {
		return p, nil
	}
	if closed {
		return nil, fault.New(fault.StoreFailed, "the ledger is closed")
	}
	p, err := newPurse(b, run)
	if err != nil || p == nil {
		return nil, err
	}
	for _, n := range run.Grant.Nodes() {
		if n.Kept && len(n.Budgets.Limits()) > 0 {
			if err := b.store.OpenBudget(ctx, n.ID, n.Budgets); err != nil {
				return nil, err
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fault.New(fault.StoreFailed, "the ledger is closed")
	}
	if first := b.purses[run.Seq]; first != nil {
		return first, nil
	}
	b.purses[run.Seq] = p
	if b.stop == nil {
		b.stop, b.ended = make(chan struct{}), make(chan struct{})
		go b.giveBack(b.stop, b.ended)
	}
	return p, nil
}

// giveBack returns what idle runs hold, until stop is closed.
func (b *Bank) giveBack(stop, ended chan struct{}) {
	defer close(ended)
	t := time.NewTicker(idleEvery)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-t.C:
			for _, p := range b.others(nil) {
				if p.idle(now) {
					_ = p.settle(context.Background()) // tried again when it draws, and when its run ends
				}
			}
		}
	}
}

func (b *Bank) others(than *purse) []*purse {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*purse
	for _, p := range b.purses {
		if p != than {
			list = append(list, p)
		}
	}
	return list
}

// gather gives back what this process's other runs hold free of a meter, and
// reports whether there was anything.
func (b *Bank) gather(ctx context.Context, id store.MeterID, than *purse) (bool, error) {
	found := false
	for _, p := range b.others(than) {
		if p.holds(id) {
			found = true
			if err := p.settle(ctx); err != nil {
				return false, err
			}
		}
	}
	return found, nil
}

// tell wakes who waits for something to be given back.
func (b *Bank) tell() {
	if b.waiting.Load() == 0 {
		return
	}
	b.news.Lock()
	close(b.freed)
	b.freed = make(chan struct{})
	b.news.Unlock()
}

// await waits until something was given back here, or for a moment: elsewhere
// it may have been.
func (b *Bank) await(ctx context.Context) {
	b.news.Lock()
	freed := b.freed
	b.news.Unlock()
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-freed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// spent says in words what is used up.
func (b *Bank) spent(ctx context.Context, m *meter, cause error) error {
	text := ""
	if list, err := b.store.Spent(ctx, m.id.Node); err == nil {
		for _, s := range list {
			if s.ID == m.id {
				text = m.state(s)
			}
		}
	}
	return fault.Wrap(fault.BudgetSpent, cause, "the budget of grant %s (%q) has no %s left%s", m.id.Node, m.holder, m.words(), text).
		ForOperator("remit grant inspect %s shows its budgets; ask who issued it for more", grant.Short(m.id.Node))
}
