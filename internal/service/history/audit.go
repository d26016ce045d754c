package history

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/runs"
)

// AuditQuery selects events. The zero query selects all of them, newest first.
type AuditQuery struct {
	Since, Until time.Time
	Event        string // an event's name, see KnownEvent
	Extension    string
	Run          string // ID of a run
	Subject      string // ID of an agent or a session
	Tool         tool.ID
	Status       tool.Status
	Failed       bool
	Denied       bool
	Before       ledger.Seq // the next page
	Limit        int
}

// AuditEvent is a recorded event without its payload. An operator's action has its target.
type AuditEvent struct {
	Seq       ledger.Seq `json:"seq"`
	At        time.Time  `json:"at"`
	Event     string     `json:"event"`
	RunID     string     `json:"run_id,omitempty"`
	Approval  string     `json:"approval_id,omitempty" doc:"Of a question: its ID"`
	Grant     string     `json:"grant,omitempty" doc:"Of a grant, a question or a violation: the grant concerned"`
	By        string     `json:"by,omitempty" doc:"Who issued, changed or answered; of a grant that was issued: its holder"`
	Action    string     `json:"action,omitempty" doc:"Of an operator_action: the action, as secret.set"`
	Target    string     `json:"target,omitempty" doc:"Of an operator_action: the name, ID or path concerned"`
	Digest    string     `json:"digest,omitempty" doc:"Of an operator_action: SHA-256 of the new state"`
	Subject   string     `json:"subject,omitempty" doc:"The agent or session concerned; of a run its session"`
	Number    int        `json:"number,omitempty" doc:"Of an agent, session or file: its version; of a message: its number"`
	Call      int        `json:"call,omitempty"`
	Tool      tool.ID    `json:"tool,omitempty"`
	Extension string     `json:"extension,omitempty" doc:"The extension whose tool was called, or whose slash command made the call"`
	Status    string     `json:"status"`
	Code      string     `json:"code,omitempty"`
	Effect    string     `json:"effect,omitempty"`
	Rule      string     `json:"rule,omitempty"`
	Client    string     `json:"client,omitempty" doc:"The program that carries out the calls itself; of an outcome: that reported it"`
	Refused   int        `json:"refused,omitempty" doc:"Refused actions of the call while it ran; of a run's end: of all its calls"`
	Duration  float64    `json:"duration_ms,omitempty"`
}

// KnownEvent reports whether this is the name of an event.
func KnownEvent(name string) bool {
	_, known := eventTypes[name]
	return known
}

// EventNames returns the names of events, sorted.
func EventNames() []string { return slices.Sorted(maps.Keys(eventTypes)) }

// Audit gives the newest events that a query selects, and where the next page begins
// (0: this is the last page).
func (h *History) Audit(ctx context.Context, q AuditQuery) ([]AuditEvent, ledger.Seq, error) {
	st, err := h.Reader(ctx)
	if err != nil {
		return nil, 0, err
	}
	au := auditor{st: st, runs: map[ledger.Seq]uuid.UUID{}}
	out := []AuditEvent{}
	if q.Before == 1 {
		return out, 0, nil
	}
	f := q.filter()
	if q.Run != "" {
		if err := f.boundToRun(ctx, st, q.Run); err != nil {
			return nil, 0, err
		}
	}
	for ev, err := range st.Find(ctx, f.EventFilter) {
		if err != nil {
			return nil, 0, err
		}
		e, err := au.view(ctx, ev)
		if err != nil {
			return nil, 0, err
		}
		if !q.selects(&e) {
			continue
		}
		if len(out) == q.Limit {
			return out, out[len(out)-1].Seq, nil
		}
		out = append(out, e)
	}
	return out, 0, nil
}

// selects reports whether an event is part of the answer.
func (q AuditQuery) selects(e *AuditEvent) bool {
	is := func(names ...string) bool { return slices.Contains(names, e.Status) }
	switch {
	case !q.Since.IsZero() && e.At.Before(q.Since), !q.Until.IsZero() && e.At.After(q.Until):
		return false
	case q.Event != "" && (!KnownEvent(q.Event) || !eventTypes[q.Event].selects(e)):
		return false
	case q.Tool != "" && e.Tool != q.Tool,
		q.Run != "" && e.RunID != q.Run,
		q.Subject != "" && e.Subject != q.Subject,
		q.Extension != "" && e.Extension != q.Extension,
		q.Status != tool.Pending && !is(q.Status.String()):
		return false
	case (q.Failed || q.Denied) && e.Call == 0:
		return false
	}
	// A call with a refused action counts as denied, whatever its outcome.
	failed := is("failed", "timeout", "cancelled", "interrupted")
	denied := is("denied") || e.Refused > 0
	return !q.Failed && !q.Denied || q.Failed && failed || q.Denied && denied
}

// auditor describes events. A run's ID and a call's tool are only in their first events, which it
// reads unless it has seen them.
type auditor struct {
	st    store.Store
	runs  map[ledger.Seq]uuid.UUID
	calls map[callOf]ledger.Call // calls whose outcome was not seen; nil: events come backwards, outcomes first
}

