package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Grants checks that open also returns a [store.Grants].
func Grants(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"a grant comes back as it was issued", grantsComeBack},
		{"an ID is issued once, and descends from nothing below it", grantsOnce},
		{"grants are filtered and paged", grantsFilters},
		{"a grant is found by a unique prefix", grantsPrefix},
		{"standing changes, and revoked stays revoked", grantsStanding},
		{"a change that changes nothing is not recorded", grantsNoChange},
		{"two stores on one home see each other's changes at once", grantsTwo},
		{"whatever the order, a revocation is final", grantsRace},
		{"a proof is good once", grantsProofs},
		{"grants of before a restore wait for a person", grantsRestored},
		{"nobody else records what the tables must follow", grantsAppend},
		{"a grant of a big policy comes back", grantsBig},
		{"a closed store refuses", grantsClosed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

func openGrants(t *testing.T, open OpenStore, home string) (store.Store, store.Grants) {
	t.Helper()
	s := open(t, home)
	g, ok := s.(store.Grants)
	if !ok {
		t.Fatalf("%T keeps no grants", s)
	}
	return s, g
}

// issue puts a grant and gives it as it should come back.
func issue(t *testing.T, s store.Grants, change func(*store.GrantRecord)) store.GrantRecord {
	t.Helper()
	g := store.GrantRecord{ID: uuid.Must(uuid.NewV7()), Holder: "agent:docs", Issued: ledger.Time(base)}
	if change != nil {
		change(&g)
	}
	if err := s.PutGrant(context.Background(), g); err != nil {
		t.Fatalf("PutGrant: %v", err)
	}
	return g
}

func set(s store.Grants, id uuid.UUID, to store.Standing) error {
	return s.SetStanding(context.Background(), store.StandingChange{Grant: id, To: to, By: "user:ann", Reason: "it was time", At: ledger.Time(base + 7)})
}

func standing(t *testing.T, s store.Grants, id uuid.UUID) store.Standing {
	t.Helper()
	m, _, err := s.Standing(context.Background(), []uuid.UUID{uuid.New(), id})
	if err != nil {
		t.Fatalf("Standing: %v", err)
	}
	return m[id]
}

func grantsComeBack(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	two, none := 2, 0
	root := issue(t, g, nil)
	full := issue(t, g, func(r *store.GrantRecord) {
		r.Parent, r.Holder = root.ID, "agent:Grün <\"x\">"
		r.NotBefore, r.Expires = ledger.Time(base+5), ledger.Time(base+5_000_000).Add(3*time.Nanosecond)
		r.Budgets = grant.Budgets{Calls: 5, PerTool: []grant.ToolBudget{{Tool: "http.*", Calls: 0}}, EachTool: 3, BytesIn: 1, BytesOut: 2, Tokens: 3, Money: 4,
			Time: time.Minute, Children: &two, Depth: &none}
		r.Policies = []ledger.PolicySource{{Name: "p", File: "p.yaml", Source: "version: 1\n"}, {Name: "q"}}
		r.Delegable, r.Note = []byte(`{"depth":1}`), "for the docs"
	})
	for i, want := range []store.GrantRecord{root, full} {
		want.Seq = ledger.Seq(i + 1)
		got, err := g.Grant(context.Background(), want.ID.String())
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("Grant: %v (-want +got):\n%s", err, d)
		}
		if parent, err := g.Issued(context.Background(), want.ID); err != nil || parent != want.Parent {
			t.Errorf("Issued: %s %v, want %s", parent, err, want.Parent)
		}
	}
	if _, err := g.Issued(context.Background(), uuid.New()); !errors.Is(err, fault.GrantUnknown) {
		t.Errorf("Issued of an unknown grant: %v", err)
	}
	es := events(t, s, 0)
	if len(es) != 2 || es[1].Event.Kind != ledger.GrantIssued || es[1].Event.Principal != full.Holder || uuid.UUID(es[1].Event.Parent) != root.ID {
		t.Errorf("the events are %+v", es)
	}
	sound(t, s)
}

