package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// march2024 is a month that has a table in the ledger from then on.
func march2024(s *postgres.Store) time.Time {
	at := time.Date(2024, 3, 5, 0, 0, 0, 0, time.UTC)
	must(0, s.MakePart(context.Background(), at))
	return at
}

// month records a run of some calls that began and ended at a time.
func month(s store.Store, at time.Time) ledger.Seq {
	ctx := context.Background()
	run := begin(s, func(e *ledger.Event) { e.At = at.UnixMicro() })
	for n := range 8 {
		e := ledger.Event{Kind: ledger.CallDone, At: at.UnixMicro(), Run: run, Call: uint32(n + 1), Tool: "time.now", Status: tool.Completed, Timeline: []int64{1}}
		output := []byte(`{}`)
		if n == 0 {
			output = bytes.Repeat(fmt.Appendf(nil, "run %d ", run), 2000) // a blob
		}
		must(s.Append(ctx, ledger.Entry{Event: e, Payload: ledger.Payload{ledger.PartOutput: output}}))
	}
	must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: at.UnixMicro(), Run: run, Status: tool.Completed}, Payload: ledger.Payload{ledger.PartOutput: []byte(`"done"`)}}))
	return run
}

// hasTable reports whether a table exists.
func hasTable(t *testing.T, home, name string) bool {
	t.Helper()
	return server.Count(t, server.Schema(t, home), "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relname = '"+name+"'") > 0
}

func sound(t *testing.T, s store.Store, erased uint64) store.VerifyReport {
	t.Helper()
	r := must(s.Verify(t.Context(), store.VerifyOptions{}))
	if !r.OK || r.Erased != erased {
		t.Fatalf("Verify: %d erased, want %d; %+v", r.Erased, erased, r.Problems)
	}
	return r
}

// outputs are the outputs of a run's calls.
func outputs(t *testing.T, s store.Store, run ledger.Seq) (out []string) {
	t.Helper()
	for c, err := range s.Calls(t.Context(), run) {
		must(0, err)
		if !c.Erased {
			out = append(out, string(must(s.Load(t.Context(), c.Parts[ledger.PartOutput]))))
		}
	}
	return out
}

// TestAMonthIsDropped: a month of which hardly anything is kept goes with its table, and what
// is kept stays.
func TestAMonthIsDropped(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home})
	at := march2024(s)
	var runs []ledger.Seq
	for n := range 3 {
		runs = append(runs, month(s, at.AddDate(0, 0, n)))
	}
	open := begin(s, func(e *ledger.Event) { e.At = at.UnixMicro() })
	later := month(s, at.AddDate(0, 1, 0))
	note := must(s.Checkpoint(ctx))
	if out := must(s.Erase(ctx, store.Erasure{Run: runs[0], Scope: "one", By: "user:ann"}, false)); out.Payloads != 10 || !hasTable(t, home, "payloads_runs_202403") {
		t.Fatalf("one of three runs: %+v", out)
	}
	sound(t, s, 10)
	out := must(s.Erase(ctx, store.Erasure{Before: at.AddDate(0, 0, 20), Runs: true, Scope: "the month", By: "user:ann"}, false))
	if out.Payloads != 20 || out.Runs != 2 || out.Blobs != 2 {
		t.Errorf("Erase: %+v", out)
	}
	if hasTable(t, home, "payloads_runs_202403") {
		t.Error("the month's table is there")
	}
	sound(t, s, 30)
	if r := must(s.Verify(ctx, store.VerifyOptions{Checkpoint: note})); !r.OK {
		t.Errorf("an earlier checkpoint: %+v", r.Problems)
	}
	for _, run := range runs {
		if got := outputs(t, s, run); len(got) > 0 {
			t.Errorf("run %d still has %q", run, got)
		}
	}
	if got := outputs(t, s, later); len(got) != 8 {
		t.Errorf("the next month has %d outputs", len(got))
	}
	intent, _ := call(open, 1)
	must(s.Append(ctx, intent)) // the open run goes on; its plan was kept
	if r := must(s.Run(ctx, runID(t, s, open))); len(r.Parts) == 0 {
		t.Error("the plan of the open run is gone")
	}
	roundTrip(t, home, s, 30)
}

func runID(t *testing.T, s store.Store, run ledger.Seq) string {
	t.Helper()
	for _, r := range must(s.Runs(t.Context(), store.RunFilter{Limit: 100})) {
		if r.Seq == run {
			return r.ID.String()
		}
	}
	t.Fatalf("run %d is not listed", run)
	return ""
}

