// Package fault defines Remit's error codes and the one error type that carries them.
// Programs branch on the code (with [errors.Is]); people read the message. Start at
// [Code] and [New].
//
// The text of an error may be shown to an agent: it never contains a secret. The
// wrapped cause (Err) is for the operator's log only.
package fault

import (
	"errors"
	"fmt"
	"strings"
)

// Code numbers a kind of failure. It is an error itself, so that
// errors.Is(err, fault.Denied) reads well. The thousands give the area.
type Code int

// The codes. Numbers are part of the public interface: they are never reused.
const (
	Denied         Code = 1001 // a rule denies the call, or none allows it
	NeedsApproval  Code = 1002 // a rule asks, and no approver can be asked, or the answer was no
	PolicyInvalid  Code = 1003 // a policy cannot be read
	PolicyMissing  Code = 1004 // no policy was given and none is trusted
	LimitReached   Code = 1005 // a limit of the policy (calls, time, ...) is used up
	HandleRefused  Code = 1006 // a handle refused an action that the decision had not covered
	HookRefused    Code = 1007 // a hook refused the call, or failed
	ToolUnknown    Code = 2001 // no tool has this ID
	ArgsInvalid    Code = 2002 // arguments do not fit the tool's schema
	ToolFailed     Code = 2003 // the tool ran and failed
	ToolTimeout    Code = 2004 // the call's time ran out
	ToolCancelled  Code = 2005 // the caller gave up
	ToolPanicked   Code = 2006 // the tool crashed inside Remit
	SandboxMissing Code = 2007 // this machine cannot confine the process, so it was not started
	OutputInvalid  Code = 2008 // the tool's output does not fit its schema
	NotFound       Code = 2009 // a file, host or command that the call names does not exist
	Conflict       Code = 2010 // a guard such as if_sha256 did not hold
	Interrupted    Code = 2011 // Remit ended before the call's outcome was known
	LoginNeeded    Code = 2012 // a server elsewhere wants a person to sign in

	CommitmentUnmet Code = 2013 // a condition under which work counts as done does not hold

	PlanInvalid    Code = 3001 // a plan cannot be read or makes no sense
	PlanInput      Code = 3002 // an input is missing, unknown or of the wrong type
	PlanReference  Code = 3003 // an expression names a value that is not there
	ReplayMismatch Code = 4001 // a replay differs from the record
	VerifyFailed   Code = 4002 // the ledger was altered after it was recorded
	RolledBack     Code = 4003 // a witness has seen another history than the ledger has
	StoreFailed    Code = 5001 // the ledger cannot be read or written
	StoreCorrupt   Code = 5002 // the ledger's file is damaged
	StoreFull      Code = 5003 // no space is left for the ledger
	StoreReadOnly  Code = 5004 // the ledger's file or folder cannot be written
	StoreVersion   Code = 5005 // the ledger was made by a newer Remit
	RunUnknown     Code = 5006 // no run has this ID
	StoreMissing   Code = 5007 // the ledger is missing, but its keys are there
	QueueFull      Code = 5008 // as many runs wait as may
	GrantInvalid   Code = 6001 // a grant is malformed: a token was cut off or changed, or makes no sense
	GrantExpired   Code = 6002 // a grant's time is over
	GrantEarly     Code = 6003 // a grant's time has not begun
	GrantRevoked   Code = 6004 // a grant, or one that it derives from, was revoked
	GrantPaused    Code = 6005 // a grant, or one that it derives from, is paused until a person resumes it
	GrantHolder    Code = 6006 // the grant is bound to a holder, and the caller did not prove to be that holder
	GrantAudience  Code = 6007 // the grant is for another audience
	GrantLedger    Code = 6008 // the grant was issued by another ledger
	GrantTooLarge  Code = 6009 // a token is larger than any may be
	GrantVersion   Code = 6010 // a token was made by a newer Remit
	GrantUnknown   Code = 6011 // no grant has this ID
	BudgetSpent    Code = 6012 // a budget of the grant, or of one that it derives from, is used up
	NotDelegable   Code = 6013 // the policy does not say that this may be handed on
	PlanOnly       Code = 6014 // the run only plans, and the call has side effects
	NotInPlan      Code = 6015 // the run is bound to a frozen plan that does not have this call
	ToolDisabled   Code = 6016 // the tool is disabled
	ToolChanged    Code = 6017 // the tool is not the one that the grant pins, or that was decided on
	ApprovalGone   Code = 6018 // no pending approval has this ID
	GrantForged    Code = 6019 // a token was altered, or not signed by its issuer or holders
	GrantReplayed  Code = 6020 // a holder's proof was used before, or is not fresh
	GrantKey       Code = 6021 // a token was signed with a key that the ledger does not have, or no longer trusts
	GrantSealed    Code = 6022 // a token was sealed: it cannot be narrowed further
	GrantWorkspace Code = 6023 // a token is for another workspace
	FlowRefused    Code = 6024 // a flow of the policy keeps data with a label from going there

	ExtensionInvalid  Code = 7001 // an extension's manifest or commands cannot be read or make no sense
	ExtensionUnknown  Code = 7002 // no extension has this ID
	ExtensionUnsafe   Code = 7003 // an extension's archive or folder has a file that is never unpacked
	ExtensionConflict Code = 7004 // an extension's command, or ID, is taken
	ExtensionChecksum Code = 7005 // an extension does not match its checksum or signature
	CommandUnknown    Code = 7006 // no slash command, or none of its actions, has this name
	CommandInvalid    Code = 7007 // a slash command cannot be read, or its arguments do not fit

	AgentInvalid      Code = 8001 // an agent, or one of its fields, makes no sense
	AgentUnknown      Code = 8002 // no agent has this ID
	SessionUnknown    Code = 8003 // no session has this ID
	SessionBusy       Code = 8004 // the session is at work, here or in another process
	SessionEnded      Code = 8005 // the session takes no more messages
	CapabilityUnknown Code = 8006 // no capability has this ID
	CapabilityInvalid Code = 8007 // a capability's configuration, dependencies or tool names do not fit
	ModelUnknown      Code = 8008 // no provider serves the model, or none is chosen
	ModelKey          Code = 8009 // the provider's key is missing or refused
	ModelFailed       Code = 8010 // the provider failed, or its answer cannot be read
	ModelBusy         Code = 8011 // the provider refuses for now: too many requests, or overloaded
	ModelContext      Code = 8012 // the conversation is longer than the model takes
	ModelCall         Code = 8013 // the model's tool call is malformed
	Looping           Code = 8014 // the agent repeats itself, so it was stopped
	FilesFull         Code = 8015 // a session's files would exceed their quota
	Stale             Code = 8016 // the object was changed meanwhile
	MessageUnknown    Code = 8017 // the session has no such message

	Usage    Code = 9001 // a command line that makes no sense
	Internal Code = 9999 // a bug in Remit
)

