package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/tools/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const allAllowed = "version: 1\nfiles: {read: {allow: ['**']}}\ntools: {allow: ['*'], deny: [probe.denied], ask: [probe.asked]}\nmodels: {allow: ['test/*']}\n"

// brain answers as a test says. It is the model, and its tool.
type brain struct {
	mu     sync.Mutex
	asked  []model.Request
	answer func(n int, r model.Request) (model.Response, error)
	hold   chan struct{} // not nil: answers wait for it
}

func (b *brain) Name() string               { return "test" }
func (b *brain) Endpoint() model.Endpoint   { return model.Endpoint{} }
func (b *brain) Limits(string) model.Limits { return model.Limits{} }
func (b *brain) Chat(context.Context, model.Reach, model.Request, func(model.Delta)) (model.Response, error) {
	return model.Response{}, errors.New("asked in another way")
}

func (b *brain) requests() []model.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]model.Request(nil), b.asked...)
}

// says is a brain that gives answers one after the other.
func says(answers ...model.Response) *brain {
	return &brain{answer: func(n int, _ model.Request) (model.Response, error) {
		if n >= len(answers) {
			return text("done"), nil
		}
		return answers[n], nil
	}}
}

func text(s string) model.Response {
	return model.Response{Message: model.Message{Role: model.Assistant, Text: s}, Stop: model.StopEnd, Usage: model.Usage{Input: 10, Output: 2}}
}

func wants(calls ...model.Call) model.Response {
	return model.Response{Message: model.Message{Role: model.Assistant, Calls: calls}, Stop: model.StopCalls, Usage: model.Usage{Input: 10, Output: 2}}
}

func call(id, name, args string) model.Call { return model.NewCall(id, name, args) }

// chatTool is model.chat over a brain.
type chatTool struct {
	b *brain
	q agent.ChatRequest
}

func (c *chatTool) Spec() *tool.Spec {
	return &tool.Spec{ID: "model.chat", Title: "chat", Description: "asks", Version: "1", Source: "builtin", Effects: tool.EffectSet(tool.NetworkHTTP),
		Input: json.RawMessage(`{"type":"object"}`)}
}

func (c *chatTool) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	id, _ := args["model"].(string)
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.Model, Model: id}},
		Run:     func(ctx context.Context, _ permit.Permit) (tool.Result, error) { return c.run(ctx, args) },
	}, nil
}

func (c *chatTool) run(ctx context.Context, args tool.Args) (tool.Result, error) {
	n, _ := args["upto"].(json.Number).Int64()
	asked, err := c.q.Request(int(n))
	if err != nil {
		return tool.Result{}, err
	}
	if err := asked.Request.Check(); err != nil {
		return tool.Result{}, err
	}
	c.b.mu.Lock()
	at := len(c.b.asked)
	c.b.asked = append(c.b.asked, asked.Request)
	hold := c.b.hold
	c.b.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return tool.Result{}, ctx.Err()
		}
	}
	resp, err := c.b.answer(at, asked.Request)
	if err != nil {
		return tool.Result{}, err
	}
	tool.TellProgress(ctx, tool.Progress{Message: resp.Message.Text})
	b, err := json.Marshal(resp)
	if err != nil {
		return tool.Result{}, err
	}
	v, err := canon.Decode(b)
	m, _ := v.(map[string]any)
	return tool.Result{Output: m}, err
}

// probe is a tool that does what a test says.
type probe struct {
	id      tool.ID
	effects tool.Effects
	actions []tool.Action
	run     func(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error)
	ran     atomic.Int32
}

func (p *probe) Spec() *tool.Spec {
	return &tool.Spec{ID: p.id, Title: "probe", Description: "a probe", Version: "1", Source: "builtin", Effects: p.effects,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer"},"s":{"type":"string"}}}`)}
}

func (p *probe) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	return permit.Prepared{Actions: p.actions, Run: func(ctx context.Context, pm permit.Permit) (tool.Result, error) {
		p.ran.Add(1)
		if p.run == nil {
			return tool.Result{Output: map[string]any{"ok": true}}, nil
		}
		return p.run(ctx, pm, args)
	}}, nil
}

// kit is a capability with tools of a test.
type kit struct {
	id     string
	prompt string
	offers func(s capability.Session) []capability.Offer
}

func (k kit) Info() capability.Info {
	return capability.Info{ID: k.id, Name: k.id, Description: "tools of a test", Version: "1", Status: capability.Available}
}