func grantsOnce(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	root := issue(t, g, nil)
	if err := g.PutGrant(context.Background(), root); !errors.Is(err, fault.Conflict) {
		t.Errorf("a grant issued twice: %v, want %v", err, fault.Conflict)
	}
	unseen := uuid.New()
	child := issue(t, g, func(r *store.GrantRecord) { r.Parent = unseen }) // of a block that some holder appended
	for _, id := range []uuid.UUID{unseen, uuid.Nil} {
		if err := g.PutGrant(context.Background(), store.GrantRecord{ID: id, Parent: child.ID, Issued: ledger.Time(base)}); err == nil {
			t.Errorf("the grant %s was issued below its own child", id)
		}
	}
	if err := g.PutGrant(context.Background(), store.GrantRecord{ID: uuid.New(), Budgets: grant.Budgets{Calls: -1}}); !errors.Is(err, fault.Usage) {
		t.Errorf("budgets that make no sense: %v, want %v", err, fault.Usage)
	}
	if n := len(events(t, s, 0)); n != 2 {
		t.Errorf("%d events, want the 2 of the issued grants", n)
	}
	sound(t, s)
}

func grantsFilters(t *testing.T, open OpenStore) {
	_, g := openGrants(t, open, t.TempDir())
	root := issue(t, g, nil)
	all := []uuid.UUID{root.ID}
	for i := range 50 {
		r := issue(t, g, func(r *store.GrantRecord) {
			r.Holder = fmt.Sprintf("agent:%d", i%3)
			if i%2 == 0 {
				r.Parent = root.ID
			}
		})
		all = append(all, r.ID)
	}
	tests := map[string]struct {
		f    store.GrantFilter
		want func(i int) bool // of the issued grants, from 0
	}{
		"all":    {store.GrantFilter{}, func(int) bool { return true }},
		"parent": {store.GrantFilter{Parent: root.ID}, func(i int) bool { return i > 0 && i%2 == 1 }},
		"holder": {store.GrantFilter{Holder: "agent:1"}, func(i int) bool { return i > 0 && (i-1)%3 == 1 }},
		"two":    {store.GrantFilter{Holder: "agent:0", Parent: root.ID}, func(i int) bool { return i > 0 && (i-1)%6 == 0 }},
		"none":   {store.GrantFilter{Parent: uuid.New()}, func(int) bool { return false }},
	}
	for name, tt := range tests {
		var want, got []uuid.UUID
		for i := len(all) - 1; i >= 0; i-- {
			if tt.want(i) {
				want = append(want, all[i])
			}
		}
		f := tt.f
		f.Limit = 7
		for {
			page, err := g.Grants(context.Background(), f)
			if err != nil || len(page) > f.Limit {
				t.Fatalf("%s: a page of %d, %v", name, len(page), err)
			}
			for _, r := range page {
				got = append(got, r.ID)
			}
			if len(page) < f.Limit {
				break
			}
			f.Before = page[len(page)-1].Seq
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: grants differ (-want +got):\n%s", name, d)
		}
	}
	if page, err := g.Grants(context.Background(), store.GrantFilter{}); err != nil || len(page) != 20 {
		t.Errorf("without a limit there are %d grants (%v), want 20", len(page), err)
	}
}

func grantsPrefix(t *testing.T, open OpenStore) {
	_, g := openGrants(t, open, t.TempDir())
	ids := []string{"0198aaaa-0000-7000-8000-000000000001", "0198aaaa-0000-7000-8000-000000000002", "0198bbbb-0000-7000-8000-000000000003"}
	for _, id := range ids {
		issue(t, g, func(r *store.GrantRecord) { r.ID = uuid.MustParse(id) })
	}
	for ask, want := range map[string]string{ids[0]: ids[0], "0198b": ids[2], "0198BBBB-0": ids[2], "0198": "", "019": "", "": "", "zzzz": "", "%": "", "0199": ""} {
		r, err := g.Grant(context.Background(), ask)
		if want == "" && !errors.Is(err, fault.GrantUnknown) || want != "" && (err != nil || r.ID.String() != want) {
			t.Errorf("Grant(%q) = %v, %v; want %q", ask, r.ID, err, want)
		}
	}
}

