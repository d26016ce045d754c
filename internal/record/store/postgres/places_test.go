package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestNodesShareTheCallsAtOnce: nodes that take at once have no more than the limit together, and
// what one gives back, or leaves when it is removed, the other gets.
func TestNodesShareTheCallsAtOnce(t *testing.T) {
	home := t.TempDir()
	a, b := openWith(t, postgres.Options{Home: home, Lease: time.Minute}), openWith(t, postgres.Options{Home: home, Lease: time.Minute})
	key := []byte("github")
	take := func(s *postgres.Store, most, want, may int) {
		t.Helper()
		if got, err := s.TakePlaces(t.Context(), key, most, want); err != nil || got != may {
			t.Errorf("of %d, %d are wanted: %d, %v; want %d", most, want, got, err, may)
		}
	}
	var all sync.WaitGroup
	var sum atomic.Int64
	for _, s := range []*postgres.Store{a, b} {
		all.Go(func() {
			got := 0
			for want := 1; want <= 6; want++ {
				n, err := s.TakePlaces(t.Context(), key, 6, want)
				if err != nil || n < got {
					t.Errorf("%d, %v after %d", n, err, got)
				}
				got = n
			}
			sum.Add(int64(got))
		})
	}
	all.Wait()
	if sum.Load() != 6 {
		t.Errorf("the nodes have %d calls at once, want 6", sum.Load())
	}
	take(a, 6, 0, 0)
	take(b, 6, 6, 6)
	take(a, 6, 1, 0)
	take(b, 6, 5, 5)
	take(a, 6, 3, 1)
	take(b, 2, 4, 4) // a lower limit takes nothing away
	take(b, 2, 5, 4)
	take(b, 6, -1, 0)
	take(b, 6, 6, 5)
	c, err := pgx.Connect(t.Context(), server.Schema(t, home))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	if _, err := c.Exec(t.Context(), "DELETE FROM members WHERE id = $1", b.Owner()); err != nil {
		t.Fatal(err)
	}
	take(a, 6, 6, 6)
}
