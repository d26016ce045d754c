package agent

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

var update = flag.Bool("update", false, "rewrite testdata")

// The tables are printed for review: what may follow on what is read there.
func TestTablesArePrinted(t *testing.T) {
	got := sessionTable.String() + "\n" + turnTable.String()
	file := filepath.Join("testdata", "tables.txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the tables are\n%s\n%s has\n%s", got, file, want)
	}
}

// Every pair of a state and a change leads to a state of the table, or is refused with
// an error that has a code and names both.
func TestEveryPairHasAnAnswer(t *testing.T) {
	checkPairs(t, &sessionTable, fault.Conflict, fault.SessionEnded)
	checkPairs(t, &turnTable, fault.Conflict, fault.SessionBusy)
}

func checkPairs[S, C ~string](t *testing.T, tab *table[S, C], codes ...fault.Code) {
	t.Helper()
	if len(tab.next) != len(tab.states) {
		t.Errorf("%s: %d of %d states have a row", tab.name, len(tab.next), len(tab.states))
	}
	for _, s := range tab.states {
		for c := range tab.next[s] {
			if !slices.Contains(tab.changes, c) {
				t.Errorf("%s: %s has the unknown change %s", tab.name, s, c)
			}
		}
		for _, c := range tab.changes {
			to, err := tab.nextState(s, c)
			switch {
			case err == nil && !slices.Contains(tab.states, to):
				t.Errorf("%s: %s and %s lead to %q", tab.name, s, c, to)
			case err != nil && (to != s || !slices.Contains(codes, fault.CodeOf(err))):
				t.Errorf("%s: %s and %s: %q, %v", tab.name, s, c, to, err)
			}
		}
	}
	if _, err := tab.nextState("nonsense", tab.changes[0]); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("%s: a state of no table: %v", tab.name, err)
	}
	var zero table[S, C]
	if _, err := zero.nextState(tab.states[0], tab.changes[0]); err == nil {
		t.Error("the zero table allows something")
	}
}

// From wherever a session is, it can be ended; from wherever a turn is, the session can
// become free; and nothing in the tables is unreachable.
func TestNoStateIsADeadEnd(t *testing.T) {
	for _, s := range sessionTable.states {
		if got := reach(&sessionTable, s); !got[Ended] {
			t.Errorf("a session that is %s cannot be ended", s)
		}
	}
	if got := reach(&sessionTable, Idle); len(got) != len(sessionTable.states) {
		t.Errorf("from idle only %v can be reached", got)
	}
	for _, p := range turnTable.states {
		if got := reach(&turnTable, p); !got[phaseFree] || len(got) != len(turnTable.states) {
			t.Errorf("from %s only %v can be reached", p, got)
		}
	}
}

func reach[S, C ~string](tab *table[S, C], from S) map[S]bool {
	seen, open := map[S]bool{from: true}, []S{from}
	for len(open) > 0 {
		at := open[0]
		open = open[1:]
		for _, to := range tab.next[at] {
			if !seen[to] {
				seen[to] = true
				open = append(open, to)
			}
		}
	}
	return seen
}
