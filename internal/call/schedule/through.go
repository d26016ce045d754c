package schedule

import (
	"context"
	"errors"
	"sync"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Through is the Caller that takes every step through a runner.
type Through struct {
	Runner *runner.Runner
	Run    *runner.Run
	// Load gives the output that an event holds.
	Load func(ctx context.Context, at ledger.Seq) (map[string]any, error)
	// After, if not nil, sees every call and skipped step once it is recorded.
	// Its error stops everything.
	After func(ctx context.Context, c runner.Call, o runner.Outcome) error

	mu sync.Mutex
	at map[int]ledger.Seq // where large outputs are
}

// Call executes a step.
func (t *Through) Call(ctx context.Context, index int, step *plan.Step, args tool.Args) Outcome {
	c := t.call(index, step, args)
	o := t.Runner.Execute(ctx, t.Run, c)
	out := Outcome{Status: o.Status, Output: o.Output, Large: o.Size > LargeOutput, Fatal: o.Fatal}
	if out.Large {
		out.Output = nil
		t.mu.Lock()
		if t.at == nil {
			t.at = map[int]ledger.Seq{}
		}
		t.at[index] = o.Seq
		t.mu.Unlock()
	}
	out.Unasked = o.Status == tool.StatusInterrupted && o.Decision.Effect == policy.Ask && !o.Approved
	if o.Err != nil {
		out.Code, out.Message = fault.CodeOf(o.Err), fault.Message(o.Err)
	}
	if err := t.callAfter(ctx, c, o); err != nil {
		out.Fatal = errors.Join(out.Fatal, err)
	}
	return out
}

// Skip records a step that does not run.
func (t *Through) Skip(ctx context.Context, index int, step *plan.Step, reason string) error {
	c := t.call(index, step, nil)
	return t.recorded(ctx, c, t.Runner.Skip(ctx, t.Run, c, reason))
}

// Fail records a step whose call could not be made.
func (t *Through) Fail(ctx context.Context, index int, step *plan.Step, args tool.Args, err error) error {
	c := t.call(index, step, args)
	return t.recorded(ctx, c, t.Runner.Refuse(ctx, t.Run, c, err))
}

// Output loads a large output again.
func (t *Through) Output(ctx context.Context, index int) (map[string]any, error) {
	t.mu.Lock()
	at := t.at[index]
	t.mu.Unlock()
	return t.Load(ctx, at)
}

func (t *Through) call(index int, step *plan.Step, args tool.Args) runner.Call {
	return runner.Call{Index: index, Step: step.ID, Name: step.Name, Tool: step.Tool, Args: args, Commitment: step.Commitment}
}

func (t *Through) recorded(ctx context.Context, c runner.Call, o runner.Outcome) error {
	return errors.Join(o.Fatal, t.callAfter(ctx, c, o))
}

func (t *Through) callAfter(ctx context.Context, c runner.Call, o runner.Outcome) error {
	if t.After != nil && o.Fatal == nil {
		return t.After(ctx, c, o)
	}
	return nil // the caller reports an error that stops everything
}
