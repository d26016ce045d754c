package grant

import (
	"cmp"
	"slices"

	"github.com/remitrun/remit/internal/base/tool"
)

// kinds are the kinds of operations that budgets count. Events hold counts in this order:
// additions only, at the end.
var kinds = [...]tool.ActionKind{tool.FileRead, tool.FileWrite, tool.FileDelete, tool.Network, tool.Command, tool.Model}

// Kinds returns the names of the kinds of operations that budgets count calls by.
func Kinds() []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.String()
	}
	return out
}

// KindsOf counts a call with these actions: 1 for each kind that one of them is of.
func KindsOf(actions []tool.Action) (n KindCounts) {
	for i := range actions {
		if at := slices.Index(kinds[:], actions[i].Kind); at >= 0 {
			n[at] = 1
		}
	}
	return n
}

// Of is the count of one kind.
func (n KindCounts) Of(k tool.ActionKind) int64 {
	if at := slices.Index(kinds[:], k); at >= 0 {
		return n[at]
	}
	return 0
}

// KindBudget bounds the calls that do something of one kind, as files.write.
type KindBudget struct {
	Kind  string `json:"kind"`
	Calls int64  `json:"calls"` // 0: none may be made
}

// leastPerKind returns the smaller limit of each kind, sorted by kind.
func leastPerKind(a, b []KindBudget) []KindBudget {
	out := slices.Concat(a, b)
	slices.SortFunc(out, func(x, y KindBudget) int { return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Calls, y.Calls)) })
	return slices.CompactFunc(out, func(x, y KindBudget) bool { return x.Kind == y.Kind })
}
