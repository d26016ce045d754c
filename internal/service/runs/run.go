// Package runs carries out plans, sessions and typed commands: it chooses the policies
// and grant they run under, and records their start and end. The runner makes their calls.
// Start at [Runs.Plan] and [Runs.Begin].
package runs

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/filelabels"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/secrets"
)

// Box runs commands confined: linux.Box.
type Box interface {
	Warm() // prepares for Run, in the background
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
	Profile(chain policy.Chain, c sandbox.Command) (sandbox.Profile, error)
	Image(l policy.Limits, workspace string) (*sandbox.Image, error) // whose system commands see
	Contents(ctx context.Context, held permit.Held, workspace string, chain policy.Chain, actions []tool.Action) error
}

// Runs begins runs. Its fields are set before it is used.
type Runs struct {
	// Renew ends the processes that commands of an agent's session left under policies that do not hold any more. Nil: there
	// are none.
	Renew func(session string)

	Home      *home.Home
	Policies  *policies.Policies
	Secrets   *secrets.Secrets
	Grants    *grants.Grants
	Approvals *approvals.Approvals
	Changes   *changes.Changes
	Box       Box
	Tools     *catalog.Catalog        // plans are checked against it
	Catalog   runner.Catalog          // where calls find their tools
	Notifier  *notify.Notifier        // tells people of violations; nil: none
	Limits    *runner.Sources         // bounds calls by where their tools come from
	Hooks     []runner.Hook           // those of the settings
	Ended     func(scope string) bool // ends what only the calls of a run without a session shared; nil: nothing
	// Reader opens the ledger to look at, also one that cannot be written.
	Reader func(context.Context) (store.Backend, error)
}

// AgentRun has the parts of a run of an agent's session that other runs lack.
type AgentRun struct {
	Session uuid.UUID
	Inputs  map[string]any
	Outputs runner.Outputs // that arguments can refer to
	Granted agent.Granted
	Tools   runner.Catalog
}

// runner builds a runner that acts on the world.
func (s *Runs) runner(rec runner.Recorder, ask runner.Asker, observe func(runner.Notice)) *runner.Runner {
	return &runner.Runner{
		Catalog: s.Catalog, Record: rec, Facts: Facts{box: s.Box, secret: s.Secrets.Value}, Execs: runner.Direct{}, Ask: ask, Observe: observe, Sources: s.Limits, Mask: &s.Secrets.Mask,
	}
}

// asker puts the questions of a run.
func (s *Runs) asker(q Request) runner.Asker {
	if q.Asker != nil {
		return q.Asker
	}
	return s.Approvals.Desk(q.Wait, q.Here, q.Advice)
}

// LoadOutput loads the output that an event holds, for references to large ones.
func LoadOutput(ctx context.Context, st store.Store, at ledger.Seq) (map[string]any, error) {
	for ev, err := range st.Events(ctx, at) {
		if err != nil {
			return nil, err
		}
		b, err := st.Load(ctx, ev.Parts[ledger.PartOutput])
		if err != nil {
			return nil, err
		}
		v, err := canon.Decode(b)
		out, ok := v.(map[string]any)
		if err != nil || !ok {
			return nil, fault.Wrap(fault.StoreCorrupt, err, "the recorded output of event %d cannot be read", at)
		}
		return out, nil
	}
	return nil, fault.New(fault.PlanReference, "event %d has no recorded output", at)
}

// Request asks for a plan to be carried out, or for a session to begin.
type Request struct {
	Plan      *plan.Plan     // nil for a session
	Name      string         // of a session; a plan has its own
	Policy    string         // a policy file; "": the workspace's, if trusted
	Root      *policy.Policy // holds instead of Policy if not nil
	Workspace string         // absolute, as Workspace makes it
	Inputs    map[string]string
	Frozen    *frozen.Plan     // the plan whose calls are all that may be made; nil: none
	Planning  bool             // only calls without side effects
	Single    bool             // the run has one call of a client that may make others in other runs: refused if the policies have flows
	Changeset bool             // hold writes, even if the policy does not
	Bounds    []*policy.Policy // bound it besides; only without a Grant
	Grant     grants.Presented // not empty: the run is under this grant, which Policy or Root narrow further
	Wait      bool             // without a terminal, wait for approvals given elsewhere
	// Here asks the person at the terminal; nil without one: others can answer.
	Here func(ctx context.Context, c approval.Case) (store.Vote, error)
	// Advice tells a caller how a question can be answered that nobody here
	// answers; nil tells it as the command line would.
	Advice  func(filed store.Approval) string
	Asker   runner.Asker                           // holds instead of Here and Wait if not nil
	Agent   *AgentRun                              // a session's run of an agent; nil: it is none
	Context *runner.Context                        // the labels of data seen before; nil: none
	Observe func(runner.Notice)                    // nil: nobody watches
	Hooks   []runner.Hook                          // called around calls, after those of the settings
	Started func(run *runner.Run, h policies.Hint) // nil, or called once the run is recorded
	// Of a run that was queued: its ID, and what appends its RunStarted event.
	ID     uuid.UUID
	Record func(ctx context.Context, e ledger.Entry) (ledger.Seq, error)
}

