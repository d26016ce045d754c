package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// ruler is an Authority that says what it is told to, and counts what is out.
type ruler struct {
	mu      sync.Mutex
	refuse  error // of Check
	spent   error // of Reserve
	cut     context.CancelCauseFunc
	given   grant.Amounts
	open    int // reservations that were not settled
	settled []grant.Amounts
	over    chan struct{}
	done    int
	waiting func() // called while Reserve waits
}

func (r *ruler) Check(context.Context, grant.Grant) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refuse
}

func (r *ruler) Watch(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc) {
	if g.Chain().Terms().FinishRevoked {
		return ctx, func() {}
	}
	ctx, cut := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cut = cut
	return ctx, func() { cut(nil) }
}

func (r *ruler) Reserve(context.Context, *runner.Run, tool.ID, grant.Amounts) (runner.Reservation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spent != nil {
		return nil, r.spent
	}
	if r.waiting != nil {
		r.waiting()
	}
	r.open++
	return &held{r}, nil
}

func (r *ruler) Done(context.Context, *runner.Run) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	return nil
}

// revoke refuses from now on and ends what runs.
func (r *ruler) revoke(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = why
	if r.cut != nil {
		r.cut(why)
	}
}

type held struct{ r *ruler }

func (h *held) Given() grant.Amounts  { return h.r.given }
func (h *held) Over() <-chan struct{} { return h.r.over }
func (h *held) Settle(used grant.Amounts) {
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	h.r.open--
	h.r.settled = append(h.r.settled, used)
}

// votes is an Asker with one answer for all.
type votes struct {
	yes    bool
	reason string
	asked  atomic.Int32
	during func(runner.Question)
}

func (a *votes) Ask(_ context.Context, q runner.Question) (runner.Answer, error) {
	a.asked.Add(1)
	if a.during != nil {
		a.during(q)
	}
	return runner.Answer{Yes: a.yes, By: "user:ann", Reason: a.reason}, nil
}

// switched lists tools of which some are disabled.
type switched struct {
	runner.Catalog
	off map[tool.ID]string
}

func (s switched) Lookup(id tool.ID) (runner.Entry, error) {
	e, err := s.Catalog.Lookup(id)
	e.Disabled = s.off[id]
	return e, err
}

// under ends the house's run and starts another one.
func (h *house) under(src string, change func(*runner.Info)) {
	h.t.Helper()
	p, err := policy.Parse("test.yaml", []byte("version: 1\n"+src))
	if err != nil {
		h.t.Fatal(err)
	}
	env := policy.Env{Workspace: "/ws", Path: []string{"/usr/bin"}}
	rules, err := p.Bind(env)
	if err != nil {
		h.t.Fatal(err)
	}
	in := runner.Info{ID: uuid.Must(uuid.NewV7()), Bound: env}
	terms := grant.Terms{ID: uuid.Must(uuid.NewV7()), Holder: "user:test", Policies: []*policy.Rules{rules}, Kept: h.rn.Authority != nil}
	in.Grant = grant.New(terms)
	if change != nil {
		change(&in)
	}
	h.run, h.ctx, err = h.rn.Start(h.t.Context(), in)
	if err != nil {
		h.t.Fatal(err)
	}
}

