package postgres_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestAConnectionMayEndAtAnyMessage: a node begins a run, records calls, changes a grant, queues a
// run, starts and ends it, and adds messages. Its connection ends at message 1, at message 2 and so
// on, before the server gets the message or before the node gets the answer. Nothing fails, and
// everything is there once.
func TestAConnectionMayEndAtAnyMessage(t *testing.T) {
	step := int64(23)
	if os.Getenv("REMIT_SOAK") != "" {
		step = 1
	}
	for _, answer := range []bool{false, true} {
		home, w := t.TempDir(), &snap{answer: answer}
		direct := server.Schema(t, home)
		s := must(postgres.Open(t.Context(), postgres.Options{Home: home, URL: w.url(t, direct), Lease: time.Hour}))
		for n := int64(1); ; n += step {
			before := server.Count(t, direct, "SELECT total::int FROM tail")
			w.arm(n)
			makes := allPaths(t, s)
			if !w.snapped() {
				if n < 10 {
					t.Fatalf("the paths have only %d messages", n)
				}
				w.arm(1 << 40) // no connection ends any more
				break
			}
			if got := server.Count(t, direct, "SELECT total::int FROM tail") - before; got != makes {
				t.Errorf("message %d, answer %v: %d events, want %d", n, answer, got, makes)
			}
		}
		if r := must(s.Verify(t.Context(), store.VerifyOptions{})); !r.OK {
			t.Errorf("%+v", r.Problems)
		}
		must(0, s.Close())
	}
}

// allPaths takes the important paths of the store once. It returns how many events they make.
func allPaths(t *testing.T, s *postgres.Store) (events int) {
	t.Helper()
	ctx := t.Context()
	run := begin(s, nil)
	intent, outcome := call(run, 1)
	must(s.Append(ctx, intent))
	must(s.Append(ctx, outcome))
	must(s.Append(ctx, ledger.Entry{Durable: true, Event: ledger.Event{Kind: ledger.RunFinished, At: 9, Run: run, Status: tool.Completed}}))
	must(0, s.PutGrant(ctx, store.GrantRecord{ID: uuid.New(), Holder: "user:ann", Issued: time.Now()}))
	q := store.QueuedRun{ID: uuid.New(), Name: "q", Principal: "user:ann", Workspace: "/w", Priority: 2, Queued: time.Now(), Due: time.Now(),
		Task: store.Task{Plan: []byte("name: q"), Doc: []byte("{}")}}
	if _, fresh, err := s.Enqueue(ctx, q, store.QueueRoom{}); err != nil || !fresh {
		t.Fatalf("Enqueue: %v, %v", fresh, err)
	}
	limit := []store.Slot{{Key: "grant:" + q.ID.String(), Most: 1}}
	seq := must(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 9, ID: q.ID[:], Mode: ledger.Live}}, limit))
	must(s.Append(ctx, ledger.Entry{Durable: true, Event: ledger.Event{Kind: ledger.RunFinished, At: 9, Run: seq, Status: tool.Completed}}))
	if taken := must(s.TakenSlots(ctx)); len(taken) != 0 {
		t.Errorf("taken are %v", taken)
	}
	session := uuid.New()
	must(0, s.EndTurn(ctx, session, must(s.TakeTurn(ctx, session, nil))))
	must(s.Recover(ctx))
	return 8
}

// TestARunEndsWithItsMembership: another node removes a node, which joins anew. It makes no further
// call in its run, which is closed, and begins others.
func TestARunEndsWithItsMembership(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: 6 * time.Second})
	run, was := begin(s, nil), s.Owner()
	lost, _ := s.HoldsLease()
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	must(c.Exec(ctx, "DELETE FROM members"))
	<-lost
	for s.Usable() != nil || s.Owner() == was {
		time.Sleep(5 * time.Millisecond) // until it has joined anew
	}
	intent, _ := call(run, 1)
	if _, err := s.Append(ctx, intent); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a call in the run of before: %v", err)
	}
	must(s.Recover(ctx))
	if runs := must(s.Runs(ctx, store.RunFilter{})); runs[0].Status != "interrupted" {
		t.Errorf("the run of before is %s", runs[0].Status)
	}
	intent, outcome := call(begin(s, nil), 1)
	must(s.Append(ctx, intent))
	must(s.Append(ctx, outcome))
	if dead, err := s.Dead(); err != nil || dead == nil {
		t.Errorf("the node ends: %v", err)
	}
}

// execute carries out a statement beside the nodes.
func execute(t *testing.T, url, statement string) {
	t.Helper()
	c := must(pgx.Connect(t.Context(), url))
	must(c.Exec(t.Context(), statement))
	must(0, c.Close(t.Context()))
}

// TestANodeIsRemovedOnceItsAnswerIsLost: the connection ends at message 1, at message 2 and so on of
// the removal of a node, before the server gets the message or before its answer. The node is gone, and
// nobody is told that its lease is not over.
func TestANodeIsRemovedOnceItsAnswerIsLost(t *testing.T) {
	ctx := t.Context()
	for _, answer := range []bool{false, true} {
		home, w := t.TempDir(), &snap{answer: answer}
		direct := server.Schema(t, home)
		s := must(postgres.Open(ctx, postgres.Options{Home: home, URL: w.url(t, direct), Lease: time.Hour}))
		for n := int64(1); ; n++ {
			gone := uuid.New().String()
			execute(t, direct, "INSERT INTO members(id, lease_until, lease, name) VALUES ('"+gone+"', clock_timestamp() - interval '1 second', 1000000, 'gone')")
			w.arm(n)
			if _, err := s.RemoveNode(ctx, uuid.MustParse(gone), false); err != nil {
				t.Errorf("message %d, answer %v: %v", n, answer, err)
			}
			if !w.snapped() {
				if n < 3 {
					t.Fatalf("a removal has only %d messages", n)
				}
				w.arm(1 << 40) // no connection ends any more
				break
			}
			if list := must(s.Nodes(ctx)); len(list) != 1 {
				t.Errorf("message %d, answer %v: the nodes are %v", n, answer, list)
			}
		}
		must(0, s.Close())
	}
}
