package approvals

import (
	"bytes"
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// The bounds of the list of interrupted questions.
const (
	interruptedAge  = 24 * time.Hour
	interruptedMost = 50
	closedMost      = 500    // questions that were closed, and approvals, that are looked at
	laterMost       = 10_000 // questions closed after one was asked, to find its end
)

// Interrupted lists the newest questions whose calls ended with their process or caller before
// they were made, and approvals that such calls have not used.
func (s *Approvals) Interrupted(ctx context.Context) ([]store.Approval, error) {
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return nil, err
	}
	out, err := unused(ctx, st)
	if err != nil {
		return nil, err
	}
	looked := 0
	filter := store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.QuestionClosed)}}, Since: time.Now().Add(-interruptedAge)}
	for ev, err := range st.Find(ctx, filter) {
		if looked++; err != nil || looked > closedMost || len(out) == interruptedMost {
			return out, err
		}
		if ev.Event.Code != fault.Interrupted || len(ev.Event.ID) != len(uuid.UUID{}) {
			continue
		}
		q, err := st.Question(ctx, uuid.UUID(ev.Event.ID).String())
		if err != nil {
			return nil, err
		}
		q = asShown(st, q)
		if q.Interrupted, err = whyClosed(ctx, st, ev); err != nil {
			return nil, err
		}
		out = append(out, q)
	}
	return out, nil
}

// whyClosed is the reason in the event that closed an interrupted question.
func whyClosed(ctx context.Context, st store.Backend, ev ledger.Stored) (string, error) {
	why := []byte("the call was not made")
	if part, ok := ev.Parts[ledger.PartReason]; ok && !ev.Erased {
		var err error
		if why, err = st.Load(ctx, part); err != nil {
			return "", err
		}
	}
	return string(why) + ": run it again", nil
}

// unused lists the approvals that interrupted calls have not used.
func unused(ctx context.Context, st store.Backend) ([]store.Approval, error) {
	list, err := st.Questions(ctx, store.QuestionFilter{State: store.Approved, Limit: closedMost})
	var out []store.Approval
	for _, q := range list {
		if err != nil || len(out) == interruptedMost {
			return out, err
		}
		q = asShown(st, q)
		if q.Interrupted, err = whyUnused(ctx, st, q); q.Interrupted != "" {
			out = append(out, q)
		}
	}
	return out, err
}

// whyUnused says what became of the call of an approval, if the call was interrupted before it used
// the approval; "" otherwise.
func whyUnused(ctx context.Context, st store.Backend, q store.Approval) (string, error) {
	if q.State != store.Approved || q.Session != nil || q.RunID == uuid.Nil {
		return "", nil
	}
	r, err := st.Run(ctx, q.RunID.String())
	if err != nil || r.Status == ledger.Running {
		return "", err
	}
	c, cerr := st.Call(ctx, q.Run, int(q.Call)) // a call whose process was killed has no record
	interrupted := cerr == nil && c.Status == tool.StatusInterrupted
	if r.Status != tool.StatusInterrupted.String() && !interrupted {
		return "", nil
	}
	until := q.Until.UTC().Format(time.RFC3339)
	if r.Session != uuid.Nil {
		return "it was approved, and the call is made when the session's turn goes on: resume the session before " + until, nil
	}
	return "it was approved, and the call was not made: run exactly the same again before " + until, nil
}

// whyInterrupted is why the call of a question does not wait any more; "": it was not interrupted.
func whyInterrupted(ctx context.Context, st store.Backend, q store.Approval) (string, error) {
	if q.State != store.Lapsed {
		return whyUnused(ctx, st, q)
	}
	looked := 0
	for ev, err := range st.Find(ctx, store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.QuestionClosed)}}, Since: q.Asked}) {
		if looked++; err != nil || looked > laterMost {
			return "", err
		}
		if ev.Event.Code == fault.Interrupted && bytes.Equal(ev.Event.ID, q.ID[:]) {
			return whyClosed(ctx, st, ev)
		}
	}
	return "", nil
}
