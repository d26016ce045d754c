package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// nodesOf opens two nodes on a database whose clock can be moved.
func nodesOf(t *testing.T, lease time.Duration) (a, b *postgres.Store, move func(time.Duration)) {
	t.Helper()
	home := t.TempDir()
	url, move := server.Clock(t, server.Schema(t, home))
	node := func() *postgres.Store {
		s, err := postgres.Open(context.Background(), postgres.Options{Home: home, URL: url, Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // another node may have removed it
		return s
	}
	return node(), node(), move
}

// wait waits for a state that comes by itself.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestATurnIsTakenOverWhateverTheClock: the turn of a node that has died is taken over soon,
// also if the server's clock jumps by an hour at that moment.
func TestATurnIsTakenOverWhateverTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			a, b, move := nodesOf(t, 500*time.Millisecond)
			session := uuid.New()
			wait(t, "a node that may be without its lease for a moment takes the turn", func() bool {
				_, err := a.TakeTurn(ctx, session, []byte("caller"))
				return err == nil
			})
			a.StopRenewing()
			move(by)
			wait(t, "the turn is taken over", func() bool {
				_, dead, err := b.PollTurns(ctx)
				if dead && err == nil {
					_, err = b.Recover(ctx)
				}
				if err == nil {
					_, err = b.TakeTurn(ctx, session, nil)
				}
				return err == nil
			})
			if err := a.EndTurn(ctx, session, 1); err == nil {
				if _, err := a.TakeTurn(ctx, session, nil); err == nil {
					t.Error("the node that was removed has taken the turn")
				}
			}
		})
	}
}

// TestALivingNodeOutlastsAJumpOfTheClock: no node that renews its lease is removed because the
// server's clock jumps by an hour.
func TestALivingNodeOutlastsAJumpOfTheClock(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(fmt.Sprint(by), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			a, b, move := nodesOf(t, 20*time.Second)
			session := uuid.New()
			if _, err := a.TakeTurn(ctx, session, nil); err != nil {
				t.Fatal(err)
			}
			move(by)
			wait(t, "the node has renewed its lease by the new clock", func() bool {
				if _, err := b.Recover(ctx); err != nil {
					t.Fatal(err)
				}
				return (time.Until(a.Now()) - by).Abs() < 30*time.Minute
			})
			if _, err := a.TakeTurn(ctx, session, nil); err != nil {
				t.Error(err)
			}
			if _, err := a.HoldsLease(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestANodeWithAnotherClockDoesNotJoin: a node whose clock differs by more than a lease is told so.
func TestANodeWithAnotherClockDoesNotJoin(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		home := t.TempDir()
		url, move := server.Clock(t, server.Schema(t, home))
		move(by)
		s, err := postgres.Open(t.Context(), postgres.Options{Home: home, URL: url})
		if fault.CodeOf(err) != fault.StoreFailed {
			t.Errorf("%s: %v", by, err)
		}
		if err == nil {
			_ = s.Close()
		}
		move(0)
		if s, err = postgres.Open(t.Context(), postgres.Options{Home: home, URL: url}); err != nil {
			t.Errorf("with the same clock: %v", err)
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestANodeIsRemoved: a node is removed once its lease is over, or by force, and another one
// closes its runs. It writes nothing after that.
func TestANodeIsRemoved(t *testing.T) {
	t.Parallel()
	for _, dead := range []bool{true, false} {
		ctx := t.Context()
		a, b, move := nodesOf(t, time.Minute)
		if _, err := a.Append(ctx, ledger.Entry{Durable: true, Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: []byte("0123456789abcdef"), Mode: ledger.Live, Principal: "p"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.RemoveNode(ctx, a.Owner(), false); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("a node whose lease lives: %v", err)
		}
		if _, err := b.RemoveNode(ctx, b.Owner(), true); fault.CodeOf(err) != fault.Usage {
			t.Errorf("itself: %v", err)
		}
		if dead {
			a.StopRenewing()
			move(-time.Hour) // so its lease does not end
		}
		closed, err := b.RemoveNode(ctx, a.Owner(), !dead)
		if err != nil || closed != 1 {
			t.Errorf("closed %d runs, %v", closed, err)
		}
		if list, err := b.Nodes(ctx); err != nil || len(list) != 1 || list[0].ID != b.Owner() {
			t.Errorf("then the nodes are %v, %v", list, err)
		}
		if _, err := a.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: []byte("0123456789abcdeg"), Mode: ledger.Live, Principal: "p"}}); err == nil {
			t.Error("the removed node has begun a run")
		}
	}
}

// TestNoOwnerIsDeadBecauseTheClockJumped: a node that lives is not removed for a request of its that
// another node is asked for.
func TestNoOwnerIsDeadBecauseTheClockJumped(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	a, b, move := nodesOf(t, time.Minute)
	move(time.Hour)
	if dead, err := b.OwnerIsDead(ctx, a.Owner()); err != nil || dead {
		t.Errorf("the owner is dead: %v, %v", dead, err)
	}
	if _, err := a.HoldsLease(); err != nil {
		t.Error(err)
	}
}

// TestAYoungProcessRemovesNoLivingNode: the clock jumps, so that the leases of all nodes are over,
// and then a process opens the ledger. A node that lives renews its lease and stays; one that does not
// is removed.
func TestAYoungProcessRemovesNoLivingNode(t *testing.T) {
	t.Parallel()
	ctx, home := t.Context(), t.TempDir()
	url := server.Schema(t, home)
	node := func() *postgres.Store {
		s := must(postgres.Open(ctx, postgres.Options{Home: home, URL: url, Lease: 12 * time.Second}))
		t.Cleanup(func() { _ = s.Close() }) // another node may have removed it
		return s
	}
	living, dead := node(), node()
	run := begin(dead, nil)
	dead.StopRenewing()
	young := node()
	// A jump beyond what a node that opens tolerates shows the same.
	execute(t, url, "UPDATE members SET lease_until = clock_timestamp() - interval '1 second' WHERE id <> '"+young.Owner().String()+"'")
	if n := must(young.Recover(ctx)); n != 1 {
		t.Errorf("closed %d runs, want the one of the dead node", n)
	}
	if _, err := living.HoldsLease(); err != nil {
		t.Error(err)
	}
	if list := must(young.Nodes(ctx)); len(list) != 2 {
		t.Errorf("then the nodes are %v", list)
	}
	begin(living, nil)
	intent, _ := call(run, 1)
	if _, err := dead.Append(ctx, intent); err == nil {
		t.Error("the dead node appended an event")
	}
}

// TestAYoungProcessWaitsForNobody: the leases of three nodes are over, as after a jump of the clock. One
// lives, and two have died, of which one in this home. A process that opens the ledger does its work at
// once, and closes the run of that one alone. A wait would take an hour.
func TestAYoungProcessWaitsForNobody(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	url := server.Schema(t, home)
	node := func() *postgres.Store {
		s := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: url, Lease: time.Hour}))
		t.Cleanup(func() { _ = s.Close() }) // another node may have removed it
		return s
	}
	living, here, elsewhere := node(), node(), node()
	for _, n := range []*postgres.Store{living, here, elsewhere} {
		begin(n, nil)
	}
	here.Die(true)
	elsewhere.Die(false)
	young := node()
	over := "UPDATE members SET lease_until = clock_timestamp() - interval '1 second' WHERE id <> '" + young.Owner().String() + "'"
	execute(t, url, over)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if n := must(young.RecoverKnown(ctx)); n != 1 {
		t.Errorf("closed %d runs, want the one of the node that died in this home", n)
	}
	if list := must(young.Nodes(ctx)); len(list) != 3 {
		t.Errorf("then the nodes are %v", list)
	}
	begin(living, nil)
	young.Age()
	if n := must(young.RecoverKnown(ctx)); n != 3 { // two of the living one
		t.Errorf("after the time of a lease it closed %d runs, want those of the nodes that have not renewed theirs", n)
	}
}