// callOf names a call.
type callOf struct {
	run  ledger.Seq
	call uint32
}

// forward makes an auditor for events in their order.
func forward(st store.Store) *auditor {
	return &auditor{st: st, runs: map[ledger.Seq]uuid.UUID{}, calls: map[callOf]ledger.Call{}}
}

// view describes an event.
func (au *auditor) view(ctx context.Context, s ledger.Stored) (AuditEvent, error) {
	ev := s.Event
	e := AuditEvent{Seq: s.Seq, Event: eventNames[ev.Kind], At: time.UnixMicro(ev.At).UTC(), Call: int(ev.Call), Tool: ev.Tool, Status: ev.Status.String(), Rule: ev.Rule, Client: ev.Client, Refused: int(ev.Refused)}
	if ev.Code != 0 {
		e.Code = ev.Code.Error()
	}
	if len(ev.Timeline) > 3 {
		e.Duration = float64(ev.Timeline[3]) / 1000
	}
	var err error
	run := ev.Run
	switch ev.Kind {
	case ledger.RunStarted:
		e.Status, run = "running", s.Seq
		e.ofSubject(&ev)
		err = au.noteRunID(run, ev)
	case ledger.RunFinished:
	case ledger.Changeset:
		e.Status = ev.Change.String()
	case ledger.CallIntent, ledger.CallOutcome, ledger.CallDone:
		err = au.ofCall(ctx, s, &e)
	case ledger.AgentSaved, ledger.SessionSaved, ledger.MessageAdded, ledger.FileSaved:
		e.ofAgents(&ev)
	case ledger.Operated:
		err = au.operated(ctx, s, &e)
	case ledger.RunQueued, ledger.QueueChanged, ledger.ScheduleSaved, ledger.QueuePaused:
		e.ofQueue(&ev)
	case ledger.Violation:
		e.ofAuthority(&ev)
		err = au.ofViolation(ctx, s, &e)
	default:
		e.ofAuthority(&ev)
	}
	if err != nil || run == 0 {
		return e, err
	}
	id, err := au.run(ctx, run)
	e.RunID = id.String()
	return e, err
}

// ofCall fills in an event of a call. Only the call's first event names the tool.
func (au *auditor) ofCall(ctx context.Context, s ledger.Stored, e *AuditEvent) error {
	call, err := ledger.NewCall(s), error(nil)
	switch s.Event.Kind {
	case ledger.CallIntent:
		e.Status = "running"
		if au.calls != nil {
			au.calls[callOf{s.Event.Run, s.Event.Call}] = call
		}
	case ledger.CallOutcome:
		if call, err = au.decided(ctx, s); err != nil {
			return err
		}
		e.Tool, e.Rule = call.Tool, call.Rule
		fallthrough
	default:
		e.Event = runs.EventName(s.Event.Status, s.Event.Code)
	}
	e.Effect = call.Effect.String()
	e.Extension, err = au.extension(ctx, call)
	return err
}

// ofViolation fills in the extension whose call was refused something.
func (au *auditor) ofViolation(ctx context.Context, s ledger.Stored, e *AuditEvent) error {
	call, err := au.decided(ctx, s)
	if err != nil {
		return err
	}
	e.Extension, err = au.extension(ctx, call)
	return err
}

func (au *auditor) run(ctx context.Context, seq ledger.Seq) (uuid.UUID, error) {
	if id, ok := au.runs[seq]; ok {
		return id, nil
	}
	ev, err := au.event(ctx, seq)
	if err != nil {
		return uuid.Nil, err
	}
	err = au.noteRunID(seq, ev)
	return au.runs[seq], err
}

// noteRunID notes the ID of a run, which only its first event tells.
func (au *auditor) noteRunID(seq ledger.Seq, ev ledger.Event) error {
	id, err := uuid.FromBytes(ev.ID)
	if err != nil {
		return fault.Wrap(fault.StoreCorrupt, err, "event %d starts no run", seq)
	}
	au.runs[seq] = id
	return nil
}

// decided finds the call of an outcome or a violation; the zero call when there is none.
func (au *auditor) decided(ctx context.Context, s ledger.Stored) (ledger.Call, error) {
	if s.Event.Call == 0 {
		return ledger.Call{}, nil
	}
	of := callOf{s.Event.Run, s.Event.Call}
	if c, ok := au.calls[of]; ok {
		if s.Event.Kind == ledger.CallOutcome {
			c.Close(s)
			delete(au.calls, of)
		}
		return c, nil
	}
	c, err := au.st.Call(ctx, s.Event.Run, int(s.Event.Call))
	if errors.Is(err, fault.RunUnknown) {
		return ledger.Call{}, nil
	}
	return c, err
}

func (au *auditor) event(ctx context.Context, seq ledger.Seq) (ledger.Event, error) {
	for ev, err := range au.st.Events(ctx, seq) {
		return ev.Event, err
	}
	return ledger.Event{}, fault.New(fault.StoreCorrupt, "event %d is missing", seq)
}
