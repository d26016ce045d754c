package queue

import (
	"context"
	"errors"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// clockSlack is how far clocks may be apart without a consequence for delays.
const clockSlack = store.Apart

// clockWatch sees whether the ledger's clock was set back.
type clockWatch struct {
	looked time.Time // when it was last looked at, by the monotonic clock
	showed time.Time // the time that it showed then
	warned bool      // of a machine whose clock is another one
}

// setBack reports whether the clock was set back since the last look. The first look reports
// true: nothing is known of the time before.
func (c *clockWatch) setBack(now time.Time) bool {
	looked := time.Now()
	back := c.looked.IsZero() || now.Sub(c.showed) < looked.Sub(c.looked)-clockSlack
	c.looked, c.showed = looked, now
	return back
}

// watchClock shortens delays that a clock which was set back has prolonged, and warns of a
// machine whose clock differs.
func (w *working) watchClock(ctx context.Context, st store.Backend) error {
	if apart := st.Ahead(); (apart.Abs() >= store.Apart) != w.clock.warned {
		w.clock.warned = !w.clock.warned
		if log, err := w.q.Home.Log(); err == nil && w.clock.warned {
			log.Logger().Warn("clock_differs", "ahead", apart.Round(time.Second).String())
		}
	}
	was := w.clock
	if !w.clock.setBack(st.Now()) {
		return nil
	}
	err := w.q.shortenDelays(ctx, st)
	if err != nil {
		w.clock = was // it is tried again
	}
	return err
}

// shortenDelays gives runs that were queued or put back at a time that has not come yet the
// length of their delay from now. A run for a time of the day keeps that time.
func (q *Queue) shortenDelays(ctx context.Context, st store.Backend) error {
	now := st.Now()
	for from := 0; ; from += pageSize {
		list, err := st.QueuedRuns(ctx, store.QueueFilter{Later: true, From: from, Limit: pageSize})
		if err != nil {
			return err
		}
		for i := range list {
			run := &list[i]
			since := run.Queued
			if !run.Changed.IsZero() { // also of a change that this made
				since = run.Changed
			}
			if run.Fixed || !since.After(now.Add(clockSlack)) {
				continue
			}
			c := store.QueueChange{ID: run.ID, To: ledger.QueueWaiting, Due: now.Add(max(0, run.Due.Sub(since))), Reason: "the clock was set back", By: "queue", At: now}
			if err := st.ChangeQueued(ctx, c); err != nil && !errors.Is(err, fault.Conflict) {
				return err
			}
			from-- // it may be due now, and no longer in the list
		}
		if len(list) < pageSize {
			return nil
		}
	}
}
