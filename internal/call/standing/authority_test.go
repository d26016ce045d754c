package standing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func TestMain(m *testing.M) {
	if home := otherProcess(); home != "" {
		revokeWhatIsAsked(home)
		return
	}
	goleak.VerifyTestMain(m)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func openStore(t testing.TB, home string) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Home: home, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newAuthority(t testing.TB, o standing.Options) *standing.Authority {
	t.Helper()
	a := standing.New(o)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// line is a grant of n kept nodes, one below the other.
func line(n int) grant.Grant {
	var g grant.Grant
	for i := range n {
		g = g.Derive(grant.Terms{ID: uuid.New(), Holder: fmt.Sprintf("agent:%d", i), Kept: true})
	}
	return g
}

func change(id uuid.UUID, to store.Standing) store.StandingChange {
	return store.StandingChange{Grant: id, To: to, By: "user:ann", At: time.Now()}
}

func set(t testing.TB, a *standing.Authority, id uuid.UUID, to store.Standing) {
	t.Helper()
	if err := a.SetStanding(context.Background(), change(id, to)); err != nil {
		t.Fatal(err)
	}
}

func TestCheckTellsWhoseStandingItIs(t *testing.T) {
	a := newAuthority(t, standing.Options{Grants: openStore(t, t.TempDir())})
	g := line(3)
	check := func(code fault.Code, words string) {
		t.Helper()
		err := a.Check(context.Background(), g)
		if code == 0 {
			if err != nil {
				t.Errorf("Check = %v, want nil", err)
			}
		} else if !errors.Is(err, code) || !strings.HasPrefix(fault.Message(err), words) {
			t.Errorf("Check = %v, want %v %s", err, code, words)
		}
	}
	n := g.Nodes()
	check(0, "")
	set(t, a, n[2].ID, store.Paused)
	check(fault.GrantPaused, fmt.Sprintf("the grant %s of %q is paused", n[2].ID, "agent:2"))
	set(t, a, n[0].ID, store.Paused)
	set(t, a, n[2].ID, store.Active)
	check(fault.GrantPaused, fmt.Sprintf("a grant that this one descends from, %s of %q is paused", n[0].ID, "agent:0"))
	set(t, a, n[1].ID, store.Revoked)
	check(fault.GrantRevoked, fmt.Sprintf("a grant that this one descends from, %s of %q was revoked", n[1].ID, "agent:1"))
	if err := a.SetStanding(context.Background(), change(n[1].ID, store.Active)); !errors.Is(err, fault.GrantRevoked) {
		t.Errorf("a revoked grant came back: %v", err)
	}
	check(fault.GrantRevoked, fmt.Sprintf("a grant that this one descends from, %s of %q was revoked", n[1].ID, "agent:1"))
}

// node of a random tree, and what should be true of it.
type node struct {
	g        grant.Grant
	up       *node
	standing store.Standing
	from, to time.Time
}

func (n *node) usable(now time.Time) bool {
	for ; n != nil; n = n.up {
		if n.standing != store.Active || now.Before(n.from) || !n.to.IsZero() && !now.Before(n.to) {
			return false
		}
	}
	return true
}

func TestAGrantIsUsableWhileItsWholePathIs(t *testing.T) {
	home := t.TempDir()
	mine, other := openStore(t, home), openStore(t, home)
	now := time.Now()
	clock := func() time.Time { return now }
	rapid.Check(t, func(t *rapid.T) {
		a := standing.New(standing.Options{Grants: mine, Now: clock})
		defer a.Close()
		var tree []*node
		for i := range rapid.IntRange(1, 20).Draw(t, "nodes") {
			n := &node{}
			terms := grant.Terms{ID: uuid.New(), Kept: true}
			if i > 0 && rapid.IntRange(0, 9).Draw(t, "root") > 0 {
				n.up = tree[rapid.IntRange(0, i-1).Draw(t, "parent")]
				n.g = n.up.g
			}
			switch rapid.IntRange(0, 9).Draw(t, "time") {
			case 0:
				n.to = now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "to")) * time.Hour)
			case 1:
				n.from = now.Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "from")) * time.Hour)
			}
			terms.NotBefore, terms.Expires = n.from, n.to
			n.g = n.g.Derive(terms)
			tree = append(tree, n)
		}
		for range rapid.IntRange(0, 15).Draw(t, "changes") {
			n := tree[rapid.IntRange(0, len(tree)-1).Draw(t, "which")]
			to := store.Standing(rapid.IntRange(0, 2).Draw(t, "standing"))
			err := a.SetStanding(context.Background(), change(n.g.ID(), to))
			if n.standing == store.Revoked && to != store.Revoked {
				if !errors.Is(err, fault.GrantRevoked) {
					t.Fatalf("a revoked grant became %s: %v", to, err)
				}
			} else if err != nil {
				t.Fatal(err)
			} else {
				n.standing = to
			}
			for _, n := range tree {
				if err := a.Check(context.Background(), n.g); (err == nil) != n.usable(now) {
					t.Fatalf("%d nodes deep, usable %v: %v", len(n.g.Nodes()), n.usable(now), err)
				}
			}
		}
		b := standing.New(standing.Options{Grants: other, Now: clock}) // what another process finds
		defer b.Close()
		for _, n := range tree {
			if err := b.Check(context.Background(), n.g); (err == nil) != n.usable(now) {
				t.Fatalf("by another process, %d nodes deep, usable %v: %v", len(n.g.Nodes()), n.usable(now), err)
			}
		}
	})
}

