package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Queue checks a store against the contract of store.Queue.
func Queue(t *testing.T, open OpenStore) {
	t.Helper()
	for name, run := range map[string]func(t *testing.T, open OpenStore){
		"a queued run comes back with all it is to do":    queueKeeps,
		"runs start by priority, then by time":            queueOrder,
		"a run is started once, by one of two stores":     queueStartsOnce,
		"a full queue refuses, with a number":             queueFull,
		"a unique key is of one owner and one run":        queueUnique,
		"slots bound the runs at once, until they end":    queueSlots,
		"a slot of a dead owner's run is free again":      queueSlotOfDead,
		"runs are cancelled, refused and postponed":       queueChanges,
		"the queue is paused and goes on":                 queuePauses,
		"a schedule has one name, and changes by version": queueSchedules,
		"a schedule fires once for each of its times":     queueFires,
		"tokens are kept encrypted, and not for long":     queueTokens,
		"lanes are listed and claimed in order":           queueLanes,
		"of several processes one claims a run":           queueClaimsOnce,
	} {
		t.Run(name, func(t *testing.T) { run(t, open) })
	}
}

func openQueue(t *testing.T, open OpenStore, home string) (store.Store, store.Queue) {
	t.Helper()
	s := open(t, home)
	q, ok := s.(store.Queue)
	if !ok {
		t.Fatalf("%T keeps no queue", s)
	}
	return s, q
}

// toQueue is a run to be queued.
func toQueue(change func(*store.QueuedRun)) store.QueuedRun {
	now := ledger.Time(base)
	q := store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Name: "nightly", Principal: "user:ann", Workspace: "/w", Priority: 2, Queued: now, Due: now, Total: 3,
		Task: store.Task{Plan: []byte("steps: []\n"), Policies: []ledger.PolicySource{{Name: "p", Source: "version: 1\n"}}, Doc: []byte(`{"inputs":{"a":"1"}}`)}}
	if change != nil {
		change(&q)
	}
	return q
}

func enqueued(t *testing.T, s store.Queue, change func(*store.QueuedRun)) store.QueuedRun {
	t.Helper()
	q, fresh, err := s.Enqueue(context.Background(), toQueue(change), store.QueueRoom{})
	if err != nil || !fresh {
		t.Fatalf("Enqueue = %v, %v", fresh, err)
	}
	return q
}

func startedAs(q store.QueuedRun) ledger.Entry {
	return ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: base, ID: q.ID[:], Mode: ledger.Live, Name: q.Name, Principal: q.Principal, Total: 3, Workspace: "/w"}}
}

func begun(t *testing.T, s store.Queue, q store.QueuedRun, slots ...store.Slot) ledger.Seq {
	t.Helper()
	seq, err := s.StartQueued(context.Background(), startedAs(q), slots)
	if err != nil {
		t.Fatalf("StartQueued: %v", err)
	}
	return seq
}

func refusedWith(t *testing.T, what string, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: %v, want %v", what, err, code)
	}
}

func statusOf(t *testing.T, s store.Queue, id uuid.UUID) store.QueuedRun {
	t.Helper()
	q, err := s.Queued(context.Background(), id.String())
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func queueKeeps(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openQueue(t, open, home)
	want := toQueue(func(q *store.QueuedRun) {
		q.Unique, q.Limits, q.Grant, q.Root, q.Schedule, q.Session = "k", []store.Slot{{Key: "grant", Most: 2}}, uuid.New(), uuid.New(), uuid.New(), uuid.New()
		q.Task.Plan = fmt.Appendf(nil, "steps: [] # %4096d\n", 1) // kept apart
	})
	if _, _, err := a.Enqueue(ctx, want, store.QueueRoom{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, a = openQueue(t, open, home)
	got := statusOf(t, a, want.ID)
	task, err := a.QueuedTask(ctx, want.ID)
	if err != nil {
		t.Fatal(err)
	}
	got.Task = task
	want.Status, want.State, want.Seq = "waiting", ledger.QueueWaiting, 1
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-queued +kept)\n%s", d)
	}
	_, err = a.Queued(ctx, "ffff")
	refusedWith(t, "an unknown ID", err, fault.RunUnknown)
	_, err = s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunQueued, At: 1, ID: want.ID[:], Queued: ledger.QueueWaiting}})
	refusedWith(t, "an event that the store records itself", err, fault.Internal)
	sound(t, s)
}

