package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const helper tool.ID = "mcp.start"

// listedRuns adds runs of each kind that a filter tells apart.
func listedRuns(t *testing.T, s store.Store) {
	t.Helper()
	begin := func(total uint32, change func(e *ledger.Event)) ledger.Seq {
		run, _ := start(t, s, func(e *ledger.Event) {
			if e.Total = total; change != nil {
				change(e)
			}
		})
		return run
	}
	for _, st := range []tool.Status{tool.Completed, tool.Failed, tool.StatusDenied} {
		run := begin(1, nil)
		put(t, s, intent(run, 1), outcome(run, 1, st), finish(run, st))
	}
	refused := begin(1, func(e *ledger.Event) { e.Mode, e.At = ledger.Replay, base+5_000_000 })
	o := outcome(refused, 1, tool.Completed)
	o.Event.Refused = 2
	put(t, s, intent(refused, 1), o, finish(refused, tool.Completed))
	started := begin(1, nil)
	put(t, s, done(started, 1, helper, tool.Completed), finish(started, tool.Completed))
	open := begin(3, nil)
	put(t, s, intent(open, 1), outcome(open, 1, tool.StatusDenied), intent(open, 2))
}

// EditedRuns edits each column by which lists of runs are filtered, and lists with each filter:
// no run is missing, and each is as recorded, or not verified.
func EditedRuns(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	home := t.TempDir()
	s := open(t, home)
	listedRuns(t, s)
	filters := map[string]store.RunFilter{
		"none": {}, "failed": {Failed: true}, "denied": {Denied: true}, "run": {Mode: ledger.Live}, "replay": {Mode: ledger.Replay}, "tool": {Tool: "fs.write"},
		"since": {Since: ledger.Time(base + 1)}, "until": {Until: ledger.Time(base + 1)}, "without": {Without: []tool.ID{helper}},
		"running": {Status: ledger.Running}, "completed": {Status: "completed"}, "status denied": {Status: "denied"},
	}
	list := func(f store.RunFilter) (map[ledger.Seq]ledger.Run, bool) {
		runs, checked, err := s.CheckedRuns(context.Background(), f)
		if fault.CodeOf(err) == fault.StoreCorrupt {
			return nil, false
		}
		out := map[ledger.Seq]ledger.Run{}
		for _, r := range runs {
			out[r.Seq] = r
		}
		if err != nil {
			t.Fatal(err)
		}
		return out, checked
	}
	truth := map[string]map[ledger.Seq]ledger.Run{}
	for name, f := range filters {
		var checked bool
		if truth[name], checked = list(f); !checked && name != "tool" || len(truth[name]) == 0 {
			t.Fatalf("%s: before any change, %d runs, checked: %v", name, len(truth[name]), checked)
		}
	}
	d := tamper(t, home)
	d.Rows = 0
	tried := 0
	for table, keys := range map[string]int{"runs": 1, "run_tools": 2} {
		d.eachChange(t, table, keys, func(change string) {
			if tried++; strings.HasPrefix(change, "runs.seq") {
				_, _ = list(store.RunFilter{}) // as a removed row: remit verify finds it
				return
			}
			for name, f := range filters {
				got, checked := list(f)
				for seq, want := range truth[name] {
					if r, there := got[seq]; checked && (!there || !r.Unverified && !cmp.Equal(r, want)) {
						t.Errorf("%s: filter %q: run %d: listed %v, %+v; want it, or not verified", change, name, seq, there, r)
					}
				}
				for seq, r := range got {
					if checked && !r.Unverified && !cmp.Equal(r, truth["none"][seq]) {
						t.Errorf("%s: filter %q lists run %d as verified: %+v", change, name, seq, r)
					}
				}
			}
		})
	}
	if tried < 50 {
		t.Errorf("only %d changes were tried", tried)
	}
}

// EditedLists edits each column of questions, of the queue and of the runs that it is joined with.
// Every list for people is refused, or as it was.
func EditedLists(t *testing.T, open OpenStore, tamper func(t *testing.T, home string) Tamper) {
	home := t.TempDir()
	s, ok := open(t, home).(store.Backend)
	if !ok {
		t.Fatal("not a store of everything")
	}
	f := olderStore(t, s)
	f.advance(t)
	lists := map[string][]func(context.Context, store.Backend) (any, error){}
	for _, state := range []store.QuestionState{0, store.Waiting, store.Approved, store.Used, store.Refused, store.Lapsed} {
		lists["questions"] = append(lists["questions"], func(ctx context.Context, s store.Backend) (any, error) {
			return s.Questions(ctx, store.QuestionFilter{State: state, Sealed: true})
		})
	}
	for _, q := range []store.QueueFilter{{}, {Ended: true}, {Dead: true}} {
		q.Sealed = true
		lists["queue"] = append(lists["queue"], func(ctx context.Context, s store.Backend) (any, error) { return s.QueuedRuns(ctx, q) })
	}
	lists["votes"], lists["runs"] = lists["questions"], lists["queue"]
	d := tamper(t, home)
	d.Rows = 0
	for table, keys := range map[string]int{"questions": 1, "votes": 2, "queue": 1, "runs": 1} {
		want := decisions(t, s, lists[table])
		check := func(change string) {
			for i, got := range decisions(t, s, lists[table]) {
				if got != "" && got != want[i] {
					t.Errorf("%s: list %d of %s is %s; want %s, or a refusal", change, i, table, got, want[i])
				}
			}
		}
		if slices.Contains(want, "") {
			t.Fatalf("%s: a list is refused before any change", table)
		}
		d.eachChange(t, table, keys, func(change string) {
			if !strings.Contains(change, ".lane ") && !strings.Contains(change, ".claimed ") && !strings.Contains(change, ".tries ") && !strings.HasPrefix(change, "runs.seq") {
				check(change)
			}
		})
		if table == "runs" {
			continue // remit verify finds a removed one
		}
		rows, columns := d.rows(t, table)
		for _, row := range rows {
			d.replace(t, table, columns, row, nil)
			check(fmt.Sprintf("%s %v removed", table, row))
			d.replace(t, table, columns, nil, row)
		}
	}
}
