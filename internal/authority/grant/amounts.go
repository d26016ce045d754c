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
}

// Add returns the sum; an amount that would overflow stays at the largest number.
func (a Amounts) Add(b Amounts) Amounts {
	return Amounts{
		plus(a.Calls, b.Calls), plus(a.BytesIn, b.BytesIn), plus(a.BytesOut, b.BytesOut), plus(a.Tokens, b.Tokens),
		plus(a.Money, b.Money), plus(a.Time, b.Time), plus(a.Children, b.Children),
	}
}

// List returns the amounts in the order of their fields, with the time in
// microseconds and without trailing zeros. Events hold this form.
func (a Amounts) List() []int64 {
	l := []int64{a.Calls, a.BytesIn, a.BytesOut, a.Tokens, a.Money, a.Time.Microseconds(), a.Children}
	for len(l) > 0 && l[len(l)-1] == 0 {
		l = l[:len(l)-1]
	}
	return l
}

// AmountsOf reads the result of List.
func AmountsOf(l []int64) Amounts {
	var n [7]int64
	copy(n[:], l)
	return Amounts{n[0], n[1], n[2], n[3], n[4], time.Duration(n[5]) * time.Microsecond, n[6]}
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
		BytesIn: l.BytesIn, BytesOut: l.BytesOut, Money: l.Money,
	}
	for _, t := range l.PerTool {
		b.PerTool = append(b.PerTool, ToolBudget{t.Pattern, int64(t.Calls)})
	}
	if l.CallsPerTool > 0 {
		b.EachTool = int64(l.CallsPerTool)
	}
	b.PerTool = leastPerTool(b.PerTool, nil)
	return b
}
