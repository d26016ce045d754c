package fleet_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// chaos is two nodes and a worker at work while faults happen to them and to their server.
type chaos struct {
	*fleet

	rnd   *rand.Rand
	long  bool
	disk  *postgrestest.Disk // nil: the server has none of its own
	wires [2]*wire
	nodes [2]*node
	far   *node // the worker, and the wire to the first node
	link  *wire
	work  work
	notes [][]byte      // the checkpoints that were handed out
	count int           // effects to come until effect is closed; guarded by mu
	came  chan struct{} // closed at that effect
}

// faultOf is a fault with the name that is printed. Those that are short are also part of the
// short form.
type faultOf struct {
	name  string
	short bool
	do    func(*chaos)
}

var faults = []faultOf{
	{"kill -9 of a node before a message to the server", false, func(c *chaos) { c.killAtMessage(true) }},
	{"kill -9 of a node after a message to the server", true, func(c *chaos) { c.killAtMessage(false) }},
	{"kill -9 of a node at an effect", false, (*chaos).killAtEffect},
	{"a node is stopped for longer than its lease", false, (*chaos).stopNode},
	{"the server ends connections", true, (*chaos).endConnections},
	{"the server is stopped at once and started", false, (*chaos).crashServer},
	{"the server's disk is full", false, (*chaos).fillDisk},
	{"a node's packets are lost on the way to the server", false, func(c *chaos) { c.partition(toServer) }},
	{"a node's packets are lost on the way from the server", false, func(c *chaos) { c.partition(toNode) }},
	{"a node's packets are lost in both directions", false, func(c *chaos) { c.partition(toServer, toNode) }},
	{"queued runs are given to both nodes at once", false, (*chaos).giveTwice},
	{"kill -9 of a worker in a command", true, (*chaos).killWorker},
	{"the packets between a node and a worker are lost", false, (*chaos).partWorker},
}

// TestChaos puts random faults to two nodes at work. Whatever happens: each effect has one
// intent, none is doubled, no call is left open, and all checkpoints still hold.
//
// REMIT_CHAOS is how long; without it a few faults are put, one after the other.
// REMIT_CHAOS_SEED repeats a choice of faults.
func TestChaos(t *testing.T) {
	t.Parallel()
	database.Schema(t, "chaos") // skips the test without PostgreSQL
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
	c := newChaos(t, rand.New(rand.NewPCG(seed, 0)), long > 0)
	put := map[string]int{}
	for end := time.Now().Add(long); long > 0 && time.Now().Before(end) && !t.Failed(); {
		for _, i := range c.rnd.Perm(len(faults)) {
			if time.Now().Before(end) && (c.disk != nil || faults[i].name != "the server's disk is full") {
				c.put(faults[i])
				put[faults[i].name]++
			}
		}
	}
	for _, f := range faults {
		if long == 0 && f.short {
			c.put(f)
		}
		if n := put[f.name]; n > 0 {
			t.Logf("%3d × %s", n, f.name)
		}
	}
	if long > 0 {
		c.failover()
	}
	c.settled()
}

// newChaos starts two nodes, and the server that they share.
func newChaos(t *testing.T, rnd *rand.Rand, long bool) *chaos {
	t.Helper()
	c := &chaos{rnd: rnd, long: long, work: work{sessions: map[string]bool{}, runs: map[string]string{}, most: map[string]int{}, asked: map[string]string{}}}
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
	c.newPolicy()
	c.workers = "127.0.0.1:0"
	c.link = wireAt(t, "tcp", c.workers, "")
	c.seen = func(string) {
		c.mu.Lock()
		if c.count--; c.count == 0 {
			close(c.came)
		}
		c.mu.Unlock()
		time.Sleep(rand.N(10 * time.Millisecond)) // so that faults come while calls are under way
	}
	for i := range c.wires {
		c.wires[i] = newWire(t, db.Socket)
	}
	c.mend()
	return c
}

// put gives the nodes work, puts a fault to them while they do it, and mends it.
func (c *chaos) put(f faultOf) {
	c.Helper()
	began := time.Now()
	c.offer()
	f.do(c)
	c.answer()
	if c.long {
		c.offer() // while others find out what happened
	}
	c.mend()
	c.handOut()
	c.Logf("%s (%s)", f.name, time.Since(began).Round(time.Millisecond))
}

// mend starts the nodes that have ended.
func (c *chaos) mend() {
	c.Helper()
	c.until("two nodes that serve", func() bool {
		for i, n := range c.nodes {
			if n != nil && !n.ended() {
				continue
			}
			if n != nil && n.last != "" && !n.killed {
				c.Logf("node %d had ended: %s", i, n.last)
			}
			c.nodes[i] = c.launch(c.db.Via(filepath.Dir(c.wires[i].addr), c.dir))
			if c.nodes[i].url == "" {
				<-c.nodes[i].over
				return false
			}
			if i == 0 {
				c.link.move(strings.TrimPrefix(c.nodes[0].far, "https://"))
			}
		}
		return true
	})
	if c.far == nil || c.far.ended() {
		c.far = c.newWorker()
	}
}