// freeze makes a frozen plan of YAML.
func freeze(t testing.TB, src string, tools ...permit.Tool) *frozen.Plan {
	t.Helper()
	cat, err := catalog.New(tools...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Parse("plan.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	in, err := p.Inputs(nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := frozen.Freeze(p, in, cat)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Every gate that a call fails is listed in order; leaving out the first ones
// one after the other, the next one is named each time.
func TestGatesRefuseInOneOrder(t *testing.T) {
	type world struct {
		r    *ruler
		rn   *runner.Runner
		info *runner.Info
		src  *string
		args tool.Args
	}
	probes := func() *probe { return &probe{id: "p", effects: tool.EffectSet(tool.FSWrite), risk: tool.High} }
	gates := []struct {
		name string
		shut func(w *world)
		code fault.Code
		rule string
	}{
		{"grant", func(w *world) { w.r.refuse = fault.New(fault.GrantRevoked, "it was revoked") }, fault.GrantRevoked, "grant"},
		{"plan", func(w *world) { w.info.Frozen = freeze(t, "steps: [{tool: p, args: {path: other}}]", probes()) }, fault.NotInPlan, "default"},
		{"mode", func(w *world) { w.info.Phase = runner.Planning }, fault.PlanOnly, "mode"},
		{"tool", func(w *world) { w.rn.Catalog = switched{w.rn.Catalog, map[tool.ID]string{"p": "it is broken"}} }, fault.ToolDisabled, "tool"},
		{"digest", func(w *world) {
			w.info.Grant = w.info.Grant.Derive(grant.Terms{ID: uuid.Must(uuid.NewV7()), Holder: "user:test", Kept: true, Pins: map[tool.ID]tool.Digest{"p": {1}}})
		}, fault.ToolChanged, "tool"},
		{"policy", func(w *world) { w.args = tool.Args{"path": "secret"} }, fault.Denied, "files.read.deny[0]"},
		{"risk", func(w *world) { *w.src = strings.Replace(*w.src, "tools: {", "tools: {deny_from_risk: high, ", 1) }, fault.Denied, "tools.deny_from_risk"},
		{"limit", func(w *world) { *w.src += "\nlimits: {per_tool: {p: 0}}" }, fault.LimitReached, ""},
		{"budget", func(w *world) { w.r.spent = fault.New(fault.BudgetSpent, "no calls are left") }, fault.BudgetSpent, ""},
		{"approval", func(*world) {}, fault.NeedsApproval, ""},
	}
	for i := range gates {
		t.Run(gates[i].name, func(t *testing.T) {
			p := probes()
			r, no := &ruler{}, &votes{}
			h := newHouse(t, open, p)
			h.rn.Authority, h.rn.Ask = r, no
			src := "files: {read: {allow: ['**'], deny: ['secret'], ask: ['ask']}}\ntools: {allow: ['*'], ask_from_risk: low}"
			w := &world{r: r, rn: h.rn, src: &src, args: tool.Args{"path": "ask"}}
			var shuts []func(*world)
			for k := len(gates) - 1; k >= i; k-- {
				shuts = append(shuts, gates[k].shut)
			}
			w.info = &runner.Info{Grant: grant.New(grant.Terms{})}
			for _, shut := range shuts { // those that change the policy
				shut(w)
			}
			h.under(src, func(in *runner.Info) {
				w.info = in
				for _, shut := range shuts {
					shut(w)
				}
			})
			o := h.call("p", w.args)
			if o.Status != tool.StatusDenied || !errors.Is(o.Err, gates[i].code) {
				t.Fatalf("%s: %v, want %s", o.Status, o.Err, gates[i].code)
			}
			if gates[i].rule != "" && (o.Decision.Rule == nil || o.Decision.Rule.Name != gates[i].rule) {
				t.Errorf("the rule is %s, want %s", o.Decision.Rule, gates[i].rule)
			}
			if p.ran.Load() != 0 || r.open != 0 {
				t.Errorf("it ran %d times, %d reservations are open", p.ran.Load(), r.open)
			}
			if asked := no.asked.Load() == 1; asked != (gates[i].name == "approval") {
				t.Errorf("somebody was asked: %v", asked)
			}
			calls := h.recorded()
			if len(calls) != 1 || calls[0].Code != gates[i].code || calls[0].Risk != tool.High {
				t.Errorf("recorded %+v", calls)
			}
			if r.done != 1 {
				t.Errorf("the run accounted %d times for what it reserved", r.done)
			}
		})
	}
}

func TestAKeptGrantWithoutAuthorityIsRefused(t *testing.T) {
	p := &probe{id: "p"}
	h := newHouse(t, open, p)
	h.under("tools: {allow: ['*']}", func(in *runner.Info) {
		in.Grant = in.Grant.Derive(grant.Terms{ID: uuid.Must(uuid.NewV7()), Kept: true})
	})
	if o := h.call("p", nil); o.Status != tool.StatusDenied || p.ran.Load() != 0 {
		t.Errorf("%s %v", o.Status, o.Err)
	}
}

// yes lets everything through a gate.
type yes struct{}

func (yes) Recall(context.Context, runner.Call, runner.Gate) error { return nil }

func (yes) Flow(context.Context, runner.Call) (ledger.CallFlow, error) { return ledger.CallFlow{}, nil }

func (yes) Released(context.Context, runner.Call) (*ledger.HeldCall, error) { return nil, nil }

func (yes) Origins(_ context.Context, _ runner.Call, use func(*provenance.Index)) error {
	use(provenance.New())
	return nil
}

func (yes) Bounds(context.Context, runner.Call) (runner.Bounds, error) { return runner.Bounds{}, nil }

func (yes) Tool(context.Context, runner.Call) (runner.Entry, bool, error) {
	return runner.Entry{}, false, nil
}

func TestOnlyAReplayPassesGatesFromMemory(t *testing.T) {
	h := newHouse(t, open, &probe{id: "p"})
	if _, _, err := h.rn.Start(t.Context(), runner.Info{ID: uuid.Must(uuid.NewV7()), Grant: h.run.Grant, Recall: yes{}}); err == nil {
		t.Error("a live run begins")
	}
}

func TestAGrantOutOfItsTimeIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		terms grant.Terms
		code  fault.Code
	}{
		"expired": {grant.Terms{Expires: time.Now().Add(-time.Second)}, fault.GrantExpired},
		"early":   {grant.Terms{NotBefore: time.Now().Add(time.Hour)}, fault.GrantEarly},
	} {
		p := &probe{id: "p"}
		h := newHouse(t, open, p)
		h.under("tools: {allow: ['*']}", func(in *runner.Info) { in.Grant = in.Grant.Derive(tt.terms) })
		if o := h.call("p", nil); !errors.Is(o.Err, tt.code) || o.Status != tool.StatusDenied || p.ran.Load() != 0 {
			t.Errorf("%s: %s %v", name, o.Status, o.Err)
		}
	}
}

func TestPlanningLetsOnlyHarmlessCallsThrough(t *testing.T) {
	read, write := &probe{id: "r", effects: tool.EffectSet(tool.FSRead)}, &probe{id: "w", effects: tool.EffectSet(tool.NetworkHTTP)}
	h := newHouse(t, open, read, write)
	h.under("tools: {allow: ['*']}", func(in *runner.Info) { in.Phase = runner.Planning })
	if o := h.call("r", nil); o.Status != tool.Completed {
		t.Errorf("reading: %s %v", o.Status, o.Err)
	}
	if o := h.call("w", nil); !errors.Is(o.Err, fault.PlanOnly) || write.ran.Load() != 0 {
		t.Errorf("a request: %s %v", o.Status, o.Err)
	}
}

// A grant that is revoked while somebody thinks about a question is not used.
func TestRevokedWhileAsking(t *testing.T) {
	p, r := &probe{id: "p"}, &ruler{}
	yes := &votes{yes: true, during: func(runner.Question) { r.revoke(fault.New(fault.GrantRevoked, "revoked")) }}
	h := newHouse(t, open, p)
	h.rn.Authority, h.rn.Ask = r, yes
	h.under("tools: {ask: ['*']}", nil)
	o := h.call("p", nil)
	if !errors.Is(o.Err, fault.GrantRevoked) || o.Status != tool.StatusDenied || p.ran.Load() != 0 || r.open != 0 {
		t.Errorf("%s %v, ran %d, open %d", o.Status, o.Err, p.ran.Load(), r.open)
	}
}

func TestRevocationEndsWhatRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		src    string
		status tool.Status
		code   fault.Code
	}{
		"cancel": {"on_revoke: cancel", tool.Cancelled, fault.GrantRevoked},
		"finish": {"on_revoke: finish", tool.Completed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := &ruler{}
			began := make(chan struct{})
			p := &probe{id: "p", effects: tool.EffectSet(tool.SystemExec), run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
				close(began)
				if tt.code == 0 {
					return tool.Result{}, nil
				}
				<-ctx.Done()
				return tool.Result{}, ctx.Err()
			}}
			h := newHouse(t, open, p)
			h.rn.Authority = r
			h.under("tools: {allow: ['*']}\n"+tt.src, nil)
			go func() {
				<-began
				r.revoke(fault.New(fault.GrantRevoked, "revoked"))
			}()
			o := h.call("p", nil)
			if o.Status != tt.status || tt.code != 0 && !errors.Is(o.Err, tt.code) {
				t.Errorf("%s %v", o.Status, o.Err)
			}
			if len(r.settled) != 1 || r.settled[0].Calls != 1 {
				t.Errorf("settled %+v", r.settled)
			}
			if o.Violations != nil {
				t.Errorf("a call that was cut off is no violation: %+v", o.Violations)
			}
		})
	}
}

