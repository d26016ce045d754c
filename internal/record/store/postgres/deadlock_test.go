package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestADeadlockIsNoError: the server ends a transaction of the store, so that another
// transaction, which waits for it, can go on. The store repeats its own.
func TestADeadlockIsNoError(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	begin(s, nil)
	url := server.Schema(t, home)
	c := must(pgx.Connect(ctx, url))
	defer c.Close(ctx)
	must(c.Exec(ctx, "SET deadlock_timeout = '20s'")) // so that this is not the one that is ended
	for range 10 {
		tx := must(c.Begin(ctx))
		must(tx.Exec(ctx, "LOCK TABLE runs IN SHARE MODE"))
		began := make(chan error, 1)
		go func() {
			_, err := tryBegin(s)
			began <- err
		}()
		for server.Count(t, url, "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'runs'::regclass") == 0 {
			time.Sleep(time.Millisecond)
		}
		if server.Count(t, url, "SELECT count(*) FROM (SELECT 1 FROM tail FOR UPDATE SKIP LOCKED) t") > 0 {
			t.Fatal("the store does not lock the end of the log first: the test shows nothing")
		}
		_, err := tx.Exec(ctx, "SELECT 1 FROM tail FOR UPDATE")
		must(0, tx.Rollback(ctx))
		if err := <-began; err != nil {
			t.Fatalf("a run that begins: %v", err)
		}
		if err == nil {
			return
		}
	}
	t.Fatal("the server never ended the store's transaction: the test shows nothing")
}