// Result is how a plan's run ended.
type Result struct {
	ID       uuid.UUID
	Status   tool.Status
	Policies []*policy.Policy
	Counts   runner.Counts
	Started  time.Time
	Duration time.Duration
	Hint     policies.Hint
	Stopped  error              // why its grant ended while it ran, nil if it did not
	Held     []changeset.Change // the writes of a held run
	Waiting  int                // calls that wait for review
}

// PlanName is the name of a run: the plan's name, or the name of the plan's file.
func PlanName(p *plan.Plan) string {
	if p.Name != "" {
		return p.Name
	}
	base := filepath.Base(p.File)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// ReadPlan reads a plan file and checks it against the catalog.
func (s *Runs) ReadPlan(file string) (*plan.Plan, error) {
	src, err := wholefile.Read(file, plan.MaxSize)
	if err != nil {
		return nil, fault.Wrap(fault.PlanInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file}).
			WithHint("%s", home.NearFile(file, "name an existing plan file"))
	}
	return s.ParsePlan(file, src)
}

// ParsePlan reads a plan's source, which messages call file, and checks it
// against the catalog.
func (s *Runs) ParsePlan(file string, src []byte) (*plan.Plan, error) {
	p, err := plan.Parse(file, src)
	if err != nil {
		return nil, err
	}
	return p, p.Check(s.Tools)
}

// Active is a run whose beginning is recorded.
type Active struct {
	store  store.Store
	Runner *runner.Runner
	Run    *runner.Run
	writes *changes.Writes
	ended  func(scope string) bool
}

// Plan carries a plan out under the policies that hold, and records it.
func (s *Runs) Plan(ctx context.Context, q Request) (Result, error) {
	inputs, err := s.Bind(q)
	if err != nil {
		return Result{}, err
	}
	b, ctx, res, err := s.Start(ctx, q, runner.Info{
		Name: PlanName(q.Plan), Plan: q.Plan.Source(), Inputs: inputs, Total: len(q.Plan.Steps),
	})
	if err != nil {
		return res, err
	}
	through := &schedule.Through{Runner: b.Runner, Run: b.Run, Load: func(ctx context.Context, at ledger.Seq) (map[string]any, error) {
		return LoadOutput(ctx, b.store, at)
	}}
	sum, err := schedule.Run(ctx, q.Plan, inputs, through, schedule.Options{})
	return b.Finish(ctx, res, sum.Status, err)
}

// prepare chooses the policies and grant of a run, and builds its runner.
func (s *Runs) prepare(ctx context.Context, q Request, in *runner.Info) (b Active, res Result, err error) {
	in.Bound = s.Home.Env(q.Workspace)
	auth, err := s.authority(ctx, q, in, &res)
	if err != nil {
		return b, res, err
	}
	if err = s.Secrets.Guard(in); err != nil {
		return b, res, err
	}
	backend, err := s.Home.Ledger(ctx)
	if err != nil {
		return b, res, err
	}
	b.store = backend
	if in.Frozen = q.Frozen; q.Planning {
		in.Phase = runner.Planning
	}
	if q.Context != nil {
		in.Context = q.Context
	}
	b.ended = s.Ended
	observe, err := s.observers(q.Observe)
	if err != nil {
		return b, res, err
	}
	in.Volatile = s.Policies.Volatile(res.Policies)
	b.Runner = s.runner(recorderOf(b.store, q), s.asker(q), observe)
	b.Runner.Files = filelabels.Labels{Store: backend}
	b.Runner.Hooks = slices.Concat(s.Hooks, q.Hooks)
	if q.Agent != nil {
		b.Runner.Catalog = q.Agent.Tools
	}
	if auth != nil {
		b.Runner.Authority, b.Runner.GrantStopper = auth, auth
	}
	return b, res, nil
}