func queueOrder(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openQueue(t, open, t.TempDir())
	now := ledger.Time(base)
	var want []uuid.UUID
	for _, at := range []struct{ priority, due, place int }{{4, 0, 4}, {2, 10, 3}, {2, 0, 1}, {2, 0, 2}, {1, 20, 0}, {1, 3600, -1}} {
		q := enqueued(t, a, func(q *store.QueuedRun) {
			q.Priority, q.Due, q.Name = at.priority, now.Add(time.Duration(at.due)*time.Second), fmt.Sprint(at.place)
		})
		if at.place >= 0 {
			want = append(want, q.ID)
		}
	}
	list, err := a.QueuedRuns(ctx, store.QueueFilter{Due: now.Add(time.Minute)})
	if err != nil || len(list) != len(want) {
		t.Fatalf("%d runs are due, %v; want %d", len(list), err, len(want))
	}
	for i, q := range list {
		if q.Name != fmt.Sprint(i) {
			t.Errorf("number %d of the queue is %s", i, q.Name)
		}
	}
	rest, err := a.QueuedRuns(ctx, store.QueueFilter{Due: now.Add(time.Minute), From: 3, Limit: 1})
	if err != nil || len(rest) != 1 || rest[0].ID != list[3].ID {
		t.Errorf("the page from 3 is %+v, %v", rest, err)
	}
	if waiting, scheduled, err := a.QueueSize(ctx, now.Add(time.Minute)); err != nil || waiting != 6 || scheduled != 1 {
		t.Errorf("QueueSize = %d, %d, %v; want 6 and 1", waiting, scheduled, err)
	}
	if early, err := a.QueueAge(ctx, list[len(list)-1].Due.Add(-24*time.Hour)); err != nil || early != 0 {
		t.Errorf("QueueAge before any run is due = %s, %v", early, err)
	}
	if age, err := a.QueueAge(ctx, now.Add(time.Minute)); err != nil || age < 50*time.Second || age > 10*time.Minute {
		t.Errorf("QueueAge = %s, %v; want about a minute", age, err)
	}
	sound(t, s)
}

func queueStartsOnce(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openQueue(t, open, home)
	_, b := openQueue(t, open, home)
	for range 10 {
		q := enqueued(t, a, nil)
		var wg sync.WaitGroup
		var started atomic.Int32
		for j := range 4 {
			wg.Go(func() {
				_, err := []store.Queue{a, b}[j%2].StartQueued(ctx, startedAs(q), []store.Slot{{Key: "k", Most: 100}})
				if err == nil {
					started.Add(1)
				} else {
					refusedWith(t, "a second start", err, fault.Conflict)
				}
			})
		}
		wg.Wait()
		if started.Load() != 1 {
			t.Errorf("it was started %d times", started.Load())
		}
		if got := statusOf(t, b, q.ID); got.Status != ledger.Running || got.Run == 0 || got.Total != 3 {
			t.Errorf("a started run is %+v", got)
		}
	}
	_, err := a.StartQueued(ctx, startedAs(toQueue(nil)), nil)
	refusedWith(t, "a run that was never queued", err, fault.RunUnknown)
	sound(t, s)
}

