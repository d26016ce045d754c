package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Info describes a run to start.
type Info struct {
	ID       uuid.UUID // UUIDv7
	Name     string
	Mode     ledger.Mode // 0 means Live
	Grant    grant.Grant
	Bound    policy.Env // of the grant's policies
	Plan     []byte     // the plan's source, nil if there is none
	Policies []ledger.PolicySource
	Inputs   map[string]any
	Total    int           // steps planned
	ReplayOf uuid.UUID     // the run that this one replays
	Session  uuid.UUID     // the run's session; zero: none
	Phase    Phase         // execution or planning
	Frozen   *frozen.Plan  // the plan that the run must follow; nil: none
	Recall   Recall        // of a replay: the recorded answers of gates
	Keep     permit.Keeper // keeps what file tools replace, for an undo; nil: none
	Held     permit.Held   // the layers of held writes; nil: the workspace itself
	Context  *Context      // the labels of its session; nil: a new one
	Outputs  Outputs       // of its session, for arguments that refer to them; nil: none do
	Volatile bool          // the record need not survive a power loss
	Client   string        // the program that carries out the run's calls itself; "": the runner does
	// ClientAsks: the client itself asks its user about calls that need approval, where one
	// person may answer.
	ClientAsks bool
	Foreign    bool // in a replay: a client carried out the recorded calls
	Single     bool // the run has one call, whose outcome is recorded with the run's end
}

// Run is a sequence of calls under one grant. It is safe for concurrent use.
type Run struct {
	Info
	Seq     ledger.Seq
	Started time.Time
	Env     tool.Env // for the tools

	chain    policy.Chain
	limits   policy.Limits
	terms    policy.Terms
	connects bool // the policies allow some network access
	limiter  *runLimits
	flows    *policy.Flows // nil: no policy has labels
	progress *progress     // in the frozen plan; nil: none
	cancel   context.CancelFunc
	lost     <-chan struct{} // closed when this process lost the right to carry the run out; nil: it cannot lose it

	mu     sync.Mutex
	ended  error                           // why the run was stopped
	ends   map[int]context.CancelCauseFunc // of running calls
	next   int                             // key of ends
	last   int
	used   map[int]bool // indexes of calls
	counts Counts

	waiting int // calls that wait for review

	kept []ledger.Entry // the outcome of a single run's call, which the run's next events record
}

// Counts are the numbers of calls by status.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Denied    int `json:"denied"`
	Failed    int `json:"failed"` // failed, timed out, cancelled or interrupted
	Skipped   int `json:"skipped"`
	Refused   int `json:"refused"` // actions refused while calls ran
}

// maxLinks is the largest number of policies of a run: an event stores the index of the
// deciding one in 8 bits.
const maxLinks = 255

// Start records the start of a run and returns it, with a context that ends at the run's
// time limit. The caller must call Finish.
func (r *Runner) Start(ctx context.Context, in Info) (*Run, context.Context, error) {
	run, err := newRun(in, r.now())
	if err != nil {
		return nil, nil, err
	}
	entry, err := run.startEntry()
	if err != nil {
		return nil, nil, err
	}
	if leased, ok := r.Record.(Leased); ok {
		if run.lost, err = leased.HoldsLease(); err != nil {
			return nil, nil, fmt.Errorf("the run is not started: %w", err)
		}
	}
	if run.Seq, err = r.Record.Append(ctx, entry); err != nil {
		return nil, nil, fmt.Errorf("the run cannot be recorded, so it is not started: %w", err)
	}
	ctx, run.cancel = r.Within(ctx, run)
	return run, ctx, nil
}

// newRun makes a run that is not recorded.
func newRun(in Info, started time.Time) (*Run, error) {
	if in.Mode == 0 {
		in.Mode = ledger.Live
	}
	if in.Recall != nil && in.Mode != ledger.Replay {
		return nil, fault.New(fault.Internal, "only a replay can answer gates from a record")
	}
	if n := len(in.Grant.Chain()); n > maxLinks {
		return nil, fault.New(fault.GrantInvalid, "the grant has %d policies; the limit is %d", n, maxLinks).
			WithHint("issue a new grant from one policy that says the same")
	}
	if err := in.checkClient(); err != nil {
		return nil, err
	}
	run := &Run{Info: in, Started: started, chain: in.Grant.Chain()}
	run.limits, run.terms, run.connects = run.chain.Limits(), run.chain.Terms(), run.chain.Connects()
	if run.Context == nil {
		run.Context = &Context{}
	}
	var err error
	if run.flows, err = run.chain.Flows(); err != nil {
		return nil, err
	}
	if run.flows != nil && run.flows.Traces() && in.Recall == nil {
		run.Context.Remember(func(x *provenance.Index) { Given(x, run.chain, in.Plan, in.Inputs, in.Session) })
	}
	if in.Frozen != nil {
		run.progress = newProgress(in.Frozen)
	}
	run.Env = run.limits.ToolEnv(in.Bound.Workspace, in.Bound.Home)
	run.Env.Foreign = in.Client != "" || in.Foreign
	run.limiter = newRunLimits(run.limits)
	return run, nil
}

