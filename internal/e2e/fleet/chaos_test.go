package fleet_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// chaos is nodes and a worker at work while faults happen to them and to their database. With several
// nodes that is a PostgreSQL server; one node has the file of its home.
type chaos struct {
	*fleet

	rnd    *rand.Rand
	long   bool
	scene  bool               // of one fault and one client
	disk   *postgrestest.Disk // nil: the server has none of its own
	nodes  []*node
	wires  []*wire // from each node to the server
	doors  []*wire // from clients to each node
	urls   []string
	clocks []string // of each node: seconds that its time of day differs
	pool   *daemon  // PgBouncer between a node and its wire; nil: none
	far    *node    // the worker, and the wire to the first node
	link   *wire
	work   work
	crowd  *crowd        // nil: no clients outside
	users  []*mcpUser    // of the crowd
	away   time.Duration // in which the present fault leaves no node able to work
	ended  string        // the last words of a node that ended
	notes  [][]byte      // the checkpoints that were handed out
	count  int           // effects to come until effect is closed; guarded by mu
	came   chan struct{} // closed at that effect
}

// TestChaos puts random faults to two nodes at work, and to what lies between them, their clients and
// their database. Whatever happens: each effect has one intent, none is doubled, no call is left open,
// all checkpoints still hold, and no client is stuck.
//
// REMIT_CHAOS is how long; without it a few faults are put, one after the other, without clients
// outside. From five minutes on each fault is put twice at least. REMIT_CHAOS_SEED repeats a choice of
// faults, and REMIT_CHAOS_ONLY puts those whose names have a text.
func TestChaos(t *testing.T) {
	t.Parallel()
	database.Schema(t, "chaos") // skips the test without PostgreSQL
	long, rnd := chance(t)
	c := newChaos(t, rnd, long > 0)
	c.putAll(long, long >= bothFrom)
	if long > 0 && c.asks("failover") {
		c.failover()
	}
	c.settled()
}

// TestChaosSQLite is TestChaos for one node, whose ledger is the file of its home.
func TestChaosSQLite(t *testing.T) {
	long, rnd := chance(t)
	if long == 0 {
		t.Skip("REMIT_CHAOS says how long")
	}
	c := &chaos{rnd: rnd, long: true, work: newWork(), urls: []string{""}}
	c.fleet = newFleetOn(t, nil, "- {text: Done.}\n")
	c.begin()
	c.putAll(long, false) // it has few kinds of faults
	c.settled()
}

