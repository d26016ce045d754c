package replay_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// moods is an Authority whose answers a test sets for each call.
type moods struct {
	check, reserve error
	during         error // of Check, once a budget was waited for
}

func (m *moods) Check(context.Context, grant.Grant) error { return m.check }

func (m *moods) Watch(ctx context.Context, _ grant.Grant) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

func (m *moods) Reserve(context.Context, *runner.Run, tool.ID, grant.Amounts) (runner.Reservation, error) {
	if m.during != nil {
		m.check = m.during
	}
	return free{}, m.reserve
}

func (m *moods) Done(context.Context, *runner.Run) error { return nil }

type free struct{}

func (free) Given() grant.Amounts  { return grant.Amounts{Calls: 1} }
func (free) Over() <-chan struct{} { return nil }
func (free) Settle(grant.Amounts)  {}

// asked revokes the grant while it is asked, where told to.
type asked struct {
	moods *moods
	then  error
	yes   bool
	turns *turning
	to    fault.Code
}

// turning is a catalog whose tools are disabled, or others, once somebody was
// asked.
type turning struct {
	runner.Catalog
	to fault.Code
}

func (c *turning) Lookup(id tool.ID) (runner.Entry, error) {
	e, err := c.Catalog.Lookup(id)
	switch c.to {
	case fault.ToolDisabled:
		e.Disabled = "by ann"
	case fault.ToolChanged:
		e.Digest[0]++
	}
	return e, err
}

func (a *asked) Ask(context.Context, runner.Question) (runner.Answer, error) {
	a.moods.check, a.turns.to = a.then, a.to
	return runner.Answer{Yes: a.yes, By: "user:ann", Reason: "because"}, nil
}

