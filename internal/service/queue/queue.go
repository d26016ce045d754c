// Package queue queues runs, starts them when it is their turn, and fires schedules. Start
// at [Queue.Add] and [Queue.Work].
//
// A queued run has only the authority of its caller at the time of queueing, and that is decided
// anew when it starts. Its plan and policies are kept as they were when it was queued.
package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
)

// DefaultPriority is the priority of runs that name none: there is one before it.
const DefaultPriority = 2

// maxDelay bounds how far ahead a run may be queued.
const maxDelay = 366 * 24 * time.Hour

// Queue is the queue of one ledger. Its fields are set before it is used.
type Queue struct {
	Home     *home.Home
	Policies *policies.Policies
	Grants   *grants.Grants
	Runs     *runs.Runs
	Sessions Sessions // nil: this process carries out no queued messages

	wake waker
}

// Options are the settings of queued runs only.
type Options struct {
	Priority int           // 1 to 4, 1 is first; 0: DefaultPriority
	Delay    time.Duration // from now
	At       time.Time     // instead of Delay; zero: now
	Unique   string        // at most one such run of the caller waits or runs
	Limits   []store.Slot  // Key is "grant", "tool:ID" or "source:NAME"
}

// task is the work of a queued run, as it is recorded with the plan.
type task struct {
	File      string               `json:"file"`
	Inputs    map[string]string    `json:"inputs,omitempty"`
	Frozen    json.RawMessage      `json:"frozen,omitempty"`
	Planning  bool                 `json:"planning,omitempty"`
	Changeset bool                 `json:"changeset,omitempty"`
	Policy    *ledger.PolicySource `json:"policy,omitempty"` // that the caller named
}

// Add queues a run. It decides now what would keep it from ever starting. If the caller has
// a run with the same unique key that waits or runs, that one is returned, and false.
func (q *Queue) Add(ctx context.Context, r runs.Request, o Options) (store.QueuedRun, bool, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.QueuedRun{}, false, err
	}
	run, err := q.prepare(ctx, r, &o)
	if err != nil {
		return run, false, err
	}
	run.ID = r.ID
	return q.enqueue(ctx, st, run, o)
}

func (q *Queue) enqueue(ctx context.Context, st store.Backend, run store.QueuedRun, o Options) (store.QueuedRun, bool, error) {
	if run.ID == uuid.Nil {
		var err error
		if run.ID, err = home.NewID(); err != nil {
			return run, false, err
		}
	}
	run.Queued = st.Now()
	run.Due = run.Queued
	switch {
	case !o.At.IsZero():
		run.Due, run.Fixed = o.At, true
	case o.Delay > 0:
		run.Due = run.Queued.Add(o.Delay)
	}
	if run.Due.After(run.Queued.Add(maxDelay)) {
		return run, false, fault.New(fault.Usage, "a run cannot be queued for %s: that is more than a year ahead", run.Due.Format(time.RFC3339)).In("at")
	}
	out, fresh, err := st.Enqueue(ctx, run, q.room())
	if err == nil {
		q.wake.all()
	}
	return out, fresh, err
}

// Cancel cancels a queued run. One that has started is stopped by the process that carries
// it out.
func (q *Queue) Cancel(ctx context.Context, id, by string) (store.QueuedRun, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.QueuedRun{}, err
	}
	run, err := st.Queued(ctx, id)
	if err != nil {
		return run, err
	}
	if err := st.ChangeQueued(ctx, store.QueueChange{ID: run.ID, To: ledger.QueueCancelled, By: by, At: st.Now()}); err != nil {
		return run, err
	}
	q.wake.all()
	return st.Queued(ctx, run.ID.String())
}

// Pause pauses or resumes the queue.
func (q *Queue) Pause(ctx context.Context, paused bool, by string) error {
	st, err := q.Home.Ledger(ctx)
	if err == nil {
		err = st.PauseQueue(ctx, paused, by)
	}
	q.wake.all()
	return err
}

func (q *Queue) room() store.QueueRoom {
	most := q.Home.Settings.Queue.Waiting
	return store.QueueRoom{Most: most, PerRoot: max(1, most/2)}
}

