package approval

import (
	"context"
	"errors"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// wait returns the question once it is answered, from here or from elsewhere, or lapsed. A ledger
// that cannot be read delays the answer and never gives one: blind is for how long it was so.
func (d *Desk) wait(ctx context.Context, q runner.Question, filed store.Approval, session bool) (answered store.Approval, blind time.Duration, err error) {
	ctx, stop := d.untilEnding(ctx)
	defer stop()
	if q.Call.Pause != nil && !q.Within { // the tool of a question from within goes on
		resume := q.Call.Pause()
		defer func() {
			if err == nil && answered.State == store.Approved {
				err = resume(ctx)
			}
		}()
	}
	over, stopOver := answerTimer(q)
	defer stopOver()
	errs := make(chan error, 1)
	if d.Here != nil {
		go func() { errs <- d.askHere(ctx, q, filed, session) }()
	}
	every := d.every()
	t := time.NewTicker(every)
	defer t.Stop()
	for seen := time.Now(); ; {
		now, err := d.Store.Question(ctx, filed.ID.String())
		switch {
		case err == nil:
			blind += max(0, time.Since(seen)-every)
			seen = time.Now()
		case ctx.Err() == nil && !fault.Passing(err):
			return filed, blind, err
		}
		if err == nil && now.State != store.Waiting {
			return now, blind, nil
		}
		if err == nil && !d.now().Before(now.Until) {
			now.State = store.Lapsed
			return now, blind, d.close(ctx, filed, 0, "nobody answered in time")
		}
		select {
		case err := <-errs:
			if errors.Is(err, ErrNotHere) && d.waits(q) {
				err = nil // others can answer
			}
			if errors.Is(err, ErrNotHere) {
				return filed, blind, err
			}
			if err != nil {
				return filed, blind, errors.Join(err, d.close(ctx, filed, 0, notAsked))
			}
			errs = nil // answered here; others may be needed besides
		case <-t.C:
		case <-over:
			return filed, blind, ErrNotHere
		case <-ctx.Done():
			return filed, blind, d.abandon(ctx, filed)
		}
	}
}

// answerTimer fires at AnswerBy. A nil channel: the call waits until the question expires.
func answerTimer(q runner.Question) (over <-chan time.Time, stop func()) {
	if q.Call.AnswerBy.IsZero() {
		return nil, func() {}
	}
	t := time.NewTimer(time.Until(q.Call.AnswerBy))
	return t.C, func() { t.Stop() }
}

// askHere puts a question to the person at this place. After the end of ctx, wait says why it ended.
func (d *Desk) askHere(ctx context.Context, q runner.Question, filed store.Approval, session bool) error {
	var c Case
	err := d.patiently(ctx, q, func() (err error) {
		c, err = d.caseOf(ctx, q, filed, session)
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil //nolint:nilerr // the wait has ended, and says why
	case err != nil:
		return err
	}
	return d.answerHere(ctx, c)
}

// notAsked is why a question is closed that could not be shown.
const notAsked = "the person at the terminal could not be asked"

// close ends a question that waits.
func (d *Desk) close(ctx context.Context, q store.Approval, code fault.Code, why string) error {
	return d.Store.CloseQuestion(context.WithoutCancel(ctx), q.ID, store.Closing{By: "remit", Why: why, Code: code, At: d.now()})
}

// errEnding is why no call waits for an answer any more.
var errEnding = fault.New(fault.Interrupted, "Remit ended while the call waited for an answer")

// untilEnding gives a context that ends also when this process is about to end.
func (d *Desk) untilEnding(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if d.Ending == nil {
		return ctx, func() { cancel(nil) }
	}
	stop := context.AfterFunc(d.Ending, func() { cancel(errEnding) })
	return ctx, func() { stop(); cancel(nil) }
}

// abandon leaves a question whose call does not wait any more, and returns why. The question of a
// call that is made again stays open, and so does an approval that arrives meanwhile.
func (d *Desk) abandon(ctx context.Context, q store.Approval) error {
	why := context.Cause(ctx)
	if d.Ending != nil && d.Ending.Err() != nil && fault.CodeOf(why) == fault.Internal {
		why = errEnding // the caller's context ends with the process
	}
	switch interrupted := errors.Is(why, fault.Interrupted); {
	case interrupted && d.Continues:
		return why
	case interrupted:
		return errors.Join(why, d.close(ctx, q, fault.Interrupted, "Remit ended while the call waited, so the call was not made"))
	case errors.Is(why, context.Canceled) && fault.CodeOf(why) == fault.Internal:
		why = fault.Wrap(fault.ToolCancelled, why, "the caller ended while the call waited for an answer")
		return errors.Join(why, d.close(ctx, q, fault.Interrupted, "the caller ended while the call waited, so the call was not made"))
	}
	return errors.Join(why, d.close(ctx, q, 0, "the call was given up: "+fault.Message(why)))
}

// patiently repeats an access to the ledger while it cannot be read or written: a slow ledger
// delays a question and does not refuse it. The time of a question is the bound.
func (d *Desk) patiently(ctx context.Context, q runner.Question, access func() error) error {
	ctx, stop := d.untilEnding(ctx)
	defer stop()
	return store.Patiently(ctx, q.Run.Grant.Chain().Terms().ApprovalTimeout, d.every(), access)
}

// every is how often answers from elsewhere are looked for.
func (d *Desk) every() time.Duration {
	if d.Every > 0 {
		return d.Every
	}
	return defaultEvery
}
