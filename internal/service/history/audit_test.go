package history_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/history"
)

func TestAuditTellsOfAgents(t *testing.T) {
	ctx, homeDir := t.Context(), t.TempDir()
	s, err := sqlite.Open(ctx, sqlite.Options{Home: homeDir, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	agent, session, run := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7())
	_, aerr := s.SaveAgent(ctx, store.AgentRecord{ID: agent, Name: "docs", By: "user:ann"})
	_, serr := s.SaveSession(ctx, store.SessionRecord{ID: session, Agent: agent, By: "user:ann"})
	seq, rerr := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: run[:], Mode: ledger.Live, Subject: session[:]}})
	_, merr := s.AddMessages(ctx, session, 0, store.MessageRecord{Run: seq, Doc: []byte("{}")})
	quota := store.Quota{Bytes: 9, Files: 9}
	_, ferr := s.ChangeFiles(ctx, session, quota, store.FileChange{Path: "/a", Run: seq, By: "agent:docs"})
	_, derr := s.ChangeFiles(ctx, session, quota, store.FileChange{Path: "/a", Was: 1, Delete: true, By: "agent:docs"})
	_, eerr := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: 2, Run: seq, Status: tool.Completed}})
	for _, err := range []error{aerr, serr, rerr, merr, ferr, derr, eerr, s.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s, err = sqlite.Open(ctx, sqlite.Options{Home: homeDir, ReadOnly: true}); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h := history.History{Reader: func(context.Context) (store.Backend, error) { return s, nil }}
	got, _, err := h.Audit(ctx, history.AuditQuery{Limit: 50})
	want := []history.AuditEvent{
		{Event: "run_finished", Status: "completed", RunID: run.String()},
		{Event: "file_saved", Status: "deleted", Subject: session.String(), Number: 2, By: "agent:docs"},
		{Event: "file_saved", Status: "saved", Subject: session.String(), Number: 1, By: "agent:docs", RunID: run.String()},
		{Event: "message_added", Status: "added", Subject: session.String(), Number: 1, RunID: run.String()},
		{Event: "run_started", Status: "running", Subject: session.String(), RunID: run.String()},
		{Event: "session_saved", Status: "saved", Subject: session.String(), Number: 1, By: "user:ann"},
		{Event: "agent_saved", Status: "saved", Subject: agent.String(), Number: 1, By: "user:ann"},
	}
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d events, %v; want %d", len(got), err, len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Seq, g.At = 0, w.At; g != w {
			t.Errorf("event %d: got %+v, want %+v", i, g, w)
		}
		if found, _, err := h.Audit(ctx, history.AuditQuery{Limit: 50, Event: w.Event}); err != nil || !history.KnownEvent(w.Event) || len(found) == 0 || found[0].Event != w.Event {
			t.Errorf("events of the name %s: %+v, %v", w.Event, found, err)
		}
	}
}

// TestEventTypesSelectAllTheirEvents compares what the index finds with a look at every event.
func TestEventTypesSelectAllTheirEvents(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	add := func(ev ledger.Event) ledger.Seq {
		t.Helper()
		ev.At = 1
		e := ledger.Entry{Event: ev}
		if ev.Kind == ledger.CallDone {
			e.Payload = ledger.Payload{ledger.PartArgs: []byte("{}")}
		}
		seq, err := s.Append(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}
	id := uuid.Must(uuid.NewV7())
	run := add(ledger.Event{Kind: ledger.RunStarted, ID: id[:], Mode: ledger.Live})
	call := uint32(0)
	for st := tool.Completed; st <= tool.StatusInterrupted; st++ {
		for _, code := range []fault.Code{0, fault.NeedsApproval} {
			for _, slow := range []int64{1, ledger.SlowCall.Microseconds()} {
				for refused := range uint32(2) {
					call++
					add(ledger.Event{
						Kind: ledger.CallDone, Run: run, Call: call, Tool: "fs.read", Status: st, Code: code, Refused: refused,
						Digest: make([]byte, 32), Timeline: []int64{0, 0, 0, slow},
					})
				}
			}
		}
	}
	add(ledger.Event{Kind: ledger.RunFinished, Run: run, Status: tool.Completed})

	h := history.History{Reader: func(context.Context) (store.Backend, error) { return s, nil }}
	all, _, err := h.Audit(ctx, history.AuditQuery{Limit: 1000})
	if err != nil || len(all) != int(call)+2 {
		t.Fatalf("%d events, %v, want %d", len(all), err, call+2)
	}
	want := map[string]int{"capability_slow": 0, "security_violation": 0}
	for _, e := range all {
		if e.Call == 0 {
			want[e.Event]++
			continue
		}
		if e.Event == "security_violation" || e.Refused > 0 {
			want["security_violation"]++
		}
		if e.Event != "security_violation" {
			want[e.Event]++
		}
		if e.Duration >= float64(ledger.SlowCall.Milliseconds()) {
			want["capability_slow"]++
		}
	}
	if len(want) < 8 {
		t.Errorf("events of only %d types: %v", len(want), want)
	}
	for name, n := range want {
		got, _, err := h.Audit(ctx, history.AuditQuery{Event: name, Limit: 1000})
		if err != nil || len(got) != n || !history.KnownEvent(name) {
			t.Errorf("%s: %d events, %v, want %d", name, len(got), err, n)
		}
	}
	if history.KnownEvent("no_such_event") {
		t.Error("an unknown name is known")
	}
}
