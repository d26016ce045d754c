package remit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit"
)

// runtime opens a runtime in folders of the test's own.
func runtime(t *testing.T, o remit.Options) *remit.Runtime {
	t.Helper()
	if o.Workspace == "" {
		o.Workspace = t.TempDir()
	}
	if o.Home == "" {
		o.Home = t.TempDir()
	}
	if o.Environ == nil {
		o.Environ = []string{"HOME=" + t.TempDir(), "USER=ann"}
	}
	rt, err := remit.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	})
	return rt
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	home, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("version: 1\nrest: inherit\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, k := range map[string]struct {
		o    remit.Options
		want remit.Code
	}{
		"no home at all":           {remit.Options{Environ: []string{}}, remit.Usage},
		"two policies":             {remit.Options{Home: home, Policy: file, PolicySource: []byte(policy)}, remit.Usage},
		"no such policy":           {remit.Options{Home: home, Policy: file + "x"}, remit.PolicyInvalid},
		"a policy that is wrong":   {remit.Options{Home: home, PolicySource: []byte("version: 1\nfile: {}\n")}, remit.PolicyInvalid},
		"an empty policy":          {remit.Options{Home: home, PolicySource: []byte{}}, remit.PolicyInvalid},
		"no such workspace":        {remit.Options{Home: home, Workspace: file + "x"}, remit.Usage},
		"a file for a workspace":   {remit.Options{Home: home, Workspace: file}, remit.Usage},
		"a policy that is no root": {remit.Options{Home: home, Policy: file}, remit.PolicyInvalid},
	} {
		rt, err := remit.Open(t.Context(), k.o)
		if err == nil { // found when the first run begins, at the latest
			_, err = rt.Begin(t.Context(), "x")
			_ = rt.Close() // nothing was written
		}
		if !errors.Is(err, k.want) || remit.CodeOf(err) != k.want {
			t.Errorf("%s: %v, want %v", name, err, k.want)
		}
	}
}

func TestWithoutAPolicyNothingIsAllowed(t *testing.T) {
	rt := runtime(t, remit.Options{})
	s, err := rt.Begin(t.Context(), "none")
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []struct {
		tool string
		args map[string]any
	}{
		{"fs.read", map[string]any{"path": "x"}}, {"fs.write", map[string]any{"path": "x", "content": ""}},
		{"http.get", map[string]any{"url": "https://example.com/"}}, {"shell.run", map[string]any{"argv": []string{"true"}}},
	} {
		if r, err := s.Call(t.Context(), call.tool, call.args); !errors.Is(err, remit.Denied) || r.Status != remit.StatusDenied || r.Err == nil {
			t.Errorf("%s: %s %v", call.tool, r.Status, err)
		}
	}
	run, err := s.End(t.Context())
	if err != nil || run.Hint == "" || run.Status != remit.StatusDenied {
		t.Errorf("%+v %v", run, err)
	}
}