// What gates said that ask the world and not the policy, a replay takes from the
// record: there is no standing and no budget to look at.
func TestGatesAreReplayedAsRecorded(t *testing.T) {
	revoked := fault.New(fault.GrantRevoked, "it was revoked").WithHint("ask")
	type step struct {
		path, tool string
		moods      moods
		then       error
		no         bool
		to         fault.Code // what becomes of the tool while it is asked about
		want       fault.Code
	}
	tests := map[string]struct {
		policy string
		phase  runner.Phase
		frozen bool
		steps  []step
	}{
		"revoked, later not": {steps: []step{{path: "a", moods: moods{check: revoked}, want: fault.GrantRevoked}, {path: "b"},
			{path: "c", moods: moods{check: fault.New(fault.StoreFailed, "the ledger is away")}, want: fault.StoreFailed}, {path: "d", tool: "none", want: fault.ToolUnknown}}},
		"no budget": {steps: []step{{path: "a", moods: moods{reserve: fault.New(fault.BudgetSpent, "no calls are left")}, want: fault.BudgetSpent}, {path: "a"},
			{path: "secret", moods: moods{reserve: fault.New(fault.BudgetSpent, "not asked")}, want: fault.Denied},
			{path: "c", moods: moods{reserve: fault.New(fault.StoreFailed, "the ledger is away")}, want: fault.StoreFailed}}},
		"revoked while asked": {steps: []step{{path: "asked", then: revoked, want: fault.GrantRevoked}, {path: "asked"}, {path: "asked", no: true, want: fault.NeedsApproval},
			{path: "asked", then: fault.New(fault.StoreFailed, "away"), want: fault.StoreFailed}}},
		"another tool while asked": {steps: []step{{path: "asked", to: fault.ToolDisabled, want: fault.ToolDisabled}, {path: "asked"},
			{path: "asked", to: fault.ToolChanged, want: fault.ToolChanged}}},
		"paused while it waits for a budget": {steps: []step{{path: "a", moods: moods{during: fault.New(fault.GrantPaused, "paused")}, want: fault.GrantPaused}, {path: "b"}}},
		"planning":                           {phase: runner.Planning, steps: []step{{path: "a"}, {path: "a", tool: "put", want: fault.PlanOnly}}},
		"frozen":                             {frozen: true, steps: []step{{path: "x", want: fault.NotInPlan}, {path: "a"}, {path: "a", want: fault.NotInPlan}, {path: "hello", tool: "put"}}},
		"frozen, others are asked":           {frozen: true, policy: "frozen_plan: {otherwise: ask}\n", steps: []step{{path: "x"}, {path: "a"}, {path: "hello", tool: "put"}}},
		"a plan is required":                 {policy: "frozen_plan: {required: true}\n", steps: []step{{path: "x", want: fault.NotInPlan}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			st, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			src := policySource + tt.policy
			pol, err := policy.Parse("p.yaml", []byte(src))
			if err != nil {
				t.Fatal(err)
			}
			env := policy.Env{Workspace: "/ws"}
			rules, err := pol.Bind(env)
			if err != nil {
				t.Fatal(err)
			}
			tools, id, m := stubs(), uuid.Must(uuid.NewV7()), &moods{}
			in := runner.Info{ID: id, Bound: env, Phase: tt.phase, Policies: []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: src}},
				Grant: grant.New(grant.Terms{ID: uuid.Must(uuid.NewV7()), Holder: "user:ann", Policies: []*policy.Rules{rules}, Kept: true})}
			if tt.frozen {
				pl, err := plan.Parse("plan.yaml", []byte("steps: [{id: one, tool: get, args: {path: a}}, {tool: put, args: {path: '${{ steps.one.output.text }}'}}]"))
				if err != nil {
					t.Fatal(err)
				}
				if in.Frozen, err = frozen.Freeze(pl, nil, list(t, tools)); err != nil {
					t.Fatal(err)
				}
			}
			turns := &turning{Catalog: list(t, tools)}
			ask := &asked{moods: m, turns: turns}
			rn := &runner.Runner{Catalog: turns, Record: st, Facts: world{}, Execs: runner.Direct{}, Ask: ask, Authority: m}
			run, _, err := rn.Start(ctx, in)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range tt.steps {
				*m, ask.then, ask.yes, ask.to, turns.to = s.moods, s.then, !s.no, s.to, 0
				if s.tool == "" {
					s.tool = "get"
				}
				o := rn.Execute(ctx, run, runner.Call{Tool: tool.ID(s.tool), Args: tool.Args{"path": s.path}})
				if s.want == 0 && o.Err != nil || s.want != 0 && fault.CodeOf(o.Err) != s.want {
					t.Fatalf("call %d: %s %v, want %v", i+1, o.Status, o.Err, s.want)
				}
			}
			if err := rn.Finish(ctx, run, tool.StatusDenied); err != nil {
				t.Fatal(err)
			}
			again := stubs()
			if m := replaySession(t, st, id, list(t, again)); m != nil {
				t.Errorf("the replay differs: %s", m)
			}
			for _, s := range again {
				if s.ran > 0 {
					t.Errorf("%s really ran", s.id)
				}
			}
		})
	}
}

// replaySession replays a run without a plan.
func replaySession(t *testing.T, st *sqlite.Store, id uuid.UUID, tools runner.Catalog) *replay.Mismatch {
	t.Helper()
	ctx := t.Context()
	was, err := st.Run(ctx, id.String())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := replay.Open(ctx, st, was)
	if err != nil {
		t.Fatal(err)
	}
	g, err := rec.Grant()
	if err != nil {
		t.Fatal(err)
	}
	again := runner.Info{ID: uuid.Must(uuid.NewV7()), Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Recall: rec, ReplayOf: id}
	planning, err := rec.Planning(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if planning {
		again.Phase = runner.Planning
	}
	if again.Frozen, err = rec.Frozen(ctx); err != nil {
		t.Fatal(err)
	}
	rn := &runner.Runner{Catalog: tools, Record: st, Facts: rec, Execs: rec, Ask: rec}
	run, _, err := rn.Start(ctx, again)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range rec.Calls() { // what the policy says of each is what it said
		c, _ := rec.Call(i)
		if c.Rule == "grant" || c.Rule == "mode" {
			continue
		}
		if d, _, err := rec.Judge(ctx, tools, g.Chain(), c); err != nil || d.Effect != c.Effect {
			t.Errorf("call %d was decided %s, is judged %s (%v)", i, c.Effect, d.Effect, err)
		}
	}
	check := rec.Checker(func() {})
	if _, err := rec.Again(ctx, rn, run, check); err != nil {
		t.Fatal(err)
	}
	if err := rn.Finish(ctx, run, tool.Completed); err != nil {
		t.Fatal(err)
	}
	for e, err := range st.Events(ctx, run.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == ledger.Violation {
			t.Errorf("the replay recorded the violation %s", e.Event.Violated)
		}
	}
	for c, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		if was, _ := rec.Call(c.Index); started(c) != started(was) {
			t.Errorf("call %d got past its gates: %t, when it was recorded: %t", c.Index, started(c), started(was))
		}
	}
	return check.First()
}

