package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/record/store"
)

// Rates checks two stores on one home against the contract of store.Rates.
func Rates(t *testing.T, open OpenStore) {
	t.Helper()
	home := t.TempDir()
	stores := [2]store.Rates{}
	for i := range stores {
		s := open(t, home)
		r, ok := s.(store.Rates)
		if !ok {
			t.Fatalf("%T has no rates", s)
		}
		stores[i] = r
	}
	slow := store.Bucket{Each: 1e-6, Most: 10}
	var got atomic.Int64
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			for {
				n, wait, err := stores[i%2].TakeRequests(t.Context(), [32]byte{1}, slow, 1+i%3)
				switch {
				case err != nil:
					t.Error(err)
					return
				case n == 0:
					if wait < 11*24*time.Hour || wait > 12*24*time.Hour {
						t.Errorf("the time to wait for one request in 11.6 days is %s", wait)
					}
					return
				}
				got.Add(int64(n))
			}
		})
	}
	all.Wait()
	if got.Load() != 10 {
		t.Errorf("two processes took %d requests, want 10", got.Load())
	}
	if n, _, err := stores[0].TakeRequests(t.Context(), [32]byte{2}, slow, 20); n != 10 || err != nil {
		t.Errorf("another key has %d, %v; want 10", n, err)
	}
	fast := store.Bucket{Each: 1e6, Most: 10}
	for i := range 20 { // also of a key that has none under another rate
		for n := 0; n == 0; { // until time has passed
			var err error
			if n, _, err = stores[i%2].TakeRequests(t.Context(), [32]byte{byte(1 + i/10)}, fast, 10); err != nil {
				t.Fatal(err)
			}
		}
	}
}
