package fleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// twoActs acts twice and ends.
const twoActs = `
- tool_calls: [{name: act, args: {url: "WORLD/first"}}]
- tool_calls: [{name: act, args: {url: "WORLD/second"}}]
- {text: "Done.", repeat: true}
`

// TestATurnContinuesOnAnotherNode: kill -9 of a node in the middle of a call. The call's
// outcome is unknown, and it is not made again; the turn goes on elsewhere.
func TestATurnContinuesOnAnotherNode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a := f.start()
	b := f.start()
	id := a.session()
	f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	if status, m := b.ask("POST", "/v1/sessions/"+id+"/messages", `{"content":"me too"}`); status != 409 || !strings.Contains(fmt.Sprint(m["detail"]), "node") {
		t.Errorf("a message to a session that another node works on: %d %v", status, m)
	}
	a.kill()
	took := f.until("the second call", func() bool { return f.happened("/second") == 1 })
	t.Logf("the next call began %s after the kill, the lease being %s", took, lease)
	b.becomes(id, "idle")
	if got := b.results(id); len(got) != 2 || !strings.Contains(got[0], "may or may not have taken effect") {
		t.Errorf("the results are %q", got)
	}
	if first, second := f.happened("/first"), f.happened("/second"); first != 1 || second != 1 {
		t.Errorf("%d and %d effects, want one each", first, second)
	}
	b.send(id)
	b.becomes(id, "idle")
	verified(t, f)
}

// TestAStoppedNodeDoesNothingMore: a node that was stopped for longer than its lease, and
// goes on in the middle of its call, begins no further call in that turn. It joins anew.
func TestAStoppedNodeDoesNothingMore(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a := f.start()
	b := f.start()
	id := a.session()
	release := f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	a.signal(syscall.SIGSTOP)
	b.becomes(id, "idle")
	release() // the answer to the stopped node's call
	a.signal(syscall.SIGCONT)
	members := func() int { return f.db.Count(f, f.db.Schema(f, f.dir), "SELECT count(*) FROM members") }
	f.until("the stopped node's return", func() bool { return members() == 2 })
	a.isReady()
	a.send(id) // it works as before
	a.becomes(id, "idle")
	if first, second := f.happened("/first"), f.happened("/second"); first != 1 || second != 1 {
		t.Errorf("%d and %d effects, want one each", first, second)
	}
	verified(t, f)
}

// TestANewerRemitEndsANode: a newer Remit updates the tables in the middle of a call. The node ends
// with an error that says so, and begins no further call.
func TestANewerRemitEndsANode(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a := f.start()
	release := f.hold("/first")
	a.send(a.session())
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	url := f.db.Schema(t, f.dir)
	f.db.Count(t, url, "WITH m AS (DELETE FROM members), v AS (INSERT INTO schema_version VALUES(1000)) SELECT 0") // as a migration does
	<-a.over
	release()
	if a.cmd.ProcessState.Success() || !strings.Contains(a.last, "E5005") || !strings.Contains(a.last, "newer Remit") {
		t.Errorf("the node ended with %v: %q", a.cmd.ProcessState, a.last)
	}
	if n := f.happened("/second"); n != 0 {
		t.Errorf("%d calls began after the update", n)
	}
	f.db.Count(t, url, "WITH v AS (DELETE FROM schema_version WHERE version = 1000) SELECT 0")
	verified(t, f)
}

// TestNodesShareATurn: what is asked of one node holds on the other.
func TestNodesShareATurn(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a := f.start()
	b := f.start()
	id := a.session()
	release := f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	b.must(200, "POST", "/v1/sessions/"+id+"/pause", "")
	for !asked(f, 0) { // a has taken the request
		time.Sleep(5 * time.Millisecond)
	}
	release()
	f.until("the pause", func() bool { return b.state(id) == "paused" && a.state(id) == "paused" })
	if n := f.happened("/second"); n != 0 {
		t.Errorf("a paused turn made %d calls", n)
	}
	release = f.hold("/second")
	b.must(200, "POST", "/v1/sessions/"+id+"/resume", "")
	f.until("the second call", func() bool { return f.happened("/second") == 1 })
	if s := b.must(200, "POST", "/v1/sessions/"+id+"/cancel", ""); s["status"] != "cancelled" {
		t.Errorf("cancelled by the other node: %v", s)
	}
	release()
	b.send(id) // the session is free at once, for any node
	a.becomes(id, "idle")
	verified(t, f)
}

// asked reports whether the number of requests to turns that wait is n.
func asked(f *fleet, n int) bool {
	f.Helper()
	return f.db.Count(f, f.db.Schema(f, f.dir), "SELECT count(*) FROM turns WHERE request <> 0") == n
}

