package sqlite_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// queueTables lists the tables of the queue with several rows, each with the number of its
// key columns.
var queueTables = map[string]int{"queue": 1, "slots": 2, "schedules": 1}

// queued is a ledger with a paused queue: three runs that were cancelled, started and
// postponed, and two schedules.
func queued(t *testing.T) string {
	t.Helper()
	ctx, home := context.Background(), t.TempDir()
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	now := ledger.Time(1_700_000_000_000_000)
	q := store.QueuedRun{Priority: 2, Principal: "user:ann", Queued: now, Due: now, Unique: "k", Task: store.Task{Plan: []byte("x"), Doc: []byte("{}"), Token: "secret"}}
	for i := range byte(3) {
		q.ID, q.Unique = id(i+1), string('a'+rune(i))
		_, _, err := s.Enqueue(ctx, q, store.QueueRoom{})
		must(0, err)
		must(s.SaveSchedule(ctx, store.Schedule{ID: id(10 + i), Name: q.Unique, Principal: "user:ann", Priority: 2, Paused: i == 1, Next: now, Saved: now, Task: q.Task}))
	}
	run := id(2)
	must(s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, []store.Slot{{Key: "a", Most: 1}, {Key: "b", Most: 1}}))
	must(0, s.ChangeQueued(ctx, store.QueueChange{ID: id(1), To: ledger.QueueCancelled, By: "user:ann", At: now}))
	must(0, s.ChangeQueued(ctx, store.QueueChange{ID: id(3), To: ledger.QueueWaiting, Due: now.Add(time.Hour), Code: fault.GrantPaused, Reason: "paused", At: now}))
	must(0, s.PauseQueue(ctx, true, "user:ann"))
	must(0, s.Close())
	if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) > 0 {
		t.Fatalf("the fixture is not sound: %+v", r.Problems)
	}
	return home
}

func TestVerifyNamesEveryChangeOfTheQueue(t *testing.T) {
	namesEveryChange(t, queued(t), queueTables)
}

// A queued run or a pause that was edited in the file is refused where it is used.
func TestAChangedQueueIsRefused(t *testing.T) {
	ctx := context.Background()
	for change, use := range map[string]func(s *sqlite.Store) error{
		"UPDATE queue SET state = 1": func(s *sqlite.Store) error {
			run := id(1)
			_, err := s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live}}, nil)
			return err
		},
		"UPDATE queue SET priority = 1": func(s *sqlite.Store) error {
			_, err := s.QueuedRuns(ctx, store.QueueFilter{})
			return err
		},
		"UPDATE pauses SET state = 1": func(s *sqlite.Store) error {
			_, err := s.QueueIsPaused(ctx)
			return err
		},
	} {
		home := queued(t)
		exec(t, home, change)
		s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
		if err := use(s); !errors.Is(err, fault.StoreCorrupt) {
			t.Errorf("%s: %v, want %v", change, err, fault.StoreCorrupt)
		}
		must(0, s.Close())
		if r := verify(t, home, store.VerifyOptions{}); len(r.Problems) == 0 {
			t.Errorf("%s: verify finds nothing", change)
		}
	}
}
