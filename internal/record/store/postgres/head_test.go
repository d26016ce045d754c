package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestALossIsNotHiddenByLaterBatches: after a crash that lost a batch, later batches get
// higher numbers. A caller that still waits for the lost one must be told.
func TestALossIsNotHiddenByLaterBatches(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	run := begin(s, nil)
	intent, outcome := call(run, 1)
	must(s.Append(ctx, intent))
	kept := s.Last()
	must(s.Append(ctx, outcome))
	lost := s.Last()
	must(c.Exec(ctx, "UPDATE heads SET number = number - 1 WHERE member = $1", s.Owner())) // as after a crash
	if err := s.LostBatch(lost); err != nil {
		t.Fatalf("a loss is reported before the server was asked: %v", err)
	}
	intent, _ = call(run, 2)
	must(s.Append(ctx, intent))
	if err := s.LostBatch(lost); err == nil {
		t.Errorf("batch %d is lost, and its caller is told that it is durable", lost)
	}
	for _, n := range []int64{kept, lost + 1, s.Last()} {
		if err := s.LostBatch(n); err != nil {
			t.Errorf("batch %d is there, but: %v", n, err)
		}
	}
}

// TestARenewalHoldsNoLock: a node that the server does not know renews its lease, which can take as
// long as the lease. Calls of other goroutines go on meanwhile.
func TestARenewalHoldsNoLock(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: time.Minute})
	begin(s, nil)
	lock := must(connect(t, home).Begin(ctx))
	must(connect(t, home).Exec(ctx, "DELETE FROM heads"))
	must(lock.Exec(ctx, "LOCK TABLE members"))
	asked := make(chan error, 1)
	go func() { asked <- s.Present(ctx) }()
	waitForLocks(t, home, 1)
	for !s.CanSettle() {
		select {
		case err := <-asked:
			t.Fatalf("the lock was held until the answer: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	must(0, lock.Rollback(ctx))
	if err := <-asked; err == nil {
		t.Error("a node without a head is present")
	}
}

// TestSettlingCanBeRepeated: its answer can be lost as well.
func TestSettlingCanBeRepeated(t *testing.T) {
	s := openWith(t, postgres.Options{Home: t.TempDir(), Lease: time.Hour})
	begin(s, nil)
	last := s.Last()
	one, two, err := s.SettleTwice(t.Context())
	if err != nil || one != last || two != last {
		t.Errorf("found %d, then %d (%v), want %d", one, two, err, last)
	}
	if s.Last() <= last+1 {
		t.Errorf("the next number is %d, which a message under way may have", s.Last())
	}
	begin(s, nil) // with the new number
}

// TestNoLockIsHeldForTheLease: a node that was removed asks for the reason. The connection for that
// may be slow, and other calls go on meanwhile.
func TestNoLockIsHeldForTheLease(t *testing.T) {
	ctx := t.Context()
	for name, use := range map[string]func(ctx context.Context, s *postgres.Store) error{
		"sync":   func(_ context.Context, s *postgres.Store) error { return s.Sync() },
		"settle": func(ctx context.Context, s *postgres.Store) error { return s.SettleHead(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			s := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), Lease: time.Hour}))
			defer s.Close() // fails: the node was removed
			intent, _ := call(begin(s, nil), 1)
			intent.Durable = false
			must(s.Append(ctx, intent)) // something to sync
			s.StopRenewing()
			c := must(pgx.Connect(ctx, server.Schema(t, home)))
			defer c.Close(ctx)
			must(c.Exec(ctx, "DELETE FROM members"))
			busy := must(s.Beats().Conn(ctx))
			waits, used := s.Beats().Stats().WaitCount, make(chan error, 1)
			go func() { used <- use(ctx, s) }()
			wait(t, "the reason for the removal is asked for", func() bool { return s.Beats().Stats().WaitCount > waits })
			for end := time.Now().Add(5 * time.Second); !s.CanSettle(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Error("the head is locked meanwhile")
					break
				}
			}
			must(0, busy.Close())
			if err := <-used; err == nil {
				t.Error("the node is still a member")
			}
		})
	}
}
