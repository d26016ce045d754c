package sqlite_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// TestReadersThatGoLeaveNoOldState: a caller that goes at any moment of a read leaves no connection behind that gives the
// others the state of that moment.
func TestReadersThatGoLeaveNoOldState(t *testing.T) {
	s := openWith(t, sqlite.Options{Home: t.TempDir()})
	session := uuid.New()
	reads := []func(context.Context){
		func(ctx context.Context) { _, _ = s.Runs(ctx, store.RunFilter{Limit: 100}) },
		func(ctx context.Context) { _, _ = s.Runs(ctx, store.RunFilter{Status: ledger.Running}) },
		func(ctx context.Context) {
			_, _ = s.Questions(ctx, store.QuestionFilter{State: store.Waiting, Sealed: true, Limit: 10})
		},
		func(ctx context.Context) { _, _ = s.FileTree(ctx, session) },
		func(ctx context.Context) { _, _ = s.Verify(ctx, store.VerifyOptions{}) },
		func(ctx context.Context) {
			if _, end, err := s.Snapshot(ctx, true); err == nil {
				_ = end()
			}
		},
	}
	for n := 1; n <= 20; n++ {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(1500))*time.Microsecond)
					reads[(n+i)%len(reads)](ctx)
					cancel()
				}
			})
		}
		all.Wait()
		id := uuid.New()
		if _, err := s.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		seen, err := s.SeenRuns(ctx)
		if cancel(); err != nil {
			t.Fatalf("a connection was not given back: %v", err)
		}
		if slices.ContainsFunc(seen, func(m int) bool { return m != n }) {
			t.Fatalf("of %d runs, the connections see %d", n, seen)
		}
	}
}
