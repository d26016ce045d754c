package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

func grantsRestored(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	st, s := openGrants(t, open, home)
	questions, _ := st.(store.Approvals)
	old := issue(t, s, nil)
	child := issue(t, s, func(g *store.GrantRecord) { g.Parent = old.ID })
	other, gone := issue(t, s, nil), issue(t, s, nil)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(set(s, gone.ID, store.Revoked))
	at := time.Now()
	ask := func(id byte) store.Approval {
		q, err := questions.Request(ctx, store.Approval{ID: uuid.UUID{id}, Holder: "agent:x", Binding: [32]byte{1}, Needs: 1, Asked: at, Until: at.Add(time.Hour), GoodFor: time.Hour, Body: []byte(`{}`)})
		check(err)
		return q
	}
	q := ask(1)
	_, err := questions.Vote(ctx, q.ID, store.Vote{By: "user:ann", Yes: true, At: at})
	check(err)

	check(set(s, store.RestoreMark, store.Paused))
	fresh, lost := issue(t, s, nil), uuid.Must(uuid.NewV7())
	expect := func(when string, want map[uuid.UUID]store.Standing) {
		t.Helper()
		_, again := openGrants(t, open, home)
		for _, s := range []store.Grants{s, again} {
			for id, to := range want {
				if got := standing(t, s, id); got != to {
					t.Errorf("%s: %s is %v, want %v", when, id, got, to)
				}
			}
		}
	}
	expect("after the restore", map[uuid.UUID]store.Standing{old.ID: store.Restored, child.ID: store.Restored, other.ID: store.Restored, lost: store.Restored, gone.ID: store.Revoked, fresh.ID: store.Active})
	for id, want := range map[uuid.UUID]store.Standing{old.ID: store.Paused, gone.ID: store.Revoked, fresh.ID: store.Active} {
		if g, err := s.Grant(ctx, id.String()); err != nil || g.Standing != want {
			t.Errorf("%s is listed as %v, %v; want %v", id, g.Standing, err, want)
		}
	}
	if _, ok, err := questions.Claim(ctx, q.Binding, at); ok || err != nil {
		t.Errorf("an approval of before was claimed: %v, %v", ok, err)
	}
	if again := ask(2); again.ID == q.ID {
		t.Error("an approval of before was given to a new question")
	}

	check(set(s, old.ID, store.Active))
	check(set(s, lost, store.Active))
	check(set(s, old.ID, store.Active)) // changes nothing
	expect("after two were resumed", map[uuid.UUID]store.Standing{old.ID: store.Active, lost: store.Active, other.ID: store.Restored, gone.ID: store.Revoked})
	if err := set(s, gone.ID, store.Active); !errors.Is(err, fault.GrantRevoked) {
		t.Errorf("a revoked grant was resumed: %v", err)
	}
	check(set(s, store.RestoreMark, store.Active))
	expect("after all were accepted", map[uuid.UUID]store.Standing{other.ID: store.Active, gone.ID: store.Revoked, uuid.Must(uuid.NewV7()): store.Active})
	check(set(s, store.RestoreMark, store.Paused))
	expect("after another restore", map[uuid.UUID]store.Standing{old.ID: store.Restored, fresh.ID: store.Restored})
	sound(t, st)
}
