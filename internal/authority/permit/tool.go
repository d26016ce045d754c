package permit

import (
	"context"
	"errors"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Tool is a tool that runs only under a permit. A call takes two steps: Prepare reads
// the arguments, and after the decision the runner calls [Prepared.Run]. Package typed
// makes tools whose arguments are a Go struct.
type Tool interface {
	Spec() *tool.Spec
	// Prepare reads the arguments of one call, which are valid under Spec().Input. It
	// is pure. What it cannot determine it returns as an action with Unknown set, which
	// every policy denies. An error refuses the call before any decision.
	Prepare(env tool.Env, args tool.Args) (Prepared, error)
}

// Prepared is one call of a tool, ready to be decided and run. The same arguments
// are decided and run. The zero Prepared cannot run.
type Prepared struct {
	// Actions lists everything that the call needs from the world.
	Actions []tool.Action
	// Run carries the call out, once. It reaches the world only through handles opened
	// from p. A failed call may have an output too.
	Run func(ctx context.Context, p Permit) (tool.Result, error)
	// Spends estimates the most tokens and money that the call uses, for the budgets.
	// The call reports what it used with [Permit.Spend]. Nil: it uses none.
	Spends func() Spending
}

// Ended returns the error of a call whose context has ended.
func Ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fault.Wrap(fault.ToolTimeout, context.Cause(ctx), "the call's time ran out")
	}
	return fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "the call was cancelled")
}
