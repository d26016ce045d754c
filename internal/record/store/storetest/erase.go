package storetest

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Erase checks that open also returns a [store.Erasing].
func Erase(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"a run's payloads are erased, and no other's", eraseRun},
		{"a deleted session is erased with its files", eraseSession},
		{"what ended before a time is erased", eraseBefore},
		{"a queued run's plan is erased with the run", eraseQueued},
		{"content that is recorded again meanwhile stays", eraseRace},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// bigCall is a call with a large output.
func bigCall(run ledger.Seq, call int, output []byte) ledger.Entry {
	e := done(run, call, "time.now", tool.Completed)
	e.Payload = ledger.Payload{ledger.PartOutput: output, ledger.PartArgs: []byte("{}")}
	return e
}

func erase(t *testing.T, s store.Store, e store.Erasure) store.Erased {
	t.Helper()
	x, ok := s.(store.Erasing)
	if !ok {
		t.Fatalf("%T erases nothing", s)
	}
	e.Scope, e.By = "a test", "user:ann"
	dry, err := x.Erase(context.Background(), e, true)
	if err != nil {
		t.Fatal(err)
	}
	out, err := x.Erase(context.Background(), e, false)
	if err != nil || out.Payloads != dry.Payloads || out.Runs != dry.Runs || out.Sessions != dry.Sessions {
		t.Fatalf("Erase = %+v, %v; announced was %+v", out, err, dry)
	}
	return out
}

func eraseRun(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	own, common := bytes.Repeat([]byte("own "), 3000), bytes.Repeat([]byte("common "), 3000)
	first, _ := start(t, s, nil)
	put(t, s, bigCall(first, 1, own), bigCall(first, 2, common), finish(first, tool.Completed))
	second, _ := start(t, s, nil)
	put(t, s, bigCall(second, 1, common), finish(second, tool.Completed))
	third, _ := start(t, s, nil)
	root := sound(t, s).Root
	note, err := s.Checkpoint(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	out := erase(t, s, store.Erasure{Run: first})
	if out.Runs != 1 || out.Blobs != 1 || out.Shared != 1 || out.Payloads < 2 {
		t.Errorf("Erase = %+v", out)
	}
	if again := erase(t, s, store.Erasure{Run: first}); again.Payloads != 0 {
		t.Errorf("erased again: %+v", again)
	}
	if open := erase(t, s, store.Erasure{Run: third}); open.Open != 1 || open.Payloads != 0 {
		t.Errorf("of a run that goes on: %+v", open)
	}
	for _, c := range calls(t, s, first) {
		if !c.Erased || len(c.Parts) != 0 {
			t.Errorf("call %d has %v", c.Index, c.Parts)
		}
	}
	if b, err := s.Load(context.Background(), calls(t, s, second)[0].Parts[ledger.PartOutput]); err != nil || !bytes.Equal(b, common) {
		t.Errorf("the other run's output: %d bytes, %v", len(b), err)
	}
	rep, err := s.Verify(context.Background(), store.VerifyOptions{Checkpoint: note})
	if err != nil || !rep.OK || rep.Erased != uint64(out.Payloads) || rep.Root == root {
		t.Errorf("Verify = %+v, %v", rep, err)
	}
	put(t, s, bigCall(third, 1, own), finish(third, tool.Completed)) // content that was erased comes back with another call
	sound(t, s)
}

func eraseSession(t *testing.T, open OpenStore) {
	d := openFiles(t, open, t.TempDir())
	d.change(dir("/notes"), file("/notes/private.txt", 0, "private text"))
	d.change(file("/notes/private.txt", 1, "newer"))
	g, ok := d.s.(store.Sessions)
	if !ok {
		t.Fatalf("%T keeps no sessions", d.s)
	}
	if _, err := g.AddMessages(context.Background(), d.session, 0, store.MessageRecord{Doc: []byte(`{"text":"hello"}`), At: ledger.Time(base)}); err != nil {
		t.Fatal(err)
	}
	if out := erase(t, d.s, store.Erasure{Session: d.session}); out.Live != 1 || out.Payloads != 0 {
		t.Fatalf("of a session that is not deleted: %+v", out)
	}
	r, err := g.Session(context.Background(), d.session.String())
	if err != nil {
		t.Fatal(err)
	}
	r.Deleted = true
	saveSession(t, g, r)
	if out := erase(t, d.s, store.Erasure{Session: d.session}); out.Sessions != 1 || out.Blobs != 2 || out.Payloads < 5 {
		t.Errorf("Erase = %+v", out)
	}
	sound(t, d.s)
	for _, err := range g.Messages(context.Background(), d.session, 0, false) {
		if !errors.Is(err, fault.MessageUnknown) {
			t.Errorf("an erased message: %v", err)
		}
	}
}

func eraseBefore(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, _ := start(t, s, nil)
	put(t, s, bigCall(run, 1, []byte("x")), finish(run, tool.Completed))
	end := finish(run, tool.Completed).Event.At
	if out := erase(t, s, store.Erasure{Before: time.UnixMicro(end), Runs: true}); out.Payloads != 0 {
		t.Errorf("before its end: %+v", out)
	}
	if out := erase(t, s, store.Erasure{Before: time.UnixMicro(end + 1), Sessions: true}); out.Payloads != 0 {
		t.Errorf("sessions only: %+v", out)
	}
	if out := erase(t, s, store.Erasure{Before: time.UnixMicro(end + 1), Runs: true}); out.Runs != 1 || out.Payloads == 0 {
		t.Errorf("after its end: %+v", out)
	}
	sound(t, s)
}

func eraseQueued(t *testing.T, open OpenStore) {
	s, ctx := open(t, t.TempDir()), context.Background()
	q, ok := s.(store.Queue)
	if !ok {
		t.Fatalf("%T keeps no queue", s)
	}
	now, id := ledger.Time(base), v7()
	_, _, err := q.Enqueue(ctx, store.QueuedRun{ID: id, Priority: 2, Principal: "user:ann", Queued: now, Due: now, Task: store.Task{Plan: []byte("a plan"), Doc: []byte("{}")}}, store.QueueRoom{})
	if err != nil {
		t.Fatal(err)
	}
	run, err := q.StartQueued(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: base, ID: id[:], Mode: ledger.Live}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, finish(run, tool.Completed))
	if out := erase(t, s, store.Erasure{Run: run}); out.Payloads != 1 {
		t.Errorf("Erase = %+v", out)
	}
	if all, err := q.QueuedRuns(ctx, store.QueueFilter{}); err != nil || len(all) > 1 {
		t.Errorf("QueuedRuns = %v, %v", all, err)
	}
	sound(t, s)
}

// Others record the same content while it is erased: their copies stay.
func eraseRace(t *testing.T, open OpenStore) {
	home := t.TempDir()
	s, other := open(t, home), open(t, home)
	content := bytes.Repeat([]byte("again "), 2000)
	run, _ := start(t, other, nil)
	var writing sync.WaitGroup
	for n := range 6 {
		gone, _ := start(t, s, nil)
		put(t, s, bigCall(gone, 1, content), finish(gone, tool.Completed))
		writing.Go(func() { put(t, other, bigCall(run, n+1, content)) })
		erase(t, s, store.Erasure{Run: gone})
		writing.Wait()
		all := calls(t, other, run)
		if b, err := other.Load(context.Background(), all[n].Parts[ledger.PartOutput]); err != nil || !bytes.Equal(b, content) {
			t.Fatalf("call %d: %d bytes, %v", n+1, len(b), err)
		}
		sound(t, s)
		erase(t, s, store.Erasure{Run: gone})
	}
}