// Within returns a context that also ends at the run's time limit, and when the grant
// expires or is revoked (unless the policy lets running calls finish). It is for calls
// whose context does not come from Start.
func (r *Runner) Within(ctx context.Context, run *Run) (context.Context, context.CancelFunc) {
	if run.Mode != ledger.Live {
		return ctx, func() {}
	}
	var ends []context.CancelFunc
	var stop context.CancelFunc
	if run.terms.Stops() && !run.terms.FinishRevoked {
		ctx, stop = run.untilStopped(ctx)
		ends = append(ends, stop)
	}
	ctx, stop = r.authority(run.Grant).Watch(ctx, run.Grant)
	ends = append(ends, stop)
	if t := run.limits.Time; t > 0 {
		cause := fault.Wrap(fault.LimitReached, fault.ToolTimeout, "the run's time limit of %s is used up", t)
		ctx, stop = context.WithTimeoutCause(ctx, t-r.now().Sub(run.Started), cause)
		ends = append(ends, stop)
	}
	return ctx, func() {
		for _, stop := range slices.Backward(ends) {
			stop()
		}
	}
}

// untilStopped returns a context that ends when the run is stopped.
func (run *Run) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	run.mu.Lock()
	defer run.mu.Unlock()
	if errors.Is(run.ended, fault.GrantRevoked) {
		cancel(run.ended)
		return ctx, func() { cancel(nil) }
	}
	if run.ends == nil {
		run.ends = map[int]context.CancelCauseFunc{}
	}
	run.next++
	key := run.next
	run.ends[key] = cancel
	return ctx, func() {
		run.mu.Lock()
		delete(run.ends, key)
		run.mu.Unlock()
		cancel(nil)
	}
}

// stop ends the run: further calls are refused. If the grant was revoked, running calls
// are cancelled too, unless the policy lets them finish. The first reason counts, except
// that a revocation replaces a pause.
func (run *Run) stop(why error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	revoked := errors.Is(why, fault.GrantRevoked)
	if run.ended != nil && (!revoked || errors.Is(run.ended, fault.GrantRevoked)) {
		return
	}
	run.ended = why
	for _, cancel := range run.ends {
		if revoked {
			cancel(why)
		}
	}
}

// stopReason is why the run was stopped; nil: it was not.
func (run *Run) stopReason() error {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.ended
}

func (run *Run) startEntry() (ledger.Entry, error) {
	ev := ledger.Event{
		Kind: ledger.RunStarted, At: run.Started.UnixMicro(), ID: run.ID[:], Mode: run.Mode, Name: recordable(run.Name),
		Principal: recordable(run.Grant.Holder()), Workspace: run.Env.Workspace, Total: uint32(run.Total),
		Client: run.Client,
	}
	if run.Client != "" {
		ev.Owner = ledger.NoOwner[:]
	}
	if run.ReplayOf != uuid.Nil {
		ev.ReplayOf = run.ReplayOf[:]
	}
	if run.Session != uuid.Nil {
		ev.Subject = run.Session[:]
	}
	pay := ledger.Payload{}
	ev.Labels = run.Context.Labels()
	if run.Plan != nil {
		d := DigestOf(run.Plan)
		ev.Plan, pay[ledger.PartPlan] = d[:], run.Plan
	}
	for _, p := range run.Policies {
		d := DigestOf([]byte(p.Source))
		ev.Policies = append(ev.Policies, d[:])
	}
	if err := run.bounds(&ev, pay); err != nil {
		return ledger.Entry{}, err
	}
	for part, v := range map[string]any{
		ledger.PartPolicy: run.Policies, ledger.PartInputs: run.Inputs, ledger.PartEnv: run.Bound,
	} {
		b, err := json.Marshal(v)
		if err != nil {
			return ledger.Entry{}, fault.Wrap(fault.Internal, err, "the run's %s cannot be encoded", part)
		}
		pay[part] = b
	}
	return ledger.Entry{Event: ev, Payload: pay}, nil
}

