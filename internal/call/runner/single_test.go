package runner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// counting counts the appends of a recorder, and fails those after a number of them.
type counting struct {
	runner.Recorder
	n, most atomic.Int64 // most 0: none fails
}

func (c *counting) Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error) {
	if n := c.n.Add(1); c.most.Load() > 0 && n > c.most.Load() {
		return 0, fault.New(fault.StoreFailed, "the disk is full")
	}
	return c.Recorder.Append(ctx, entries...)
}

// TestTheOutcomeOfASingleCallIsRecordedWithTheEnd: a run of one call has the same record as any other
// run with the same calls, and takes one write less. It has not ended without the record.
func TestTheOutcomeOfASingleCallIsRecordedWithTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		effects tool.Effects
		path    string
		writes  int64 // after the start
	}{
		"a call without side effects":      {0, "a", 1},
		"a call with side effects":         {tool.EffectSet(tool.FSWrite), "a", 2},
		"a refused call":                   {0, "secret", 1},
		"a refused call with side effects": {tool.EffectSet(tool.FSWrite), "secret", 1},
	} {
		t.Run(name, func(t *testing.T) {
			var told [2][]ledger.Call
			for i, single := range []bool{false, true} {
				h := newHouse(t, open, &probe{id: "probe", effects: c.effects})
				info := h.run.Info
				info.ID, info.Single = uuid.Must(uuid.NewV7()), single
				if err := h.rn.Finish(h.ctx, h.run, tool.Completed); err != nil {
					t.Fatal(err)
				}
				var err error
				if h.run, h.ctx, err = h.rn.Start(t.Context(), info); err != nil {
					t.Fatal(err)
				}
				count := &counting{Recorder: h.st}
				h.rn.Record = count
				h.call("probe", tool.Args{"path": c.path})
				told[i] = h.recorded()
				if want := c.writes + int64(1-i); count.n.Load() != want {
					t.Errorf("single %v: %d writes, want %d", single, count.n.Load(), want)
				}
			}
			if d := cmp.Diff(told[0], told[1], cmpopts.IgnoreFields(ledger.Call{}, "Run", "Intent", "Outcome", "Created", "Timeline", "Duration")); d != "" {
				t.Errorf("-any run +single:\n%s", d)
			}
		})
	}
}

// TestALostOutcomeOfASingleCallIsTold: where the outcome cannot be recorded, neither is the end.
func TestALostOutcomeOfASingleCallIsTold(t *testing.T) {
	h := newHouse(t, open, &probe{id: "probe", effects: tool.EffectSet(tool.FSWrite)})
	h.run.Single = true
	count := &counting{Recorder: h.st}
	count.most.Store(1) // the intent
	h.rn.Record = count
	h.call("probe", nil)
	if err := h.rn.Finish(h.ctx, h.run, tool.Completed); !errors.Is(err, fault.StoreFailed) {
		t.Errorf("the end is recorded without the outcome: %v", err)
	}
	if run, err := h.st.Run(t.Context(), h.run.ID.String()); err != nil || run.Status != ledger.Running {
		t.Errorf("%+v %v", run, err)
	}
}
