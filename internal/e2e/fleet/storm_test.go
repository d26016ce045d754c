package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestManyNodesComeBack: the servers of six fleets stop in the middle of turns, at once and again and again,
// while nodes stand still for as long as it happens. There is not enough room for all nodes to connect in
// time. Each turn goes on at one of its nodes, and each call is made once.
func TestManyNodesComeBack(t *testing.T) {
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("only in make soak: it takes minutes")
	}
	for i := range 6 {
		t.Run(fmt.Sprint("fleet ", i), func(t *testing.T) {
			t.Parallel()
			f := newFleetOn(t, ownServer(t), twoActs)
			nodes := []*node{f.start(), f.start()}
			for range 12 {
				f.outage(nodes, []string{"before the outage is seen", "after", "at the end"}[rand.IntN(3)], rand.IntN(3))
			}
			verified(t, f)
		})
	}
}

// outage stops the server in a turn of the first node. The turn's first call ends at the time that release
// names; the node that still names stands still meanwhile, where there is one.
func (f *fleet) outage(nodes []*node, release string, still int) {
	f.Helper()
	within := func(most time.Duration) time.Duration { return rand.N(most) }
	f.mu.Lock()
	clear(f.effects)
	f.mu.Unlock()
	id, end := nodes[0].session(), f.hold("/first")
	nodes[0].send(id)
	f.until("the first call", func() bool { return f.happened("/first") == 1 })
	if err := f.db.Stop("fast"); err != nil {
		f.Fatal(err)
	}
	if release == "before the outage is seen" {
		end()
	}
	for _, n := range nodes {
		n.unready()
	}
	if release == "after" {
		end()
	}
	if still < len(nodes) {
		nodes[still].signal(syscall.SIGSTOP)
	}
	time.Sleep(within(lease / 4))
	if err := f.db.Restart(); err != nil {
		f.Fatal(err)
	}
	time.Sleep(within(2 * lease))
	if still < len(nodes) {
		nodes[still].signal(syscall.SIGCONT)
	}
	end()
	for _, n := range nodes {
		n.isReady()
	}
	nodes[1].becomes(id, "idle")
	if first, second := f.happened("/first"), f.happened("/second"); first != 1 || second != 1 {
		f.Errorf("released %s, node %d stood still: %d and %d effects, want one each", release, still, first, second)
	}
}