// started reports whether a call got past all gates.
func started(c ledger.Call) bool {
	return len(c.Timeline) > 1 && c.Timeline[ledger.Executing-ledger.Validating] >= 0
}

// far is a tool of a server that has one slot. It keeps the slot while it is held.
type far struct {
	stub
	began, leave chan struct{}
}

func (f *far) Spec() *tool.Spec {
	s := f.stub.Spec()
	s.Source = "mcp"
	return s
}

func (f *far) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	p, err := f.stub.Prepare(env, args)
	hold := args["path"] == "held"
	p.Run = func(ctx context.Context, p permit.Permit) (tool.Result, error) {
		if hold {
			close(f.began)
			<-f.leave
		}
		return f.run(ctx, p)
	}
	return p, err
}

// A call that got no slot is refused in its replay too, where there are slots: at the gate of
// budgets if nobody was asked, and after the recorded answer if somebody was.
func TestAMissingSlotIsReplayed(t *testing.T) {
	ctx := t.Context()
	st, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	pol, err := policy.Parse("p.yaml", []byte(policySource))
	if err != nil {
		t.Fatal(err)
	}
	env := policy.Env{Workspace: "/ws"}
	rules, err := pol.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	server := func() (*far, *catalog.Catalog) {
		f := &far{stub: stub{id: "far"}, began: make(chan struct{}), leave: make(chan struct{})}
		c, err := catalog.New(f)
		if err != nil {
			t.Fatal(err)
		}
		return f, c
	}
	f, tools := server()
	rn := &runner.Runner{
		Catalog: tools, Record: st, Facts: world{}, Execs: runner.Direct{}, Ask: world{},
		Sources: runner.NewSources(map[runner.Tier]runner.TierLimits{runner.LocalMCP: {AtOnce: 1, Wait: time.Millisecond}}, nil),
	}
	id := uuid.Must(uuid.NewV7())
	run, _, err := rn.Start(ctx, runner.Info{ID: id, Bound: env, Policies: []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: policySource}},
		Grant: grant.New(grant.Terms{ID: uuid.Must(uuid.NewV7()), Holder: "user:ann", Policies: []*policy.Rules{rules}})})
	if err != nil {
		t.Fatal(err)
	}
	call := func(path string) runner.Outcome {
		return rn.Execute(ctx, run, runner.Call{Tool: "far", Args: tool.Args{"path": path}})
	}
	held := make(chan runner.Outcome)
	go func() { held <- call("held") }()
	<-f.began
	for _, path := range []string{"asked", "a"} {
		if o := call(path); fault.CodeOf(o.Err) != fault.LimitReached {
			t.Errorf("%s: %s %v, want %v", path, o.Status, o.Err, fault.LimitReached)
		}
	}
	close(f.leave)
	if o := <-held; o.Err != nil {
		t.Error(o.Err)
	}
	if o := call("asked"); o.Err != nil {
		t.Error(o.Err)
	}
	if err := rn.Finish(ctx, run, tool.Completed); err != nil {
		t.Fatal(err)
	}
	again, tools := server()
	if m := replaySession(t, st, id, tools); m != nil {
		t.Errorf("the replay differs: %s", m)
	}
	if again.ran > 0 {
		t.Error("the tool really ran")
	}
}
