package budget_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/budget"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

func root(b grant.Budgets) grant.Grant {
	return grant.New(grant.Terms{ID: uuid.New(), Holder: "user:ann", Budgets: b, Kept: true})
}

func child(g grant.Grant, b grant.Budgets) grant.Grant {
	return g.Derive(grant.Terms{ID: uuid.New(), Holder: "agent:x", Budgets: b, Kept: true})
}

var seqs atomic.Uint64

func run(g grant.Grant) *runner.Run {
	return &runner.Run{Info: runner.Info{Grant: g}, Seq: ledger.Seq(seqs.Add(1))}
}

func newManager(t testing.TB) (*budget.Manager, *memory) {
	t.Helper()
	m := newMemory()
	b := budget.New(m)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if m.exceeds != "" {
			t.Errorf("more %s than the limit were leased", m.exceeds)
		}
	})
	return b, m
}

// call reserves one call and says it was made.
func call(t testing.TB, b *budget.Manager, r *runner.Run, id tool.ID) error {
	t.Helper()
	res, err := b.Reserve(t.Context(), r, id, grant.Amounts{Calls: 1})
	if err == nil {
		res.Settle(grant.Amounts{Calls: 1})
	}
	return err
}

func TestCallsAreDrawnFromEveryAncestor(t *testing.T) {
	b, m := newManager(t)
	top := root(grant.Budgets{Calls: 5})
	left, right := child(top, grant.Budgets{Calls: 4}), child(child(top, grant.Budgets{}), grant.Budgets{PerTool: []grant.ToolBudget{{Tool: "http.*", Calls: 1}}})
	l, r := run(left), run(right)
	for range 3 {
		if err := call(t, b, l, "fs.read"); err != nil {
			t.Fatal(err)
		}
	}
	if err := call(t, b, r, "http.get"); err != nil {
		t.Fatal(err)
	}
	err := call(t, b, r, "http.post")
	if !errors.Is(err, fault.BudgetSpent) || !strings.Contains(err.Error(), `calls of "http.*" left: 1 of 1 used`) {
		t.Errorf("a second call of http.*: %v", err)
	}
	if err := call(t, b, r, "fs.read"); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*runner.Run{l, r} {
		if err := call(t, b, x, "fs.read"); !errors.Is(err, fault.BudgetSpent) || !strings.Contains(err.Error(), "5 of 5 used") {
			t.Errorf("a sixth call: %v", err)
		}
	}
	for _, x := range []*runner.Run{l, r} {
		if err := b.Done(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if spent, leased := m.all(top.ID(), grant.MeterCalls); spent != 5 || leased != 0 {
		t.Errorf("the root: %d spent, %d leased", spent, leased)
	}
	if spent, leased := m.all(left.ID(), grant.MeterCalls); spent != 3 || leased != 0 {
		t.Errorf("the left child: %d spent, %d leased", spent, leased)
	}
}

func TestWhatIsNotUsedIsGivenBack(t *testing.T) {
	b, m := newManager(t)
	g := root(grant.Budgets{Calls: 1, BytesIn: 1000, EachTool: 1})
	r := run(g)
	res, err := b.Reserve(t.Context(), r, "http.get", grant.Amounts{Calls: 1, BytesIn: 5000})
	if err != nil || res.Given().BytesIn != 1000 {
		t.Fatalf("%+v, %v", res, err)
	}
	res.Settle(grant.Amounts{}) // the call was refused after all
	res.Settle(grant.Amounts{Calls: 1})
	if res, err = b.Reserve(t.Context(), r, "http.get", grant.Amounts{Calls: 1, BytesIn: 600}); err != nil || res.Given().BytesIn != 600 {
		t.Fatalf("%+v, %v", res, err)
	}
	res.Settle(grant.Amounts{Calls: 1, BytesIn: 700}) // more than it was given
	if err := b.Done(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if spent, leased := m.all(g.ID(), grant.MeterBytesIn); spent != 700 || leased != 0 {
		t.Errorf("%d bytes spent, %d leased", spent, leased)
	}
	err = call(t, b, run(g), "http.get")
	if !errors.Is(err, fault.BudgetSpent) {
		t.Errorf("another run's call: %v", err)
	}
}

func TestAGrantThatLimitsNothingCostsNothing(t *testing.T) {
	b, m := newManager(t)
	for name, g := range map[string]grant.Grant{
		"no limits":      root(grant.Budgets{}),
		"a depth alone":  root(grant.Budgets{Depth: new(int)}),
		"limits, unkept": grant.New(grant.Terms{ID: uuid.New(), Budgets: grant.Budgets{Calls: 1}}),
		"the zero grant": {},
	} {
		r := run(g)
		for range 3 {
			if err := call(t, b, r, "fs.read"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if m.leases != 0 {
		t.Errorf("%d leases", m.leases)
	}
}

func TestAnIdleRunKeepsNothingFromOthers(t *testing.T) {
	m := newMemory()
	one, two := budget.New(m), budget.New(m) // two processes
	defer one.Close()
	defer two.Close()
	g := root(grant.Budgets{Calls: 40})
	if err := call(t, one, run(g), "fs.read"); err != nil {
		t.Fatal(err)
	}
	if _, leased := m.all(g.ID(), grant.MeterCalls); leased < 2 {
		t.Fatal("the first leased no more than it needed")
	}
	r := run(g)
	for i := range 39 {
		if err := call(t, two, r, "fs.read"); err != nil {
			t.Fatalf("call %d: %v", i+2, err)
		}
	}
	if err := call(t, two, r, "fs.read"); !errors.Is(err, fault.BudgetSpent) {
		t.Errorf("call 41: %v", err)
	}
}

func TestTimeIsTakenWhileItPasses(t *testing.T) {
	b, m := newManager(t)
	g := root(grant.Budgets{Time: 300 * time.Millisecond})
	r := run(g)
	began := time.Now()
	first, err := b.Reserve(t.Context(), r, "shell.run", grant.Amounts{Calls: 1})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-first.Over():
	case <-time.After(time.Minute):
		t.Fatal("the call's time never ended")
	}
	if d := time.Since(began); d < 250*time.Millisecond {
		t.Errorf("over after %v", d)
	}
	first.Settle(grant.Amounts{Calls: 1, Time: 300 * time.Millisecond})
	if _, err := b.Reserve(t.Context(), r, "shell.run", grant.Amounts{Calls: 1}); !errors.Is(err, fault.BudgetSpent) {
		t.Errorf("a call without time left: %v", err)
	}
	if err := b.Done(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if spent, leased := m.all(g.ID(), grant.MeterTime); spent != 300_000 || leased != 0 {
		t.Errorf("%d µs spent, %d leased", spent, leased)
	}
}

func TestALongCallTakesMoreTime(t *testing.T) {
	b, _ := newManager(t)
	r := run(root(grant.Budgets{Time: time.Hour}))
	res, err := b.Reserve(t.Context(), r, "shell.run", grant.Amounts{Calls: 1})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-res.Over():
		t.Error("over, though there was time left")
	case <-time.After(2500 * time.Millisecond):
	}
	res.Settle(grant.Amounts{Calls: 1, Time: 2500 * time.Millisecond})
}

// TestATreeNeverOutspendsItself lets random trees of grants draw at random from
// two processes at once, one of which forgets to give back.
func TestATreeNeverOutspendsItself(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newMemory()
		managers := []*budget.Manager{budget.New(m), budget.New(m)}
		limit := func(label string) int64 { return rapid.Int64Range(0, 60).Draw(rt, label) }
		some := func(i int) grant.Budgets {
			return grant.Budgets{Calls: limit(fmt.Sprintf("calls%d", i)), BytesOut: limit(fmt.Sprintf("bytes%d", i)) * 10}
		}
		tree := []grant.Grant{root(some(0))}
		for i := range rapid.IntRange(1, 7).Draw(rt, "nodes") {
			tree = append(tree, child(tree[rapid.IntRange(0, len(tree)-1).Draw(rt, fmt.Sprintf("parent%d", i+1))], some(i+1)))
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		made := map[uuid.UUID]int64{}
		for i, g := range tree {
			wg.Go(func() {
				m, r := managers[i%2], run(g)
				for range 15 {
					ctx, stop := context.WithTimeout(context.Background(), 20*time.Millisecond)
					res, err := m.Reserve(ctx, r, "t.x", grant.Amounts{Calls: 1, BytesOut: 1 + rand.Int64N(30)})
					stop()
					if err != nil {
						continue
					}
					used := grant.Amounts{Calls: 1, BytesOut: res.Given().BytesOut * rand.Int64N(2)}
					mu.Lock()
					for _, n := range g.Nodes() {
						made[n.ID]++
					}
					mu.Unlock()
					res.Settle(used)
				}
				if err := m.Done(context.Background(), r); err != nil {
					rt.Error(err)
				}
			})
		}
		wg.Wait()
		for _, b := range managers {
			if err := b.Close(); err != nil {
				rt.Fatal(err)
			}
		}
		if m.exceeds != "" {
			rt.Fatalf("more %s were leased than there are", m.exceeds)
		}
		for _, g := range tree {
			n := g.Nodes()[len(g.Nodes())-1]
			spent, leased := m.all(n.ID, grant.MeterCalls)
			bytes, held := m.all(n.ID, grant.MeterBytesOut)
			if l := n.Budgets.Calls; l > 0 && (spent != made[n.ID] || spent > l || leased != 0) {
				rt.Errorf("%d calls made, %d counted, %d leased of %d", made[n.ID], spent, leased, l)
			}
			if l := n.Budgets.BytesOut; l > 0 && (bytes > l || held != 0) {
				rt.Errorf("%d bytes counted, %d leased of %d", bytes, held, l)
			}
		}
	})
}

func BenchmarkDrawFiveDeep(b *testing.B) {
	m, _ := newManager(b)
	g := root(grant.Budgets{Calls: 1 << 40})
	for range 4 {
		g = child(g, grant.Budgets{Calls: 1 << 40, BytesIn: 1 << 40})
	}
	b.SetParallelism(32) // 64 goroutines on two cores
	b.RunParallel(func(pb *testing.PB) {
		r := run(g)
		for pb.Next() {
			res, err := m.Reserve(context.Background(), r, "fs.read", grant.Amounts{Calls: 1, BytesIn: 1000})
			if err != nil {
				b.Error(err)
				return
			}
			res.Settle(grant.Amounts{Calls: 1, BytesIn: 10})
		}
	})
}

// BenchmarkDrawTwoProcesses draws from one budget on disk by way of two managers,
// each over a connection of its own, as two processes do.
func BenchmarkDrawTwoProcesses(b *testing.B) {
	home := b.TempDir()
	g := root(grant.Budgets{Calls: 1 << 40})
	var managers []*budget.Manager
	var runs []*runner.Run
	for range 2 {
		s := must(sqlite.Open(context.Background(), sqlite.Options{Home: home}))
		m := budget.New(s)
		managers, runs = append(managers, m), append(runs, recordRun(s, g))
		b.Cleanup(func() {
			if err := errors.Join(m.Close(), s.Close()); err != nil {
				b.Error(err)
			}
		})
	}
	var wg sync.WaitGroup
	b.ResetTimer()
	for i, m := range managers {
		wg.Go(func() {
			for range b.N/2 + 1 {
				res, err := m.Reserve(context.Background(), runs[i], "fs.read", grant.Amounts{Calls: 1})
				if err != nil {
					b.Error(err)
					return
				}
				res.Settle(grant.Amounts{Calls: 1})
			}
		})
	}
	wg.Wait()
}
