package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// keeper starts the world's keeper, which ends with the test.
func (w *world) keeper(flags ...string) *world {
	w.t.Helper()
	if runtime.GOOS != "linux" {
		w.t.Skip("keepers run on Linux")
	}
	c := w.command(append([]string{"keeper"}, flags...)...)
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	w.t.Cleanup(func() {
		_ = w.remit("keeper", "stop")
		_ = c.Process.Kill()
		<-ended
	})
	for w.remit("keeper", "status").status != 0 {
		select {
		case err := <-ended:
			ended <- err
			w.t.Fatalf("%v: %s", err, errs.String())
		default:
		}
	}
	return w
}

// answered is how many calls the keeper has answered.
func (w *world) answered() int {
	w.t.Helper()
	var st struct{ Calls int }
	if err := json.Unmarshal([]byte(w.must(0, "keeper", "status", "--json")), &st); err != nil {
		w.t.Fatal(err)
	}
	return st.Calls
}

// kept is hook, by remit-hook.
func (w *world) kept(event []byte, args ...string) (decision string, r result) {
	w.t.Helper()
	return w.hookBy(exec.Command(binary+"-hook", append([]string{"generic", "-w", w.workspace}, args...)...), event)
}

// bySize writes a file in each way in which a look at size and time could miss it.
func bySize(t *testing.T, way int, file, content string) {
	t.Helper()
	st, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	to := file
	if way == 1 {
		to += ".next"
	}
	if err := os.WriteFile(to, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(to, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	if way == 1 {
		err = os.Rename(to, file)
	}
	if now, serr := os.Stat(file); err != nil || serr != nil || now.Size() != st.Size() || !now.ModTime().Equal(st.ModTime()) {
		t.Fatal("the change shows in size or time", err, serr)
	}
}

// What changes between two calls counts for the second one, which the keeper still answers itself.
func TestTheKeeperIsNeverStale(t *testing.T) {
	refuse := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(rw, `{"refuse":"no"}`) }))
	t.Cleanup(refuse.Close)
	const open, shut = "version: 1\nname: p\nfiles: {read: {allow: ['**']}}\n", "version: 1\nname: p\nfiles: {read: {allow: ['-*']}}\n"
	file := func(w *world) []string { return []string{"-p", filepath.Join(w.workspace, "p.yaml")} }
	own := func(*world) []string { return nil }
	for name, c := range map[string]struct {
		args   func(w *world) []string
		change func(w *world)
	}{
		"a policy file in place":  {file, func(w *world) { bySize(w.t, 0, filepath.Join(w.workspace, "p.yaml"), shut+" ") }},
		"a policy file from here": {func(*world) []string { return []string{"-p", "p.yaml"} }, func(w *world) { bySize(w.t, 0, filepath.Join(w.workspace, "p.yaml"), shut+" ") }},
		"a policy file, renamed":  {file, func(w *world) { bySize(w.t, 1, filepath.Join(w.workspace, "p.yaml"), shut+" ") }},
		"the person's own policy": {file, func(w *world) { w.write(filepath.Join(w.home, "policy.yaml"), shut) }},
		"the workspace's policy":  {own, func(w *world) { bySize(w.t, 0, filepath.Join(w.workspace, "remit.yaml"), open+"\n") }},
		"the same, renamed":       {own, func(w *world) { bySize(w.t, 1, filepath.Join(w.workspace, "remit.yaml"), open+"\n") }},
		"its trust":               {own, func(w *world) { w.must(0, "policy", "trust", "--forget") }},
		"a tool":                  {file, func(w *world) { w.must(0, "tools", "disable", "fs.read") }},
		"the settings": {file, func(w *world) {
			w.write(filepath.Join(w.home, "config.yaml"), "ledger: {durability: process}\nhooks:\n  gate: {url: '"+refuse.URL+"', events: [before]}\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).durability("process")
			w.write("p.yaml", open+" ")
			w.write("remit.yaml", open+" ")
			w.must(0, "policy", "trust")
			w.keeper()
			ask := func(want string, answered int) {
				t.Helper()
				event := hookEvent("s", call{Tool: "fs.read", Args: args("path", "p.yaml")})
				got, r := w.kept(event, c.args(w)...)
				fresh, f := w.hook(event, c.args(w)...)
				if got != want || fresh != want || w.answered() != answered {
					t.Errorf("the keeper says %s, a process of its own %s, want %s; it answered %d calls, want %d\n%s%s\n%s%s", got, fresh, want, w.answered(), answered, r.out, r.err, f.out, f.err)
				}
			}
			ask("allow", 1)
			ask("allow", 2)
			c.change(w)
			ask("deny", 3)
		})
	}
}

