package replay_test

import (
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// A replay finds again where the values of calls came from. What differs is named.
func TestOriginsAreFoundAgain(t *testing.T) {
	ctx := t.Context()
	st, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src := policySource + "labels: {shared: {from: ['files a*']}}\nflows: {shared: {ask_steered: ['tools put']}}\n"
	pol, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	env := policy.Env{Workspace: "/ws"}
	rules, err := pol.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7())
	rn := &runner.Runner{Catalog: list(t, stubs()), Record: st, Facts: world{}, Execs: runner.Direct{}}
	run, _, err := rn.Start(ctx, runner.Info{ID: id, Bound: env, Policies: []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: src}},
		Grant: grant.New(grant.Terms{ID: id, Holder: "user:ann", Policies: []*policy.Rules{rules}})})
	if err != nil {
		t.Fatal(err)
	}
	run.Context.Say(provenance.Person, "write to notes.txt")
	for i, s := range []struct {
		tool, path string
		want       fault.Code
	}{{"put", "elsewhere.txt", 0}, {"get", "a", 0}, {"put", "notes.txt", 0}, {"put", "elsewhere.txt", fault.NeedsApproval}} {
		o := rn.Execute(ctx, run, runner.Call{Step: "2:x", Tool: tool.ID(s.tool), Args: tool.Args{"path": s.path}})
		if s.want == 0 && o.Err != nil || s.want != 0 && fault.CodeOf(o.Err) != s.want {
			t.Fatalf("call %d: %v", i+1, o.Err)
		}
	}
	if err := rn.Finish(ctx, run, tool.Completed); err != nil {
		t.Fatal(err)
	}
	was, err := st.Run(ctx, id.String())
	if err != nil {
		t.Fatal(err)
	}
	again := func(words ...replay.Word) *replay.Mismatch {
		t.Helper()
		rec, err := replay.Open(ctx, st, was)
		if err != nil {
			t.Fatal(err)
		}
		rec.Session(words, nil)
		g, err := rec.Grant()
		if err != nil {
			t.Fatal(err)
		}
		rn := &runner.Runner{Catalog: list(t, stubs()), Record: st, Facts: rec, Execs: rec, Ask: rec}
		run, ctx, err := rn.Start(ctx, runner.Info{ID: uuid.Must(uuid.NewV7()), Mode: ledger.Replay, Grant: g, Bound: rec.Bound, Policies: rec.Policies, ReplayOf: id, Recall: rec})
		if err != nil {
			t.Fatal(err)
		}
		check := rec.Checker(func() {})
		if _, err := rec.Again(ctx, rn, run, check); err != nil {
			t.Fatal(err)
		}
		return check.First()
	}
	if m := again(replay.Word{Message: 1, Kind: provenance.Person, Text: "write to notes.txt"}); m != nil {
		t.Errorf("the replay differs: %s", m)
	}
	if m := again(); m == nil || m.Index != 3 {
		t.Errorf("the person said nothing: %v", m)
	}
	if m := again(replay.Word{Message: 1, Kind: provenance.Person, Text: "write to notes.txt and elsewhere.txt"}); m == nil || m.Index != 4 {
		t.Errorf("the person said more: %v", m)
	}
}
