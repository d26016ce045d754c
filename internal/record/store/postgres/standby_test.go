package postgres_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// TestAnAsynchronousStandbyIsRefused: a failover to it would lose acknowledged events. An archiver
// of the log is no standby. A synchronous standby is accepted, also as one of several hosts of the
// URL, and nodes go on after a failover to it.
func TestAnAsynchronousStandbyIsRefused(t *testing.T) {
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	primary := postgrestest.Start(t)
	home, ctx := t.TempDir(), t.Context()
	o := postgres.Options{Home: home, URL: primary.Schema(t, home), Lease: time.Hour}
	s := must(postgres.Open(ctx, o))
	begin(s, nil)
	must(0, s.Close())
	usedWithArchiver(t, o, primary)
	standby := primary.Standby(t)
	if _, err := postgres.Open(ctx, o); !errors.Is(err, fault.StoreReadOnly) || !strings.Contains(err.Error(), "copied asynchronously") {
		t.Fatalf("an asynchronous standby: %v", err)
	}
	primary.Exec(t, "public", "ALTER SYSTEM SET synchronous_standby_names = '*'")
	primary.Exec(t, "public", "SELECT pg_reload_conf()")
	for primary.Count(t, primary.URL("public"), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 0 {
		time.Sleep(10 * time.Millisecond)
	}
	usedAmongSeveral(t, o, primary, standby)
	notesStandby(t, primary, o)
	s = must(postgres.Open(ctx, o))
	intent, _ := call(begin(s, nil), 1)
	must(s.Append(ctx, intent))
	note := must(s.Checkpoint(ctx))
	must(0, primary.Stop("immediate"))
	must(0, standby.Promote())
	_ = s.Close() // fails: its server is gone
	o.URL = standby.Made(home)
	s = must(postgres.Open(ctx, o))
	defer s.Close()
	if r := must(s.Verify(ctx, store.VerifyOptions{Checkpoint: note})); !r.OK {
		t.Errorf("after the failover: %+v", r.Problems)
	}
}

// notesStandby: a node that runs notes that commits no longer wait for a standby, and that
// they wait again. After a failover the note decides who may go on.
func notesStandby(t *testing.T, primary *postgrestest.Server, o postgres.Options) {
	t.Helper()
	o.Lease = 2 * time.Second
	s := must(postgres.Open(t.Context(), o))
	defer s.Close()
	for want, statement := range []string{"ALTER SYSTEM RESET synchronous_standby_names", "ALTER SYSTEM SET synchronous_standby_names = '*'"} {
		primary.Exec(t, "public", statement)
		primary.Exec(t, "public", "SELECT pg_reload_conf()")
		for primary.Count(t, o.URL, "SELECT count(*) FROM server WHERE standby") != want {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestAnUnknownServerIsNotWrittenTo: another server took the place of one on which commits
// waited for no standby. A person accepts it.
func TestAnUnknownServerIsNotWrittenTo(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	o := postgres.Options{Home: home, URL: server.Schema(t, home)}
	must(0, must(postgres.Open(ctx, o)).Close())
	c := must(pgx.Connect(ctx, o.URL))
	defer c.Close(ctx)
	must(c.Exec(ctx, "UPDATE server SET timeline = '00000000'"))
	if _, err := postgres.Open(ctx, o); !errors.Is(err, fault.StoreReadOnly) || !strings.Contains(err.Error(), "took the place") {
		t.Fatalf("another timeline: %v", err)
	}
	reads := must(postgres.Open(ctx, postgres.Options{Home: home, URL: o.URL, ReadOnly: true})) // to verify first
	must(0, reads.Close())
	must(0, postgres.Accept(ctx, o.URL))
	s := must(postgres.Open(ctx, o))
	begin(s, nil)
	must(0, s.Close())
}

// TestANodeStopsWhereDurableEventsAreMissing: the node was running when an old copy took the
// place of its server.
func TestANodeStopsWhereDurableEventsAreMissing(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), Lease: time.Hour}))
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	run := begin(s, nil)
	intent, outcome := call(run, 1)
	intent.Durable = true
	must(s.Append(ctx, intent))
	must(c.Exec(ctx, "UPDATE heads SET number = number - 1 WHERE member = $1", s.Owner()))
	if _, err := s.Append(ctx, outcome); err == nil || !strings.Contains(err.Error(), "acknowledged as durable") {
		t.Errorf("the node went on: %v", err)
	}
	lost, err := s.HoldsLease()
	if err == nil {
		t.Error("the node may act")
	}
	<-lost
	_ = s.Close() // fails for the same reason
}
