package sqlite_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// erased is a ledger of two runs, of which the first was erased. Event 1 begins the first,
// event 4 the second.
func erased(t *testing.T) string {
	t.Helper()
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	var first ledger.Seq
	for n := range 2 {
		run := id(byte(n + 1))
		seq := must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}, Payload: ledger.Payload{ledger.PartPlan: []byte("a plan")}}))
		must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.CallDone, At: 2, Run: seq, Call: 1, Tool: "time.now", Status: tool.Completed}, Payload: ledger.Payload{ledger.PartArgs: []byte("{}")}},
			ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 3, Run: seq, Status: tool.Completed}}))
		if n == 0 {
			first = seq
		}
	}
	if out := must(s.Erase(ctx, store.Erasure{Run: first, Scope: "run 1", By: "user:ann"}, false)); out.Payloads != 2 {
		t.Fatalf("erased: %+v", out)
	}
	must(0, s.Close())
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) > 0 || r.Erased != 2 {
		t.Fatalf("the fixture is not sound: %+v", r)
	}
	return home
}

func TestVerifyNamesForgedErasures(t *testing.T) {
	from := erased(t)
	for name, change := range map[string]string{
		"a payload is removed as if it were erased":    "UPDATE events SET salt = NULL, data = (SELECT data FROM events WHERE seq = 1) WHERE seq = 4",
		"a payload is removed":                         "UPDATE events SET salt = NULL, data = NULL WHERE seq = 4",
		"an erased payload is replaced by another one": "UPDATE events SET salt = (SELECT salt FROM events WHERE seq = 4), data = (SELECT data FROM events WHERE seq = 4) WHERE seq = 1",
		"the mark of an erased payload is removed":     "UPDATE events SET data = NULL WHERE seq = 1",
		"payloads are left open to be overwritten":     "INSERT INTO erasing(id) VALUES(1)",
	} {
		t.Run(name, func(t *testing.T) {
			home := forge(t, from, func(d *sql.DB) {
				if _, err := d.Exec(change); err != nil {
					t.Fatal(err)
				}
			})
			if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) == 0 {
				t.Error("verify finds nothing")
			}
		})
	}
}