func queueFull(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openQueue(t, open, t.TempDir())
	root := uuid.New()
	room := store.QueueRoom{Most: 3, PerRoot: 2}
	try := func(root uuid.UUID) error {
		_, _, err := a.Enqueue(ctx, toQueue(func(q *store.QueuedRun) { q.Root = root }), room)
		return err
	}
	if err := errors.Join(try(root), try(root)); err != nil {
		t.Fatal(err)
	}
	refusedWith(t, "a third of one root", try(root), fault.QueueFull)
	if err := try(uuid.Nil); err != nil {
		t.Fatal(err)
	}
	err := try(uuid.Nil)
	if want := "the queue is full: 3 runs wait, and at most 3 may"; !strings.HasPrefix(fault.Message(err), want) {
		t.Errorf("a full queue says %q, want %q", fault.Message(err), want)
	}
	sound(t, s)
}

func queueUnique(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openQueue(t, open, t.TempDir())
	with := func(by string, root uuid.UUID) (store.QueuedRun, bool) {
		t.Helper()
		q, fresh, err := a.Enqueue(ctx, toQueue(func(q *store.QueuedRun) { q.Unique, q.Principal, q.Root = "k", by, root }), store.QueueRoom{Most: 3})
		if err != nil {
			t.Fatal(err)
		}
		return q, fresh
	}
	first, _ := with("user:ann", uuid.Nil)
	for _, step := range []string{"waits", "runs"} {
		if again, fresh := with("user:ann", uuid.Nil); fresh || again.ID != first.ID {
			t.Errorf("while it %s, a second one is %v, %v", step, again.ID, fresh)
		}
		if step == "waits" {
			begun(t, a, first)
		}
	}
	for _, root := range []uuid.UUID{uuid.New(), uuid.New()} { // another owner's key is another one
		if _, fresh := with("user:ann", root); !fresh {
			t.Error("the key of another root grant is taken")
		}
	}
	_, b := openQueue(t, open, t.TempDir())
	for i, want := range []bool{true, false} { // a person's grants are one owner
		own := toQueue(func(q *store.QueuedRun) { q.Unique, q.Principal, q.Root, q.Owner = "k", "user:ann", uuid.New(), "ann" })
		if _, fresh, err := b.Enqueue(ctx, own, store.QueueRoom{Most: 3}); err != nil || fresh != want {
			t.Errorf("under grant %d of a person: %v, %v", i+1, fresh, err)
		}
	}
	put(t, s, finish(statusOf(t, a, first.ID).Run, tool.Completed))
	if second, fresh := with("user:ann", uuid.Nil); !fresh || second.ID == first.ID {
		t.Error("the key of a run that ended is taken")
	}
	sound(t, s)
}

func queueSlots(t *testing.T, open OpenStore) {
	ctx, home := context.Background(), t.TempDir()
	s, a := openQueue(t, open, home)
	_, b := openQueue(t, open, home)
	slots := []store.Slot{{Key: "tool:x", Most: 2}, {Key: "grant", Most: 5}}
	one, two, three := enqueued(t, a, nil), enqueued(t, a, nil), enqueued(t, a, nil)
	run := begun(t, a, one, slots...)
	begun(t, b, two, slots...)
	_, err := b.StartQueued(ctx, startedAs(three), slots)
	refusedWith(t, "a third of two at once", err, fault.LimitReached)
	if got := statusOf(t, a, three.ID); got.Status != "waiting" {
		t.Errorf("a run without a slot is %s", got.Status)
	}
	taken, err := b.TakenSlots(ctx)
	if d := cmp.Diff(map[string]int{"tool:x": 2, "grant": 2}, taken); d != "" || err != nil {
		t.Errorf("TakenSlots: %v\n%s", err, d)
	}
	put(t, s, finish(run, tool.Failed))
	begun(t, b, three, slots...)
	if got := statusOf(t, a, one.ID); got.Status != "failed" || got.Ended.IsZero() {
		t.Errorf("a run that ended is %+v", got)
	}
	ended, err := a.QueuedRuns(ctx, store.QueueFilter{Ended: true})
	if err != nil || len(ended) != 1 || ended[0].ID != one.ID {
		t.Errorf("ended are %+v, %v", ended, err)
	}
	if live, err := a.QueuedRuns(ctx, store.QueueFilter{}); err != nil || len(live) != 2 {
		t.Errorf("live are %+v, %v", live, err)
	}
	sound(t, s)
}