// A call that outlives its grant is ended, also one of a run's own grant, and
// whatever the policy says of revocation.
func TestExpiryEndsWhatRuns(t *testing.T) {
	p := &probe{id: "p", run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	h := newHouse(t, open, p)
	h.under("tools: {allow: ['*']}\non_revoke: finish", func(in *runner.Info) {
		in.Grant = in.Grant.Derive(grant.Terms{Expires: time.Now().Add(2 * time.Second)})
	})
	if o := h.call("p", nil); o.Status != tool.Cancelled || !errors.Is(o.Err, fault.GrantExpired) {
		t.Errorf("%s %v", o.Status, o.Err)
	}
	if o := h.call("p", nil); o.Status != tool.StatusDenied || !errors.Is(o.Err, fault.GrantExpired) {
		t.Errorf("the next call: %s %v", o.Status, o.Err)
	}
}

func TestATimeBudgetEndsACall(t *testing.T) {
	r := &ruler{over: make(chan struct{})}
	p := &probe{id: "p", run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		close(r.over)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	h := newHouse(t, open, p)
	h.rn.Authority = r
	h.under("tools: {allow: ['*']}", nil)
	if o := h.call("p", nil); o.Status != tool.TimedOut || !errors.Is(o.Err, fault.BudgetSpent) || r.open != 0 {
		t.Errorf("%s %v, open %d", o.Status, o.Err, r.open)
	}
}

func TestWhatWasUsedIsSettledAndRecorded(t *testing.T) {
	r := &ruler{given: grant.Amounts{Calls: 1, BytesIn: 100, BytesOut: 50}}
	var in, out int64
	var after error
	p := &probe{id: "p", effects: tool.EffectSet(tool.NetworkHTTP), run: func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		in, out = pm.Allowance()
		if err := pm.Transferred(60, 20); err != nil {
			return tool.Result{}, err
		}
		after = pm.Transferred(60, 0)
		return tool.Result{}, after
	}}
	h := newHouse(t, open, p)
	h.rn.Authority = r
	h.under("tools: {allow: ['*']}\nnetwork: {allow: [example.com], total_bytes: 1000}", nil)
	o := h.call("p", nil)
	if !errors.Is(o.Err, fault.BudgetSpent) || !errors.Is(after, fault.BudgetSpent) || in != 100 || out != 50 {
		t.Errorf("%v, %v, allowed %d in, %d out", o.Err, after, in, out)
	}
	if len(r.settled) != 1 || r.settled[0].BytesIn != 120 || r.settled[0].BytesOut != 20 || r.settled[0].Calls != 1 || r.settled[0].Time <= 0 {
		t.Errorf("settled %+v", r.settled)
	}
	var intent, outcome []int64
	for e, err := range h.st.Events(t.Context(), h.run.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Event.Kind {
		case ledger.CallIntent:
			intent = e.Event.Usage
		case ledger.CallOutcome:
			outcome = e.Event.Usage
		}
	}
	if fmt.Sprint(intent) != "[1 100 50]" || len(outcome) < 3 || outcome[1] != 120 {
		t.Errorf("recorded %v, %v", intent, outcome)
	}
}

func TestRunLimitsBoundBytes(t *testing.T) {
	p := &probe{id: "p", effects: tool.EffectSet(tool.NetworkHTTP), run: func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		return tool.Result{}, pm.Transferred(600, 0)
	}}
	h := newHouse(t, open, p)
	h.under("tools: {allow: ['*']}\nnetwork: {allow: [example.com]}\nlimits: {bytes_in: 1000}", nil)
	for i, want := range []fault.Code{0, fault.BudgetSpent, fault.LimitReached} {
		if o := h.call("p", nil); want == 0 && o.Err != nil || want != 0 && !errors.Is(o.Err, want) {
			t.Errorf("call %d: %v, want %v", i+1, o.Err, want)
		}
	}
}