// Error makes a bare Code an error.
func (c Code) Error() string { return fmt.Sprintf("E%04d", int(c)) }

// OfGrant reports whether a code says that a grant is invalid or may not be used.
func (c Code) OfGrant() bool {
	return c >= GrantInvalid && c <= GrantVersion || c >= GrantForged && c <= GrantWorkspace
}

// Passing reports whether an error says that the ledger failed in a way that passes: the server is back
// some day, or space is freed.
func Passing(err error) bool { return errors.Is(err, StoreFailed) || errors.Is(err, StoreFull) }

// Exit is the process's exit status for an error of this code, as every
// command's help lists them.
func (c Code) Exit() int {
	switch c {
	case Denied, NeedsApproval, LimitReached, HandleRefused, HookRefused, GrantInvalid, GrantExpired, GrantEarly, GrantRevoked, GrantPaused,
		GrantHolder, GrantAudience, GrantLedger, GrantTooLarge, GrantVersion, BudgetSpent, NotDelegable, PlanOnly, NotInPlan,
		ToolDisabled, ToolChanged, GrantForged, GrantReplayed, GrantKey, GrantSealed, GrantWorkspace, FlowRefused:
		return 3
	case PolicyInvalid, PolicyMissing, ToolUnknown, ArgsInvalid, PlanInvalid, PlanInput, PlanReference, Usage, RunUnknown, GrantUnknown, ApprovalGone,
		ExtensionInvalid, ExtensionUnknown, ExtensionUnsafe, ExtensionConflict, ExtensionChecksum, CommandUnknown, CommandInvalid,
		AgentInvalid, AgentUnknown, SessionUnknown, CapabilityUnknown, CapabilityInvalid, ModelUnknown, MessageUnknown:
		return 2
	case ReplayMismatch, VerifyFailed, RolledBack:
		return 4
	case StoreFailed, StoreCorrupt, StoreFull, StoreReadOnly, StoreVersion, StoreMissing:
		return 5
	case ToolCancelled:
		return 130
	}
	return 1
}

