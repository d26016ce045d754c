package replay_test

import (
	"context"
	"math/rand/v2"
	"os"
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

// A replay of random calls joins the labels that were recorded.
func TestRandomLabelsAreJoinedAgain(t *testing.T) {
	runs := 3
	if os.Getenv("REMIT_SOAK") != "" {
		runs = 500
	}
	ctx := t.Context()
	st, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src := policySource + "labels: {one: {from: ['files a*']}, two: {from: ['files b*'], kind: confidential}, three: {from: ['tools put']}}\n" +
		"flows: {standard: true, one: {ask_steered: ['files c*']}, two: {only: ['files b*', 'files c*', 'tools *']}, three: {ask: ['files d*']}}\n"
	pol, err := policy.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	env := policy.Env{Workspace: "/ws"}
	rules, err := pol.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	rn := &runner.Runner{Catalog: list(t, stubs()), Record: st, Facts: world{}, Execs: runner.Direct{}}
	rnd := rand.New(rand.NewPCG(11, uint64(runs)))
	labelled := 0
	for range runs {
		id := uuid.Must(uuid.NewV7())
		run, _, err := rn.Start(ctx, runner.Info{ID: id, Bound: env, Policies: []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: src}},
			Grant: grant.New(grant.Terms{ID: id, Holder: "user:ann", Policies: []*policy.Rules{rules}})})
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			id := []tool.ID{"get", "put"}[rnd.IntN(2)]
			rn.Execute(ctx, run, runner.Call{Tool: id, Args: tool.Args{"path": []string{"a", "b", "c", "d", "e"}[rnd.IntN(5)]}})
		}
		rec := checked(ctx, t, rn, run, st)
		for _, i := range rec.Calls() {
			if c, _ := rec.Call(i); len(c.Labels) > 0 {
				labelled++
			}
		}
	}
	if labelled < runs {
		t.Error("too few calls had labels")
	}
}

// A replay joins the labels of the recorded calls again. What differs is named.
func TestLabelsAreJoinedAgain(t *testing.T) {
	ctx := t.Context()
	st, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	src := policySource + "labels: {shared: {from: ['files a*']}}\nflows: {shared: {ask: ['tools put']}}\n"
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
	for i, s := range []struct {
		tool, path string
		want       fault.Code
	}{{"put", "b", 0}, {"get", "a", 0}, {"put", "b", fault.NeedsApproval}, {"get", "b", 0}} {
		o := rn.Execute(ctx, run, runner.Call{Tool: tool.ID(s.tool), Args: tool.Args{"path": s.path}})
		if s.want == 0 && o.Err != nil || s.want != 0 && fault.CodeOf(o.Err) != s.want {
			t.Fatalf("call %d: %v", i+1, o.Err)
		}
	}
	rec := checked(ctx, t, rn, run, st)
	rec.Run.Labels = []string{"other"}
	if m, err := rec.CheckLabels(ctx); m == nil || m.Index != 1 || err != nil {
		t.Errorf("the record was given another label: %v %v", m, err)
	}
}

// checked ends a run, and checks that its labels are joined again and that it replays.
func checked(ctx context.Context, t *testing.T, rn *runner.Runner, run *runner.Run, st *sqlite.Store) *replay.Recording {
	t.Helper()
	if err := rn.Finish(ctx, run, tool.Completed); err != nil {
		t.Fatal(err)
	}
	was, err := st.Run(ctx, run.ID.String())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := replay.Open(ctx, st, was)
	if err != nil {
		t.Fatal(err)
	}
	if m, err := rec.CheckLabels(ctx); m != nil || err != nil {
		t.Fatalf("%v %v", m, err)
	}
	if m := replaySession(t, st, run.ID, list(t, stubs())); m != nil {
		t.Fatalf("the replay differs: %s", m)
	}
	return rec
}
