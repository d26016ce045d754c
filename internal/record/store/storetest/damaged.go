package storetest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// DamagedQuestions edits each column of a question whose process died. The next processes close its
// run, and the second one is told of no damage.
func DamagedQuestions(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	ctx, home := context.Background(), t.TempDir()
	fresh := func() store.Backend { b, _ := open(t, home).(store.Backend); return b }
	s := fresh()
	ask := func() (uuid.UUID, store.Approval) {
		ghost := uuid.New()
		run, id := start(t, s, func(e *ledger.Event) { e.Owner = ghost[:] })
		put(t, s, intent(run, 1))
		q, err := s.Request(ctx, store.Approval{ID: uuid.New(), Holder: "agent:x", Binding: [32]byte(append(ghost[:], ghost[:]...)), Run: run, Call: 1, Needs: 1, Asked: time.Now(), Until: time.Now().Add(time.Hour), GoodFor: time.Hour, Body: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		return id, q
	}
	ask() // a run that is older than the first damaged one
	d := tamper(t, home)
	_, cols := d.rows(t, "questions")
	for c, col := range cols {
		id, q := ask()
		rows, _ := d.rows(t, "questions")
		i := slices.IndexFunc(rows, func(r []any) bool { id, _ := r[0].([]byte); return bytes.Equal(id, q.ID[:]) })
		values := alterations(rows[i][c], "questions", col, rows, c)
		set := func(to, id any) {
			if _, err := d.DB.Exec(d.Rebind("UPDATE questions SET "+col+" = ? WHERE id = ?"), to, id); err != nil {
				t.Fatal(col, err)
			}
		}
		set(values[0], rows[i][0])
		for _, mayBeTold := range []bool{true, false} {
			next := fresh()
			if _, err := next.Recover(ctx); err != nil && !(mayBeTold && errors.Is(err, fault.StoreCorrupt)) {
				t.Errorf("questions.%s := %v: a new process: %v", col, values[0], err)
			}
			if err := next.Close(); err != nil {
				t.Error(err)
			}
		}
		if r, err := s.Run(ctx, id.String()); err != nil || r.Status != "interrupted" {
			t.Errorf("questions.%s := %v: the run is %q; %v", col, values[0], r.Status, err)
		}
		if c == 0 {
			set(rows[i][0], values[0])
		} else {
			set(rows[i][c], rows[i][0])
		}
	}
}
