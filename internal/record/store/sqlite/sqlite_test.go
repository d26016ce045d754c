package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, home string) store.Store {
	t.Helper()
	return openWith(t, sqlite.Options{Home: home})
}

func openWith(t *testing.T, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) { storetest.Store(t, open) }

func TestConformanceOfGrants(t *testing.T) { storetest.Grants(t, open) }

func TestBudgetsConform(t *testing.T) { storetest.Budgets(t, open) }

func TestApprovalsConform(t *testing.T) { storetest.Approvals(t, open) }

func TestTheCostOfAQuestionDoesNotGrow(t *testing.T) { storetest.CostOfAQuestion(t, open) }

func TestSealedListsInMotion(t *testing.T) { storetest.SealedListsInMotion(t, open) }

func TestSessionsConform(t *testing.T) { storetest.Sessions(t, open) }

func TestRequestsConform(t *testing.T) { storetest.Requests(t, open) }

func TestEphemeraConform(t *testing.T) { storetest.Ephemera(t, open) }

func TestRatesConform(t *testing.T) { storetest.Rates(t, open) }

func TestClocksConform(t *testing.T) {
	storetest.Clocks(t, func(t *testing.T, home string) (store.Backend, func(time.Duration)) {
		var by atomic.Int64
		s := openWith(t, sqlite.Options{Home: home, Clock: func() time.Time { return time.Now().Add(time.Duration(by.Load())) }})
		return s, func(d time.Duration) { by.Store(int64(d)) }
	})
}

func TestQueueConforms(t *testing.T) { storetest.Queue(t, open) }

func TestFilesConform(t *testing.T) { storetest.Files(t, open) }

func TestLabelsConform(t *testing.T) { storetest.Labels(t, open) }

func TestErasingConforms(t *testing.T) { storetest.Erase(t, open) }

// A store looks for open runs at its first Recover, and again once an owner is
// gone. A killed owner leaves its file, but without a lock.
func TestAKilledOwnerIsNoticedWhileTheStoreIsOpen(t *testing.T) {
	home, ghost := t.TempDir(), uuid.New()
	s := must(sqlite.Open(t.Context(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	defer s.Close()
	begin(s) // the store's own run stays open
	lives := must(os.Create(filepath.Join(home, "owners", ghost.String()+".lock")))
	if err := unix.Flock(int(lives.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7())
	must(s.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Owner: ghost[:]}}))
	for range 3 {
		if n, err := s.Recover(t.Context()); n != 0 || err != nil {
			t.Fatalf("Recover = %d, %v; want 0 while the owner lives", n, err)
		}
	}
	old := time.Now().Add(-time.Hour) // nothing has changed in the folder for long
	if err := os.Chtimes(filepath.Join(home, "owners"), old, old); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if n, err := s.Recover(t.Context()); n != 0 || err != nil {
			t.Fatalf("Recover = %d, %v; want 0 while the owner lives", n, err)
		}
	}
	if err := lives.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Recover(t.Context()); n != 1 || err != nil {
		t.Errorf("Recover = %d, %v; want 1 once the owner was killed", n, err)
	}
	if r := must(s.Run(t.Context(), id.String())); r.Status != "interrupted" {
		t.Errorf("the run is %s", r.Status)
	}
}

// A death counts once, and only after a recovery that did all its work.
func TestADeathCountsOnceAfterARecovery(t *testing.T) {
	home, ghost := t.TempDir(), uuid.New()
	s := must(sqlite.Open(t.Context(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	defer s.Close()
	begin(s)
	id := uuid.Must(uuid.NewV7())
	must(s.Append(t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Owner: ghost[:]}}))
	owner := func(id uuid.UUID) string { return filepath.Join(home, "owners", id.String()+".lock") }
	must(0, os.WriteFile(owner(ghost), nil, 0o600))
	obstacle := owner(uuid.New())
	must(0, os.Mkdir(obstacle, 0o700)) // no file that can be locked
	for range 3 {
		if n, err := s.Recover(t.Context()); err == nil || s.Deaths() != 0 {
			t.Errorf("Recover = %d, %v with %d deaths; want an error and none", n, err, s.Deaths())
		}
	}
	must(0, os.Remove(obstacle))
	for range 2 {
		if n, err := s.Recover(t.Context()); n != 0 || err != nil || s.Deaths() != 1 {
			t.Errorf("Recover = %d, %v with %d deaths; want 1 death", n, err, s.Deaths())
		}
	}
	if _, err := os.Stat(owner(ghost)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead owner's file is still there: %v", err)
	}
}

// A lock that another process holds at the owner's place neither delays nor stops a run, and
// the other process does not remove the file of the living owner.
func TestTheOwnersFileIsLockedFromTheBeginning(t *testing.T) {
	home := t.TempDir()
	s := must(sqlite.Open(t.Context(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	defer s.Close()
	path := filepath.Join(home, "owners", s.Owner().String()+".lock")
	must(0, os.MkdirAll(filepath.Dir(path), 0o700))
	f := must(os.Create(path))
	defer f.Close()
	must(0, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	begin(s)
	other := must(sqlite.Open(t.Context(), sqlite.Options{Home: home, Durability: sqlite.Process}))
	defer other.Close()
	if n, err := other.Recover(t.Context()); n != 0 || err != nil {
		t.Errorf("Recover = %d, %v; want 0 while the owner lives", n, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the living owner's file: %v", err)
	}
}

// Close signs only where many events have no checkpoint; what it leaves unsigned is
// covered by the log's MAC, and by the next checkpoint.
func TestCloseSignsManyEvents(t *testing.T) {
	ctx := context.Background()
	for n, want := range map[int]int{1: 0, 30: 0, 40: 1} {
		home := t.TempDir()
		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		begin(s)
		for i := range n {
			in, _ := call(1, i+1, false)
			must(s.Append(ctx, in))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		d := db(t, home)
		if got := query(t, d, "SELECT count(*) FROM checkpoints")[0][0]; got != int64(want) {
			t.Errorf("%d calls: %v checkpoints, want %d", n, got, want)
		}
		d.Close()
		s = must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		if r := must(s.Verify(ctx, store.VerifyOptions{})); !r.OK {
			t.Errorf("%d calls: %+v", n, r.Problems)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVerifyTellsItsProgress: what is told grows to the number of all events.
func TestVerifyTellsItsProgress(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const runs = 1000
	var entries []ledger.Entry
	for range runs {
		id := uuid.Must(uuid.NewV7())
		entries = append(entries, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live}})
	}
	if _, err := s.Append(ctx, entries...); err != nil {
		t.Fatal(err)
	}
	var told []uint64
	rep, err := s.Verify(ctx, store.VerifyOptions{Progress: func(done, total uint64) {
		if done > total || len(told) > 0 && done <= told[len(told)-1] {
			t.Errorf("%d of %d after %v", done, total, told)
		}
		told = append(told, done)
	}})
	if err != nil || !rep.OK || len(told) < 2 || told[len(told)-1] != rep.Events {
		t.Errorf("%v, %v, %d events, told %v", err, rep.Problems, rep.Events, told)
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

func tamper(t *testing.T, home string) storetest.Tamper {
	d := db(t, home)
	t.Cleanup(func() { _ = d.Close() })
	for _, name := range []string{"events_update", "blobs_update"} {
		must(d.Exec("DROP TRIGGER " + name))
	}
	return storetest.Tamper{DB: d, Fresh: 3, Numbered: []string{"events"}, Rebind: func(q string) string { return q }}
}