func queueSlotOfDead(t *testing.T, open OpenStore) {
	s, a := openQueue(t, open, t.TempDir())
	slot := store.Slot{Key: "k", Most: 1}
	one, two := enqueued(t, a, nil), enqueued(t, a, nil)
	e := startedAs(one)
	dead := uuid.New()
	e.Event.Owner = dead[:]
	if _, err := a.StartQueued(context.Background(), e, []store.Slot{slot}); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Recover(context.Background()); err != nil || n != 1 {
		t.Fatalf("Recover = %d, %v", n, err)
	}
	if got := statusOf(t, a, one.ID); got.Status != "interrupted" {
		t.Errorf("the run of a dead process is %s", got.Status)
	}
	_, err := a.StartQueued(context.Background(), startedAs(one), nil)
	refusedWith(t, "an interrupted run", err, fault.Conflict)
	begun(t, a, two, slot)
	sound(t, s)
}

func queueChanges(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openQueue(t, open, t.TempDir())
	change := func(q store.QueuedRun, to ledger.QueueState, more func(*store.QueueChange)) error {
		c := store.QueueChange{ID: q.ID, To: to, By: "user:bob", At: ledger.Time(base)}
		if more != nil {
			more(&c)
		}
		return a.ChangeQueued(ctx, c)
	}
	is := func(q store.QueuedRun, status, code, reason, by string) {
		t.Helper()
		if got := statusOf(t, a, q.ID); got.Status != status || got.Code != code || got.Reason != reason || got.By != by {
			t.Errorf("it is %q, %q, %q by %q; want %q, %q, %q by %q", got.Status, got.Code, got.Reason, got.By, status, code, reason, by)
		}
	}
	because := func(c *store.QueueChange) {
		c.Code, c.Reason, c.By, c.Due = fault.GrantPaused, "the grant is paused", "", time.Now().Add(time.Hour)
	}
	q := enqueued(t, a, nil)
	if err := change(q, ledger.QueueWaiting, because); err != nil {
		t.Fatal(err)
	}
	is(q, "scheduled", "E6005", "the grant is paused", "")
	if err := change(q, ledger.QueueCancelled, nil); err != nil {
		t.Fatal(err)
	}
	is(q, "cancelled", "", "", "user:bob")
	refusedWith(t, "one that was cancelled", change(q, ledger.QueueCancelled, nil), fault.Conflict)
	_, err := a.StartQueued(ctx, startedAs(q), nil)
	refusedWith(t, "to start it", err, fault.Conflict)
	q = enqueued(t, a, nil)
	if err := change(q, ledger.QueueRefused, because); err != nil {
		t.Fatal(err)
	}
	is(q, "refused", "E6005", "the grant is paused", "")
	q = enqueued(t, a, nil)
	run := begun(t, a, q)
	refusedWith(t, "to refuse what runs", change(q, ledger.QueueRefused, nil), fault.Conflict)
	if err := change(q, ledger.QueueCancelled, nil); err != nil {
		t.Fatal(err)
	}
	is(q, "stopping", "", "", "user:bob")
	if list, err := a.QueuedRuns(ctx, store.QueueFilter{Stopping: true}); err != nil || len(list) != 1 || list[0].ID != q.ID {
		t.Errorf("stopping are %+v, %v", list, err)
	}
	put(t, s, finish(run, tool.Cancelled))
	is(q, "cancelled", "", "", "user:bob")
	q = enqueued(t, a, nil)
	put(t, s, finish(begun(t, a, q), tool.Completed))
	refusedWith(t, "to cancel what ended", change(q, ledger.QueueCancelled, nil), fault.Conflict)
	refusedWith(t, "an unknown one", change(toQueue(nil), ledger.QueueCancelled, nil), fault.RunUnknown)
	sound(t, s)
}