// What is installed in an agent is remit-hook, and its proof starts the keeper.
func TestTheInstalledHookHasAKeeper(t *testing.T) {
	w := newWorld(t).durability("process")
	w.write("remit.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['*.md']}}\ncommands: {allow: ['true']}\n")
	w.must(0, "policy", "trust")
	w.must(0, "agents", "install", "claude")
	b, err := os.ReadFile(filepath.Join(w.workspace, ".claude", "settings.local.json"))
	if err != nil || !strings.Contains(string(b), binary+"-hook claude --home ") {
		t.Errorf("%v: %s", err, b)
	}
	if runtime.GOOS == "linux" {
		w.must(0, "keeper", "stop")
	}
}

// In the sandbox of an agent, remit-hook reaches the process outside and no keeper. What its command line
// says besides the agent does not count there.
func TestTheHookInASandboxIsAnsweredOutside(t *testing.T) {
	w := newWorld(t).durability("process")
	event := `{"session_id":"s","hook_event_name":"PreToolUse","tool_name":"Read","tool_use_id":"t1","tool_input":{"file_path":"` + filepath.Join(w.workspace, "a") + `"},"cwd":"` + w.workspace + `"}`
	out := w.must(0, "exec", "--agent", "claude", "--", "sh", "-c", "printf %s '"+event+"' | "+binary+"-hook claude --home /nowhere -w /nowhere -p /nowhere --confine")
	if !strings.Contains(out, `"permissionDecision":"allow"`) {
		t.Error(out)
	}
	if r := w.remit("keeper", "status"); r.status == 0 {
		t.Error("a keeper was started from the sandbox")
	}
}

// A ledger that was replaced gets the next call, and its own keeper.
func TestTheKeeperLeavesAReplacedLedger(t *testing.T) {
	w := newWorld(t).durability("process")
	policy := w.beside("p.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}}\n")
	event := hookEvent("s", call{Tool: "fs.read", Args: args("path", "p.yaml")})
	ask := func() {
		t.Helper()
		if got, r := w.kept(event, "-p", policy); got != "allow" {
			t.Errorf("%s: %s%s", got, r.out, r.err)
		}
	}
	w.keeper()
	ask()
	for _, name := range []string{"remit.db", "remit.db-wal", "remit.db-shm", "keys"} {
		if err := os.RemoveAll(filepath.Join(w.home, name)); err != nil {
			t.Fatal(err)
		}
	}
	ask()
	if out := w.must(0, "runs", "--json"); strings.Count(out, `"run_id"`) != 1 {
		t.Errorf("the new ledger has %s", out)
	}
}

// Killed at any moment, the keeper leaves a record that verifies, and each call has an answer.
func TestAKeeperKilledInACall(t *testing.T) {
	w := newWorld(t).durability("process")
	policy := w.beside("p.yaml", "version: 1\nname: p\nfiles: {read: {allow: ['**']}}\n")
	w.keeper()
	const clients, rounds = 4, 6
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for n := range rounds {
				event, err := json.Marshal(map[string]any{"event": "before", "session": fmt.Sprint("s", i), "id": fmt.Sprint("c", n), "tool": "fs.read", "args": args("path", "p.yaml")})
				if err != nil {
					t.Error(err)
				}
				if got, r := w.kept(event, "-p", policy); got != "allow" {
					t.Errorf("%s: %s%s", got, r.out, r.err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for wait := time.Millisecond; ; wait += time.Millisecond {
		select {
		case <-done:
			w.remit("keeper", "stop")
			out := w.must(0, "verify")
			if !strings.Contains(out, fmt.Sprintf("%d runs checked", clients)) {
				t.Error(out)
			}
			return
		case <-time.After(wait):
		}
		var st struct{ PID int }
		if r := w.remit("keeper", "status", "--json"); r.status == 0 && json.Unmarshal([]byte(r.out), &st) == nil {
			if p, err := os.FindProcess(st.PID); err == nil {
				_ = p.Kill()
			}
		}
	}
}