func TestAnotherProcesssRevocationIsKnownWithinASecond(t *testing.T) {
	home := t.TempDir()
	a := newAuthority(t, standing.Options{Grants: openStore(t, home)})
	b := newAuthority(t, standing.Options{Grants: openStore(t, home)})
	for range 5 {
		g := line(2)
		if err := errors.Join(a.Check(context.Background(), g), b.Check(context.Background(), g)); err != nil {
			t.Fatal(err)
		}
		set(t, a, g.Nodes()[0].ID, store.Revoked)
		if err := a.Check(context.Background(), g); !errors.Is(err, fault.GrantRevoked) {
			t.Fatalf("in the same process: %v", err)
		}
		for began := time.Now(); ; {
			at := time.Since(began)
			err := b.Check(context.Background(), g)
			if errors.Is(err, fault.GrantRevoked) {
				break
			}
			if at > time.Second {
				t.Fatalf("after %s: %v", at, err)
			}
		}
	}
}

// ended gives why a context ended; it waits for that.
func ended(ctx context.Context, t *testing.T, most time.Duration) error {
	t.Helper()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(most):
		t.Fatalf("it did not end within %s", most)
		return nil
	}
}

func going(ctx context.Context, t *testing.T) {
	t.Helper()
	if ctx.Err() != nil {
		t.Errorf("it ended: %v", context.Cause(ctx))
	}
}

// under gives a kept grant of a policy.
func under(t *testing.T, text string, terms grant.Terms) grant.Grant {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	terms.ID, terms.Kept, terms.Policies = uuid.New(), true, []*policy.Rules{r}
	return grant.New(terms)
}

func TestWatchEndsCallsOfARevokedGrant(t *testing.T) {
	home := t.TempDir()
	a := newAuthority(t, standing.Options{Grants: openStore(t, home)})
	b := newAuthority(t, standing.Options{Grants: openStore(t, home)})
	root := under(t, "", grant.Terms{})
	g, sibling := root.Derive(grant.Terms{ID: uuid.New(), Kept: true}), root.Derive(grant.Terms{ID: uuid.New(), Kept: true})
	watch := func(g grant.Grant) context.Context {
		ctx, stop := a.Watch(context.Background(), g)
		t.Cleanup(stop)
		return ctx
	}
	here, there, spared, finishing := watch(g), watch(root), watch(sibling), watch(under(t, "on_revoke: finish\n", grant.Terms{}))
	set(t, a, g.ID(), store.Paused)
	set(t, b, root.ID(), store.Paused)
	set(t, a, g.ID(), store.Revoked)
	if err := ended(here, t, time.Minute); !errors.Is(err, fault.GrantRevoked) { // at once, but for the scheduler
		t.Errorf("the cause is %v, want %v", err, fault.GrantRevoked)
	}
	going(there, t)
	going(spared, t)
	set(t, b, root.ID(), store.Revoked) // as another process does
	for _, ctx := range []context.Context{there, spared} {
		if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.GrantRevoked) {
			t.Errorf("the cause is %v, want %v", err, fault.GrantRevoked)
		}
	}
	late := watch(g)
	if err := ended(late, t, time.Minute); !errors.Is(err, fault.GrantRevoked) {
		t.Errorf("a call that was revoked since it was checked: %v", err)
	}
	going(finishing, t)
}

