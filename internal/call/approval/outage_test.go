package approval_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
)

// failing cannot be read for a number of looks.
type failing struct {
	store.Approvals
	looks atomic.Int32
	err   error
	left  int32
	over  func()
}

func (f *failing) Question(ctx context.Context, id string) (store.Approval, error) {
	if n := f.looks.Add(1); n <= f.left {
		return store.Approval{}, f.err
	} else if n == f.left+1 {
		f.over()
	}
	return f.Approvals.Question(ctx, id)
}

// A question outlives a ledger that cannot be read for a moment, as while a database fails
// over. A damaged ledger ends it.
func TestAQuestionOutlivesAnOutage(t *testing.T) {
	for _, code := range []fault.Code{fault.StoreFailed, fault.StoreCorrupt} {
		s := openStore(t)
		f := &failing{Approvals: s, err: fault.New(code, "gone"), left: 20}
		f.over = func() {
			id := waitFor(t, s, func(store.Approval) bool { return true })
			if _, err := s.Vote(context.Background(), id, store.Vote{By: "user:bob", Yes: true, At: time.Now()}); err != nil {
				t.Error(err)
			}
		}
		d := &approval.Desk{Store: f, Wait: true, Every: time.Millisecond}
		a, err := d.Ask(t.Context(), write(newRun(t, s), "a.txt", "x"))
		if code == fault.StoreFailed && (err != nil || !a.Yes) || code == fault.StoreCorrupt && !errors.Is(err, code) {
			t.Errorf("%s: %+v, %v", code, a, err)
		}
	}
}

// ending is a store during whose use the process begins to end.
type ending struct {
	store.Approvals
	at  string
	end func()
}

func (e *ending) during(what string) {
	if what == e.at {
		e.end()
	}
}

func (e *ending) Question(ctx context.Context, id string) (store.Approval, error) {
	e.during("read")
	return e.Approvals.Question(ctx, id)
}

func (e *ending) Claim(ctx context.Context, binding [32]byte, now time.Time) (store.Approval, bool, error) {
	e.during("claim")
	return e.Approvals.Claim(ctx, binding, now)
}

func (e *ending) Request(ctx context.Context, q store.Approval) (store.Approval, error) {
	defer e.during("filed")
	return e.Approvals.Request(ctx, q)
}

// The end of the process, at any moment, interrupts a call that waits. It refuses nothing, and the
// question of a call that is continued stays open.
func TestTheEndOfTheProcessRefusesNoQuestion(t *testing.T) {
	for _, at := range []string{"claim", "filed", "read", "history", "here"} {
		t.Run(at, func(t *testing.T) {
			s := openStore(t)
			over, end := context.WithCancel(t.Context())
			e := &ending{Approvals: s, at: at, end: end}
			d := &approval.Desk{Store: e, Wait: true, Every: time.Millisecond, Ending: over, Continues: true,
				History: func(ctx context.Context, _ store.Approval, _ approval.Body) (approval.History, error) {
					if e.during("history"); at == "history" {
						<-ctx.Done()
					}
					return approval.History{}, ctx.Err()
				},
				Here: func(ctx context.Context, _ approval.Case) (store.Vote, error) {
					e.during("here")
					<-ctx.Done()
					return store.Vote{}, ctx.Err()
				}}
			a, err := d.Ask(t.Context(), write(newRun(t, s), "a.txt", "x"))
			if !errors.Is(err, fault.Interrupted) || a.Yes {
				t.Errorf("%+v, %v", a, err)
			}
			waitFor(t, s, func(q store.Approval) bool { return q.State == store.Waiting })
		})
	}
}

// TestACallThatEndsBeforeItsQuestionIsShown: a caller ends while Remit prepares the question for the
// person at this place. The question is closed, and the call is not recorded as refused.
func TestACallThatEndsBeforeItsQuestionIsShown(t *testing.T) {
	s := openStore(t)
	for name, later := range map[string]error{"its caller ends": context.Canceled, "it cannot be shown": fault.New(fault.StoreCorrupt, "damaged")} {
		ctx, cancel := context.WithCancel(t.Context())
		d := &approval.Desk{Store: s, Wait: true, Every: time.Millisecond}
		d.Here = func(context.Context, approval.Case) (store.Vote, error) { return store.Vote{}, approval.ErrNotHere }
		d.History = func(context.Context, store.Approval, approval.Body) (approval.History, error) {
			if errors.Is(later, context.Canceled) {
				cancel()
			}
			return approval.History{}, later
		}
		_, err := d.Ask(ctx, write(newRun(t, s), name, "x"))
		if code := fault.CodeOf(err); errors.Is(later, context.Canceled) && code != fault.ToolCancelled || code == fault.NeedsApproval {
			t.Errorf("%s: %v", name, err)
		}
		list, err := s.Questions(t.Context(), store.QuestionFilter{State: store.Waiting, Limit: 10})
		if err != nil || len(list) != 0 {
			t.Errorf("%s: %d questions wait, %v", name, len(list), err)
		}
		cancel()
	}
}
