package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// PutBackTables puts each sealed table back to an earlier state together with its seal. A process
// that runs since that state refuses each use, or decides as before, whether it has seen the newer
// state or not.
func PutBackTables(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	home := t.TempDir()
	openOne := func() store.Backend { b, _ := open(t, home).(store.Backend); return b }
	s := openOne()
	f := olderStore(t, s)
	processes := map[string]store.Backend{"a process that knows the earlier state": openOne(), "a process that knows both states": openOne()}
	version := func(s store.Backend) (int64, error) { return s.StandingVersion(context.Background()) }
	for _, p := range processes {
		for _, table := range []string{"grants", "standings", "agents", "labels"} { // their uses change nothing
			decisions(t, p, f.uses()[table])
		}
		if _, err := version(p); err != nil {
			t.Fatal(err)
		}
	}
	d := tamper(t, home)
	seals := func() map[string][]any {
		out := map[string][]any{}
		rows, _ := d.rows(t, "seals")
		for _, row := range rows {
			out[fmt.Sprint(row[0])] = row
		}
		return out
	}
	old, columns := d.snapshot(t)
	oldSeals := seals()
	_, columns["seals"] = d.rows(t, "seals")
	f.advance(t)
	want := map[string][]string{}
	for _, table := range slices.Sorted(maps.Keys(olderKeys)) {
		want[table] = decisions(t, s, f.uses()[table])
		decisions(t, processes["a process that knows both states"], f.uses()[table])
	}
	now, _ := d.snapshot(t)
	nowSeals := seals()
	tried := 0
	for table := range olderKeys {
		if fmt.Sprint(old[table]) == fmt.Sprint(now[table]) {
			continue
		}
		put := func(from, to map[string][]any, sealsFrom, sealsTo map[string][]any) {
			for _, row := range from {
				d.replace(t, table, columns[table], row, nil)
			}
			for _, row := range to {
				d.replace(t, table, columns[table], nil, row)
			}
			d.replace(t, "seals", columns["seals"], sealsFrom[table], sealsTo[table])
		}
		put(now[table], old[table], nowSeals, oldSeals)
		for name, p := range processes {
			tried++
			for i, got := range decisions(t, p, f.uses()[table]) {
				if got != "" && got != want[table][i] && !harmless(got) {
					t.Errorf("%s with an older seal, %s: use %d decided %s; want %s, or a refusal", table, name, i, got, want[table][i])
				}
			}
			if v, err := version(p); table == "standings" && !errors.Is(err, fault.StoreCorrupt) {
				t.Errorf("%s takes version %d of the standings for the present one; %v", name, v, err)
			}
		}
		put(old[table], now[table], oldSeals, nowSeals)
	}
	for name, p := range processes {
		if of := decisions(t, p, f.uses()["standings"]); !slices.Equal(of, want["standings"]) {
			t.Errorf("%s decides %v afterwards; want %v", name, of, want["standings"])
		}
	}
	if tried < 12 {
		t.Errorf("only %d tables were put back", tried)
	}
}
