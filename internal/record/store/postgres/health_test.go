package postgres_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestANodeTellsHowItIs: its lease, how long syncs take, and what is not in the tree yet.
func TestANodeTellsHowItIs(t *testing.T) {
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	home := t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	c := must(pgx.Connect(t.Context(), server.Schema(t, home)))
	defer c.Close(t.Context())
	var syncs atomic.Int64
	s.OnSync(func(took time.Duration) {
		if took > 0 {
			syncs.Add(1)
		}
	})
	intent, _ := call(begin(s, nil), 1)
	must(s.Append(t.Context(), intent))
	if syncs.Load() == 0 {
		t.Error("nothing was told of a sync")
	}
	if left := s.LeaseLeft(); left <= 0 || left > time.Hour {
		t.Errorf("%s are left of a lease of an hour", left)
	}
	must(s.Checkpoint(t.Context())) // integrates everything
	if n := must(s.Unintegrated(t.Context())); n != 0 {
		t.Errorf("%d events are not in the tree after a checkpoint", n)
	}
	must(c.Exec(t.Context(), "UPDATE tail SET total = total + 7"))
	if n := must(s.Unintegrated(t.Context())); n != 7 {
		t.Errorf("%d events are not in the tree, want 7", n)
	}
	must(c.Exec(t.Context(), "UPDATE tail SET total = total - 7"))
}
