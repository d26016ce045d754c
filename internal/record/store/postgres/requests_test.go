package postgres_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// request is a request with a key that makes a run.
func request(run uuid.UUID) store.RequestRecord {
	return store.RequestRecord{Holder: "ann", Key: [32]byte{1}, Print: [32]byte{2}, Until: time.Now().Add(time.Hour), Place: store.RunPlace + run.String()}
}

// claim claims a request and returns what was found.
func claim(t *testing.T, s *postgres.Store, run uuid.UUID) store.RequestState {
	t.Helper()
	_, state, err := s.BeginRequest(t.Context(), request(run), 100)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// tryBeginAs begins or queues a run with an ID.
func tryBeginAs(t *testing.T, s *postgres.Store, id uuid.UUID, queued bool) error {
	t.Helper()
	if queued {
		_, _, err := s.Enqueue(t.Context(), store.QueuedRun{ID: id, Name: "q", Principal: "user:ann", Workspace: "/w", Priority: 2, Queued: time.Now(), Due: time.Now(),
			Task: store.Task{Plan: []byte("name: q"), Doc: []byte("{}")}}, store.QueueRoom{})
		return err
	}
	_, err := s.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Principal: "user:ann"}})
	return err
}

// TestALapsedClaimBeginsNothing: a node claims a request, loses its lease and joins anew. Another node
// claims the request and begins its run. The first node is refused, before and after that.
func TestALapsedClaimBeginsNothing(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("queued %v, after the other %v", queued, after), func(t *testing.T) {
				home := t.TempDir()
				a := openWith(t, postgres.Options{Home: home, Lease: 6 * time.Second})
				b := openWith(t, postgres.Options{Home: home, Lease: time.Minute})
				mine, other := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
				if got := claim(t, a, mine); got != store.RequestClaimed {
					t.Fatalf("the first claim finds state %d", got)
				}
				was := a.Owner()
				execute(t, server.Schema(t, home), "DELETE FROM members WHERE id = '"+was.String()+"'")
				wait(t, "the node joins anew", func() bool { return a.Usable() == nil && a.Owner() != was })
				if after {
					if got := claim(t, b, other); got != store.RequestClaimed {
						t.Fatalf("the second claim finds state %d", got)
					}
					must(0, tryBeginAs(t, b, other, queued))
				}
				if err := tryBeginAs(t, a, mine, queued); !errors.Is(err, fault.StoreFailed) {
					t.Errorf("the run of the lapsed claim: %v", err)
				}
				if !after {
					if got := claim(t, b, other); got != store.RequestClaimed {
						t.Errorf("the second claim finds state %d", got)
					}
				}
				must(0, tryBeginAs(t, a, uuid.Must(uuid.NewV7()), queued)) // of no claim
			})
		}
	}
}

// waitsForALock waits until statements of the ledger wait for a lock.
func waitsForALock(t *testing.T, what, statement string) {
	t.Helper()
	wait(t, what, func() bool {
		return server.Count(t, server.URL("public"), "SELECT count(*)::int FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '"+statement+"%'") > 0
	})
}

// TestAClaimIsJudgedWhereItIsReplaced: a node finds a claim whose process is dead and whose run has
// begun no call. Before it can replace the claim, the run begins one. The claim is not replaced.
func TestAClaimIsJudgedWhereItIsReplaced(t *testing.T) { // not parallel: it looks for waiting statements
	ctx, home := t.Context(), t.TempDir()
	url := server.Schema(t, home)
	dead := must(postgres.Open(ctx, postgres.Options{Home: home, URL: url, Lease: time.Minute}))
	a, b := openWith(t, postgres.Options{Home: home, Lease: time.Minute}), openWith(t, postgres.Options{Home: home, Lease: time.Minute})
	b.Age()
	run := uuid.Must(uuid.NewV7())
	if got := claim(t, dead, run); got != store.RequestClaimed {
		t.Fatalf("the first claim finds state %d", got)
	}
	must(0, tryBeginAs(t, a, run, false))
	intent, _ := call(must(a.Run(ctx, run.String())).Seq, 1)
	dead.StopRenewing()
	row := " WHERE id = '" + dead.Owner().String() + "'"
	execute(t, url, "UPDATE members SET lease_until = clock_timestamp() - interval '1 second'"+row)
	hold := func(statement string) (release func()) {
		c := must(pgx.Connect(ctx, url))
		must(c.Exec(ctx, "BEGIN"))
		must(c.Exec(ctx, statement))
		return func() { must(0, c.Close(ctx)) }
	}
	releaseMember := hold("SELECT FROM members" + row + " FOR UPDATE")
	found := make(chan store.RequestState, 1)
	go func() {
		_, state, err := b.BeginRequest(ctx, request(uuid.Must(uuid.NewV7())), 100)
		if err != nil {
			t.Error(err)
		}
		found <- state
	}()
	waitsForALock(t, "the dead node is being removed", "DELETE FROM members")
	releaseLog := hold("SELECT FROM log FOR UPDATE")
	releaseMember()
	waitsForALock(t, "the claim is being replaced", "SELECT origin")
	must(a.Append(ctx, intent))
	releaseLog()
	if state := <-found; state != store.RequestBegun {
		t.Errorf("the claim finds state %d, want that the request was begun", state)
	}
	_ = dead.Close() // another node removed it
}
