package runs

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Session is a run without a plan: its calls come one by one, as an agent
// makes them. It is safe for concurrent use.
type Session struct {
	Active

	mu     sync.Mutex
	calls  sync.WaitGroup
	result Result
	closed error // why there are no more calls, nil while it goes on
}

// Begin starts a session under the policies that hold, and records it. The
// session outlives ctx; it must be ended.
func (s *Runs) Begin(ctx context.Context, q Request) (*Session, error) {
	b, _, res, err := s.Start(context.WithoutCancel(ctx), q, runner.Info{Name: q.Name, Single: q.Single})
	if err != nil {
		return nil, err
	}
	return &Session{Active: b, result: res}, nil
}

// Result returns the known facts of the session: all but the counts and the status from its
// beginning on.
func (s *Session) Result() Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.result
}

// Call takes one call all the way, whatever comes of it. An error means that
// it was not made at all: the session is over, or its record cannot be written.
func (s *Session) Call(ctx context.Context, c runner.Call) (runner.Outcome, error) {
	return s.take(ctx, func(ctx context.Context) runner.Outcome {
		args, err := Plain(c.Args)
		if err == nil && s.Run.Single && s.Chain().HasFlows() {
			err = noContext()
		}
		if c.Args = args; err != nil {
			return s.Runner.Refuse(ctx, s.Run, c, err)
		}
		return s.Runner.Execute(ctx, s.Run, c)
	})
}

// noContext refuses a call of a client without a lasting run. The labels of its earlier calls are
// unknown, so no flow can be decided.
func noContext() error {
	return fault.New(fault.FlowRefused, "the policies have flows, and a call in a run of its own has no context to decide them by").
		WithHint("make the calls in one run: open it (POST /v1/runs without a plan) and send its run_id with each call; or use a plan, a session or MCP")
}

// Refuse records a call that cannot be made, as one whose arguments are no JSON,
// and why.
func (s *Session) Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error) {
	c.Args = nil
	return s.take(ctx, func(ctx context.Context) runner.Outcome { return s.Runner.Refuse(ctx, s.Run, c, why) })
}

// ID is the run's.
func (s *Session) ID() uuid.UUID { return s.Run.ID }

// Seq is where the record of the run begins.
func (s *Session) Seq() ledger.Seq { return s.Run.Seq }

// Said adds a text of the operator or a person to what the session knows.
func (s *Session) Said(kind provenance.Kind, text string) {
	if f, err := s.Run.Grant.Chain().Flows(); err == nil && f != nil && f.Traces() {
		s.Run.Context.Say(kind, text)
	}
}

// Timed reports whether the run's time is limited.
func (s *Session) Timed() bool { return s.Run.Limits().Time > 0 }

// Lookup finds a tool that the session can call.
func (s *Session) Lookup(id tool.ID) (runner.Entry, error) { return s.Runner.Catalog.Lookup(id) }

// Chain is the chain of the session's grant.
func (s *Session) Chain() policy.Chain { return s.Run.Grant.Chain() }

// Usable says why the session's grant may not be used now; nil: it may.
func (s *Session) Usable(ctx context.Context) error { return s.Runner.Usable(ctx, s.Run) }

// take counts a call as under way until it has come to something.
func (s *Session) take(ctx context.Context, call func(context.Context) runner.Outcome) (runner.Outcome, error) {
	s.mu.Lock()
	if s.closed != nil {
		defer s.mu.Unlock()
		return runner.Outcome{}, s.closed
	}
	s.calls.Add(1)
	s.mu.Unlock()
	defer s.calls.Done()

	ctx, stop := s.Runner.Within(ctx, s.Run)
	defer stop()
	o := call(ctx)
	if o.Fatal != nil && !fault.Passing(o.Fatal) {
		s.close(o.Fatal)
	}
	return o, o.Fatal
}

// Interrupted reports whether this node lost the right to carry the session out. It must be begun
// anew.
func (s *Session) Interrupted() bool { return s.Run.Interrupted() }

// Lost is closed once Interrupted reports true; nil: it never does.
func (s *Session) Lost() <-chan struct{} { return s.Run.Lost() }

// Plain gives arguments in the form that decoding JSON gives. It is a copy: later changes of the
// caller's own map change no decided argument.
func Plain(args tool.Args) (tool.Args, error) {
	b, err := canon.Marshal(map[string]any(args))
	var v any
	if err == nil {
		v, err = canon.Decode(b)
	}
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err)
	}
	m, _ := v.(map[string]any) // what an object decodes to
	return m, nil
}

// close keeps further calls from being made. The first reason counts.
func (s *Session) close(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed == nil {
		s.closed = why
	}
}

// End waits for the calls that are under way and records how the session ended: denied if a
// call was, else failed if one did not complete, else completed. Result has the counts then.
func (s *Session) End(ctx context.Context) error { return s.end(ctx, tool.Pending) }

// end is End with another status than that of the calls, unless it is Pending.
func (s *Session) end(ctx context.Context, status tool.Status) error {
	s.close(fault.New(fault.Usage, "the session has ended"))
	s.calls.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.result.Status != tool.Pending {
		return nil
	}
	switch n := s.Run.Counts(); {
	case status != tool.Pending:
	case n.Denied > 0:
		status = tool.StatusDenied
	case n.Failed > 0:
		status = tool.Failed
	default:
		status = tool.Completed
	}
	var err error
	s.result, err = s.Finish(ctx, s.result, status, nil)
	return err
}
