package runner

import (
	"context"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Authority tells whether a grant may be used now, and accounts for what grants spend
// over runs and processes. Packages standing and budget implement it for grants that are
// kept in the ledger.
type Authority interface {
	// Check returns nil while every node of the grant may be used: none is expired,
	// revoked or paused. It fails closed: an unknown status is an error.
	Check(ctx context.Context, g grant.Grant) error
	// Watch returns a context for running calls. It ends once Check would fail, with the
	// reason as its cause.
	Watch(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc)
	// Reserve reserves the possible use of a call, of every node of the grant: calls exactly, other amounts as far
	// as available, but never zero. Nil: the grant has no budgets. fault.BudgetSpent names the exhausted budget and
	// its grant. The reserved amounts are recorded with the call's intent and the used ones with its outcome
	// (ledger.Event.Usage), so that a crash loses neither.
	Reserve(ctx context.Context, run *Run, id tool.ID, want grant.Amounts) (Reservation, error)
	// Done settles everything that a run has reserved. It is called before the run's end
	// is recorded.
	Done(ctx context.Context, run *Run) error
}

// Patient is an Authority over a ledger that may be slow, or away for a moment.
type Patient interface {
	// Await is Check that waits for the ledger while it cannot be read.
	Await(ctx context.Context, g grant.Grant) error
	// Sight returns a context for calls that act. It ends when the ledger cannot be read for a
	// while, so that a revocation could not be seen. Calls that wait need none.
	Sight(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc)
}

// authority returns the authority of a grant: the runner's, or, for a grant that the ledger
// does not keep, one that knows the grant's own times alone. The limits of the policies are
// counted for each run in either case.
func (r *Runner) authority(g grant.Grant) Authority {
	switch {
	case !g.Kept():
		return unkept{r}
	case r.Authority == nil:
		return absent{unkept{r}}
	}
	return r.Authority
}

// unkept is the authority of grants that the ledger does not keep: nobody can revoke them,
// and they have no budgets, because they end with their run.
type unkept struct{ r *Runner }

// Check implements Authority.
func (u unkept) Check(_ context.Context, g grant.Grant) error { return g.At(u.r.now()) }

// Watch implements Authority.
func (u unkept) Watch(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc) {
	end := g.Expires()
	if end.IsZero() {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, end.Sub(u.r.now()), g.At(end))
}

// Reserve implements Authority.
func (unkept) Reserve(context.Context, *Run, tool.ID, grant.Amounts) (Reservation, error) {
	return nil, nil //nolint:nilnil // there are no budgets
}

// Done implements Authority.
func (unkept) Done(context.Context, *Run) error { return nil }

// absent is the authority of kept grants where the runner has none: they cannot be used.
type absent struct{ unkept }

// Check implements Authority.
func (absent) Check(_ context.Context, g grant.Grant) error {
	return fault.New(fault.Denied, "grant %s: its revocation status cannot be checked here", g.ID())
}

// Reserve implements Authority.
func (a absent) Reserve(ctx context.Context, run *Run, _ tool.ID, _ grant.Amounts) (Reservation, error) {
	return nil, a.Check(ctx, run.Grant)
}

// Reservation is what a call reserved of limits or budgets.
type Reservation interface {
	// Given returns the amounts that the call may use; zero fields are not limited. It has no time,
	// which is charged while it passes.
	Given() grant.Amounts
	// Over is closed when the time budget is used up; the call must then end with
	// fault.BudgetSpent. Nil: time is not limited.
	Over() <-chan struct{}
	// Settle charges what the call used and releases the rest. It is called once. Use
	// beyond the reservation is charged too.
	Settle(used grant.Amounts)
}
