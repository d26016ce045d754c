package grant

import (
	"math"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
)

// Amounts are limits or used amounts of calls, in the units of [Budgets].
type Amounts struct {
	Calls    int64         `json:"calls,omitempty"`
	BytesIn  int64         `json:"bytes_in,omitempty"`
	BytesOut int64         `json:"bytes_out,omitempty"`
	Tokens   int64         `json:"tokens,omitempty"`
	Money    int64         `json:"money,omitempty"` // millionths of a US dollar
	Time     time.Duration `json:"time,omitempty"`
	Children int64         `json:"children,omitempty"`
	// TokensIn and TokensOut are the parts of Tokens: the sent ones, and the answers.
	TokensIn  int64 `json:"tokens_in,omitempty"`
	TokensOut int64 `json:"tokens_out,omitempty"`
	// Kinds counts calls by kind of operation, in the order of [Kinds].
	Kinds KindCounts `json:"kinds,omitzero"`
}

// KindCounts counts calls that do something of each kind of [Kinds].
type KindCounts [len(kinds)]int64

// numAmounts is how many amounts there are.
const numAmounts = 9 + len(kinds)

// all returns the amounts in the order of their fields.
func (a Amounts) all() (l [numAmounts]int64) {
	copy(l[:], []int64{a.Calls, a.BytesIn, a.BytesOut, a.Tokens, a.Money, a.Time.Microseconds(), a.Children, a.TokensIn, a.TokensOut})
	copy(l[9:], a.Kinds[:])
	return l
}

// Add returns the sum; an amount that would overflow stays at the largest number.
func (a Amounts) Add(b Amounts) Amounts {
	sum := Amounts{
		Calls: plus(a.Calls, b.Calls), BytesIn: plus(a.BytesIn, b.BytesIn), BytesOut: plus(a.BytesOut, b.BytesOut), Tokens: plus(a.Tokens, b.Tokens),
		Money: plus(a.Money, b.Money), Time: plus(a.Time, b.Time), Children: plus(a.Children, b.Children),
		TokensIn: plus(a.TokensIn, b.TokensIn), TokensOut: plus(a.TokensOut, b.TokensOut),
	}
	for i := range sum.Kinds {
		sum.Kinds[i] = plus(a.Kinds[i], b.Kinds[i])
	}
	return sum
}

// List returns the amounts in the order of their fields, with the time in
// microseconds and without trailing zeros. Events hold this form.
func (a Amounts) List() []int64 {
	all := a.all()
	l := all[:]
	for len(l) > 0 && l[len(l)-1] == 0 {
		l = l[:len(l)-1]
	}
	return l
}

// AmountsOf reads the result of List.
func AmountsOf(l []int64) Amounts {
	var n [numAmounts]int64
	copy(n[:], l)
	return Amounts{Calls: n[0], BytesIn: n[1], BytesOut: n[2], Tokens: n[3], Money: n[4], Time: time.Duration(n[5]) * time.Microsecond, Children: n[6],
		TokensIn: n[7], TokensOut: n[8], Kinds: KindCounts(n[9:])}
}

func plus[T int64 | time.Duration](a, b T) T {
	if b > 0 && a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// BudgetsOf returns the limits that policies set: limits, models.tokens and
// agents. They become the budgets of the grant made from these policies.
func BudgetsOf(links ...*policy.Rules) Budgets {
	l := policy.Chain(links).Limits()
	b := Budgets{
		Calls: int64(l.Calls), Tokens: l.Tokens, Time: l.Time, Children: l.Spawn, Depth: l.Depth,
		BytesIn: l.BytesIn, BytesOut: l.BytesOut, Money: l.Money, TokensIn: l.TokensIn, TokensOut: l.TokensOut,
	}
	for _, k := range l.PerKind {
		b.PerKind = append(b.PerKind, KindBudget{k.Kind.String(), int64(k.Calls)})
	}
	b.PerKind = leastPerKind(b.PerKind, nil)
	for _, t := range l.PerTool {
		b.PerTool = append(b.PerTool, ToolBudget{t.Pattern, int64(t.Calls)})
	}
	if l.CallsPerTool > 0 {
		b.EachTool = int64(l.CallsPerTool)
	}
	b.PerTool = leastPerTool(b.PerTool, nil)
	return b
}
