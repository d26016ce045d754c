package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

func TestOnePersonHere(t *testing.T) {
	for name, c := range map[string]struct {
		terms          policy.Terms
		admin, isAdmin bool
		want           string // ""; or what the reason names
	}{
		"one approver":                   {policy.Terms{Approvers: 1}, false, false, ""},
		"an admin call, of an admin":     {policy.Terms{Approvers: 1}, true, true, ""},
		"an admin call":                  {policy.Terms{Approvers: 1}, true, false, "admin calls"},
		"two approvers":                  {policy.Terms{Approvers: 2}, false, true, "2 people"},
		"a role":                         {policy.Terms{Approvers: 1, Roles: []string{"reviewer"}}, false, true, "approvals.roles"},
		"roles that nobody has":          {policy.Terms{Approvers: 1, Roles: []string{}}, false, true, "approvals.roles"},
		"the zero value refuses":         {policy.Terms{}, false, false, "0 people"},
		"a role, two, and an admin call": {policy.Terms{Approvers: 2, Roles: []string{"reviewer"}}, true, true, "approvals.roles"},
	} {
		if got := c.terms.NeedsOthers(c.admin, c.isAdmin); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want one that names %q", name, got, c.want)
		}
	}
}
