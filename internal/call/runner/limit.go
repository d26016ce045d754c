package runner

import (
	"sync"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// runLimits enforces the policies' limits of one run (limits.calls and the like). A call
// is counted before it starts, so that concurrent calls never exceed a limit.
type runLimits struct {
	limits policy.Limits

	mu      sync.Mutex
	all     int
	byTool  map[tool.ID]int
	pattern []int
	used    grant.Amounts // bytes, tokens and money, used or reserved
}

func newRunLimits(l policy.Limits) *runLimits {
	return &runLimits{limits: l, byTool: map[tool.ID]int{}, pattern: make([]int, len(l.PerTool))}
}

// reserve counts a call and reserves its possible use. It refuses with fault.LimitReached.
func (n *runLimits) reserve(c Call, want grant.Amounts) (Reservation, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.limits.Calls; l > 0 && n.all >= l {
		return nil, fault.New(fault.LimitReached, "limits.calls: this run may make %d calls", l)
	}
	if l := n.limits.CallsPerTool; l > 0 && n.byTool[c.Tool] >= l {
		return nil, fault.New(fault.LimitReached, "limits.calls_per_tool: this run may call %s %d times", c.Tool, l)
	}
	for i, l := range n.limits.PerTool {
		if l.Match(c.Tool) && n.pattern[i] >= l.Calls {
			return nil, fault.New(fault.LimitReached, "limits.per_tool: this run may call %q %d times", l.Pattern, l.Calls)
		}
	}
	for _, l := range n.limits.PerKind {
		if want.Kinds.Of(l.Kind) > 0 && n.used.Kinds.Of(l.Kind) >= int64(l.Calls) {
			return nil, fault.New(fault.LimitReached, "limits.per_kind: this run may make %d calls with %s", l.Calls, l.Kind)
		}
	}
	given := limitReservation{n: n, tool: c.Tool, of: grant.Amounts{Kinds: want.Kinds}}
	for _, m := range n.meters(&given.of, &want) {
		var ok bool
		if *m.given, ok = portion(m.limit, *m.used, m.want); !ok {
			return nil, fault.New(fault.LimitReached, m.why, m.limit)
		}
	}
	n.add(c.Tool, 1)
	n.used = n.used.Add(given.of)
	return &given, nil
}

// meter is one limited amount.
type meter struct {
	limit, want int64
	used, given *int64
	why         string // with the limit
}

func (n *runLimits) meters(given, want *grant.Amounts) [6]meter {
	l, u := &n.limits, &n.used
	return [...]meter{
		{l.BytesIn, want.BytesIn, &u.BytesIn, &given.BytesIn, "limits.bytes_in: this run may receive %d bytes over the network"},
		{l.BytesOut, want.BytesOut, &u.BytesOut, &given.BytesOut, "limits.bytes_out: this run may send %d bytes over the network"},
		{l.Tokens, want.Tokens, &u.Tokens, &given.Tokens, "models.tokens: this run may use %d tokens of models"},
		{l.TokensIn, want.TokensIn, &u.TokensIn, &given.TokensIn, "models.tokens_in: this run may send %d tokens to models"},
		{l.TokensOut, want.TokensOut, &u.TokensOut, &given.TokensOut, "models.tokens_out: models may answer this run with %d tokens"},
		{l.Money, want.Money, &u.Money, &given.Money, "limits.money: the models of this run may cost %d millionths of a dollar"},
	}
}

// portion is the part of want that the limit still allows; false: none. A limit of 0
// does not limit.
func portion(limit, used, want int64) (int64, bool) {
	if limit <= 0 || want <= 0 {
		return 0, true
	}
	left := min(want, limit-used)
	return max(left, 0), left > 0
}

func (n *runLimits) add(id tool.ID, by int) {
	n.all += by
	n.byTool[id] += by
	for i, l := range n.limits.PerTool {
		if l.Match(id) {
			n.pattern[i] += by
		}
	}
}

// limitReservation is what one call reserved of its run's limits.
type limitReservation struct {
	n    *runLimits
	tool tool.ID
	of   grant.Amounts
}

// Given implements Reservation.
func (c *limitReservation) Given() grant.Amounts { return c.of }

// Over implements Reservation: a run's time ends its context.
func (c *limitReservation) Over() <-chan struct{} { return nil }

// Settle implements Reservation.
func (c *limitReservation) Settle(used grant.Amounts) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if used.Calls == 0 {
		c.n.add(c.tool, -1)
	}
	u := &c.n.used
	u.BytesIn += used.BytesIn - c.of.BytesIn
	u.BytesOut += used.BytesOut - c.of.BytesOut
	u.Tokens += used.Tokens - c.of.Tokens
	u.TokensIn += used.TokensIn - c.of.TokensIn
	u.TokensOut += used.TokensOut - c.of.TokensOut
	u.Money += used.Money - c.of.Money
	for i := range u.Kinds {
		u.Kinds[i] += used.Kinds[i] - c.of.Kinds[i]
	}
}
