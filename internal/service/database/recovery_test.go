package database_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/home"
)

// looking counts the recoveries of a store, of which some fail.
type looking struct {
	store.Backend
	mu    sync.Mutex
	looks int
	fails int
}

func (l *looking) RecoverKnown(ctx context.Context) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	if l.fails--; l.fails >= 0 {
		return 0, fault.New(fault.StoreFailed, "away")
	}
	return l.Backend.RecoverKnown(ctx)
}

// TestRequestsSeldomRecover: only the first request, and one in a while, looks for what dead processes
// left open. A recovery that failed is repeated by the next request.
func TestRequestsSeldomRecover(t *testing.T) {
	for fails := range 4 {
		cfg, err := home.FromEnv([]string{"REMIT_HOME=" + t.TempDir(), "HOME=" + t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		st, release, err := (*database.Shared)(nil).Open(t.Context(), &home.Home{Config: cfg}, false)
		if err != nil {
			t.Fatal(err)
		}
		l, told := &looking{Backend: st, fails: fails}, 0
		began, want := time.Now(), fails+1
		r := &database.Recovery{Home: &home.Home{Config: cfg}, Changes: func(context.Context, store.Store) error { return nil }, Recovered: func(int, uint64) { told++ }}
		for i := range 200 {
			if err := r.Seldom(t.Context(), l); (err != nil) != (i < fails) {
				t.Fatalf("of %d failures, at %d: %v", fails, i, err)
			}
		}
		if l.looks < want || l.looks > want+int(time.Since(began)/database.RecoverEvery) || told != l.looks {
			t.Errorf("200 requests looked %d times, want %d", l.looks, want)
		}
		seen := l.looks
		if err := r.Now(t.Context(), l); err != nil || l.looks != seen+1 {
			t.Errorf("a recovery at once: %d looks, %v", l.looks-seen, err)
		}
		if err := release(); err != nil {
			t.Error(err)
		}
	}
}
