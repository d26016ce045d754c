package storetest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Budgets checks that a store is a [store.Budgets] as well.
func Budgets(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"a lease gives what is there and leaves some to others", budgetsLease},
		{"a lease gives all or nothing", budgetsAllOrNothing},
		{"a node opened again keeps the smaller limits and what was spent", budgetsOpenAgain},
		{"what has no limit cannot be leased", budgetsUnlimited},
		{"each tool has a limit of its own", budgetsEachTool},
		{"two stores share a budget and never exceed it", budgetsTwo},
		{"a run that is over is accounted for by its events", budgetsReclaim},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

type budgetStore interface {
	store.Store
	store.Budgets
}

func openBudgets(t *testing.T, open OpenStore, home string) budgetStore {
	t.Helper()
	b, ok := open(t, home).(budgetStore)
	if !ok {
		t.Fatal("the store keeps no budgets")
	}
	return b
}

func meterOf(node uuid.UUID, what string) store.MeterID { return store.MeterID{Node: node, What: what} }

// lease asks for n calls and gives what came of it.
func lease(t *testing.T, b store.Budgets, run ledger.Seq, id store.MeterID, n, spare int64) int64 {
	t.Helper()
	got, err := b.Lease(t.Context(), run, []store.Lease{{Meter: id, Least: n, Want: n, Spare: spare}})
	if err != nil || len(got) != 1 || got[0].Meter != id {
		t.Fatalf("%d of %s: %+v, %v", n, id.What, got, err)
	}
	return got[0].Want
}

func spent(t *testing.T, b store.Budgets, id store.MeterID) store.Meter {
	t.Helper()
	list, err := b.Spent(t.Context(), id.Node)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if m.ID == id {
			return m
		}
	}
	return store.Meter{}
}

