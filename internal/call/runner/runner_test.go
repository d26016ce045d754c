package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probe is a tool that does what the test says.
type probe struct {
	id      tool.ID
	effects tool.Effects
	risk    tool.Risk
	run     func(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error)
	ran     atomic.Int32
}

func (p *probe) Spec() *tool.Spec {
	return &tool.Spec{ID: p.id, Title: "probe", Version: "1", Source: "builtin", Effects: p.effects, Risk: p.risk,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string"},"n":{"type":"integer"}}}`)}
}

func (p *probe) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	prepared := permit.Prepared{Run: func(ctx context.Context, pm permit.Permit) (tool.Result, error) {
		p.ran.Add(1)
		if p.run == nil {
			return tool.Result{Output: map[string]any{"ok": true}}, nil
		}
		return p.run(ctx, pm, args)
	}}
	if path, ok := args["path"].(string); ok {
		prepared.Actions = []tool.Action{{Kind: tool.FileRead, Path: env.Workspace + "/" + path}}
	}
	return prepared, nil
}

// still fills in facts as if no link were anywhere.
type still struct{}

func (still) Fill(_ context.Context, _ tool.Env, _ policy.Limits, _ runner.Call, as []tool.Action) error {
	for i := range as {
		as[i].Real = as[i].Path
	}
	return nil
}

func (still) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

type house struct {
	t   *testing.T
	st  *sqlite.Store
	rn  *runner.Runner
	run *runner.Run
	ctx context.Context
}

const open = "version: 1\nfiles: {read: {allow: ['**'], deny: ['secret'], ask: ['ask']}}\ntools: {allow: ['*']}\n"

// newHouse starts a run of tools under a policy, recorded in a real ledger.
func newHouse(t *testing.T, src string, tools ...permit.Tool) *house {
	t.Helper()
	ctx := t.Context()
	st, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	cat, err := catalog.New(tools...)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	env := policy.Env{Workspace: "/ws", Path: []string{"/usr/bin"}}
	g, err := grant.Root(uuid.Must(uuid.NewV7()), "user:test", env, p)
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, st: st, rn: &runner.Runner{Catalog: cat, Record: st, Facts: still{}, Execs: runner.Direct{}}}
	h.run, h.ctx, err = h.rn.Start(ctx, runner.Info{ID: uuid.Must(uuid.NewV7()), Grant: g, Bound: env})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) call(id tool.ID, args tool.Args) runner.Outcome {
	return h.rn.Execute(h.ctx, h.run, runner.Call{Tool: id, Args: args})
}

