package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// connect opens a connection to a home's schema.
func connect(t *testing.T, home string) *pgx.Conn {
	t.Helper()
	c := must(pgx.Connect(t.Context(), server.Schema(t, home)))
	t.Cleanup(func() { _ = c.Close(context.Background()) }) // nothing is left to be done
	return c
}

// objects are those of a schema.
func objects(t *testing.T, c *pgx.Conn) []string {
	t.Helper()
	out := must(pgx.CollectRows(must(c.Query(t.Context(), postgres.SelectObjects)), func(r pgx.CollectableRow) (line string, err error) {
		var name, def string
		err = r.Scan(&name, &def)
		return name + " " + def, err
	}))
	slices.Sort(out)
	return out
}

// waitForLocks waits until as many processes of the server wait for the version, or for others
// that migrate.
func waitForLocks(t *testing.T, home string, want int) {
	t.Helper()
	query := fmt.Sprintf(`SELECT count(*) FROM pg_locks WHERE NOT granted AND (relation IN ('schema_version'::regclass, 'members'::regclass)
OR locktype = 'advisory' AND classid = %d AND objid = (hashtext(current_schema())::bigint & 4294967295)::oid)`, postgres.SetupLock)
	for end := time.Now().Add(time.Minute); server.Count(t, server.Schema(t, home), query) != want; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there are never %d processes that wait", want)
		}
	}
}

// older makes the tables as they were before the newest migration, and blocks it at its end.
func older(t *testing.T, home string) (c *pgx.Conn, goOn func()) {
	t.Helper()
	c = connect(t, home)
	must(0, postgres.Migrate(t.Context(), c, postgres.Version-1))
	block := must(connect(t, home).Begin(t.Context()))
	must(block.Exec(t.Context(), "LOCK TABLE schema_version IN SHARE MODE"))
	return c, func() { must(0, block.Rollback(t.Context())) }
}

// TestAKilledMigrationIsMadeAgain: kill -9 of remit db migrate when all of the newest migration but
// its end is done.
func TestAKilledMigrationIsMadeAgain(t *testing.T) {
	home := t.TempDir()
	c, goOn := older(t, home)
	before := objects(t, c)
	child := exec.Command(os.Args[0])
	child.Env, child.Stderr = append(os.Environ(), "REMIT_TEST_MOVE="+home, "REMIT_TEST_URL="+server.Schema(t, home)), os.Stderr
	must(0, child.Start())
	waitForLocks(t, home, 1)
	must(0, child.Process.Kill())
	_ = child.Wait() // it was killed
	goOn()
	if after := objects(t, c); !slices.Equal(before, after) {
		t.Errorf("half of a migration is there:\n%q\nbefore:\n%q", after, before)
	}
	s := openWith(t, postgres.Options{Home: home})
	month(s, time.Now())
	sound(t, s, 0)
}

// TestTwoMigrateAtOnce: one of two processes migrates and makes the ledger; with the same keys the
// other one uses it, else it is refused.
func TestTwoMigrateAtOnce(t *testing.T) {
	for name, same := range map[string]bool{"one $REMIT_HOME": true, "two": false} {
		t.Run(name, func(t *testing.T) {
			homes := []string{t.TempDir(), t.TempDir()}
			waiting, opened := 2, 1
			if same { // the second one waits for a file
				homes[1], waiting, opened = homes[0], 1, 2
			}
			c, goOn := older(t, homes[0])
			var all sync.WaitGroup
			stores := make([]*postgres.Store, 2)
			errs := make([]error, 2)
			for i, home := range homes {
				all.Go(func() {
					stores[i], errs[i] = postgres.Open(t.Context(), postgres.Options{Home: home, URL: server.Schema(t, homes[0])})
				})
			}
			waitForLocks(t, homes[0], waiting)
			goOn()
			all.Wait()
			for i, s := range stores {
				if errs[i] != nil {
					continue
				}
				opened--
				month(s, time.Now())
				sound(t, s, 0)
				must(0, s.Close())
			}
			if opened != 0 {
				t.Errorf("%d more were to open the ledger: %v", opened, errs)
			}
			if got := must(postgres.ReadStatus(t.Context(), server.Schema(t, homes[0]))); got.Version != postgres.Version || server.Count(t, server.Schema(t, homes[0]), "SELECT count(*) FROM log") != 1 {
				t.Errorf("%+v", got)
			}
			must(0, c.Close(t.Context()))
		})
	}
}

// TestAMigrationWaitsForLeases: a removed node may act until the end of its lease. A migration waits
// for that end.
func TestAMigrationWaitsForLeases(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	c := connect(t, home)
	must(0, postgres.Migrate(ctx, c, postgres.Version-1))
	var until time.Time
	must(0, c.QueryRow(ctx, "INSERT INTO members(id, lease_until) VALUES(gen_random_uuid(), clock_timestamp() + interval '300 milliseconds') RETURNING lease_until").Scan(&until))
	must(0, postgres.Migrate(ctx, c, postgres.Version))
	var over bool
	must(0, c.QueryRow(ctx, "SELECT clock_timestamp() >= $1 AND NOT EXISTS (SELECT FROM members)", until).Scan(&over))
	if !over {
		t.Error("the older node may still act")
	}
}

