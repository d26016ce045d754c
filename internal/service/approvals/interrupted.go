package approvals

import (
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
	closedMost      = 500 // questions that were closed, and approvals, that are looked at
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
		if ev.Event.Code != fault.Interrupted {
			continue
		}
		id, err := uuid.FromBytes(ev.Event.ID)
		if err != nil {
			return nil, fault.Wrap(fault.StoreCorrupt, err, "event %d closes no question", ev.Seq)
		}
		q, err := st.Question(ctx, id.String())
		if err != nil {
			return nil, err
		}
		why := []byte("the call was not made")
		if part, ok := ev.Parts[ledger.PartReason]; ok && !ev.Erased {
			if why, err = st.Load(ctx, part); err != nil {
				return nil, err
			}
		}
		q = asShown(st, q)
		q.Interrupted = string(why) + ": run it again"
		out = append(out, q)
	}
	return out, nil
}

// unused lists the approvals that interrupted calls have not used.
func unused(ctx context.Context, st store.Backend) ([]store.Approval, error) {
	list, err := st.Questions(ctx, store.QuestionFilter{State: store.Approved, Limit: closedMost})
	var out []store.Approval
	for _, q := range list {
		if q = asShown(st, q); err != nil || q.State != store.Approved || q.Session != nil || q.RunID == uuid.Nil || len(out) == interruptedMost {
			continue
		}
		var r ledger.Run
		if r, err = st.Run(ctx, q.RunID.String()); err != nil || r.Status == ledger.Running {
			continue
		}
		c, cerr := st.Call(ctx, q.Run, int(q.Call)) // a call whose process was killed has no record
		if r.Status != tool.StatusInterrupted.String() && (cerr != nil || c.Status != tool.StatusInterrupted) {
			continue
		}
		q.Interrupted = "it was approved, and the call was not made: run exactly the same again before " + q.Until.UTC().Format(time.RFC3339)
		if r.Session != uuid.Nil {
			q.Interrupted = "it was approved, and the call is made when the session's turn goes on: resume the session before " + q.Until.UTC().Format(time.RFC3339)
		}
		out = append(out, q)
	}
	return out, err
}