// queuedRecorder records a run that was queued: its beginning is for the queue to record.
type queuedRecorder struct {
	store.Store
	begin func(ctx context.Context, e ledger.Entry) (ledger.Seq, error)
}

// Append implements runner.Recorder.
func (r queuedRecorder) Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error) {
	if len(entries) == 1 && entries[0].Event.Kind == ledger.RunStarted {
		return r.begin(ctx, entries[0])
	}
	return r.Store.Append(ctx, entries...)
}

// HoldsLease implements runner.Leased.
func (r queuedRecorder) HoldsLease() (lost <-chan struct{}, err error) {
	if leased, ok := r.Store.(runner.Leased); ok {
		return leased.HoldsLease()
	}
	return nil, nil
}

// recorderOf is what records a run.
func recorderOf(st store.Store, q Request) runner.Recorder {
	if q.Record == nil {
		return st
	}
	return queuedRecorder{st, q.Record}
}

// Start starts a run under the policies that hold. The context that it gives
// ends with the run's time.
func (s *Runs) Start(ctx context.Context, q Request, in runner.Info) (b Active, _ context.Context, res Result, err error) {
	if b, res, err = s.prepare(ctx, q, &in); err != nil {
		return b, nil, res, err
	}
	if in.ID = q.ID; in.ID == uuid.Nil {
		if in.ID, err = home.NewID(); err != nil {
			return b, nil, res, err
		}
	}
	res.ID = in.ID
	if b.writes, err = s.Changes.Begin(&in, q.Workspace, q.Changeset); err != nil {
		return b, nil, res, err
	}
	if b.writes.Hold != nil {
		b.Runner.Facts = Facts{box: s.Box, held: b.writes.Hold, secret: s.Secrets.Value}
	}
	if b.Run, ctx, err = b.Runner.Start(ctx, in); err == nil {
		err = b.writes.Recorded(ctx, b.store, b.Run)
	}
	if err != nil {
		return b, nil, res, errors.Join(err, b.writes.Drop())
	}
	res.Started = b.Run.Started
	if q.Started != nil {
		q.Started(b.Run, res.Hint)
	}
	return b, ctx, res, nil
}

// authority chooses the authority of a run: the presented grant, or the policies in force.
func (s *Runs) authority(ctx context.Context, q Request, in *runner.Info, res *Result) (*grants.Authority, error) {
	var err error
	if q.Agent != nil {
		in.Grant, in.Policies = q.Agent.Granted.Grant, q.Agent.Granted.Sources
		in.Session, in.Inputs, in.Outputs = q.Agent.Session, q.Agent.Inputs, q.Agent.Outputs
		for _, r := range in.Grant.Chain() {
			res.Policies = append(res.Policies, r.Policy())
		}
		auth, _, err := s.Grants.Open(ctx)
		return auth, err
	}
	if q.Grant.Token == "" {
		if q.Root == nil {
			res.Policies, res.Hint, err = s.Policies.Chain(q.Policy, q.Workspace)
		} else {
			res.Policies, err = s.Policies.Bounded(q.Root)
		}
		res.Policies = append(res.Policies, q.Bounds...)
		if err == nil {
			in.Grant, in.Policies, err = s.Policies.Grant(res.Policies, q.Workspace)
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
	if in.Grant, in.Policies, auth, err = s.Grants.Under(ctx, q.Grant, in.Bound, narrower...); err != nil {
		return nil, err
	}
	for _, r := range in.Grant.Chain() {
		res.Policies = append(res.Policies, r.Policy())
	}
	return auth, nil
}

// Finish records the run's end, also after an error.
func (a Active) Finish(ctx context.Context, res Result, status tool.Status, err error) (Result, error) {
	res.Status = status
	if why := context.Cause(ctx); fault.CodeOf(why).OfGrant() {
		res.Stopped = why
	}
	if a.ended != nil && a.Run.Session == uuid.Nil {
		a.ended(a.Run.Scope())
	}
	if ferr := a.Runner.Finish(ctx, a.Run, status); err == nil {
		err = ferr
	}
	held, werr := a.writes.End(context.WithoutCancel(ctx), a.store, a.Run) // also of a run that was stopped
	if res.Held = held; err == nil {
		err = werr
	}
	res.Counts, res.Waiting = a.Run.Counts(), a.Run.Waiting()
	res.Duration = time.Since(a.Run.Started)
	return res, err
}
