package remit

import (
	"cmp"
	"context"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/runs"
)

// Session is a run whose calls come one by one. It is safe for concurrent use;
// calls side by side share the policy's limits.
type Session struct{ s *runs.Session }

// Run is the ID of the session's run.
func (s *Session) Run() string { return s.s.Result().ID.String() }

// Call makes one call of a tool and waits for it. args fit the tool's schema: nil, bool, string,
// numbers, []any, map[string]any, or their forms from encoding/json.
//
// The error is nil only if the call completed. Otherwise it carries a code
// ([Denied], [NeedsApproval], [LimitReached], [ToolFailed], [ToolTimeout], ...)
// and the same error is in the Result, which may have an output all the same: a
// failed command keeps what it printed. Everything is recorded, refusals
// included. If it cannot be recorded, the call is not made, and neither is any
// other of the session.
//
// Ending ctx cancels the call.
func (s *Session) Call(ctx context.Context, toolID string, args map[string]any) (Result, error) {
	o, err := s.s.Call(ctx, runner.Call{Tool: tool.ID(toolID), Args: args})
	if err != nil {
		return Result{}, err
	}
	return resultOf(s.Run(), o)
}

// End waits for calls that are under way and records how the session ended:
// denied if a call was, else failed if one did not complete, else completed.
// After it no call is made. Ending it twice is not an error.
func (s *Session) End(ctx context.Context) (Run, error) {
	err := s.s.End(ctx)
	return runOf(s.s.Result()), err
}

// Question is a policy's question to a person.
type Question struct {
	Run      string
	Index    int // the call's place in its run, from 1
	Tool     string
	Risk     string         // low, medium, high or critical
	Args     map[string]any // as decoded from JSON, numbers as json.Number
	Actions  []string       // the call's actions, as `files.write "/work/out/a.txt"`
	Decision Decision       // which rule asks, and why
}

// Answer is a person's answer. The zero Answer says no.
type Answer struct {
	Yes    bool
	By     string // who answered, for the record, as "user:ann"
	Where  string // and by which way, as "web"
	Reason string // recorded with the answer
}

// askFunction puts questions to a function. A yes holds for the one call that asked.
func askFunction(f func(context.Context, Question) (Answer, error), person string) func(context.Context, approval.Case) (store.Vote, error) {
	return func(ctx context.Context, c approval.Case) (store.Vote, error) {
		ask, err := questionOf(c.Asked)
		if err != nil {
			return store.Vote{}, err
		}
		a, err := f(ctx, ask)
		if err != nil {
			return store.Vote{}, err
		}
		return store.Vote{Yes: a.Yes, By: cmp.Or(a.By, person), Where: cmp.Or(a.Where, "program"), Reason: a.Reason}, nil
	}
}

func questionOf(q runner.Question) (Question, error) {
	ask := Question{
		Run: q.Run.ID.String(), Index: q.Call.Index, Tool: string(q.Call.Tool), Risk: q.Spec.Risk.String(),
		Decision: decisionOf(q.Decision, false),
	}
	if err := copyJSON(q.Call.Args, &ask.Args); err != nil { // a copy: the decided arguments cannot be changed
		return Question{}, err
	}
	for _, a := range q.Actions {
		ask.Actions = append(ask.Actions, a.String())
	}
	return ask, nil
}

// Notice tells that a call entered a state.
type Notice struct {
	Run   string
	Index int
	Tool  string
	State string // "CREATED", "VALIDATING", "EXECUTING", "PROCESSING", "LOGGING", "ENDED"
	Err   error  // with "ENDED": why the call did not complete
}

func noticeOf(n runner.Notice) Notice {
	out := Notice{Run: n.Run.ID.String(), Index: n.Call.Index, Tool: string(n.Call.Tool), State: n.State.String()}
	if n.Outcome != nil {
		out.Err = n.Outcome.Err
	}
	return out
}