// Pos is a place in a file. Line and Column count from 1; 0 means unknown.
type Pos struct {
	File   string
	Line   int
	Column int
}

func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Error is a failure with a code, a message for the caller, and optionally the
// place in a file, the field concerned, and the way out.
type Error struct {
	Code  Code
	Pos   Pos    // where in which file, if anywhere
	Field string // the field concerned, as steps[2].args.path
	Msg   string // may be shown to the caller
	Hint  string // the way out, a sentence without a final full stop
	Err   error  // the cause, for operators only; never shown to agents
	// Operator: only the operator can follow the hint, as it needs a command of
	// Remit.
	Operator bool
}

// New makes an Error with a formatted message.
func New(c Code, format string, args ...any) *Error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error with a formatted message and a cause.
func Wrap(c Code, err error, format string, args ...any) *Error {
	return &Error{Code: c, Msg: fmt.Sprintf(format, args...), Err: err}
}

// At returns a copy of e that names a place.
func (e *Error) At(p Pos) *Error { c := *e; c.Pos = p; return &c }

// In returns a copy of e that names a field.
func (e *Error) In(field string) *Error { c := *e; c.Field = field; return &c }

// WithHint returns a copy of e with a hint: a command or an edit that helps.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint, c.Operator = fmt.Sprintf(format, args...), false
	return &c
}

// ForOperator returns a copy of e with a hint for the operator only, such as a
// command of Remit. Models do not see it.
func (e *Error) ForOperator(format string, args ...any) *Error {
	c := e.WithHint(format, args...)
	c.Operator = true
	return c
}

// Error prints the code, the place, the field, the message and the hint.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Code.Error())
	if e.Pos != (Pos{}) {
		b.WriteString(" " + e.Pos.String() + ":")
	}
	if e.Field != "" {
		b.WriteString(" " + e.Field + ":")
	}
	b.WriteString(" " + e.Msg)
	if e.Hint != "" {
		b.WriteString(" (" + e.Hint + ")")
	}
	return b.String()
}

// Unwrap gives the operator's cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, fault.Denied) work.
func (e *Error) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == e.Code
}

// List is several problems found in one go, such as all of a policy's.
// Its code is that of its first problem.
type List []*Error

func (l List) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.Is and errors.As see every problem.
func (l List) Unwrap() []error {
	out := make([]error, len(l))
	for i, e := range l {
		out[i] = e
	}
	return out
}

// Err is nil for an empty list, so that a checker can end with it.
func (l List) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// CodeOf is the code an error carries, or Internal if it carries none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return Internal
}

// ForModel returns the text of an error for a model: the message, and a hint unless
// it is for the operator.
func ForModel(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Operator {
		return e.Msg
	}
	return Message(err)
}

// OperatorHint returns the hint of an error that models are not told, "" if it has none.
func OperatorHint(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Operator {
		return e.Hint
	}
	return ""
}

// Message returns the text of an error that may be shown to an agent: the message of
// the coded error, without its cause.
func Message(err error) string {
	var e *Error
	if errors.As(err, &e) {
		if e.Hint != "" {
			return e.Msg + " (" + e.Hint + ")"
		}
		return e.Msg
	}
	var c Code
	if errors.As(err, &c) {
		return c.Error()
	}
	return "internal error"
}
