package runs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/grants"
)

// OpenRuns holds runs without a plan. Each later request adds one call. A run is open in the process
// that opened it. It ends by request, without a call for a while, with its grant, or with the
// process. The fields are set before it is used.
type OpenRuns struct {
	Runs *Runs
	Idle time.Duration // without a call, after which a run ends; not zero
	// Failed is called when the end of a run cannot be recorded: the next start closes it. Nil: nothing
	// is called.
	Failed func(run string, err error)

	mu      sync.Mutex
	all     map[uuid.UUID]*openRun
	closing bool
}

// openRun is a run that takes calls.
type openRun struct {
	*Session
	leaf   string // ID of the grant that opened it
	onEnd  func() // called when it has ended
	ctx    context.Context
	cancel context.CancelCauseFunc // cancels its calls
	once   sync.Once
	done   chan struct{} // closed when it has ended
	err    error         // set before done is closed

	// OpenRuns.mu guards the next ones.
	active    int // calls under way
	used      time.Time
	ending    bool
	cancelled bool
}

// Open opens a run under the presented grant, whose ID is leaf. OnEnd is called when the run has
// ended; not if Open fails.
func (o *OpenRuns) Open(ctx context.Context, q Request, leaf string, onEnd func()) (uuid.UUID, error) {
	s, err := o.Runs.Begin(ctx, q)
	if err != nil {
		return uuid.Nil, err
	}
	r := &openRun{Session: s, leaf: leaf, onEnd: onEnd, done: make(chan struct{}), used: time.Now()}
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing {
		r.cancel(nil)
		_ = s.End(context.WithoutCancel(ctx)) // the next start closes it
		return uuid.Nil, fault.New(fault.SessionBusy, "the service is stopping").WithHint("try again when it is back")
	}
	if o.all == nil {
		o.all = map[uuid.UUID]*openRun{}
	}
	o.all[s.ID()] = r
	return s.ID(), nil
}

