package budget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// field is a kind of amount.
type field uint8

const (
	calls field = iota
	bytesIn
	bytesOut
	tokens
	money
	elapsed // microseconds
	children
	tokensIn
	tokensOut
	kinds     // the first of them
	numFields = kinds + field(len(grant.KindCounts{}))
)

// exact amounts are drawn in full or not at all.
func (f field) exact() bool { return f == calls || f == children || f >= kinds }

type vector [numFields]int64

func amounts(a grant.Amounts) vector {
	var v vector
	copy(v[:], a.List())
	return v
}

// meter is one limit of one node, as a run draws from it. The run's lease is
// free + taken + spent.
type meter struct {
	id     store.MeterID
	holder string
	field  field

	free  int64 // leased and not drawn; negative: more was used than drawn
	taken int64 // drawn by running calls
	spent int64 // used, not yet settled
	chunk int64 // how much to lease in advance
	last  time.Time
	dry   time.Time // until then only needed amounts are leased: the store had no more
}

func (m *meter) words() string {
	switch {
	case strings.HasPrefix(m.id.What, grant.MeterOfTools):
		return fmt.Sprintf("calls of %q", strings.TrimPrefix(m.id.What, grant.MeterOfTools))
	case strings.HasPrefix(m.id.What, grant.MeterEachTool):
		return fmt.Sprintf("calls of %q", strings.TrimPrefix(m.id.What, grant.MeterEachTool))
	}
	if kind, ok := strings.CutPrefix(m.id.What, grant.MeterOfKind); ok {
		return "calls with " + kind
	}
	return strings.ReplaceAll(m.id.What, "_", " ")
}

// state describes a limit: ": 3 of 10 used, 7 held by runs under way".
func (m *meter) state(s store.Meter) string {
	show := func(n int64) string {
		switch m.field {
		case elapsed:
			return (time.Duration(n) * time.Microsecond).Round(time.Millisecond).String()
		case money:
			return grant.MoneyText(n)
		}
		return fmt.Sprint(n)
	}
	text := ": " + show(s.Spent) + " of " + show(s.Limit) + " used"
	if s.Leased > 0 {
		text += ", " + show(s.Leased) + " held by runs under way"
	}
	return text
}

// runBudget holds the amounts that one run has leased.
type runBudget struct {
	manager *Manager
	run     ledger.Seq

	leasing sync.Mutex // held while leasing, so that concurrent callers lease once

	mu     sync.Mutex
	meters map[store.MeterID]*meter
	any    []*meter // limits of all calls
	named  []named
	byTool map[tool.ID][]*meter
	drawn  time.Time // the time of the last draw
	over   bool
}

// named is a limit of the calls of some tools, or if match is nil, of each tool.
type named struct {
	node  grant.Node
	what  string
	match func(tool.ID) bool
}

// newRunBudget makes the budget of a run; nil if nothing limits it.
func newRunBudget(b *Manager, run *runner.Run) (*runBudget, error) {
	p := &runBudget{manager: b, run: run.Seq, meters: map[store.MeterID]*meter{}, byTool: map[tool.ID][]*meter{}, drawn: time.Now()}
	for _, n := range run.Grant.Nodes() {
		if !n.Kept {
			continue
		}
		for _, l := range n.Budgets.Limits() {
			pattern, ofTools := strings.CutPrefix(l.What, grant.MeterOfTools)
			f := slices.Index(meterNames, l.What)
			switch {
			case f >= 0:
				p.any = append(p.any, p.meter(n, l.What, field(f)))
			case ofTools:
				match, err := grant.ToolPattern(pattern)
				if err != nil {
					return nil, err
				}
				p.named = append(p.named, named{node: n, what: l.What, match: match})
			default:
				p.named = append(p.named, named{node: n, what: l.What})
			}
		}
	}
	if len(p.any)+len(p.named) == 0 {
		return nil, nil //nolint:nilnil // nothing limits the run
	}
	return p, nil
}