func TestAPlanIsRunAndReported(t *testing.T) {
	var mu sync.Mutex
	var states []string
	rt := runtime(t, remit.Options{PolicySource: []byte(policy), User: "bob", Observe: func(n remit.Notice) {
		mu.Lock()
		defer mu.Unlock()
		states = append(states, n.State)
	}})
	src := []byte("version: 1\nname: two\ninputs: {text: {type: string, required: true}}\nsteps:\n" +
		"  - {id: w, tool: fs.write, args: {path: out/x, content: \"${{ inputs.text }}\"}}\n  - {tool: fs.read, args: {path: /etc/passwd}}\n")
	if _, err := rt.RunPlanSource(t.Context(), "two.yaml", src, nil); !errors.Is(err, remit.PlanInput) {
		t.Errorf("without its input: %v", err)
	}
	if _, err := rt.RunPlanSource(t.Context(), "two.yaml", append(src, "  - {tool: nosuch}\n"...), nil); remit.CodeOf(err).Exit() != 2 {
		t.Errorf("with a tool that there is not: %v", err)
	}
	if _, err := rt.RunPlan(t.Context(), "nosuch.yaml", nil); !errors.Is(err, remit.PlanInvalid) {
		t.Errorf("no such file: %v", err)
	}
	run, err := rt.RunPlanSource(t.Context(), "two.yaml", src, map[string]string{"text": "hello"})
	if err != nil || run.Status != remit.StatusDenied || run.Counts != (remit.Counts{Total: 2, Completed: 1, Denied: 1}) || !slices.Equal(run.Policies, []string{"reader"}) {
		t.Fatalf("%+v %v", run, err)
	}
	if want := []string{"CREATED", "VALIDATING", "EXECUTING", "PROCESSING", "LOGGING", "ENDED", "CREATED", "VALIDATING", "LOGGING", "ENDED"}; !slices.Equal(states, want) {
		t.Errorf("states %q, want %q", states, want)
	}
	var steps []string
	for r, err := range rt.Calls(t.Context(), run.ID[:8]) {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, r.Step+" "+r.Tool+" "+string(r.Status))
	}
	if want := []string{"w fs.write completed", " fs.read denied"}; !slices.EqualFunc(steps, want, func(a, b string) bool { return strings.HasSuffix(a, b) }) {
		t.Errorf("%q, want %q", steps, want)
	}
	for f, want := range map[remit.Format]string{remit.Text: "fs.write", remit.HTML: "<html", remit.JSON: `"report_version"`} {
		var b bytes.Buffer
		if err := rt.Report(t.Context(), &b, run.ID, f); err != nil || !strings.Contains(b.String(), want) || !strings.Contains(b.String(), "bob") {
			t.Errorf("%s: %v\n%s", f, err, b.String())
		}
	}
	if err := rt.Report(t.Context(), &bytes.Buffer{}, run.ID, "pdf"); !errors.Is(err, remit.Usage) {
		t.Error(err)
	}
	for _, err := range []error{
		rt.Report(t.Context(), &bytes.Buffer{}, "ffffffff", remit.Text),
		func() error { _, err := rt.Replay(t.Context(), "ffffffff"); return err }(),
		func() error { _, err := rt.Verify(t.Context(), remit.VerifyOptions{Run: "ffffffff"}); return err }(),
		func() error { _, err := rt.Output(t.Context(), "ffffffff", 1); return err }(),
	} {
		if !errors.Is(err, remit.RunUnknown) {
			t.Errorf("a run that there is not: %v", err)
		}
	}
}

func TestASessionIsSafeForConcurrentUse(t *testing.T) {
	rt := runtime(t, remit.Options{PolicySource: []byte(policy + "limits: {calls: 50}\n")})
	s, err := rt.Begin(t.Context(), "many")
	if err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	var mu sync.Mutex
	ends := map[error]int{}
	for i := range 64 {
		callers.Go(func() {
			args := map[string]any{"path": "out/x", "content": strings.Repeat("x", i)}
			_, err := s.Call(t.Context(), "fs.write", args)
			args["path"] = "elsewhere" // the caller's again
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				ends[nil]++
			} else {
				ends[remit.CodeOf(err)]++
			}
		})
	}
	callers.Wait()
	if ends[nil] != 50 || ends[remit.LimitReached] != 14 {
		t.Errorf("ended so: %v", ends)
	}
	run, err := s.End(t.Context())
	if err != nil || run.Counts.Total != 64 {
		t.Errorf("%+v %v", run, err)
	}
	if _, err := rt.Replay(t.Context(), run.ID); err != nil {
		t.Error(err)
	}
	v, err := rt.Verify(t.Context(), remit.VerifyOptions{Run: run.ID})
	if err != nil || v.Events == 0 {
		t.Errorf("%+v %v", v, err)
	}
}

// TestASessionEndsWithTheTimeOfItsPolicy also shows that a session outlives the
// context that it was begun with.
func TestASessionEndsWithTheTimeOfItsPolicy(t *testing.T) {
	rt := runtime(t, remit.Options{PolicySource: []byte(policy + "limits: {time: 400ms}\n")})
	ctx, cancel := context.WithCancel(t.Context())
	s, err := rt.Begin(ctx, "short")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := s.Call(t.Context(), "fs.stat", map[string]any{"path": "."}); err != nil {
		t.Errorf("at its beginning: %v", err)
	}
	time.Sleep(500 * time.Millisecond) // the policy's time is the point
	if _, err := s.Call(t.Context(), "fs.stat", map[string]any{"path": "."}); !errors.Is(err, remit.LimitReached) {
		t.Errorf("when its time is over: %v", err)
	}
	if _, err := s.End(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestToolsAreDescribed(t *testing.T) {
	tools := runtime(t, remit.Options{}).Tools()
	if len(tools) < 13 || !slices.IsSortedFunc(tools, func(a, b remit.Tool) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("%d tools", len(tools))
	}
	for _, x := range tools {
		if x.Description == "" || x.Risk == "" || !json.Valid(x.Input) || !json.Valid(x.Output) {
			t.Errorf("%s is not described", x.ID)
		}
	}
}
