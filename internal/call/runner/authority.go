package runner

import (
	"context"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
)

// Authority says of grants whether they may be used at this moment, and counts
// what they spend over runs and processes. Packages authority and budget do it
// for grants that the ledger keeps.
type Authority interface {
	// Check gives nil while every node of the grant may be used: it is in its time
	// and neither revoked nor paused. It fails closed: standing that cannot be
	// told is an error.
	Check(ctx context.Context, g grant.Grant) error
	// Watch gives a context that ends, with the reason as its cause, once Check
	// would fail. It is for calls that are under way.
	Watch(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc)
	// Reserve takes from every node of the grant what a call may use: of the
	// calls exactly, of all else as much of it as there is, but not nothing.
	// fault.BudgetSpent names what is used up, and whose.
	// What it gives is recorded with the call's intent, what is settled with its
	// outcome (ledger.Event.Usage), so that both can be told after a crash.
	Reserve(ctx context.Context, run *Run, id tool.ID, want grant.Amounts) (Reservation, error)
	// Done accounts for all that a run has reserved: before its end is recorded.
	Done(ctx context.Context, run *Run) error
}

// Reservation is what a call was given of its grant's budgets.
type Reservation interface {
	// Given is what the call may use; a zero field means no limit of any node.
	// (A call that may use none of something is not given a reservation.) Time is
	// not in it: it is taken while it passes.
	Given() grant.Amounts
	// Over is closed once no node has time left for the call; nil: none limits it.
	// The call must then be ended, for fault.BudgetSpent.
	Over() <-chan struct{}
	// Settle accounts for what the call really used, and gives back the rest.
	// It is called once. More than was given is charged as well.
	Settle(used grant.Amounts)
}