// meterNames are the meters of all calls, by field.
var meterNames = func() []string {
	names := []string{grant.MeterCalls, grant.MeterBytesIn, grant.MeterBytesOut, grant.MeterTokens, grant.MeterMoney, grant.MeterTime, grant.MeterChildren,
		grant.MeterTokensIn, grant.MeterTokensOut}
	for _, k := range grant.Kinds() {
		names = append(names, grant.MeterOfKind+k)
	}
	return names
}()

func (p *runBudget) meter(n grant.Node, what string, f field) *meter {
	id := store.MeterID{Node: n.ID, What: what}
	m := p.meters[id]
	if m == nil {
		m = &meter{id: id, holder: n.Holder, field: f, chunk: firstChunk}
		p.meters[id] = m
	}
	return m
}

// metersOf returns the meters that a tool's calls draw from.
func (p *runBudget) metersOf(id tool.ID) []*meter {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, ok := p.byTool[id]
	if ok {
		return list
	}
	list = append(list, p.any...)
	for _, n := range p.named {
		switch {
		case n.match == nil:
			list = append(list, p.meter(n.node, n.what+string(id), calls))
		case n.match(id):
			list = append(list, p.meter(n.node, n.what, calls))
		}
	}
	p.byTool[id] = list
	return list
}

const (
	firstChunk = 8
	maxChunk   = 1 << 12
	dryFor     = time.Second
)

// draw draws amounts from meters, and leases the missing part. It adds the drawn amounts to given.
func (p *runBudget) draw(ctx context.Context, ms []*meter, want vector, given *vector) error {
	var since time.Time
	for asked := false; ; asked = true {
		if p.take(ms, want, asked, given) {
			return nil
		}
		short, err := p.lease(ctx, ms, want, asked)
		if err == nil {
			continue
		}
		if short == nil || !errors.Is(err, fault.BudgetSpent) {
			return err
		}
		if since.IsZero() {
			since = time.Now()
			p.manager.waiting.Add(1)
			defer p.manager.waiting.Add(-1)
		}
		if again, gerr := p.waitForReturn(ctx, short, since); gerr != nil || !again {
			serr := p.settle(ctx) // so that the error counts what this run used
			return errors.Join(gerr, serr, p.manager.exhausted(ctx, short, err))
		}
	}
}

// waitForReturn waits for other runs to return what a meter lacks. It reports whether
// another try makes sense.
func (p *runBudget) waitForReturn(ctx context.Context, m *meter, since time.Time) (bool, error) {
	if found, err := p.manager.returnFrom(ctx, m.id, p); err != nil || found {
		return found, err
	}
	wait := patience
	if !m.field.exact() && m.field != elapsed {
		wait = longPatience
	}
	if time.Since(since) > wait {
		return false, nil
	}
	if ctx.Err() != nil {
		return false, nil //nolint:nilerr // the exhausted budget is the better error
	}
	list, err := p.manager.store.Spent(ctx, m.id.Node)
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	own := m.free + m.spent
	if m.field.exact() {
		own += m.taken // its calls will use it
	}
	p.mu.Unlock()
	for _, s := range list {
		if s.ID == m.id && s.Leased > max(0, own) {
			p.manager.awaitReturn(ctx)
			return true, nil
		}
	}
	return false, nil
}

// take draws from the leased amounts, if they are enough. After the store was asked, any part of an
// inexact amount is enough.
func (p *runBudget) take(ms []*meter, want vector, asked bool, given *vector) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.drawn = now
	var get vector
	for _, m := range ms {
		w := want[m.field]
		if w == 0 {
			continue
		}
		if m.missing(w, asked, now) {
			return false
		}
		if get[m.field] == 0 || m.free < get[m.field] {
			get[m.field] = min(w, m.free)
		}
	}
	for _, m := range ms {
		m.free -= get[m.field]
		m.taken += get[m.field]
	}
	for f := range get {
		given[f] += get[f]
	}
	return true
}

// missing reports whether more must be leased.
func (m *meter) missing(w int64, asked bool, now time.Time) bool {
	if m.free >= w {
		return false
	}
	return m.field.exact() || m.free <= 0 || !asked && now.After(m.dry)
}

