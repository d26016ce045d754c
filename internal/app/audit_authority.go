package app

import (
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// The events of grants, questions and violations. Their status says what came of
// them: which standing, which state, or what kind of violation.
const (
	eventGrantIssued    = "grant_issued"
	eventGrantStanding  = "grant_standing"
	eventQuestionAsked  = "question_asked"
	eventQuestionVoted  = "question_voted"
	eventQuestionClosed = "question_closed"
	eventViolation      = "violation"
)

// authorityEvents are the names of all of them.
var authorityEvents = []string{eventGrantIssued, eventGrantStanding, eventQuestionAsked, eventQuestionVoted, eventQuestionClosed, eventViolation}

// ofAuthority tells what an event of authority says.
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