func TestARefusedApprovalGivesBackItsPlace(t *testing.T) {
	p, no := &probe{id: "p"}, &votes{reason: "not today"}
	h := newHouse(t, open, p)
	h.rn.Ask = no
	h.under("tools: {ask: ['*']}\nlimits: {calls: 1}", nil)
	for range 3 {
		if o := h.call("p", nil); !errors.Is(o.Err, fault.NeedsApproval) || !strings.Contains(fault.Message(o.Err), "not today") {
			t.Fatalf("%v", o.Err)
		}
	}
	no.yes = true
	if o := h.call("p", nil); o.Status != tool.Completed {
		t.Errorf("%s %v", o.Status, o.Err)
	}
	if o := h.call("p", nil); !errors.Is(o.Err, fault.LimitReached) {
		t.Errorf("%v", o.Err)
	}
}

// Whatever refuses a call: it had no effect, and everything that was reserved
// for it is free again. Calls come side by side.
func TestPropertyRefusedCallsLeaveNothingBehind(t *testing.T) {
	p := &probe{id: "p", effects: tool.EffectSet(tool.FSWrite), risk: tool.Medium}
	h := newHouse(t, open, p)
	cat := h.rn.Catalog
	rapid.Check(t, func(rt *rapid.T) {
		coin := func(name string) bool { return rapid.IntRange(0, 3).Draw(rt, name) == 0 }
		r, a := &ruler{}, &votes{yes: !coin("refused")}
		h.rn.Authority, h.rn.Ask, h.rn.Catalog = r, a, cat
		if coin("revoked") {
			r.refuse = fault.New(fault.GrantRevoked, "revoked")
		}
		if coin("spent") {
			r.spent = fault.New(fault.BudgetSpent, "spent")
		}
		if coin("off") {
			h.rn.Catalog = switched{cat, map[tool.ID]string{"p": "off"}}
		}
		src := "files: {read: {allow: ['**'], deny: ['secret'], ask: ['ask']}}\ntools: {allow: ['*']"
		for _, k := range []string{"ask_from_risk", "deny_from_risk", "admin_from_risk", "frozen_plan_from_risk"} {
			if coin(k) {
				src += ", " + k + ": " + rapid.SampledFrom([]string{"low", "high"}).Draw(rt, k+" at")
			}
		}
		src += "}\n" + rapid.SampledFrom([]string{"", "side_effects: {ask: [fs.write]}", "side_effects: {deny: ['fs.*']}", "limits: {calls: 2}"}).Draw(rt, "more")
		h.under(src, func(in *runner.Info) {
			if coin("planning") {
				in.Phase = runner.Planning
			}
			if coin("frozen") {
				in.Frozen = freeze(t, "steps: [{tool: p, args: {path: ask}}, {tool: p, args: {path: a}}]", p)
			}
		})
		before := p.ran.Load()
		paths := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ask", "secret", "b"}), 1, 5).Draw(rt, "paths")
		out := make([]runner.Outcome, len(paths))
		var wg sync.WaitGroup
		for i, path := range paths {
			wg.Go(func() { out[i] = h.call("p", tool.Args{"path": path}) })
		}
		wg.Wait()
		var done int32
		for _, o := range out {
			if o.Status == tool.Completed {
				done++
			} else if len(o.Happened) > 0 || o.Err == nil {
				rt.Fatalf("%s with %v", o.Status, o.Happened)
			}
			if o.Fatal != nil {
				rt.Fatal(o.Fatal)
			}
		}
		if ran := p.ran.Load() - before; ran != done {
			rt.Fatalf("%d ran, %d completed", ran, done)
		}
		if r.open != 0 {
			rt.Fatalf("%d reservations are open", r.open)
		}
		var calls int64
		for _, u := range r.settled {
			calls += u.Calls
		}
		if calls != int64(done) {
			rt.Fatalf("%d calls were charged, %d made", calls, done)
		}
		if err := h.rn.Finish(h.ctx, h.run, tool.Completed); err != nil {
			rt.Fatal(err)
		}
	})
}

