package postgres_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver of database/sql

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/storetest"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func begin(s store.Store, change func(*ledger.Event)) ledger.Seq {
	id := uuid.Must(uuid.NewV7())
	e := ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Name: "test", Principal: "user:ann"}
	if change != nil {
		change(&e)
	}
	return must(s.Append(context.Background(), ledger.Entry{Event: e, Payload: ledger.Payload{ledger.PartPlan: []byte("version: 1\n")}}))
}

func call(run ledger.Seq, n int) (intent, outcome ledger.Entry) {
	intent = ledger.Entry{Durable: true, Payload: ledger.Payload{ledger.PartArgs: fmt.Appendf(nil, `{"path":"%d.txt"}`, n)}, Event: ledger.Event{
		Kind: ledger.CallIntent, At: int64(n), Run: run, Call: uint32(n), Tool: "fs.write", Digest: make([]byte, 32), Timeline: []int64{1}}}
	outcome = ledger.Entry{Payload: ledger.Payload{ledger.PartOutput: []byte(`{}`)}, Event: ledger.Event{
		Kind: ledger.CallOutcome, At: int64(n), Run: run, Call: uint32(n), Status: tool.Completed, Timeline: []int64{1, 2, 3}}}
	return intent, outcome
}

// fill writes at least one row into each table of the ledger.
func fill(ctx context.Context, s *postgres.Store) {
	now := time.Now()
	do := func(err error) { must(0, err) }
	g := store.GrantRecord{ID: uuid.Must(uuid.NewV7()), Holder: "user:ann", Issued: now}
	do(s.PutGrant(ctx, g))
	do(s.SetStanding(ctx, store.StandingChange{Grant: uuid.New(), To: store.Paused, By: "user:ann", At: now}))
	must(s.UseProof(ctx, [32]byte{1}, now.Add(time.Hour)))
	do(s.OpenBudget(ctx, g.ID, grant.Budgets{Calls: 5}))
	q := must(s.Request(ctx, store.Approval{ID: uuid.New(), Holder: "user:ann", Asked: now, Until: now.Add(time.Hour), Needs: 2, GoodFor: time.Hour, Body: []byte(`{}`)}))
	must(s.Vote(ctx, q.ID, store.Vote{By: "user:bob", Yes: true, At: now}))
	_, _, err := s.BeginRequest(ctx, store.RequestRecord{Holder: "ann", Key: [32]byte{2}, Print: [32]byte{3}, Until: now.Add(time.Hour)}, 10)
	do(err)
	must(s.SaveEphemeral(ctx, store.Ephemeral{Kind: "code", Key: [32]byte{1}, Owner: "ann", Until: now.Add(time.Hour), Data: []byte("x")}, store.EphemeralBounds{}))
	queued := store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Priority: 1, Principal: "user:ann", Queued: now, Due: now, Task: store.Task{Plan: []byte("x"), Doc: []byte(`{}`)}}
	_, _, err = s.Enqueue(ctx, queued, store.QueueRoom{})
	do(err)
	must(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: queued.ID[:], Mode: ledger.Live}}, []store.Slot{{Key: "k", Most: 1}}))
	must(s.SaveSchedule(ctx, store.Schedule{ID: uuid.New(), Name: "n", Principal: "user:ann", Priority: 1, Next: now, Saved: now, Task: queued.Task}))
	do(s.PauseQueue(ctx, true, "user:ann"))
	old := march2024(s)
	for _, run := range []ledger.Seq{month(s, old), month(s, old.AddDate(0, 1, 0))} {
		must(s.Erase(ctx, store.Erasure{Run: run, Scope: "a month", By: "user:ann"}, false))
	}
	a := must(s.SaveAgent(ctx, store.AgentRecord{ID: uuid.Must(uuid.NewV7()), Name: "docs", Doc: []byte(`{}`), By: "user:ann"}))
	ses := must(s.SaveSession(ctx, store.SessionRecord{ID: uuid.Must(uuid.NewV7()), Agent: a.ID, Doc: []byte(`{}`), By: "user:ann"}))
	must(s.AddMessages(ctx, ses.ID, 0, store.MessageRecord{Doc: []byte(`{"text":"hello"}`)}))
	must(s.ChangeFiles(ctx, ses.ID, store.Quota{Bytes: 1 << 20, Files: 10}, store.FileChange{Path: "/a.txt", Content: []byte("hello"), By: "user:ann"}))
	run := begin(s, func(e *ledger.Event) { e.Subject = ses.ID[:] })
	doc := must(json.Marshal(ledger.FileLabels{Changes: []ledger.FileLabel{{File: ledger.PathKey("/w/a"), Labels: []string{"web"}}}}))
	must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.FilesLabelled, At: 1, Principal: "user:ann"}, Payload: ledger.Payload{ledger.PartDoc: doc}}))
	must(s.Lease(ctx, run, []store.Lease{{Meter: store.MeterID{Node: g.ID, What: grant.MeterCalls}, Least: 1, Want: 2}}))
	for n := range 150 {
		intent, outcome := call(run, n+1)
		must(s.Append(ctx, intent))
		must(s.Append(ctx, outcome))
	}
	must(s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 9, Run: run, Status: tool.Completed}}))
}

