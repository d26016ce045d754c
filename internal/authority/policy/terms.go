package policy

import (
	"slices"
	"strconv"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// Violation is a kind of what calls are refused for.
type Violation uint8

// The kinds of violations.
const (
	PathViolation    Violation = iota // a file that may not be read or written
	HostViolation                     // a host, URL or address that may not be reached
	CommandViolation                  // a command that may not be started
	ToolViolation                     // a tool that may not be called, or not so
	BudgetViolation                   // more than a limit or a budget allows
	DepthViolation                    // more children, or deeper ones, than may be
	GrantViolation                    // a grant that is forged, expired or revoked
	DigestViolation                   // a tool that is not the one that was pinned
	PlanViolation                     // a call that is not in the frozen plan
	ModeViolation                     // a call with side effects while the run only plans
	numViolations
)

var violationNames = [numViolations]string{"path", "host", "command", "tool", "budget", "depth", "grant", "digest", "plan", "mode"}

// String gives the word that policies use.
func (v Violation) String() string {
	if v < numViolations {
		return violationNames[v]
	}
	return "violation(" + strconv.Itoa(int(v)) + ")"
}

// Response is what is done about a violation besides refusing it. A greater one
// is stricter and does what the smaller ones do.
type Response uint8

// The responses.
const (
	LogViolation    Response = iota // it is recorded and logged
	NotifyViolation                 // whoever watches is told
	PauseGrant                      // the grant is paused until a person resumes it
	RevokeGrant                     // the grant is revoked
	numResponses
)

var responseNames = [numResponses]string{"log", "notify", "pause", "revoke"}

// String gives the word that policies use.
func (r Response) String() string {
	if r < numResponses {
		return responseNames[r]
	}
	return "response(" + strconv.Itoa(int(r)) + ")"
}

// The defaults of approvals.
const (
	DefaultApprovers       = 1
	DefaultApprovalTimeout = 10 * time.Minute
	DefaultApprovalExpires = time.Hour
)

// Terms is what a chain says of approvals, frozen plans, revocation and
// violations: what concerns how calls are gated, and not which are allowed.
type Terms struct {
	Approvers       int           // approvals.approvers: different people who must say yes
	ApprovalTimeout time.Duration // approvals.timeout: how long a question waits for its answer
	ApprovalExpires time.Duration // approvals.expires: how long a yes may be used
	Session         bool          // approvals.session: a yes may hold for a session, not only for one call
	PlanRequired    bool          // frozen_plan.required: every run needs a frozen plan
	FinishRevoked   bool          // on_revoke: calls that run when the grant is revoked may come to their end

	responses [numViolations]Response
}

// Response is what is done about a kind of violation.
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

// gates is what a document says of how calls are gated; fields that are not
// written are zero.
type gates struct {
	denyFromRisk, adminFromRisk, planFromRisk *riskGate
	effects                                   [2][]effectEntry // by Deny and Ask

	approvers                        int
	approvalTimeout, approvalExpires time.Duration
	session                          *bool

	planRequired     bool
	planPos, elsePos fault.Pos
	planElse         string // "", "ask" or "deny"
	delegate         *delegation
	onRevoke         string // "", "finish" or "cancel"
	responses        [numViolations]string
}

// Terms gives the chain's effective terms: of each what is strictest.
func (c Chain) Terms() Terms {
	t := Terms{Session: true}
	finish, cancel := false, false
	for _, r := range c {
		if r == nil || r.policy == nil {
			t.Session, cancel = false, true
			continue
		}
		d := r.policy.document()
		t.Approvers = max(t.Approvers, d.approvers)
		least(&t.ApprovalTimeout, d.approvalTimeout)
		least(&t.ApprovalExpires, d.approvalExpires)
		t.Session = t.Session && (d.session == nil || *d.session)
		t.PlanRequired = t.PlanRequired || d.planRequired
		finish = finish || d.onRevoke == "finish"
		cancel = cancel || d.onRevoke == "cancel" || d.onRevoke == "" && !d.inherit
		for v, name := range d.responses {
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
