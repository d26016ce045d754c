package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/call/schedule"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// task is a sequence of calls, as an agent made them.
type task struct {
	Calls []struct {
		Tool string         `json:"tool"`
		Args map[string]any `json:"args"`
	} `json:"calls"`
}

// load gives the tasks: those of tau2-bench where they are at hand, else some
// of our own.
func load(t *testing.T) []task {
	t.Helper()
	var file struct{ Tasks []task }
	src := []byte(`{"tasks": [` + strings.TrimSuffix(strings.Repeat(`{"calls": [{"tool": "find_user", "args": {"name": "Ann", "zip": 12345}}, `+
		`{"tool": "cancel_order", "args": {"order": "#1", "reasons": ["late", {"n": 1.5}]}}, {"tool": "think"}]},`, 100), ",") + `]}`)
	if dir := os.Getenv("REMIT_TESTDATA"); dir != "" {
		b, err := os.ReadFile(filepath.Join(dir, "perf", "tau2_plans.json"))
		if err != nil {
			t.Fatal(err)
		}
		src = b
	} else {
		t.Log("REMIT_TESTDATA is not set: a small load of our own")
	}
	v, err := canon.Decode(src)
	if err != nil {
		t.Fatal(err)
	}
	b, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(string(b)))
	dec.UseNumber()
	if err := dec.Decode(&file); err != nil {
		t.Fatal(err)
	}
	return file.Tasks
}

// loaded is a tool of the load: it takes anything, is slow now and then, fails
// now and then, and crashes now and then.
type loaded struct {
	id      tool.ID
	effects tool.Effects
}

func (l loaded) Spec() *tool.Spec {
	return &tool.Spec{ID: l.id, Title: "load", Version: "1", Source: "builtin", Effects: l.effects, Input: json.RawMessage(`{"type":"object"}`)}
}

func (l loaded) Prepare(_ tool.Env, args tool.Args) (permit.Prepared, error) {
	return permit.Prepared{Run: func(ctx context.Context, _ permit.Permit) (tool.Result, error) { return l.run(ctx, args) }}, nil
}

func (l loaded) run(ctx context.Context, args tool.Args) (tool.Result, error) {
	out := tool.Result{Output: map[string]any{"tool": string(l.id), "got": len(args)}}
	switch rand.IntN(40) {
	case 0:
		return out, fault.New(fault.ToolFailed, "now and then")
	case 1:
		panic("now and then")
	case 2:
		out.Output["large"] = strings.Repeat("x", 100_000)
	case 3, 4:
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return out, ctx.Err()
		}
	}
	return out, nil
}

// TestLoad has 64 callers make all tasks' calls at once, as sessions and as
// plans, and checks that each is in the record once.
func TestLoad(t *testing.T) {
	tasks := load(t)
	known := map[string]bool{}
	var tools []permit.Tool
	for _, task := range tasks {
		for _, c := range task.Calls {
			if !known[c.Tool] {
				known[c.Tool] = true
				l := loaded{id: tool.ID(c.Tool)}
				if len(known)%2 == 0 {
					l.effects = tool.EffectSet(tool.DatabaseWrite)
				}
				tools = append(tools, l)
			}
		}
	}
	cat, err := catalog.New(tools...)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	p, err := policy.Parse("load.yaml", []byte("version: 1\ntools: {allow: ['*'], deny: ['cancel_*', 'update_*']}\nlimits: {calls: 30}\n"))
	if err != nil {
		t.Fatal(err)
	}
	rn := &runner.Runner{Catalog: cat, Record: st, Facts: still{}, Execs: runner.Direct{}}

	work := make(chan int)
	var mu sync.Mutex
	want := map[string]int{} // run to calls
	var callers sync.WaitGroup
	begun := time.Now()
	for range 64 {
		callers.Go(func() {
			for i := range work {
				id := uuid.Must(uuid.NewV7())
				if err := carry(rn, p, id, tasks[i], i%2 == 0); err != nil {
					t.Error(err)
				}
				mu.Lock()
				want[id.String()] = len(tasks[i].Calls)
				mu.Unlock()
			}
		})
	}
	total := 0
	for i := range tasks {
		if len(tasks[i].Calls) > 0 {
			work <- i
			total += len(tasks[i].Calls)
		}
	}
	close(work)
	callers.Wait()
	t.Logf("%d calls of %d tools in %d runs took %s", total, len(tools), len(want), time.Since(begun).Round(time.Millisecond))

	rep, err := st.Verify(t.Context(), store.VerifyOptions{})
	if err != nil || len(rep.Problems) > 0 || int(rep.Runs) != len(want) {
		t.Fatalf("%d runs, want %d: %v %v", rep.Runs, len(want), rep.Problems, err)
	}
	for id, n := range want {
		check(t, st, id, n)
	}
}

