package store

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Grants keeps grants that outlive a run: their holders, and whether they may still
// be used. Each change is recorded as an event; the tables only make lookups fast.
type Grants interface {
	// PutGrant records that a grant was issued or delegated.
	PutGrant(ctx context.Context, g GrantRecord) error
	// Grant finds one by its ID or a unique prefix of it (at least 4
	// characters): fault.GrantUnknown.
	Grant(ctx context.Context, id string) (GrantRecord, error)
	// Grants lists grants, newest first.
	Grants(ctx context.Context, f GrantFilter) ([]GrantRecord, error)
	// SetStanding revokes, pauses or resumes a grant, also one that the ledger has
	// never seen (a block that a holder appended). A revocation is final.
	SetStanding(ctx context.Context, c StandingChange) error
	// Standing gives the standing of those of the grants that are not Active, and
	// of the standings' version at that moment.
	Standing(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]Standing, int64, error)
	// StandingVersion grows with every change of a standing, by any process.
	StandingVersion(ctx context.Context) (int64, error)
	// UseProof notes a holder's proof until it is over, and reports false if it
	// was used before.
	UseProof(ctx context.Context, id [32]byte, until time.Time) (bool, error)
}

// Standing is whether a grant may be used.
type Standing uint8

// The standings. Numbers are part of the format.
const (
	Active  Standing = 0
	Paused  Standing = 1 // not until a person resumes it
	Revoked Standing = 2 // never again
)

func (s Standing) String() string {
	switch s {
	case Active:
		return "active"
	case Paused:
		return "paused"
	case Revoked:
		return "revoked"
	}
	return "unknown"
}

// StandingChange is one change of a grant's standing.
type StandingChange struct {
	Grant  uuid.UUID
	To     Standing
	By     string // who, as "user:ann"; "policy" where a policy's violations did
	Reason string // for people; part of the payload
	At     time.Time
}

// GrantRecord is a grant as the ledger keeps it. It gives no authority: a grant in
// use is built from its policies or its token.
type GrantRecord struct {
	ID        uuid.UUID
	Parent    uuid.UUID // zero: a root
	Holder    string
	Issued    time.Time
	NotBefore time.Time
	Expires   time.Time // zero: never
	Budgets   grant.Budgets
	Policies  []ledger.PolicySource // its own, without its ancestors'
	Delegable []byte                // JSON: the permitted delegation; nil: none
	Note      string                // for people

	Standing Standing  // as last set for this very grant; its ancestors' count besides
	Since    time.Time // of Standing, unless Active from the beginning
	Seq      ledger.Seq
}

// GrantFilter chooses grants. The zero filter chooses all.
type GrantFilter struct {
	Parent uuid.UUID
	Holder string
	Before ledger.Seq // for the next page
	Limit  int        // 0 means 20
}

// Budgets keeps the remaining budgets of grants. Amounts are leased in chunks to a
// run, which spends or returns them. Spent and leased amounts together never exceed a
// limit. The leases of a run whose process died are settled by the use that its
// events record.
type Budgets interface {
	// OpenBudget makes sure that a node's limits are kept. A node that is known
	// keeps the smaller of both limits.
	OpenBudget(ctx context.Context, node uuid.UUID, limits grant.Budgets) error
	// Lease takes amounts of meters for a run: at least Least, up to Want, and of
	// Spare at most a quarter of the remaining amount. It takes from all meters or
	// from none (fault.BudgetSpent names the first that is short), and reclaims
	// leases of dead processes if needed. A meter that has no limit is an error:
	// there is nothing to lease.
	Lease(ctx context.Context, run ledger.Seq, asks []Lease) ([]Lease, error)
	// Settle accounts for leased amounts: Spent is gone, Return is free again.
	// Spent may be more than was leased: then it is gone all the same.
	Settle(ctx context.Context, run ledger.Seq, done []Settlement) error
	// Spent returns the spent and leased amounts of a node.
	Spent(ctx context.Context, node uuid.UUID) ([]Meter, error)
}

// MeterID names one limit of one node.
type MeterID struct {
	Node uuid.UUID
	What string // as grant.MeterCalls and its like
}

