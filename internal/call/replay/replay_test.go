package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stub is a tool that reads, and counts how often it really ran.
type stub struct {
	id, version string
	effects     tool.Effects
	fails       bool
	ran         int
}

func (s *stub) Spec() *tool.Spec {
	return &tool.Spec{ID: tool.ID(s.id), Title: "stub", Version: s.version, Source: "builtin", Effects: s.effects,
		Input: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string"}}}`)}
}

func (s *stub) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	path, _ := args["path"].(string)
	if path == "wrong" {
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "the path is wrong").ForOperator("see its log")
	}
	return permit.Prepared{Actions: []tool.Action{{Kind: tool.FileRead, Path: env.Workspace + "/" + path}}, Run: s.run}, nil
}

func (s *stub) run(_ context.Context, p permit.Permit) (tool.Result, error) {
	s.ran++
	if s.id == "put" {
		p.Refuse(tool.Refused{Action: "network https://evil.test", Rule: "default", Reason: "no entry matches", Count: 2})
	}
	res := tool.Result{Output: map[string]any{"text": "hello"}}
	if s.fails {
		return res, fault.New(fault.ToolFailed, "it broke").ForOperator("start it again")
	}
	return res, nil
}

// world is what the recorded run sees: facts and a person who says yes.
type world struct{}

func (world) Fill(_ context.Context, _ tool.Env, _ policy.Limits, _ runner.Call, as []tool.Action) error {
	for i := range as {
		as[i].Real = as[i].Path + ".real"
	}
	return nil
}

func (world) Contents(context.Context, tool.Env, policy.Chain, runner.Call, []tool.Action) error {
	return nil
}

func (world) Ask(context.Context, runner.Question) (runner.Answer, error) {
	return runner.Answer{Yes: true, By: "user:ann", At: time.Unix(1, 0).UTC()}, nil
}

const policySource = "version: 1\nname: p\nfiles: {read: {allow: ['**'], ask: ['asked'], deny: ['secret', 'secret.real']}}\ntools: {allow: ['*']}\n"

const planSource = `version: 1
inputs: {name: {type: string, default: bob}}
steps:
  - {id: one, tool: get, args: {path: a}}
  - {id: two, tool: put, args: {path: "${{ steps.one.output.text }}"}}
  - {id: three, tool: get, args: {path: secret}, on_error: continue}
  - {id: four, tool: get, args: {path: asked}}
  - {id: five, tool: break, args: {path: b}, on_error: continue}
  - {id: six, tool: get, args: {path: "${{ inputs.name }}"}}
  - {id: seven, tool: get, args: {path: c}, if: "${{ inputs.name == 'eve' }}"}
  - {id: eight, tool: get, args: {path: wrong}, on_error: continue}
`

// past is a recorded run.
type past struct {
	t     *testing.T
	st    store.Store
	run   ledger.Run
	tools []*stub
}

func stubs() []*stub {
	return []*stub{{id: "get"}, {id: "put", effects: tool.EffectSet(tool.FSWrite)}, {id: "break"}}
}

