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
