package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
	"github.com/remitrun/remit/internal/call/schedule"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a caller whose calls end as their "end" argument says.
type fake struct {
	mu      sync.Mutex
	log     map[int]string // how each step was accounted for
	order   []int          // started, in order
	args    map[int]tool.Args
	now     int
	most    int // most calls at once
	loads   int
	twice   bool
	before  func(index int, ended map[int]string) // sees what had ended when a call starts
	during  func(ctx context.Context, index int)
	skipErr error
}

func (f *fake) account(index int, how string) {
	if f.log == nil {
		f.log, f.args = map[int]string{}, map[int]tool.Args{}
	}
	if _, ok := f.log[index]; ok {
		f.twice = true
	}
	f.log[index] = how
}

func (f *fake) Call(ctx context.Context, index int, _ *plan.Step, args tool.Args) schedule.Outcome {
	f.mu.Lock()
	f.order = append(f.order, index)
	if f.now++; f.now > f.most {
		f.most = f.now
	}
	if f.before != nil {
		f.before(index, f.log)
	}
	f.mu.Unlock()
	if f.during != nil {
		f.during(ctx, index)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now--
	end, _ := args["end"].(string)
	st, ok := tool.ParseStatus(end)
	if !ok {
		st = tool.Completed
	}
	if ctx.Err() != nil {
		st = tool.Cancelled
	}
	f.account(index, st.String())
	f.args[index] = args
	out := schedule.Outcome{Status: st, Output: map[string]any{"v": fmt.Sprint("out", index)}}
	if st != tool.Completed {
		out.Code, out.Message = fault.ToolFailed, "went wrong"
	}
	if end == "large" {
		out.Large, out.Output = true, nil
	}
	if end == "fatal" {
		out.Fatal = errors.New("disk full")
	}
	return out
}

func (f *fake) Skip(ctx context.Context, index int, _ *plan.Step, reason string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.account(index, "skipped: "+reason)
	return errors.Join(f.skipErr, ctx.Err())
}

func (f *fake) Fail(ctx context.Context, index int, _ *plan.Step, _ tool.Args, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.account(index, "fail "+fault.CodeOf(err).Error())
	return ctx.Err()
}

func (f *fake) Output(_ context.Context, index int) (map[string]any, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	return map[string]any{"v": fmt.Sprint("loaded", index)}, nil
}

func parse(t interface{ Fatal(...any) }, src string) *plan.Plan {
	p, err := plan.Parse("p", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRun(t *testing.T) {
	const stopped = "skipped: " + schedule.ReasonStopped
	tests := map[string]struct {
		steps  string
		want   []string
		status tool.Status
	}{
		"all in order":                        {`[{tool: t}, {tool: t}]`, []string{"completed", "completed"}, tool.Completed},
		"a denied step stops the plan":        {`[{tool: t, args: {end: denied}}, {tool: t}]`, []string{"denied", stopped}, tool.StatusDenied},
		"so does a failed one":                {`[{tool: t, args: {end: failed}}, {tool: t}]`, []string{"failed", stopped}, tool.Failed},
		"and one whose time ran out":          {`[{tool: t, args: {end: timeout}}, {tool: t}]`, []string{"timeout", stopped}, tool.Failed},
		"continue goes on":                    {`[{tool: t, on_error: continue, args: {end: denied}}, {tool: t}]`, []string{"denied", "completed"}, tool.StatusDenied},
		"denied before failed":                {`[{tool: t, on_error: continue, args: {end: failed}}, {tool: t, args: {end: denied}}]`, []string{"failed", "denied"}, tool.StatusDenied},
		"what needs it is skipped":            {`[{tool: t, id: a, on_error: continue, args: {end: failed}}, {tool: t, id: b, needs: [a]}, {tool: t, needs: [b]}, {tool: t}]`, []string{"failed", `skipped: a needed step did not complete: "a"`, `skipped: a needed step did not complete: "b"`, "completed"}, tool.Failed},
		"unless its condition says otherwise": {`[{tool: t, id: a, on_error: continue, args: {end: failed}}, {tool: t, id: b, needs: [a], if: failure()}, {tool: t, needs: [b]}]`, []string{"failed", "completed", "completed"}, tool.Failed},
		"failure reaches through skipped":     {`[{tool: t, id: a, on_error: continue, args: {end: failed}}, {tool: t, id: b, needs: [a]}, {tool: t, needs: [b], if: failure()}]`, []string{"failed", `skipped: a needed step did not complete: "a"`, "completed"}, tool.Failed},
		"cleaning up after a stop":            {`[{tool: t, args: {end: failed}}, {tool: t}, {tool: t, if: always()}, {tool: t, if: failure()}]`, []string{"failed", stopped, "completed", "completed"}, tool.Failed},
		"nothing to clean up":                 {`[{tool: t}, {tool: t, if: failure()}]`, []string{"completed", "skipped: " + schedule.ReasonCondition}, tool.Completed},
		"skipped by its own condition":        {`[{tool: t, id: a, if: false}, {tool: t}]`, []string{"skipped: " + schedule.ReasonCondition, "completed"}, tool.Completed},
		"an absent field fails the step":      {`[{tool: t, id: a}, {tool: t, args: {x: "${{ steps.a.output.nope }}"}}, {tool: t}]`, []string{"completed", "fail E3003", stopped}, tool.Failed},
		"also in a condition":                 {`[{tool: t, id: a}, {tool: t, if: steps.a.output.nope}, {tool: t}]`, []string{"completed", "fail E3003", stopped}, tool.Failed},
		"a later step first, if needed":       {`[{tool: t, needs: [b]}, {tool: t, id: b, args: {end: failed}}]`, []string{`skipped: a needed step did not complete: "b"`, "failed"}, tool.Failed},
		"a cancelled call cancels the run":    {`[{tool: t, on_error: continue, args: {end: cancelled}}, {tool: t, if: always()}]`, []string{"cancelled", "skipped: " + schedule.ReasonCancelled}, tool.Cancelled},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fake{}
			sum, err := schedule.Run(t.Context(), parse(t, "steps: "+tc.steps), nil, f, schedule.Options{})
			if err != nil || sum.Status != tc.status || sum.Total != len(tc.want) {
				t.Errorf("got %+v, %v; want %v", sum, err, tc.status)
			}
			for i, want := range tc.want {
				if f.log[i+1] != want {
					t.Errorf("step %d: got %q, want %q", i+1, f.log[i+1], want)
				}
			}
		})
	}
}

func TestOutputsReachLaterSteps(t *testing.T) {
	f := &fake{}
	p := parse(t, `{inputs: {i: {}}, steps: [{tool: t, id: a}, {tool: t, id: b, args: {end: large}}, {tool: t, args: {x: "${{ steps.a.output.v }}", y: "${{ steps.b.output.v }}", z: "${{ inputs.i }}"}}]}`)
	if _, err := schedule.Run(t.Context(), p, map[string]any{"i": "in"}, f, schedule.Options{}); err != nil {
		t.Fatal(err)
	}
	if want := (tool.Args{"x": "out1", "y": "loaded2", "z": "in"}); !reflect.DeepEqual(f.args[3], want) || f.loads != 1 {
		t.Errorf("got %v after %d loads", f.args[3], f.loads)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{during: func(ctx context.Context, index int) {
		if index == 2 {
			cancel()
			<-ctx.Done()
		}
	}}
	sum, err := schedule.Run(ctx, parse(t, "steps: [{tool: t}, {tool: t}, {tool: t, if: always()}]"), nil, f, schedule.Options{})
	if err != nil || sum.Status != tool.Cancelled || sum.Completed != 1 || sum.Cancelled != 1 || sum.Skipped != 1 || f.log[3] != "skipped: "+schedule.ReasonCancelled {
		t.Errorf("got %+v, %v, %v", sum, err, f.log)
	}
}

func TestNothingStartsOnceTheRecordFails(t *testing.T) {
	f := &fake{}
	_, err := schedule.Run(t.Context(), parse(t, "steps: [{tool: t, args: {end: fatal}}, {tool: t, if: always()}]"), nil, f, schedule.Options{})
	if err == nil || len(f.order) != 1 {
		t.Errorf("got %v after %v", err, f.order)
	}
	f = &fake{skipErr: errors.New("disk full")}
	_, err = schedule.Run(t.Context(), parse(t, "steps: [{tool: t, if: false}, {tool: t}]"), nil, f, schedule.Options{})
	if err == nil || len(f.order) != 0 {
		t.Errorf("got %v after %v", err, f.order)
	}
	f = &fake{during: func(ctx context.Context, index int) {
		if index == 2 {
			<-ctx.Done() // a neighbour is told, and waited for
		}
	}}
	_, err = schedule.Run(t.Context(), parse(t, "max_parallel: 2\nsteps: [{tool: t, args: {end: fatal}}, {tool: t}, {tool: t}]"), nil, f, schedule.Options{})
	if err == nil || f.log[2] != "cancelled" || f.log[3] != "" {
		t.Errorf("got %v, %v", err, f.log)
	}
}

// TestReplayDecidesAsTheRunDid: with steps side by side, whether another had
// started before the plan was stopped is a matter of timing, and of record.
func TestReplayDecidesAsTheRunDid(t *testing.T) {
	p := parse(t, "max_parallel: 2\nsteps: [{tool: t, args: {end: failed}}, {tool: t}, {tool: t}, {tool: t, if: always()}, {tool: t, if: failure()}]")
	for mask := range 4 {
		ran := map[int]bool{1: true, 2: mask&1 != 0, 3: mask&2 != 0, 4: true, 5: true}
		for _, limit := range []int{1, 2} {
			f := &fake{}
			sum, err := schedule.Run(t.Context(), p, nil, f, schedule.Options{MaxParallel: limit, Ran: func(i int) (bool, bool) { return ran[i], true }})
			for i, was := range ran {
				if got := !strings.HasPrefix(f.log[i], "skipped"); got != was {
					t.Errorf("mask %d, limit %d, step %d: got %q, %+v, %v", mask, limit, i, f.log[i], sum, err)
				}
			}
		}
	}
	f := &fake{} // a record that no run can have made does not hide itself
	_, err := schedule.Run(t.Context(), parse(t, "steps: [{tool: t}, {tool: t}]"), nil, f, schedule.Options{Ran: func(i int) (bool, bool) { return i == 1, true }})
	if err != nil || f.log[2] != "completed" {
		t.Errorf("got %v, %v", f.log, err)
	}
}

// TestSchedule: dependencies have ended before a step starts, never more run at
// once than may, and every step is accounted for exactly once.
func TestSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 25).Draw(t, "n")
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		var src strings.Builder
		fmt.Fprintf(&src, "max_parallel: %d\nsteps:\n", limit)
		needs := map[int][]int{}
		for i := 1; i <= n; i++ {
			fmt.Fprintf(&src, "- tool: t\n  on_error: %s\n  args: {end: %s}\n", rapid.SampledFrom([]string{"stop", "continue", "continue"}).Draw(t, "on_error"),
				rapid.SampledFrom([]string{"completed", "completed", "completed", "failed", "denied"}).Draw(t, "end"))
			if c := rapid.SampledFrom([]string{"", "", "always()", "failure()", "true"}).Draw(t, "if"); c != "" {
				fmt.Fprintf(&src, "  if: %s\n", c)
			}
			if i > 1 {
				needs[i] = rapid.SliceOfN(rapid.IntRange(1, i-1), 0, 3).Draw(t, "needs")
				src.WriteString("  needs: [")
				for _, d := range needs[i] {
					fmt.Fprintf(&src, "step-%d, ", d)
				}
				src.WriteString("]\n")
			}
		}
		f := &fake{before: func(index int, ended map[int]string) {
			for _, d := range needs[index] {
				if ended[d] == "" {
					panic(fmt.Sprintf("step %d started before %d ended", index, d))
				}
			}
		}}
		sum, err := schedule.Run(context.Background(), parse(t, src.String()), nil, f, schedule.Options{})
		total := sum.Completed + sum.Denied + sum.Failed + sum.TimedOut + sum.Cancelled + sum.Skipped
		if err != nil || f.twice || len(f.log) != n || total != n || f.most > limit {
			t.Fatalf("%+v, %v: %d of %d accounted for, twice %v, %d at once of %d\n%s", sum, err, len(f.log), n, f.twice, f.most, limit, src.String())
		}
	})
}

