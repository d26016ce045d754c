package runs_test

import (
	"context"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/runs"
)

// The person who typed a command answers for its connections only where the policies leave
// the answer to one person who is present.
func TestWhoTypedACommandIsAsked(t *testing.T) {
	yes := func(context.Context, tool.Action, policy.Decision) bool { return true }
	for name, c := range map[string]struct {
		terms        policy.Terms
		call, person bool // an admin's
		want         bool
	}{
		"one approver":               {policy.Terms{Approvers: 1}, false, false, true},
		"an admin call":              {policy.Terms{Approvers: 1}, true, false, false},
		"an admin call, of an admin": {policy.Terms{Approvers: 1}, true, true, true},
		"two approvers":              {policy.Terms{Approvers: 2}, false, true, false},
		"a role":                     {policy.Terms{Approvers: 1, Roles: []string{"reviewer"}}, false, true, false},
	} {
		ask := runs.AskerOf(c.terms, c.person, yes)
		if got := ask != nil && ask(t.Context(), tool.Action{}, policy.Decision{Admin: c.call}); got != c.want {
			t.Errorf("%s: a connection is answered: %v", name, got)
		}
		listed := policy.Decision{Admin: c.call, Refusals: []policy.Refusal{{Effect: policy.Ask, Rule: &policy.Rule{Line: 1}}}}
		a, err := runs.TypedBy(c.person).Ask(t.Context(), runner.Question{Terms: c.terms, Decision: listed})
		if err != nil || a.Yes != c.want {
			t.Errorf("%s: the command itself is answered: %+v, %v", name, a, err)
		}
	}
}