// prepare checks a request and makes the queued run of it.
func (q *Queue) prepare(ctx context.Context, r runs.Request, o *Options) (store.QueuedRun, error) {
	if err := o.check(); err != nil {
		return store.QueuedRun{}, err
	}
	if _, err := q.Runs.Bind(r); err != nil {
		return store.QueuedRun{}, err
	}
	run := store.QueuedRun{Name: runs.PlanName(r.Plan), Workspace: r.Workspace, Priority: o.Priority, Unique: o.Unique, Total: len(r.Plan.Steps)}
	t := task{File: r.Plan.File, Inputs: r.Inputs, Planning: r.Planning, Changeset: r.Changeset}
	if r.Frozen != nil {
		t.Frozen = r.Frozen.Encode()
	}
	if r.Root == nil && r.Policy != "" {
		p, err := policies.Read(r.Policy)
		if err != nil {
			return run, err
		}
		r.Root = p
	}
	if r.Root != nil {
		src := grants.PolicySource(r.Root)
		t.Policy = &src
	}
	if err := q.authority(ctx, r, &run); err != nil {
		return run, err
	}
	var err error
	if run.Limits, err = q.limitsOf(r.Plan, &run, o.Limits); err != nil {
		return run, err
	}
	run.Task.Plan, run.Task.Token = r.Plan.Source(), r.Grant.Token
	if run.Task.Doc, err = json.Marshal(t); err != nil {
		return run, fault.Wrap(fault.Internal, err, "a queued run cannot be encoded")
	}
	return run, nil
}

// check settles the priority, and checks everything that is the same for all runs.
func (o *Options) check() error {
	if o.Priority == 0 {
		o.Priority = DefaultPriority
	}
	if o.Priority < 1 || o.Priority > 4 {
		return badPriority(o.Priority)
	}
	if len(o.Unique) > 200 || !utf8.ValidString(o.Unique) {
		return fault.New(fault.Usage, "the unique key is not a text of at most 200 bytes").In("unique")
	}
	return nil
}

func badPriority(n int) error {
	return fault.New(fault.Usage, "%d is not a valid priority; expected 1 (first) to 4 (last)", n).In("priority")
}

// authority records under which authority a run is queued. A grant must be valid now.
func (q *Queue) authority(ctx context.Context, r runs.Request, run *store.QueuedRun) error {
	if r.Grant.Token == "" {
		chain, hint, err := q.chain(r)
		if err == nil && hint != "" {
			err = fault.New(fault.PolicyMissing, "without a policy every call of the run would be denied").ForOperator("%s", string(hint))
		}
		for _, p := range chain {
			run.Task.Policies = append(run.Task.Policies, grants.PolicySource(p))
		}
		run.Principal = "user:" + q.Home.User
		return err
	}
	var narrower []*policy.Policy
	if r.Root != nil {
		narrower = append(narrower, r.Root)
	}
	g, sources, _, err := q.Grants.Under(ctx, r.Grant, q.Home.Env(r.Workspace), narrower...)
	if err != nil {
		return err
	}
	c, err := q.Grants.Authentic(r.Grant.Token)
	if err != nil {
		return err
	}
	run.Task.Policies, run.Principal, run.Grant, run.Root = sources, g.Holder(), c.Leaf(), g.Nodes()[0].ID
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return err
	}
	run.Owner, err = grants.OwnerOf(ctx, st, c.Leaf().String())
	return err
}

// chain is the chain of policies of a run without a grant, as it is now.
func (q *Queue) chain(r runs.Request) ([]*policy.Policy, policies.Hint, error) {
	if r.Root == nil {
		return q.Policies.Chain("", r.Workspace)
	}
	ps, err := q.Policies.Bounded(r.Root)
	return ps, "", err
}

