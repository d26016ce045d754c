package history

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/extension"
)

// eventOperated is an operator's action. Its status says whether it was recorded, or failed
// after it was recorded.
const eventOperated = "operator_action"

// eventNames are the names of the events that have the same name whatever they tell. The status of
// an event of grants, questions or violations is the new standing, the state of the question, or
// the kind of violation; of an event of agents or sessions it is saved, added or deleted.
var eventNames = map[ledger.Kind]string{
	ledger.RunStarted:     runs.EventRunStarted,
	ledger.CallIntent:     eventlog.EventStarted,
	ledger.RunFinished:    runs.EventRunFinished,
	ledger.Changeset:      runs.EventChangeset,
	ledger.GrantIssued:    "grant_issued",
	ledger.GrantStanding:  "grant_standing",
	ledger.QuestionAsked:  "question_asked",
	ledger.QuestionVoted:  "question_voted",
	ledger.QuestionClosed: "question_closed",
	ledger.Violation:      "violation",
	ledger.AgentSaved:     "agent_saved",
	ledger.SessionSaved:   "session_saved",
	ledger.MessageAdded:   "message_added",
	ledger.FileSaved:      "file_saved",
	ledger.Operated:       eventOperated,
	ledger.RunQueued:      "run_queued",
	ledger.QueueChanged:   "queued_run_changed",
	ledger.ScheduleSaved:  "schedule_saved",
	ledger.QueuePaused:    "queue_paused",
	ledger.FilesLabelled:  "files_labelled",
}

// eventType is a name that a query can ask for.
type eventType struct {
	marks   []store.Mark           // every event of the type has at least one
	selects func(*AuditEvent) bool // decides; the marks also find other events
}

// eventTypes are the event types by name. A slow call is also of the type of its outcome, and
// a call with a refused action is a violation, whatever its outcome.
var eventTypes = func() map[string]eventType {
	types := map[string]eventType{}
	named := func(name string, m store.Mark) {
		t := eventType{marks: types[name].marks, selects: func(e *AuditEvent) bool { return e.Event == name }}
		if !slices.Contains(t.marks, m) {
			t.marks = append(t.marks, m)
		}
		types[name] = t
	}
	for kind, name := range eventNames {
		named(name, store.KindMark(kind))
	}
	for s := tool.Completed; s <= tool.StatusInterrupted; s++ {
		named(runs.EventName(s, 0), store.StatusMark(s))
		named(runs.EventName(s, fault.NeedsApproval), store.StatusMark(s))
	}
	types[eventlog.EventViolation] = eventType{
		marks: append(types[eventlog.EventViolation].marks, store.MarkRefused),
		selects: func(e *AuditEvent) bool {
			return e.Event == eventlog.EventViolation || e.Call > 0 && e.Refused > 0
		},
	}
	types[eventlog.EventSlow] = eventType{
		marks: []store.Mark{store.MarkSlow},
		selects: func(e *AuditEvent) bool {
			return e.Call > 0 && e.Duration >= float64(ledger.SlowCall.Milliseconds())
		},
	}
	return types
}()

// ofAuthority fills in an event of authority, or of labels of files.
func (e *AuditEvent) ofAuthority(ev *ledger.Event) {
	if id, err := uuid.FromBytes(ev.Grant); err == nil {
		e.Grant = id.String()
	}
	e.By = ev.Principal
	switch ev.Kind {
	case ledger.GrantIssued:
		e.Status = "issued"
	case ledger.GrantStanding:
		e.Status = store.Standing(ev.Standing).String()
	case ledger.QuestionAsked, ledger.QuestionVoted, ledger.QuestionClosed:
		e.Status = store.QuestionState(ev.Question).String()
		if id, err := uuid.FromBytes(ev.ID); err == nil {
			e.Approval = id.String()
		}
	case ledger.Violation:
		e.Status = ev.Violated.String()
	case ledger.FilesLabelled:
		if e.Status = "recorded"; ev.Principal != "" {
			e.Status = "cleared"
		}
	}
}

// ofQueue fills in an event of the queue.
func (e *AuditEvent) ofQueue(ev *ledger.Event) {
	e.By, e.Status, e.Number = ev.Principal, ev.Queued.String(), int(ev.Number)
	if id, err := uuid.FromBytes(ev.ID); err == nil {
		e.RunID = id.String()
	}
	if id, err := uuid.FromBytes(ev.Grant); err == nil {
		e.Grant = id.String()
	}
	e.ofSubject(ev)
	if ev.Gone {
		e.Status = "deleted"
	}
}

// extension names the extension that provides the called tool, or the slash command that
// made the call; "": neither. A command can call any tool, so its extension is found by
// the bounds that are recorded with the call.
func (au *auditor) extension(ctx context.Context, call ledger.Call) (string, error) {
	if id := call.Tool.Extension(); id != "" {
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
		return "", fault.Wrap(fault.StoreCorrupt, err, "the bounds of the call of event %d cannot be read", max(call.Intent, call.Outcome))
	}
	for _, src := range bounds.Policies {
		if id, ok := extension.OfBounds(src.File); ok {
			return id, nil
		}
	}
	return "", nil
}

// operated fills in an operator's event.
func (au *auditor) operated(ctx context.Context, s ledger.Stored, e *AuditEvent) error {
	e.Status, e.By, e.Action = "recorded", s.Event.Principal, s.Event.Name
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

// ofAgents fills in an event of an agent or session.
func (e *AuditEvent) ofAgents(ev *ledger.Event) {
	e.By, e.Number, e.Status = ev.Principal, int(ev.Number), "saved"
	e.ofSubject(ev)
	if ev.Kind == ledger.MessageAdded {
		e.Status = "added"
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