func budgetsLease(t *testing.T, open OpenStore) {
	b := openBudgets(t, open, t.TempDir())
	node := uuid.New()
	calls := meterOf(node, grant.MeterCalls)
	if err := b.OpenBudget(t.Context(), node, grant.Budgets{Calls: 100}); err != nil {
		t.Fatal(err)
	}
	if n := lease(t, b, 1, calls, 20, 1000); n != 40 {
		t.Errorf("of 100, 20 and spare amounts gave %d, not 20 and a quarter of 80", n)
	}
	if n := lease(t, b, 2, calls, 60, 1000); n != 60 {
		t.Errorf("the last 60 gave %d", n)
	}
	if _, err := b.Lease(t.Context(), 3, []store.Lease{{Meter: calls, Least: 1, Want: 1}}); !errors.Is(err, fault.BudgetSpent) {
		t.Errorf("one more: %v", err)
	}
	if got, err := b.Lease(t.Context(), 3, []store.Lease{{Meter: calls, Want: 5}}); err != nil || got[0].Want != 0 {
		t.Errorf("at least nothing: %+v, %v", got, err)
	}
	if err := b.Settle(t.Context(), 1, []store.Settlement{{Meter: calls, Spent: 15, Return: 25}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Settle(t.Context(), 2, []store.Settlement{{Meter: calls, Spent: 61}}); err != nil { // one more than it had
		t.Fatal(err)
	}
	if m := spent(t, b, calls); m.Limit != 100 || m.Spent != 76 || m.Leased != 0 {
		t.Errorf("%+v", m)
	}
}

func budgetsAllOrNothing(t *testing.T, open OpenStore) {
	b := openBudgets(t, open, t.TempDir())
	one, two := uuid.New(), uuid.New()
	for node, n := range map[uuid.UUID]int64{one: 10, two: 1} {
		if err := b.OpenBudget(t.Context(), node, grant.Budgets{Calls: n}); err != nil {
			t.Fatal(err)
		}
	}
	asks := []store.Lease{{Meter: meterOf(one, grant.MeterCalls), Least: 5, Want: 5}, {Meter: meterOf(two, grant.MeterCalls), Least: 2, Want: 2}}
	if got, err := b.Lease(t.Context(), 1, asks); !errors.Is(err, fault.BudgetSpent) {
		t.Errorf("%+v, %v", got, err)
	}
	if m := spent(t, b, meterOf(one, grant.MeterCalls)); m.Leased != 0 {
		t.Errorf("a lease that failed took %+v", m)
	}
}

func budgetsOpenAgain(t *testing.T, open OpenStore) {
	home := t.TempDir()
	b := openBudgets(t, open, home)
	node := uuid.New()
	calls := meterOf(node, grant.MeterCalls)
	for _, n := range []int64{10, 20, 8} {
		if err := b.OpenBudget(t.Context(), node, grant.Budgets{Calls: n}); err != nil {
			t.Fatal(err)
		}
		lease(t, b, 1, calls, 1, 0)
		if err := b.Settle(t.Context(), 1, []store.Settlement{{Meter: calls, Spent: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if m := spent(t, openBudgets(t, open, home), calls); m.Limit != 8 || m.Spent != 3 {
		t.Errorf("%+v", m)
	}
}

func budgetsUnlimited(t *testing.T, open OpenStore) {
	b := openBudgets(t, open, t.TempDir())
	if got, err := b.Lease(t.Context(), 1, []store.Lease{{Meter: meterOf(uuid.New(), grant.MeterCalls), Least: 1, Want: 1}}); err == nil {
		t.Errorf("got %+v", got)
	}
	node := uuid.New()
	if err := b.OpenBudget(t.Context(), node, grant.Budgets{Calls: 1}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Lease(t.Context(), 1, []store.Lease{{Meter: meterOf(node, grant.MeterTokens), Least: 1, Want: 1}}); err == nil {
		t.Errorf("got %+v", got)
	}
}

func budgetsEachTool(t *testing.T, open OpenStore) {
	b := openBudgets(t, open, t.TempDir())
	node := uuid.New()
	if err := b.OpenBudget(t.Context(), node, grant.Budgets{EachTool: 2, PerTool: []grant.ToolBudget{{Tool: "fs.*", Calls: 3}}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"fs.read", "fs.write"} {
		each := meterOf(node, grant.MeterEachTool+id)
		lease(t, b, 1, each, 2, 0)
		if _, err := b.Lease(t.Context(), 1, []store.Lease{{Meter: each, Least: 1, Want: 1}}); !errors.Is(err, fault.BudgetSpent) {
			t.Errorf("a third call of %s: %v", id, err)
		}
	}
	lease(t, b, 1, meterOf(node, grant.MeterOfTools+"fs.*"), 3, 0)
}

func budgetsTwo(t *testing.T, open OpenStore) {
	home := t.TempDir()
	node := uuid.New()
	calls := meterOf(node, grant.MeterCalls)
	var wg sync.WaitGroup
	var mu sync.Mutex
	all := int64(0)
	for run := range ledger.Seq(4) {
		b := openBudgets(t, open, home)
		if err := b.OpenBudget(t.Context(), node, grant.Budgets{Calls: 200}); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for {
				got, err := b.Lease(context.Background(), run+1, []store.Lease{{Meter: calls, Least: 1, Want: 1, Spare: 7}})
				if err != nil {
					if !errors.Is(err, fault.BudgetSpent) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				all += got[0].Want
				mu.Unlock()
				if err := b.Settle(context.Background(), run+1, []store.Settlement{{Meter: calls, Spent: got[0].Want}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if m := spent(t, openBudgets(t, open, home), calls); m.Spent != 200 || all != 200 || m.Leased != 0 {
		t.Errorf("%d given, %+v", all, m)
	}
}

func budgetsReclaim(t *testing.T, open OpenStore) {
	b := openBudgets(t, open, t.TempDir())
	node := uuid.New()
	if err := b.OpenBudget(t.Context(), node, grant.Budgets{Calls: 50, BytesOut: 1000, Time: time.Minute, PerTool: []grant.ToolBudget{{Tool: "http.*", Calls: 9}}}); err != nil {
		t.Fatal(err)
	}
	run, _ := start(t, b, nil)
	for what, n := range map[string]int64{grant.MeterCalls: 30, grant.MeterBytesOut: 500, grant.MeterTime: 2_000_000, grant.MeterOfTools + "http.*": 5} {
		lease(t, b, run, meterOf(node, what), n, 0)
	}
	if err := b.Settle(t.Context(), run, []store.Settlement{{Meter: meterOf(node, grant.MeterCalls), Spent: 1}}); err != nil {
		t.Fatal(err)
	}
	usage := func(k ledger.Kind, call uint32, s tool.Status, a grant.Amounts) ledger.Entry {
		e := ledger.Event{Kind: k, At: base, Run: run, Call: call, Status: s, Usage: a.List()}
		if k != ledger.CallOutcome {
			e.Tool = "http.get"
			if call == 3 {
				e.Tool = "fs.read"
			}
		}
		return ledger.Entry{Event: e}
	}
	_, err := b.Append(t.Context(),
		usage(ledger.CallIntent, 1, 0, grant.Amounts{Calls: 1, BytesOut: 300}), usage(ledger.CallOutcome, 1, tool.Completed, grant.Amounts{Calls: 1, BytesOut: 40, Time: time.Second}),
		usage(ledger.CallIntent, 2, 0, grant.Amounts{Calls: 1, BytesOut: 200}), usage(ledger.CallOutcome, 2, tool.StatusInterrupted, grant.Amounts{}),
		usage(ledger.CallDone, 3, tool.Completed, grant.Amounts{Calls: 1}), usage(ledger.CallDone, 4, tool.StatusDenied, grant.Amounts{}),
		ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: base, Run: run, Status: tool.StatusInterrupted}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		if _, err := b.Recover(t.Context()); err != nil {
			t.Fatal(err)
		}
		for what, want := range map[string]int64{grant.MeterCalls: 3, grant.MeterBytesOut: 240, grant.MeterTime: 2_000_000, grant.MeterOfTools + "http.*": 2} {
			if m := spent(t, b, meterOf(node, what)); m.Spent != want || m.Leased != 0 {
				t.Errorf("%s: %+v, want %d spent", what, m, want)
			}
		}
	}
}