func TestWatchLetsFinishWhereThePolicySaysSo(t *testing.T) {
	a := newAuthority(t, standing.Options{Grants: openStore(t, t.TempDir())})
	g := under(t, "on_revoke: finish\n", grant.Terms{})
	ctx, stop := a.Watch(context.Background(), g)
	defer stop()
	strict := g.Derive(grant.Terms{ID: uuid.New(), Kept: true, Policies: under(t, "", grant.Terms{}).Chain()})
	other, stopOther := a.Watch(context.Background(), strict)
	defer stopOther()
	set(t, a, g.ID(), store.Revoked)
	if err := ended(other, t, time.Minute); !errors.Is(err, fault.GrantRevoked) {
		t.Errorf("the strictest of the chain cancels: %v", err)
	}
	going(ctx, t)
}

func TestWatchEndsCallsWhenTimeIsOver(t *testing.T) {
	a := newAuthority(t, standing.Options{Grants: openStore(t, t.TempDir())})
	for _, text := range []string{"", "on_revoke: finish\n"} {
		g := under(t, text, grant.Terms{Expires: time.Now().Add(50 * time.Millisecond)})
		ctx, stop := a.Watch(context.Background(), g)
		if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.GrantExpired) {
			t.Errorf("%q: the cause is %v, want %v", text, err, fault.GrantExpired)
		}
		stop()
	}
	unkept := grant.New(grant.Terms{ID: uuid.New(), Expires: time.Now().Add(time.Millisecond)})
	ctx, stop := a.Watch(context.Background(), unkept)
	defer stop()
	if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.GrantExpired) {
		t.Errorf("of a grant that is not kept: %v", err)
	}
}

func TestWhatIsNotKeptNeedsNoLedger(t *testing.T) {
	a := newAuthority(t, standing.Options{})
	now := time.Now()
	if err := a.Check(context.Background(), grant.New(grant.Terms{ID: uuid.New(), Expires: now.Add(time.Hour)})); err != nil {
		t.Error(err)
	}
	if err := a.Check(context.Background(), grant.New(grant.Terms{ID: uuid.New(), Expires: now})); !errors.Is(err, fault.GrantExpired) {
		t.Errorf("an expired one: %v", err)
	}
	if err := a.Check(context.Background(), line(1)); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a kept one without a ledger: %v", err)
	}
}

// broken is a ledger that cannot be read while fail says so.
type broken struct {
	kept
	fail func() error
}

type kept interface{ store.Grants }

func (b broken) Standing(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]store.Standing, int64, error) {
	if err := b.fail(); err != nil {
		return nil, 0, err
	}
	return b.kept.Standing(ctx, ids)
}

func (b broken) StandingVersion(ctx context.Context) (int64, error) {
	if err := b.fail(); err != nil {
		return 0, err
	}
	return b.kept.StandingVersion(ctx)
}

func TestALedgerThatCannotBeReadRefuses(t *testing.T) {
	fail := make(chan error, 1)
	fail <- nil
	a := newAuthority(t, standing.Options{Grants: broken{openStore(t, t.TempDir()), func() error { err := <-fail; fail <- err; return err }}})
	g := line(2)
	if err := a.Check(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	ctx, stop := a.Watch(context.Background(), g)
	defer stop()
	<-fail
	fail <- fault.New(fault.StoreCorrupt, "a row was changed")
	for began := time.Now(); ; { // while what is known is fresh
		at := time.Since(began)
		if a.Check(context.Background(), g) != nil {
			break
		}
		if at > time.Second {
			t.Fatal("it may be used for longer than a second after the ledger was last read")
		}
	}
	if err := a.Check(context.Background(), g); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("Check = %v, want %v", err, fault.StoreCorrupt)
	}
	if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("a call under way ended with %v, want %v", err, fault.StoreCorrupt)
	}
	blind, stopBlind := a.Watch(context.Background(), g)
	defer stopBlind()
	if err := ended(blind, t, time.Minute); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("a new call: %v", err)
	}
	<-fail
	fail <- nil
	if err := a.Check(context.Background(), g); err != nil {
		t.Errorf("once the ledger can be read again: %v", err)
	}
}