// TestApprovalsAndRevocationsReachOtherNodes: a person answers on another node than the one
// that asks; a grant that is revoked on one node ends the call on the other.
func TestApprovalsAndRevocationsReachOtherNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, `
- tool_calls: [{name: save, args: {path: saved.txt, content: "kept"}}]
- tool_calls: [{name: act, args: {url: "WORLD/first"}}]
- {text: "Done.", repeat: true}
`)
	a := f.start()
	b := f.start()
	g := a.must(201, "POST", "/v1/grants", `{"policies":["version: 1\nrest: inherit\n"]}`)
	token, _ := g["token"].(string)
	agent := a.must(201, "POST", "/v1/agents", `{"name":"Actor","model":"scripted:script.yaml","capabilities":["world"]}`)["id"].(string)
	status, s := a.ask("POST", "/v1/sessions", `{"agent_id":"`+agent+`"}`, token)
	if status != 201 {
		t.Fatal(status, s)
	}
	id, _ := s["id"].(string)
	f.hold("/first")
	if status, m := a.ask("POST", "/v1/sessions/"+id+"/messages", `{"content":"go"}`, token); status != 202 {
		t.Fatal(status, m)
	}
	var question string
	f.until("the question", func() bool {
		items, _ := b.must(200, "GET", "/v1/approvals", "")["items"].([]any)
		if len(items) == 1 {
			question, _ = items[0].(map[string]any)["id"].(string)
		}
		return question != ""
	})
	b.must(200, "POST", "/v1/approvals/"+question+"/approve", "{}")
	f.until("the next call", func() bool { return f.happened("/first") == 1 })
	if text, err := os.ReadFile(filepath.Join(f.dir, "work", "saved.txt")); err != nil || string(text) != "kept" {
		t.Errorf("the approved call wrote %q: %v", text, err)
	}
	b.must(200, "POST", "/v1/grants/"+g["id"].(string)+"/revoke", "{}")
	took := f.until("the end of the call", func() bool { return a.state(id) != "working" })
	t.Logf("the revocation was seen after %s", took)
	for _, n := range []*node{a, b} { // one verdict from both
		if status, m := n.ask("GET", "/v1/agents", "", token); status != 401 || m["code"] != "E6004" {
			t.Errorf("after the revocation: %d %v", status, m)
		}
	}
	verified(t, f)
}

// TestANodeThatEndsHandsItsTurnsOver: SIGTERM in the middle of a turn.
func TestANodeThatEndsHandsItsTurnsOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	a := f.start()
	b := f.start()
	id := a.session()
	f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	a.signal(syscall.SIGTERM)
	<-a.over
	f.until("the second call", func() bool { return f.happened("/second") == 1 })
	b.becomes(id, "idle")
	if n := f.happened("/first"); n != 1 {
		t.Errorf("%d effects of the first call", n)
	}
	verified(t, f)
}

// TestAQuestionWaitsOnAtAnotherNode: the node of a turn ends while its call waits for a person. The
// question waits on, and the answer continues the turn at the other node: the call is made once.
func TestAQuestionWaitsOnAtAnotherNode(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if sig == syscall.SIGTERM && os.Getenv("REMIT_SOAK") == "" {
			continue
		}
		f := newFleet(t, `
- tool_calls: [{name: save, args: {path: saved.txt, mode: append, content: "once;"}}]
- {text: "Done.", repeat: true}
`)
		a := f.start()
		b := f.start()
		id := a.session()
		a.send(id)
		question := func() (id string) {
			items, _ := b.must(200, "GET", "/v1/approvals", "")["items"].([]any)
			if len(items) == 1 {
				id, _ = items[0].(map[string]any)["id"].(string)
			}
			return id
		}
		var asked string
		f.until("the question", func() bool { asked = question(); return asked != "" && b.state(id) == "waiting" })
		a.signal(sig)
		<-a.over
		f.until("the turn at the other node", func() bool {
			return f.db.Count(t, f.db.Schema(t, f.dir), "SELECT count(*) FROM turns t JOIN members m ON m.id = t.node WHERE (SELECT count(*) FROM members) = 1") == 1 && b.state(id) == "waiting"
		})
		if now := question(); now != asked {
			t.Errorf("after %s the question is %q, and was %q", sig, now, asked)
		}
		b.must(200, "POST", "/v1/approvals/"+asked+"/approve", "{}")
		b.becomes(id, "idle")
		if text, err := os.ReadFile(filepath.Join(f.dir, "work", "saved.txt")); err != nil || string(text) != "once;" {
			t.Errorf("the approved call wrote %q: %v", text, err)
		}
		verified(t, f)
	}
}
