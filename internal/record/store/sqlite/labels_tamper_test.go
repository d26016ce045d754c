package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// labelTables is the table of labels of files, with the number of its key columns.
var labelTables = map[string]int{"labels": 2}

// labelled is a ledger with labels of files, of which some were cleared.
func labelled(t *testing.T) string {
	t.Helper()
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	for i, changes := range [][]ledger.FileLabel{
		{{File: ledger.PathKey("/w/a"), Labels: []string{"private", "web"}}, {File: ledger.ContentKey("3", "abc"), Labels: []string{"web"}}},
		{{File: ledger.PathKey("/w/b"), Labels: []string{"web"}}, {File: ledger.PathKey("/w/c"), Labels: []string{"web"}}},
		{{File: ledger.PathKey("/w/b"), Clear: true}},
	} {
		doc := must(json.Marshal(ledger.FileLabels{Changes: changes}))
		must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.FilesLabelled, At: int64(i) + 1, Principal: "user:ann"}, Payload: ledger.Payload{ledger.PartDoc: doc}}))
	}
	must(0, s.Close())
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) > 0 {
		t.Fatalf("the fixture is not sound: %+v", r.Problems)
	}
	return home
}

func TestVerifyNamesEveryChangeOfLabels(t *testing.T) {
	namesEveryChange(t, labelled(t), labelTables)
}

// A label that was edited in the file is refused where it is used.
func TestAChangedLabelIsRefused(t *testing.T) {
	ctx, home := context.Background(), labelled(t)
	exec(t, home, "UPDATE labels SET label = 'other' WHERE label = 'private'")
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	defer s.Close()
	if _, err := s.LabelsOf(ctx, []string{"private"}, []ledger.LabelKey{ledger.PathKey("/w/a")}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("LabelsOf: %v, want %v", err, fault.StoreCorrupt)
	}
	if _, err := s.Labelled(ctx, store.LabelFilter{}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("Labelled: %v, want %v", err, fault.StoreCorrupt)
	}
}
