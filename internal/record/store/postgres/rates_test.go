package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestNodesShareTheCallsOfAMinute: two nodes that take at once get no more than the limit,
// and what one gives back the other gets.
func TestNodesShareTheCallsOfAMinute(t *testing.T) {
	home := t.TempDir()
	nodes := [2]*postgres.Store{openWith(t, postgres.Options{Home: home}), openWith(t, postgres.Options{Home: home})}
	const most, want = 50, 3
	key := []byte("github")
	var got atomic.Int64
	var all sync.WaitGroup
	for _, s := range nodes {
		for range 2 {
			all.Go(func() {
				for {
					n, _, wait, err := s.TakeCalls(t.Context(), key, most, want, 0, 0)
					if err != nil {
						t.Error(err)
					}
					if n == 0 {
						if wait <= 0 || wait > 66*time.Second {
							t.Errorf("none are left, and the time to wait is %s", wait)
						}
						return
					}
					got.Add(int64(n))
				}
			})
		}
	}
	all.Wait()
	if n := got.Load(); n != most {
		t.Errorf("the nodes took %d calls, want %d", n, most)
	}
	other := []byte("gitlab")
	n, at, _, err := nodes[0].TakeCalls(t.Context(), other, 5, 5, 0, 0)
	if err != nil || n != 5 {
		t.Fatalf("another key: %d, %v", n, err)
	}
	if n, _, _, err = nodes[1].TakeCalls(t.Context(), other, 5, 5, at, 5); err != nil || n != 0 {
		t.Errorf("a node gave back what another had taken, and got %d: %v", n, err)
	}
	if n, _, _, err = nodes[0].TakeCalls(t.Context(), other, 5, 1, at, 3); err != nil || n != 1 {
		t.Errorf("after giving back 3: %d, %v", n, err)
	}
	if n, _, _, err = nodes[1].TakeCalls(t.Context(), other, 5, 5, 0, 0); err != nil || n != 2 {
		t.Errorf("the other node got %d of what was given back, want 2: %v", n, err)
	}
}

// TestCallsAreGivenBackOnce, although the connection ends at any message of the node: no more calls
// are taken than the limit.
func TestCallsAreGivenBackOnce(t *testing.T) {
	for n := int64(1); n <= 2; n++ {
		for _, answer := range []bool{false, true} {
			home, w := t.TempDir(), &snap{answer: answer}
			s := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: w.url(t, server.Schema(t, home)), Lease: time.Hour}))
			key := []byte("github")
			got, at, _, err := s.TakeCalls(t.Context(), key, 10, 10, 0, 0)
			if err != nil || got != 10 {
				t.Fatalf("took %d, %v", got, err)
			}
			w.arm(n)
			got, _, _, err = s.TakeCalls(t.Context(), key, 10, 1, at, 4) // six were begun
			w.arm(1 << 40)
			if err != nil {
				t.Errorf("message %d, answer %v: %v", n, answer, err)
			}
			if got > 4 {
				t.Errorf("message %d, answer %v: took %d of the 4 that were given back", n, answer, got)
			}
			if more, _, _, err := s.TakeCalls(t.Context(), key, 10, 10, 0, 0); err != nil || got+more > 4 {
				t.Errorf("message %d, answer %v: took %d and %d of the 4 that were given back, %v", n, answer, got, more, err)
			}
			must(0, s.Close())
		}
	}
}
