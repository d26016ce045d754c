package postgres_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestATurnHasOneNode: a live node's turn is refused to others, with its name; that of a
// removed node goes to whoever adopts it, with a higher epoch and its caller.
func TestATurnHasOneNode(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	a := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), Lease: time.Hour}))
	b := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	b.Age()
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	session, caller := uuid.New(), []byte(`{"Token":"remit1_secret"}`)
	first := must(a.TakeTurn(ctx, session, caller))
	if _, err := b.TakeTurn(ctx, session, nil); !errors.Is(err, fault.SessionBusy) {
		t.Fatalf("two nodes have the turn: %v", err)
	}
	if elsewhere := must(b.AskTurn(ctx, session, store.PauseTurn)); !elsewhere || must(a.AskTurn(ctx, session, store.NoRequest)) {
		t.Error("who has the turn is told wrongly")
	}
	asked, dead, err := a.PollTurns(ctx)
	if err != nil || dead || len(asked) != 1 || asked[0].Request != store.PauseTurn || asked[0].Epoch != first {
		t.Fatalf("asked %+v, dead %v: %v", asked, dead, err)
	}
	must(0, a.AnswerTurn(ctx, asked[0]))
	if asked, _, _ = a.PollTurns(ctx); len(asked) != 0 {
		t.Errorf("an answered request is still there: %+v", asked)
	}
	var sealed []byte
	must(0, c.QueryRow(ctx, "SELECT caller FROM turns").Scan(&sealed))
	if bytes.Contains(sealed, []byte("secret")) {
		t.Error("the caller's token can be read in the database")
	}
	must(c.Exec(ctx, "UPDATE members SET lease_until = clock_timestamp() - interval '1 second' WHERE id = $1", a.Owner()))
	if _, dead, _ = b.PollTurns(ctx); !dead {
		t.Error("a node whose lease is over is not found")
	}
	must(b.Recover(ctx))
	must(0, b.AdoptTurns(ctx))
	must(0, b.AdoptTurns(ctx)) // as after a lost answer
	asked, dead, err = b.PollTurns(ctx)
	if err != nil || dead || len(asked) != 1 || asked[0].Request != store.BeginTurn || asked[0].Epoch <= first || !bytes.Equal(asked[0].Caller, caller) {
		t.Fatalf("adopted %+v, dead %v: %v", asked, dead, err)
	}
	if _, err := a.TakeTurn(ctx, session, caller); err == nil {
		t.Error("a removed node took a turn")
	}
	if err := a.EndTurn(ctx, session, first); err != nil && !errors.Is(err, fault.StoreFailed) { // too late: it changes nothing, and fails once the node knows
		t.Error(err)
	}
	again := must(b.TakeTurn(ctx, session, caller))
	if again <= asked[0].Epoch {
		t.Errorf("epoch %d after %d", again, asked[0].Epoch)
	}
	must(0, b.EndTurn(ctx, session, again))
	_ = a.Close() // fails: another node removed it
}

// A node that could not record the end of a turn leaves a request with it, and gets this request
// at its next look.
func TestATurnThatIsLeftIsAskedFor(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	a := openWith(t, postgres.Options{Home: home})
	session := uuid.New()
	for _, r := range []store.TurnRequest{store.BeginTurn, store.CancelTurn} {
		epoch := must(a.TakeTurn(ctx, session, []byte("who")))
		must(0, a.LeaveTurn(ctx, session, epoch-1, r)) // of an earlier turn: changes nothing
		if asked, _, err := a.PollTurns(ctx); err != nil || len(asked) != 0 {
			t.Errorf("asked are %+v: %v", asked, err)
		}
		must(0, a.LeaveTurn(ctx, session, epoch, r))
		if asked, _, err := a.PollTurns(ctx); err != nil || len(asked) != 1 || asked[0].Request != r || asked[0].Epoch != epoch || string(asked[0].Caller) != "who" {
			t.Errorf("asked are %+v: %v", asked, err)
		}
	}
}

// A fenced node may have been unable to record the end of its turns, so another node goes on with
// them.
func TestAFencedNodeLeavesItsTurns(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	a := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), Lease: 6 * time.Second}))
	b := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	b.Age()
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	session := uuid.New()
	epoch := must(a.TakeTurn(ctx, session, nil))
	must(c.Exec(ctx, "DELETE FROM members WHERE id = $1", a.Owner()))
	lost, _ := a.HoldsLease()
	select {
	case <-lost:
	case <-time.After(time.Minute):
		t.Fatal("the node does not notice that it was removed")
	}
	if err := a.EndTurn(ctx, session, epoch); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("a removed node ended a turn: %v", err)
	}
	must(0, b.AdoptTurns(ctx))
	if asked, _, err := b.PollTurns(ctx); err != nil || len(asked) != 1 || asked[0].Session != session || asked[0].Request != store.BeginTurn {
		t.Errorf("the other node got %+v: %v", asked, err)
	}
	_ = a.Close() // fails: it was removed
}

// TestANodeWithoutALeaseMayNotAct: the node cannot renew its lease, as it was stopped, and
// knows that before anybody tells it.
func TestANodeWithoutALeaseMayNotAct(t *testing.T) {
	home := t.TempDir()
	s := openWith(t, postgres.Options{Home: home, Lease: time.Hour})
	if _, err := s.HoldsLease(); err != nil {
		t.Fatal(err)
	}
	s.PassLease()
	if _, err := s.HoldsLease(); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("after the lease: %v", err)
	}
}