func grantsStanding(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	known := issue(t, g, nil).ID
	unseen := uuid.New() // as a holder appends them
	version := int64(-1)
	steps := []struct {
		id   uuid.UUID
		to   store.Standing
		fail bool
	}{
		{known, store.Paused, false}, {unseen, store.Revoked, false}, {known, store.Active, false}, {known, store.Paused, false}, {known, store.Revoked, false},
		{known, store.Active, true}, {unseen, store.Paused, true}, {uuid.New(), store.Revoked, false},
	}
	want := map[uuid.UUID]store.Standing{}
	for i, st := range steps {
		if err := set(g, st.id, st.to); st.fail != errors.Is(err, fault.GrantRevoked) || !st.fail && err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		v, err := g.StandingVersion(context.Background())
		if err != nil || !st.fail && v <= version {
			t.Errorf("step %d: version %d after %d, %v", i, v, version, err)
		}
		version = v
		if !st.fail {
			want[st.id] = st.to
		}
		for id, w := range want {
			if got := standing(t, g, id); got != w {
				t.Errorf("step %d: %s is %s, want %s", i, id, got, w)
			}
		}
	}
	if _, v, err := g.Standing(context.Background(), nil); err != nil || v != version {
		t.Errorf("Standing tells version %d, %v; want %d", v, err, version)
	}
	r, err := g.Grant(context.Background(), known.String())
	if err != nil || r.Standing != store.Revoked || !r.Since.Equal(ledger.Time(base+7)) {
		t.Errorf("Grant = %+v, %v; want it revoked", r, err)
	}
	for _, c := range []store.StandingChange{{Grant: uuid.Nil, To: store.Revoked}, {Grant: known, To: 3}} {
		if err := g.SetStanding(context.Background(), c); !errors.Is(err, fault.Internal) {
			t.Errorf("%+v: %v, want %v", c, err, fault.Internal)
		}
	}
	last := found(t, s, store.EventFilter{})[0]
	if e := last.Event; e.Kind != ledger.GrantStanding || e.Principal != "user:ann" || e.Standing != uint8(store.Revoked) || string(last.Parts[ledger.PartReason].Inline) != "it was time" {
		t.Errorf("the last event is %+v", last)
	}
	sound(t, s)
}

func grantsNoChange(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	id := uuid.New()
	for _, to := range []store.Standing{store.Active, store.Paused, store.Paused, store.Revoked, store.Revoked} {
		if err := set(g, id, to); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(events(t, s, 0)); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
	sound(t, s)
}

func grantsTwo(t *testing.T, open OpenStore) {
	home := t.TempDir()
	sa, a := openGrants(t, open, home)
	_, b := openGrants(t, open, home)
	for i := range 20 {
		one, other := a, b
		if i%2 == 1 {
			one, other = b, a
		}
		id := issue(t, one, nil).ID
		for _, to := range []store.Standing{store.Paused, store.Active, store.Revoked} {
			if err := set(one, id, to); err != nil {
				t.Fatal(err)
			}
			if got := standing(t, other, id); got != to {
				t.Fatalf("the other store says %s, want %s", got, to)
			}
		}
		if r, err := other.Grant(context.Background(), id.String()); err != nil || r.Standing != store.Revoked {
			t.Errorf("the other store finds %+v, %v", r, err)
		}
	}
	sound(t, sa)
}

func grantsRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	sa, a := openGrants(t, open, home)
	_, b := openGrants(t, open, home)
	id := uuid.New()
	var wg sync.WaitGroup
	var revoked atomic.Bool
	for i := range 8 {
		s := []store.Grants{a, b}[i%2]
		wg.Go(func() {
			for j := range 10 {
				was := revoked.Load()
				to := store.Standing(j % 2)
				if i == 7 && j == 5 {
					to = store.Revoked
				}
				err := set(s, id, to)
				if to == store.Revoked {
					revoked.Store(true)
				}
				if was && err == nil || err != nil && !errors.Is(err, fault.GrantRevoked) {
					t.Errorf("to %s, after the revocation %v: %v", to, was, err)
				}
				if was && standing(t, s, id) != store.Revoked {
					t.Error("a revoked grant came back")
				}
			}
		})
	}
	wg.Wait()
	if got := standing(t, b, id); got != store.Revoked {
		t.Errorf("it is %s in the end", got)
	}
	sound(t, sa)
}

