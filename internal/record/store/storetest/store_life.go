package storetest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

func storeReopen(t *testing.T, open OpenStore) {
	home := t.TempDir()
	s := open(t, home)
	run, id := start(t, s, nil)
	put(t, s, intent(run, 1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, home)
	put(t, s, outcome(run, 1, tool.Completed), finish(run, tool.Completed))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, home)
	r, err := s.Run(context.Background(), id.String())
	if err != nil || r.Completed != 1 || r.Status != "completed" {
		t.Errorf("Run = %+v, %v", r, err)
	}
	if v := sound(t, s); v.Signed != v.Size || v.Size != 4 {
		t.Errorf("%d of %d events are signed, want 4 of 4", v.Signed, v.Size)
	}
}

// The run of a client has no process that could die: its calls wait for their reports.
func storeKeepsRunsOfClients(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, id := start(t, s, func(e *ledger.Event) { e.Owner, e.Client = ledger.NoOwner[:], "claude" })
	put(t, s, intent(run, 1))
	if n, err := s.Recover(context.Background()); err != nil || n != 0 {
		t.Fatalf("Recover = %d, %v; want 0", n, err)
	}
	put(t, s, outcome(run, 1, tool.Completed))
	if r, err := s.Run(context.Background(), id.String()); err != nil || r.Status != ledger.Running || r.Completed != 1 || r.Client != "claude" {
		t.Errorf("Run = %+v, %v; want running, 1 completed", r, err)
	}
}

func storeRecovers(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	ghost := uuid.New()
	run, id := start(t, s, func(e *ledger.Event) { e.Owner = ghost[:] })
	put(t, s, intent(run, 1), outcome(run, 1, tool.Completed), intent(run, 2), intent(run, 3))
	put(t, s, done(run, 4, "fs.read", tool.Completed))
	n, err := s.Recover(context.Background())
	if err != nil || n != 1 {
		t.Fatalf("Recover = %d, %v; want 1", n, err)
	}
	r, err := s.Run(context.Background(), id.String())
	if err != nil || r.Status != "interrupted" || r.Completed != 2 || r.Failed != 2 || r.Total != 4 {
		t.Errorf("Run = %+v, %v; want interrupted, 2 completed, 2 failed", r, err)
	}
	for i, want := range []tool.Status{tool.Completed, tool.StatusInterrupted, tool.StatusInterrupted, tool.Completed} {
		c := calls(t, s, run)[i]
		if c.Status != want || (want == tool.StatusInterrupted) != (c.Code == fault.Interrupted) {
			t.Errorf("call %d is %s, %v; want %s", i+1, c.Status, c.Code, want)
		}
	}
	if n, err := s.Recover(context.Background()); n != 0 || err != nil {
		t.Errorf("a second Recover = %d, %v; want 0", n, err)
	}
	if n := s.Deaths(); n != 1 {
		t.Errorf("%d deaths, want 1", n)
	}
	start(t, s, nil)
	sound(t, s)
}