// Call makes a call in an open run, for a caller under the grant with the ID leaf. An error means
// that no call was made.
func (o *OpenRuns) Call(ctx context.Context, id uuid.UUID, p grants.Presented, leaf string, c runner.Call) (runner.Outcome, error) {
	r, err := o.enter(id, leaf)
	if err != nil {
		return runner.Outcome{}, err
	}
	defer o.leave(r)
	if r.Interrupted() {
		return runner.Outcome{}, fault.New(fault.Interrupted, "the run was interrupted: this service lost the right to carry it out").WithHint("%s", wayOut)
	}
	if err := o.Runs.checkPolicies(ctx, r.Run, p); err != nil {
		return runner.Outcome{}, err
	}
	if err := o.Runs.Secrets.Guard(&runner.Info{}); err != nil { // the mask knows new secrets
		return runner.Outcome{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	return r.Session.Call(ctx, c)
}

// wayOut is the hint for a run that takes no calls.
const wayOut = "open another run: POST /v1/runs without a plan"

// hasEnded refuses a call in a run that takes no more calls.
func hasEnded() error {
	return fault.New(fault.Conflict, "the run has ended").WithHint("%s", wayOut)
}

// enter finds an open run for a call, which keeps it open.
func (o *OpenRuns) enter(id uuid.UUID, leaf string) (*openRun, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.all[id]
	switch {
	case r == nil:
		return nil, fault.New(fault.Conflict, "the run is not open for calls at this service").
			WithHint("a run takes calls at the service that opened it, and the run of a plan or session takes none; %s", wayOut)
	case r.leaf != leaf:
		return nil, fault.New(fault.Denied, "the run was opened under another grant, and takes calls under that grant alone").WithHint("%s", wayOut)
	case r.ending:
		return nil, hasEnded()
	}
	r.active++
	return r, nil
}

func (o *OpenRuns) leave(r *openRun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.active--
	r.used = time.Now()
}

// End ends an open run: once its calls have ended, or with cancel at once. It returns false for a
// run that is not open in this process. A run that is cancelled before its calls have ended is
// recorded as cancelled.
func (o *OpenRuns) End(ctx context.Context, id uuid.UUID, cancel bool) (bool, error) {
	o.mu.Lock()
	r := o.all[id]
	if r != nil {
		r.ending, r.cancelled = true, r.cancelled || cancel
	}
	o.mu.Unlock()
	if r == nil {
		return false, nil
	}
	if cancel {
		r.cancel(fault.New(fault.ToolCancelled, "the run was cancelled"))
	}
	go o.finish(context.WithoutCancel(ctx), r)
	select {
	case <-r.done:
		return true, r.err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// finish records the end of a run, once.
func (o *OpenRuns) finish(ctx context.Context, r *openRun) {
	r.once.Do(func() {
		r.close(hasEnded())
		r.calls.Wait()
		status := tool.Pending
		o.mu.Lock()
		if r.cancelled {
			status = tool.Cancelled
		}
		o.mu.Unlock()
		if r.err = r.end(ctx, status); r.err != nil && o.Failed != nil {
			o.Failed(r.ID().String(), r.err)
		}
		o.mu.Lock()
		delete(o.all, r.ID())
		o.mu.Unlock()
		r.cancel(nil)
		r.onEnd()
		close(r.done)
	})
}

// Start ends runs without calls, and runs whose grant or time has ended, until end is called. That
// ends all runs, and cancels their calls.
func (o *OpenRuns) Start(ctx context.Context) (end func(context.Context)) {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { o.watch(ctx) })
	return func(after context.Context) {
		stop()
		watching.Wait()
		o.close(after)
	}
}

// watchEvery is the longest interval between two checks for ended runs.
const watchEvery = 5 * time.Second

func (o *OpenRuns) watch(ctx context.Context) {
	t := time.NewTicker(max(min(o.Idle/10, watchEvery), time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		for _, r := range o.ended(ctx) {
			go o.finish(context.WithoutCancel(ctx), r)
		}
	}
}

// ended selects the runs to end. The grants of idle runs are not checked.
func (o *OpenRuns) ended(ctx context.Context) (out []*openRun) {
	o.mu.Lock()
	all := make([]*openRun, 0, len(o.all))
	for _, r := range o.all {
		switch {
		case r.ending:
		case r.active == 0 && time.Since(r.used) >= o.Idle:
			r.ending = true
			out = append(out, r)
		default:
			all = append(all, r)
		}
	}
	o.mu.Unlock()
	for _, r := range all {
		if ctx.Err() != nil || !r.expired(ctx) {
			continue
		}
		o.mu.Lock()
		r.ending = true
		o.mu.Unlock()
		out = append(out, r)
	}
	return out
}

// expired reports whether the run's grant or time has ended. A paused grant can be resumed.
func (r *openRun) expired(ctx context.Context) bool {
	if most := r.Run.Limits().Time; r.Interrupted() || most > 0 && time.Since(r.Run.Started) >= most {
		return true
	}
	code := fault.CodeOf(r.Usable(ctx))
	return (code.OfGrant() || code == fault.GrantUnknown) && code != fault.GrantPaused
}

// close ends all runs.
func (o *OpenRuns) close(ctx context.Context) {
	o.mu.Lock()
	o.closing = true
	all := make([]*openRun, 0, len(o.all))
	for _, r := range o.all {
		r.ending = true
		all = append(all, r)
	}
	o.mu.Unlock()
	var each sync.WaitGroup
	for _, r := range all {
		r.cancel(fault.New(fault.ToolCancelled, "the service is stopping"))
		each.Go(func() { o.finish(ctx, r) })
	}
	each.Wait()
}

// checkPolicies refuses a call if a policy was added or changed since the run was opened.
func (s *Runs) checkPolicies(ctx context.Context, run *runner.Run, p grants.Presented) error {
	g, _, _, err := s.Grants.Under(ctx, p, run.Bound)
	if err != nil {
		return err
	}
	under := run.Grant.Chain()
	for _, link := range g.Chain() {
		same := func(r *policy.Rules) bool { return r.Policy().Digest() == link.Policy().Digest() }
		if !slices.ContainsFunc(under, same) {
			return fault.New(fault.Conflict, "the policies have changed since the run was opened").WithHint("%s", wayOut)
		}
	}
	return nil
}