// recorded ends the run and gives its calls as the ledger tells them.
func (h *house) recorded() []ledger.Call {
	h.t.Helper()
	if err := h.rn.Finish(h.ctx, h.run, tool.Completed); err != nil {
		h.t.Fatal(err)
	}
	var out []ledger.Call
	for c, err := range h.st.Calls(context.Background(), h.run.Seq) {
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func TestHowACallEnds(t *testing.T) {
	fails := errors.New("disk on fire")
	tests := map[string]struct {
		tool   tool.ID
		args   tool.Args
		run    func(context.Context, permit.Permit, tool.Args) (tool.Result, error)
		status tool.Status
		code   fault.Code
		ran    bool
	}{
		"an allowed call completes":           {args: tool.Args{"path": "a"}, status: tool.Completed, ran: true},
		"a denied call does not run":          {args: tool.Args{"path": "secret"}, status: tool.StatusDenied, code: fault.Denied},
		"nobody to ask is a denial":           {args: tool.Args{"path": "ask"}, status: tool.StatusDenied, code: fault.NeedsApproval},
		"an unknown tool fails":               {tool: "no.such", status: tool.Failed, code: fault.ToolUnknown},
		"a tool ID that is not text fails":    {tool: "no\xff\x00" + tool.ID(strings.Repeat("x", 5000)), status: tool.Failed, code: fault.ToolUnknown},
		"an unlisted argument is refused":     {args: tool.Args{"other": "x"}, status: tool.Failed, code: fault.ArgsInvalid},
		"a wrongly typed argument is refused": {args: tool.Args{"n": "x"}, status: tool.Failed, code: fault.ArgsInvalid},
		"what cannot be JSON is refused":      {args: tool.Args{"n": make(chan int)}, status: tool.Failed, code: fault.ArgsInvalid},
		"an error is a failure":               {status: tool.Failed, code: fault.ToolFailed, ran: true, run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) { return tool.Result{}, fails }},
		"a panic is a failure":                {status: tool.Failed, code: fault.ToolPanicked, ran: true, run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) { panic("boom") }},
		"a tool's own timeout is a timeout": {status: tool.TimedOut, code: fault.ToolTimeout, ran: true, run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{}, context.DeadlineExceeded
		}},
		"what a handle refuses is denied": {status: tool.StatusDenied, code: fault.HandleRefused, ran: true, run: func(_ context.Context, p permit.Permit, _ tool.Args) (tool.Result, error) {
			return tool.Result{}, p.Check(tool.Action{Kind: tool.FileWrite, Path: "/ws/x"})
		}},
		"an output that cannot be JSON is none": {status: tool.Failed, code: fault.OutputInvalid, ran: true, run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
			return tool.Result{Output: map[string]any{"f": func() {}}}, nil
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &probe{id: "probe", run: tt.run, effects: tool.EffectSet(tool.FSWrite)}
			h := newHouse(t, open, p)
			id := tt.tool
			if id == "" {
				id = "probe"
			}
			o := h.call(id, tt.args)
			if o.Status != tt.status || (tt.code != 0 && !errors.Is(o.Err, tt.code)) || (tt.code == 0) != (o.Err == nil) {
				t.Errorf("got %s, %v; want %s, %v", o.Status, o.Err, tt.status, tt.code)
			}
			if o.Fatal != nil {
				t.Errorf("not recorded: %v", o.Fatal)
			}
			if (p.ran.Load() > 0) != tt.ran {
				t.Errorf("the tool ran %d times", p.ran.Load())
			}
			calls := h.recorded()
			if len(calls) != 1 || calls[0].Status != tt.status || calls[0].Code != tt.code {
				t.Fatalf("recorded %+v, want one call that is %s with %v", calls, tt.status, tt.code)
			}
			if (calls[0].Intent != 0) != tt.ran {
				t.Errorf("intent %d recorded, though the tool ran: %v", calls[0].Intent, tt.ran)
			}
			if !slices.IsSorted(slices.DeleteFunc(calls[0].Timeline, func(at int64) bool { return at < 0 })) {
				t.Errorf("states out of order: %v", calls[0].Timeline)
			}
		})
	}
}

func TestNamesOfNoToolAreRefusedAndRecorded(t *testing.T) {
	p := &probe{id: "probe"}
	h := newHouse(t, open, p)
	names := []tool.ID{"", "\xff", "probe\x00", "probe ", "Probe", tool.ID(strings.Repeat("probe", 100_000)), "(none)"}
	for _, name := range names {
		if o := h.call(name, nil); o.Status != tool.Failed || !errors.Is(o.Err, fault.ToolUnknown) || o.Fatal != nil {
			t.Errorf("%.20q: %s %v %v", name, o.Status, o.Err, o.Fatal)
		}
	}
	if got := h.recorded(); len(got) != len(names) || p.ran.Load() != 0 {
		t.Errorf("%d calls are recorded, the tool ran %d times", len(got), p.ran.Load())
	}
}

func TestIntentIsRecordedBeforeTheToolRuns(t *testing.T) {
	var h *house
	p := &probe{id: "probe", effects: tool.EffectSet(tool.FSWrite)}
	p.run = func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		for c, err := range h.st.Calls(ctx, h.run.Seq) {
			if err == nil && c.Status == tool.Pending && c.Tool == "probe" {
				return tool.Result{}, nil
			}
		}
		return tool.Result{}, errors.New("no intent in the ledger")
	}
	h = newHouse(t, open, p)
	if o := h.call("probe", nil); o.Err != nil {
		t.Error(o.Err)
	}
}

// broken is a ledger that cannot be written, from the nth append on.
type broken struct {
	runner.Recorder
	left atomic.Int32
}

func (b *broken) Append(ctx context.Context, e ...ledger.Entry) (ledger.Seq, error) {
	if b.left.Add(-1) < 0 {
		return 0, fault.New(fault.StoreFull, "no space")
	}
	return b.Recorder.Append(ctx, e...)
}

func TestNoRecordNoCall(t *testing.T) {
	p := &probe{id: "probe", effects: tool.EffectSet(tool.FSWrite)}
	h := newHouse(t, open, p)
	h.rn.Record = &broken{Recorder: h.st}
	o := h.call("probe", nil)
	if p.ran.Load() != 0 || o.Fatal == nil || o.Status == tool.Completed {
		t.Errorf("ran %d times, fatal %v, status %s; want no run and a fatal error", p.ran.Load(), o.Fatal, o.Status)
	}
}

