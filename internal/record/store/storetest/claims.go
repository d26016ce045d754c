package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

func openClaims(t *testing.T, open OpenStore, home string) (store.Queue, store.Claims, store.Store) {
	t.Helper()
	s, q := openQueue(t, open, home)
	c, ok := s.(store.Claims)
	if !ok {
		t.Fatalf("%T claims no queued runs", s)
	}
	return q, c, s
}

// queueLanes: lanes are listed with their first runs, and claimed in order.
func queueLanes(t *testing.T, open OpenStore) {
	q, c, s := openClaims(t, open, t.TempDir())
	now := ledger.Time(base)
	want := map[string][]uuid.UUID{}
	for i := range 12 {
		lane := []string{"", "a", "b"}[i%3]
		r := enqueued(t, q, func(r *store.QueuedRun) { r.Priority, r.Due = 1+i%2, now.Add(time.Duration(12-i)*time.Second) })
		if err := c.FileQueued(context.Background(), lane, false, r.ID); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint(lane, r.Priority)
		want[key] = slices.Insert(want[key], 0, r.ID)
	}
	enqueued(t, q, func(r *store.QueuedRun) { r.Due = time.Now().Add(time.Hour) })
	lanes, err := c.Lanes(context.Background())
	if err != nil || len(lanes) != 6 {
		t.Fatalf("Lanes = %v, %v", lanes, err)
	}
	if !slices.IsSortedFunc(lanes, func(a, b store.Lane) int {
		if a.Priority != b.Priority {
			return a.Priority - b.Priority
		}
		return a.Due.Compare(b.Due)
	}) {
		t.Errorf("lanes are in the order %v", lanes)
	}
	for _, l := range lanes {
		key := fmt.Sprint(l.Name, l.Priority)
		first, err := c.ClaimQueued(context.Background(), l, l.Due, 5)
		if err != nil || len(first) != 1 || first[0].ID != want[key][0] || first[0].Tries != 1 {
			t.Errorf("%s: up to %s: %v, %v", key, l.Due, first, err)
		}
		rest := claimLane(t, c, l.Name, l.Priority)
		if len(rest) != 1 || rest[0].ID != want[key][1] {
			t.Errorf("%s: then %v", key, rest)
		}
		if again := claimLane(t, c, l.Name, l.Priority); len(again) != 0 {
			t.Errorf("%s: claimed twice: %v", key, again)
		}
		if err := c.FileQueued(context.Background(), l.Name, true, rest[0].ID); err != nil {
			t.Fatal(err)
		}
		if again := claimLane(t, c, l.Name, l.Priority); len(again) != 1 || again[0].Tries != 2 {
			t.Errorf("%s: after a failure: %v", key, again)
		}
	}
	sound(t, s)
}

// queueClaimsOnce: of several processes, one claims a run.
func queueClaimsOnce(t *testing.T, open OpenStore) {
	home := t.TempDir()
	q, a, s := openClaims(t, open, home)
	_, b, _ := openClaims(t, open, home)
	const runs = 40
	for range runs {
		enqueued(t, q, nil)
	}
	var mu sync.Mutex
	claimed := map[uuid.UUID]int{}
	var all sync.WaitGroup
	for i := range 6 {
		c := []store.Claims{a, b}[i%2]
		all.Go(func() {
			for range runs { // a pass may find none while another has them
				got, err := c.ClaimQueued(context.Background(), store.Lane{Priority: 2}, time.Now(), 3)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, r := range got {
					claimed[r.ID]++
				}
				done := len(claimed) == runs
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	all.Wait()
	for id, n := range claimed {
		if n != 1 {
			t.Errorf("%s was claimed %d times", id, n)
		}
	}
	if len(claimed) != runs {
		t.Errorf("%d of %d runs were claimed", len(claimed), runs)
	}
	sound(t, s)
}
