package grant

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// The names of a node's counters. The last two are followed by a tool pattern and by
// a tool ID.
const (
	MeterCalls     = "calls"
	MeterBytesIn   = "bytes_in"
	MeterBytesOut  = "bytes_out"
	MeterTokens    = "tokens"
	MeterMoney     = "money" // millionths of a US dollar
	MeterTime      = "time"  // microseconds
	MeterChildren  = "children"
	MeterTokensIn  = "tokens_in"
	MeterTokensOut = "tokens_out"
	MeterOfKind    = "kind:" // followed by a kind of operation
	MeterOfTools   = "tool:"
	MeterEachTool  = "each:"
)

// Limit is one limit of budgets, in the unit of its meter.
type Limit struct {
	What string
	Most int64
}

// Limits lists the budgets as meters count them. The limit for each single tool
// has no tool ID. Depth is not metered, because a grant's descent shows it.
func (b Budgets) Limits() []Limit {
	var out []Limit
	for _, l := range [...]Limit{{MeterCalls, b.Calls}, {MeterBytesIn, b.BytesIn}, {MeterBytesOut, b.BytesOut}, {MeterTokens, b.Tokens},
		{MeterMoney, b.Money}, {MeterTime, b.Time.Microseconds()}, {MeterEachTool, b.EachTool}, {MeterTokensIn, b.TokensIn}, {MeterTokensOut, b.TokensOut}} {
		if l.Most > 0 {
			out = append(out, l)
		}
	}
	for _, t := range b.PerTool {
		out = append(out, Limit{MeterOfTools + t.Tool, t.Calls})
	}
	for _, k := range b.PerKind {
		out = append(out, Limit{MeterOfKind + k.Kind, k.Calls})
	}
	if b.Children != nil {
		out = append(out, Limit{MeterChildren, int64(*b.Children)})
	}
	return out
}

// Charged returns the amount that a call of a tool takes from a meter.
func Charged(what string, id tool.ID, used Amounts) int64 {
	switch what {
	case MeterCalls:
		return used.Calls
	case MeterBytesIn:
		return used.BytesIn
	case MeterBytesOut:
		return used.BytesOut
	case MeterTokens:
		return used.Tokens
	case MeterMoney:
		return used.Money
	case MeterTime:
		return used.Time.Microseconds()
	case MeterChildren:
		return used.Children
	case MeterTokensIn:
		return used.TokensIn
	case MeterTokensOut:
		return used.TokensOut
	}
	if of, ok := strings.CutPrefix(what, MeterOfKind); ok {
		if at := slices.Index(Kinds(), of); at >= 0 {
			return used.Kinds[at]
		}
		return used.Calls // of a later version: charging too much is safer than too little
	}
	if of, ok := strings.CutPrefix(what, MeterEachTool); ok {
		if of == string(id) {
			return used.Calls
		}
		return 0
	}
	if of, ok := strings.CutPrefix(what, MeterOfTools); ok {
		if match, err := ToolPattern(of); err == nil && !match(id) {
			return 0
		}
		return used.Calls // also if the pattern is invalid: charging too much is safer than too little
	}
	return 0
}

// ToolPattern compiles a budget's pattern of tool IDs.
func ToolPattern(pattern string) (func(tool.ID) bool, error) {
	t, err := glob.CompileName(pattern, ':', true)
	if err != nil {
		return nil, fault.Wrap(fault.GrantInvalid, err, "a budget's tool pattern %q cannot be read", pattern)
	}
	return func(id tool.ID) bool { return t.Match(string(id)) }, nil
}

// Short returns the beginning of a grant's ID, for display. It is long enough to
// distinguish grants made in the same millisecond.
func Short(id uuid.UUID) string { return id.String()[:18] }
