package remit

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
)

// HookStage is where a call is when [Options.Around] is called.
type HookStage string

// The stages of calls.
const (
	HookAsked  HookStage = "asked"  // a person is about to be asked for approval
	HookBefore HookStage = "before" // the call was allowed and is about to run
	HookAfter  HookStage = "after"  // the call ran
	HookDenied HookStage = "denied" // the call was refused
)

// HookRefused is the code of calls that [Options.Around] refused.
const HookRefused = fault.HookRefused

// HookEvent describes a call to [Options.Around].
type HookEvent struct {
	Stage   HookStage
	Run     string
	Session string // of an agent; "": none
	Holder  string // of the grant that the call is under
	Index   int
	Step    string
	Tool    string
	Risk    string          // "low", "medium", "high" or "critical"
	Args    json.RawMessage // as recorded
	Status  Status          // of HookAfter and HookDenied
	Err     error           // of HookAfter and HookDenied: why the call did not complete
	Reason  string          // of HookAsked: why approval is needed
}

// hookOf makes a hook of the engine of a program's function.
func hookOf(around func(context.Context, HookEvent) (string, error)) runner.Hook {
	return runner.Hook{Handle: func(ctx context.Context, e runner.HookEvent) (string, error) {
		note, err := around(ctx, hookEvent(e))
		if err != nil {
			err = fault.Wrap(fault.HookRefused, err, "%v", err) // the program's text may be shown
		}
		return note, err
	}}
}

func hookEvent(e runner.HookEvent) HookEvent {
	out := HookEvent{
		Stage: HookStage(e.Stage), Run: e.Run.String(), Holder: e.Holder, Index: e.Index, Step: e.Step, Tool: string(e.Tool),
		Risk: e.Risk.String(), Args: e.Args, Err: e.Err, Reason: e.Reason,
	}
	if e.Session != uuid.Nil {
		out.Session = e.Session.String()
	}
	if e.Stage == runner.HookAfter || e.Stage == runner.HookDenied {
		out.Status = Status(e.Status.String())
	}
	return out
}

// hooks are the hooks of the runtime's calls.
func (rt *Runtime) hooks() []runner.Hook {
	if rt.opts.Around == nil {
		return nil
	}
	return []runner.Hook{hookOf(rt.opts.Around)}
}