func (k kit) Part(s capability.Session, _ json.RawMessage) (capability.Part, error) {
	p := capability.Part{Prompt: k.prompt}
	if k.offers != nil {
		p.Tools = k.offers(s)
	}
	return p, nil
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

// authority grants what a policy says.
type authority struct{ w *world }

var testEnv = policy.Env{Workspace: "/ws", Path: []string{"/usr/bin"}}

func (h authority) Grant(_ context.Context, q agent.GrantRequest) (agent.Granted, error) {
	p, err := policy.Parse("test.yaml", []byte(h.w.policy))
	if err != nil {
		return agent.Granted{}, err
	}
	g, err := grant.Root(uuid.Must(uuid.NewV7()), "user:test", testEnv, p)
	src := []ledger.PolicySource{{Name: p.Name(), File: p.File(), Source: string(p.Source())}}
	return agent.Granted{Grant: g, Sources: src, Workspace: "/ws"}, err
}

func (h authority) Revoke(context.Context, uuid.UUID, string, string) error {
	if h.w.revoked != nil {
		h.w.revoked()
	}
	return nil
}

// starter starts real runs.
type starter struct{ w *world }

func (h starter) Begin(ctx context.Context, q agent.RunRequest) (agent.Run, error) {
	cat, err := catalog.New(q.Tools...)
	if err != nil {
		return nil, err
	}
	rn := &runner.Runner{Catalog: cat, Record: h.w.rec, Facts: still{}, Execs: runner.Direct{}}
	if h.w.asked != nil {
		rn.Ask = asker(func(ctx context.Context, question runner.Question) (runner.Answer, error) {
			answered := q.Asking("question", question.Call)
			defer answered()
			select {
			case yes := <-h.w.asked:
				return runner.Answer{Yes: yes, By: "user:ann"}, nil
			case <-ctx.Done():
				return runner.Answer{}, context.Cause(ctx)
			}
		})
	}
	run, _, err := rn.Start(context.WithoutCancel(ctx), runner.Info{
		ID: uuid.Must(uuid.NewV7()), Name: q.Name, Grant: q.Granted.Grant, Bound: testEnv, Policies: q.Granted.Sources,
		Inputs: q.Inputs, Session: q.Session, Volatile: h.w.volatile,
	})
	if err != nil {
		return nil, err
	}
	return &testRun{rn, run, cat}, nil
}

func (starter) Labels(context.Context, uuid.UUID, policy.Chain) (*runner.Context, error) {
	return &runner.Context{}, nil
}

type asker func(context.Context, runner.Question) (runner.Answer, error)

func (a asker) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) { return a(ctx, q) }

type testRun struct {
	rn  *runner.Runner
	run *runner.Run
	cat *catalog.Catalog
}

func (r *testRun) ID() uuid.UUID                           { return r.run.ID }
func (r *testRun) Seq() ledger.Seq                         { return r.run.Seq }
func (r *testRun) Said(provenance.Kind, string)            {}
func (r *testRun) Timed() bool                             { return false }
func (r *testRun) Lost() <-chan struct{}                   { return r.run.Lost() }
func (r *testRun) Chain() policy.Chain                     { return r.run.Grant.Chain() }
func (r *testRun) Lookup(id tool.ID) (runner.Entry, error) { return r.cat.Lookup(id) }
func (r *testRun) End(ctx context.Context) error           { return r.rn.Finish(ctx, r.run, tool.Completed) }
func (r *testRun) Call(ctx context.Context, c runner.Call) (runner.Outcome, error) {
	o := r.rn.Execute(ctx, r.run, c)
	return o, o.Fatal
}

func (r *testRun) Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error) {
	o := r.rn.Refuse(ctx, r.run, c, why)
	return o, o.Fatal
}

// record is a ledger that a test can take away.
type record interface {
	agent.Record
	runner.Recorder
}

// dying is a ledger that stops to answer after some writes, as if the process
// were killed: before the write that is one too many, or right after it.
type dying struct {
	*sqlite.Store
	left  atomic.Int64
	after bool
}

var errDead = fault.New(fault.StoreFailed, "the process is dead")

func (d *dying) write(do func() error) error {
	n := d.left.Add(-1)
	if n < 0 || n == 0 && !d.after {
		return errDead
	}
	err := do()
	if n == 0 {
		return errDead
	}
	return err
}

func (d *dying) Append(ctx context.Context, es ...ledger.Entry) (seq ledger.Seq, err error) {
	err = d.write(func() error { seq, err = d.Store.Append(ctx, es...); return err })
	return seq, err
}

func (d *dying) AddMessages(ctx context.Context, s uuid.UUID, after int, ms ...store.MessageRecord) (n int, err error) {
	err = d.write(func() error { n, err = d.Store.AddMessages(ctx, s, after, ms...); return err })
	return n, err
}

