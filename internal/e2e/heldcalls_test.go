package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// heldJSON is what `remit changes RUN --json` prints of held calls.
type heldJSON struct {
	State string `json:"state"`
	Calls []struct {
		Number int    `json:"number"`
		State  string `json:"state"`
		In     string `json:"applied_in"`
	} `json:"calls"`
}

func (w *world) heldOf(run string) (h heldJSON) {
	w.t.Helper()
	if err := json.Unmarshal([]byte(w.must(0, "changes", run, "--json")), &h); err != nil {
		w.t.Fatal(err)
	}
	return h
}

// inbox is an HTTP server that counts what it is sent.
type inbox struct {
	*httptest.Server

	mu      sync.Mutex
	got     map[string]int
	arrived chan string
	block   chan struct{} // nil: requests are answered at once
}

func newInbox(t *testing.T) *inbox {
	in := &inbox{got: map[string]int{}, arrived: make(chan string, 1000)}
	in.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		in.mu.Lock()
		in.got[string(b)]++
		block := in.block
		in.mu.Unlock()
		in.arrived <- string(b)
		if block != nil {
			select {
			case <-block:
			case <-r.Context().Done():
			}
		}
	}))
	t.Cleanup(in.Close)
	return in
}

func (in *inbox) set(block chan struct{}) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.block = block
}

func (in *inbox) count(body string) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.got[body]
}

// holdPosts has a run hold so many requests to an inbox, and gives the run.
func (w *world) holdPosts(in *inbox, n int) string {
	w.t.Helper()
	policy := w.beside("policy.yaml", "version: 1\nfiles: {write: {allow: ['**'], hold: true}}\nnetwork: {allow: [{url: '"+in.URL+"/**', hold: true}]}\n")
	plan := "version: 1\nsteps:\n  - {tool: fs.write, args: {path: out.txt, content: x}}\n"
	for i := range n {
		plan += fmt.Sprintf("  - {tool: http.request, args: {method: POST, url: '%s/in', body: 'body %d'}}\n", in.URL, i)
	}
	w.must(0, "run", w.beside("plan.yaml", plan), "-p", policy, "-w", w.workspace)
	id, _ := w.newestRun()
	return id
}

// Remit is killed while the other side has a held request: the request is never sent again by
// itself, and a person is told that nobody knows how it ended.
func TestKillNineWhileAHeldRequestIsSent(t *testing.T) {
	w := newWorld(t).durability("power")
	w.needSandbox()
	in := newInbox(t)
	run := w.holdPosts(in, 2)
	if len(in.arrived) > 0 {
		t.Fatal("a held request was sent")
	}
	block := make(chan struct{})
	in.set(block)
	c := w.start("changes", "apply", run)
	select {
	case <-in.arrived:
	case <-time.After(time.Minute):
		t.Fatal("nothing was sent")
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	in.set(nil)
	close(block)
	if h := w.heldOf(run); h.State != "review" || h.Calls[0].State != "unknown" || h.Calls[1].State != "waiting" {
		t.Fatalf("after the kill: %+v", h)
	}
	if r := w.remit("changes", "apply", run); r.status != 1 || !strings.Contains(r.err, "is not repeated by itself") {
		t.Errorf("applied again: status %d\n%s", r.status, r.err)
	}
	if in.count("body 0") != 1 || in.count("body 1") != 0 {
		t.Errorf("sent: %v", in.got)
	}
	w.must(0, "changes", "apply", run, "--skip", "2")
	if h := w.heldOf(run); h.State != "applied" || h.Calls[0].State != "skipped" || h.Calls[1].State != "done" {
		t.Errorf("in the end: %+v", h)
	}
	if in.count("body 0") != 1 || in.count("body 1") != 1 {
		t.Errorf("sent: %v", in.got)
	}
	w.must(0, "replay", run)
	w.must(0, "verify")
}

// However often an apply is killed, wherever it is, no held request is sent twice and none is
// lost: each was sent, or a person was told that nobody knows.
func TestKillNineOfAppliesSendsNothingTwice(t *testing.T) {
	w := newWorld(t).durability("process")
	w.needSandbox()
	in := newInbox(t)
	const n, kills = 5, 6
	run := w.holdPosts(in, n)
	skipped := map[int]bool{}
	for i := 0; ; i++ {
		h := w.heldOf(run)
		if h.State == "applied" {
			break
		}
		args := []string{"changes", "apply", run}
		for _, c := range h.Calls {
			if c.State == "unknown" || c.State == "failed" {
				skipped[c.Number] = true
				args = append(args, "--skip", strconv.Itoa(c.Number))
			}
		}
		if i < kills {
			killAfter(t, w.start(args...), time.Duration(rand.Int64N(int64(400*time.Millisecond))))
		} else {
			w.must(0, args...)
		}
	}
	for i := range n {
		got, number := in.count(fmt.Sprintf("body %d", i)), i+2
		if got > 1 || got == 0 && !skipped[number] {
			t.Errorf("request %d was sent %d times; skipped: %v", number, got, skipped)
		}
	}
	w.must(0, "verify")
}

// A held call of an MCP server's tool is carried out by the server, once it is applied.
func TestAHeldCallOfAnMCPServer(t *testing.T) {
	w := newWorld(t).durability("process")
	w.needSandbox()
	w.testServer("honest")
	policy := w.beside("policy.yaml", "version: 1\nfiles: {write: {allow: ['**'], hold: true}}\ntools: {allow: [{tool: 'mcp:t:echo', hold: true}]}\n")
	plan := w.beside("plan.yaml", "version: 1\nsteps:\n  - {tool: 'mcp:t:echo', args: {text: good morning}}\n")
	out := w.must(0, "run", plan, "-p", policy, "-w", w.workspace, "--json")
	if !strings.Contains(out, "was not carried out") {
		t.Errorf("the call's result: %s", out)
	}
	run, _ := w.newestRun()
	if shown := w.must(0, "changes", run); !strings.Contains(shown, "waiting  call 1 mcp:t:echo") || !strings.Contains(shown, "good morning") {
		t.Errorf("listed as\n%s", shown)
	}
	w.must(0, "changes", "apply", run)
	h := w.heldOf(run)
	if h.State != "applied" || h.Calls[0].State != "done" {
		t.Fatalf("%+v", h)
	}
	if shown := w.must(0, "show", h.Calls[0].In, "--step", "1"); !strings.Contains(shown, "good morning") {
		t.Errorf("the call that was carried out:\n%s", shown)
	}
	w.must(0, "replay", run)
	w.must(0, "replay", h.Calls[0].In)
	w.must(0, "verify")
}
