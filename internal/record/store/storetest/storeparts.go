package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

const base = int64(1_700_000_000_000_000) // when the suite's events happen, in microseconds

// start begins a run and gives its place and ID.
func start(t *testing.T, s store.Store, change func(*ledger.Event)) (ledger.Seq, uuid.UUID) {
	t.Helper()
	id := uuid.Must(uuid.NewV7())
	e := ledger.Event{Kind: ledger.RunStarted, At: base, ID: id[:], Mode: ledger.Live, Name: "suite", Principal: "user:suite", Total: 3, Workspace: "/w"}
	if change != nil {
		change(&e)
	}
	seq := put(t, s, ledger.Entry{Event: e, Payload: ledger.Payload{ledger.PartPlan: []byte("version: 1\n")}, Durable: true})
	return seq, id
}

func put(t *testing.T, s store.Store, entries ...ledger.Entry) ledger.Seq {
	t.Helper()
	seq, err := s.Append(context.Background(), entries...)
	if err != nil {
		t.Errorf("Append: %v", err)
	}
	return seq
}

func intent(run ledger.Seq, call int) ledger.Entry {
	return ledger.Entry{Durable: true, Payload: ledger.Payload{ledger.PartArgs: fmt.Appendf(nil, `{"path":"out/%d.txt"}`, call)}, Event: ledger.Event{
		Kind: ledger.CallIntent, At: base + int64(call), Run: run, Call: uint32(call), Tool: "fs.write", Digest: make([]byte, 32),
		Effect: policy.Allow, Rule: `files.write.allow[0] "out/**"`, Risk: tool.Medium, Effects: tool.EffectSet(tool.FSWrite),
		Timeline: []int64{3, 20}, Step: fmt.Sprintf("s%d", call),
	}}
}

func outcome(run ledger.Seq, call int, st tool.Status) ledger.Entry {
	e := ledger.Entry{Payload: ledger.Payload{ledger.PartOutput: []byte(`{"bytes":12}`)}, Event: ledger.Event{
		Kind: ledger.CallOutcome, At: base + int64(call) + 500, Run: run, Call: uint32(call), Status: st,
		Effects: tool.EffectSet(tool.FSWrite), Timeline: []int64{3, 20, 400, 450},
	}}
	if st != tool.Completed {
		e.Event.Code = fault.ToolFailed
	}
	return e
}

func done(run ledger.Seq, call int, id tool.ID, st tool.Status) ledger.Entry {
	return ledger.Entry{Payload: ledger.Payload{ledger.PartArgs: []byte(`{}`)}, Event: ledger.Event{
		Kind: ledger.CallDone, At: base + int64(call), Run: run, Call: uint32(call), Tool: id, Status: st, Timeline: []int64{1, -1, -1, 9},
	}}
}

func finish(run ledger.Seq, st tool.Status) ledger.Entry {
	return ledger.Entry{Durable: true, Event: ledger.Event{Kind: ledger.RunFinished, At: base + 9999, Run: run, Status: st}}
}

func calls(t *testing.T, s store.Store, run ledger.Seq) []ledger.Call {
	t.Helper()
	var out []ledger.Call
	for c, err := range s.Calls(context.Background(), run) {
		if err != nil {
			t.Fatalf("Calls: %v", err)
		}
		out = append(out, c)
	}
	if len(out) > 0 {
		fromMiddle(t, s, run, out)
	}
	return out
}

// fromMiddle checks that CallsFrom gives the calls from one in the middle on.
func fromMiddle(t *testing.T, s store.Store, run ledger.Seq, all []ledger.Call) {
	t.Helper()
	at := len(all) / 2
	var rest []ledger.Call
	for c, err := range s.CallsFrom(context.Background(), run, all[at].Index) {
		if err != nil {
			t.Fatalf("CallsFrom: %v", err)
		}
		rest = append(rest, c)
	}
	if d := cmp.Diff(all[at:], rest); d != "" {
		t.Errorf("CallsFrom %d (-want +got):\n%s", all[at].Index, d)
	}
}

func events(t *testing.T, s store.Store, from ledger.Seq) []ledger.Stored {
	t.Helper()
	var out []ledger.Stored
	for e, err := range s.Events(context.Background(), from) {
		if err != nil {
			t.Fatalf("Events: %v", err)
		}
		out = append(out, e)
	}
	return out
}

func found(t *testing.T, s store.Store, f store.EventFilter) []ledger.Stored {
	t.Helper()
	var out []ledger.Stored
	for e, err := range s.Find(context.Background(), f) {
		if err != nil {
			t.Fatalf("Find: %v", err)
		}
		out = append(out, e)
	}
	return out
}

func sound(t *testing.T, s store.Store) store.VerifyReport {
	t.Helper()
	r, err := s.Verify(context.Background(), store.VerifyOptions{})
	if err != nil || len(r.Problems) > 0 {
		t.Fatalf("Verify: %v, problems %+v; want none", err, r.Problems)
	}
	return r
}
