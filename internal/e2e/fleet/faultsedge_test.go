package fleet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// upgrade replaces the nodes one after the other, as a new version does, while questions wait.
func (c *chaos) upgrade() {
	c.Helper()
	c.await(1)
	for i, n := range c.nodes {
		c.without(func() {
			if !n.ended() {
				n.signal(syscall.SIGTERM)
			}
			<-n.over
			c.nodes[i].killed = true
			c.mend()
		})
	}
}

// endInEffect lets the server end connections of the nodes while a call of an outside client has its
// effect, which takes a second.
func (c *chaos) endInEffect(which string) {
	c.Helper()
	c.slowEffect()
	c.endBackends(which)
}

// endBackends ends connections of the nodes, chosen by the end of a query.
func (c *chaos) endBackends(which string) {
	c.Helper()
	c.db.Exec(c, "public", "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE application_name = 'remit' "+which+") s")
}

// slowEffect waits until an effect that takes a second has begun.
func (c *chaos) slowEffect() {
	c.Helper()
	count := func() (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for path, times := range c.effects {
			if isSlow(path) {
				n += len(times)
			}
		}
		return n
	}
	n := count()
	c.until("an effect that takes a second", func() bool {
		c.mend()
		return count() > n
	})
}

// restartServer stops the server in a mode of pg_ctl, and starts it after a time.
func (c *chaos) restartServer(mode string, away time.Duration) {
	c.Helper()
	c.await(1 + c.rnd.IntN(5))
	began := time.Now()
	if err := c.db.Stop(mode); err != nil {
		c.Error(err)
	}
	if away == 0 {
		c.sleep(0, lease)
	} else {
		time.Sleep(away)
	}
	if err := c.db.Restart(); err != nil {
		c.Fatal(err)
	}
	c.away = time.Since(began)
}

// lockMembers lets another user of the database hold the table of nodes, as a careless backup or
// a long VACUUM FULL does.
func (c *chaos) lockMembers() {
	c.Helper()
	c.await(1)
	began := time.Now()
	c.holdMembers()
	c.away = time.Since(began)
}

// moveClock sets the clock that the nodes ask the server for, forward or back: a function of another
// schema stands before that of PostgreSQL.
func (c *chaos) moveClock() {
	c.Helper()
	c.await(1)
	hours := []string{"1 hour", "-1 hour"}[c.rnd.IntN(2)]
	schema := schemaIn(c.T, c.db.Made(c.dir))
	began := time.Now()
	if err := execute(c.db.Made(c.dir), clockOf(schema, hours)); err != nil {
		c.Error(err)
	}
	c.sleep(lease, 3*lease)
	if err := execute(c.db.Made(c.dir), "DROP SCHEMA "+clockSchema(schema)+" CASCADE"); err != nil {
		c.Error(err)
	}
	if c.away = time.Since(began); c.crowd != nil && hours == "1 hour" {
		c.crowd.ahead()
	}
}

// apart is how many seconds the clock of a node may differ from the database's by.
const apart = "4"

// moveNodeClock lets the last node work with another time of day for some time. The worker is at the
// first node: their certificates need one time. A larger step back would refuse the grants that were
// issued before it, as of a time still to come.
func (c *chaos) moveNodeClock() {
	c.Helper()
	i, by := len(c.nodes)-1, apart
	if c.rnd.IntN(2) == 0 {
		by = "-" + by
	}
	for _, by := range []string{by, ""} {
		c.clocks[i] = by
		c.without(func() {
			n := c.nodes[i]
			if !n.ended() {
				n.signal(syscall.SIGTERM)
			}
			<-n.over
			n.killed = true
			c.mend()
		})
		c.await(5)
		c.offer()
		c.sleep(lease, 3*lease)
	}
}

// clockMoves reports whether this program was built with the overlay of .ci/clock, so that its processes
// can have another time of day.
var clockMoves = sync.OnceValue(func() bool {
	ask := exec.Command(os.Args[0])
	ask.Env = append(os.Environ(), "REMIT_TEST_TIME=1", "REMIT_TEST_CLOCK=7200")
	out, err := ask.Output()
	at, perr := strconv.ParseInt(string(out), 10, 64)
	return err == nil && perr == nil && time.Unix(at, 0).After(time.Now().Add(time.Hour))
})

// clockOf are statements that make the clock of a schema.
func clockOf(schema, by string) string {
	return fmt.Sprintf(`CREATE SCHEMA %[1]s;
CREATE FUNCTION %[1]s.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() + interval '%[2]s' $$;
CREATE FUNCTION %[1]s.now() RETURNS timestamptz STABLE LANGUAGE sql AS $$ SELECT pg_catalog.now() + interval '%[2]s' $$`, clockSchema(schema), by)
}

// execute carries out statements that may fail.
func execute(url, statements string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statements)
	if cerr := conn.Close(ctx); err == nil {
		err = cerr
	}
	return err
}

func (c *chaos) killPool() {
	c.Helper()
	if c.pool == nil {
		return
	}
	c.await(1 + c.rnd.IntN(5))
	c.pool.kill()
	c.sleep(0, lease)
	c.pool.start()
}

// cutClients ends the connections of clients to a node, in the middle of a call.
func (c *chaos) cutClients() {
	c.Helper()
	c.slowEffect()
	for range 1 + c.rnd.IntN(4) {
		c.doors[c.any()].reset()
		c.sleep(0, lease/4)
	}
}

// partClients holds back what clients and a node say to each other.
func (c *chaos) partClients() {
	c.Helper()
	c.slowEffect()
	door := c.doors[c.any()]
	directions := [][]int{{toServer}, {toNode}, {toServer, toNode}}[c.rnd.IntN(3)]
	door.cut(directions...)
	c.without(func() { c.sleep(lease/4, 8*lease) })
	if c.rnd.IntN(2) == 0 {
		door.reset()
	} else {
		door.heal() // clients have given up, and repeated their requests elsewhere
	}
}
