package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/queue"
)

// TestBlockedRunsShareALane: runs that wait for one limit are looked at once, and then passed
// over together. The queue goes on with each as soon as the limit allows it.
func TestBlockedRunsShareALane(t *testing.T) {
	p := newPlace(t, writing)
	st := p.store()
	one := []store.Slot{{Key: "tool:fs.write", Most: 1}}
	release, err := holdSlot(t, p, one)
	if err != nil {
		t.Fatal(err)
	}
	const n = 70 // more than are claimed at once
	for i := range n {
		p.add(p.request(fmt.Sprintf("b%d", i)), queue.Options{Limits: one})
	}
	p.work()
	lanes, err := st.Lanes(t.Context())
	if err != nil || len(lanes) != 1 || lanes[0].Name == "" {
		t.Fatalf("the lanes are %+v, %v", lanes, err)
	}
	blocked, err := st.ClaimQueued(t.Context(), lanes[0], time.Now().Add(time.Hour), 2*n)
	if err != nil || len(blocked) != n {
		t.Fatalf("%d runs are in the lane, %v; want %d", len(blocked), err, n)
	}
	var ids []uuid.UUID
	for _, r := range blocked {
		ids = append(ids, r.ID)
	}
	if err := st.FileQueued(t.Context(), lanes[0].Name, false, ids...); err != nil {
		t.Fatal(err)
	}
	release()
	p.work()
	ended, err := st.QueuedRuns(t.Context(), store.QueueFilter{Ended: true})
	if err != nil || len(ended) != n+1 {
		t.Fatalf("%d runs ended, %v; want %d", len(ended), err, n+1)
	}
	for _, r := range ended[:n] {
		p.is(r, "completed", 0)
	}
}

// TestADelayIsNoLongerAfterTheClockWasSetBack: what was queued or put back at a time that has
// not come waits for its delay from now.
func TestADelayIsNoLongerAfterTheClockWasSetBack(t *testing.T) {
	p := newPlace(t, writing)
	st := p.store()
	now := time.Now().Add(time.Hour) // the clock showed this time before it was set back
	put := func(name string, o queue.Options, due time.Time) store.QueuedRun {
		run := p.add(p.request(name), o)
		if err := st.ChangeQueued(t.Context(), store.QueueChange{ID: run.ID, To: ledger.QueueWaiting, Due: due, At: now}); err != nil {
			t.Fatal(err)
		}
		return run
	}
	soon := put("soon", queue.Options{}, now)
	later := put("later", queue.Options{Delay: time.Minute}, now.Add(10*time.Minute))
	at := now.Add(20 * time.Minute).Truncate(time.Second)
	fixed := put("fixed", queue.Options{At: at}, at)
	queued := store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Name: "delayed", Principal: home.Person(), Workspace: p.ws, Priority: 2, Queued: now, Due: now.Add(10 * time.Minute)}
	queued, _, err := st.Enqueue(t.Context(), queued, store.QueueRoom{})
	if err != nil {
		t.Fatal(err)
	}
	p.work()
	p.work() // what is done once is not done again
	p.is(soon, "completed", 0)
	for _, run := range []store.QueuedRun{later, queued, fixed} {
		got, err := st.Queued(t.Context(), run.ID.String())
		if err != nil || got.Status != "scheduled" {
			t.Fatalf("%s is %s, %v", run.Name, got.Status, err)
		}
		if moved := time.Until(got.Due) <= 10*time.Minute; moved != (run.ID != fixed.ID) {
			t.Errorf("%s is due at %s", run.Name, got.Due)
		}
	}
	if got, _ := st.Queued(t.Context(), fixed.ID.String()); !got.Due.Equal(at) {
		t.Errorf("a run for %s is due at %s", at, got.Due)
	}
}

// TestADeadLetterIsQueuedAgain: a run that could not be started many times is set aside, with
// the reason, and starts once a person queues it again.
func TestADeadLetterIsQueuedAgain(t *testing.T) {
	p := newPlace(t, writing)
	st := p.store()
	dead := func(name string) store.QueuedRun {
		t.Helper()
		run := p.add(p.request(name), queue.Options{Unique: "key"})
		for range 20 {
			claimed, err := st.ClaimQueued(t.Context(), store.Lane{Priority: 2}, time.Now(), 10)
			if err != nil || len(claimed) != 1 {
				t.Fatal(claimed, err)
			}
			if err := st.FileQueued(t.Context(), "", true, run.ID); err != nil {
				t.Fatal(err)
			}
		}
		p.work()
		p.is(run, "dead", fault.LimitReached)
		return run
	}
	run := dead("first")
	list, err := p.Queue.List(t.Context(), store.QueueFilter{Dead: true})
	if err != nil || len(list) != 1 || list[0].ID != run.ID {
		t.Errorf("the dead letters are %v, %v", list, err)
	}
	if live, err := p.Queue.List(t.Context(), store.QueueFilter{}); err != nil || len(live) != 0 {
		t.Errorf("%v, %v", live, err)
	}
	second := dead("second")
	third := p.add(p.request("third"), queue.Options{Unique: "key"})
	if _, err := p.Queue.Requeue(t.Context(), run.ID.String(), "user:ann"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("while another run of its key waits: %v", err)
	}
	if _, err := p.Queue.Requeue(t.Context(), third.ID.String(), "user:ann"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("one that waits: %v", err)
	}
	p.work()
	p.is(third, "completed", 0)
	again, err := p.Queue.Requeue(t.Context(), run.ID.String(), "user:ann")
	if err != nil || again.Status != "waiting" {
		t.Fatal(again, err)
	}
	p.work()
	if got, err := st.Queued(t.Context(), run.ID.String()); err != nil || got.Status != "completed" {
		t.Errorf("queued again it is %s, %v", got.Status, err)
	}
	if dropped, err := p.Queue.Cancel(t.Context(), second.ID.String(), "user:ann"); err != nil || dropped.Status != "cancelled" || dropped.By != "user:ann" {
		t.Errorf("dropped it is %+v, %v", dropped, err)
	}
	if r, err := st.Verify(t.Context(), store.VerifyOptions{}); err != nil || !r.OK {
		t.Errorf("verify: %v, %v", r.Problems, err)
	}
}
