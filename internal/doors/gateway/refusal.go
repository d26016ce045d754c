package gateway

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

func ruleName(o runner.Outcome) string {
	if o.Decision.Rule == nil && o.Decision.Reason == "" {
		return ""
	}
	return o.Decision.Rule.String()
}

// refusal explains a failed call to the model: the error number, the message, the rule, the allowed
// entries, and the place of the record for people.
func (c *conn) refusal(o runner.Outcome) string {
	var b strings.Builder
	what := fault.ForModel(o.Err)
	if !strings.HasPrefix(what, o.Status.String()) { // as "denied by files.read.deny[0]" does
		what = o.Status.String() + ": " + what
	}
	fmt.Fprintf(&b, "%s %s\n", fault.CodeOf(o.Err).Error(), what)
	if rule := ruleName(o); rule != "" && o.Status == tool.StatusDenied {
		fmt.Fprintf(&b, "rule: %s%s\n", rule, whose(o.Decision.Rule))
	}
	for _, r := range o.Decision.Refusals {
		if r.Reason != "" && r.Reason != o.Decision.Reason {
			fmt.Fprintf(&b, "also: %s\n", r.Reason)
		}
	}
	if fault.CodeOf(o.Err) == fault.Denied {
		for _, line := range c.instead(o) {
			fmt.Fprintf(&b, "allowed: %s\n", line)
		}
	}
	fmt.Fprintf(&b, "record: run %s, call %d", c.run().ID(), o.Index)
	return b.String()
}

func whose(r *policy.Rule) string {
	if r == nil || r.Policy == "" {
		return ""
	}
	if r.Line == 0 {
		return fmt.Sprintf(" (policy %q)", r.Policy)
	}
	return fmt.Sprintf(" (policy %q, line %d)", r.Policy, r.Line)
}

// instead lists the entries that the policy allows in the sections that denied something.
func (c *conn) instead(o runner.Outcome) []string {
	chain, seen := c.run().Chain(), map[string]bool{}
	var out []string
	add := func(lines []string) {
		for _, l := range lines {
			if !seen[l] && len(out) < 6 {
				seen[l] = true
				out = append(out, l)
			}
		}
	}
	for _, r := range o.Decision.Refusals {
		section, _, _ := strings.Cut(r.Action, " ")
		if kind, ok := kindOf(section); ok {
			add(chain.Written(kind))
		} else {
			add(chain.WrittenTools())
		}
	}
	return out
}

func kindOf(section string) (tool.ActionKind, bool) {
	for k := tool.FileRead; k <= tool.TableWrite; k++ {
		if k.String() == section {
			return k, true
		}
	}
	return tool.NoAction, false
}
