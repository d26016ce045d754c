package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// Stores that take turns at the same runs, and do not read all of their events, accept
// exactly the events that one reader of all events accepts, and count the same.
func TestResumedRunsAreFollowedExactly(t *testing.T) {
	ctx := context.Background()
	for seed := range uint64(soaked(4, 12)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			home := t.TempDir()
			open := func() *sqlite.Store {
				return must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
			}
			stores := []*sqlite.Store{open(), open()}
			runs := map[ledger.Seq]*ledger.Progress{}
			var ids []ledger.Seq
			for range 2 {
				id := uuid.Must(uuid.NewV7())
				seq := must(stores[0].Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live}}))
				runs[seq], ids = ledger.NewProgress(seq), append(ids, seq)
			}
			for range 60 {
				i := r.IntN(len(stores))
				if r.IntN(8) == 0 { // a new process
					if err := stores[i].Close(); err != nil {
						t.Fatal(err)
					}
					stores[i] = open()
				}
				run := ids[r.IntN(len(ids))]
				entries := randomEntries(r, run)
				want := copyProgress(t, stores[i], run)
				accepted := true
				for j := range entries {
					if want.Add(1<<40, &entries[j].Event) != nil {
						accepted = false
						break
					}
				}
				_, err := stores[i].Append(ctx, entries...)
				if (err == nil) != accepted {
					t.Fatalf("%v of run %d: %v, want it accepted: %v", kinds(entries), run, err, accepted)
				}
				if !accepted {
					continue
				}
				got := must(stores[1-i].Runs(ctx, store.RunFilter{}))
				for _, g := range got {
					if g.Seq == run && (g.Completed != want.Completed || g.Failed != want.Failed || g.Denied != want.Denied) {
						t.Fatalf("run %d has %+v, want %+v", run, g, want.Tally)
					}
				}
			}
			if rep := must(stores[0].Verify(ctx, store.VerifyOptions{})); !rep.OK {
				t.Errorf("%+v", rep.Problems)
			}
			for _, s := range stores {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// randomEntries gives one to three events of a run, many of them impossible.
func randomEntries(r *rand.Rand, run ledger.Seq) []ledger.Entry {
	var out []ledger.Entry
	for range 1 + r.IntN(3) {
		e := ledger.Event{At: 2, Run: run, Call: uint32(1 + r.IntN(8))}
		switch k := r.IntN(20); {
		case k < 8:
			e.Kind, e.Tool = ledger.CallIntent, "time.now"
		case k < 15:
			e.Kind, e.Status = ledger.CallOutcome, []tool.Status{tool.Completed, tool.Failed, tool.TimedOut}[r.IntN(3)]
		case k < 18:
			e.Kind, e.Tool, e.Status = ledger.CallDone, "time.now", []tool.Status{tool.Completed, tool.StatusDenied}[r.IntN(2)]
		default:
			e.Kind, e.Call, e.Status = ledger.RunFinished, 0, tool.Completed
		}
		out = append(out, ledger.Entry{Event: e})
	}
	return out
}

// copyProgress folds all events of a run.
func copyProgress(t *testing.T, s *sqlite.Store, run ledger.Seq) *ledger.Progress {
	t.Helper()
	p := ledger.NewProgress(run)
	for e, err := range s.Events(context.Background(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Run != run {
			continue
		}
		if err := p.Add(e.Seq, &e.Event); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func kinds(entries []ledger.Entry) (out []string) {
	for _, e := range entries {
		out = append(out, fmt.Sprintf("%s %d", e.Event.Kind, e.Event.Call))
	}
	return out
}

// Requests that are written together, some of them refused, leave the counts of their
// run right.
func TestResumedRunsAreCountedInBatches(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	first := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	run := begin(first)
	s := must(sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process}))
	var g sync.WaitGroup
	each := soaked(3, 10)
	for i := range 64 {
		g.Go(func() {
			for j := range each {
				done := ledger.Entry{Event: ledger.Event{Kind: ledger.CallDone, At: 2, Run: run, Tool: "time.now", Call: uint32(i*each + j + 1), Status: tool.Completed}}
				_, _ = s.Append(ctx, done)
				_, _ = s.Append(ctx, done) // refused
			}
		})
	}
	g.Wait()
	if r := must(first.Verify(ctx, store.VerifyOptions{})); !r.OK {
		t.Errorf("%+v", r.Problems)
	}
	if runs := must(first.Runs(ctx, store.RunFilter{})); runs[0].Completed != 64*each {
		t.Errorf("%d calls are counted, want %d", runs[0].Completed, 64*each)
	}
	for _, s := range []*sqlite.Store{s, first} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