func (d *dying) SaveSession(ctx context.Context, r store.SessionRecord) (out store.SessionRecord, err error) {
	err = d.write(func() error { out, err = d.Store.SaveSession(ctx, r); return err })
	return out, err
}

// world is a service and all that it needs.
type world struct {
	t       testing.TB
	home    string
	policy  string
	brain   *brain
	caps    []capability.Capability
	limits  agent.Limits
	asked   chan bool // answers to what the policy asks; nil: nobody is there
	revoked func()    // called when a grant is revoked; may be nil

	turns    store.Turns // nil: there are no other nodes
	idle     time.Duration
	volatile bool // what is recorded need not survive a loss of power

	st  *sqlite.Store
	rec record
	svc *agent.Service
}

var ann = agent.Caller{Name: "user:ann"}

func newWorld(t testing.TB, b *brain, tools ...*probe) *world {
	w := &world{t: t, home: t.TempDir(), policy: allAllowed, brain: b}
	w.caps = []capability.Capability{kit{id: "kit", prompt: "Use the kit.", offers: func(capability.Session) []capability.Offer {
		var out []capability.Offer
		for _, p := range tools {
			out = append(out, capability.Own(string(p.id[len("probe."):]), p))
		}
		return out
	}}}
	return w
}

// open opens the ledger and a service on it.
func (w *world) open() *world {
	w.t.Helper()
	st, err := sqlite.Open(context.Background(), sqlite.Options{Home: w.home})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := st.Recover(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	w.st, w.rec = st, st
	w.serve()
	w.t.Cleanup(func() { w.close() })
	return w
}

func (w *world) serve() {
	reg, err := capability.NewRegistry(w.caps)
	if err != nil {
		w.t.Fatal(err)
	}
	w.svc = agent.New(agent.Options{
		Record: w.rec, Grants: authority{w}, Runs: starter{w}, Capabilities: reg,
		Models: &model.Registry{Providers: []model.Provider{w.brain}, Default: "test/one"},
		Chat:   func(q agent.ChatRequest) permit.Tool { return &chatTool{w.brain, q} },
		Lookup: func(id tool.ID) (runner.Entry, error) {
			return runner.Entry{}, fault.New(fault.ToolUnknown, "no tool %q", id)
		},
		Turns: w.turns, Adopt: w.turns != nil, Idle: w.idle, Defaults: w.limits, Quota: store.Quota{Bytes: 1 << 20, Files: 100},
	})
}

func (w *world) close() {
	if w.st == nil {
		return
	}
	_ = w.svc.Close(context.Background()) // a ledger that was taken away cannot be written
	if err := w.st.Close(); err != nil {
		w.t.Error(err)
	}
	w.st = nil
}

// again ends the process and begins another.
func (w *world) again() {
	w.t.Helper()
	w.close()
	w.open()
}

// session makes an agent with the kit, and a session of it.
func (w *world) session() string {
	w.t.Helper()
	a, err := w.svc.CreateAgent(context.Background(), ann, agent.Agent{Name: fmt.Sprintf("tester-%s", uuid.NewString()[:8]), SystemPrompt: "Be good.", Capabilities: []agent.CapabilityRef{{Ref: "kit"}}})
	if err != nil {
		w.t.Fatal(err)
	}
	s, err := w.svc.CreateSession(context.Background(), ann, a.ID.String(), "a test", agent.Mode{})
	if err != nil {
		w.t.Fatal(err)
	}
	return s.ID.String()
}

func (w *world) send(id, text string) agent.Turn {
	w.t.Helper()
	turn, err := w.svc.Send(context.Background(), ann, id, text, nil)
	if err != nil {
		w.t.Fatalf("Send: %v", err)
	}
	return turn
}

func (w *world) messages(id string) []agent.Message {
	w.t.Helper()
	ms, err := w.svc.Messages(context.Background(), id, 1, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return ms
}

// sound checks what holds of every conversation: each tool call has exactly one
// result, before anything else is said, in the order of the calls.
func sound(t testing.TB, ms []agent.Message, open bool) {
	t.Helper()
	var due []model.Call
	for _, m := range ms {
		if m.Kind == agent.Summary {
			continue
		}
		if m.Role == model.ToolRole {
			if len(due) == 0 || due[0].ID != m.CallID {
				t.Fatalf("message %d is the result of %q; due are %v", m.Number, m.CallID, due)
			}
			due = due[1:]
			continue
		}
		if len(due) > 0 {
			t.Fatalf("message %d comes before the results of %v", m.Number, due)
		}
		due = m.Calls
	}
	if len(due) > 0 && !open {
		t.Fatalf("there is no result of %v", due)
	}
}

// until waits for something that comes by itself.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("it did not come: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

var verifyAll = store.VerifyOptions{}
