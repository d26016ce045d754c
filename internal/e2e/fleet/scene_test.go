package fleet_test

import (
	"bytes"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// scene is one fault in the middle of one client's call.
type scene struct {
	name   string
	nodes  int           // that share a server; 0: one node with a file
	lease  time.Duration // of nodes; 0: the usual one
	set    func(*chaos)  // before the nodes begin
	do     func(*chaos)  // the effect of the client has begun, and ends after it
	after  func(*chaos)  // the effect has ended
	inTurn bool          // the client asks the nodes in turn
	each   bool          // instead: one connection ends before each call of the client
}

var scenes = []scene{
	{name: "the server ends each connection in turn", nodes: 1, each: true},
	{name: "the server ends all connections", nodes: 1, do: func(c *chaos) { c.endBackends("") }},
	{name: "the server ends all connections of two nodes", nodes: 2, do: func(c *chaos) { c.endBackends("") }},
	{name: "the server is restarted", nodes: 2, do: func(c *chaos) { c.stopServer("fast") }, after: (*chaos).startServer},
	{name: "the server is 18 s away", nodes: 2, do: func(c *chaos) { c.stopServer("immediate"); time.Sleep(18 * time.Second) }, after: (*chaos).startServer},
	{name: "the server is away for less than a lease", nodes: 1, lease: time.Minute, do: func(c *chaos) { c.stopServer("immediate"); time.Sleep(5 * time.Second) }, after: (*chaos).startServer},
	{name: "the table of nodes is locked for 3 s", nodes: 1, do: (*chaos).holdMembers},
	{name: "kill -9 of a node", nodes: 2, do: (*chaos).killFirst, after: (*chaos).mend},
	{name: "SIGTERM of a node", nodes: 2, do: (*chaos).endFirst, after: (*chaos).mend},
	{name: "a client's connection is cut", nodes: 2, do: func(c *chaos) { c.doors[0].reset() }},
	{name: "the server's clock jumps an hour ahead", nodes: 1, do: func(c *chaos) { c.setClock("1 hour") }, after: func(c *chaos) { c.dropClock(); c.crowd.ahead() }},
	{name: "the server's clock is set back by an hour", nodes: 1, do: func(c *chaos) { c.setClock("-1 hour") }, after: (*chaos).dropClock},
	{name: "the clock of one node is ahead", nodes: 2, inTurn: true, set: func(c *chaos) { c.setNodeClock(apart) }},
	{name: "the clock of one node is behind", nodes: 2, inTurn: true, set: func(c *chaos) { c.setNodeClock("-" + apart) }},
	{name: "PgBouncer in session mode is killed", nodes: 2, set: func(c *chaos) { c.usePool(0) }, do: func(c *chaos) { c.pool.kill() }, after: func(c *chaos) { c.pool.start() }},
	{name: "kill -9 of the only node", do: (*chaos).killFirst, after: (*chaos).mend},
	{name: "SIGTERM of the only node", do: (*chaos).endFirst, after: (*chaos).mend},
	{name: "the only node is stopped for 3 s", do: (*chaos).pauseFirst},
	{name: "a client's connection to the only node is cut", do: func(c *chaos) { c.doors[0].reset() }},
}

// actor is a kind of client with a call that can be repeated by it, or goes on without it.
type actor struct {
	kind, prefix string
	begin        func(*chaos) func(*intent) ending
}

var actors = []actor{
	{"http", outside, func(c *chaos) func(*intent) ending { return c.crowd.httpClient().invoke }},
	{"queue", outside, func(c *chaos) func(*intent) ending { return c.crowd.httpClient().queue }},
	{"turn", outside, func(c *chaos) func(*intent) ending { return c.crowd.httpClient().turn }},
	{asking, outsideAsked, func(c *chaos) func(*intent) ending { return c.crowd.httpClient().turn }},
	{"mcp", outside, func(c *chaos) func(*intent) ending {
		m := &mcpUser{crowd: c.crowd, to: c.crowd.ways[0]}
		c.users = append(c.users, m)
		return m.call
	}},
}

// TestOneFaultOneClient puts each fault in the middle of the call of each kind of client. The client goes
// on as such clients do. Its effect happens once, or not at all if it is told so, and it can go on.
// Run one with -run 'TestOneFaultOneClient/SIGTERM_of_a_node$/question'.
func TestOneFaultOneClient(t *testing.T) {
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("REMIT_SOAK=1 runs it")
	}
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			for _, a := range actors {
				t.Run(a.kind, func(t *testing.T) { s.play(t, a) })
			}
		})
	}
}

