package approval_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
)

// failing fails for a number of accesses of one kind.
type failing struct {
	store.Approvals
	at   string
	err  error
	left atomic.Int32
	over func() // once it is read again
}

func (f *failing) fails(what string) error {
	if what != f.at {
		return nil
	}
	switch n := f.left.Add(-1); {
	case n >= 0:
		return f.err
	case n == -1 && f.over != nil:
		f.over()
	}
	return nil
}

func (f *failing) Question(ctx context.Context, id string) (store.Approval, error) {
	if err := f.fails("read"); err != nil {
		return store.Approval{}, err
	}
	return f.Approvals.Question(ctx, id)
}

func (f *failing) Questions(ctx context.Context, by store.QuestionFilter) ([]store.Approval, error) {
	if err := f.fails("list"); err != nil {
		return nil, err
	}
	return f.Approvals.Questions(ctx, by)
}

func (f *failing) Claim(ctx context.Context, binding [32]byte, now time.Time) (store.Approval, bool, error) {
	if err := f.fails("claim"); err != nil {
		return store.Approval{}, false, err
	}
	return f.Approvals.Claim(ctx, binding, now)
}

func (f *failing) Request(ctx context.Context, q store.Approval) (store.Approval, error) {
	if err := f.fails("file"); err != nil {
		return store.Approval{}, err
	}
	return f.Approvals.Request(ctx, q)
}

// A question outlives a ledger that cannot be read or written for a while, as while a database fails
// over or its disk is full. A damaged ledger ends it. Wherever it happens.
func TestAQuestionOutlivesAnOutage(t *testing.T) {
	for _, at := range []string{"read", "list", "claim", "file"} {
		for _, code := range []fault.Code{fault.StoreFailed, fault.StoreFull, fault.StoreCorrupt} {
			t.Run(fmt.Sprint(at, " ", code), func(t *testing.T) {
				s := openStore(t)
				f := &failing{Approvals: s, at: at, err: fault.New(code, "gone")}
				f.left.Store(20)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				vote := func() {
					id := waitFor(t, s, func(store.Approval) bool { return true })
					if _, err := s.Vote(ctx, id, store.Vote{By: "user:bob", Yes: true, At: time.Now()}); err != nil {
						t.Error(err)
					}
				}
				if at == "read" {
					f.over = vote // in the middle of the wait
				} else if code != fault.StoreCorrupt {
					var voting sync.WaitGroup
					voting.Go(vote)
					defer voting.Wait()
				}
				d := &approval.Desk{Store: f, Wait: true, Every: time.Millisecond}
				a, err := d.Ask(ctx, write(newRun(t, s), "a.txt", "x"))
				if code != fault.StoreCorrupt && (err != nil || !a.Yes) || code == fault.StoreCorrupt && !errors.Is(err, code) {
					t.Errorf("%+v, %v", a, err)
				}
			})
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
