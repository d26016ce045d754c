// Package schedule carries out a plan: it decides which step starts when, computes its
// arguments, has a [Caller] execute the call, and accounts for every step exactly once. It
// knows no tools, policies or records. Start at [Run].
//
// Of the steps that are ready, the first in plan order starts, up to MaxParallel at the
// same time. With max_parallel 1 the order depends only on the plan and the outcomes. With
// more, one thing depends on timing: which steps had already started when another one
// stopped the plan; see [Options.Ran].
package schedule

import (
	"container/heap"
	"context"
	"errors"
	"fmt"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
)

// Caller executes single steps and tells how they ended: the runner is one, a replay another. Steps
// are named by their index, from 1, in plan order. Call, Fail and Output are used from several
// goroutines at once, Skip from one. No method is called with a context that was cancelled, Call
// and Output apart: a step that did not run must be recorded all the same.
type Caller interface {
	// Call executes a step's call and records it. It must return soon after ctx
	// is cancelled.
	Call(ctx context.Context, index int, step *plan.Step, args tool.Args) Outcome
	// Skip records a step that does not run. An error stops everything.
	Skip(ctx context.Context, index int, step *plan.Step, reason string) error
	// Fail records a step whose condition or arguments cannot be computed. args
	// are as written in the plan. An error stops everything.
	Fail(ctx context.Context, index int, step *plan.Step, args tool.Args, err error) error
	// Output loads the output of a step that ended with Large set.
	Output(ctx context.Context, index int) (map[string]any, error)
}

// Outcome is how a call ended.
type Outcome struct {
	Status  tool.Status
	Output  map[string]any // nil for none, and may be nil when Large is set
	Large   bool           // the output is not to be held: Caller.Output has it
	Code    fault.Code     // why it did not complete
	Message string
	Unasked bool  // Remit ended while the step waited for a person
	Fatal   error // the record cannot be written: nothing else may start
}

// Why steps are skipped. Where a needed step is the reason, its ID follows
// ReasonNeeds in quotes.
const (
	ReasonCondition = "its condition does not hold"
	ReasonStopped   = "the plan was stopped"
	ReasonCancelled = "the run was cancelled"
	ReasonTime      = "the run's time was over"
	ReasonNeeds     = "a needed step did not complete: "
)

// LargeOutput is the size in bytes, as JSON, above which a caller is to set
// Outcome.Large, so that the output is not held in memory.
const LargeOutput = 64 << 10

// Options adjusts a run. The zero Options are ready to use.
type Options struct {
	// MaxParallel, if not 0, bounds the plan's max_parallel further.
	MaxParallel int
	// Ran, if not nil, tells of a run that is replayed which steps ran, that is, were not skipped.
	// A step that can have been decided before or after the plan was stopped is then decided as
	// recorded: a step without an explanation either way is decided by the present state, so that a
	// false record shows as a mismatch.
	Ran func(index int) (ran, known bool)
}

// Summary counts how the steps ended. The counts add up to Total unless Run
// returned an error.
type Summary struct {
	Status    tool.Status // of the run
	Total     int
	Completed int
	Denied    int
	Failed    int // also interrupted ones
	TimedOut  int
	Cancelled int
	Skipped   int
}

func (s *Summary) count(st tool.Status) {
	switch st {
	case tool.Completed:
		s.Completed++
	case tool.StatusDenied:
		s.Denied++
	case tool.TimedOut:
		s.TimedOut++
	case tool.Cancelled:
		s.Cancelled++
	case tool.Skipped:
		s.Skipped++
	default:
		s.Failed++
	}
}

// Run carries out p. Inputs are what [plan.Plan.Inputs] returned. It returns
// once every step is accounted for and nothing runs any more. The run's status
// is interrupted if Remit ended while a step waited for a person, timeout if its time was over (ctx ended with fault.LimitReached as its
// cause) before the last step was decided, cancelled if ctx was cancelled before the last step was decided or a call
// ended as cancelled (no other step starts after that), else denied if a call was, else failed if a call failed or timed
// out, else completed. Calls that do not complete are no error of Run: an error
// means that the record could not be written, so that the run was abandoned
// and steps are unaccounted for.
func Run(ctx context.Context, p *plan.Plan, inputs map[string]any, caller Caller, o Options) (Summary, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r := newRun(stop, p, inputs, caller, o)
	for r.fatal == nil {
		r.startReady(ctx)
		if r.running == 0 {
			if r.fatal != nil || !r.release(ctx) {
				break
			}
			continue
		}
		r.finish(<-r.done)
	}
	for ; r.running > 0; r.running-- { // after a fatal error: wait, start nothing
		d := <-r.done
		r.sum.count(d.out.Status)
	}
	r.sum.Status = r.status()
	return r.sum, r.fatal
}