// newScene starts the nodes of a scene.
func (s scene) newScene(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{rnd: rand.New(rand.NewPCG(1, 0)), work: newWork(), scene: true, urls: []string{""}}
	if s.nodes == 0 {
		c.fleet = newFleetOn(t, nil, twoActs)
	} else {
		c.fleet = newFleetOn(t, postgrestest.Start(t), twoActs)
		c.urls = nil
	}
	for range s.nodes {
		w := newWire(t, c.db.Socket)
		c.wires = append(c.wires, w)
		c.urls = append(c.urls, shadowed(c.db.Via(filepath.Dir(w.addr), c.dir)))
	}
	if s.lease > 0 {
		file := filepath.Join(c.dir, "home", "config.yaml")
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Replace(text, []byte("lease: "+lease.String()), []byte("lease: "+s.lease.String()), 1), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if s.set != nil {
		s.set(c)
	}
	c.begin()
	var ways []way
	for i, d := range c.doors {
		ways = append(ways, way{"node " + string(rune('0'+i)), "http://" + d.addr})
	}
	c.crowd = newCrowd(c.fleet, ways)
	c.crowd.inOrder, c.crowd.inTurn = true, s.inTurn
	return c
}

// play puts the fault of a scene in the middle of a call.
func (s scene) play(t *testing.T, a actor) {
	c := s.newScene(t)
	do := a.begin(c)
	c.warm(a, do)
	if s.each {
		c.endEach(a, do)
		c.close()
		return
	}
	i := c.crowd.want(a.kind, a.prefix)
	release := c.hold(i.path)
	told := make(chan ending, 1)
	c.crowd.clients.Go(func() { told <- do(i) })
	c.until("the middle of the call", func() bool {
		return c.happened(i.path) > 0 || a.kind == asking && c.waits() || len(told) > 0
	})
	c.crowd.begins(s.name)
	began := time.Now()
	if s.do != nil {
		s.do(c)
	}
	release()
	if s.after != nil {
		s.after(c)
	}
	c.crowd.mended(time.Since(began))
	if a.kind == asking {
		c.crowd.answers()
	}
	giveUp := time.AfterFunc(patience, c.crowd.giveUp)
	defer giveUp.Stop()
	if e := <-told; c.crowd.ctx.Err() == nil {
		c.crowd.finish(i, e)
		c.crowd.goOn(a.kind, a.prefix, do)
	}
	c.close()
}

// endEach ends one connection of the node after the other. After each the client can go on.
func (c *chaos) endEach(a actor, do func(*intent) ending) {
	c.Helper()
	if a.kind == asking {
		c.crowd.answers()
	}
	ctx := c.Context()
	conn, err := pgx.Connect(ctx, c.db.Made(c.dir))
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }() // it has changed nothing
	rows, err := conn.Query(ctx, "SELECT pid, query FROM pg_stat_activity WHERE application_name = 'remit' ORDER BY backend_start")
	if err != nil {
		c.Fatal(err)
	}
	type backend struct {
		PID   int
		Query string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[backend])
	if err != nil {
		c.Fatal(err)
	}
	for _, b := range all {
		if c.crowd.ctx.Err() != nil {
			return // the client was stuck
		}
		c.crowd.begins("the server ends the connection of: " + clip(strings.ReplaceAll(b.Query, "|", "/"), 60))
		if _, err := conn.Exec(ctx, "SELECT pg_terminate_backend($1)", b.PID); err != nil {
			c.Fatal(err)
		}
		c.crowd.mended(0)
		giveUp := time.AfterFunc(patience, c.crowd.giveUp)
		c.crowd.goOn(a.kind, a.prefix, do)
		giveUp.Stop()
	}
}