// untold are the columns that no event and no MAC tells of. Nothing in the record depends
// on them: a node that finds another number than its own there can append nothing. They say
// who may write, not what was written.
var untold = []string{"queue.lane", "queue.claimed", "queue.tries", "rates.", "places.", "buckets.", "moving.", "runs.version", "members.", "heads.", "turns.", "server.", "schema_version."}

// TestVerifyNamesEveryChangedColumn changes one column of each table after the other, and
// then deletes a row of each.
func TestVerifyNamesEveryChangedColumn(t *testing.T) {
	racetest.Skip(t, "it repeats what TestVerifyNamesAChangedTail does with it")
	ctx := t.Context()
	home := t.TempDir()
	s := openWith(t, postgres.Options{Home: home})
	fill(ctx, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	reads := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), ReadOnly: true}))
	defer reads.Close()
	if r := must(reads.Verify(ctx, store.VerifyOptions{})); !r.OK || r.Events < 300 {
		t.Fatalf("before: %+v", r)
	}
	c := must(pgx.Connect(ctx, server.Schema(t, home)))
	defer c.Close(ctx)
	must(c.Exec(ctx, "SET session_replication_role = replica")) // triggers do not hold
	rows := must(c.Query(ctx, "SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, ordinal_position"))
	columns := must(pgx.CollectRows(rows, pgx.RowToStructByPos[struct{ Table, Column, Type string }]))
	check := func(what, change string) {
		tx := must(c.Begin(ctx))
		defer tx.Rollback(ctx) // put back below
		if n := must(tx.Exec(ctx, change)).RowsAffected(); n != 1 {
			t.Errorf("%s: %d rows, want 1", what, n)
		}
		must(0, tx.Commit(ctx))
		if r, err := reads.Verify(ctx, store.VerifyOptions{}); err == nil && r.OK {
			t.Errorf("%s was changed, and verify found nothing", what)
		}
	}
	check("a row of erasing", "INSERT INTO erasing VALUES(1)")
	must(c.Exec(ctx, "DELETE FROM erasing"))
	tables := map[string]bool{}
	for _, col := range columns {
		name := col.Table + "." + col.Column
		if slices.ContainsFunc(untold, func(p string) bool { return strings.HasPrefix(name, p) }) || col.Table == "batches" || col.Table == "erasing" || // these are empty
			strings.HasPrefix(name, "payloads_") { // they are in table payloads
			continue
		}
		change := map[string]string{"bigint": "~" + col.Column, "text": col.Column + " || 'x'", "bytea": "coalesce(" + col.Column + ", '') || '\\x00'::bytea"}[col.Type]
		if col.Table == "log" && col.Column == "id" {
			continue // a constraint holds it
		}
		row := "(tableoid, ctid) = (SELECT tableoid, ctid FROM " + col.Table + " ORDER BY ctid, tableoid LIMIT 1)"
		if col.Table == "tail" {
			row, change = "true", "total + 1"
			if col.Column == "id" {
				continue
			}
		}
		must(c.Exec(ctx, "DROP TABLE IF EXISTS pg_temp.kept; CREATE TEMP TABLE kept AS SELECT * FROM "+col.Table))
		check(name, "UPDATE "+col.Table+" SET "+col.Column+" = "+change+" WHERE "+row)
		must(c.Exec(ctx, "DELETE FROM "+col.Table+"; INSERT INTO "+col.Table+" SELECT * FROM kept"))
		if !tables[col.Table] {
			tables[col.Table] = true
			check("a row of "+col.Table, "DELETE FROM "+col.Table+" WHERE "+row)
			must(c.Exec(ctx, "DELETE FROM "+col.Table+"; INSERT INTO "+col.Table+" SELECT * FROM kept"))
		}
	}
	if r := must(reads.Verify(ctx, store.VerifyOptions{})); !r.OK || len(tables) < 20 {
		t.Errorf("after: %d tables, %+v", len(tables), r)
	}
}

