package app

import (
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
)

// The events of agents and sessions. Their status says what happened: saved,
// added or deleted.
const (
	eventAgentSaved   = "agent_saved"
	eventSessionSaved = "session_saved"
	eventMessageAdded = "message_added"
	eventFileSaved    = "file_saved"
)

// agentEvents are the names of all of them.
var agentEvents = []string{eventAgentSaved, eventSessionSaved, eventMessageAdded, eventFileSaved}

// ofAgents tells what an event of an agent or session says.
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

// ofSubject tells which agent or session an event is of.
func (e *AuditEvent) ofSubject(ev *ledger.Event) {
	if id, err := uuid.FromBytes(ev.Subject); err == nil {
		e.Subject = id.String()
	}
}