func TestLostOutcomeIsFatal(t *testing.T) {
	p := &probe{id: "probe", effects: tool.EffectSet(tool.FSWrite)}
	h := newHouse(t, open, p)
	b := &broken{Recorder: h.st}
	b.left.Store(1)
	h.rn.Record = b
	if o := h.call("probe", nil); o.Fatal == nil || p.ran.Load() != 1 {
		t.Errorf("fatal %v after %d runs; want a fatal error after one", o.Fatal, p.ran.Load())
	}
}

func TestZeroRunnerRunsNothing(t *testing.T) {
	p := &probe{id: "probe"}
	h := newHouse(t, open, p)
	for name, strip := range map[string]func(*runner.Runner){
		"no catalog": func(r *runner.Runner) { r.Catalog = nil }, "no facts": func(r *runner.Runner) { r.Facts = nil },
		"no executor": func(r *runner.Runner) { r.Execs = nil },
	} {
		rn := *h.rn
		strip(&rn)
		if o := rn.Execute(h.ctx, h.run, runner.Call{Tool: "probe"}); o.Status != tool.StatusDenied || p.ran.Load() != 0 {
			t.Errorf("%s: %s", name, o.Status)
		}
	}
}

func TestPermitEndsWithTheCall(t *testing.T) {
	var kept permit.Permit
	p := &probe{id: "probe", run: func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		kept = pm
		return tool.Result{}, pm.Check(tool.Action{Kind: tool.FileRead, Path: "/ws/a"})
	}}
	h := newHouse(t, open, p)
	if o := h.call("probe", nil); o.Err != nil {
		t.Fatal(o.Err)
	}
	if err := kept.Check(tool.Action{Kind: tool.FileRead, Path: "/ws/a"}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("a kept permit still permits: %v", err)
	}
}

func TestWhatACallWasRefusedIsRecorded(t *testing.T) {
	p := &probe{id: "probe", effects: tool.EffectSet(tool.SystemExec)}
	p.run = func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		for range 3 {
			pm.Refuse(tool.Refused{Action: "network https://evil.test", Rule: "default", Reason: "no entry matches"})
		}
		for i := range 300 {
			pm.Refuse(tool.Refused{Action: fmt.Sprint("network https://", i), Rule: "default"})
		}
		return tool.Result{}, nil
	}
	h := newHouse(t, open, p)
	o := h.call("probe", nil)
	if o.Status != tool.Completed || len(o.Attempts.Refused) != 256 || o.Attempts.Refused[0].Count != 3 || o.Attempts.Count() != 303 {
		t.Errorf("%s, %d listed, %d in all; want completed, 256 and 303", o.Status, len(o.Attempts.Refused), o.Attempts.Count())
	}
	if n := h.run.Counts(); n.Refused != 303 || n.Denied != 0 || n.Completed != 1 {
		t.Errorf("counts %+v", n)
	}
	c := h.recorded()[0]
	if c.Refused != 303 || c.Parts[ledger.PartAttempts].Size() == 0 {
		t.Errorf("the record has %d refusals, and %d bytes of them", c.Refused, c.Parts[ledger.PartAttempts].Size())
	}
	runs, err := h.st.Runs(context.Background(), store.RunFilter{Denied: true})
	if err != nil || len(runs) != 1 || runs[0].Refused != 303 {
		t.Errorf("runs with a denial: %+v, %v", runs, err)
	}
}

func TestCancelledCallIsRecorded(t *testing.T) {
	started := make(chan struct{})
	p := &probe{id: "probe", effects: tool.EffectSet(tool.FSWrite)}
	p.run = func(ctx context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		pm.Note(tool.Happened{Effect: tool.FSWrite, On: "half"})
		close(started)
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}
	h := newHouse(t, open, p)
	ctx, cancel := context.WithCancel(h.ctx)
	go func() {
		<-started
		cancel()
	}()
	if o := h.rn.Execute(ctx, h.run, runner.Call{Tool: "probe"}); o.Status != tool.Cancelled || len(o.Happened) != 1 {
		t.Errorf("%s with %v", o.Status, o.Happened)
	}
	if c := h.recorded(); c[0].Status != tool.Cancelled || !c[0].Happened.Has(tool.FSWrite) {
		t.Errorf("recorded %s, happened %s; want cancelled, fs.write", c[0].Status, c[0].Happened)
	}
}