// roundTrip copies a ledger into a file, as a backup does, and from there into a database.
func roundTrip(t *testing.T, home string, s *postgres.Store, erased uint64) {
	t.Helper()
	ctx, file := t.Context(), t.TempDir()
	must(0, os.Mkdir(filepath.Join(file, "keys"), 0o700))
	for _, key := range must(os.ReadDir(filepath.Join(home, "keys"))) {
		must(0, os.WriteFile(filepath.Join(file, "keys", key.Name()), must(os.ReadFile(filepath.Join(home, "keys", key.Name()))), 0o600))
	}
	must(0, sqlite.Copy(ctx, file, s.Store))
	c := must(sqlite.Open(ctx, sqlite.Options{Home: file}))
	sound(t, c, erased)
	must(0, postgres.Copy(ctx, postgres.Options{Home: file, URL: server.Schema(t, file)}, c.Store))
	must(0, c.Close())
	sound(t, openWith(t, postgres.Options{Home: file}), erased)
}

// TestAMonthInUseIsOverwritten: a long reader, as a backup is, keeps the table.
func TestAMonthInUseIsOverwritten(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home})
	run := month(s, march2024(s))
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	reader := must(c.Begin(ctx))
	must(reader.Exec(ctx, "SELECT count(*) FROM payloads"))
	if out := must(s.Erase(ctx, store.Erasure{Run: run, Scope: "one", By: "user:ann"}, false)); out.Payloads != 10 || !hasTable(t, home, "payloads_runs_202403") {
		t.Errorf("%+v", out)
	}
	must(0, reader.Rollback(ctx))
	sound(t, s, 10)
	if got := outputs(t, s, run); len(got) > 0 {
		t.Errorf("still there: %q", got)
	}
	other := month(s, time.Date(2024, 4, 5, 0, 0, 0, 0, time.UTC)) // the next erasure drops the empty table
	must(s.Erase(ctx, store.Erasure{Run: other, Scope: "another", By: "user:ann"}, false))
	if hasTable(t, home, "payloads_runs_202403") {
		t.Error("the table is there")
	}
	sound(t, s, 20)
}

// TestVerifyNamesForgedDrops: neither a mark nor an event alone excuses a missing payload.
func TestVerifyNamesForgedDrops(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := openWith(t, postgres.Options{Home: home})
	at := march2024(s)
	gone, live := month(s, at), month(s, at.AddDate(0, 1, 0))
	must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 9, Run: begin(s, nil), Status: tool.Completed}})) // without a payload
	must(s.Erase(ctx, store.Erasure{Run: gone, Scope: "one", By: "user:ann"}, false))
	sound(t, s, 10)
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	must(c.Exec(ctx, "SET session_replication_role = replica")) // triggers do not hold
	must(c.Exec(ctx, "CREATE TEMP TABLE e AS SELECT * FROM events; CREATE TEMP TABLE p AS SELECT * FROM payloads; CREATE TEMP TABLE d AS SELECT * FROM dropped"))
	this := "payloads_sessions_" + time.Now().UTC().Format("200601")
	restore := "DELETE FROM events; INSERT INTO events SELECT * FROM e; DELETE FROM payloads; INSERT INTO payloads SELECT * FROM p; DELETE FROM dropped; INSERT INTO dropped SELECT * FROM d; DROP TRIGGER IF EXISTS x ON " + this
	for name, change := range map[string]string{
		"a payload is removed":                           fmt.Sprintf("DELETE FROM payloads WHERE seq = %d", live),
		"a payload is said to be in the dropped part":    fmt.Sprintf("DELETE FROM payloads WHERE seq = %d; UPDATE events SET part = (SELECT part FROM dropped) WHERE seq = %[1]d", live),
		"a part is said to be dropped with another mark": fmt.Sprintf("DELETE FROM payloads WHERE seq = %d; INSERT INTO dropped SELECT e.part, d.mark FROM events e, dropped d WHERE e.seq = %[1]d", live),
		"a dropped payload is another one":               fmt.Sprintf("INSERT INTO payloads SELECT e.part, e.seq, p.salt, p.data FROM events e, payloads p WHERE e.seq = %d AND p.seq = %d", gone, live),
		"a payload has no event":                         fmt.Sprintf("INSERT INTO payloads SELECT part, 999999, salt, data FROM payloads WHERE seq = %d", live),
		"a payload is there twice":                       fmt.Sprintf("INSERT INTO payloads SELECT 1, seq, salt, data FROM payloads WHERE seq = %d", live),
		"an event without a payload has a part":          "UPDATE events SET part = 1 WHERE seq = (SELECT max(seq) FROM events WHERE part = 0)",
		"a month's table has another trigger":            "CREATE TRIGGER x BEFORE INSERT ON " + this + " EXECUTE FUNCTION remit_append_only()",
	} {
		t.Run(name, func(t *testing.T) {
			must(c.Exec(ctx, change))
			if r, err := s.Verify(ctx, store.VerifyOptions{}); err == nil && r.OK {
				t.Error("verify finds nothing")
			}
			must(c.Exec(ctx, restore))
			sound(t, s, 10)
		})
	}
}