func storeLeavesAlone(t *testing.T, open OpenStore) {
	home := t.TempDir()
	a, b := open(t, home), open(t, home)
	run, id := start(t, a, nil)
	put(t, a, intent(run, 1))
	for _, s := range []store.Store{a, b} {
		if n, err := s.Recover(context.Background()); n != 0 || err != nil {
			t.Errorf("Recover = %d, %v; want 0 while the owner lives", n, err)
		}
		if n := s.Deaths(); n != 0 {
			t.Errorf("%d deaths while the owner lives", n)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := b.Recover(context.Background()); n != 1 || err != nil {
		t.Errorf("Recover = %d, %v; want 1 once the owner is gone", n, err)
	}
	if r, err := b.Run(context.Background(), id.String()); err != nil || r.Status != "interrupted" {
		t.Errorf("Run = %+v, %v; want interrupted", r, err)
	}
}

func storeRecoverRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	var stores []store.Store
	for range 4 {
		stores = append(stores, open(t, home))
	}
	for range 10 {
		ghost := uuid.New()
		run, _ := start(t, stores[0], func(e *ledger.Event) { e.Owner = ghost[:] })
		put(t, stores[0], intent(run, 1))
	}
	var wg sync.WaitGroup
	closed := make([]int, len(stores))
	for i, s := range stores {
		wg.Go(func() {
			n, err := s.Recover(context.Background())
			if err != nil {
				t.Errorf("Recover: %v", err)
			}
			closed[i] = n
		})
	}
	wg.Wait()
	if sum := closed[0] + closed[1] + closed[2] + closed[3]; sum != 10 {
		t.Errorf("the stores closed %v runs, want 10 in all", closed)
	}
	sound(t, stores[3])
}

func storeVerifies(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	ctx := context.Background()
	if r := sound(t, s); r.Size != 0 {
		t.Errorf("an empty ledger has size %d", r.Size)
	}
	run, id := start(t, s, nil)
	for i := 1; i <= 300; i++ {
		put(t, s, intent(run, i), outcome(run, i, tool.Completed))
	}
	old, err := s.Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Checkpoint(ctx); err != nil || !bytes.Equal(old, again) {
		t.Errorf("a second checkpoint of the same state differs: %v", err)
	}
	put(t, s, finish(run, tool.Completed))
	for name, o := range map[string]store.VerifyOptions{"all": {}, "run": {Run: id}, "old": {Checkpoint: old}, "run, old": {Run: id, Checkpoint: old}} {
		r, err := s.Verify(ctx, o)
		if err != nil || len(r.Problems) > 0 || r.Events != 602 || r.Size != 602 || r.Signed != 602 {
			t.Errorf("%s: %+v, %v; want 602 events and no problem", name, r, err)
		}
	}
	forged := bytes.Replace(old, []byte("601"), []byte("600"), 1)
	if r, err := s.Verify(ctx, store.VerifyOptions{Checkpoint: forged}); err == nil && len(r.Problems) == 0 {
		t.Error("a forged checkpoint passed")
	}
	if _, err := s.Verify(ctx, store.VerifyOptions{Run: uuid.New()}); !errors.Is(err, fault.RunUnknown) {
		t.Errorf("an unknown run gives %v, want %v", err, fault.RunUnknown)
	}
	var proof bytes.Buffer
	if err := s.Prove(ctx, run, &proof); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(proof.String(), ledger.ProofFormat) {
		t.Error("the proof does not name its format")
	}
	if err := s.Prove(ctx, 9999, &proof); !errors.Is(err, fault.RunUnknown) {
		t.Errorf("the proof of an unknown run gives %v, want %v", err, fault.RunUnknown)
	}
}

func storeClosed(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, _ := start(t, s, nil)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if _, err := s.Append(context.Background(), intent(run, 1)); err == nil {
		t.Error("a closed store took an entry")
	}
}

// storeRefusedTogether: of several that end one run at once, one succeeds. The others are
// refused, also where they are in one batch with the first, and change nothing.
func storeRefusedTogether(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	busy, _ := start(t, s, nil)
	for round := range 40 {
		run, _ := start(t, s, nil)
		put(t, s, intent(run, 1))
		var ended atomic.Int32
		var refused [16]error
		var wg sync.WaitGroup
		for i := range 4 { // while the writer writes these, the others become a batch
			wg.Go(func() { put(t, s, done(busy, 4*round+i+1, "fs.read", tool.Completed)) })
		}
		for i := range refused {
			wg.Go(func() {
				if _, refused[i] = s.Append(context.Background(), outcome(run, 1, tool.Completed), finish(run, tool.Completed)); refused[i] == nil {
					ended.Add(1)
				}
			})
		}
		wg.Wait()
		if n := ended.Load(); n != 1 {
			t.Fatalf("the run was ended %d times: %v", n, errors.Join(refused[:]...))
		}
	}
	sound(t, s)
}