func TestRunsTimeLimit(t *testing.T) {
	p := &probe{id: "probe", run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	h := newHouse(t, open+"limits: {time: 50ms}\n", p)
	if o := h.call("probe", nil); o.Status != tool.TimedOut || !errors.Is(o.Err, fault.LimitReached) {
		t.Errorf("%s, %v; want timeout by the run's limit", o.Status, o.Err)
	}
}

func TestLimitsHoldSideBySide(t *testing.T) {
	tests := map[string]struct {
		limits string
		allow  int
	}{
		"calls":          {"{calls: 7}", 7},
		"calls per tool": {"{calls_per_tool: 5}", 10},
		"per tool":       {"{per_tool: {'probe*': 6}}", 6},
		"strictest":      {"{calls: 9, calls_per_tool: 4, per_tool: {'probe*': 20}}", 8},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := &probe{id: "probe.a"}, &probe{id: "probe.b"}
			h := newHouse(t, open+"limits: "+tt.limits+"\n", a, b)
			var wg sync.WaitGroup
			var done, refused atomic.Int32
			for i := range 40 {
				wg.Go(func() {
					o := h.call([]tool.ID{"probe.a", "probe.b"}[i%2], nil)
					switch {
					case o.Status == tool.Completed:
						done.Add(1)
					case errors.Is(o.Err, fault.LimitReached) && o.Status == tool.StatusDenied:
						refused.Add(1)
					}
				})
			}
			wg.Wait()
			if int(done.Load()) != tt.allow || int(done.Load()+refused.Load()) != 40 {
				t.Errorf("%d calls ran, %d were refused; want %d of 40", done.Load(), refused.Load(), tt.allow)
			}
		})
	}
}

type answers struct {
	a   runner.Answer
	err error
}

func (a answers) Ask(context.Context, runner.Question) (runner.Answer, error) { return a.a, a.err }

func TestAsking(t *testing.T) {
	tests := map[string]struct {
		asker  answers
		status tool.Status
	}{
		"yes":              {answers{a: runner.Answer{Yes: true, By: "user:ann"}}, tool.Completed},
		"no":               {answers{a: runner.Answer{By: "user:ann"}}, tool.StatusDenied},
		"no answer at all": {answers{err: errors.New("hung up"), a: runner.Answer{Yes: true}}, tool.StatusDenied},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := &probe{id: "probe", run: func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
				if err := pm.Check(tool.Action{Kind: tool.FileRead, Path: "/ws/other/ask"}); err == nil {
					return tool.Result{}, errors.New("an approval of one file allowed another")
				}
				return tool.Result{}, pm.Check(tool.Action{Kind: tool.FileRead, Path: "/ws/ask", Real: "/ws/ask"})
			}}
			h := newHouse(t, "version: 1\nfiles: {read: {ask: ['ask', 'other/ask']}}\ntools: {allow: ['*']}\n", p)
			h.rn.Ask = tt.asker
			o := h.call("probe", tool.Args{"path": "ask"})
			if o.Status != tt.status {
				t.Errorf("got %s, %v; want %s", o.Status, o.Err, tt.status)
			}
			if c := h.recorded(); c[0].Approved != (tt.status == tool.Completed) {
				t.Errorf("recorded as approved: %v", c[0].Approved)
			}
		})
	}
}

func TestAToolThatIgnoresItsContextIsAbandoned(t *testing.T) {
	if testing.Short() {
		t.Skip("waits out the grace period")
	}
	started, release := make(chan struct{}), make(chan struct{})
	var late error
	ended := make(chan struct{})
	p := &probe{id: "probe", run: func(_ context.Context, pm permit.Permit, _ tool.Args) (tool.Result, error) {
		defer close(ended)
		close(started)
		<-release
		late = pm.Check(tool.Action{Kind: tool.FileRead, Path: "/ws/a"})
		return tool.Result{}, nil
	}}
	h := newHouse(t, open, p)
	ctx, cancel := context.WithCancel(h.ctx)
	go func() {
		<-started
		cancel()
	}()
	o := h.rn.Execute(ctx, h.run, runner.Call{Tool: "probe"})
	close(release)
	<-ended
	if o.Status != tool.TimedOut && o.Status != tool.Cancelled {
		t.Errorf("status %s", o.Status)
	}
	if !errors.Is(late, fault.HandleRefused) {
		t.Errorf("an abandoned tool could still act: %v", late)
	}
}
