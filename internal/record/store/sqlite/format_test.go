package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// older is a ledger of the first format, which did not count refusals during a
// call.
func older(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", "format1"))); err != nil {
		t.Fatal(err)
	}
	private(t, home)
	return home
}

func TestALedgerOfTheFirstFormat(t *testing.T) {
	ctx, home := context.Background(), older(t)
	check := func(o sqlite.Options, what string) {
		t.Helper()
		s := openWith(t, o)
		runs, err := s.Runs(ctx, store.RunFilter{})
		if err != nil || len(runs) != 2 || runs[0].Completed != 3 || runs[0].Refused != 0 {
			t.Errorf("%s: runs %+v, %v; want the two", what, runs, err)
		}
		if runs, err := s.Runs(ctx, store.RunFilter{Denied: true}); err != nil || len(runs) != 0 {
			t.Errorf("%s: denied runs %+v, %v; want none", what, runs, err)
		}
		for _, v := range []store.VerifyOptions{{}, {Run: runs[0].ID}} {
			if rep, err := s.Verify(ctx, v); err != nil || len(rep.Problems) > 0 {
				t.Errorf("%s: verify: %+v, %v", what, rep.Problems, err)
			}
		}
	}
	check(sqlite.Options{Home: home, ReadOnly: true}, "as it is")
	check(sqlite.Options{Home: home, Durability: sqlite.Process}, "brought up to date")
	check(sqlite.Options{Home: home, ReadOnly: true}, "afterwards")
}

