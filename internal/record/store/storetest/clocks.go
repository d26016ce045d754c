package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
)

// OpenMoved opens a store with a database whose clock can be moved: move sets how far it is
// from the machine's.
type OpenMoved func(t *testing.T, home string) (s store.Backend, move func(by time.Duration))

// moves are how far the clocks of a node and the database are apart.
var moves = []time.Duration{-time.Hour, 0, time.Hour}

// timed is something that a store keeps until a time.
type timed struct {
	name  string
	after time.Duration                                                          // how long it is kept
	keep  func(t *testing.T, s store.Backend, n byte, until time.Time)           // until: by this machine's clock
	there func(t *testing.T, s store.Backend, n byte, until time.Time) (is bool) // whether it still counts
	back  bool                                                                   // whether it is over when the clock is set back behind its beginning
}

// Clocks checks that every stored time is compared with the database's clock: with a clock of
// the node that differs, and with a clock of the database that jumps afterwards.
func Clocks(t *testing.T, open OpenMoved) {
	t.Helper()
	s, move := open(t, t.TempDir())
	n := byte(0)
	for _, from := range moves {
		for _, to := range moves {
			for _, k := range keptUntil {
				n++
				what := fmt.Sprintf("%s, clock %s away, then %s", k.name, from, to)
				clockIs(t, s, move, from)
				now := time.Now()
				k.keep(t, s, n, now.Add(k.after))
				if !k.there(t, s, n, now.Add(k.after)) {
					t.Errorf("%s: over at once", what)
				}
				clockIs(t, s, move, to)
				want := to-from < k.after && (to >= from || !k.back)
				if got := k.there(t, s, n, now.Add(k.after)); got != want {
					t.Errorf("%s: kept %v, want %v", what, got, want)
				}
			}
		}
	}
	sound(t, s)
}

// clockIs moves the clock, and waits until the store has seen it.
func clockIs(t *testing.T, s store.Backend, move func(time.Duration), by time.Duration) {
	t.Helper()
	move(by)
	if _, err := s.Lanes(t.Context()); err != nil { // asks for the time
		t.Fatal(err)
	}
	if off := (time.Until(s.Now()) - by).Abs(); off > 10*time.Minute {
		t.Fatalf("Now is %s away from a clock that is moved by %s", off, by)
	}
	if off := (s.Ahead() + by).Abs(); off > 10*time.Minute {
		t.Fatalf("Ahead = %s with a clock that is moved by %s", s.Ahead(), by)
	}
}

// keptUntil are all kinds of stored times that decide something in a store.
var keptUntil = []timed{
	{"an ephemeral record", 10 * time.Minute, func(t *testing.T, s store.Backend, n byte, until time.Time) {
		if ok, err := s.SaveEphemeral(t.Context(), store.Ephemeral{Kind: "code", Key: [32]byte{n}, Until: until}, store.EphemeralBounds{}); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}, func(t *testing.T, s store.Backend, n byte, until time.Time) bool {
		e, is, err := s.Ephemeral(t.Context(), "code", [32]byte{n})
		if err != nil || is && e.Until.Before(until.Add(-5*time.Second)) {
			t.Error(e.Until, until, err)
		}
		return is
	}, false},
	{"a request", 10 * time.Minute, func(t *testing.T, s store.Backend, n byte, until time.Time) {
		if _, state, err := s.BeginRequest(t.Context(), store.RequestRecord{Holder: "ann", Key: [32]byte{n}, Until: until}, 100); err != nil || state != store.RequestClaimed {
			t.Fatal(state, err)
		}
	}, func(t *testing.T, s store.Backend, n byte, until time.Time) bool {
		_, state, err := s.BeginRequest(t.Context(), store.RequestRecord{Holder: "ann", Key: [32]byte{n}, Until: until}, 100)
		if err != nil {
			t.Error(err)
		}
		return state != store.RequestClaimed
	}, false},
	{"a used proof", 30 * time.Minute, func(t *testing.T, s store.Backend, n byte, until time.Time) { // of which 10 are a margin
		if fresh, err := s.UseProof(t.Context(), [32]byte{1: n}, until.Add(-10*time.Minute)); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	}, func(t *testing.T, s store.Backend, n byte, until time.Time) bool {
		next := [32]byte{31: 1} // ended records are removed with the next one
		id := uuid.New()
		copy(next[:], id[:])
		if _, err := s.UseProof(t.Context(), next, until.Add(time.Hour)); err != nil {
			t.Error(err)
		}
		fresh, err := s.UseProof(t.Context(), [32]byte{1: n}, until.Add(-10*time.Minute))
		if err != nil {
			t.Error(err)
		}
		return !fresh
	}, false},
	{"the delay of a queued run", 30 * time.Minute, func(t *testing.T, s store.Backend, n byte, _ time.Time) {
		at := s.Now()
		q := enqueued(t, s, func(q *store.QueuedRun) { q.Queued, q.Due = at, at.Add(30*time.Minute) })
		fileIn(t, s, n, q.ID)
	}, func(t *testing.T, s store.Backend, n byte, _ time.Time) bool {
		return len(claimLane(t, s, fmt.Sprint(n), 2)) == 0
	}, false},
	{"a claim", store.ClaimFor, func(t *testing.T, s store.Backend, n byte, _ time.Time) {
		q := enqueued(t, s, nil)
		fileIn(t, s, n, q.ID)
		if got := claimLane(t, s, fmt.Sprint(n), 2); len(got) != 1 || got[0].ID != q.ID {
			t.Fatalf("claimed %v", got)
		}
	}, func(t *testing.T, s store.Backend, n byte, _ time.Time) bool {
		return len(claimLane(t, s, fmt.Sprint(n), 2)) == 0
	}, true},
}

// claimLane claims all runs of a lane whose time has come.
func claimLane(t *testing.T, s store.Claims, name string, priority int) []store.ClaimedRun {
	t.Helper()
	got, err := s.ClaimQueued(context.Background(), store.Lane{Name: name, Priority: priority}, time.Now().Add(24*time.Hour), 100)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// fileIn files a run in a lane that has no other.
func fileIn(t *testing.T, s store.Claims, n byte, id uuid.UUID) {
	t.Helper()
	if err := s.FileQueued(context.Background(), fmt.Sprint(n), false, id); err != nil {
		t.Fatal(err)
	}
}
