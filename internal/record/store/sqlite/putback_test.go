package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func run(t *testing.T, d *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := d.ExecContext(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAPauseOutlastsItsOlderSeal: the queue's state is put back to before a pause, with its seal.
func TestAPauseOutlastsItsOlderSeal(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s := openWith(t, sqlite.Options{Home: home})
	for _, paused := range []bool{true, false} {
		must(0, s.PauseQueue(ctx, paused, "user:ann"))
	}
	d := db(t, home)
	defer d.Close()
	run(t, d, "CREATE TABLE p AS SELECT * FROM pauses", "CREATE TABLE q AS SELECT * FROM seals WHERE name = 'pauses'")
	must(0, s.PauseQueue(ctx, true, "user:ann"))
	run(t, d, "DELETE FROM pauses", "INSERT INTO pauses SELECT * FROM p", "DELETE FROM seals WHERE name = 'pauses'", "INSERT INTO seals SELECT * FROM q")
	if paused, err := s.QueueIsPaused(ctx); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("paused: %v, %v", paused, err)
	}
}

// TestAQueueIsWholeAgain: a process finds a changed row while it reads the rows that others added.
// Once the row is as it was, the queue decides again.
func TestAQueueIsWholeAgain(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	s, other := openWith(t, sqlite.Options{Home: home}), openWith(t, sqlite.Options{Home: home})
	add := func(s *sqlite.Store, n byte) {
		q := store.QueuedRun{ID: id(n), Priority: 1, Principal: "user:ann", Queued: time.Now(), Due: time.Now(),
			Task: store.Task{Plan: []byte("version: 1\n"), Doc: []byte(`{}`)}}
		if _, _, err := s.Enqueue(ctx, q, store.QueueRoom{}); err != nil {
			t.Fatal(err)
		}
	}
	start := func(id uuid.UUID) error {
		_, err := s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live}}, nil)
		return err
	}
	add(s, 1)
	for n := byte(2); n <= 4; n++ {
		add(other, n)
	}
	d := db(t, home)
	defer d.Close()
	run(t, d, "UPDATE queue SET priority = 2 WHERE seq = (SELECT max(seq) FROM queue)")
	if err := start(id(2)); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("with a changed row: %v", err)
	}
	run(t, d, "UPDATE queue SET priority = 1 WHERE seq = (SELECT max(seq) FROM queue)")
	for n := byte(1); n <= 4; n++ {
		if err := start(id(n)); err != nil {
			t.Errorf("run %d: %v", n, err)
		}
	}
}
