package history_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

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
