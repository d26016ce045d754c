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

// OpenRuns has the runs without a plan to which callers add calls by further requests. A run is
// open in the process that opened it. It ends by request, without a call for a while, with its
// grant, or with the process. The fields are set before it is used.
type OpenRuns struct {
	Runs *Runs
	Idle time.Duration // without a call, after which a run ends; not zero

	mu      sync.Mutex
	all     map[uuid.UUID]*openRun
	closing bool
}

// openRun is a run that takes calls.
type openRun struct {
	*Session
	leaf   string // ID of the grant that opened it
	over   func() // called when it has ended
	ctx    context.Context
	cancel context.CancelCauseFunc // cancels its calls
	once   sync.Once
	done   chan struct{} // closed when it has ended
	err    error         // set before done is closed

	// OpenRuns.mu guards the next ones.
	active int // calls under way
	used   time.Time
	ending bool
}

// Open opens a run under the presented grant, whose ID is leaf. Over is called when the run has
// ended; not if Open fails.
func (o *OpenRuns) Open(ctx context.Context, q Request, leaf string, over func()) (uuid.UUID, error) {
	s, err := o.Runs.Begin(ctx, q)
	if err != nil {
		return uuid.Nil, err
	}
	r := &openRun{Session: s, leaf: leaf, over: over, done: make(chan struct{}), used: time.Now()}
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
	if err := o.Runs.stillBounded(ctx, r.Run, p); err != nil {
		return runner.Outcome{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })()
	return r.Session.Call(ctx, c)
}

// wayOut is the hint for a run that takes no calls.
const wayOut = "open another run: POST /v1/runs without a plan"

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
// run that is not open in this process.
func (o *OpenRuns) End(ctx context.Context, id string, cancel bool) (bool, error) {
	run, err := uuid.Parse(id)
	if err != nil {
		return false, fault.New(fault.RunUnknown, "no run has the ID %q", id)
	}
	o.mu.Lock()
	r := o.all[run]
	if r != nil {
		r.ending = true
	}
	o.mu.Unlock()
	if r == nil {
		return false, nil
	}
	status := tool.Pending
	if cancel {
		status = tool.Cancelled
		r.cancel(fault.New(fault.ToolCancelled, "the run was cancelled"))
	}
	go o.finish(context.WithoutCancel(ctx), r, status)
	select {
	case <-r.done:
		return true, r.err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// finish records the end of a run, once.
func (o *OpenRuns) finish(ctx context.Context, r *openRun, status tool.Status) {
	r.once.Do(func() {
		r.close(hasEnded())
		r.err = r.end(ctx, status)
		o.mu.Lock()
		delete(o.all, r.ID())
		o.mu.Unlock()
		r.cancel(nil)
		r.over()
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

// watchEvery is how often runs that are over are looked for, at least.
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
			go o.finish(context.WithoutCancel(ctx), r, tool.Pending)
		}
	}
}

// ended selects the runs that are over.
func (o *OpenRuns) ended(ctx context.Context) (out []*openRun) {
	o.mu.Lock()
	all := make([]*openRun, 0, len(o.all))
	for _, r := range o.all {
		if !r.ending {
			all = append(all, r)
		}
	}
	o.mu.Unlock()
	for _, r := range all {
		over := r.outlived(ctx)
		o.mu.Lock()
		if r.ending = r.ending || over || r.active == 0 && time.Since(r.used) >= o.Idle; r.ending {
			out = append(out, r)
		}
		o.mu.Unlock()
	}
	return out
}

// outlived reports whether no call of the run can begin any more: its grant or its time has
// ended. A paused grant can be resumed.
func (r *openRun) outlived(ctx context.Context) bool {
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
		each.Go(func() { o.finish(ctx, r, tool.Pending) }) // the next start closes a run whose end cannot be recorded
	}
	each.Wait()
}

// stillBounded refuses a call if the caller is bounded by a policy that the run is not under: one
// that was changed or added since the run began. It also makes new secrets known to the mask.
func (s *Runs) stillBounded(ctx context.Context, run *runner.Run, p grants.Presented) error {
	g, _, _, err := s.Grants.Under(ctx, p, run.Bound)
	if err == nil {
		err = s.Secrets.Guard(&runner.Info{})
	}
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
