package runner

import (
	"context"

	"github.com/remitrun/remit/internal/authority/grant"
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
	// Reserve reserves what a call may use, of every node of the grant: calls exactly,
	// other amounts as far as available, but never zero. fault.BudgetSpent names the
	// exhausted budget and its grant. The reserved amounts are recorded with the call's
	// intent and the used ones with its outcome (ledger.Event.Usage), so that a crash
	// loses neither.
	Reserve(ctx context.Context, run *Run, id tool.ID, want grant.Amounts) (Reservation, error)
	// Done settles everything that a run has reserved. It is called before the run's end
	// is recorded.
	Done(ctx context.Context, run *Run) error
}

// Reservation is what a call reserved of limits or budgets.
type Reservation interface {
	// Given is what the call may use; zero fields are not limited. It has no time, which
	// is charged while it passes.
	Given() grant.Amounts
	// Over is closed when the time budget is used up; the call must then end with
	// fault.BudgetSpent. Nil: time is not limited.
	Over() <-chan struct{}
	// Settle charges what the call used and releases the rest. It is called once. Use
	// beyond the reservation is charged too.
	Settle(used grant.Amounts)
}