// TestVerifyNamesAChangedTail: events that are not in the tree yet are told by their
// batches.
func TestVerifyNamesAChangedTail(t *testing.T) {
	for name, change := range map[string]string{
		"an event is removed":           "DELETE FROM events WHERE seq = 4",
		"an event is changed":           "UPDATE events SET body = (SELECT body FROM events WHERE seq = 3) WHERE seq = 2",
		"a batch is removed":            "DELETE FROM batches WHERE first = 3",
		"a batch has another size":      "UPDATE batches SET events = 2 WHERE first = 2",
		"a batch has another MAC":       "UPDATE batches SET mac = mac || mac WHERE first = 3",
		"the number of events is lower": "UPDATE tail SET total = 3",
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			home := t.TempDir()
			s := openWith(t, postgres.Options{Home: home})
			run := begin(s, nil)
			must(s.Checkpoint(ctx))
			c := must(pgx.Connect(ctx, server.Schema(t, home)))
			defer c.Close(ctx)
			lock := must(c.Begin(ctx)) // nobody integrates
			must(lock.Exec(ctx, "SELECT 1 FROM log FOR UPDATE"))
			for n := range 3 {
				intent, _ := call(run, n+1)
				must(s.Append(ctx, intent))
			}
			reads := must(postgres.Open(ctx, postgres.Options{Home: home, URL: server.Schema(t, home), ReadOnly: true}))
			defer reads.Close()
			if r := must(reads.Verify(ctx, store.VerifyOptions{})); !r.OK || r.Size != 4 || r.Signed != 1 {
				t.Fatalf("before: %+v", r)
			}
			must(lock.Exec(ctx, "SET LOCAL session_replication_role = replica"))
			must(lock.Exec(ctx, change))
			must(0, lock.Commit(ctx))
			if r, err := reads.Verify(ctx, store.VerifyOptions{}); err == nil && r.OK {
				t.Error("verify found nothing")
			}
			if _, err := s.Checkpoint(ctx); err == nil && !strings.Contains(change, "tail") {
				t.Error("a checkpoint was signed")
			}
		})
	}
}

func TestChangedRowsDecideNothing(t *testing.T) {
	racetest.Skip(t, "one goroutine at a time")
	storetest.ChangedRows(t, open, tamper)
}

func TestEditedRunsAreNotHidden(t *testing.T) { storetest.EditedRuns(t, open, tamper) }

func TestEditedListsAreRefused(t *testing.T) { storetest.EditedLists(t, open, tamper) }

func TestOlderRowsDecideNothing(t *testing.T) {
	racetest.Skip(t, "one goroutine at a time")
	storetest.OlderRows(t, open, tamper)
}

func TestAnAgentInMotionIsNotDamaged(t *testing.T) { storetest.AgentsInMotion(t, open) }

func TestARunInMotionEndsWithItsQuestions(t *testing.T) { storetest.EndInMotion(t, open) }

func TestATableThatIsPutBackDecidesNothing(t *testing.T) {
	racetest.Skip(t, "one goroutine at a time")
	storetest.PutBackTables(t, open, tamper)
}

func TestADamagedQuestionKeepsNoRunOpen(t *testing.T) {
	racetest.Skip(t, "one goroutine at a time")
	storetest.DamagedQuestions(t, open, tamper)
}

func TestMovedEventsDecideNothing(t *testing.T) {
	racetest.Skip(t, "one goroutine at a time")
	storetest.MovedEvents(t, open, tamper)
}

