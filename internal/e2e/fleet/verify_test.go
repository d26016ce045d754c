package fleet_test

import (
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// verified checks the invariants: the ledger verifies, and no call has two intents.
func verified(t *testing.T, f *fleet) {
	t.Helper()
	s, err := postgres.Open(t.Context(), postgres.Options{Home: filepath.Join(f.dir, "home"), URL: f.db.Schema(t, f.dir), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }() // it has written nothing
	if r, err := s.Verify(t.Context(), store.VerifyOptions{}); err != nil || !r.OK {
		t.Errorf("Verify: %v, %+v", err, r.Problems)
	}
	type call struct {
		run  ledger.Seq
		call uint32
	}
	intents := map[call]int{}
	for e, err := range s.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == ledger.CallIntent {
			c := call{e.Event.Run, e.Event.Call}
			if intents[c]++; intents[c] > 1 {
				t.Errorf("call %d of run %d has %d intents", c.call, c.run, intents[c])
			}
		}
	}
}