// A grant that is paused while a call waits for its budget begins nothing.
func TestAGrantPausedDuringAWaitBeginsNothing(t *testing.T) {
	for _, on := range []string{"cancel", "finish"} {
		p := &probe{id: "p"}
		h := newHouse(t, open, p)
		r := &ruler{}
		r.waiting = func() { r.refuse = fault.New(fault.GrantPaused, "paused") }
		h.rn.Authority = r
		h.under("tools: {allow: ['*']}\non_revoke: "+on, nil)
		if o := h.call("p", nil); !errors.Is(o.Err, fault.GrantPaused) || p.ran.Load() != 0 || r.open != 0 {
			t.Errorf("%s: %s %v, ran %d, open %d", on, o.Status, o.Err, p.ran.Load(), r.open)
		}
	}
}

// changing is a catalog whose tool becomes another one.
type changing struct {
	runner.Catalog
	to func(runner.Entry) (runner.Entry, error)
}

func (c *changing) Lookup(id tool.ID) (runner.Entry, error) {
	e, err := c.Catalog.Lookup(id)
	if c.to == nil || err != nil {
		return e, err
	}
	return c.to(e)
}

// asker is somebody who is asked.
type asker func(context.Context, runner.Question) (runner.Answer, error)

func (a asker) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) { return a(ctx, q) }

