package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/history"
	"github.com/remitrun/remit/internal/service/home"
)

// TestUnknownCallsAreSettledTogether: each combination of the filter chooses the calls that it
// names, and settles each of them once, with an event of its own.
func TestUnknownCallsAreSettledTogether(t *testing.T) {
	ctx := t.Context()
	s, err := sqlite.Open(ctx, sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	open := func(context.Context) (store.Backend, error) { return s, nil }
	h := history.History{Home: &home.Home{Ledger: open}, Reader: open}
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	runs, nodes, tools := []uuid.UUID{{1}, {2}}, []uuid.UUID{{3}, {4}}, []tool.ID{"http.request", "fs.write"}
	for i, id := range runs {
		run, err := s.Append(ctx, ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: 1, ID: id[:], Owner: nodes[i][:], Mode: ledger.Live, Name: "deploy"}})
		if err != nil {
			t.Fatal(err)
		}
		for n, name := range tools {
			at := ledger.Event{At: start.Add(time.Duration(n) * time.Hour).UnixMicro(), Run: run, Call: uint32(n + 1)}
			intent, outcome := at, at
			intent.Kind, intent.Tool, intent.Digest, intent.Timeline = ledger.CallIntent, name, make([]byte, 32), []int64{1}
			outcome.Kind, outcome.Status = ledger.CallOutcome, tool.StatusInterrupted
			if _, err := s.Append(ctx, ledger.Entry{Event: intent}, ledger.Entry{Event: outcome}); err != nil {
				t.Fatal(err)
			}
		}
	}
	count := func(f history.UnknownFilter) []history.Unknown {
		t.Helper()
		list, err := h.UnknownOf(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	for mask := range 16 {
		f, want := history.UnknownFilter{}, 4
		if mask&1 != 0 {
			f.Run, want = runs[0].String()[:8], want/2
		}
		if mask&2 != 0 {
			f.Node = nodes[0].String()[:8]
			if mask&1 == 0 {
				want /= 2
			}
		}
		if mask&4 != 0 {
			f.Tool, want = tools[1], want/2
		}
		if mask&8 != 0 {
			f.Since = start.Add(time.Minute)
			if mask&4 == 0 {
				want /= 2
			}
		}
		if got := count(f); len(got) != want {
			t.Errorf("%s: %d calls, want %d", fmt.Sprintf("%+v", f), len(got), want)
		}
	}
	chosen := count(history.UnknownFilter{Tool: tools[0]})
	if _, err := h.SettleAll(ctx, chosen, true, " "); fault.CodeOf(err) != fault.Usage {
		t.Errorf("without a reason: %v", err)
	}
	for again, want := range []int{2, 0} {
		if done, err := h.SettleAll(ctx, chosen, true, "the log of the server says so"); err != nil || len(done) != want {
			t.Errorf("time %d: settled %v, %v; want %d", again, done, err, want)
		}
	}
	events := 0
	for e, err := range s.Find(ctx, store.EventFilter{Marks: [][]store.Mark{{store.KindMark(ledger.Operated)}}}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == ledger.Operated {
			events++
		}
	}
	if left := count(history.UnknownFilter{}); len(left) != 2 || events != 2 {
		t.Errorf("left are %v, with %d events", left, events)
	}
}