// open opens the ledger beside the nodes.
func (c *chaos) open(readOnly bool) (*postgres.Store, error) {
	return postgres.Open(context.Background(), postgres.Options{Home: filepath.Join(c.dir, "home"), URL: c.db.Made(c.dir), ReadOnly: readOnly})
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

// await waits for a number of effects from now on.
func (c *chaos) await(effects int) {
	c.Helper()
	c.mu.Lock()
	came := make(chan struct{})
	c.count, c.came = effects, came
	c.mu.Unlock()
	c.until("effects", func() bool {
		select {
		case <-came:
			return true
		case <-time.After(lease / 4): // the nodes have done all that there was, or the last fault has ended them only now
			c.mend()
			c.offer()
			return false
		}
	})
}

func (c *chaos) sleep(least, most time.Duration) {
	time.Sleep(least + time.Duration(c.rnd.Int64N(int64(most-least))))
}

func (c *chaos) killAtMessage(before bool) {
	c.Helper()
	for i, left := c.rnd.IntN(2), c.rnd.IntN(60); ; {
		c.mend()
		n, done := c.nodes[i], make(chan struct{})
		c.wires[i].at(trap{left: left, before: before, call: func() {
			_ = n.cmd.Process.Kill() // it may have ended
			close(done)
		}})
		select {
		case <-done: // a node renews its lease at the least
			n.killed = true
			<-n.over
			return
		case <-n.over: // the last fault has ended it only now
		}
	}
}

func (c *chaos) killAtEffect() {
	i := c.rnd.IntN(2)
	c.await(1 + c.rnd.IntN(5))
	time.Sleep(time.Duration(c.rnd.IntN(5)) * time.Millisecond) // at the effect, its outcome, or the next intent
	c.nodes[i].killed = true
	c.nodes[i].kill()
}

func (c *chaos) stopNode() {
	c.await(1 + c.rnd.IntN(5))
	n := c.nodes[c.rnd.IntN(2)]
	n.signal(syscall.SIGSTOP)
	c.sleep(lease, 3*lease)
	n.signal(syscall.SIGCONT)
}

func (c *chaos) endConnections() {
	c.await(1 + c.rnd.IntN(5))
	for range 1 + c.rnd.IntN(4) {
		c.db.Exec(c, "public", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'remit' AND random() < 0.7")
	}
}

func (c *chaos) crashServer() {
	c.await(1 + c.rnd.IntN(5))
	if err := c.db.Stop("immediate"); err != nil {
		c.Error(err)
	}
	c.sleep(0, lease)
	if err := c.db.Restart(); err != nil {
		c.Fatal(err)
	}
}

func (c *chaos) fillDisk() {
	c.await(1 + c.rnd.IntN(5))
	if err := c.disk.Fill(); err != nil {
		c.Error(err)
	}
	c.offer()
	c.sleep(lease, 3*lease)
	if err := c.disk.Free(); err != nil {
		c.Fatal(err)
	}
}

func (c *chaos) partition(directions ...int) {
	w := c.wires[c.rnd.IntN(2)]
	c.await(1 + c.rnd.IntN(5))
	w.cut(directions...)
	c.sleep(lease/4, 3*lease)
	if c.rnd.IntN(2) == 0 {
		w.reset()
	} else {
		w.heal() // what a node said before another took over comes now
	}
}

// failover lets a synchronous standby take the server's place.
func (c *chaos) failover() {
	c.Helper()
	standby := c.db.Standby(c)
	c.db.Exec(c, "public", "ALTER SYSTEM SET synchronous_standby_names = '*'")
	c.db.Exec(c, "public", "SELECT pg_reload_conf()")
	c.until("the synchronous standby", func() bool {
		c.mend() // a copy takes time, which can cost a node its lease
		return c.db.Count(c, c.db.Made(c.dir), "SELECT count(*) FROM pg_stat_replication, server WHERE sync_state = 'sync' AND standby") == 1
	})
	c.put(faultOf{name: "failover to a synchronous standby", do: func(c *chaos) {
		c.await(3)
		if err := c.db.Stop("immediate"); err != nil {
			c.Error(err)
		}
		if err := standby.Promote(); err != nil {
			c.Fatal(err)
		}
		c.db, c.disk = standby, nil
		for _, w := range c.wires {
			w.move(socketIn(standby.Socket))
		}
	}})
}
