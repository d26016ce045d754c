package sqlite_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// leftOpen is a home whose ledger has two open runs of a dead process, each with an open call, questions
// and a lease. If own is true, the runs are those of the store that is returned, which could not
// record their ends.
func leftOpen(t *testing.T, own bool) *sqlite.Store {
	t.Helper()
	ctx := context.Background()
	s := openWith(t, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(s.PutGrant(ctx, store.GrantRecord{ID: id(1), Holder: "agent:x", Issued: time.Now()}))
	check(s.OpenBudget(ctx, id(1), grant.Budgets{Calls: 100}))
	for n := range byte(2) {
		ghost, run := uuid.New(), uuid.Must(uuid.NewV7())
		e := ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live, Name: "run", Total: 2}
		if !own {
			e.Owner = ghost[:]
		}
		seq := must(s.Append(ctx, ledger.Entry{Event: e}))
		in, _ := call(seq, 1, false)
		must(s.Append(ctx, in))
		must(s.Lease(ctx, seq, []store.Lease{{Meter: store.MeterID{Node: id(1), What: grant.MeterCalls}, Least: 1, Want: 3}}))
		for i := range byte(2) {
			must(s.Request(ctx, store.Approval{ID: id(10 + 2*n + i), Binding: [32]byte{n, i}, Run: seq, Call: 1, Needs: 1, Asked: time.Now(), Until: time.Now().Add(time.Hour), GoodFor: time.Hour}))
		}
		if own {
			if _, err := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 2, Run: seq, Status: tool.Completed}}); err == nil {
				t.Fatal("a run with an open call ends")
			}
		}
	}
	return s
}

// Whichever write of a recovery fails, the next recovery does what is left, in the same process and
// in another one.
func TestARecoveryThatFailedIsRepeated(t *testing.T) {
	ctx := context.Background()
	for name, tt := range map[string]struct{ own, another bool }{
		"of a dead process":                     {false, false},
		"of a dead process, in another process": {false, true},
		"of this process":                       {true, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			for more := true; more; n++ {
				s := leftOpen(t, tt.own)
				failed := s.FailCommit(n)
				_, err := s.Recover(ctx)
				if more = failed(); more != (err != nil) {
					t.Fatalf("write %d failed: %v; Recover: %v", n, more, err)
				}
				next := s
				if tt.another {
					next = openWith(t, sqlite.Options{Home: s.Home(), Durability: sqlite.Process})
				}
				must(next.Recover(ctx))
				for _, r := range must(next.Runs(ctx, store.RunFilter{Limit: 10})) {
					if r.Status != "interrupted" {
						t.Errorf("after write %d failed, a run is %s", n, r.Status)
					}
				}
				if list := must(next.Questions(ctx, store.QuestionFilter{State: store.Waiting})); len(list) > 0 {
					t.Errorf("after write %d failed, %d questions wait", n, len(list))
				}
				for _, m := range must(next.Spent(ctx, id(1))) {
					if m.Leased != 0 {
						t.Errorf("after write %d failed, %d are leased", n, m.Leased)
					}
				}
				sound(t, next, nil)
			}
			if n < 7 {
				t.Errorf("a recovery has only %d writes", n)
			}
		})
	}
}