// lease leases what the meters lack. With an error it returns the meter that is short, if
// one is.
func (p *runBudget) lease(ctx context.Context, ms []*meter, want vector, asked bool) (*meter, error) {
	p.leasing.Lock()
	defer p.leasing.Unlock()
	asks, of := p.asks(ms, want, asked)
	if len(asks) == 0 {
		return nil, nil // another caller leased meanwhile
	}
	got, err := p.manager.store.Lease(ctx, p.run, asks)
	if err == nil {
		return nil, p.put(of, asks, got)
	}
	if errors.Is(err, fault.BudgetSpent) {
		return p.shortest(ctx, of, asks), err
	}
	return nil, err
}

func (p *runBudget) asks(ms []*meter, want vector, asked bool) (asks []store.Lease, of []*meter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, m := range ms {
		w := want[m.field]
		if w == 0 || !m.missing(w, asked, now) {
			continue
		}
		a := store.Lease{Meter: m.id, Least: w - m.free, Want: w - m.free, Spare: 3 * w}
		if m.field.exact() {
			if m.chunk < maxChunk && now.Sub(m.last) < 100*time.Millisecond {
				m.chunk *= 2
			}
			a.Spare = m.chunk
		} else {
			a.Least = max(0, 1-m.free)
		}
		m.last = now
		asks, of = append(asks, a), append(of, m)
	}
	return asks, of
}

func (p *runBudget) put(of []*meter, asks, got []store.Lease) error {
	if len(got) != len(asks) {
		return fault.New(fault.Internal, "%d leases for %d", len(got), len(asks))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, m := range of {
		m.free += got[i].Want
		if got[i].Want < asks[i].Want {
			m.dry = time.Now().Add(dryFor)
		}
	}
	return nil
}

// shortest finds the meter of which the store had too little.
func (p *runBudget) shortest(ctx context.Context, of []*meter, asks []store.Lease) *meter {
	left := map[uuid.UUID]map[string]int64{}
	for i, m := range of {
		node, ok := left[m.id.Node]
		if !ok {
			node = map[string]int64{}
			list, err := p.manager.store.Spent(ctx, m.id.Node)
			if err != nil {
				return m
			}
			for _, s := range list {
				node[s.ID.What] = s.Limit - s.Spent - s.Leased
			}
			left[m.id.Node] = node
		}
		if n, ok := node[m.id.What]; ok && n < asks[i].Least {
			return m
		}
	}
	return of[0]
}

// idle reports whether the run has leases and made no draw for a while.
func (p *runBudget) idle(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.drawn) < idleAfter {
		return false
	}
	for _, m := range p.meters {
		if m.free > 0 || m.spent > 0 {
			return true
		}
	}
	return false
}

func (p *runBudget) holds(id store.MeterID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.meters[id]
	return m != nil && m.free > 0
}

// settle charges the spent amounts and returns the free ones.
func (p *runBudget) settle(ctx context.Context) error {
	p.leasing.Lock()
	defer p.leasing.Unlock()
	var done []store.Settlement
	var of []*meter
	p.mu.Lock()
	for _, m := range p.meters {
		if m.free <= 0 && m.spent == 0 {
			continue
		}
		done, of = append(done, store.Settlement{Meter: m.id, Spent: m.spent, Return: max(0, m.free)}), append(of, m)
	}
	for i, m := range of {
		m.spent, m.free = 0, m.free-done[i].Return
	}
	p.mu.Unlock()
	if len(done) == 0 {
		return nil
	}
	err := p.manager.store.Settle(ctx, p.run, done)
	p.mu.Lock()
	for i, m := range of {
		if err != nil {
			m.spent, m.free = m.spent+done[i].Spent, m.free+done[i].Return
			continue
		}
		m.free = max(m.free, -m.taken) // use beyond the lease is now charged
	}
	p.mu.Unlock()
	p.manager.wakeWaiters()
	return err
}

// close settles for the last time. Amounts that running calls have drawn count as used.
func (p *runBudget) close(ctx context.Context) error {
	p.mu.Lock()
	p.over = true
	for _, m := range p.meters {
		m.spent, m.taken = m.spent+m.taken, 0
	}
	p.mu.Unlock()
	return p.settle(ctx)
}
