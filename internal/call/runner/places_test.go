package runner

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// placesOf counts the places of nodes.
type placesOf struct {
	mu   sync.Mutex
	held map[string]int
}

// nodeOf is one node that uses them.
type nodeOf struct {
	Recorder
	*placesOf
	name string
	fail atomic.Bool
}

func (n *nodeOf) TakePlaces(ctx context.Context, _ []byte, most, want int) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.fail.Load() || ctx.Err() != nil {
		return 0, fault.New(fault.StoreFailed, "down")
	}
	others := 0
	for name, held := range n.held {
		if name != n.name {
			others += held
		}
	}
	if want > n.held[n.name] {
		want = max(n.held[n.name], min(want, most-others))
	}
	n.held[n.name] = want
	return want, nil
}

var remoteUser = user{provider: provider{RemoteMCP, "mcp:github"}, holder: "x"}

// TestNodesHaveTheCallsAtOnceTogether: many calls of two nodes are never more than the limit, and
// none is left over.
func TestNodesHaveTheCallsAtOnceTogether(t *testing.T) {
	const atOnce = 3
	all := &placesOf{held: map[string]int{}}
	var under, most, made atomic.Int64
	var calls sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		s, n := NewSources(map[Tier]TierLimits{RemoteMCP: {AtOnce: atOnce}}, nil), &nodeOf{placesOf: all, name: name}
		for range 20 {
			calls.Go(func() {
				leave, err := s.enter(t.Context(), remoteUser, n)
				if err != nil {
					t.Error(err)
					return
				}
				now := under.Add(1)
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				made.Add(1)
				under.Add(-1)
				leave()
			})
		}
	}
	calls.Wait()
	if most.Load() > atOnce || made.Load() != 40 || all.held["a"]+all.held["b"] != 0 {
		t.Errorf("%d calls, at most %d at once, and %v are held", made.Load(), most.Load(), all.held)
	}
}

// TestACallWaitsForAnotherNodesPlace, no longer than it may.
func TestACallWaitsForAnotherNodesPlace(t *testing.T) {
	all := &placesOf{held: map[string]int{"other": 1}}
	n := &nodeOf{placesOf: all, name: "a"}
	s := NewSources(map[Tier]TierLimits{RemoteMCP: {AtOnce: 1, Wait: time.Millisecond}}, nil)
	if _, err := s.enter(t.Context(), remoteUser, n); !errors.Is(err, fault.LimitReached) {
		t.Errorf("while another node has the place: %v", err)
	}
	n.fail.Store(true)
	if _, err := s.enter(t.Context(), remoteUser, n); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("while the database is down: %v", err)
	}
	n.fail.Store(false)
	all.held["other"] = 0
	leave, err := s.enter(t.Context(), remoteUser, n)
	if err != nil {
		t.Fatal(err)
	}
	n.fail.Store(true)
	leave() // the database does not learn of it
	n.fail.Store(false)
	leave, err = s.enter(t.Context(), remoteUser, n)
	if err != nil || all.held["a"] != 1 {
		t.Fatalf("after an end that the database did not learn of: %v, %v", err, all.held)
	}
	leave()
	if all.held["a"] != 0 {
		t.Errorf("%d places are held", all.held["a"])
	}
}

// TestEachNodeHasItsOwnLocalServers, and their calls at once: the database is not asked.
func TestEachNodeHasItsOwnLocalServers(t *testing.T) {
	n := &nodeOf{placesOf: &placesOf{held: map[string]int{}}, name: "a"}
	n.fail.Store(true)
	s := NewSources(map[Tier]TierLimits{LocalMCP: {AtOnce: 1}}, nil)
	leave, err := s.enter(t.Context(), userOf("x"), n)
	if err != nil {
		t.Fatal(err)
	}
	leave()
}
