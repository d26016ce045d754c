package approvals_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
)

// faulty loses votes, or the answers to their commits, and then fails a number of reads.
type faulty struct {
	store.Backend
	votes, reads int  // that fail
	commits      bool // a vote that fails is recorded all the same
}

var errAway = fault.New(fault.StoreFailed, "away")

func (f *faulty) Vote(ctx context.Context, id uuid.UUID, v store.Vote) (store.Approval, error) {
	if f.votes--; f.votes < 0 {
		return f.Backend.Vote(ctx, id, v)
	}
	if f.commits {
		if _, err := f.Backend.Vote(ctx, id, v); err != nil {
			return store.Approval{}, err
		}
	}
	return store.Approval{}, errAway
}

func (f *faulty) Question(ctx context.Context, id string) (store.Approval, error) {
	if f.reads--; f.reads >= 0 {
		return store.Approval{}, errAway
	}
	return f.Backend.Question(ctx, id)
}

// TestAnAnswerIsTakenOnceWhateverIsLost: the ledger is away for a moment while a person answers, before
// the answer is recorded or before its commit is acknowledged. The answer counts once, and the person
// gets no error. A second answer of the person is refused as before.
func TestAnAnswerIsTakenOnceWhateverIsLost(t *testing.T) {
	a := apptest.New(t, t.TempDir())
	st, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7())
	run, err := st.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Principal: "agent:x"}})
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Backend: st}
	a.Home.Ledger = func(context.Context) (store.Backend, error) { return f, nil }
	for n, commits := range []bool{false, true} {
		for _, yes := range []bool{false, true} {
			for _, needs := range []int{1, 2} {
				*f = faulty{Backend: st}
				q := store.Approval{ID: uuid.Must(uuid.NewV7()), Binding: tool.Digest{byte(n), byte(needs)}, Run: run, RunID: id, Call: 1, Holder: "agent:x", Needs: needs,
					Asked: time.Now(), Until: time.Now().Add(time.Hour), GoodFor: time.Hour, Body: []byte(`{"tool":"fs.write"}`)}
				if q, err = st.Request(t.Context(), q); err != nil {
					t.Fatal(err)
				}
				*f = faulty{Backend: st, votes: 1, reads: 2, commits: commits}
				got, err := a.Approvals.Answer(t.Context(), q.ID.String(), approvals.Answer{By: "user:ann", Where: "test", Yes: yes})
				if err != nil || len(got.Votes) != 1 || got.Votes[0].Yes != yes || f.votes > 0 || f.reads > 0 {
					t.Errorf("commits %v, yes %v, needs %d: %+v, %v", commits, yes, needs, got.Votes, err)
				}
				if now, err := st.Question(t.Context(), q.ID.String()); err != nil || len(now.Votes) != 1 {
					t.Errorf("commits %v, yes %v, needs %d: recorded are %+v, %v", commits, yes, needs, now.Votes, err)
				}
				if _, err := a.Approvals.Answer(t.Context(), q.ID.String(), approvals.Answer{By: "user:ann", Where: "test", Yes: yes}); err == nil {
					t.Errorf("commits %v, yes %v, needs %d: a second answer is taken", commits, yes, needs)
				}
			}
		}
	}
}