// Lease is a requested or leased amount.
type Lease struct {
	Meter       MeterID
	Least, Want int64 // asked; in an answer Want is all that was given
	Spare       int64
}

// Settlement accounts for a part of a leased amount.
type Settlement struct {
	Meter         MeterID
	Spent, Return int64
}

// Meter is the state of one limit.
type Meter struct {
	ID     MeterID
	Limit  int64
	Spent  int64 // for good
	Leased int64 // by processes that live
}

// Approvals keeps questions that a policy put to people, and their answers. A
// question waits over restarts until it is answered or its time is over.
type Approvals interface {
	// Request files a question. One with the same Binding that still waits, or has a
	// yes that Claim would give, is given instead of filing a second: the answer may
	// have come since the caller looked.
	Request(ctx context.Context, q Question) (Question, error)
	// Question finds one by its ID or a unique prefix of it (at least 4
	// characters): fault.ApprovalGone.
	Question(ctx context.Context, id string) (Question, error)
	// Questions lists them, newest first.
	Questions(ctx context.Context, f QuestionFilter) ([]Question, error)
	// Vote adds an answer. One person counts once. The first no refuses the
	// question, as many different yes as it needs approve it. One that no longer
	// waits is fault.ApprovalGone.
	// A vote under a grant counts only if the grant was issued to that very person and
	// derives from no other, else it is fault.Denied.
	Vote(ctx context.Context, id uuid.UUID, v Vote) (Question, error)
	// Claim uses an approval for one call with this binding. It reports false if
	// there is no valid approval.
	Claim(ctx context.Context, binding [32]byte, at time.Time) (Question, bool, error)
	// CloseQuestion ends a waiting question or an unused approval, because its time
	// is over or the answer is no longer needed.
	CloseQuestion(ctx context.Context, id uuid.UUID, by, why string, at time.Time) error
}

// QuestionState is where a question is.
type QuestionState uint8

// The states of a question. Numbers are part of the format.
const (
	Waiting  QuestionState = 1
	Approved QuestionState = 2 // and good for a call, or for a session's
	Used     QuestionState = 3 // approved for one call, which was made
	Refused  QuestionState = 4
	Lapsed   QuestionState = 5 // not answered, or not used, in time; or withdrawn
)

func (s QuestionState) String() string {
	names := [...]string{"unknown", "waiting", "approved", "used", "refused", "lapsed"}
	if int(s) < len(names) {
		return names[s]
	}
	return names[0]
}

// Question is a question to people and its state.
type Question struct {
	ID      uuid.UUID
	Binding [32]byte   // the call that an approval is for: policies, tool digest, arguments, holder
	Grant   uuid.UUID  // under which the call is made
	Run     ledger.Seq // 0: none
	RunID   uuid.UUID
	Call    uint32
	Holder  string        // who wants to make the call
	Needs   int           // how many different people must say yes
	Admin   bool          // only answers of people who may approve admin calls count
	Asked   time.Time     // when it was filed
	Until   time.Time     // the end of the wait; once approved, the end of the approval
	GoodFor time.Duration // how long an approval is valid
	Body    []byte        // JSON for people: tool, arguments without known values of secrets, reason, risk, effects, actions
	State   QuestionState
	Session []byte // JSON: the calls of the run that the approval is good for; nil: for the one call that asked
	Votes   []Vote
	Seq     ledger.Seq // of the event that asked
}

// Vote is one person's answer.
type Vote struct {
	By      string // as "user:ann"
	Yes     bool
	Where   string    // "terminal", "remit approvals", ...
	Reason  string    // of a refusal, shown to the caller
	Admin   bool      // the person may approve admin calls
	Session []byte    // with a yes: as Question.Session. All who say yes must say the same
	Grant   uuid.UUID // under which the person answered; zero: under none, as at a terminal of this machine
	At      time.Time // of the answer
}

// QuestionFilter chooses questions. The zero filter chooses all.
type QuestionFilter struct {
	State  QuestionState // 0: any
	Run    ledger.Seq    // 0: of any run
	Before ledger.Seq    // for the next page
	Limit  int           // 0 means 50
}
