package history

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/extension"
)

// The events of grants, questions and violations. Their status is the new standing, the
// state of the question, or the kind of violation.
const (
	eventGrantIssued    = "grant_issued"
	eventGrantStanding  = "grant_standing"
	eventQuestionAsked  = "question_asked"
	eventQuestionVoted  = "question_voted"
	eventQuestionClosed = "question_closed"
	eventViolation      = "violation"
)

// authorityEvents are the names of all events of authority.
var authorityEvents = []string{eventGrantIssued, eventGrantStanding, eventQuestionAsked, eventQuestionVoted, eventQuestionClosed, eventViolation}

// ofAuthority fills in an event of authority.
func (e *AuditEvent) ofAuthority(ev *ledger.Event) {
	if id, err := uuid.FromBytes(ev.Grant); err == nil {
		e.Grant = id.String()
	}
	e.By = ev.Principal
	switch ev.Kind {
	case ledger.GrantIssued:
		e.Event, e.Status = eventGrantIssued, "issued"
	case ledger.GrantStanding:
		e.Event, e.Status = eventGrantStanding, store.Standing(ev.Standing).String()
	case ledger.QuestionAsked:
		e.Event, e.Status = eventQuestionAsked, store.QuestionState(ev.Question).String()
	case ledger.QuestionVoted:
		e.Event, e.Status = eventQuestionVoted, store.QuestionState(ev.Question).String()
	case ledger.QuestionClosed:
		e.Event, e.Status = eventQuestionClosed, store.QuestionState(ev.Question).String()
	case ledger.Violation:
		e.Event, e.Status = eventViolation, ev.Violated.String()
	}
}

// extension names the extension that provides the called tool, or the slash command that
// made the call; "": neither. A command can call any tool, so its extension is found by
// the bounds that are recorded with the call.
func (au *auditor) extension(ctx context.Context, call ledger.Stored) (string, error) {
	if id := extensionOf(call.Event.Tool); id != "" {
		return id, nil
	}
	p, there := call.Parts[ledger.PartBounds]
	if !there {
		return "", nil
	}
	b, err := au.st.Load(ctx, p)
	if err != nil {
		return "", err
	}
	var bounds ledger.CallBounds
	if err := json.Unmarshal(b, &bounds); err != nil {
		return "", fault.Wrap(fault.StoreCorrupt, err, "the bounds of the call of event %d cannot be read", call.Seq)
	}
	for _, src := range bounds.Policies {
		if id, ok := extension.OfBounds(src.File); ok {
			return id, nil
		}
	}
	return "", nil
}

// extensionOf gives the extension that a tool's ID names; "": the tool is not from one.
func extensionOf(id tool.ID) string {
	rest, ok := strings.CutPrefix(string(id), "ext:")
	if name, _, more := strings.Cut(rest, ":"); ok && more {
		return name
	}
	return ""
}

// EventOperated is an operator's action. Its status says whether it was recorded, or failed
// after it was recorded.
const EventOperated = "operator_action"

// operated fills in an operator's event.
func (au *auditor) operated(ctx context.Context, s ledger.Stored, e *AuditEvent) error {
	e.Event, e.Status, e.By, e.Action = EventOperated, "recorded", s.Event.Principal, s.Event.Name
	if s.Event.Code != 0 {
		e.Status = "failed"
	}
	p, there := s.Parts[ledger.PartDoc]
	if !there { // it was erased
		return nil
	}
	b, err := au.st.Load(ctx, p)
	if err != nil {
		return err
	}
	var about ledger.OperatorAction
	if err := json.Unmarshal(b, &about); err != nil {
		return fault.Wrap(fault.StoreCorrupt, err, "the operator's action of event %d cannot be read", s.Seq)
	}
	e.Target, e.Digest = about.Target, about.Digest
	return nil
}

// The events of agents and sessions. Their status is saved, added or deleted.
const (
	eventAgentSaved   = "agent_saved"
	eventSessionSaved = "session_saved"
	eventMessageAdded = "message_added"
	eventFileSaved    = "file_saved"
)

// agentEvents are the names of all events of agents and sessions.
var agentEvents = []string{eventAgentSaved, eventSessionSaved, eventMessageAdded, eventFileSaved}

// ofAgents fills in an event of an agent or session.
func (e *AuditEvent) ofAgents(ev *ledger.Event) {
	e.By, e.Number, e.Status = ev.Principal, int(ev.Number), "saved"
	e.ofSubject(ev)
	switch ev.Kind {
	case ledger.AgentSaved:
		e.Event = eventAgentSaved
	case ledger.SessionSaved:
		e.Event = eventSessionSaved
	case ledger.MessageAdded:
		e.Event, e.Status = eventMessageAdded, "added"
	case ledger.FileSaved:
		e.Event = eventFileSaved
	}
	if ev.Gone {
		e.Status = "deleted"
	}
}

// ofSubject fills in which agent or session an event is about.
func (e *AuditEvent) ofSubject(ev *ledger.Event) {
	if id, err := uuid.FromBytes(ev.Subject); err == nil {
		e.Subject = id.String()
	}
}