// carry makes a task's calls: all at once as a session, or as a plan.
func carry(rn *runner.Runner, p *policy.Policy, id uuid.UUID, task task, asPlan bool) error {
	env := policy.Env{Workspace: "/ws"}
	g, err := grant.Root(id, "user:test", env, p)
	if err != nil {
		return err
	}
	run, ctx, err := rn.Start(context.Background(), runner.Info{ID: id, Grant: g, Bound: env, Total: len(task.Calls)})
	if err != nil {
		return err
	}
	if asPlan {
		return carryPlan(ctx, rn, run, task)
	}
	var calls sync.WaitGroup
	errs := make(chan error, len(task.Calls))
	for _, c := range task.Calls {
		calls.Go(func() {
			if o := rn.Execute(ctx, run, runner.Call{Tool: tool.ID(c.Tool), Args: c.Args}); o.Fatal != nil {
				errs <- o.Fatal
			}
		})
	}
	calls.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	return rn.Finish(ctx, run, tool.Completed)
}

func carryPlan(ctx context.Context, rn *runner.Runner, run *runner.Run, task task) error {
	var steps []map[string]any
	for _, c := range task.Calls {
		steps = append(steps, map[string]any{"tool": c.Tool, "args": c.Args, "on_error": "continue"})
		if c.Args == nil {
			delete(steps[len(steps)-1], "args")
		}
	}
	src, err := canon.Marshal(map[string]any{"version": 1, "max_parallel": 4, "steps": steps})
	if err != nil {
		return err
	}
	pl, err := plan.Parse("task", src)
	if err != nil {
		return err
	}
	sum, err := schedule.Run(ctx, pl, nil, &schedule.Through{Runner: rn, Run: run}, schedule.Options{})
	if err != nil {
		return err
	}
	return rn.Finish(ctx, run, sum.Status)
}

// check looks at one run's record: each call once, in a state it can have.
func check(t *testing.T, st store.Store, id string, calls int) {
	t.Helper()
	run, err := st.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	next, tally, allowed := 1, map[string]int{}, 0
	for c, err := range st.Calls(t.Context(), run.Seq) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Index != next {
			t.Errorf("run %s: call %d where %d should be", id, c.Index, next)
		}
		next++
		tally[c.Status.String()]++
		denied := c.Code == fault.Denied || c.Code == fault.LimitReached
		if denied != (c.Status == tool.StatusDenied) || (c.Effect == policy.Deny) != (c.Code == fault.Denied) {
			t.Errorf("run %s call %d of %s: %s %s %s", id, c.Index, c.Tool, c.Status, c.Effect, c.Code)
		}
		if c.Status != tool.StatusDenied {
			allowed++
		}
	}
	if next-1 != calls || allowed > 30 || run.Status == ledger.Running {
		t.Errorf("run %s is %s: %d calls of %d, %d allowed", id, run.Status, next-1, calls, allowed)
	}
	if got := fmt.Sprint(run.Completed, run.Denied); got != fmt.Sprint(tally["completed"], tally["denied"]) {
		t.Errorf("run %s counts %s, its calls are %v", id, got, tally)
	}
}
