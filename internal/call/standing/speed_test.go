package standing_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// tree issues n grants below a root, each below one that came before it, and
// gives all.
func tree(tb testing.TB, s store.Grants, n int) []grant.Grant {
	tb.Helper()
	root := grant.New(grant.Terms{ID: uuid.Must(uuid.NewV7()), Kept: true})
	all := []grant.Grant{root}
	for i := 1; i < n; i++ {
		all = append(all, all[(i-1)/4].Derive(grant.Terms{ID: uuid.Must(uuid.NewV7()), Kept: true}))
	}
	for _, g := range all {
		if err := s.PutGrant(context.Background(), store.GrantRecord{ID: g.ID(), Parent: g.Parent(), Holder: "agent:x", Issued: ledger.Time(time.Now().UnixMicro())}); err != nil {
			tb.Fatal(err)
		}
	}
	return all
}

// A revocation changes one row, however many grants descend from it, so the time
// that it takes for all of them is that of one write.
func TestATreeIsRevokedAtOnce(t *testing.T) {
	const n = 2000 // BenchmarkRevokeATreeOf10000 has more
	s := openStore(t, t.TempDir())
	a := newAuthority(t, standing.Options{Grants: s})
	all := tree(t, s, n)
	for _, g := range all {
		if err := a.Check(context.Background(), g); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	set(t, a, all[0].ID(), store.Revoked)
	for _, g := range all {
		if err := a.Check(context.Background(), g); !errors.Is(err, fault.GrantRevoked) {
			t.Fatalf("%s: %v", g.ID(), err)
		}
	}
	t.Logf("%d grants revoked, and each of them found to be, in %s", n, time.Since(began))
}

func BenchmarkRevokeATreeOf10000(b *testing.B) {
	s := openStore(b, b.TempDir())
	a := newAuthority(b, standing.Options{Grants: s})
	all := tree(b, s, 10_000)
	n := 0
	for b.Loop() { // another subtree each time; the ledger's other standings stay
		g := all[n%len(all)]
		n++
		if err := a.SetStanding(context.Background(), change(g.ID(), store.Revoked)); err != nil {
			b.Fatal(err)
		}
		if err := a.Check(context.Background(), all[len(all)-1]); err != nil && !errors.Is(err, fault.GrantRevoked) {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := openStore(b, b.TempDir())
	a := newAuthority(b, standing.Options{Grants: s})
	g := line(5)
	_, stop := a.Watch(context.Background(), g)
	defer stop()
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Check(context.Background(), g); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheckAndWatch(b *testing.B) {
	s := openStore(b, b.TempDir())
	a := newAuthority(b, standing.Options{Grants: s})
	g := line(5)
	b.ReportAllocs()
	for b.Loop() {
		if err := a.Check(context.Background(), g); err != nil {
			b.Fatal(err)
		}
		_, stop := a.Watch(context.Background(), g)
		stop()
	}
}
