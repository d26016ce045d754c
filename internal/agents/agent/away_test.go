package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// away is a ledger whose sessions or messages cannot be read while an error is set.
type away struct {
	*sqlite.Store
	session, messages atomic.Pointer[fault.Error]
	failed            atomic.Int32
}

func (a *away) Session(ctx context.Context, id string) (store.SessionRecord, error) {
	if err := a.session.Load(); err != nil {
		a.failed.Add(1)
		return store.SessionRecord{}, err
	}
	return a.Store.Session(ctx, id)
}

func (a *away) Messages(ctx context.Context, id uuid.UUID, from int, full bool) iter.Seq2[store.MessageRecord, error] {
	if err := a.messages.Load(); err != nil {
		a.failed.Add(1)
		return func(yield func(store.MessageRecord, error) bool) { yield(store.MessageRecord{}, err) }
	}
	return a.Store.Messages(ctx, id, from, full)
}

// TestASessionsStreamOutlivesAnOutage: the ledger cannot be read while somebody watches a session that
// another process works on. The stream goes on, with each message once. A damaged ledger ends it.
func TestASessionsStreamOutlivesAnOutage(t *testing.T) {
	for _, code := range []fault.Code{fault.StoreFailed, fault.StoreCorrupt} {
		for _, what := range []string{"session", "messages"} {
			t.Run(fmt.Sprint(code, " ", what), func(t *testing.T) {
				w := newWorld(t, says()).open()
				rec := &away{Store: w.st}
				_ = w.svc.Close(t.Context())
				w.rec = rec
				w.serve()
				id := w.session()
				l := w.listen(id, "", nil)
				other := newWorld(t, says(text("one"), text("two")))
				other.home, other.caps = w.home, w.caps
				other.open().send(id, "a")
				until(t, "the first messages", func() bool { return len(l.numbers()) == 2 })
				fails := fault.New(code, "gone")
				if what == "session" {
					rec.session.Store(fails)
				} else {
					rec.messages.Store(fails)
				}
				other.send(id, "b")
				if code == fault.StoreCorrupt {
					if err := <-l.done; !errors.Is(err, code) {
						t.Errorf("the stream ended with %v", err)
					}
					return
				}
				until(t, "some failed reads", func() bool { return rec.failed.Load() > 2 })
				rec.session.Store(nil)
				rec.messages.Store(nil)
				until(t, "the other messages", func() bool { return fmt.Sprint(l.numbers()) == "[1 2 3 4]" })
				l.stop()
				if err := <-l.done; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

var _ agent.Record = (*away)(nil)
