package notify

import (
	"strconv"
	"strings"
	"time"
)

// Operated tells operators of a change of what Remit trusts: of a policy, or of a key.
func (n *Notifier) Operated(action, target string) {
	e := Event{ID: action + "-" + strconv.FormatInt(time.Now().UnixNano(), 36), Facts: map[string]string{"action": action, "target": target}}
	switch {
	case action == "policy.trust", action == "policy.forget":
		e.Kind, e.Title, e.Do = PolicyChanged, "A trusted policy was changed", "remit audit --event operator_action"
	case strings.HasSuffix(action, ".rotate"):
		e.Kind, e.Title, e.Do = KeyRotated, "A key was rotated", "remit keys"
	default:
		return
	}
	n.Notify(e)
}

// Recovered tells operators of the runs that dead processes left open, and of the number of
// these processes.
func (n *Notifier) Recovered(runs int, dead uint64) {
	id := strconv.FormatInt(time.Now().UnixNano(), 36)
	if dead > 0 {
		n.Notify(Event{Kind: NodeLost, ID: id, Title: "A process of Remit, or a node, died while it ran something", Do: "remit runs", Facts: map[string]string{"processes": strconv.FormatUint(dead, 10)}})
	}
	if runs > 0 {
		n.Notify(Event{Kind: RunsUnknown, ID: id, Title: "Runs were interrupted; calls under way may have taken effect", Do: "remit runs --unknown", Facts: map[string]string{"runs": strconv.Itoa(runs)}})
	}
}

// BudgetUsedUp tells operators, once for each grant, that a call was refused as a budget of the
// grant is used up.
func (n *Notifier) BudgetUsedUp(grant, holder, run string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	known := n.spent[grant]
	if n.spent == nil || len(n.spent) >= maxSpent {
		n.spent = map[string]bool{}
	}
	n.spent[grant] = true
	n.mu.Unlock()
	if known {
		return
	}
	n.Notify(Event{Kind: BudgetSpent, ID: "budget-" + grant, Title: "A budget of a grant is used up", Do: "remit grant inspect " + grant,
		Facts: map[string]string{"grant": grant, "holder": holder, "run": run}})
}
