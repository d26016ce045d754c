package policy

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// Effect is a policy's answer to a call. A smaller effect is stricter.
type Effect uint8

// The effects. The zero effect denies, so an unset effect denies.
const (
	Deny Effect = iota
	Ask
	Allow
)

func (e Effect) String() string {
	switch e {
	case Deny:
		return "deny"
	case Ask:
		return "ask"
	case Allow:
		return "allow"
	}
	return "effect(" + strconv.Itoa(int(e)) + ")"
}

// Rule is one entry of one list of one policy, or that policy's default.
type Rule struct {
	Policy  string // the policy's name
	File    string // the file it was read from
	Line    int    // 0 for a default
	Name    string // "files.read.deny[0]", or "default"
	Pattern string // the entry as written; "" for a default
}

// listed names the list of an entry, and where that is: files.read.allow (remit.yaml:9).
func (r *Rule) listed() string {
	list, _, _ := strings.Cut(r.Name, "[")
	if r.File == "" || r.Line == 0 {
		return list
	}
	return fmt.Sprintf("%s (%s:%d)", list, path.Base(r.File), r.Line)
}

// String prints the rule as decisions name it: files.read.deny[0] "**/*.bak".
func (r *Rule) String() string {
	if r == nil {
		return "default"
	}
	if r.Pattern == "" {
		return r.Name
	}
	return fmt.Sprintf("%s %q", r.Name, r.Pattern)
}

// Refusal is one rule that keeps a call from being allowed outright.
type Refusal struct {
	Effect Effect // Deny or Ask
	Rule   *Rule
	Action string // the action concerned as [tool.Action.String] prints it, or the tool's ID
	Reason string
}

// Decision is the answer of a chain of policies to a call. The zero Decision
// denies.
type Decision struct {
	Effect   Effect
	Rule     *Rule     // the deciding entry: the strictest, the first of equals
	Link     int       // which policy of the chain the deciding entry is of, from 0
	Reason   string    // for people
	Refusals []Refusal // every rule that denies or asks; nil when allowed
	Admin    bool      // a rule needs an approver of admin calls
	Steered  []Steered // the values that flows ask about
}

// AskedBy names the rules that ask, each once. It is "" if none does.
func (d Decision) AskedBy() string {
	var rules []string
	for _, r := range d.Refusals {
		if text := r.Rule.String(); r.Effect == Ask && !slices.Contains(rules, text) {
			rules = append(rules, text)
		}
	}
	return strings.Join(rules, ", ")
}

// ByFlow reports whether a flow asks. An approval that was given for other reasons, as for all
// calls of a pattern, does not count then: the data that steers the call came later.
func (d Decision) ByFlow() bool {
	return slices.ContainsFunc(d.Refusals, func(r Refusal) bool {
		return r.Effect == Ask && r.Rule != nil && strings.HasPrefix(r.Rule.Name, "flows.")
	})
}

// Endorses reports whether all flows that ask are about values, which an approval can endorse
// for the session.
func (d Decision) Endorses() bool {
	if len(d.Steered) == 0 || slices.ContainsFunc(d.Steered, func(s Steered) bool { return s.Destroys }) {
		return false
	}
	return !slices.ContainsFunc(d.Refusals, func(r Refusal) bool {
		return r.Rule != nil && strings.HasPrefix(r.Rule.Name, "flows.") && !strings.Contains(r.Rule.Name, ".ask_steered[")
	})
}

// Call is the subject of a decision: a tool, its arguments, and the actions that
// the call needs (the tool's own and those of [Chain.Within]).
type Call struct {
	Tool    *tool.Spec
	Args    tool.Args
	Actions []tool.Action
	Plan    PlanFit // how it stands to the frozen plan of its run
	Run     string  // the run, as origins of values name it

	Recorded RecordedLabels // of files, besides those in Actions
}