func grantsProofs(t *testing.T, open OpenStore) {
	home := t.TempDir()
	sa, a := openGrants(t, open, home)
	_, b := openGrants(t, open, home)
	var first [32]byte
	for i := range 40 {
		var id [32]byte
		_, _ = rand.Read(id[:])
		if i == 0 {
			first = id
		}
		until := time.Now().Add(time.Duration(i-20) * time.Hour)
		var wg sync.WaitGroup
		var good atomic.Int32
		for j := range 4 {
			wg.Go(func() {
				ok, err := []store.Grants{a, b}[j%2].UseProof(context.Background(), id, until)
				if err != nil {
					t.Errorf("UseProof: %v", err)
				}
				if ok {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if good.Load() != 1 {
			t.Errorf("a proof was good %d times", good.Load())
		}
	}
	if ok, err := a.UseProof(context.Background(), first, time.Now().Add(time.Hour)); err != nil || !ok {
		t.Errorf("a proof that was over for long is still kept: %v, %v", ok, err)
	}
	sound(t, sa)
}

func grantsAppend(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	id, other := uuid.New(), uuid.New()
	for _, e := range []ledger.Event{
		{Kind: ledger.GrantIssued, At: base, Grant: id[:]},
		{Kind: ledger.GrantStanding, At: base, Grant: id[:], Standing: 0},
		{Kind: ledger.QuestionAsked, At: base, ID: other[:], Question: 1},
		{Kind: ledger.QuestionVoted, At: base, ID: other[:], Question: 2},
		{Kind: ledger.QuestionClosed, At: base, ID: other[:], Question: 5},
	} {
		if _, err := s.Append(context.Background(), ledger.Entry{Event: e}); !errors.Is(err, fault.Internal) {
			t.Errorf("%s: %v, want %v", e.Kind, err, fault.Internal)
		}
	}
	run, runID := start(t, s, func(e *ledger.Event) { e.Grant = id[:] })
	violation := ledger.Event{Kind: ledger.Violation, At: base, Run: run, Call: 1, Grant: id[:], Violated: ledger.ViolatedPath, Standing: 1}
	put(t, s, ledger.Entry{Event: violation, Payload: ledger.Payload{ledger.PartReason: []byte("no")}})
	put(t, s, intent(run, 1))
	put(t, s, ledger.Entry{Event: ledger.Event{Kind: ledger.Violation, At: base, Violated: ledger.ViolatedGrant}})
	put(t, s, ledger.Entry{Event: violation}, outcome(run, 1, 2), ledger.Entry{Event: violation}, finish(run, 1))
	put(t, s, ledger.Entry{Event: violation})
	violation.Run = 9999
	if _, err := s.Append(context.Background(), ledger.Entry{Event: violation}); !errors.Is(err, fault.Internal) {
		t.Errorf("a violation in no run: %v", err)
	}
	if cs := calls(t, s, run); len(cs) != 1 || cs[0].Index != 1 || cs[0].Status == 0 {
		t.Errorf("the run's calls are %+v, want the one", cs)
	}
	r, err := s.Run(context.Background(), runID.String())
	if err != nil || r.Grant != id || r.Total != 1 {
		t.Errorf("Run = %+v, %v", r, err)
	}
	if got := standing(t, g, id); got != store.Active {
		t.Errorf("a violation by itself made the grant %s", got)
	}
	sound(t, s)
}

func grantsBig(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	text := make([]byte, 50_000)
	_, _ = rand.Read(text)
	want := issue(t, g, func(r *store.GrantRecord) {
		r.Policies = []ledger.PolicySource{{Name: "big", Source: fmt.Sprintf("# %x\nversion: 1\n", text)}}
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 40 { // many at once, each of which needs the policy as well
		wg.Go(func() {
			for range 10 {
				got, err := g.Grant(ctx, want.ID.String())
				if err != nil || cmp.Diff(want.Policies, got.Policies) != "" {
					t.Errorf("Grant: %v, with another policy", err)
					return
				}
			}
		})
	}
	wg.Wait()
	sound(t, s)
}

func grantsClosed(t *testing.T, open OpenStore) {
	s, g := openGrants(t, open, t.TempDir())
	id := issue(t, g, nil).ID
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, standing := g.Standing(context.Background(), []uuid.UUID{id})
	_, version := g.StandingVersion(context.Background())
	ok, proof := g.UseProof(context.Background(), [32]byte{1}, time.Now().Add(time.Hour))
	for name, err := range map[string]error{"SetStanding": set(g, id, store.Revoked), "Standing": standing, "StandingVersion": version, "UseProof": proof,
		"PutGrant": g.PutGrant(context.Background(), store.GrantRecord{ID: uuid.New()})} {
		if err == nil || ok {
			t.Errorf("%s of a closed store: %v", name, err)
		}
	}
}