func (r *run) status() tool.Status {
	s := &r.sum
	switch {
	case r.interrupted:
		return tool.StatusInterrupted
	case r.expired:
		return tool.TimedOut
	case r.cancelled || s.Cancelled > 0:
		return tool.Cancelled
	case s.Denied > 0:
		return tool.StatusDenied
	case s.Failed+s.TimedOut > 0 || r.fatal != nil:
		return tool.Failed
	}
	return tool.Completed
}

// run is the state of one Run. Only the goroutine of Run changes it; the
// goroutines of calls read the results of steps that have ended.
type run struct {
	stop   context.CancelCauseFunc
	plan   *plan.Plan
	inputs map[string]any
	caller Caller
	opts   Options

	results []result // by index; [0] is unused
	users   [][]int  // by index: the steps that depend on it
	ready   queue    // could start
	held    queue    // wait until the plan is stopped, as in the run that is replayed
	done    chan ended
	limit   int
	running int

	stopped   bool // a step that did not complete stopped the plan
	cancelled bool
	expired   bool // cancelled because the run's time was over
	// interrupted: cancelled because Remit ended while a step waited for a person.
	interrupted bool
	fatal       error
	sum         Summary
}

type result struct {
	plan.Ended
	output  map[string]any
	large   bool
	broken  bool // it, or a step it depends on, went wrong
	waits   int  // steps it depends on that have not ended
	readers int  // steps that may still use its output
}

type ended struct {
	step *plan.Step
	out  Outcome
}

func newRun(stop context.CancelCauseFunc, p *plan.Plan, inputs map[string]any, caller Caller, o Options) *run {
	n := len(p.Steps)
	r := &run{stop: stop, plan: p, inputs: inputs, caller: caller, opts: o,
		results: make([]result, n+1), users: make([][]int, n+1), limit: p.MaxParallel}
	if o.MaxParallel > 0 {
		r.limit = min(r.limit, o.MaxParallel)
	}
	r.limit = max(r.limit, 1)
	r.done = make(chan ended, r.limit)
	r.sum.Total = n
	for _, s := range p.Steps {
		deps := s.Deps()
		for _, d := range deps {
			r.users[d] = append(r.users[d], s.Index)
		}
		for _, f := range s.Feeds() {
			r.results[f].readers++
		}
		if r.results[s.Index].waits = len(deps); len(deps) == 0 {
			r.ready = append(r.ready, s.Index)
		}
	}
	heap.Init(&r.ready)
	return r
}

// startReady starts or skips all ready steps, in plan order.
func (r *run) startReady(ctx context.Context) {
	for r.fatal == nil && r.running < r.limit && len(r.ready) > 0 {
		r.decide(ctx, r.plan.Steps[heap.Pop(&r.ready).(int)-1], r.opts.Ran)
	}
}

// release decides a held step by the present state, when nothing is left that
// could stop the plan.
func (r *run) release(ctx context.Context) bool {
	if len(r.held) == 0 {
		return false
	}
	r.decide(ctx, r.plan.Steps[heap.Pop(&r.held).(int)-1], nil)
	return true
}

// decide starts, skips, fails or holds one step.
func (r *run) decide(ctx context.Context, s *plan.Step, ran func(int) (bool, bool)) {
	if ctx.Err() != nil {
		r.cancelled = true
		r.expired = r.expired || errors.Is(context.Cause(ctx), fault.LimitReached)
	}
	if r.cancelled && (ctx.Err() != nil || !started(ran, s)) {
		r.skip(ctx, s, map[bool]string{false: ReasonCancelled, true: ReasonTime}[r.expired])
		return
	}
	stopped := r.stopped
	run, err := r.condition(ctx, s, stopped)
	if ran != nil {
		if was, known := ran(s.Index); known {
			before, errBefore := r.condition(ctx, s, false)
			after, errAfter := r.condition(ctx, s, true)
			switch {
			case (before || errBefore != nil) == was:
				stopped, run, err = false, before, errBefore
			case (after || errAfter != nil) == was && !r.stopped:
				heap.Push(&r.held, s.Index)
				return
			}
		}
	}
	switch {
	case err != nil:
		r.fail(ctx, s, err)
	case !run:
		r.skip(ctx, s, r.reason(s, stopped))
	default:
		r.start(ctx, s)
	}
}

// started reports whether the step ran in the run that is replayed: it had
// begun before another was cancelled.
func started(ran func(int) (bool, bool), s *plan.Step) bool {
	if ran == nil {
		return false
	}
	was, known := ran(s.Index)
	return was && known
}

func (r *run) condition(ctx context.Context, s *plan.Step, stopped bool) (bool, error) {
	st := plan.State{Success: !stopped, Failure: stopped, Stopped: stopped}
	for _, d := range s.Deps() {
		st.Success = st.Success && r.results[d].Status == tool.Completed
		st.Failure = st.Failure || r.results[d].broken
	}
	return s.Condition(r.values(ctx), st)
}

