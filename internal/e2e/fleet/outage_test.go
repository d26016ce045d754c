package fleet_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// endBackends ends connections of the nodes at the server: those among the first count that
// chosen names, or all of them.
func (f *fleet) endBackends(chosen func(i int) bool) int {
	f.Helper()
	url := f.db.Schema(f, f.dir)
	n := f.db.Count(f, url, "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'remit'")
	for i := range n {
		if chosen == nil || chosen(i) {
			f.db.Count(f, url, fmt.Sprintf("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE application_name = 'remit' ORDER BY backend_start OFFSET %d LIMIT 1) AS a", i))
		}
	}
	return n
}

// ownServer is a server that a test may stop.
func ownServer(t *testing.T) *postgrestest.Server {
	t.Helper()
	database.Schema(t, "own") // skips the test without PostgreSQL
	db, stop, err := postgrestest.New("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return db
}

// mcp is a client's session, and a call of it.
func (n *node) mcp() (token, session string) {
	n.f.Helper()
	token, _ = n.must(201, "POST", "/v1/grants", `{"policies":["version: 1\nrest: inherit\n"]}`)["token"].(string)
	status, session, body := n.speak(token, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)
	if status != 200 || session == "" {
		n.f.Fatalf("%d %s", status, body)
	}
	return token, session
}

func (n *node) mcpCall(token, session, path string) (int, string) {
	n.f.Helper()
	status, _, body := n.speak(token, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"http_request","arguments":{"method":"POST","url":"%s/%s"}}}`, path, n.f.world, path))
	return status, body
}

// ready asks whether a node is ready, and why it is not.
func (n *node) ready() (ok bool, reason string) {
	n.f.Helper()
	status, m := n.request("GET", "/readyz", "", nil)
	reason, _ = m["reason"].(string)
	return status == 200, reason
}

func (n *node) isReady() {
	n.f.Helper()
	reason := ""
	defer func() {
		if n.f.Failed() {
			n.f.Logf("the node is not ready: %s", reason)
		}
	}()
	n.f.until("the node is ready", func() (ok bool) { ok, reason = n.ready(); return ok })
}

// unready waits until a node says that it is not ready, and why.
func (n *node) unready() {
	n.f.Helper()
	var reason string
	n.f.until("the node is not ready", func() bool {
		ok, why := n.ready()
		reason = why
		return !ok && strings.Contains(why, "has not renewed its lease")
	})
	if strings.Contains(reason, n.f.db.Socket) || strings.Contains(reason, "took over") {
		n.f.Errorf("the reason is %q", reason)
	}
}

// TestEndedConnectionsEndNothing: the server ends single connections of a node, and all of them at
// once, between calls, and in the middle of calls. Sessions, turns and queued runs go on.
func TestEndedConnectionsEndNothing(t *testing.T) {
	t.Parallel()
	f := newFleetOn(t, ownServer(t), twoActs)
	config := fmt.Sprintf("ledger: {database: %q, lease: 1m}\n", f.db.Schema(t, f.dir)) // no lease ends meanwhile
	if err := os.WriteFile(filepath.Join(f.dir, "home", "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	a := f.start()
	token, session := a.mcp()
	for i := range 10 {
		name := fmt.Sprintf("call%d", i)
		f.endBackends(func(at int) bool { return i > 7 || at == i })
		if status, body := a.mcpCall(token, session, name); status != 200 || f.happened("/"+name) != 1 {
			t.Errorf("call %d of the session: %d %s, %d effects", i, status, body, f.happened("/"+name))
		}
	}
	id := a.session()
	release := f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	f.endBackends(nil)
	release()
	f.until("the end of the turn", func() bool { return a.state(id) != "working" })
	if got := a.results(id); a.state(id) != "idle" || len(got) != 2 || f.happened("/first") != 1 || f.happened("/second") != 1 {
		t.Errorf("the turn is %s: %q", a.state(id), got)
	}
	release = f.hold("/queued")
	plan := fmt.Sprintf("version: 1\nname: q\nsteps:\n  - {id: act, tool: http.request, args: {method: POST, url: %q}}\n", f.world+"/queued")
	body, err := json.Marshal(map[string]any{"plan": plan, "queue": map[string]any{"limits": []map[string]any{{"key": "grant", "most": 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	one, two := a.must(202, "POST", "/v1/runs", string(body)), a.must(202, "POST", "/v1/runs", string(body))
	f.until("the queued call", func() bool { return f.happened("/queued") == 1 })
	f.endBackends(nil)
	release()
	for _, q := range []map[string]any{one, two} { // the second one waits for the first one's limit
		path := "/v1/queue/" + fmt.Sprint(q["run_id"])
		f.until("the end of the queued run", func() bool { return a.must(200, "GET", path, "")["ended_at"] != nil })
		if got := a.must(200, "GET", path, ""); got["status"] != "completed" {
			t.Errorf("the queued run is %v", got)
		}
	}
	verified(t, f)
}

// TestNodesWaitForTheirDatabase: the server is away for longer than the lease in the middle of a
// turn, and then a lock keeps the nodes from renewing their leases. They begin nothing meanwhile, say
// so, end no process, and go on by themselves.
func TestNodesWaitForTheirDatabase(t *testing.T) {
	t.Parallel()
	f := newFleetOn(t, ownServer(t), twoActs)
	a, b := f.start(), f.start()
	token, session := a.mcp()
	id := a.session()
	release := f.hold("/first")
	a.send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	if err := f.db.Stop("fast"); err != nil {
		t.Fatal(err)
	}
	a.unready()
	b.unready()
	release()
	if n := f.happened("/second"); n != 0 {
		t.Errorf("%d calls began without a lease", n)
	}
	if err := f.db.Restart(); err != nil {
		t.Fatal(err)
	}
	a.isReady()
	b.isReady()
	b.becomes(id, "idle")
	if first, second := f.happened("/first"), f.happened("/second"); first != 1 || second != 1 {
		t.Errorf("%d and %d effects, want one each", first, second)
	}
	if status, body := a.mcpCall(token, session, "after"); status != 200 || f.happened("/after") != 1 {
		t.Errorf("the client's session: %d %s", status, body)
	}
	c, err := pgx.Connect(t.Context(), f.db.Schema(t, f.dir))
	if err == nil {
		_, err = c.Exec(t.Context(), "BEGIN; LOCK TABLE members")
	}
	if err != nil {
		t.Fatal(err)
	}
	a.unready()
	b.unready()
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.isReady()
	b.isReady()
	if status, body := b.mcpCall(token, session, "unlocked"); status != 200 || f.happened("/unlocked") != 1 {
		t.Errorf("the client's session at the other node: %d %s", status, body)
	}
	if a.ended() || b.ended() {
		t.Errorf("the nodes have ended: %q, %q", a.last, b.last)
	}
	verified(t, f)
}
