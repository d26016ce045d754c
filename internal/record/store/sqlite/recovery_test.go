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
			if n < 5 { // two runs with their questions, two leases, and one that does not fail
				t.Errorf("a recovery has only %d writes", n)
			}
		})
	}
}

// Whichever write of the end of a live run fails, the run and its questions go on together. A recovery
// leaves it alone, since its owner lives.
func TestAnEndThatFailedChangesNothing(t *testing.T) {
	ctx := context.Background()
	for n := 0; ; n++ {
		s := leftOpen(t, false)
		q := store.QueuedRun{ID: id(99), Priority: 1, Principal: "user:ann", Queued: time.Now(), Due: time.Now(), Task: store.Task{Plan: []byte("x"), Doc: []byte(`{}`)}}
		_, _, err := s.Enqueue(ctx, q, store.QueueRoom{})
		must(0, err)
		run := must(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: q.ID[:], Mode: ledger.Live}}, nil))
		for i := range byte(2) {
			must(s.Request(ctx, store.Approval{ID: id(90 + i), Binding: [32]byte{90 + i}, Run: run, Needs: 1, Asked: time.Now(), Until: time.Now().Add(time.Hour), GoodFor: time.Hour}))
		}
		failed := s.FailCommit(n)
		err = s.TimeOutQueued(ctx, q.ID)
		more := failed()
		status, want := must(s.Run(ctx, q.ID.String())).Status, store.Waiting
		if status != ledger.Running {
			want = store.Lapsed
		}
		for i := range byte(2) {
			if is := must(s.Question(ctx, id(90+i).String())).State; is != want || more != (err != nil) {
				t.Errorf("write %d failed: %v; TimeOutQueued: %v; the run is %s and its question %v", n, more, err, status, is)
			}
		}
		if !more { // the next write fails
			return
		}
		must(s.Recover(ctx))
		if then := must(s.Run(ctx, q.ID.String())).Status; then != status {
			t.Errorf("write %d failed: the run was %s, and is %s after a recovery", n, status, then)
		}
	}
}