func queuePauses(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openQueue(t, open, t.TempDir())
	for _, paused := range []bool{true, true, false, true} {
		err := a.PauseQueue(ctx, paused, "user:ann")
		if is, rerr := a.QueueIsPaused(ctx); err != nil || rerr != nil || is != paused {
			t.Errorf("PauseQueue(%v) = %v, and then %v, %v", paused, err, is, rerr)
		}
	}
	if n := len(found(t, s, store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.QueuePaused)}}})); n < 3 {
		t.Errorf("%d events tell of three changes", n)
	}
	sound(t, s)
}

func queueTokens(t *testing.T, open OpenStore) {
	ctx := context.Background()
	s, a := openQueue(t, open, t.TempDir())
	token := func(q store.QueuedRun) string {
		t.Helper()
		task, err := a.QueuedTask(ctx, q.ID)
		if err != nil {
			t.Fatal(err)
		}
		return task.Token
	}
	for _, end := range []string{"started", "cancelled"} {
		q := enqueued(t, a, func(q *store.QueuedRun) { q.Task.Token = "remit1_token" })
		if got := token(q); got != "remit1_token" {
			t.Errorf("the token is %q", got)
		}
		if end == "started" {
			begun(t, a, q)
		} else if err := a.ChangeQueued(ctx, store.QueueChange{ID: q.ID, To: ledger.QueueCancelled, By: "user:ann", At: ledger.Time(base)}); err != nil {
			t.Fatal(err)
		}
		if got := token(q); got != "" {
			t.Errorf("once it is %s, the token is %q", end, got)
		}
	}
	for _, e := range events(t, s, 0) {
		for part := range e.Parts {
			b, err := s.Load(ctx, e.Parts[part])
			if err != nil || string(b) == "remit1_token" {
				t.Errorf("event %d, part %s: %q, %v", e.Seq, part, b, err)
			}
		}
	}
	sound(t, s)
}

// EndInMotion ends a run while it makes calls at each moment: it ends together with its question, and
// neither alone.
func EndInMotion(t *testing.T, open OpenStore) {
	ctx, s := context.Background(), open(t, t.TempDir()).(store.Backend)
	q := store.QueuedRun{ID: uuid.Must(uuid.NewV7()), Priority: 1, Principal: "user:ann", Queued: time.Now(), Due: time.Now(), Task: store.Task{Plan: []byte("x"), Doc: []byte(`{}`)}}
	if _, _, err := s.Enqueue(ctx, q, store.QueueRoom{}); err != nil {
		t.Fatal(err)
	}
	run, err := s.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: q.ID[:], Mode: ledger.Live}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := s.Request(ctx, store.Approval{ID: uuid.New(), Holder: "agent:x", Run: run, Asked: time.Now(), Until: time.Now().Add(time.Hour), Needs: 1, GoodFor: time.Hour, Body: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // statements wait in goroutines of their own
	moves := 0
	err = s.TimeOutQueued(movingContext{ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if moves++; moves < 120 {
			e := intent(run, (moves+1)/2)
			if moves%2 == 0 {
				e = outcome(run, moves/2, tool.Completed)
			}
			_, _ = s.Append(ctx, e) // refused once the run has ended
		}
	}}, q.ID)
	mu.Lock()
	defer mu.Unlock()
	r, rerr := s.Run(ctx, q.ID.String())
	is, qerr := s.Question(ctx, asked.ID.String())
	if err != nil || rerr != nil || qerr != nil || r.Status != tool.TimedOut.String() || is.State != store.Lapsed {
		t.Errorf("%v: the run is %q, %v; its question is %v, %v", err, r.Status, rerr, is.State, qerr)
	}
}