// A yes is for the tool that was asked about: one that was disabled, changed or
// taken away while the person thought is not called.
func TestAToolThatChangesDuringAWaitIsNotCalled(t *testing.T) {
	for name, tt := range map[string]struct {
		to   func(runner.Entry) (runner.Entry, error)
		want error
	}{
		"switched off": {func(e runner.Entry) (runner.Entry, error) { e.Disabled = "by ann"; return e, nil }, fault.ToolDisabled},
		"changed":      {func(e runner.Entry) (runner.Entry, error) { e.Digest[0]++; return e, nil }, fault.ToolChanged},
		"taken away": {func(runner.Entry) (runner.Entry, error) {
			return runner.Entry{}, fault.New(fault.ToolUnknown, "no such tool")
		}, fault.ToolChanged},
	} {
		p := &probe{id: "p"}
		h := newHouse(t, "version: 1\ntools: {ask: ['*']}\n", p)
		c := &changing{Catalog: h.rn.Catalog}
		h.rn.Catalog = c
		h.rn.Ask = asker(func(context.Context, runner.Question) (runner.Answer, error) {
			c.to = tt.to
			return runner.Answer{Yes: true, By: "user:ann", Where: "test"}, nil
		})
		if o := h.call("p", nil); !errors.Is(o.Err, tt.want) || o.Status != tool.StatusDenied || p.ran.Load() != 0 {
			t.Errorf("%s: %s %v, ran %d", name, o.Status, o.Err, p.ran.Load())
		}
	}
}

// contents are the facts of files whose content is told by one word.
type contents struct {
	still
	now *string
}

func (c contents) Contents(_ context.Context, _ tool.Env, _ policy.Chain, _ runner.Call, as []tool.Action) error {
	for i := range as {
		as[i].Contents = []tool.Content{{Path: "/ws/deploy.sh", State: *c.now}}
	}
	return nil
}

// A yes is for the files that a call runs as they were shown: where they change
// while the person thinks, the person is asked about what is there now.
func TestAYesIsForWhatTheFilesHold(t *testing.T) {
	for name, tc := range map[string]struct {
		changes int // answers after which the file is another one
		asked   int
		want    error
	}{
		"unchanged":      {0, 1, nil},
		"changed once":   {1, 2, nil},
		"always changed": {100, 3, fault.NeedsApproval},
	} {
		p := &probe{id: "p"}
		h := newHouse(t, open, p)
		now, asked := "one", []string{}
		h.rn.Facts = contents{now: &now}
		h.rn.Ask = asker(func(_ context.Context, q runner.Question) (runner.Answer, error) {
			asked = append(asked, q.Actions[0].Contents[0].State)
			if len(asked) <= tc.changes {
				now += "+"
			}
			return runner.Answer{Yes: true, By: "user:ann", Where: "test"}, nil
		})
		o := h.call("p", tool.Args{"path": "ask"})
		if !errors.Is(o.Err, tc.want) || len(asked) != tc.asked || (p.ran.Load() == 1) != (tc.want == nil) {
			t.Errorf("%s: %v, asked about %q, ran %d", name, o.Err, asked, p.ran.Load())
		}
		if tc.want == nil && asked[len(asked)-1] != now {
			t.Errorf("%s: the last question was about %q, and %q ran", name, asked[len(asked)-1], now)
		}
		if o.Approved != (tc.want == nil) {
			t.Errorf("%s: it counts as approved: %v", name, o.Approved)
		}
	}
}

// TestACallThatEndsIsNotRefused: a call ends while its approval is read or used, so the ledger gives up
// with an error that has no code. Nobody has refused the call.
func TestACallThatEndsIsNotRefused(t *testing.T) {
	for want, why := range map[fault.Code]error{
		fault.Interrupted:   fault.New(fault.Interrupted, "the node ends"),
		fault.ToolCancelled: context.Canceled,
		fault.GrantRevoked:  fault.New(fault.GrantRevoked, "revoked"),
	} {
		p := &probe{id: "p"}
		h := newHouse(t, open, p)
		ctx, end := context.WithCancelCause(h.ctx)
		h.rn.Ask = asker(func(ctx context.Context, _ runner.Question) (runner.Answer, error) {
			end(why)
			return runner.Answer{}, ctx.Err()
		})
		o := h.rn.Execute(ctx, h.run, runner.Call{Tool: "p", Args: tool.Args{"path": "ask"}})
		if !errors.Is(o.Err, want) || errors.Is(o.Err, fault.NeedsApproval) || p.ran.Load() != 0 {
			t.Errorf("%s: %s %v, ran %d", want.Error(), o.Status, o.Err, p.ran.Load())
		}
	}
}
