package replay_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// brought is a catalog of tools that a source brought, and that it may take away.
type brought struct {
	stubs  []*stub
	source string
}

func (b brought) Lookup(id tool.ID) (runner.Entry, error) {
	for _, s := range b.stubs {
		if s.id != string(id) {
			continue
		}
		spec := s.Spec()
		spec.Source = "mcp"
		return runner.Entry{Tool: s, Spec: spec, Source: b.source, Digest: spec.Digest(), Validate: func(a tool.Args) error {
			if _, ok := a["path"].(string); !ok {
				return fault.New(fault.ArgsInvalid, "path is missing").In("path")
			}
			return nil
		}}, nil
	}
	return runner.Entry{}, fault.New(fault.ToolUnknown, "no tool is called %q", string(id))
}

// calls are those of a run without a plan: one that only reads, one with an effect,
// one that is denied by what it declares, and one that its arguments do not fit.
var calls = []runner.Call{
	{Tool: "mcp:s:get", Args: tool.Args{"path": "a"}},
	{Tool: "mcp:s:put", Args: tool.Args{"path": "b"}},
	{Tool: "mcp:s:drop", Args: tool.Args{"path": "c"}},
	{Tool: "mcp:s:get", Args: tool.Args{}},
	{Tool: "mcp:s:get", Args: tool.Args{"path": "secret"}},
}

func sourceStubs() []*stub {
	return []*stub{{id: "mcp:s:get", effects: tool.EffectSet(tool.FSRead)}, {id: "mcp:s:put", effects: tool.EffectSet(tool.FSWrite)},
		{id: "mcp:s:drop", effects: tool.EffectSet(tool.FSDelete)}}
}

const sourcePolicy = "version: 1\nname: p\nfiles: {read: {allow: ['**'], deny: ['secret']}}\ntools: {allow: ['*']}\nside_effects: {deny: [fs.delete]}\n"

// recordSource records a run of calls of a source's tools.
func recordSource(t *testing.T, source string) *past {
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
	pol, err := policy.Parse("p.yaml", []byte(sourcePolicy))
	if err != nil {
		t.Fatal(err)
	}
	bound := policy.Env{Workspace: "/ws"}
	id := uuid.Must(uuid.NewV7())
	g, err := grant.Root(id, "user:ann", bound, pol)
	if err != nil {
		t.Fatal(err)
	}
	rn := &runner.Runner{Catalog: brought{sourceStubs(), source}, Record: st, Facts: world{}, Execs: runner.Direct{}}
	run, ctx, err := rn.Start(ctx, runner.Info{ID: id, Mode: ledger.Live, Grant: g, Bound: bound,
		Policies: []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: sourcePolicy}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []tool.Status{tool.Completed, tool.Completed, tool.StatusDenied, tool.Failed, tool.StatusDenied} {
		if o := rn.Execute(ctx, run, calls[i]); o.Status != want {
			t.Fatalf("call %d: %s, %v", i+1, o.Status, o.Err)
		}
	}
	if err := rn.Finish(ctx, run, tool.StatusDenied); err != nil {
		t.Fatal(err)
	}
	h := &past{t: t, st: st}
	if h.run, err = st.Run(ctx, id.String()); err != nil {
		t.Fatal(err)
	}
	return h
}

// repeat makes the calls again over a catalog.
func (h *past) repeat(src altered, tools runner.Catalog) *replay.Mismatch {
	h.t.Helper()
	ctx := h.t.Context()
	rec, err := replay.Open(ctx, src, h.run)
	if err != nil {
		h.t.Fatal(err)
	}
	g, err := rec.Grant()
	if err != nil {
		h.t.Fatal(err)
	}
	rn := &runner.Runner{Catalog: tools, Record: h.st, Facts: rec, Execs: rec, Ask: rec}
	run, ctx, err := rn.Start(ctx, runner.Info{ID: uuid.Must(uuid.NewV7()), Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Recall: rec, ReplayOf: h.run.ID})
	if err != nil {
		h.t.Fatal(err)
	}
	check := rec.Checker(func() {})
	status, err := rec.Again(ctx, rn, run, check)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := rn.Finish(ctx, run, status); err != nil {
		h.t.Fatal(err)
	}
	return check.First()
}

func TestAReplayNeedsNoSource(t *testing.T) {
	h := recordSource(t, "mcp:s")
	changed := sourceStubs()
	for _, s := range changed {
		s.version, s.effects = "2", tool.EffectSet(tool.Payments)
	}
	for name, tools := range map[string]runner.Catalog{
		"there": brought{sourceStubs(), "mcp:s"}, "gone": brought{}, "another now": brought{changed, "mcp:s"},
	} {
		if m := h.repeat(altered{Store: h.st}, tools); m != nil {
			t.Errorf("%s: %v", name, m)
		}
	}
	rec, err := replay.Open(t.Context(), h.st, h.run)
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]policy.Effect{
		sourcePolicy: policy.Allow,
		strings.Replace(sourcePolicy, "[fs.delete]", "[fs.write]", 1):       policy.Deny,
		strings.Replace(sourcePolicy, "deny: ['secret']", "deny: ['b']", 1): policy.Deny,
	} {
		p, err := policy.Parse("q.yaml", []byte(source))
		if err != nil {
			t.Fatal(err)
		}
		g, err := grant.Root(h.run.ID, "user:ann", rec.Bound, p)
		if err != nil {
			t.Fatal(err)
		}
		c, _ := rec.Call(2)
		if d, on, err := rec.Judge(t.Context(), brought{}, g.Chain(), c); err != nil || d.Effect != want {
			t.Errorf("under %s: %s on %s, %v", source, d.Effect, on, err)
		}
	}
}

// What is said of a tool in the record is part of it: a change is noticed.
func TestARecordedToolThatWasAlteredIsNamed(t *testing.T) {
	h := recordSource(t, "mcp:s")
	for name, k := range map[string]struct {
		change func(*ledger.Call) bool
		index  int
		what   string
	}{
		"what it does":      {at(3, swap(ledger.PartTool, `"fs.delete"`, `"fs.read"`)), 3, "decision"},
		"what it needs":     {at(1, swap(ledger.PartTool, "/ws/a", "/ws/secret")), 1, "decision"},
		"that it is denied": {at(5, swap(ledger.PartTool, "/ws/secret", "/ws/b")), 5, "decision"},
		"all of it":         {at(2, func(c *ledger.Call) { delete(c.Parts, ledger.PartTool) }), 2, "tool"},
	} {
		if m := h.repeat(altered{h.st, k.change}, brought{}); m == nil || m.Index != k.index || m.What != k.what {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// A record without it, as of a tool that is built in, needs the catalog: what is
// missing is named.
func TestAMissingToolIsNamed(t *testing.T) {
	h := recordSource(t, "")
	if m := h.repeat(altered{Store: h.st}, brought{sourceStubs(), ""}); m != nil {
		t.Errorf("with its tools: %v", m)
	}
	m := h.repeat(altered{Store: h.st}, brought{})
	if m == nil || m.Index != 1 || !strings.Contains(m.String(), "mcp:s:get") || !strings.Contains(m.String(), "no tool is called") {
		t.Errorf("without: %v", m)
	}
}
