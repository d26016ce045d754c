package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const crashPolicy = `
version: 1
name: crash
files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
network: {allow: ["http://127.0.0.1:%d"], timeout: 60s}
`

// crashSteps is a plan of pairs of steps: an odd one writes a file, the even
// one after it edits that file.
func crashSteps(n int) []call {
	calls := make([]call, 0, n)
	for i := 1; i <= n; i++ {
		if i%2 == 1 {
			calls = append(calls, call{ID: fmt.Sprint("s", i), Tool: "fs.write", Args: args("path", fmt.Sprintf("out/%d.txt", i), "content", written(i))})
			continue
		}
		calls = append(calls, call{ID: fmt.Sprint("s", i), Tool: "fs.edit", Needs: []string{fmt.Sprint("s", i-1)},
			Args: args("path", fmt.Sprintf("out/%d.txt", i-1), "edits", []any{args("old", "written", "new", "edited")})})
	}
	return calls
}

func written(i int) string {
	return fmt.Sprintf("written by step %d\n%s\nend\n", i, strings.Repeat(strconv.Itoa(i)+" ", 500))
}

func edited(i int) string { return strings.Replace(written(i), "written", "edited", 1) }

// start begins the command, in a process group of its own.
func (w *world) start(args ...string) *exec.Cmd {
	w.t.Helper()
	c := w.command(args...)
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// killAfter kills the process itself, as kill -9 does, and reports whether it
// was still there to be killed.
func killAfter(t *testing.T, c *exec.Cmd, d time.Duration) bool {
	t.Helper()
	time.Sleep(d) // the moment is the point
	_ = c.Process.Signal(syscall.SIGKILL)
	err := c.Wait()
	ws, ok := c.ProcessState.Sys().(syscall.WaitStatus)
	return err != nil && ok && ws.Signaled()
}

// runsJSON is what `remit runs --json` prints.
type runsJSON struct {
	Runs []struct {
		RunID  string `json:"run_id"`
		Status string `json:"status"`
		Name   string `json:"name"`
	} `json:"items"`
}

// newestRun is the newest run of the ledger, "" if there is none.
func (w *world) newestRun() (id, status string) {
	w.t.Helper()
	r := w.runs()
	if len(r.Runs) == 0 {
		return "", ""
	}
	return r.Runs[0].RunID, r.Runs[0].Status
}

func (w *world) runs() runsJSON {
	w.t.Helper()
	var r runsJSON
	decode(w.t, w.must(0, "runs", "--limit", "100", "--json"), &r)
	return r
}

// crash is one kind of crash, tried many times on one ledger.
type crash struct {
	*world
	parallel  int
	whole     time.Duration // how long an undisturbed run takes
	policy    string
	plan      string
	killed    int // runs that were killed while they were open
	lastKnown string
}

// steps is the number of steps of the plan that is killed.
func steps() int {
	if soak() {
		return 200
	}
	return 100
}

func newCrash(t *testing.T, durability string, parallel int) *crash {
	w := newWorld(t).durability(durability)
	c := &crash{world: w, parallel: parallel, policy: w.beside("policy.yaml", fmt.Sprintf(crashPolicy, 1))}
	c.plan = w.world().plan("crash", parallel, crashSteps(steps())...)
	begun := time.Now()
	c.must(0, "run", c.plan, "-p", c.policy, "-w", c.workspace, "--json")
	c.whole = time.Since(begun)
	c.lastKnown, _ = c.newestRun()
	t.Logf("%d steps take %s", steps(), c.whole.Round(time.Millisecond))
	return c
}

func (w *world) world() *world { return w }

// once runs the plan in a fresh workspace, kills it, and checks everything.
func (c *crash) once(i int) {
	t := c.t
	t.Helper()
	c.workspace = filepath.Join(filepath.Dir(c.home), fmt.Sprint("work", i))
	c.mkdir(c.workspace)
	moment := time.Duration(rand.Int64N(int64(c.whole)))
	killed := killAfter(t, c.start("run", c.plan, "-p", c.policy, "-w", c.workspace, "--json"), moment)
	before := tree(t, c.workspace)

	c.must(0, "verify")
	id, status := c.newestRun()
	if id == c.lastKnown { // killed before it began
		if len(before) > 1 {
			t.Fatalf("killed after %s: no run is recorded, but there are files: %v", moment, keys(before))
		}
		return
	}
	c.lastKnown = id
	switch {
	case status == "interrupted" && killed:
		c.killed++
	case status == "completed": // killed after it ended, or not at all
	default:
		t.Fatalf("killed (%t) after %s: the run is %s", killed, moment, status)
	}
	c.compare(id, before)
	c.replayed(id)
	c.accepts()
}

// compare checks each file against the record and each call against the files.
func (c *crash) compare(id string, files map[string]string) {
	t := c.t
	t.Helper()
	done := map[int]string{}
	for _, s := range c.parse(c.must(0, "show", id, "--json")).Steps {
		done[s.Index] = s.Status
		if s.Status != "completed" && s.Status != "interrupted" {
			t.Errorf("call %d is %s: %+v", s.Index, s.Status, s.Error)
		}
	}
	content := func(i int) string {
		_, text, _ := strings.Cut(files[filepath.Join("out", fmt.Sprintf("%d.txt", i))], " ")
		return text
	}
	happened := func(i int, what string) {
		if s := done[i]; s != "completed" && s != "interrupted" {
			t.Errorf("%s, but call %d is %q in the record", what, i, s)
		}
	}
	for i := 1; i <= steps(); i += 2 {
		switch got := content(i); got {
		case "":
			if done[i] == "completed" || done[i+1] == "completed" {
				t.Errorf("calls %d and %d are %s and %s, but the file is not there", i, i+1, done[i], done[i+1])
			}
		case written(i):
			happened(i, "the file is written")
			if done[i+1] == "completed" {
				t.Errorf("call %d is completed, but the file is not edited", i+1)
			}
		case edited(i):
			happened(i, "the file is written")
			happened(i+1, "the file is edited")
		default:
			t.Errorf("out/%d.txt is half written: %q", i, got)
		}
	}
}

// replayed checks that the interrupted run can be replayed, or that it says why
// not, with no effect on the files.
func (c *crash) replayed(id string) {
	c.t.Helper()
	before := tree(c.t, c.workspace)
	r := c.remit("replay", id)
	if r.status != 0 && (r.status != 4 || !strings.Contains(r.err, "E4001")) {
		c.t.Errorf("replay: status %d\n%s%s", r.status, r.out, r.err)
	} else if r.status != 0 {
		c.t.Errorf("replay of %s differs: %s", id, r.err)
	}
	same(c.t, before, tree(c.t, c.workspace))
	c.lastKnown, _ = c.newestRun()
}

// accepts checks that a new run is taken.
func (c *crash) accepts() {
	c.t.Helper()
	p := c.world.world().plan("after", 1, call{Tool: "fs.write", Args: args("path", "out/after.txt", "content", "x")})
	c.must(0, "run", p, "-p", c.policy, "-w", c.workspace)
	c.lastKnown, _ = c.newestRun()
}

func TestKillNineLosesNothing(t *testing.T) {
	for _, k := range []struct {
		durability string
		parallel   int
		times      int
		soak       int
	}{
		{"power", 1, 2, 24}, {"power", 8, 2, 16}, {"process", 1, 1, 8}, {"process", 8, 1, 8},
	} {
		t.Run(fmt.Sprintf("durability %s, parallel %d", k.durability, k.parallel), func(t *testing.T) {
			c := newCrash(t, k.durability, k.parallel)
			times := k.times
			if soak() {
				times = k.soak
			}
			for i := range times {
				c.once(i)
				if t.Failed() {
					break
				}
			}
			c.must(0, "verify")
			t.Logf("%d of %d were killed while a run was open", c.killed, times)
		})
	}
}

// TestKillNineWhileLooking kills what only looks at the ledger, and what closes
// the runs of the dead.
func TestKillNineWhileLooking(t *testing.T) {
	c := newCrash(t, "power", 1)
	times := 2
	if soak() {
		times = 16
	}
	for i := range times {
		c.workspace = filepath.Join(filepath.Dir(c.home), fmt.Sprint("work", i))
		c.mkdir(c.workspace)
		run := c.start("run", c.plan, "-p", c.policy, "-w", c.workspace, "--json")
		c.until("a first file", func() bool {
			made, _ := os.ReadDir(filepath.Join(c.workspace, "out"))
			return len(made) > 0
		})
		killAfter(t, run, time.Duration(rand.Int64N(int64(c.whole/2))))
		files := tree(t, c.workspace)
		for range 3 { // whoever comes first recovers, and is killed at it
			killAfter(t, c.start("runs"), time.Duration(rand.Int64N(int64(40*time.Millisecond))))
		}
		killAfter(t, c.start("verify"), time.Duration(rand.Int64N(int64(60*time.Millisecond))))
		c.must(0, "verify")
		id, status := c.newestRun()
		if id == c.lastKnown || status != "interrupted" && status != "completed" {
			t.Fatalf("run %s is %s", id, status)
		}
		c.lastKnown = id
		c.compare(id, files)
		c.accepts()
	}
	c.must(0, "verify")
	for _, r := range c.runs().Runs {
		if r.Status == "running" {
			t.Errorf("run %s is still running", r.RunID)
		}
	}
}

// TestKillNineOfANeighbour kills one of two processes that use one ledger.
func TestKillNineOfANeighbour(t *testing.T) {
	w := newWorld(t).durability("power")
	release, arrived := w.hold()
	policy := w.beside("policy.yaml", strings.Replace(fmt.Sprintf(crashPolicy, 0), "127.0.0.1:0", w.server, 1))
	write := func(name string) call {
		return call{Tool: "fs.write", Args: args("path", "out/"+name, "content", name)}
	}
	hold := call{Tool: "http.get", Args: args("url", "http://"+w.server+"/hold")}
	survivor := w.start("run", w.plan("survivor", 1, write("a"), hold, write("b")), "-p", policy, "-w", w.workspace)
	<-arrived
	victim := w.start("run", w.plan("victim", 1, write("c"), hold, write("d")), "-p", policy, "-w", w.workspace)
	<-arrived
	killAfter(t, victim, 0)

	states := func() map[string]string {
		m := map[string]string{}
		for _, r := range w.runs().Runs {
			m[r.Name] = r.Status
		}
		return m
	}
	w.must(0, "verify")
	if got := states(); got["survivor"] != "running" || got["victim"] != "interrupted" {
		t.Errorf("while the survivor runs: %v", got)
	}
	close(release)
	if err := survivor.Wait(); err != nil {
		t.Errorf("the survivor: %v", err)
	}
	if got := states(); got["survivor"] != "completed" || got["victim"] != "interrupted" {
		t.Errorf("in the end: %v", got)
	}
	w.must(0, "verify")
	for _, r := range w.runs().Runs {
		if got := w.remit("replay", r.RunID); got.status != 0 {
			t.Errorf("replay of %s: status %d %s", r.Name, got.status, got.err)
		}
	}
	left, err := os.ReadDir(filepath.Join(w.home, "owners"))
	if err != nil || len(left) > 0 {
		t.Errorf("locks of owners are left: %v %v", left, err)
	}
}

func keys(m map[string]string) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
