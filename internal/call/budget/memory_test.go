package budget_test

import (
	"context"
	"strings"
	"sync"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// memory keeps budgets as store.Budgets says, for one process. It checks with
// every change that no limit is exceeded.
type memory struct {
	mu      sync.Mutex
	limit   map[store.MeterID]int64
	spent   map[store.MeterID]int64
	leased  map[store.MeterID]map[ledger.Seq]int64
	leases  int
	exceeds string
}

func newMemory() *memory {
	return &memory{limit: map[store.MeterID]int64{}, spent: map[store.MeterID]int64{}, leased: map[store.MeterID]map[ledger.Seq]int64{}}
}

func (m *memory) OpenBudget(_ context.Context, node uuid.UUID, b grant.Budgets) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	set := func(what string, n int64) {
		id := store.MeterID{Node: node, What: what}
		if have, ok := m.limit[id]; !ok || n < have {
			m.limit[id] = n
		}
	}
	for _, l := range b.Limits() {
		set(l.What, l.Most)
	}
	return nil
}

func (m *memory) left(id store.MeterID) (int64, bool) {
	limit, ok := m.limit[id]
	if !ok && strings.HasPrefix(id.What, grant.MeterEachTool) {
		limit, ok = m.limit[store.MeterID{Node: id.Node, What: grant.MeterEachTool}]
		m.limit[id] = limit
	}
	for _, n := range m.leased[id] {
		limit -= n
	}
	return limit - m.spent[id], ok
}

func (m *memory) Lease(_ context.Context, run ledger.Seq, asks []store.Lease) ([]store.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leases++
	got := make([]store.Lease, len(asks))
	for i, a := range asks {
		left, ok := m.left(a.Meter)
		if !ok {
			return nil, fault.New(fault.Internal, "%v has no limit", a.Meter)
		}
		if left < a.Least {
			return nil, fault.New(fault.BudgetSpent, "%v", a.Meter)
		}
		n := min(a.Want, max(left, 0))
		n += max(0, min(a.Spare, (left-n)/4))
		got[i] = store.Lease{Meter: a.Meter, Want: n}
	}
	for _, g := range got {
		if m.leased[g.Meter] == nil {
			m.leased[g.Meter] = map[ledger.Seq]int64{}
		}
		m.leased[g.Meter][run] += g.Want
		if left, _ := m.left(g.Meter); left < 0 {
			m.exceeds = g.Meter.What
		}
	}
	return got, nil
}

func (m *memory) Settle(_ context.Context, run ledger.Seq, done []store.Settlement) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range done {
		m.spent[d.Meter] += d.Spent
		if m.leased[d.Meter] == nil {
			m.leased[d.Meter] = map[ledger.Seq]int64{}
		}
		m.leased[d.Meter][run] = max(0, m.leased[d.Meter][run]-d.Spent-d.Return)
	}
	return nil
}

func (m *memory) Spent(_ context.Context, node uuid.UUID) ([]store.Meter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []store.Meter
	for id, limit := range m.limit {
		if id.Node != node {
			continue
		}
		s := store.Meter{ID: id, Limit: limit, Spent: m.spent[id]}
		for _, n := range m.leased[id] {
			s.Leased += n
		}
		out = append(out, s)
	}
	return out, nil
}

// all is what a node's runs spent of a limit, and what is still leased.
func (m *memory) all(node uuid.UUID, what string) (spent, leased int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id := store.MeterID{Node: node, What: what}
	for _, n := range m.leased[id] {
		leased += n
	}
	return m.spent[id], leased
}
