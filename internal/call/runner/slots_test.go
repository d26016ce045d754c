package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func userOf(holder string) user { return user{providerOf(LocalMCP, "mcp:one:x"), holder} }

// Holders take turns: one that has queued many calls does not hold up another's first.
func TestHoldersTakeTurns(t *testing.T) {
	s := NewSources(map[Tier]TierLimits{LocalMCP: {AtOnce: 1}}, nil)
	leave, err := s.enter(t.Context(), userOf("a"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	var turns []<-chan struct{}
	for _, holder := range []string{"a", "a", "a", "b", "a", "b", "c"} {
		turns = append(turns, s.queue(userOf(holder), 1))
	}
	names := []string{"a1", "a2", "a3", "b1", "a4", "b2", "c1"}
	for range names {
		leave()
		for i, turn := range turns {
			select {
			case <-turn:
				order = append(order, names[i])
				turns[i] = nil
			default:
			}
		}
	}
	leave()
	if got, want := fmt.Sprint(order), "[a1 b1 c1 a2 b2 a3 a4]"; got != want {
		t.Errorf("the turns were %s, want %s", got, want)
	}
	if len(s.slots) != 0 {
		t.Errorf("%d providers are kept in mind without a call", len(s.slots))
	}
}

// Whoever gives up, and whenever, no slot is lost or given twice.
func TestNoSlotIsLost(t *testing.T) {
	const atOnce = 3
	s := NewSources(map[Tier]TierLimits{LocalMCP: {AtOnce: atOnce, Wait: time.Millisecond}}, nil)
	var under, gaveUp atomic.Int32
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // a test's choices
			for range 200 {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(2) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(300))*time.Microsecond, cancel)
				}
				leave, err := s.enter(ctx, userOf(fmt.Sprint(w%4)), nil)
				if err == nil {
					if n := under.Add(1); n > atOnce {
						t.Errorf("%d calls at once", n)
					}
					time.Sleep(time.Duration(rng.IntN(200)) * time.Microsecond)
					under.Add(-1)
					leave()
				} else if gaveUp.Add(1); !errors.Is(err, context.Canceled) && !errors.Is(err, fault.LimitReached) {
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if len(s.slots) != 0 {
		t.Errorf("after the last call, %+v is left of slots", s.slots)
	}
	t.Logf("%d calls gave up", gaveUp.Load())
}

func TestProvidersByToolID(t *testing.T) {
	for id, want := range map[string]string{"mcp:github:get": "mcp:github", "ext:a:b.c": "ext:a", "api:x:get:more": "api:x", "far": "these tools", "mcp:x": "these tools"} {
		if got := providerOf(Cloud, tool.ID(id)).String(); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
