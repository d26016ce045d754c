package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit"
)

// told is all that a record says of a run's calls, but for when.
func (w *world) told(id string) []string {
	w.t.Helper()
	var out []string
	for _, s := range w.parse(w.must(0, "show", id, "--json")).Steps {
		msg := ""
		if s.Error != nil {
			msg = s.Error.Code + " " + s.Error.Message
		}
		out = append(out, fmt.Sprintf("%d %s %s args %s output %s: %s %s %s %v: %s", s.Index, s.ID, s.Tool, s.Args, s.Output,
			s.Status, s.Decision.Effect, s.Decision.Rule, s.Decision.Refusals, msg))
	}
	return out
}

// replays checks that a run replays: nothing differs, and the replay's own
// record is bit for bit that of the run.
func (w *world) replays(id string) {
	w.t.Helper()
	var r struct {
		OK       bool
		RunID    string `json:"run_id"`
		Mismatch any
	}
	got := w.remit("replay", id, "--json")
	if !strings.HasPrefix(got.out, "{") {
		w.t.Fatalf("replay %s: status %d\n%s%s", id, got.status, got.out, got.err)
	}
	decode(w.t, got.out, &r)
	if got.status != 0 || !r.OK {
		w.t.Errorf("replay %s: status %d, %+v", id, got.status, r.Mismatch)
	}
	if diff := cmp.Diff(w.told(id), w.told(r.RunID)); diff != "" {
		w.t.Errorf("the replay's record differs:\n%s", diff)
	}
	if again := w.remit("replay", r.RunID); again.status != 0 {
		w.t.Errorf("a replay cannot be replayed: %s%s", again.out, again.err)
	}
}

func TestReplayGivesTheSameWithoutTouchingTheWorld(t *testing.T) {
	w := newRecorded(t)
	files, asked := tree(t, w.workspace), w.requests.Load()
	for _, id := range []string{w.mixed, w.second, w.long} {
		w.replays(id)
	}
	same(t, files, tree(t, w.workspace))
	if got := w.requests.Load(); got != asked {
		t.Errorf("the server was asked %d times more", got-asked)
	}

	// With the world gone, nothing changes: workspace, commands, server, policy.
	w.server = ""
	for _, gone := range []string{w.workspace, w.policy} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
	}
	w.mkdir(w.workspace) // to stand in
	w.replays(w.mixed)
	if got := tree(t, w.workspace); len(got) != 1 {
		t.Errorf("the replay made files: %v", keys(got))
	}
	if err := os.RemoveAll(w.workspace); err != nil {
		t.Fatal(err)
	}

	// No process is started: not even the sandbox's helper.
	w.mkdir(w.workspace)
	rt := w.runtime()
	before := children(t)
	if _, err := rt.Replay(t.Context(), w.mixed); err != nil {
		t.Error(err)
	}
	if got := children(t); got != before {
		t.Errorf("processes before %q, after %q", before, got)
	}
}

// children lists the processes that this one has started and that live.
func children(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil {
			out.Write(b)
		}
	}
	return out.String()
}

func TestEveryKindOfRunReplays(t *testing.T) {
	w := newWorld(t).durability("process").serve()
	w.fill()
	policy := fmt.Sprintf(differentialPolicy, w.server)
	file := w.beside("policy.yaml", policy)
	bad := call{ID: "bad", Tool: "fs.read", Args: args("path", "missing"), OnErr: "stop"}
	denied := call{ID: "denied", Tool: "fs.read", Args: args("path", ".env")}
	ok := func(id string, needs ...string) call {
		return call{ID: id, Tool: "fs.read", Args: args("path", "notes.txt"), Needs: needs}
	}
	with := func(c call, cond string, needs ...string) call { c.If, c.Needs = cond, needs; return c }
	plans := map[string][]call{
		"stopped":              {ok("a"), bad, ok("b"), with(ok("c"), "${{ failure() }}")},
		"continued":            {denied, ok("b"), with(ok("c"), "${{ always() }}", "denied"), ok("d", "denied")},
		"a condition fails":    {ok("a"), with(ok("b"), "${{ steps.a.output.nosuch }}", "a"), ok("c")},
		"an argument fails":    {ok("a"), {ID: "b", Tool: "fs.read", Args: args("path", "${{ steps.a.output.bytes_total }}")}, ok("c")},
		"a timeout":            {{Tool: "shell.run", Args: args("argv", []any{"sleep", "60"}, "timeout", "500ms")}, ok("b")},
		"limits":               append(path("fs.list", "", ".", "src", ".", "src", "."), ok("z")),
		"large, referred to":   {{ID: "l", Tool: "fs.read", Args: args("path", "big.txt")}, {Tool: "fs.write", Args: args("path", "out/l", "content", "${{ steps.l.output.encoding }}")}},
		"nothing but refusals": {denied, {Tool: "http.get", Args: args("url", "http://10.0.0.1/")}},
		"everything":           theCalls(w)[:40],
	}
	for name, calls := range plans {
		for _, parallel := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, parallel %d", name, parallel), func(t *testing.T) {
				w := &world{t: t, home: w.home, workspace: w.workspace, server: w.server}
				p := w.plan(strings.ReplaceAll(name, " ", "-")+fmt.Sprint(parallel), parallel, calls...)
				r := w.remit("run", p, "-p", file, "-w", w.workspace, "--json")
				if !strings.HasPrefix(r.out, "{") {
					t.Fatalf("status %d\n%s", r.status, r.err)
				}
				w.replays(w.parse(r.out).RunID)
			})
		}
	}
}

