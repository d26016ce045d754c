package history

import (
	"context"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// failures are the statuses that count as failed.
var failures = []tool.Status{tool.Failed, tool.TimedOut, tool.Cancelled, tool.StatusInterrupted}

// states are the kinds of events whose status is a state, which can have the name of a
// call's status.
var states = []store.Mark{store.KindMark(ledger.Changeset), store.KindMark(ledger.QuestionAsked), store.KindMark(ledger.QuestionVoted),
	store.KindMark(ledger.QuestionClosed), store.KindMark(ledger.Operated), store.KindMark(ledger.RunQueued), store.KindMark(ledger.QueueChanged),
	store.KindMark(ledger.ScheduleSaved), store.KindMark(ledger.QueuePaused)}

// subjects are the kinds of events that concern an agent, a session or a schedule.
var subjects = []store.Mark{store.KindMark(ledger.RunStarted), store.KindMark(ledger.AgentSaved), store.KindMark(ledger.SessionSaved),
	store.KindMark(ledger.MessageAdded), store.KindMark(ledger.FileSaved), store.KindMark(ledger.RunQueued), store.KindMark(ledger.ScheduleSaved)}

// eventFilter selects events by the store's index.
type eventFilter struct{ store.EventFilter }

// boundToRun bounds the events to the time of a run.
func (f *eventFilter) boundToRun(ctx context.Context, st store.Store, id string) error {
	run, err := st.Run(ctx, id)
	if err != nil {
		return err
	}
	if f.Since.Before(run.Started) {
		f.Since = run.Started
	}
	if !run.Ended.IsZero() && (f.Until.IsZero() || f.Until.After(run.Ended)) {
		f.Until = run.Ended
	}
	return nil
}

// filter translates the query into the marks of the store's index. The result contains all
// events of the query and some others.
func (q AuditQuery) filter() eventFilter {
	f := eventFilter{store.EventFilter{Since: q.Since, Until: q.Until, Before: q.Before}}
	and := func(marks ...store.Mark) { f.Marks = append(f.Marks, marks) }
	if q.Event != "" {
		and(eventTypes[q.Event].marks...)
	}
	if q.Subject != "" {
		and(subjects...)
	}
	if q.Tool != "" {
		and(store.ToolMark(q.Tool))
	}
	if q.Extension != "" {
		and(store.ExtensionMark(q.Extension), store.MarkBounded, store.KindMark(ledger.Violation))
	}
	if q.Status != tool.Pending {
		and(append([]store.Mark{store.StatusMark(q.Status)}, states...)...)
	}
	var either []store.Mark
	if q.Failed {
		for _, s := range failures {
			either = append(either, store.StatusMark(s))
		}
	}
	if q.Denied {
		either = append(either, store.StatusMark(tool.StatusDenied), store.MarkRefused)
	}
	if len(either) > 0 {
		and(append(either, states...)...)
	}
	return f
}
