package model

import (
	"math"
	"math/bits"

	"github.com/remitrun/remit/internal/base/fault"
)

// maxCount bounds each count of tokens that a service may tell: no request has
// so many, and sums and costs of such numbers cannot overflow.
const maxCount = 1 << 40

// Tokens is how many tokens count against budgets.
func (u Usage) Tokens() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{Input: u.Input + v.Input, Output: u.Output + v.Output, CacheRead: u.CacheRead + v.CacheRead,
		CacheWrite: u.CacheWrite + v.CacheWrite, Money: u.Money + v.Money, Estimated: u.Estimated || v.Estimated}
}

// Check refuses numbers that no service can have counted: the reported usage decides the charge to
// budgets. It gives a fault.ModelFailed error.
func (u Usage) Check() error {
	for _, n := range []int64{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		if n < 0 || n > maxCount {
			return fault.New(fault.ModelFailed, "the service reported an impossible count of %d tokens", n)
		}
	}
	return nil
}

// Prices are millionths of the currency for a million tokens.
type Prices struct{ Input, Output, CacheRead, CacheWrite int64 }

// Of is what a usage costs, in millionths of the currency, rounded up so that
// many small answers are not free.
func (p Prices) Of(u Usage) int64 {
	var hi, lo, carry uint64
	for _, f := range [][2]int64{{u.Input, p.Input}, {u.Output, p.Output}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}} {
		h, l := bits.Mul64(uint64(max(f[0], 0)), uint64(max(f[1], 0)))
		lo, carry = bits.Add64(lo, l, 0)
		hi, _ = bits.Add64(hi, h, carry)
	}
	const million = 1_000_000
	lo, carry = bits.Add64(lo, million-1, 0)
	hi += carry
	if hi >= million {
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, million)
	return int64(min(q, math.MaxInt64))
}

// bytesPerToken is how many bytes of text make a token, roughly: low enough that
// an estimate is rather too high than too low for prose.
const bytesPerToken = 4

// Estimate reckons how many tokens a text has, by its bytes alone: the same for
// the same text, always.
func Estimate(bytes int) int64 {
	return int64((max(bytes, 0) + bytesPerToken - 1) / bytesPerToken)
}

// EstimateRequest reckons the tokens of a request.
func EstimateRequest(r Request) int64 {
	n := len(r.System)
	for i := range r.Messages {
		n += r.Messages[i].Size()
	}
	for _, t := range r.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Input)
	}
	return Estimate(n)
}

// Size is how many bytes of text a message has.
func (m *Message) Size() int {
	n := len(m.Text) + len(m.CallID)
	for _, c := range m.Calls {
		n += len(c.ID) + len(c.Name) + len(c.Args)
	}
	for _, r := range m.Reasoning {
		n += len(r)
	}
	return n
}
