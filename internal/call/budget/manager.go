// Package budget accounts for what grants spend. A call draws from its grant and from
// all of the grant's ancestors at once: each node that is kept in the ledger is charged,
// so that children together never outspend their parent.
//
// A run leases amounts of each limit from the store ([store.Budgets]), so that most draws
// need no disk access. Leased amounts are unavailable to others. They are returned when
// the run is idle or has ended; the leases of a crashed process are settled from the
// events of its runs. Start at [Manager].
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

// Manager accounts for the budgets of a process's runs. It is safe for concurrent use.
type Manager struct {
	store store.Budgets

	mu     sync.Mutex
	runs   map[ledger.Seq]*runBudget
	closed bool
	stop   chan struct{} // ends the goroutine that returns idle leases; nil: not started
	ended  chan struct{}

	waiting atomic.Int32
	freedMu sync.Mutex
	freed   chan struct{} // closed and replaced when a lease was returned
}

const (
	idleAfter = time.Second            // after which a run without draws returns its free leases
	idleEvery = 500 * time.Millisecond // how often idle runs are looked for

	// How long a draw waits for amounts that other runs lease: calls and time are
	// returned when they are idle, other amounts when their calls end.
	patience     = 2 * idleAfter
	longPatience = 30 * time.Second
	pollEvery    = 100 * time.Millisecond
)

// New makes a manager of a store's budgets. The caller must close it.
func New(s store.Budgets) *Manager {
	return &Manager{store: s, runs: map[ledger.Seq]*runBudget{}, freed: make(chan struct{})}
}

// Reserve reserves the possible use of a call, of every kept node of the run's grant: calls and
// children exactly, bytes, tokens and money as far as available. See runner.Authority.
func (b *Manager) Reserve(ctx context.Context, run *runner.Run, id tool.ID, want grant.Amounts) (runner.Reservation, error) {
	p, err := b.budgetOf(ctx, run)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return unlimited{}, nil
	}
	r := &reservation{run: p, meters: p.metersOf(id)}
	want.Time = 0 // charged while it passes
	if err := p.draw(ctx, r.meters, amounts(want), &r.given); err != nil {
		return nil, err
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

// Done settles everything that a run reserved and returns its leases. It must be called
// before the run's end is recorded.
func (b *Manager) Done(ctx context.Context, run *runner.Run) error {
	b.mu.Lock()
	p := b.runs[run.Seq]
	delete(b.runs, run.Seq)
	b.mu.Unlock()
	if p == nil {
		return nil
	}
	return p.close(ctx)
}

// Close settles all runs and returns their leases.
func (b *Manager) Close() error {
	b.mu.Lock()
	list := make([]*runBudget, 0, len(b.runs))
	for _, p := range b.runs {
		list = append(list, p)
	}
	clear(b.runs)
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

// budgetOf returns the budget of a run; nil if nothing limits it.
func (b *Manager) budgetOf(ctx context.Context, run *runner.Run) (*runBudget, error) {
	b.mu.Lock()
	p, closed := b.runs[run.Seq], b.closed
	b.mu.Unlock()
	if p != nil {
		return p, nil
	}
	if closed {
		return nil, fault.New(fault.StoreFailed, "the ledger is closed")
	}
	p, err := newRunBudget(b, run)
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
	if first := b.runs[run.Seq]; first != nil {
		return first, nil
	}
	b.runs[run.Seq] = p
	if b.stop == nil {
		b.stop, b.ended = make(chan struct{}), make(chan struct{})
		go b.returnIdle(b.stop, b.ended)
	}
	return p, nil
}

// returnIdle returns the leases of idle runs, until stop is closed.
func (b *Manager) returnIdle(stop, ended chan struct{}) {
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
					_ = p.settle(context.Background()) // tried again at its next draw, and when the run ends
				}
			}
		}
	}
}

func (b *Manager) others(than *runBudget) []*runBudget {
	b.mu.Lock()
	defer b.mu.Unlock()
	var list []*runBudget
	for _, p := range b.runs {
		if p != than {
			list = append(list, p)
		}
	}
	return list
}

// returnFrom returns what this process's other runs lease of a meter and do not use. It
// reports whether there was anything.
func (b *Manager) returnFrom(ctx context.Context, id store.MeterID, than *runBudget) (bool, error) {
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

// wakeWaiters wakes the draws that wait for returned leases.
func (b *Manager) wakeWaiters() {
	if b.waiting.Load() == 0 {
		return
	}
	b.freedMu.Lock()
	close(b.freed)
	b.freed = make(chan struct{})
	b.freedMu.Unlock()
}

// awaitReturn waits until this process returned a lease, but at most pollEvery: another
// process may have returned one.
func (b *Manager) awaitReturn(ctx context.Context) {
	b.freedMu.Lock()
	freed := b.freed
	b.freedMu.Unlock()
	t := time.NewTimer(pollEvery)
	defer t.Stop()
	select {
	case <-freed:
	case <-t.C:
	case <-ctx.Done():
	}
}

// exhausted is the error of a budget that is used up.
func (b *Manager) exhausted(ctx context.Context, m *meter, cause error) error {
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