// bounds records the phase, frozen plan and grant of the run, if any.
func (run *Run) bounds(ev *ledger.Event, pay ledger.Payload) error {
	if run.Phase != Execution {
		pay[ledger.PartPhase] = []byte(run.Phase.String())
	}
	if run.Frozen != nil {
		pay[ledger.PartFrozen] = run.Frozen.Encode()
	}
	if !run.Grant.Kept() {
		return nil
	}
	id := run.Grant.ID()
	b, err := grant.EncodeDescent(run.Grant.Nodes())
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the run's grant cannot be encoded")
	}
	ev.Grant, pay[ledger.PartGrant] = id[:], b
	return nil
}

// Lost is closed once this process may not carry the run out any more; nil: it always may.
func (run *Run) Lost() <-chan struct{} { return run.lost }

// Interrupted reports whether the lease under which the run began is over. The run then makes no
// further call, and other nodes may have closed it.
func (run *Run) Interrupted() bool {
	select {
	case <-run.lost:
		return true
	default:
		return false
	}
}

// Waiting is the number of the run's calls that wait for review.
func (run *Run) Waiting() int {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.waiting
}

// Terms are the policies' terms of approval and violations.
func (run *Run) Terms() policy.Terms { return run.terms }

// Limits are the policies' limits.
func (run *Run) Limits() policy.Limits { return run.limits }

// Counts returns how the calls ended so far.
func (run *Run) Counts() Counts {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.counts
}

// maxIndex is the highest index of a call.
const maxIndex = math.MaxInt32

// index claims the index of a call. If it is invalid or taken, that is an error, and the
// call is recorded under the next free index.
func (run *Run) index(asked int) (int, error) {
	run.mu.Lock()
	defer run.mu.Unlock()
	var err error
	if asked < 0 || asked > maxIndex || run.used[asked] {
		err = fault.New(fault.Internal, "the call index %d is not valid or already taken", asked)
		asked = 0
	}
	if asked == 0 {
		asked = run.last + 1
	}
	if run.used == nil {
		run.used = map[int]bool{}
	}
	run.used[asked] = true
	run.last = max(run.last, asked)
	return asked, err
}

func (run *Run) count(s tool.Status, refused int) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.counts.Refused += refused
	run.counts.Total++
	switch s {
	case tool.Completed:
		run.counts.Completed++
	case tool.StatusDenied:
		run.counts.Denied++
	case tool.Skipped:
		run.counts.Skipped++
	default:
		run.counts.Failed++
	}
}

// Skip records that a plan step is not run, and why.
func (r *Runner) Skip(ctx context.Context, run *Run, c Call, reason string) Outcome {
	f := r.begin(run, c)
	f.skipped, f.noCall = true, true
	return f.finish(ctx, fault.New(fault.ToolCancelled, "%s", reason))
}

// Refuse records that a plan step did not become a call, and why.
func (r *Runner) Refuse(ctx context.Context, run *Run, c Call, err error) Outcome {
	f := r.begin(run, c)
	f.noCall = true
	f.mark(ledger.Validating)
	return f.finish(ctx, cmp.Or(f.indexErr, err))
}

// Finish records the end of the run, also when ctx has already ended.
func (r *Runner) Finish(ctx context.Context, run *Run, status tool.Status) error {
	defer run.cancel()
	defer run.Context.waitIndexed()
	n := run.Counts()
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stop()
	var err error
	if run.Mode == ledger.Live {
		err = r.authority(run.Grant).Done(after, run)
	}
	recorded, stopRecord := context.WithTimeout(context.WithoutCancel(ctx), recordTimeout)
	defer stopRecord()
	_, rerr := r.append(recorded, run, ledger.Entry{Durable: !run.Volatile, Event: ledger.Event{
		Kind: ledger.RunFinished, At: r.now().UnixMicro(), Run: run.Seq, Status: status, Total: uint32(n.Total),
		Completed: uint32(n.Completed), Denied: uint32(n.Denied), Failed: uint32(n.Failed),
	}})
	return errors.Join(rerr, err)
}

// append records events of a run, after the kept ones. It returns where the first of them is.
func (r *Runner) append(ctx context.Context, run *Run, entries ...ledger.Entry) (ledger.Seq, error) {
	run.mu.Lock()
	kept := run.kept
	run.kept = nil
	run.mu.Unlock()
	first, err := r.Record.Append(ctx, append(kept, entries...)...)
	if err != nil {
		run.keep(kept[:len(kept):len(kept)]) // for the next events, if there are some
	}
	return first + ledger.Seq(len(kept)), err
}

// keep leaves the outcome of a single run's call to the next events of the run.
func (run *Run) keep(entries []ledger.Entry) {
	run.mu.Lock()
	defer run.mu.Unlock()
	run.kept = append(run.kept, entries...)
}

// Scope names what the calls of the run share: the session, or else the run.
func (in Info) Scope() string {
	if in.Session != uuid.Nil {
		return in.Session.String()
	}
	return in.ID.String()
}