// TestParallelGivesTheSameOutcomes where steps are independent.
func TestParallelGivesTheSameOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := "max_parallel: 8\nsteps:\n"
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			src += "- {tool: t, on_error: continue, args: {end: " + rapid.SampledFrom([]string{"completed", "failed", "denied", "timeout"}).Draw(t, "end") + "}}\n"
		}
		one, many := &fake{}, &fake{}
		p := parse(t, src)
		a, errA := schedule.Run(context.Background(), p, nil, one, schedule.Options{MaxParallel: 1})
		b, errB := schedule.Run(context.Background(), p, nil, many, schedule.Options{})
		if a != b || errA != nil || errB != nil || !reflect.DeepEqual(one.log, many.log) {
			t.Fatalf("%+v %v and %+v %v", a, one.log, b, many.log)
		}
		for i, got := range one.order {
			if got != i+1 {
				t.Fatalf("one at a time is in plan order, got %v", one.order)
			}
		}
	})
}

// TestStepsRunSideBySide: four steps that wait for each other all come in.
func TestStepsRunSideBySide(t *testing.T) {
	var in sync.WaitGroup
	in.Add(4)
	f := &fake{during: func(context.Context, int) { in.Done(); in.Wait() }}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	sum, err := schedule.Run(ctx, parse(t, "max_parallel: 4\nsteps: [{tool: t}, {tool: t}, {tool: t}, {tool: t}]"), nil, f, schedule.Options{})
	if err != nil || sum.Completed != 4 || f.most != 4 {
		t.Errorf("got %+v, %v, %d at once", sum, err, f.most)
	}
}