// A ledger that is slow, or away, ends the calls that act, as a revocation could not be seen. A call
// that waits for a person waits on, and a call that is to begin waits for the ledger. A grant that was
// revoked meanwhile is refused to both.
func TestASlowLedgerRefusesNobodyWhoWaits(t *testing.T) {
	var failing atomic.Bool
	a := newAuthority(t, standing.Options{Grants: broken{openStore(t, t.TempDir()), func() error {
		if failing.Load() {
			return fault.New(fault.StoreFailed, "overloaded")
		}
		return nil
	}}})
	g := line(2)
	waits, stop := a.Watch(context.Background(), g)
	defer stop()
	acts, stopActs := a.Sight(waits, g)
	defer stopActs()
	failing.Store(true)
	if err := ended(acts, t, time.Minute); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a call that acts ended with %v", err)
	}
	late, stopLate := a.Watch(context.Background(), g) // begins while nothing is known
	defer stopLate()
	begins := make(chan error, 1)
	go func() { begins <- a.Await(context.Background(), g) }()
	going(waits, t)
	going(late, t)
	if err := a.Check(context.Background(), g); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Check = %v", err)
	}
	failing.Store(false)
	if err := <-begins; err != nil {
		t.Errorf("a call that was to begin: %v", err)
	}
	set(t, a, g.ID(), store.Revoked)
	for _, ctx := range []context.Context{waits, late} {
		if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.GrantRevoked) {
			t.Errorf("after the revocation: %v", err)
		}
	}
	if err := a.Await(context.Background(), g); !errors.Is(err, fault.GrantRevoked) {
		t.Errorf("Await = %v", err)
	}
}

func TestAMomentOfBlindnessEndsNoCall(t *testing.T) {
	var failing atomic.Int32
	a := newAuthority(t, standing.Options{Grants: broken{openStore(t, t.TempDir()), func() error {
		if failing.Add(-1) == 0 {
			return fault.New(fault.StoreFailed, "locked")
		}
		return nil
	}}})
	g := line(1)
	ctx, stop := a.Watch(context.Background(), g)
	defer stop()
	failing.Store(1) // the next look, most likely that of SetStanding
	set(t, a, uuid.New(), store.Revoked)
	going(ctx, t)
}

func TestAClosedAuthorityRefuses(t *testing.T) {
	a := newAuthority(t, standing.Options{Grants: openStore(t, t.TempDir())})
	g := line(1)
	ctx, stop := a.Watch(context.Background(), g)
	defer stop()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := ended(ctx, t, time.Minute); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a call under way: %v", err)
	}
	if err := a.Check(context.Background(), g); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("Check = %v", err)
	}
}

// After a restore the root of a grant decides: blocks that a holder appended are in no ledger.
func TestAfterARestoreTheRootDecides(t *testing.T) {
	s := openStore(t, t.TempDir())
	a := newAuthority(t, standing.Options{Grants: s})
	put := func(g grant.Grant) grant.Grant {
		t.Helper()
		if err := s.PutGrant(t.Context(), store.GrantRecord{ID: g.ID(), Holder: "agent:0", Issued: time.Now()}); err != nil {
			t.Fatal(err)
		}
		return g
	}
	below := func(g grant.Grant) grant.Grant {
		return g.Derive(grant.Terms{ID: uuid.New(), Holder: "agent:1", Kept: true})
	}
	old := put(line(1))
	under := below(old)
	set(t, a, store.RestoreMark, store.Paused)
	fresh := put(line(1))
	for name, tt := range map[string]struct {
		g    grant.Grant
		want error
	}{
		"an old root": {old, fault.GrantPaused}, "below an old root": {under, fault.GrantPaused}, "a lost root": {line(1), fault.GrantPaused},
		"a new root": {fresh, nil}, "below a new root": {below(fresh), nil}, "a grant that ends with its run": {grant.New(grant.Terms{ID: uuid.New()}), nil},
	} {
		if err := a.Check(t.Context(), tt.g); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	set(t, a, old.ID(), store.Active)
	if err := errors.Join(a.Check(t.Context(), old), a.Check(t.Context(), under)); err != nil {
		t.Errorf("after it was resumed: %v", err)
	}
	set(t, a, old.ID(), store.Revoked)
	if err := a.Check(t.Context(), under); !errors.Is(err, fault.GrantRevoked) {
		t.Errorf("after it was revoked: %v", err)
	}
}