// chance reads how long the test takes, and its seed.
func chance(t *testing.T) (long time.Duration, rnd *rand.Rand) {
	t.Helper()
	long, err := time.ParseDuration(cmp.Or(os.Getenv("REMIT_CHAOS"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	seed := uint64(1)
	if long > 0 {
		seed = uint64(time.Now().UnixNano())
	}
	if given := os.Getenv("REMIT_CHAOS_SEED"); given != "" {
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("REMIT_CHAOS_SEED=%d", seed)
	return long, rand.New(rand.NewPCG(seed, 0))
}

// asks reports whether a fault is wanted.
func (c *chaos) asks(name string) bool {
	return strings.Contains(name, os.Getenv("REMIT_CHAOS_ONLY"))
}

// bothFrom is how long a test takes at least that puts each fault twice.
const bothFrom = 5 * time.Minute

// putAll puts faults for a time, in rounds of all of them, or a few ones.
func (c *chaos) putAll(long time.Duration, twice bool) {
	c.Helper()
	var all []faultOf
	for _, f := range faults {
		with := f.db && c.db != nil || f.file && c.db == nil
		if with && (c.disk != nil || f.name != diskFull) && (clockMoves() || f.name != nodeClock) && c.asks(f.name) && (c.long || f.short) {
			all = append(all, f)
		}
	}
	if !c.long {
		for _, f := range all {
			c.put(f)
		}
		return
	}
	for round, end := 0, time.Now().Add(long); len(all) > 0 && (time.Now().Before(end) || twice && round < 2); round++ {
		for _, i := range c.rnd.Perm(len(all)) {
			if time.Now().Before(end) || twice && round < 2 {
				c.put(all[i])
			}
		}
	}
}

// newChaos starts two nodes, and the server that they share.
func newChaos(t *testing.T, rnd *rand.Rand, long bool) *chaos {
	t.Helper()
	c := &chaos{rnd: rnd, long: long, work: newWork()}
	var db *postgrestest.Server
	var stop func()
	var err error
	if long {
		if db, c.disk, stop, err = postgrestest.NewOnDisk(""); err != nil {
			t.Logf("LEFT OUT: no full disk, because %v", err)
		}
	}
	if db == nil {
		if db, stop, err = postgrestest.New(""); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(stop)
	c.fleet = newFleetOn(t, db, "- {text: Done.}\n")
	c.workers = "127.0.0.1:0"
	c.link = wireAt(t, "tcp", c.workers, "")
	for range 2 {
		w := newWire(t, db.Socket)
		c.wires = append(c.wires, w)
		c.urls = append(c.urls, shadowed(db.Via(filepath.Dir(w.addr), c.dir)))
	}
	if long && os.Getenv("REMIT_CHAOS_POOL") != "none" {
		c.usePool(1)
	}
	c.begin()
	return c
}

// usePool lets a node reach the database through PgBouncer.
func (c *chaos) usePool(node int) {
	c.Helper()
	pool, socket := newPool(c.T, filepath.Dir(c.wires[node].addr))
	if pool != nil {
		c.pool, c.urls[node] = pool, shadowed(c.db.Via(socket, c.dir))
	}
}

// begin starts the nodes, and the clients outside.
func (c *chaos) begin() {
	c.Helper()
	c.newPolicy()
	c.seen = func(string) {
		c.mu.Lock()
		if c.count--; c.count == 0 {
			close(c.came)
		}
		c.mu.Unlock()
		time.Sleep(rand.N(10 * time.Millisecond)) // so that faults come while calls are under way
	}
	var p *person
	if c.long {
		p = c.newPerson()
	}
	if c.nodes = make([]*node, len(c.urls)); c.clocks == nil {
		c.clocks = make([]string, len(c.urls))
	}
	for range c.urls {
		c.doors = append(c.doors, wireAt(c.T, "tcp", "127.0.0.1:0", ""))
	}
	c.mend()
	if c.long {
		c.invite(p)
	}
}

// put gives the nodes work, puts a fault to them while they do it, and mends it.
func (c *chaos) put(f faultOf) {
	c.Helper()
	began := time.Now()
	c.offer()
	c.away = 0
	if c.crowd != nil {
		c.crowd.begins(f.name)
	}
	c.ended = ""
	f.do(c)
	c.answer()
	c.mend()
	if c.crowd != nil {
		c.crowd.mended(c.away)
	}
	c.handOut()
	c.Logf("%s %s (%s)", began.Format("15:04:05.000"), f.name, time.Since(began).Round(time.Millisecond))
}

// mend starts the nodes that have ended.
func (c *chaos) mend() {
	c.Helper()
	c.until("all nodes serve", func() bool {
		for i, n := range c.nodes {
			if n != nil && !n.ended() {
				continue
			}
			if n != nil && n.last != "" && !n.killed && n.last != c.ended {
				c.Logf("%s node %d had ended: %s", time.Now().Format("15:04:05.000"), i, n.last)
				c.ended = n.last // the next ones of the same fault say the same
			}
			c.fleet.clock = c.clocks[i]
			c.nodes[i] = c.launch(c.urls[i])
			if c.nodes[i].url == "" {
				<-c.nodes[i].over
				return false
			}
			c.doors[i].move(strings.TrimPrefix(c.nodes[i].url, "http://"))
			if i == 0 && c.link != nil {
				c.link.move(strings.TrimPrefix(c.nodes[0].far, "https://"))
			}
		}
		return true
	})
	if c.link != nil && (c.far == nil || c.far.ended()) {
		c.far = c.newWorker()
	}
}

// present is the URL of the server that is in place; "": the file of the home.
func (c *chaos) present() string {
	if c.db == nil {
		return ""
	}
	return shadowed(c.db.Made(c.dir))
}

// open opens the ledger beside the nodes.
func (c *chaos) open(readOnly bool) (store.Backend, error) {
	home := filepath.Join(c.dir, "home")
	if c.db == nil {
		return sqlite.Open(context.Background(), sqlite.Options{Home: home, ReadOnly: readOnly})
	}
	return postgres.Open(context.Background(), postgres.Options{Home: home, URL: c.present(), ReadOnly: readOnly})
}

// handOut takes a checkpoint, as an auditor keeps it, and looks at the limits of queued runs.
func (c *chaos) handOut() {
	c.Helper()
	s, err := c.open(false)
	if err != nil {
		c.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			c.Error(err)
		}
	}()
	note, err := s.Checkpoint(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	c.notes = append(c.notes, note)
	taken, err := s.TakenSlots(c.Context())
	if err != nil || taken[slot] > slots {
		c.Errorf("%d runs have the limit %s of %d: %v", taken[slot], slot, slots, err)
	}
}