func TestACancelledRunReplays(t *testing.T) {
	for _, parallel := range []int{1, 4} {
		t.Run(fmt.Sprint("parallel ", parallel), func(t *testing.T) {
			w := newWorld(t).durability("process")
			_, arrived := w.hold()
			policy := w.beside("policy.yaml", strings.Replace(fmt.Sprintf(crashPolicy, 0), "127.0.0.1:0", w.server, 1))
			hold := call{Tool: "http.get", Args: args("url", "http://"+w.server+"/hold")}
			write := func(i int) call {
				return call{Tool: "fs.write", Args: args("path", fmt.Sprint("out/", i), "content", "x")}
			}
			c := w.start("run", w.plan("cancelled", parallel, write(1), hold, write(2), write(3), hold, write(4), hold, hold, write(5)), "-p", policy, "-w", w.workspace)
			<-arrived
			_ = c.Process.Signal(syscall.SIGINT)
			_ = c.Wait()
			if got := c.ProcessState.ExitCode(); got != 130 {
				t.Errorf("status %d, want 130", got)
			}
			id, status := w.newestRun()
			if status != "cancelled" {
				t.Errorf("the run is %s", status)
			}
			w.replays(id)
		})
	}
}

func TestARunOutOfTimeReplays(t *testing.T) {
	w := newWorld(t).durability("process")
	_, _ = w.hold()
	policy := w.beside("policy.yaml", strings.Replace(fmt.Sprintf(crashPolicy, 0), "127.0.0.1:0", w.server, 1)+"limits: {time: 300ms}\n")
	hold := call{Tool: "http.get", Args: args("url", "http://"+w.server+"/hold")}
	write := call{Tool: "fs.write", Args: args("path", "out/x", "content", "x")}
	for _, parallel := range []int{1, 3} {
		run := w.run(w.plan("time", parallel, write, hold, write, write), policy)
		if run.Status == "completed" {
			t.Errorf("the run is %s: %+v", run.Status, run.Counts)
		}
		w.replays(run.RunID)
	}
}