// The ledgers in testdata were made by the Remit of that format: two runs of
// three calls each, one of which was interrupted.
func TestLedgersThatOlderRemitsMade(t *testing.T) {
	for _, format := range []string{"format1", "format2"} {
		t.Run(format, func(t *testing.T) {
			ctx, home := context.Background(), t.TempDir()
			if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", format))); err != nil {
				t.Fatal(err)
			}
			private(t, home)
			for _, readOnly := range []bool{true, false, true} {
				s, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process, ReadOnly: readOnly})
				if err != nil {
					t.Fatal(err)
				}
				runs, err := s.Runs(ctx, store.RunFilter{})
				if err != nil || len(runs) < 2 || runs[len(runs)-1].Completed != 3 {
					t.Errorf("runs %+v, %v", runs, err)
				}
				if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 || rep.Events < 15 {
					t.Errorf("verify: %+v, %v", rep, err)
				}
				grants, err := s.Grants(ctx, store.GrantFilter{})
				standing, _, serr := s.Standing(ctx, []uuid.UUID{id(1)})
				if err != nil || serr != nil || len(grants) != len(standing) {
					t.Errorf("grants %+v, %v, and standings %v, %v", grants, err, standing, serr)
				}
				if !readOnly {
					useAuthority(t, s)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// useAuthority uses each feature that the first formats could not store.
func useAuthority(t *testing.T, s *sqlite.Store) {
	t.Helper()
	ctx := context.Background()
	n, err := s.Recover(ctx)
	if err != nil || n != 1 {
		t.Errorf("%d runs were closed, %v", n, err)
	}
	run := begin(s)
	meter := store.MeterID{Node: id(1), What: grant.MeterCalls}
	_, perr := s.UseProof(ctx, [32]byte{1}, time.Now())
	_, qerr := s.Request(ctx, store.Approval{ID: id(2), Run: run, Call: 1, Needs: 1, Asked: time.Now(), Until: time.Now().Add(time.Hour), GoodFor: time.Hour})
	for _, err := range []error{
		perr, qerr,
		s.PutGrant(ctx, store.GrantRecord{ID: id(1), Holder: "agent:x", Issued: time.Now()}),
		s.SetStanding(ctx, store.StandingChange{Grant: id(1), To: store.Revoked, At: time.Now()}),
		s.OpenBudget(ctx, id(1), grant.Budgets{Calls: 1}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Lease(ctx, run, []store.Lease{{Meter: meter, Least: 1, Want: 1}}); err != nil {
		t.Error(err)
	}
}

// Upgrading an old ledger does not make a changed ledger valid.
func TestAChangedOldLedgerStaysChanged(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", "format2"))); err != nil {
		t.Fatal(err)
	}
	private(t, home)
	exec(t, home, "UPDATE log SET mac = zeroblob(32)")
	s, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() // fails: it cannot sign what was changed
	if err := s.PutGrant(ctx, store.GrantRecord{ID: id(1), Issued: time.Now()}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("PutGrant = %v, want %v", err, fault.StoreCorrupt)
	}
	if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || !named(rep, "log", 0) {
		t.Errorf("verify: %+v, %v; want a problem in log", rep.Problems, err)
	}
}

// The ledger in testdata/format3 has rows in all tables of grants, budgets and
// approvals, and two runs of three calls, one of which was interrupted.
func TestALedgerOfTheThirdFormat(t *testing.T) {
	ctx, home := context.Background(), third(t)
	for i, readOnly := range []bool{true, false, true} {
		s, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process, ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 || rep.Events < 30 {
			t.Errorf("verify: %+v, %v", rep, err)
		}
		if of, _, err := s.Standing(ctx, []uuid.UUID{id(1), id(2), id(3)}); err != nil || of[id(2)] != store.Revoked {
			t.Errorf("standings %v, %v", of, err)
		}
		if q, err := s.Question(ctx, id(11).String()); err != nil || len(q.Votes) != 2 {
			t.Errorf("question %+v, %v", q, err)
		}
		agents, aerr := s.Agents(ctx, store.PageFilter{})
		sessions, serr := s.Sessions(ctx, store.SessionFilter{})
		if want := i / 2; aerr != nil || serr != nil || len(agents) != want || len(sessions) != want {
			t.Errorf("%d agents, %v, %d sessions, %v; want %d", len(agents), aerr, len(sessions), serr, want)
		}
		if i == 0 {
			refusesSessions(t, s)
		}
		if !readOnly {
			useSessions(t, s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func third(t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", "format3"))); err != nil {
		t.Fatal(err)
	}
	private(t, home)
	return home
}

// refusesSessions tries features that an older format cannot store.
func refusesSessions(t *testing.T, s *sqlite.Store) {
	t.Helper()
	ctx := context.Background()
	_, aerr := s.Agent(ctx, "any")
	_, serr := s.Session(ctx, id(1).String())
	_, terr := s.FileTree(ctx, id(1))
	_, ferr := s.File(ctx, id(1), "/a", 0)
	_, rerr := s.SessionRuns(ctx, id(1))
	_, werr := s.SaveAgent(ctx, store.AgentRecord{ID: id(1), Name: "a"})
	var merr error
	for _, err := range s.Messages(ctx, id(1), 0, true) {
		merr = err
	}
	for i, err := range []error{aerr, serr, terr, ferr, rerr, merr, werr} {
		want := fault.SessionUnknown
		switch i {
		case 0:
			want = fault.AgentUnknown
		case 6:
			want = fault.StoreReadOnly
		}
		if !errors.Is(err, want) {
			t.Errorf("place %d: %v, want %v", i, err, want)
		}
	}
}

func useSessions(t *testing.T, s *sqlite.Store) {
	t.Helper()
	ctx := context.Background()
	if n, err := s.Recover(ctx); err != nil || n == 0 {
		t.Errorf("%d runs were closed, %v", n, err)
	}
	must(s.SaveAgent(ctx, store.AgentRecord{ID: id(1), Name: "a"}))
	addMessages(t, s, newSession(t, s), 10)
}

func TestAChangedLedgerOfTheThirdFormatStaysChanged(t *testing.T) {
	ctx := context.Background()
	for table, change := range map[string]string{
		"log": "UPDATE log SET mac = zeroblob(32)", "standings": "DELETE FROM standings WHERE standing = 2", "seals": "UPDATE seals SET version = version + 1 WHERE name = 'votes'",
	} {
		home := third(t)
		exec(t, home, change)
		s, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process})
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || !named(rep, table, 0) {
			t.Errorf("%s: verify: %+v, %v", change, rep.Problems, err)
		}
		_, err = s.SaveAgent(ctx, store.AgentRecord{ID: id(1), Name: "a"})
		if wrong := table == "log"; errors.Is(err, fault.StoreCorrupt) != wrong {
			t.Errorf("%s: SaveAgent = %v", change, err)
		}
		_ = s.Close() // fails where it cannot sign what was changed
	}
}

// The ledger in testdata/format4 has rows in all tables of agents and sessions.
func TestALedgerOfTheFourthFormat(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", "format4"))); err != nil {
		t.Fatal(err)
	}
	private(t, home)
	for i, readOnly := range []bool{true, false, true} {
		s, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process, ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 || rep.Events < 30 {
			t.Errorf("verify: %+v, %v", rep, err)
		}
		if list, err := s.Sessions(ctx, store.SessionFilter{}); err != nil || len(list) != 3 || list[0].Last != 5 {
			t.Errorf("sessions %+v, %v", list, err)
		}
		fresh, err := beginRequest(s, 1)
		if (err != nil) != readOnly || fresh == readOnly || readOnly && !errors.Is(err, fault.StoreReadOnly) {
			t.Errorf("opened as %d: a request is noted: %v, %v", i, fresh, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// The ledger in testdata/format5 has two runs of 300 calls each. Its events are in three
// blocks, which format 6 indexes.
func TestALedgerOfTheFifthFormat(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	if err := os.CopyFS(home, os.DirFS(filepath.Join("testdata", "format5"))); err != nil {
		t.Fatal(err)
	}
	private(t, home)
	for _, readOnly := range []bool{true, false, true} {
		s, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process, ReadOnly: readOnly})
		if err != nil {
			t.Fatal(err)
		}
		if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || len(rep.Problems) > 0 || rep.Events != 664 {
			t.Errorf("verify: %+v, %v", rep, err)
		}
		for m, want := range map[store.Mark]int{
			store.StatusMark(tool.StatusDenied): 6, store.StatusMark(tool.TimedOut): 2, store.MarkSlow: 2, store.MarkRefused: 2,
			store.ExtensionMark("notes"): 1, store.KindMark(ledger.RunStarted): 2, store.ToolMark("fs.write"): 120, store.ToolMark("none"): 0,
		} {
			if n := marked(t, s, m); n != want {
				t.Errorf("%d events with the mark %s, want %d", n, m, want)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	d, blocks := db(t, home), 0
	defer d.Close()
	if err := d.QueryRow("SELECT count(*) FROM blocks WHERE mark = 'status:denied'").Scan(&blocks); err != nil || blocks != 3 {
		t.Errorf("%d blocks are indexed for denied calls, %v; want 3", blocks, err)
	}
}

// marked counts the events with a mark among those that a filter finds.
func marked(t *testing.T, s *sqlite.Store, m store.Mark) (n int) {
	t.Helper()
	for e, err := range s.Find(context.Background(), store.EventFilter{Marks: [][]store.Mark{{m}}}) {
		if err != nil {
			t.Fatal(err)
		}
		var of store.Called
		if e.Event.Kind == ledger.CallOutcome {
			of.Tool = must(s.Call(context.Background(), e.Event.Run, int(e.Event.Call))).Tool
		}
		if slices.Contains(store.Marks(nil, &e.Event, of), m) {
			n++
		}
	}
	return n
}
