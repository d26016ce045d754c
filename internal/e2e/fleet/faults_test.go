package fleet_test

import (
	"syscall"
	"time"
)

// faultOf is a fault with the name that is printed.
type faultOf struct {
	name  string
	short bool // also in the short form
	db    bool // of nodes that share a server
	file  bool // of one node with a file
	do    func(*chaos)
}

// Faults that not every machine can have.
const (
	diskFull    = "the server's disk is full"
	nodeClock   = "a node's clock differs"
	serverClock = "the server's clock moves by an hour"
)

var faults = []faultOf{
	{"kill -9 of a node before a message to the server", false, true, false, func(c *chaos) { c.killAtMessage(true) }},
	{"kill -9 of a node after a message to the server", true, true, false, func(c *chaos) { c.killAtMessage(false) }},
	{"kill -9 of a node at an effect", false, true, true, (*chaos).killAtEffect},
	{"a node is stopped for longer than its lease", false, true, true, (*chaos).stopNode},
	{"SIGTERM and start of every node", false, true, true, (*chaos).upgrade},
	{"the server ends one connection", false, true, false, func(c *chaos) { c.endInEffect("ORDER BY random() LIMIT 1") }},
	{"the server ends all connections", false, true, false, func(c *chaos) { c.endInEffect("") }},
	{"the server ends connections", true, true, false, (*chaos).endConnections},
	{"the server is stopped at once and started", false, true, false, func(c *chaos) { c.restartServer("immediate", 0) }},
	{"the server is restarted, and 5 s away", false, true, false, func(c *chaos) { c.restartServer("fast", 5*time.Second) }},
	{"the server is restarted, and 18 s away", false, true, false, func(c *chaos) { c.restartServer("immediate", 18*time.Second) }},
	{"the table of nodes is locked for 3 s", false, true, false, (*chaos).lockMembers},
	{serverClock, false, true, false, (*chaos).moveClock},
	{diskFull, false, true, false, (*chaos).fillDisk},
	{nodeClock, false, true, true, (*chaos).moveNodeClock},
	{"PgBouncer is killed and started", false, true, false, (*chaos).killPool},
	{"a node's packets are lost on the way to the server", false, true, false, func(c *chaos) { c.partition(toServer) }},
	{"a node's packets are lost on the way from the server", false, true, false, func(c *chaos) { c.partition(toNode) }},
	{"a node's packets are lost in both directions", false, true, false, func(c *chaos) { c.partition(toServer, toNode) }},
	{"the connections of clients to a node are cut", false, true, true, (*chaos).cutClients},
	{"the packets between clients and a node are lost", false, true, true, (*chaos).partClients},
	{"queued runs are given to both nodes at once", false, true, false, (*chaos).giveTwice},
	{"kill -9 of a worker in a command", true, true, false, (*chaos).killWorker},
	{"the packets between a node and a worker are lost", false, true, false, (*chaos).partWorker},
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
	for i, left := c.any(), c.rnd.IntN(60); ; {
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
	i := c.any()
	c.await(1 + c.rnd.IntN(5))
	time.Sleep(time.Duration(c.rnd.IntN(5)) * time.Millisecond) // at the effect, its outcome, or the next intent
	c.nodes[i].killed = true
	c.nodes[i].kill()
	c.without(c.mend)
}

// any chooses a node.
func (c *chaos) any() int { return c.rnd.IntN(len(c.nodes)) }

// without is a time in which a service of one node cannot work.
func (c *chaos) without(do func()) {
	began := time.Now()
	if do(); len(c.nodes) == 1 {
		c.away += time.Since(began)
	}
}

func (c *chaos) stopNode() {
	c.await(1 + c.rnd.IntN(5))
	n := c.nodes[c.any()]
	n.signal(syscall.SIGSTOP)
	c.without(func() { c.sleep(lease+lease/4, 4*lease) })
	n.signal(syscall.SIGCONT)
}

func (c *chaos) endConnections() {
	c.await(1 + c.rnd.IntN(5))
	for range 1 + c.rnd.IntN(4) {
		c.db.Exec(c, "public", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'remit' AND random() < 0.7")
	}
}

func (c *chaos) fillDisk() {
	c.await(1 + c.rnd.IntN(5))
	if err := c.disk.Fill(); err != nil {
		c.Error(err)
	}
	began := time.Now()
	c.offer()
	c.sleep(lease, 3*lease)
	c.away = time.Since(began)
	if err := c.disk.Free(); err != nil {
		c.Fatal(err)
	}
}

func (c *chaos) partition(directions ...int) {
	w := c.wires[c.any()]
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