func (r *run) reason(s *plan.Step, stopped bool) string {
	if s.Commitment != nil {
		return ReasonStopped
	}
	for _, d := range s.Deps() {
		if r.results[d].Status != tool.Completed {
			return fmt.Sprintf("%s%q", ReasonNeeds, r.plan.Steps[d-1].ID)
		}
	}
	if stopped {
		return ReasonStopped
	}
	return ReasonCondition
}

func (r *run) skip(ctx context.Context, s *plan.Step, reason string) {
	if err := r.caller.Skip(context.WithoutCancel(ctx), s.Index, s, reason); err != nil {
		r.abandon(err)
		return
	}
	r.settle(s, Outcome{Status: tool.Skipped})
}

func (r *run) fail(ctx context.Context, s *plan.Step, err error) {
	r.settle(s, r.failure(ctx, s, err))
}

// failure records that a step's condition or arguments cannot be computed.
func (r *run) failure(ctx context.Context, s *plan.Step, err error) Outcome {
	fatal := r.caller.Fail(context.WithoutCancel(ctx), s.Index, s, s.Args, err)
	return Outcome{Status: tool.Failed, Code: fault.CodeOf(err), Message: fault.Message(err), Fatal: fatal}
}

// start computes the arguments and calls, in a goroutine of its own that Run
// waits for.
func (r *run) start(ctx context.Context, s *plan.Step) {
	r.running++
	go func() {
		args, err := s.Resolve(r.values(ctx))
		if err != nil {
			r.done <- ended{s, r.failure(ctx, s, err)}
			return
		}
		r.done <- ended{s, r.caller.Call(ctx, s.Index, s, args)}
	}()
}

func (r *run) finish(d ended) {
	r.running--
	r.settle(d.step, d.out)
}

// abandon stops everything, because the record cannot be written.
func (r *run) abandon(err error) {
	if r.fatal == nil {
		r.fatal = err
		r.stop(err)
	}
}

// settle takes in how a step ended, and makes ready what waited for it.
func (r *run) settle(s *plan.Step, out Outcome) {
	if out.Fatal != nil {
		r.abandon(out.Fatal)
	}
	res := &r.results[s.Index]
	res.Ended = plan.Ended{Status: out.Status, Code: out.Code, Message: out.Message}
	r.sum.count(out.Status)
	wrong := out.Status != tool.Completed && out.Status != tool.Skipped
	res.broken = wrong
	for _, d := range s.Deps() {
		res.broken = res.broken || r.results[d].broken
	}
	if res.readers > 0 {
		if res.large = out.Large; !out.Large {
			res.output = asRecorded(out.Output)
		}
	}
	for _, f := range s.Feeds() {
		feed := &r.results[f]
		if feed.readers--; feed.readers == 0 {
			feed.output = nil
		}
	}
	r.expired = r.expired || out.Status == tool.TimedOut && out.Code == fault.LimitReached
	r.interrupted = r.interrupted || out.Unasked
	r.cancelled = r.cancelled || r.expired || r.interrupted || out.Status == tool.Cancelled
	if wrong && s.OnError == plan.Stop {
		r.stopped = true
		for _, i := range r.held {
			heap.Push(&r.ready, i)
		}
		r.held = nil
	}
	for _, u := range r.users[s.Index] {
		if r.results[u].waits--; r.results[u].waits == 0 {
			heap.Push(&r.ready, u)
		}
	}
}

// asRecorded returns an output as it is read from the record: whatever Go types
// a tool made it of, expressions see the values that a replay sees. One that
// cannot be recorded has no values.
func asRecorded(out map[string]any) map[string]any {
	b, err := canon.Marshal(out)
	if err != nil {
		return nil
	}
	v, err := canon.Decode(b)
	if err != nil {
		return nil
	}
	m, _ := v.(map[string]any)
	return m
}

// values gives expressions what they refer to.
type values struct {
	*run
	load func(step int) (map[string]any, error)
}

func (r *run) values(ctx context.Context) values {
	return values{r, func(step int) (map[string]any, error) { return r.caller.Output(ctx, step) }}
}

func (v values) Input(name string) any { return v.inputs[name] }

func (v values) Ended(step int) plan.Ended { return v.results[step].Ended }

func (v values) Output(step int) (map[string]any, error) {
	if res := &v.results[step]; !res.large {
		return res.output, nil
	}
	return v.load(step)
}

// queue is a heap of step indexes, lowest first.
type queue []int

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i] < q[j] }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push and Pop are for package heap.
func (q *queue) Push(x any) { *q = append(*q, x.(int)) }

// Pop removes the last element.
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