// TestAnOlderLedgerIsMoved: payloads move while the ledger is used. A process that is killed
// in between leaves the rest to the next one.
func TestAnOlderLedgerIsMoved(t *testing.T) {
	ctx, home := t.Context(), t.TempDir()
	s := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home)}))
	var runs []ledger.Seq
	for n := range 4 {
		at := time.Date(2024, time.Month(3+n), 1, 0, 0, 0, 0, time.UTC)
		runs = append(runs, begin(s, func(e *ledger.Event) { e.At = at.UnixMicro() }))
		var calls []ledger.Entry
		for i := range 450 {
			calls = append(calls, ledger.Entry{Payload: ledger.Payload{ledger.PartOutput: fmt.Appendf(nil, `"%d of %d"`, i, n)}, Event: ledger.Event{
				Kind: ledger.CallDone, At: at.UnixMicro(), Run: runs[n], Call: uint32(i + 1), Tool: "time.now", Status: tool.Completed, Timeline: []int64{1}}})
		}
		must(s.Append(ctx, calls...))
		must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: at.UnixMicro(), Run: runs[n], Status: tool.Completed}}))
	}
	sound(t, s, 0)
	must(0, s.Close())
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	must(c.Exec(ctx, `BEGIN; SET LOCAL session_replication_role = replica;
UPDATE events e SET salt = p.salt, data = p.data FROM payloads p WHERE p.part = e.part AND p.seq = e.seq;
ALTER TABLE members DROP COLUMN lease; ALTER TABLE queue DROP COLUMN lane, DROP COLUMN claimed, DROP COLUMN tries;
ALTER TABLE events DROP COLUMN part; DROP TABLE payloads, dropped, moving, buckets; DROP FUNCTION remit_row_unless_erasing, remit_take_requests;
DELETE FROM schema_version WHERE version >= 9; COMMIT`)) // as the eighth version was
	must(0, postgres.Migrate(ctx, c, postgres.Version))
	block := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer block.Close(ctx)
	lock := must(block.Begin(ctx))
	must(lock.Exec(ctx, "SELECT 1 FROM events WHERE seq = 1200 FOR UPDATE")) // the third transaction waits
	child := exec.Command(os.Args[0])
	child.Env, child.Stderr = append(os.Environ(), "REMIT_TEST_MOVE="+home, "REMIT_TEST_URL="+server.Schema(t, home)), os.Stderr
	must(0, child.Start())
	wait := func(query string, want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); server.Count(t, server.Schema(t, home), query) != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is not %d", query, want)
			}
		}
	}
	wait("SELECT (done >= 1000)::int FROM moving", 1)
	must(0, child.Process.Kill())
	_ = child.Wait()
	must(0, lock.Rollback(ctx))
	reads := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), ReadOnly: true}))
	defer reads.Close()
	sound(t, reads, 0) // half way
	next := openWith(t, postgres.Options{Home: home})
	month(next, time.Now()) // others write meanwhile
	if out := must(next.Erase(ctx, store.Erasure{Run: runs[3], Scope: "one", By: "user:ann"}, false)); out.Payloads != 451 {
		t.Errorf("Erase: %+v", out)
	}
	must(0, next.MovePayloads(ctx))
	if n := server.Count(t, server.Schema(t, home), "SELECT count(*) FROM events WHERE data IS NOT NULL OR salt IS NOT NULL"); n > 0 {
		t.Errorf("%d payloads were not moved", n)
	}
	for _, month := range []string{"202403", "202404", "202405"} { // the last one may have been dropped
		if !hasTable(t, home, "payloads_runs_"+month) {
			t.Errorf("%s has no table", month)
		}
	}
	sound(t, next, 451)
	if got := outputs(t, next, runs[1]); len(got) != 450 || !slices.Contains(got, `"7 of 1"`) {
		t.Errorf("outputs: %d", len(got))
	}
	roundTrip(t, home, next, 451)
	st := must(postgres.ReadStatus(ctx, server.Schema(t, home)))
	if st.Unmoved != 0 || st.Parts < 11 || st.Version != st.Latest {
		t.Errorf("%+v", st)
	}
}
