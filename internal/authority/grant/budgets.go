package grant

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// Bounds on budgets. A number above MaxCount is a mistake. Numbers up to it
// cannot overflow when a whole tree of grants is summed.
const (
	MaxCount    = 1 << 50 // of calls, bytes, tokens and millionths of a dollar
	MaxTime     = 10 * 365 * 24 * time.Hour
	MaxChildren = 1 << 20 // of children, and of depth
	MaxPerTool  = 64      // entries of PerTool
)

// Budgets limit the use of a grant and all its descendants together. They are the initial amounts,
// never the remaining ones. In every field except PerTool and PerKind, zero or nil means no further
// limit: those of the ancestors still apply.
type Budgets struct {
	Calls               int64         // calls begun
	PerTool             []ToolBudget  // calls begun of some tools, sorted by pattern, each pattern once
	EachTool            int64         // calls begun of each single tool
	BytesIn             int64         // bytes received over the network
	BytesOut            int64         // bytes sent over the network
	Tokens              int64         // model tokens, in and out together
	TokensIn, TokensOut int64         // of them, sent to models and answered
	PerKind             []KindBudget  // calls begun that do something of a kind, sorted by kind, each once
	Money               int64         // millionths of a US dollar
	Time                time.Duration // wall time of calls, added up
	Children            *int          // grants derived directly from this one, over its whole life; 0: none
	Depth               *int          // how far grants may be derived below this one; 0: none
}

// ToolBudget bounds the calls of all tools that a pattern matches, counted
// together.
type ToolBudget struct {
	Tool  string // a pattern of tool IDs, as in a policy's limits.per_tool
	Calls int64  // 0: none may be made
}

// IsZero reports whether the budgets limit nothing.
func (b Budgets) IsZero() bool {
	return b.Calls == 0 && len(b.PerTool) == 0 && b.EachTool == 0 && b.BytesIn == 0 && b.BytesOut == 0 && b.Tokens == 0 && b.Money == 0 &&
		b.TokensIn == 0 && b.TokensOut == 0 && len(b.PerKind) == 0 &&
		b.Time == 0 && b.Children == nil && b.Depth == nil
}

// Min returns the smaller of each limit, so that both b and o hold. It shares no
// memory with either.
func (b Budgets) Min(o Budgets) Budgets {
	return Budgets{
		Calls:     least(b.Calls, o.Calls),
		PerTool:   leastPerTool(b.PerTool, o.PerTool),
		EachTool:  least(b.EachTool, o.EachTool),
		BytesIn:   least(b.BytesIn, o.BytesIn),
		BytesOut:  least(b.BytesOut, o.BytesOut),
		Tokens:    least(b.Tokens, o.Tokens),
		TokensIn:  least(b.TokensIn, o.TokensIn),
		TokensOut: least(b.TokensOut, o.TokensOut),
		PerKind:   leastPerKind(b.PerKind, o.PerKind),
		Money:     least(b.Money, o.Money),
		Time:      least(b.Time, o.Time),
		Children:  leastOf(b.Children, o.Children),
		Depth:     leastOf(b.Depth, o.Depth),
	}
}

// Moot describes the limits of b that have no effect because before is at least as
// strict.
func (b Budgets) Moot(before Budgets) []string {
	var out []string
	had := before.Min(Budgets{}).String()
	for _, one := range b.each() {
		if !before.IsZero() && one.Min(before).String() == had {
			out = append(out, one.String())
		}
	}
	return out
}

// each returns the limits one by one, each in budgets of its own.
func (b Budgets) each() []Budgets {
	all := []Budgets{
		{Calls: b.Calls}, {EachTool: b.EachTool}, {BytesIn: b.BytesIn}, {BytesOut: b.BytesOut}, {Tokens: b.Tokens}, {Money: b.Money},
		{Time: b.Time}, {Children: b.Children}, {Depth: b.Depth}, {TokensIn: b.TokensIn}, {TokensOut: b.TokensOut},
	}
	for _, k := range b.PerKind {
		all = append(all, Budgets{PerKind: []KindBudget{k}})
	}
	for _, t := range b.PerTool {
		all = append(all, Budgets{PerTool: []ToolBudget{t}})
	}
	return slices.DeleteFunc(all, Budgets.IsZero)
}

