package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// setAside makes a queued run a dead letter: it starts only after a person queues it again.
func (w *working) setAside(ctx context.Context, st store.Backend, run *store.QueuedRun) error {
	why := fmt.Sprintf("it was to be started %d times and could not be", maxTries)
	if run.Reason != "" {
		why += "; last: " + run.Code + " " + run.Reason
	}
	err := st.ChangeQueued(ctx, store.QueueChange{ID: run.ID, To: ledger.QueueDead, Code: fault.LimitReached, Reason: why, By: "queue", At: st.Now()})
	if errors.Is(err, fault.Conflict) { // a person cancelled it
		return nil
	}
	return err
}

// Requeue queues a dead letter again, to be started at once. Its grant is looked at anew then.
func (q *Queue) Requeue(ctx context.Context, id, by string) (store.QueuedRun, error) {
	st, err := q.Home.Ledger(ctx)
	if err != nil {
		return store.QueuedRun{}, err
	}
	run, err := st.Queued(ctx, id)
	if err != nil {
		return run, err
	}
	if run.State != ledger.QueueDead {
		return run, fault.New(fault.Conflict, "the queued run %s is %s; only a dead one can be queued again", run.ID, run.Status).ForOperator("remit queue --dead lists them")
	}
	now := st.Now()
	if err := st.ChangeQueued(ctx, store.QueueChange{ID: run.ID, To: ledger.QueueWaiting, Due: now, By: by, At: now}); err != nil {
		return run, err
	}
	if err := st.FileQueued(ctx, "", false, run.ID); err != nil {
		return run, err
	}
	q.wake.all()
	return st.Queued(ctx, run.ID.String())
}
