package runs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/record/ledger"
)

// observers shows each notice of a run to the logs, to people whom a violation concerns, and to
// next, if there is one.
func (s *Runs) observers(next func(runner.Notice)) (func(runner.Notice), error) {
	log, err := s.Home.Log()
	if err != nil {
		return nil, err
	}
	notifyPeople := s.notifier()
	return func(n runner.Notice) {
		logNotice(log, n)
		notifyPeople(n)
		if next != nil {
			next(n)
		}
	}, nil
}

// logNotice writes what a call came to. A question that nobody answered and a limit are failures of
// the call; a refusal by a policy or a handle is a violation.
func logNotice(l *eventlog.Log, n runner.Notice) {
	switch n.State {
	case ledger.Executing:
		l.Started(logEntry(n))
	case ledger.Ended:
		if n.Outcome.Status == tool.Skipped || n.Outcome.Status == tool.Pending { // not run, or left to a client
			return
		}
		logAttempts(l, n)
		logWeakened(l, n)
		logSpent(l, n)
		e := logEntry(n)
		if n.Outcome.Duration > ledger.SlowCall {
			l.Slow(e)
		}
		switch EventName(n.Outcome.Status, fault.CodeOf(n.Outcome.Err)) {
		case eventlog.EventExecuted:
			l.Executed(e)
		case eventlog.EventTimeout:
			l.TimedOut(e)
		case eventlog.EventViolation:
			l.Violation(e)
		default:
			l.Failed(e)
		}
	}
}

// logAttempts writes each thing that a call was refused while it ran.
func logAttempts(l *eventlog.Log, n runner.Notice) {
	e := logEntry(n)
	e.Code, e.ExitCode = fault.HandleRefused.Error(), nil
	for _, r := range n.Outcome.Attempts.Refused {
		e.Subject, e.Rule, e.Error = r.Action, r.Rule, r.Reason
		if r.Count > 1 {
			e.Error = fmt.Sprintf("%d times: %s", r.Count, r.Reason)
		}
		l.Violation(e)
	}
	if more := n.Outcome.Attempts.More; more > 0 {
		e.Subject, e.Rule, e.Error = "", "", fmt.Sprintf("%d further attempts were refused", more)
		l.Violation(e)
	}
}

// logSpent writes that a call was refused by a limit, for readers of violations: its outcome is
// logged as a failure too.
func logSpent(l *eventlog.Log, n runner.Notice) {
	for _, v := range n.Outcome.Violations {
		if v.Kind == policy.BudgetViolation && v.Code == fault.LimitReached {
			l.Violation(logEntry(n))
		}
	}
}

// logWeakened writes what a call ran with less than full isolation.
func logWeakened(l *eventlog.Log, n runner.Notice) {
	for _, h := range n.Outcome.Happened {
		if h.Effect == tool.SystemExec && h.Rule != "" {
			e := logEntry(n)
			e.Subject, e.Rule = h.On, h.Rule
			l.Weakened(e)
		}
	}
}

// EventName is what logs and the audit call a call that ended so.
func EventName(s tool.Status, code fault.Code) string {
	switch {
	case s == tool.Completed:
		return eventlog.EventExecuted
	case s == tool.Skipped:
		return eventSkipped
	case s == tool.TimedOut:
		return eventlog.EventTimeout
	case s == tool.StatusDenied && code != fault.NeedsApproval && code != fault.LimitReached:
		return eventlog.EventViolation
	}
	return eventlog.EventFailed
}

// executor is a tool that names what executes it: an extension's program or module.
type executor interface {
	Executor() (command, action, runner, program string)
}

// logCalled describes the call itself, whatever it comes to.
func logCalled(n runner.Notice) eventlog.Entry {
	e := eventlog.Entry{
		Command: n.Call.Step, Action: string(n.Call.Tool), Session: n.Run.ID.String(), User: n.Run.Grant.Holder(), Index: n.Call.Index,
		Tool: string(n.Call.Tool), Args: len(n.Call.Args), WorkDir: n.Run.Env.Workspace,
	}
	if n.Run.Session != uuid.Nil {
		e.Session = n.Run.Session.String()
	}
	if name, _, _ := strings.Cut(n.Call.Name, " "); n.Call.Step == "" && strings.HasPrefix(name, "/") {
		e.Command = name // a slash command
	}
	if n.Entry.Spec == nil {
		return e
	}
	e.Runner, e.Risk = n.Entry.Spec.Source, n.Entry.Spec.Risk.String()
	e.Extension = cmp.Or(n.Call.Tool.Extension(), n.Entry.Source, n.Entry.Spec.Source)
	if t, ok := n.Entry.Tool.(executor); ok {
		command, action, runner, program := t.Executor()
		e.Command, e.Action, e.Runner, e.Tool = cmp.Or(e.Command, command), action, runner, cmp.Or(program, e.Tool)
	}
	if t, ok := n.Entry.Tool.(runner.Owning); ok {
		e.WorkDir = cmp.Or(t.Own(), e.WorkDir)
	}
	return e
}

func logEntry(n runner.Notice) eventlog.Entry {
	e := logCalled(n)
	o := n.Outcome
	if o == nil {
		return e
	}
	e.Duration = o.Duration
	if o.Decision.Rule != nil {
		e.Rule = o.Decision.Rule.String()
	}
	if len(o.Happened) > 0 {
		e.Subject = o.Happened[0].On
	}
	if o.Err != nil {
		e.Code, e.Error = fault.CodeOf(o.Err).Error(), fault.Message(o.Err)
	}
	if code, ok := o.Output["exit_code"].(int); ok {
		e.ExitCode = &code
	}
	return e
}

// The events of runs; the events of calls are the logs'.
const (
	EventRunStarted  = "run_started"
	EventRunFinished = "run_finished"
	eventSkipped     = "capability_skipped" // a plan's step that did not run
	// EventChangeset: the writes of a run were held, applied, thrown away or undone; the event's
	// status says which.
	EventChangeset = "changeset"
)
