// Package ledger is the record of everything that Remit did: which events
// exist, how they are encoded and hashed, how they fold into runs and calls,
// and how a Merkle log over them is checked. It is pure: package store keeps
// the bytes. Start at [Event] and [Fold].
//
// Each event is encoded as deterministic CBOR (RFC 8949, section 4.2.1) and is
// a leaf of a Merkle tree in the manner of RFC 6962, as golang.org/x/mod's
// tlog computes it. An event commits to its payload (arguments, outputs) by a
// salted hash, so that a payload and its salt can be erased later while the
// log still verifies.
package ledger

import (
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Seq is an event's place in the ledger, from 1. Leaf number Seq-1 of the
// Merkle tree is the event's.
type Seq uint64

// Kind is the kind of an event.
type Kind uint8

// The kinds. Numbers are part of the format.
const (
	RunStarted  Kind = 1 // a run began; its Seq names the run in all its later events
	CallIntent  Kind = 2 // a call was decided and is about to have effects
	CallOutcome Kind = 3 // how a call with an intent ended
	CallDone    Kind = 4 // a whole call in one event: refused, skipped, or without side effects
	RunFinished Kind = 5 // a run ended
	Changeset   Kind = 6 // the files that a run wrote changed their state; also after the run's end

	// Of authority. They may belong to no run, and may come after their run's end.
	GrantIssued    Kind = 7  // a grant was issued or delegated
	GrantStanding  Kind = 8  // a grant was revoked, paused or resumed
	QuestionAsked  Kind = 9  // a question to people was filed
	QuestionVoted  Kind = 10 // a person answered one
	Violation      Kind = 11 // something was refused that the policy wants to be known
	QuestionClosed Kind = 12 // a question came to its end otherwise: used, lapsed, withdrawn

	// Of agents. The payload's PartDoc is the whole new state.
	AgentSaved   Kind = 13 // an agent was made, changed or deleted
	SessionSaved Kind = 14 // a session was made, changed or deleted
	MessageAdded Kind = 15 // a message was added to a session's conversation
	FileSaved    Kind = 16 // a session's file has a new version, or was deleted

	// Of operators. Name is the action, as "secret.set"; PartDoc is an OperatorAction.
	Operated Kind = 17 // an operator is about to change trust, settings or sources; with Code: the change failed

	// Of the queue. Principal is the person or program that queued or cancelled it.
	RunQueued     Kind = 18 // a run was queued under ID, the later run's; Subject is the schedule that queued it
	QueueChanged  Kind = 19 // a queued run was refused, cancelled, stopped or put back
	ScheduleSaved Kind = 20 // a schedule was made, changed or deleted; PartDoc is its whole new state
	QueuePaused   Kind = 21 // the whole queue was paused or resumed

	// Of labels. PartDoc is FileLabels. Principal is the person who cleared labels; "": a run
	// recorded them, perhaps after its end.
	FilesLabelled Kind = 22
)

// SlowCall is how long a call may take before it counts as slow.
const SlowCall = 5 * time.Second

// Violated is the kind of a violation.
type Violated uint8

// The kinds of violations. Numbers are part of the format.
const (
	ViolatedPath    Violated = 1  // a file that may not be read or written
	ViolatedHost    Violated = 2  // a connection that may not be made
	ViolatedCommand Violated = 3  // a program that may not be started
	ViolatedTool    Violated = 4  // a tool, or arguments to it, that may not be used
	ViolatedBudget  Violated = 5  // more than a limit leaves
	ViolatedDepth   Violated = 6  // delegated deeper, to more or to others than allowed
	ViolatedGrant   Violated = 7  // a grant that is forged, over, revoked or another's
	ViolatedDigest  Violated = 8  // a tool that is not the one that was pinned
	ViolatedPlan    Violated = 9  // a call that a frozen plan does not have
	ViolatedMode    Violated = 10 // an effect while only planning
	ViolatedFlow    Violated = 11 // data was to go where its label keeps it from
)

var violations = [...]string{"", "path", "host", "command", "tool", "budget", "depth", "grant", "digest", "plan", "mode", "flow"}

// String names the kind as policies write it.
func (v Violated) String() string {
	if int(v) < len(violations) {
		return violations[v]
	}
	return "unknown"
}

// ParseViolated reads the result of String for the known kinds.
func ParseViolated(name string) (Violated, bool) {
	i := slices.Index(violations[1:], name)
	return Violated(i + 1), i >= 0
}

// Change is a state of the files that a run wrote, or an action on them that is about
// to begin.
type Change uint8

// The states and actions of a changeset. Numbers are part of the format.
const (
	ChangesHeld      Change = 1 // the run's writes are held from now on
	ChangesReview    Change = 2 // the run is over: PartChanges lists the written files
	ChangesApplying  Change = 3 // about to be carried over into the workspace
	ChangesApplied   Change = 4 // carried over, all or in part
	ChangesDiscarded Change = 5 // about to be thrown away
	ChangesUndoing   Change = 6 // the written files are about to be restored
	ChangesUndone    Change = 7 // taken back
	ChangesFailed    Change = 8 // the action that was about to begin did nothing
)

func (c Change) String() string {
	names := [...]string{"", "held", "review", "applying", "applied", "discarded", "undoing", "undone", "failed"}
	if int(c) < len(names) {
		return names[c]
	}
	return "unknown"
}

// Mode says how a run's calls were answered.
type Mode uint8

// The modes of a run.
const (
	Live   Mode = 1 // "run": executors acted on the world
	Replay Mode = 2 // "replay": executors answered from the record
)

func (m Mode) String() string {
	if m == Replay {
		return "replay"
	}
	return "run"
}

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(b []byte) error {
	for _, known := range []Mode{Live, Replay} {
		if string(b) == known.String() {
			*m = known
			return nil
		}
	}
	return fault.New(fault.Usage, "%q is not a valid mode of a run", b).WithHint("expected run or replay")
}

// NoOwner is the Owner of runs that no process holds open: the calls of a client come
// from one process each. Such a run stays open until an event ends it.
var NoOwner = [16]byte{15: 1}

// Event is one record. Which fields are set depends on Kind; zero fields are left out
// of the encoding. Strings are UTF-8. At is the moment the call entered Created for
// CallIntent and CallDone, else the moment of the event. A CallOutcome does not
// repeat the fields of its intent.
type Event struct {
	Kind Kind   `cbor:"1,keyasint"`
	At   int64  `cbor:"2,keyasint"`           // microseconds since 1970 UTC; see below
	Run  Seq    `cbor:"3,keyasint,omitempty"` // the RunStarted event it belongs to; 0 in that event itself
	Call uint32 `cbor:"4,keyasint,omitempty"` // the call's place in its run, from 1, in plan order

	// Of calls.
	Tool     tool.ID       `cbor:"5,keyasint,omitempty"`
	Digest   []byte        `cbor:"6,keyasint,omitempty"`  // the tool's digest, 32 bytes
	Status   tool.Status   `cbor:"7,keyasint,omitempty"`  // how the call, or for RunFinished the run, ended
	Code     fault.Code    `cbor:"8,keyasint,omitempty"`  // why it did not complete
	Effect   policy.Effect `cbor:"9,keyasint,omitempty"`  // the decision
	Rule     string        `cbor:"10,keyasint,omitempty"` // the deciding rule, as policy.Rule prints it
	Link     uint8         `cbor:"11,keyasint,omitempty"` // which policy of the chain the rule is of
	Risk     tool.Risk     `cbor:"12,keyasint,omitempty"`
	Effects  tool.Effects  `cbor:"13,keyasint,omitempty"` // declared (CallIntent) or happened (CallOutcome, CallDone)
	Timeline []int64       `cbor:"14,keyasint,omitempty"` // microseconds from Created to each later state; see State
	Step     string        `cbor:"15,keyasint,omitempty"` // the plan step's id
	Commit   []byte        `cbor:"16,keyasint,omitempty"` // SHA-256 of salt and payload, 32 bytes
	Line     uint32        `cbor:"18,keyasint,omitempty"` // of the rule in its policy's file; 0 for a default
	Approved bool          `cbor:"17,keyasint,omitempty"` // a person answered the question with yes

	// Of runs.
	ID        []byte   `cbor:"20,keyasint,omitempty"` // UUIDv7, 16 bytes
	Mode      Mode     `cbor:"21,keyasint,omitempty"`
	Name      string   `cbor:"22,keyasint,omitempty"`
	Principal string   `cbor:"23,keyasint,omitempty"`
	Owner     []byte   `cbor:"24,keyasint,omitempty"` // the process that runs it, UUID; the store sets its own where it is empty or zero
	Plan      []byte   `cbor:"25,keyasint,omitempty"` // digest of the plan's source
	Policies  [][]byte `cbor:"26,keyasint,omitempty"` // digests of the chain's policies
	Workspace string   `cbor:"27,keyasint,omitempty"`
	ReplayOf  []byte   `cbor:"28,keyasint,omitempty"` // the run that this one replays
	Total     uint32   `cbor:"29,keyasint,omitempty"` // steps planned (RunStarted), calls made (RunFinished)
	Completed uint32   `cbor:"30,keyasint,omitempty"`
	Denied    uint32   `cbor:"31,keyasint,omitempty"`
	Failed    uint32   `cbor:"32,keyasint,omitempty"`

	// Refused counts the refused attempts of an allowed call while it ran
	// (CallOutcome, CallDone; PartAttempts lists them), and in RunFinished those of
	// all calls.
	Refused uint32 `cbor:"34,keyasint,omitempty"`

	// Client is the name of a program that carries out calls itself and has Remit only
	// decide them, such as another agent that asks before each of its tool calls. Of
	// RunStarted and CallIntent: the client carries out the calls, or this one. Of
	// CallOutcome: the outcome is the client's word. Remit did not observe it. Empty:
	// Remit executed the call.
	Client string `cbor:"36,keyasint,omitempty"`

	// Usage is the budget of a kept grant that a call reserved (CallIntent) or used
	// (CallOutcome, CallDone), in the order of grant.Amounts. Without it the call
	// used none.
	Usage []int64 `cbor:"35,keyasint,omitempty"`

	// Of changesets. Principal is the author of the step, Code the reason that it failed.
	Change Change `cbor:"33,keyasint,omitempty"`

	// Of authority. Grant is the grant concerned, also of RunStarted where the ledger keeps it.
	// Principal is the holder of the grant in a GrantIssued event, and the actor in all others; a
	// question has its own ID, and Approved is its answer.
	Grant    []byte   `cbor:"40,keyasint,omitempty"` // UUID, 16 bytes
	Parent   []byte   `cbor:"41,keyasint,omitempty"` // UUID, 16 bytes; nil: a root
	Standing uint8    `cbor:"42,keyasint,omitempty"` // the grant's new standing, as store.Standing; 0 in a Violation without a change
	Violated Violated `cbor:"43,keyasint,omitempty"`
	Question uint8    `cbor:"44,keyasint,omitempty"` // the question's new state, as store.QuestionState

	// Of agents. Subject is the agent's, or the session's, ID; a RunStarted event has the session
	// that the run belongs to. Number is the agent's, the session's or the file's version, or the
	// message's place in its conversation. Name is the agent's, Parent of a session the one that
	// spawned it, Principal the actor.
	Subject []byte `cbor:"50,keyasint,omitempty"` // UUID, 16 bytes
	Number  uint32 `cbor:"51,keyasint,omitempty"`
	Gone    bool   `cbor:"52,keyasint,omitempty"` // it was deleted
	Agent   []byte `cbor:"53,keyasint,omitempty"` // of a session: its agent's ID, 16 bytes

	// Labels are those that a call added to its context (CallIntent, CallDone), or those
	// that the context of a run begins with (RunStarted).
	Labels []string `cbor:"54,keyasint,omitempty"`

	// Of the queue: the new state of the queued run, the schedule or the queue.
	Queued QueueState `cbor:"60,keyasint,omitempty"`
}

// QueueState is the state of a queued run. Schedules and the queue are QueueWaiting
// (active) or QueueHeld.
type QueueState uint8

// The states. Numbers are part of the format.
const (
	QueueWaiting   QueueState = 1 // for its time, a free place or a limit
	QueueStarted   QueueState = 2 // the run began
	QueueRefused   QueueState = 3 // it was not started, for the reason that the event gives
	QueueCancelled QueueState = 4 // before it was started
	QueueStopping  QueueState = 5 // the run began, and a person asked to end it
	QueueHeld      QueueState = 6 // a schedule or the queue: paused
	QueueDead      QueueState = 7 // it could not be started; a person may queue it again
)

var queueStates = [...]string{"", "waiting", "started", "refused", "cancelled", "stopping", "paused", "dead"}

func (q QueueState) String() string {
	if int(q) < len(queueStates) {
		return queueStates[q]
	}
	return "unknown"
}

// State is a state of a call on its way through the runner.
type State uint8

// The states of a call. A call's Timeline holds, for each state that it
// entered after Created, in this order, the microseconds since it entered
// Created; -1 stands for a state that it skipped.
const (
	Created State = iota
	Validating
	Executing
	Processing
	Logging
	Ended
)

var stateNames = [...]string{"CREATED", "VALIDATING", "EXECUTING", "PROCESSING", "LOGGING", "ENDED"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "STATE"
}

// The parts of a payload.
const (
	PartArgs     = "args"     // JSON object, as the caller gave it
	PartOutput   = "output"   // JSON object
	PartError    = "error"    // the message shown to the caller
	PartHint     = "hint"     // advice for the operator besides PartError, which models do not get
	PartRefusals = "refusals" // JSON list of policy refusals
	PartFacts    = "facts"    // JSON: the facts for the second step of the decision
	PartHappened = "happened" // JSON list of tool.Happened
	PartName     = "name"     // the plan step's name
	PartPlan     = "plan"     // the plan's source
	PartPolicy   = "policy"   // JSON list of {name, file, source}, the chain of the run
	PartInputs   = "inputs"   // JSON object, the plan's inputs with their defaults
	PartAnswer   = "answer"   // JSON: who answered a question, where and when
	PartEnv      = "env"      // JSON policy.Env: the environment of the policies
	PartAttempts = "attempts" // JSON Attempts: refused attempts while the call ran
	PartChanges  = "changes"  // JSON list of a changeset's changes, planned or made
	PartGrant    = "grant"    // JSON GrantTerms; of a run: JSON of its grant's descent, as package grant encodes it
	PartReason   = "reason"   // for people: the reason of a changed standing, a closed question or a refusal
	PartQuestion = "question" // JSON: the content of a question, for people and to bind its answer
	PartDoc      = "doc"      // JSON: the state of an agent or session, a message, FileState, or OperatorAction
	PartBounds   = "bounds"   // JSON CallBounds: the limits of this call besides its run's policies
	PartContent  = "content"  // a session's file

	PartFlow = "flow" // JSON CallFlow: the labels that the call was decided with
	// PartJoined is a number, in decimal digits: when the values of the call's output were
	// added to those of its context, in the order of CallFlow.
	PartJoined = "joined"

	PartReferences = "references" // JSON list of Reference: the outputs that arguments refer to

	// PartNote begins the names of a hook's notes on the call; the stage follows.
	PartNote = "note."

	PartCommitment = "commitment" // JSON commitment.Commitment: the condition that the call checks
)

// Payload are the named parts of an event besides its fields. Parts can be erased
// later, fields cannot: no private data belongs into a field.
type Payload map[string][]byte

// Entry is an event on its way into a store. The store sets Commit, and of a
// RunFinished event Total, Completed, Denied, Failed and Refused: the [Tally] of the
// run's events.
type Entry struct {
	Event   Event
	Payload Payload
	// Durable asks that the event survives a loss of power before Append
	// returns, where the store's setting is "power".
	Durable bool
}

// Part is one part of a stored payload: its bytes, or where they are.
type Part struct {
	Inline []byte   // the bytes, when Blob is nil
	Blob   *BlobRef // set when the bytes are kept apart
}

// BlobRef addresses bytes kept apart from their event.
type BlobRef struct {
	Address [32]byte // HMAC-SHA-256 of the bytes under the ledger's own key
	Size    int64    // of the bytes before compression
}

// Size is the number of bytes of the part.
func (p Part) Size() int64 {
	if p.Blob != nil {
		return p.Blob.Size
	}
	return int64(len(p.Inline))
}

// Stored is an event as a store gives it back.
type Stored struct {
	Seq    Seq
	Event  Event
	Parts  map[string]Part
	Erased bool // the payload was erased
}