func list(t *testing.T, stubs []*stub) *catalog.Catalog {
	t.Helper()
	tools := make([]permit.Tool, len(stubs))
	for i, s := range stubs {
		tools[i] = s
	}
	c, err := catalog.New(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func record(t *testing.T) *past {
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
	h := &past{t: t, st: st, tools: stubs()}
	h.tools[2].fails = true
	pol, err := policy.Parse("p.yaml", []byte(policySource))
	if err != nil {
		t.Fatal(err)
	}
	pl, err := plan.Parse("plan.yaml", []byte(planSource))
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := pl.Inputs(nil)
	if err != nil {
		t.Fatal(err)
	}
	env, id := policy.Env{Workspace: "/ws"}, uuid.Must(uuid.NewV7())
	g, err := grant.Root(id, "user:ann", env, pol)
	if err != nil {
		t.Fatal(err)
	}
	rn := &runner.Runner{Catalog: list(t, h.tools), Record: st, Facts: world{}, Execs: runner.Direct{}, Ask: world{}}
	run, ctx, err := rn.Start(ctx, runner.Info{ID: id, Name: "past", Grant: g, Bound: env, Plan: pl.Source(), Inputs: inputs, Total: len(pl.Steps),
		Policies: []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: policySource}}})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := schedule.Run(ctx, pl, inputs, &schedule.Through{Runner: rn, Run: run}, schedule.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rn.Finish(ctx, run, sum.Status); err != nil {
		t.Fatal(err)
	}
	if h.run, err = st.Run(ctx, id.String()); err != nil {
		t.Fatal(err)
	}
	if sum.Completed != 4 || sum.Denied != 1 || sum.Failed != 2 || sum.Skipped != 1 {
		t.Fatalf("the run went %+v", sum)
	}
	return h
}

// again replays the run from a record, with these tools.
func (h *past) again(src store.Store, run ledger.Run, tools []*stub) *replay.Mismatch {
	h.t.Helper()
	ctx, cut := context.WithCancel(h.t.Context())
	defer cut()
	fail := func(err error) *replay.Mismatch {
		if fault.CodeOf(err) != fault.ReplayMismatch && fault.CodeOf(err).Exit() != 2 {
			h.t.Fatal(err)
		}
		return &replay.Mismatch{What: "refused", Is: err.Error()}
	}
	rec, err := replay.Open(ctx, src, run)
	if err != nil {
		return fail(err)
	}
	g, err := rec.Grant()
	if err != nil {
		return fail(err)
	}
	p, err := plan.Parse("recorded", rec.Plan)
	if err != nil {
		return fail(err)
	}
	rn := &runner.Runner{Catalog: list(h.t, tools), Record: h.st, Facts: rec, Execs: rec, Ask: rec}
	r, ctx, err := rn.Start(ctx, runner.Info{ID: uuid.Must(uuid.NewV7()), Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Inputs: rec.Inputs, Recall: rec, ReplayOf: run.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	check := rec.Checker(cut)
	sum, err := schedule.Run(ctx, p, rec.Inputs, &schedule.Through{Runner: rn, Run: r, After: check.After}, schedule.Options{Ran: rec.Ran})
	if err != nil {
		h.t.Fatal(err)
	}
	check.Ended(sum.Status, r.Counts().Total)
	if err := rn.Finish(ctx, r, sum.Status); err != nil {
		h.t.Fatal(err)
	}
	for _, s := range tools {
		if s.ran > 0 {
			h.t.Errorf("%s really ran", s.id)
		}
	}
	return check.First()
}

// altered is a record that somebody changed who could also make it verify: one
// with the ledger's keys.
type altered struct {
	store.Store
	change func(c *ledger.Call) (keep bool)
}

func (a altered) Verify(context.Context, store.VerifyOptions) (store.VerifyReport, error) {
	return store.VerifyReport{}, nil
}

func (a altered) Calls(ctx context.Context, run ledger.Seq) iter.Seq2[ledger.Call, error] {
	return func(yield func(ledger.Call, error) bool) {
		for c, err := range a.Store.Calls(ctx, run) {
			parts := map[string]ledger.Part{}
			for k, p := range c.Parts {
				parts[k] = p
			}
			c.Parts = parts
			if a.change != nil && !a.change(&c) {
				continue
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

func TestAReplayIsTheSame(t *testing.T) {
	h := record(t)
	if m := h.again(h.st, h.run, stubs()); m != nil {
		t.Error(m)
	}
	if m := h.again(altered{Store: h.st}, h.run, stubs()); m != nil {
		t.Error(m)
	}
}

func TestAReplayIsRefusedTheSame(t *testing.T) {
	h := record(t)
	if m := h.again(h.st, h.run, stubs()); m != nil {
		t.Error(m)
	}
	runs, err := h.st.Runs(t.Context(), store.RunFilter{Mode: ledger.Replay})
	if err != nil || len(runs) != 1 || runs[0].Refused != 2 || h.run.Refused != 2 {
		t.Errorf("%d refusals were recorded, now %+v, %v", h.run.Refused, runs, err)
	}
	m := h.again(altered{Store: h.st, change: at(2, swap(ledger.PartAttempts, `"count":2`, `"count":1`))}, h.run, stubs())
	if m == nil || m.Index != 2 || m.What != "number of refusals" {
		t.Errorf("a refusal less: %v", m)
	}
}

// A hint that models are not told is recorded beside the error. Records made before that
// have it in the error itself, and replay as well.
func TestARecordWithHintsInItsErrorsReplays(t *testing.T) {
	h := record(t)
	want := map[int][2]string{5: {"it broke", "start it again"}, 8: {"the path is wrong", "see its log"}}
	seen := 0
	older := func(c *ledger.Call) bool {
		if w, ok := want[c.Index]; ok {
			seen++
			if got := [2]string{string(c.Parts[ledger.PartError].Inline), string(c.Parts[ledger.PartHint].Inline)}; got != w {
				t.Errorf("call %d: recorded %q, want %q", c.Index, got, w)
			}
			c.Parts[ledger.PartError] = ledger.Part{Inline: []byte(w[0] + " (" + w[1] + ")")}
			delete(c.Parts, ledger.PartHint)
		}
		return true
	}
	if m := h.again(altered{h.st, older}, h.run, stubs()); m != nil {
		t.Error(m)
	}
	if seen == 0 {
		t.Error("no call with a hint was read")
	}
}

// at changes one call.
func at(index int, change func(c *ledger.Call)) func(*ledger.Call) bool {
	return func(c *ledger.Call) bool {
		if c.Index == index {
			change(c)
		}
		return true
	}
}

// swap puts a text in the place of another in a part.
func swap(part, old, new string) func(c *ledger.Call) {
	return func(c *ledger.Call) {
		p := c.Parts[part]
		b := bytes.Replace(p.Inline, []byte(old), []byte(new), 1)
		if bytes.Equal(b, p.Inline) {
			panic(part + " has no " + old)
		}
		c.Parts[part] = ledger.Part{Inline: b}
	}
}

func TestWhatWasAlteredIsNamed(t *testing.T) {
	h := record(t)
	for name, k := range map[string]struct {
		change func(*ledger.Call) bool
		index  int
		what   string
	}{
		"an argument":                    {at(1, swap(ledger.PartArgs, `"a"`, `"b"`)), 1, "arguments"},
		"an argument of an effect":       {at(2, swap(ledger.PartArgs, "hello", "howdy")), 2, "arguments"},
		"an output that is referred to":  {at(1, swap(ledger.PartOutput, "hello", "howdy")), 2, "arguments"},
		"an output no schema knows":      {at(1, func(c *ledger.Call) { delete(c.Parts, ledger.PartOutput) }), 2, "arguments"},
		"a denial made a permission":     {at(3, func(c *ledger.Call) { c.Effect, c.Status, c.Code = policy.Allow, tool.Completed, 0 }), 3, "decision"},
		"a permission made a denial":     {at(1, func(c *ledger.Call) { c.Effect, c.Status = policy.Deny, tool.StatusDenied }), 1, "decision"},
		"a rule":                         {at(1, func(c *ledger.Call) { c.Rule = "other" }), 1, "decision"},
		"an approval":                    {at(4, swap(ledger.PartAnswer, "true", "false")), 4, "decision"},
		"an approval taken away":         {at(4, func(c *ledger.Call) { delete(c.Parts, ledger.PartAnswer) }), 4, "decision"},
		"a fact":                         {at(1, swap(ledger.PartFacts, "a.real", "secret")), 1, "decision"},
		"facts taken away":               {at(3, func(c *ledger.Call) { c.Status = tool.Completed; c.Code = 0 }), 3, "status"},
		"a status":                       {at(1, func(c *ledger.Call) { c.Status = tool.Failed }), 1, "status"},
		"an error's text":                {at(3, swap(ledger.PartError, "denied", "allowed")), 3, "error"},
		"a tool":                         {at(1, func(c *ledger.Call) { c.Tool = "put" }), 1, "tool"},
		"a tool's digest":                {at(1, func(c *ledger.Call) { c.Digest[0] ^= 1 }), 1, "tool's digest"},
		"a step's name":                  {at(1, func(c *ledger.Call) { c.Step = "eins" }), 1, "step"},
		"a call that ran said to be not": {at(2, func(c *ledger.Call) { c.Status = tool.Skipped }), 2, ""},
		"a call left out":                {func(c *ledger.Call) bool { return c.Index != 2 }, 2, "step"},
		"the last call left out":         {func(c *ledger.Call) bool { return c.Index != 8 }, 8, "step"},
	} {
		t.Run(name, func(t *testing.T) {
			m := h.again(altered{h.st, k.change}, h.run, stubs())
			if m == nil {
				t.Fatal("nothing is seen")
			}
			if m.Index != k.index || k.what != "" && m.What != k.what {
				t.Errorf("named %v, want call %d: %s", m, k.index, k.what)
			}
		})
	}
}

func TestWhatWasAlteredOfTheRunIsSeen(t *testing.T) {
	h := record(t)
	for name, k := range map[string]struct{ part, old, new string }{
		"the plan's arguments": {ledger.PartPlan, "path: a", "path: z"},
		"the plan's condition": {ledger.PartPlan, "'eve'", "'bob'"},
		"a step more":          {ledger.PartPlan, "  - {id: six,", "  - {id: more, tool: get, args: {path: x}}\n  - {id: six,"},
		"a deny rule":          {ledger.PartPolicy, "'secret', ", ""},
		"an ask rule":          {ledger.PartPolicy, "['asked']", "[]"},
		"an input":             {ledger.PartInputs, "bob", "eve"},
		"the workspace":        {ledger.PartEnv, "/ws", "/wx"},
		"no policy at all":     {ledger.PartPolicy, "version: 1", "version: 9"},
	} {
		t.Run(name, func(t *testing.T) {
			run := h.run
			run.Parts = map[string]ledger.Part{}
			for name, p := range h.run.Parts {
				if name == k.part {
					b := strings.Replace(string(p.Inline), k.old, k.new, 1)
					if b == string(p.Inline) {
						t.Fatalf("%s has no %q: %s", k.part, k.old, b)
					}
					p = ledger.Part{Inline: []byte(b)}
				}
				run.Parts[name] = p
			}
			if m := h.again(altered{Store: h.st}, run, stubs()); m == nil {
				t.Error("nothing is seen")
			} else {
				t.Log(m)
			}
		})
	}
}

func TestAChangedToolIsAMismatch(t *testing.T) {
	h := record(t)
	tools := stubs()
	tools[0].version = "2"
	if m := h.again(h.st, h.run, tools); m == nil || m.Index != 1 || m.What != "tool's digest" {
		t.Errorf("a tool of another version: %v", m)
	}
	if m := h.again(h.st, h.run, stubs()[1:]); m == nil || m.Index != 1 {
		t.Errorf("a tool that is gone: %v", m)
	}
}
