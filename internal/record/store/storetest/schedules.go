package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// nightly is a schedule that fires at a time.
func nightly(at time.Time) store.Schedule {
	c := store.Schedule{ID: uuid.Must(uuid.NewV7()), Name: "nightly", Cron: "0 3 * * *", Zone: "UTC", Next: at, Principal: "user:ann", Workspace: "/w", Priority: 3, By: "user:ann", Saved: at, RunName: "plan", Session: uuid.New(), Task: toQueue(nil).Task}
	c.Task.Token = "secret"
	return c
}

func queueSchedules(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openQueue(t, open, home)
	_, b := openQueue(t, open, home)
	c := nightly(ledger.Time(base))
	saved, err := a.SaveSchedule(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Schedule(ctx, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(saved, got); d != "" || got.Version != 1 {
		t.Errorf("(-saved +read)\n%s", d)
	}
	_, err = a.SaveSchedule(ctx, nightly(c.Next))
	refusedWith(t, "a second one of the name", err, fault.Conflict)
	stale := got
	stale.Version = 0
	_, err = a.SaveSchedule(ctx, stale)
	refusedWith(t, "an old version", err, fault.Stale)
	got.Deleted = true
	if _, err := a.SaveSchedule(ctx, got); err != nil {
		t.Fatal(err)
	}
	_, err = a.Schedule(ctx, "nightly")
	refusedWith(t, "a deleted one", err, fault.NotFound)
	sound(t, s)
}

func queueFires(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openQueue(t, open, home)
	_, b := openQueue(t, open, home)
	now := ledger.Time(base)
	q := nightly(now)
	c, err := a.SaveSchedule(ctx, q)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var fired atomic.Int32
	for i := range 4 {
		wg.Go(func() {
			err := []store.Queue{a, b}[i%2].FireSchedule(ctx, c, now.Add(time.Hour), uuid.Must(uuid.NewV7()), now, store.QueueRoom{})
			if err == nil {
				fired.Add(1)
			} else {
				refusedWith(t, "a second firing", err, fault.Stale)
			}
		})
	}
	wg.Wait()
	list, err := a.QueuedRuns(ctx, store.QueueFilter{})
	if err != nil || fired.Load() != 1 || len(list) != 1 || list[0].Schedule != c.ID || list[0].Name != "plan" {
		t.Fatalf("it fired %d times: %+v, %v", fired.Load(), list, err)
	}
	if task, err := a.QueuedTask(ctx, list[0].ID); err != nil || task.Token != "secret" || string(task.Plan) != string(q.Task.Plan) {
		t.Errorf("the run's task is %+v, %v", task, err)
	}
	again, err := a.Schedule(ctx, c.ID.String())
	if err != nil || !again.Next.Equal(now.Add(time.Hour)) || !again.Last.Equal(now) {
		t.Fatalf("after its time it is %+v, %v", again, err)
	}
	if err := a.FireSchedule(ctx, again, now.Add(2*time.Hour), uuid.Must(uuid.NewV7()), now.Add(time.Hour), store.QueueRoom{}); err != nil {
		t.Fatal(err)
	}
	ended, err := a.QueuedRuns(ctx, store.QueueFilter{Ended: true})
	if err != nil || len(ended) != 1 || ended[0].Status != "refused" || ended[0].Reason == "" {
		t.Errorf("the run that came too early is %+v, %v", ended, err)
	}
	like := store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Name: "like", Principal: c.Principal, Root: c.Root, Workspace: "/w", Priority: 2, Queued: now, Due: now, Unique: "schedule " + uuid.NewString()}
	if _, _, err := a.Enqueue(ctx, like, store.QueueRoom{}); err != nil {
		t.Fatal(err)
	}
	if runs, err := a.QueuedRuns(ctx, store.QueueFilter{Schedule: &again}); err != nil || len(runs) != 1 || runs[0].ID != list[0].ID {
		t.Errorf("the schedule's runs are %+v, %v", runs, err)
	}
	sound(t, s)
}