// request makes the request of a queued run, with the authority that its caller has now.
func (q *Queue) request(run *store.QueuedRun, t store.Task) (runs.Request, error) {
	var d task
	if err := json.Unmarshal(t.Doc, &d); err != nil {
		return runs.Request{}, fault.Wrap(fault.StoreCorrupt, err, "the task of the queued run %s cannot be read", run.ID)
	}
	r := runs.Request{Workspace: run.Workspace, Inputs: d.Inputs, Planning: d.Planning, Changeset: d.Changeset, Wait: true,
		Grant: grants.Presented{Token: t.Token, Proven: true}} // by the caller who queued it, see authority
	if info, err := os.Stat(run.Workspace); err != nil || !info.IsDir() {
		return r, fault.New(fault.NotFound, "the workspace %q is not a folder of this machine", run.Workspace)
	}
	var err error
	if r.Frozen, err = runs.ParseFrozen(d.Frozen); err != nil {
		return r, err
	}
	if r.Plan, err = q.Runs.ParsePlan(d.File, t.Plan); err != nil {
		return r, err
	}
	if d.Policy != nil {
		if r.Root, err = policy.Parse(d.Policy.File, []byte(d.Policy.Source)); err != nil {
			return r, err
		}
	}
	if run.Root != uuid.Nil {
		if t.Token == "" {
			err = fault.New(fault.GrantInvalid, "the grant of the queued run %s is not kept any more", run.ID)
		}
		return r, err
	}
	return r, q.bound(&r, t.Policies)
}

// bound bounds a run without a grant by the policies that held when it was queued, besides
// those of today.
func (q *Queue) bound(r *runs.Request, then []ledger.PolicySource) error {
	today, hint, err := q.chain(*r)
	if err == nil && hint != "" {
		err = fault.New(fault.PolicyMissing, "the workspace's policy is not trusted any more, so every call of the run would be denied").ForOperator("%s", string(hint))
	}
	if err != nil {
		return err
	}
	for _, src := range then {
		if slices.ContainsFunc(today, func(p *policy.Policy) bool { return string(p.Source()) == src.Source }) {
			continue
		}
		p, err := policy.Parse(src.File, []byte(src.Source))
		if err != nil {
			return err
		}
		r.Bounds = append(r.Bounds, p)
	}
	return nil
}

// sourceOf names where a tool comes from, as the catalog does.
func sourceOf(id tool.ID) string {
	parts := strings.SplitN(string(id), ":", 3)
	if len(parts) < 3 {
		return "builtin"
	}
	return parts[0] + ":" + parts[1]
}

// keysOf are the keys of limits that a run of a plan can count for: its grant's or its
// person's, its tools' and their sources'.
func keysOf(p *plan.Plan, run *store.QueuedRun) map[string]string {
	own := "grant:" + run.Principal
	if run.Root != uuid.Nil {
		own = "grant:" + run.Root.String()
	}
	keys := map[string]string{"grant": own}
	for _, s := range p.Steps {
		for _, key := range []string{"tool:" + string(s.Tool), "source:" + sourceOf(s.Tool)} {
			keys[key] = key
		}
	}
	return keys
}

// limitsOf checks the limits of a run, and adds those of the settings that concern it. Of
// two with one key the smaller holds.
func (q *Queue) limitsOf(p *plan.Plan, run *store.QueuedRun, limits []store.Slot) ([]store.Slot, error) {
	keys, most := keysOf(p, run), map[string]int{}
	for name, n := range q.Home.Settings.Queue.Limits {
		if key, ok := keys[name]; ok {
			most[key] = n
		}
	}
	for i, l := range limits {
		field := fmt.Sprintf("limits[%d]", i)
		key, ok := keys[l.Key]
		switch {
		case !ok && !strings.HasPrefix(l.Key, "tool:") && !strings.HasPrefix(l.Key, "source:"):
			return nil, fault.New(fault.Usage, "%q is not a valid limit; expected grant, tool:ID or source:NAME", l.Key).In(field)
		case !ok:
			return nil, fault.New(fault.Usage, "no step of the plan calls %s", l.Key).In(field).WithHint("leave the limit out, or check its spelling")
		case l.Most < 1:
			return nil, fault.New(fault.Usage, "the limit of %s is %d; it must be at least 1", l.Key, l.Most).In(field)
		}
		if was, ok := most[key]; !ok || l.Most < was {
			most[key] = l.Most
		}
	}
	var out []store.Slot
	for _, key := range slices.Sorted(maps.Keys(most)) {
		out = append(out, store.Slot{Key: key, Most: most[key]})
	}
	return out, nil
}