// least returns the smaller of two limits; 0 means no limit.
func least[T int64 | time.Duration](a, b T) T {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func leastOf(a, b *int) *int {
	if a == nil || b != nil && *b < *a {
		a = b
	}
	if a == nil {
		return nil
	}
	n := *a
	return &n
}

func leastPerTool(a, b []ToolBudget) []ToolBudget {
	out := slices.Concat(a, b)
	slices.SortFunc(out, func(x, y ToolBudget) int {
		if c := strings.Compare(x.Tool, y.Tool); c != 0 {
			return c
		}
		return int(max(-1, min(1, x.Calls-y.Calls))) // the smaller one first: it stays
	})
	return slices.CompactFunc(out, func(x, y ToolBudget) bool { return x.Tool == y.Tool })
}

// Check reports every invalid value in the budgets, with fault.Usage and the
// field.
func (b Budgets) Check() error {
	var errs fault.List
	bad := func(field, format string, args ...any) {
		errs = append(errs, fault.New(fault.Usage, format, args...).In(field))
	}
	for _, f := range b.counts() {
		if f.n < 0 || f.n > MaxCount {
			bad(f.name, "%d is out of range: 0 (no limit) to %d", f.n, int64(MaxCount))
		}
	}
	if b.Time < 0 || b.Time > MaxTime {
		bad("time", "%s is out of range: 0 (no limit) to %s", b.Time, MaxTime)
	}
	for _, f := range [...]struct {
		name string
		n    *int
	}{{"children", b.Children}, {"depth", b.Depth}} {
		if f.n != nil && (*f.n < 0 || *f.n > MaxChildren) {
			bad(f.name, "%d is out of range: 0 to %d", *f.n, MaxChildren)
		}
	}
	for i, k := range b.PerKind {
		field := fmt.Sprintf("per_kind[%d]", i)
		if !slices.Contains(Kinds(), k.Kind) {
			bad(field, "%q is not a kind of operation; expected one of %s", k.Kind, strings.Join(Kinds(), ", "))
		}
		if k.Calls < 0 || k.Calls > MaxCount {
			bad(field, "%d is out of range: 0 (none) to %d", k.Calls, int64(MaxCount))
		}
		if i > 0 && b.PerKind[i-1].Kind >= k.Kind {
			bad(field, "%q comes twice or out of order: sort the kinds, name each once", k.Kind)
		}
	}
	if len(b.PerTool) > MaxPerTool {
		bad("per_tool", "%d entries: there may be %d", len(b.PerTool), MaxPerTool)
		return errs.Err()
	}
	for i, t := range b.PerTool {
		field := fmt.Sprintf("per_tool[%d]", i)
		if !isToolPattern(t.Tool) {
			bad(field, "%q is not a valid tool pattern; expected a tool's ID, with * as a wildcard", t.Tool)
		}
		if t.Calls < 0 || t.Calls > MaxCount {
			bad(field, "%d is out of range: 0 (none) to %d", t.Calls, int64(MaxCount))
		}
		if i > 0 && b.PerTool[i-1].Tool >= t.Tool {
			bad(field, "%q comes twice or out of order: sort the patterns, name each once", t.Tool)
		}
	}
	return errs.Err()
}

type count struct {
	name string
	n    int64
}

func (b Budgets) counts() []count {
	return []count{{"calls", b.Calls}, {"each_tool", b.EachTool}, {"bytes_in", b.BytesIn}, {"bytes_out", b.BytesOut}, {"tokens", b.Tokens}, {"money", b.Money},
		{"tokens_in", b.TokensIn}, {"tokens_out", b.TokensOut}}
}

// isToolPattern reports whether s has the form of a pattern of tool IDs.
func isToolPattern(s string) bool {
	if s == "" || len(s) > 200 {
		return false
	}
	for _, c := range []byte(s) {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && !strings.ContainsRune("._:/@-*", rune(c)) {
			return false
		}
	}
	return true
}

// String describes the budgets in words, as "200 calls, 20 calls of http.*, 10
// MiB in, 1.50 USD, 5m0s"; "no further limits" where there are none.
func (b Budgets) String() string {
	var out []string
	add := func(set bool, text string) {
		if set {
			out = append(out, text)
		}
	}
	add(b.Calls != 0, plural(b.Calls, "call", "calls"))
	for _, t := range b.PerTool {
		add(true, plural(t.Calls, "call", "calls")+" of "+strconv.Quote(t.Tool))
	}
	for _, k := range b.PerKind {
		add(true, plural(k.Calls, "call", "calls")+" with "+k.Kind)
	}
	add(b.EachTool != 0, plural(b.EachTool, "call", "calls")+" of each tool")
	add(b.BytesIn != 0, bytesText(b.BytesIn)+" in")
	add(b.BytesOut != 0, bytesText(b.BytesOut)+" out")
	add(b.Tokens != 0, plural(b.Tokens, "model token", "model tokens"))
	add(b.TokensIn != 0, plural(b.TokensIn, "model token in", "model tokens in"))
	add(b.TokensOut != 0, plural(b.TokensOut, "model token out", "model tokens out"))
	add(b.Money != 0, MoneyText(b.Money))
	add(b.Time != 0, b.Time.String()+" of time")
	if b.Children != nil {
		add(true, plural(int64(*b.Children), "child", "children"))
	}
	if b.Depth != nil {
		add(true, "depth "+strconv.Itoa(*b.Depth))
	}
	if len(out) == 0 {
		return "no further limits"
	}
	return strings.Join(out, ", ")
}

func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	if n == 0 {
		return "no " + many
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// bytesText prints a size in the largest unit that divides it, so that the
// number is exact.
func bytesText(n int64) string {
	for _, u := range [...]struct {
		size int64
		name string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n != 0 && n%u.size == 0 {
			return strconv.FormatInt(n/u.size, 10) + " " + u.name
		}
	}
	return plural(n, "byte", "bytes")
}

// MoneyText prints millionths of a US dollar, with at least two decimal places:
// "1.50 USD", "0.000125 USD".
func MoneyText(millionths int64) string {
	sign := ""
	if millionths < 0 {
		sign, millionths = "-", -millionths
	}
	s := fmt.Sprintf("%d.%06d", millionths/1_000_000, millionths%1_000_000)
	for range 4 {
		s = strings.TrimSuffix(s, "0")
	}
	return sign + s + " USD"
}
