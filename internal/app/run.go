package app

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// RunRequest asks for a plan to be carried out, or for a session to begin.
type RunRequest struct {
	Plan      *plan.Plan     // nil for a session
	Name      string         // of a session; a plan has its own
	Policy    string         // a policy file; "": the workspace's, if trusted
	Root      *policy.Policy // holds instead of Policy if not nil
	Workspace string         // absolute, as Workspace makes it
	Inputs    map[string]string
	Frozen    *frozen.Plan     // the plan whose calls are all that may be made; nil: none
	Planning  bool             // only calls without side effects
	Changeset bool             // hold what is written, also where the policy does not say so
	Bounds    []*policy.Policy // bound it besides; only without a Grant
	Grant     grants.Presented // not empty: the run is under this grant, which Policy or Root narrow further
	Wait      bool             // wait for approvals where nobody is here to give them
	// Here asks the person who is here; nil: nobody is, and others can answer.
	Here func(ctx context.Context, c approval.Case) (store.Vote, error)
	// Advice tells a caller how a question can be answered that nobody here
	// answers; nil tells it as the command line would.
	Advice  func(filed store.Question) string
	asker   runner.Asker                           // holds instead of Here and Wait if not nil
	agent   *agentRun                              // a session's run of an agent; nil: it is none
	Observe func(runner.Notice)                    // nil: nobody watches
	Started func(run *runner.Run, h policies.Hint) // nil, or called once the run is recorded
}

// RunResult is how a plan's run ended.
type RunResult struct {
	ID       uuid.UUID
	Status   tool.Status
	Policies []*policy.Policy
	Counts   runner.Counts
	Started  time.Time
	Duration time.Duration
	Hint     policies.Hint
	Stopped  error              // why its grant ended while it ran, nil if it did not
	Held     []changeset.Change // what was written, of a run whose writes were held
}

// planName is what a run is called: as its plan, or as the plan's file.
func planName(p *plan.Plan) string {
	if p.Name != "" {
		return p.Name
	}
	base := filepath.Base(p.File)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// ReadPlan reads a plan file and checks it against the catalog.
func (a *App) ReadPlan(file string) (*plan.Plan, error) {
	src, err := wholefile.Read(file, plan.MaxSize)
	if err != nil {
		return nil, fault.Wrap(fault.PlanInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file}).
			WithHint("name an existing plan file")
	}
	return a.ParsePlan(file, src)
}

// ParsePlan reads a plan's source, which messages call file, and checks it
// against the catalog.
func (a *App) ParsePlan(file string, src []byte) (*plan.Plan, error) {
	p, err := plan.Parse(file, src)
	if err != nil {
		return nil, err
	}
	return p, p.Check(a.catalog)
}

// begun is a run whose beginning is recorded.
type begun struct {
	store  store.Store
	runner *runner.Runner
	run    *runner.Run
	writes *writes
}

// RunPlan carries a plan out under the policies that hold, and records it.
func (a *App) RunPlan(ctx context.Context, q RunRequest) (RunResult, error) {
	inputs, err := a.bind(q)
	if err != nil {
		return RunResult{}, err
	}
	b, ctx, res, err := a.begin(ctx, q, runner.Info{
		Name: planName(q.Plan), Plan: q.Plan.Source(), Inputs: inputs, Total: len(q.Plan.Steps),
	})
	if err != nil {
		return res, err
	}
	through := &schedule.Through{Runner: b.runner, Run: b.run, Load: func(ctx context.Context, at ledger.Seq) (map[string]any, error) {
		return output(ctx, b.store, at)
	}}
	sum, err := schedule.Run(ctx, q.Plan, inputs, through, schedule.Options{})
	return b.finish(ctx, res, sum.Status, err)
}

// begin starts a run under the policies that hold. The context that it gives
// ends with the run's time.
func (a *App) begin(ctx context.Context, q RunRequest, in runner.Info) (b begun, _ context.Context, res RunResult, err error) {
	auth, err := a.authority(ctx, q, &in, &res)
	if err != nil {
		return b, nil, res, err
	}
	if err = a.Secrets.Guard(&in); err != nil {
		return b, nil, res, err
	}
	if b.store, err = a.Store(ctx); err != nil {
		return b, nil, res, err
	}
	if in.ID, err = home.NewID(); err != nil {
		return b, nil, res, err
	}
	if in.Frozen = q.Frozen; q.Planning {
		in.Phase = runner.Planning
	}
	observe, err := a.observers(q.Observe)
	if err != nil {
		return b, nil, res, err
	}
	res.ID, in.Bound, in.Volatile = in.ID, a.Home.Env(q.Workspace), a.Policies.Volatile(res.Policies)
	b.runner = a.runner(b.store, a.asker(q), observe)
	if q.agent != nil {
		b.runner.Catalog = q.agent.tools
	}
	if auth != nil {
		b.runner.Authority, b.runner.Standings = auth, auth
	}
	if b.writes, err = a.hold(&in, q, b.runner); err != nil {
		return b, nil, res, err
	}
	if b.run, ctx, err = b.runner.Start(ctx, in); err == nil {
		err = b.writes.begun(ctx, b)
	}
	if err != nil {
		return b, nil, res, errors.Join(err, b.writes.dropped())
	}
	res.Started = b.run.Started
	if q.Started != nil {
		q.Started(b.run, res.Hint)
	}
	return b, ctx, res, nil
}

// authority chooses what a run is under: the grant that was presented, or the
// policies that hold.
func (a *App) authority(ctx context.Context, q RunRequest, in *runner.Info, res *RunResult) (*grants.Authority, error) {
	var err error
	if q.agent != nil {
		in.Grant, in.Policies = q.agent.granted.Grant, q.agent.granted.Sources
		in.Session, in.Inputs = q.agent.session, q.agent.inputs
		for _, r := range in.Grant.Chain() {
			res.Policies = append(res.Policies, r.Policy())
		}
		auth, _, err := a.Grants.Open(ctx)
		return auth, err
	}
	if q.Grant.Token == "" {
		if q.Root == nil {
			res.Policies, res.Hint, err = a.Policies.Chain(q.Policy, q.Workspace)
		} else {
			res.Policies, err = a.Policies.Bounded(q.Root)
		}
		res.Policies = append(res.Policies, q.Bounds...)
		if err == nil {
			in.Grant, in.Policies, err = a.Policies.Grant(res.Policies, q.Workspace)
		}
		return nil, err
	}
	var narrower []*policy.Policy
	if q.Root == nil && q.Policy != "" {
		if q.Root, err = policies.Read(q.Policy); err != nil {
			return nil, err
		}
	}
	if q.Root != nil {
		narrower = append(narrower, q.Root)
	}
	var auth *grants.Authority
	if in.Grant, in.Policies, auth, err = a.Grants.Under(ctx, q.Grant, q.Workspace, narrower...); err != nil {
		return nil, err
	}
	for _, r := range in.Grant.Chain() {
		res.Policies = append(res.Policies, r.Policy())
	}
	return auth, nil
}

// finish records the run's end, also after an error.
func (b begun) finish(ctx context.Context, res RunResult, status tool.Status, err error) (RunResult, error) {
	res.Status = status
	if why := context.Cause(ctx); fault.CodeOf(why).OfGrant() {
		res.Stopped = why
	}
	if ferr := b.runner.Finish(ctx, b.run, status); err == nil {
		err = ferr
	}
	held, werr := b.writes.ended(context.WithoutCancel(ctx), b) // also of a run that was stopped
	if res.Held = held; err == nil {
		err = werr
	}
	res.Counts = b.run.Counts()
	res.Duration = time.Since(b.run.Started)
	return res, err
}