// newer is a migration of the next version. It notes the number of events that it finds.
const newer = "ALTER TABLE events ADD COLUMN newer bigint NOT NULL DEFAULT 1; CREATE TABLE found AS SELECT total FROM tail"

// TestANewerRemitEndsOlderNodes: nodes of this version are at work when a newer one migrates. They
// write nothing into the new tables, and say what to do.
func TestANewerRemitEndsOlderNodes(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	o := postgres.Options{Home: home, URL: server.Schema(t, home), Lease: time.Minute}
	busy, idle := must(postgres.Open(ctx, o)), must(postgres.Open(ctx, o))
	var appended atomic.Int64
	begun := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for run, n := begin(busy, nil), 1; ; n++ {
				intent, outcome := call(run, n)
				for _, e := range []ledger.Entry{intent, outcome} {
					if _, err := busy.Append(ctx, e); err != nil {
						wantNewer(t, "a node that appends", err)
						return
					}
				}
				if appended.Add(1) == 50 {
					close(begun)
				}
			}
		})
	}
	<-begun
	left := must(postgres.Upgrade(ctx, connect(t, home), postgres.Version+1, newer))
	if left <= 0 || left > o.Lease {
		t.Errorf("the nodes may act for %s", left)
	}
	all.Wait()
	lost, err := busy.HoldsLease()
	wantNewer(t, "the node", err)
	<-lost
	if _, err := idle.UseProof(ctx, [32]byte{1}, time.Now().Add(time.Hour)); err == nil {
		t.Error("a node that did nothing before writes")
	}
	_, err = idle.UseProof(ctx, [32]byte{1}, time.Now().Add(time.Hour))
	wantNewer(t, "a node that did nothing before", err)
	for _, readOnly := range []bool{false, true} {
		o.ReadOnly = readOnly
		_, err := postgres.Open(ctx, o)
		wantNewer(t, fmt.Sprintf("a new node (reads only: %v)", readOnly), err)
	}
	if n := server.Count(t, o.URL, "SELECT (tail.total - found.total) + (SELECT count(*) FROM members) + (SELECT count(*) FROM proofs) FROM tail, found"); n != 0 {
		t.Errorf("older nodes wrote %d rows after the migration", n)
	}
	for _, s := range []*postgres.Store{busy, idle} {
		_ = s.Close() // fails: it was removed
	}
}

// TestWhoeverFindsARemovedNodeSaysWhy: each place that can be the first to find it after a migration.
func TestWhoeverFindsARemovedNodeSaysWhy(t *testing.T) {
	for name, find := range map[string]func(*postgres.Store, ledger.Seq) error{
		"what is present":  func(s *postgres.Store, _ ledger.Seq) error { return s.Present(t.Context()) },
		"the head settled": func(s *postgres.Store, _ ledger.Seq) error { _, _, err := s.SettleTwice(t.Context()); return err },
		"an append": func(s *postgres.Store, run ledger.Seq) error {
			intent, _ := call(run, 1)
			_, err := s.Append(t.Context(), intent)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			s := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: server.Schema(t, home), Lease: time.Minute}))
			run := begin(s, nil)
			must(postgres.Upgrade(t.Context(), connect(t, home), postgres.Version+1, newer))
			wantNewer(t, "the first error", find(s, run))
			_, err := s.HoldsLease()
			wantNewer(t, "the lease", err)
			_ = s.Close() // fails: it was removed
		})
	}
}

// wantNewer checks that an error names the newer Remit.
func wantNewer(t *testing.T, who string, err error) {
	t.Helper()
	if f := (*fault.Error)(nil); !errors.As(err, &f) || f.Code != fault.StoreVersion || f.Hint != "use the newer Remit" {
		t.Errorf("%s: %v", who, err)
	}
}

// TestANodeThatStartsDuringAMigrationIsRefused: it has seen the tables as they were, and joins after
// the migration.
func TestANodeThatStartsDuringAMigrationIsRefused(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	o := postgres.Options{Home: home, URL: server.Schema(t, home)}
	must(0, must(postgres.Open(ctx, o)).Close())
	migration := must(connect(t, home).Begin(ctx))
	must(migration.Exec(ctx, "LOCK TABLE members"))
	opened := make(chan error)
	go func() {
		_, err := postgres.Open(ctx, o)
		opened <- err
	}()
	waitForLocks(t, home, 1)
	must(migration.Exec(ctx, "INSERT INTO schema_version VALUES($1)", postgres.Version+1))
	must(0, migration.Commit(ctx))
	wantNewer(t, "the node", <-opened)
	if n := server.Count(t, o.URL, "SELECT count(*) FROM members"); n != 0 {
		t.Errorf("%d nodes have joined", n)
	}
}