// close ends the clients and the nodes of a scene, and gives the verdict.
func (c *chaos) close() {
	c.Helper()
	c.crowd.stop(patience)
	for _, u := range c.users {
		u.leave()
		u.verdict(c.db != nil)
	}
	for _, n := range c.nodes {
		if !n.ended() {
			n.signal(syscall.SIGTERM)
			<-n.over
		}
	}
	c.holds()
}

// warm makes a call before the fault: connections are open, and sessions have begun.
func (c *chaos) warm(a actor, do func(*intent) ending) {
	c.Helper()
	if a.kind == asking {
		return // it would need an answer
	}
	i := c.crowd.want(a.kind, a.prefix)
	e := do(i)
	if c.crowd.finish(i, e); e != completed {
		c.Errorf("before the fault:\n%s", c.crowd.story(i, recorded{}, nil, string(e), i.ended))
	}
}

// waits reports whether a question waits at a node.
func (c *chaos) waits() bool {
	items, _ := c.crowd.httpClient().pursue(&intent{}, http.MethodGet, "/v1/approvals", "", "").body["items"].([]any)
	return len(items) > 0
}

func (c *chaos) stopServer(mode string) {
	c.Helper()
	if err := c.db.Stop(mode); err != nil {
		c.Fatal(err)
	}
}

func (c *chaos) startServer() {
	c.Helper()
	if err := c.db.Restart(); err != nil {
		c.Fatal(err)
	}
	c.mendOnce()
}

// mendOnce starts the nodes that end within the next two leases, as a service manager does.
func (c *chaos) mendOnce() {
	for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(lease / 10) {
		c.mend()
	}
}

// holdMembers holds the table of nodes for 3 s.
func (c *chaos) holdMembers() {
	c.Helper()
	schema := schemaIn(c.T, c.db.Made(c.dir))
	if err := execute(c.db.Made(c.dir), "BEGIN; LOCK TABLE "+schema+".members IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(3); COMMIT"); err != nil {
		c.Fatal(err)
	}
	c.mendOnce()
}

// setClock sets the clock that the node asks the server for, and waits until it renews its lease by it.
func (c *chaos) setClock(by string) {
	c.Helper()
	c.changeClock(clockOf(schemaIn(c.T, c.db.Made(c.dir)), by), ">")
}

// dropClock gives the server its own clock again.
func (c *chaos) dropClock() {
	c.Helper()
	c.changeClock("DROP SCHEMA "+clockSchema(schemaIn(c.T, c.db.Made(c.dir)))+" CASCADE", "<")
}

// changeClock waits until the lease of the node ends far from now, or near.
func (c *chaos) changeClock(statements, than string) {
	c.Helper()
	if err := execute(c.db.Made(c.dir), statements); err != nil {
		c.Fatal(err)
	}
	c.until("a lease by the other clock", func() bool {
		return c.db.Count(c, c.db.Made(c.dir), "SELECT count(*) FROM members WHERE abs(extract(epoch FROM lease_until - pg_catalog.clock_timestamp())) "+than+" 3000") == 1
	})
}

// setNodeClock sets the clock of the first node, before it begins.
func (c *chaos) setNodeClock(seconds string) {
	c.Helper()
	if !clockMoves() {
		c.Skip("built without the overlay of .ci/clock")
	}
	c.clocks = []string{seconds, ""}
}

func (c *chaos) killFirst() { c.nodes[0].killed = true; c.nodes[0].kill() }

func (c *chaos) endFirst() {
	c.Helper()
	c.nodes[0].killed = true
	c.nodes[0].signal(syscall.SIGTERM)
	<-c.nodes[0].over
}

func (c *chaos) pauseFirst() {
	c.Helper()
	c.nodes[0].signal(syscall.SIGSTOP)
	time.Sleep(3 * time.Second)
	c.nodes[0].signal(syscall.SIGCONT)
}
