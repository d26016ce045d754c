package history_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/home"
)

// TestUnknownCallsAreListedUntilTheyAreSettled: an interrupted call is listed; one that ended
// is not, and cannot be settled. What a person found out is an event of its own, under the person's
// name, and the record of the call stays as it is.
func TestUnknownCallsAreListedUntilTheyAreSettled(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	open := func(context.Context) (store.Backend, error) { return s, nil }
	h := history.History{Home: &home.Home{Ledger: open}, Reader: open}
	id := uuid.Must(uuid.NewV7())
	run, err := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Mode: ledger.Live, Name: "deploy"}})
	if err != nil {
		t.Fatal(err)
	}
	for n, status := range []tool.Status{tool.Completed, tool.StatusInterrupted, tool.StatusInterrupted} {
		at := ledger.Event{At: 2, Run: run, Call: uint32(n + 1)}
		intent, outcome := at, at
		intent.Kind, intent.Tool, intent.Digest, intent.Timeline = ledger.CallIntent, "http.request", make([]byte, 32), []int64{1}
		outcome.Kind, outcome.Status = ledger.CallOutcome, status
		if _, err := s.Append(ctx, ledger.Entry{Event: intent}, ledger.Entry{Event: outcome}); err != nil {
			t.Fatal(err)
		}
	}
	calls := func(limit int) (out []int) {
		t.Helper()
		list, err := h.Unknown(ctx, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range list {
			if u.Run != id || u.Name != "deploy" || u.Tool != "http.request" {
				t.Errorf("%+v", u)
			}
			out = append(out, u.Call)
		}
		return out
	}
	if got := calls(10); len(got) != 2 || got[0] != 3 || got[1] != 2 || len(calls(1)) != 1 {
		t.Errorf("unknown calls %v, want 3 and 2", got)
	}
	if _, err := h.Settle(ctx, id.String(), 2, true); err != nil {
		t.Fatal(err)
	}
	if got := calls(10); len(got) != 1 || got[0] != 3 {
		t.Errorf("after one was settled: %v", got)
	}
	for call, want := range map[int]fault.Code{1: fault.Conflict, 2: fault.Conflict, 4: fault.RunUnknown} {
		if _, err := h.Settle(ctx, id.String(), call, false); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", call, err, want)
		}
	}
	found, _, err := h.Audit(ctx, history.AuditQuery{Limit: 1, Event: "operator_action"})
	if err != nil || len(found) != 1 || found[0].Action != "call.happened" || found[0].Target != id.String()+" 2" || found[0].By != home.Person() {
		t.Errorf("the audit says %+v: %v", found, err)
	}
	for c, err := range s.Calls(ctx, run) {
		if err != nil || (c.Status == tool.StatusInterrupted) != (c.Index > 1) {
			t.Errorf("the record says of call %d: %s, %v", c.Index, c.Status, err)
		}
	}
}
