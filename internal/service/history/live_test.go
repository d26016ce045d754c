package history_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/home"
)

func ok[T any](t *testing.T) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Live shows runs that have not ended, their open calls, the budgets of their grants and what
// waits for people; and nothing of the many runs that have ended.
func TestLive(t *testing.T) {
	ctx := t.Context()
	s := ok[*sqlite.Store](t)(sqlite.Open(ctx, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process}))
	defer s.Close()
	h := history.History{Home: &home.Home{}, Reader: func(context.Context) (store.Backend, error) { return s, nil }}
	begin := func(g uuid.UUID) ledger.Seq {
		id := uuid.Must(uuid.NewV7())
		return ok[ledger.Seq](t)(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: time.Now().UnixMicro(), ID: id[:], Mode: ledger.Live, Grant: g[:]}}))
	}
	root, child := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	for _, g := range []store.GrantRecord{{ID: root, Holder: "user:ann", Issued: time.Now()}, {ID: child, Parent: root, Holder: "agent:x", Issued: time.Now()}} {
		if err := s.PutGrant(ctx, g); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.OpenBudget(ctx, root, grant.Budgets{Calls: 100}); err != nil {
		t.Fatal(err)
	}
	for range 60 {
		seq := begin(uuid.Nil)
		ok[ledger.Seq](t)(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: time.Now().UnixMicro(), Run: seq, Status: tool.Completed}}))
	}
	run := begin(child)
	ok[ledger.Seq](t)(s.Append(ctx,
		ledger.Entry{Event: ledger.Event{Kind: ledger.CallDone, At: time.Now().UnixMicro(), Run: run, Call: 1, Tool: "fs.read", Status: tool.Completed}},
		ledger.Entry{Event: ledger.Event{Kind: ledger.CallIntent, At: time.Now().UnixMicro(), Run: run, Call: 3, Tool: "shell.run", Step: "build"}}))
	ok[[]store.Lease](t)(s.Lease(ctx, run, []store.Lease{{Meter: store.MeterID{Node: root, What: grant.MeterCalls}, Least: 5, Want: 5}}))
	q := store.Approval{ID: uuid.Must(uuid.NewV7()), Run: run, Call: 2, Holder: "agent:x", Needs: 1, Asked: time.Now(), Until: time.Now().Add(time.Hour), GoodFor: time.Hour, Body: json.RawMessage(`{"tool":"fs.write"}`)}
	ok[store.Approval](t)(s.Request(ctx, q))

	l := ok[history.Live](t)(h.Live(ctx))
	if len(l.Runs) != 1 || l.MoreRuns || len(l.Waiting) != 1 || l.Waiting[0].ID != q.ID {
		t.Fatalf("%d runs, waiting %+v", len(l.Runs), l.Waiting)
	}
	r := l.Runs[0]
	if r.Seq != run || r.Total != 3 || r.Completed != 1 || len(r.Calls) != 1 || r.Calls[0].Index != 3 || r.Calls[0].Tool != "shell.run" || r.Calls[0].Step != "build" {
		t.Errorf("%+v", r)
	}
	if len(r.Budgets) != 1 || r.Budgets[0] != (history.Budget{Grant: root, What: grant.MeterCalls, Limit: 100, Leased: 5}) {
		t.Errorf("budgets %+v", r.Budgets)
	}
	for range 60 {
		begin(uuid.Nil)
	}
	if l := ok[history.Live](t)(h.Live(ctx)); len(l.Runs) != 50 || !l.MoreRuns {
		t.Errorf("%d runs of 61, more: %v", len(l.Runs), l.MoreRuns)
	}
}