func TestSessionsAndAnswersReplay(t *testing.T) {
	w := newWorld(t).durability("process").serve()
	w.fill()
	answers := map[string]remit.Answer{
		"ask/q.txt": {Yes: true, By: "user:bob", Where: "test"}, "ask/no": {Reason: "not today"},
	}
	var mu sync.Mutex
	var questions []string
	rt, err := remit.Open(t.Context(), remit.Options{
		Home: w.home, Workspace: w.workspace, Environ: w.environ(), PolicySource: fmt.Appendf(nil, differentialPolicy, w.server),
		Ask: func(_ context.Context, q remit.Question) (remit.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			p, _ := q.Args["path"].(string)
			questions = append(questions, p)
			q.Args["path"] = "private/key.txt" // must change nothing
			a, ok := answers[p]
			if !ok {
				return a, errors.New("gone home")
			}
			return a, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := rt.Begin(t.Context(), "asked")
	if err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx  context.Context
		tool string
		args map[string]any
		want error
	}{
		{nil, "fs.read", args("path", "ask/q.txt"), nil},
		{nil, "fs.write", args("path", "ask/no", "content", "x"), remit.NeedsApproval},
		{nil, "fs.write", args("path", "ask/nobody", "content", "x"), remit.NeedsApproval},
		{nil, "fs.read", args("path", "private/key.txt"), remit.Denied},
		{nil, "fs.read", args("path", "a\xffb"), remit.ArgsInvalid},
		{nil, "fs.read", args("path", math.NaN()), remit.ArgsInvalid},
		{nil, "fs.read", args("path", func() {}), remit.ArgsInvalid},
		{nil, "fs.read", nil, remit.ArgsInvalid},
		{nil, "no\x1bsuch\xfftool", nil, remit.ToolUnknown},
		{nil, "", nil, remit.ToolUnknown},
		{cancelled, "fs.write", args("path", "out/x", "content", "x"), remit.ToolCancelled},
		{nil, "fs.read", args("path", "notes.txt", "offset", 4, "limit", int64(5)), nil},
		{nil, "shell.run", map[string]any{"argv": []string{"echo", "x"}}, nil},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = t.Context()
		}
		r, err := s.Call(ctx, c.tool, c.args)
		if errors.Is(err, remit.SandboxMissing) {
			continue // this machine cannot confine commands, and so runs none
		}
		if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%q %v: %v, want %v", c.tool, c.args, err, c.want)
		}
		if strings.Contains(string(r.Output), "secret") {
			t.Errorf("%q %v: what was decided is not what was done: %s", c.tool, c.args, r.Output)
		}
	}
	if want := []string{"ask/q.txt", "ask/no", "ask/nobody"}; !cmp.Equal(questions, want) {
		t.Errorf("asked about %q, want %q", questions, want)
	}
	run, err := s.End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "time.now", nil); !errors.Is(err, remit.Usage) {
		t.Errorf("a call after the end: %v", err)
	}
	if again, err := s.End(t.Context()); err != nil || again.ID != run.ID {
		t.Errorf("ended twice: %+v %v", again, err)
	}
	w.must(0, "verify")
	w.replays(run.ID)
}

// TestRejudgingTellsWhatARealRunWouldDo compares the table of replay --policy
// with a run under that policy.
func TestRejudgingTellsWhatARealRunWouldDo(t *testing.T) {
	w := newWorld(t).durability("process").serve()
	w.fill()
	var calls []call
	for _, c := range theCalls(w) {
		if c.wanted == "completed" || c.wanted == "denied" || c.Tool == "fs.stat" || c.Tool == "fs.grep" {
			calls = append(calls, c)
		}
	}
	p := w.plan("judged", 1, calls...)
	was := w.run(p, w.beside("policy.yaml", fmt.Sprintf(differentialPolicy, w.server)))
	other := w.beside("other.yaml", fmt.Sprintf(`
version: 1
name: other
files: {read: {allow: ["notes.txt", "private/**", "ask/**"], ask: ["src/**"], deny: ["link.txt"]}, write: {ask: ["out/**"]}}
network: {allow: ["http://%s/ok/never/**"], ask: ["http://%[1]s/ok/**"]}
commands: {allow: ["echo **"], deny: ["echo one"]}
tools: {deny: [time.now]}
`, w.server))
	w.fill()
	is := w.run(p, other)
	var table struct {
		Judged  int
		Changed []struct {
			Call    int
			Was, Is string
			Rule    string
		}
	}
	decode(t, w.must(0, "replay", was.RunID, "--policy", other, "--json"), &table)
	got := map[int]string{}
	for _, c := range table.Changed {
		got[c.Call] = c.Was + " to " + c.Is + " by " + c.Rule
	}
	changed := 0
	for i, s := range was.Steps {
		want := ""
		if now := is.Steps[i]; now.Decision.Effect != s.Decision.Effect {
			changed++
			want = s.Decision.Effect + " to " + now.Decision.Effect + " by " + now.Decision.Rule
		}
		if got[s.Index] != want {
			t.Errorf("call %d %s %s: told %q, a real run says %q", s.Index, s.Tool, s.Args, got[s.Index], want)
		}
	}
	if table.Judged != len(was.Steps) || changed < 10 {
		t.Errorf("%d judged of %d, %d changed", table.Judged, len(was.Steps), changed)
	}
}