// The votes of a question have a primary key, but tables that inherit from theirs do not obey it.
// A copy of one vote in the place of another, which counts no more, is refused.
func TestACopiedVoteCountsOnce(t *testing.T) {
	ctx, home, at := t.Context(), t.TempDir(), time.Now()
	s := openWith(t, postgres.Options{Home: home})
	g := store.GrantRecord{ID: uuid.Must(uuid.NewV7()), Holder: "user:bob", Issued: at}
	must(0, s.PutGrant(ctx, g))
	q := must(s.Request(ctx, store.Approval{ID: uuid.New(), Holder: "agent:x", Asked: at, Until: at.Add(time.Hour), Needs: 3, GoodFor: time.Hour, Body: []byte(`{}`)}))
	must(s.Vote(ctx, q.ID, store.Vote{By: "user:ann", Yes: true, At: at}))
	must(s.Vote(ctx, q.ID, store.Vote{By: "user:bob", Yes: true, At: at, Grant: g.ID}))
	must(0, s.SetStanding(ctx, store.StandingChange{Grant: g.ID, To: store.Revoked, By: "user:ann", At: at}))
	d := tamper(t, home)
	must(d.DB.Exec("CREATE TABLE copied() INHERITS (votes)"))
	must(d.DB.Exec("INSERT INTO copied SELECT * FROM votes WHERE by = 'user:ann'"))
	must(d.DB.Exec("DELETE FROM votes WHERE by = 'user:bob'"))
	if q, err := s.Vote(ctx, q.ID, store.Vote{By: "user:cleo", Yes: true, At: at}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("with a copied vote, the question is %v; %v", q.State, err)
	}
}

// A copy of a question in a table that inherits from its table is listed as long as it is there,
// whatever becomes of the question. No loop waits for its end.
func TestACopiedQuestionEndsNoLoop(t *testing.T) {
	home, at := t.TempDir(), time.Now()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // it ends a loop that does not end by itself
	defer stop()
	s := openWith(t, postgres.Options{Home: home})
	d := tamper(t, home)
	ask := func(run ledger.Seq, until time.Time) store.Approval {
		return must(s.Request(ctx, store.Approval{ID: uuid.New(), Holder: "agent:x", Binding: [32]byte{byte(run)}, Run: run, Asked: until.Add(-time.Hour), Until: until, Needs: 2, GoodFor: time.Hour, Body: []byte(`{}`)}))
	}
	queued := store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Priority: 1, Principal: "user:ann", Queued: at, Due: at, Task: store.Task{Plan: []byte("x"), Doc: []byte(`{}`)}}
	_, _, err := s.Enqueue(ctx, queued, store.QueueRoom{})
	must(0, err)
	run := must(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: queued.ID[:], Mode: ledger.Live}}, nil))

	old := ask(0, at.Add(-time.Hour))
	must(d.DB.Exec("CREATE TABLE kept AS SELECT * FROM questions"))
	must(d.DB.Exec("CREATE TABLE copied() INHERITS (questions)"))
	must(0, s.CloseQuestion(ctx, old.ID, store.Closing{By: "user:ann", At: at}))
	q := ask(run, at.Add(time.Hour))
	must(s.Vote(ctx, q.ID, store.Vote{By: "user:ann", Yes: true, At: at})) // from here on, the closed question is not read again
	must(d.DB.Exec("INSERT INTO copied SELECT * FROM kept"))
	if list, err := s.Questions(ctx, store.QuestionFilter{State: store.Waiting, Sealed: true}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("%d questions are listed; %v", len(list), err)
	}

	must(d.DB.Exec("INSERT INTO copied SELECT * FROM questions WHERE id = $1", q.ID[:]))
	if err := s.TimeOutQueued(ctx, queued.ID); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("the run was ended with %v; want %v", err, fault.StoreCorrupt)
	}
	if r := must(s.Run(t.Context(), queued.ID.String())); r.Status != tool.TimedOut.String() {
		t.Errorf("the run is %q", r.Status)
	}
}

func tamper(t *testing.T, home string) storetest.Tamper {
	d := must(sql.Open("pgx", server.Schema(t, home)))
	t.Cleanup(func() { _ = d.Close() })
	d.SetMaxOpenConns(1)
	must(d.Exec("SET session_replication_role = replica")) // triggers do not hold
	return storetest.Tamper{DB: d, Fresh: 20, Rows: 1, Numbered: []string{"events", "payloads"}, Rebind: func(q string) string {
		for n := 1; strings.Contains(q, "?"); n++ {
			q = strings.Replace(q, "?", fmt.Sprintf("$%d", n), 1)
		}
		return q
	}}
}