// TestNobodyIsRemovedAfterAJumpDuringTheWait: the clock jumps while a young process waits for nodes to
// renew their leases. A node that lives is not removed at the end of that wait.
func TestNobodyIsRemovedAfterAJumpDuringTheWait(t *testing.T) {
	t.Parallel()
	living, young, move := nodesOf(t, time.Hour)
	begin(living, nil)
	url := server.Schema(t, living.Home())
	for _, locked := range []bool{true, false} { // the second one is waited for
		dead := must(postgres.Open(t.Context(), postgres.Options{Home: living.Home(), URL: url, Lease: time.Hour}))
		t.Cleanup(func() { _ = dead.Close() })
		dead.Die(locked)
		execute(t, url, "UPDATE members SET lease_until = clock_timestamp() - interval '1 second' WHERE id = '"+dead.Owner().String()+"'")
	}
	closed := make(chan int, 1)
	go func() { closed <- must(young.Recover(t.Context())) }()
	wait(t, "it has removed the first one", func() bool { return len(must(young.Nodes(t.Context()))) == 3 })
	move(2 * time.Hour)
	must(0, young.AskClock(t.Context()))
	young.Age()
	if n := <-closed; n != 0 {
		t.Errorf("closed %d runs of a node that lives", n)
	}
}

// TestNodesAreRemovedByAProcessThatAges: the lease of a process passes while it looks for dead nodes. It
// looks again, and removes the node that has not renewed its lease.
func TestNodesAreRemovedByAProcessThatAges(t *testing.T) { // not parallel: it looks for waiting statements
	living, young, _ := nodesOf(t, time.Hour)
	begin(living, nil)
	c := connect(t, living.Home())
	execute(t, server.Schema(t, living.Home()), "UPDATE members SET lease_until = clock_timestamp() - interval '1 second' WHERE id = '"+living.Owner().String()+"'")
	must(c.Exec(t.Context(), "BEGIN; LOCK TABLE members"))
	closed := make(chan int, 1)
	go func() { closed <- must(young.Recover(t.Context())) }()
	waitsForALock(t, "the process looks for leases that are over", "SELECT id FROM members")
	young.Age()
	must(c.Exec(t.Context(), "COMMIT"))
	if n := <-closed; n != 1 {
		t.Errorf("closed %d runs, want 1", n)
	}
}

// TestTheClockIsMeasuredWithoutTheWait: the server's time is right after a wait for a connection.
func TestTheClockIsMeasuredWithoutTheWait(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := openWith(t, postgres.Options{Home: t.TempDir(), Lease: time.Hour})
	busy := must(s.Beats().Conn(ctx))
	waits := s.Beats().Stats().WaitCount
	asked := make(chan error, 1)
	began := time.Now()
	go func() { asked <- s.AskClock(ctx) }()
	wait(t, "the question waits for the connection", func() bool { return s.Beats().Stats().WaitCount > waits && time.Since(began) > 300*time.Millisecond })
	released := time.Now()
	must(0, busy.Close())
	must(0, <-asked)
	off, most := time.Until(s.ServerTime()).Abs(), time.Since(released)/2+2*time.Millisecond // the two clocks are one
	if off > most {
		t.Errorf("the server's time is %s off; a round trip explains %s", off, most)
	}
}
