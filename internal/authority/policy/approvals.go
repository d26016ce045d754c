package policy

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/regex"
)

// The defaults of approvals.
const (
	DefaultApprovers       = 1
	DefaultApprovalTimeout = 10 * time.Minute
	DefaultApprovalExpires = time.Hour
)

// Terms are a chain's settings for approvals, frozen plans, revocation and
// violations. They control how calls are gated, not which calls are allowed.
type Terms struct {
	Approvers       int           // approvals.approvers: required number of different approvers
	ApprovalTimeout time.Duration // approvals.timeout: how long a question waits for its answer
	ApprovalExpires time.Duration // approvals.expires: how long an approval may be used
	Session         bool          // approvals.session: an approval may cover a session, not only one call
	Roles           []string      // approvals.roles: of the people whose approval counts; nil: anybody's, empty: nobody's
	PlanRequired    bool          // frozen_plan.required: every run needs a frozen plan
	FinishRevoked   bool          // on_revoke: running calls may finish when the grant is revoked

	responses [numViolations]Response
}

// AnswersHere reports whether a person at this machine may answer a question. Roles come from
// identity providers, so such a person has none.
func (t Terms) AnswersHere() bool { return t.Roles == nil }

// NeedsOthers returns the reason why one person at this machine cannot approve a call alone;
// "": there is none. admin marks calls for admins, isAdmin marks an admin.
func (t Terms) NeedsOthers(admin, isAdmin bool) string {
	switch {
	case !t.AnswersHere():
		return "the policy wants approval of a person with a role (approvals.roles)"
	case admin && !isAdmin:
		return "the policy wants approval of somebody who may approve admin calls"
	case t.Approvers != DefaultApprovers:
		return fmt.Sprintf("the policy wants approval of %d people", t.Approvers)
	}
	return ""
}

// Response is the response to a kind of violation.
func (t Terms) Response(v Violation) Response {
	if v >= numViolations {
		return RevokeGrant // nobody knows how bad it is
	}
	return t.responses[v]
}

// Stops reports whether any violation pauses or revokes the grant.
func (t Terms) Stops() bool {
	return slices.ContainsFunc(t.responses[:], func(r Response) bool { return r >= PauseGrant })
}

// approvalSettings is the section approvals.
type approvalSettings struct {
	approvers        int
	timeout, expires time.Duration
	session          *bool
	roles            []string // nil: not written
}

var approverRole = regex.Lazy(`^[a-z][a-z0-9_-]{0,29}$`)

func checkRole(s string) error {
	if !approverRole.MatchString(s) {
		return fmt.Errorf("%q is not a valid name of a role; expected up to 30 lower-case letters, digits, _ and -", clip.Text(s, 60))
	}
	return nil
}

func (s *approvalSettings) setting() setting {
	session := value("session", func(p *parser) document.Field { return optional(p, &s.session, p.Bool) }, func() string {
		if s.session == nil {
			return ""
		}
		return strconv.FormatBool(*s.session)
	})
	roles := value("roles", func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			if p.Strings(&s.roles, 0, checkRole)(n, path); n.Kind == document.List && len(n.Items) == 0 {
				p.Fail(n, path, "is empty: it needs at least one role").Hint = "deny what nobody may approve"
			}
		}
	}, func() string { return quoteAll(s.roles) })
	return mapping("approvals", count("approvers", &s.approvers, 1), duration("timeout", &s.timeout), duration("expires", &s.expires), session, roles)
}

// Terms returns the chain's effective terms: the strictest of each.
func (c Chain) Terms() Terms {
	t := Terms{Session: true}
	finish, cancel := false, false
	for _, r := range c {
		if r == nil || r.policy == nil {
			t.Session, cancel = false, true
			continue
		}
		d := r.policy.content()
		t.Approvers = max(t.Approvers, d.approvals.approvers)
		least(&t.ApprovalTimeout, d.approvals.timeout)
		least(&t.ApprovalExpires, d.approvals.expires)
		t.Session = t.Session && (d.approvals.session == nil || *d.approvals.session)
		if only := d.approvals.roles; only != nil {
			if t.Roles == nil {
				t.Roles = slices.Clone(only)
			}
			t.Roles = slices.DeleteFunc(t.Roles, func(r string) bool { return !slices.Contains(only, r) })
		}
		t.PlanRequired = t.PlanRequired || d.frozenPlan.required
		finish = finish || d.onRevoke == "finish"
		cancel = cancel || d.onRevoke == "cancel" || d.onRevoke == "" && !d.inherit
		for v, name := range d.violations {
			if i := slices.Index(responseNames[:], name); i > int(t.responses[v]) {
				t.responses[v] = Response(i)
			}
		}
	}
	t.FinishRevoked = finish && !cancel
	t.Approvers = max(t.Approvers, DefaultApprovers)
	if t.ApprovalTimeout == 0 {
		t.ApprovalTimeout = DefaultApprovalTimeout
	}
	if t.ApprovalExpires == 0 {
		t.ApprovalExpires = DefaultApprovalExpires
	}
	return t
}
