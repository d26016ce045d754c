package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// storeFinds compares the results of filters with a look at every event.
func storeFinds(t *testing.T, open OpenStore) {
	s, runs := searchable(t, open)
	sound(t, s)
	all := events(t, s, 0)
	matches := matcher(all)
	for name, f := range searches() {
		var want, got []ledger.Seq
		for _, e := range slices.Backward(all) {
			if matches(e, f) {
				want = append(want, e.Seq)
			}
		}
		others := 0
		for _, e := range found(t, s, f) {
			if matches(e, f) {
				got = append(got, e.Seq)
			} else {
				others++
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: found %d events, want %d: %v, want %v", name, len(got), len(want), got, want)
		}
		if len(f.Marks) > 0 && others > len(all)/2 {
			t.Errorf("%s: %d of %d events come that are not chosen", name, others, len(all))
		}
	}
	findsCalls(t, s, runs)
}

// searchable fills a store with calls of all kinds, in three runs. The values that the filters look
// for are rare in it.
func searchable(t *testing.T, open OpenStore) (s store.Store, runs []ledger.Seq) {
	home := t.TempDir()
	s = open(t, home)
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's choices
	for range 3 {
		run, _ := start(t, s, nil)
		runs = append(runs, run)
	}
	type call struct {
		run ledger.Seq
		n   int
	}
	var running []call
	statuses := []tool.Status{tool.Completed, tool.Completed, tool.Completed, tool.Completed, tool.StatusDenied, tool.Failed, tool.TimedOut, tool.Skipped}
	for n := 1; n <= 900; n++ {
		run, st := runs[rng.IntN(len(runs))], statuses[rng.IntN(len(statuses))]
		if n < 700 {
			st = tool.Completed
		}
		add := func(e ledger.Entry) {
			e.Event.At = base + int64(n)*int64(time.Minute/time.Microsecond)
			put(t, s, e)
		}
		switch rng.IntN(3) {
		case 0:
			e := done(run, n, tool.ID(fmt.Sprintf("ext:e%d:get", n/400)), st)
			if n%211 == 0 {
				e.Payload[ledger.PartBounds] = []byte("{}")
			}
			add(e)
		case 1:
			add(intent(run, n))
			running = append(running, call{run, n})
		default:
			e := done(run, n, "fs.read", st)
			e.Event.Refused = uint32(n / 850)
			add(e)
		}
		if len(running) <= 40 && n < 900 {
			continue
		}
		s = open(t, home) // a call can end in another process than the one that began it
		for _, c := range running {
			e := outcome(c.run, c.n, st)
			if c.n%50 == 0 {
				e.Event.Timeline[3] = ledger.SlowCall.Microseconds()
			}
			add(e)
		}
		running = nil
	}
	return s, runs
}

// matcher tells exactly which events a filter selects.
func matcher(all []ledger.Stored) func(ledger.Stored, store.EventFilter) bool {
	tools := map[string]store.Called{}
	key := func(e *ledger.Event) string { return fmt.Sprint(e.Run, "/", e.Call) }
	for _, e := range all {
		if k := e.Event.Kind; k == ledger.CallIntent || k == ledger.CallDone {
			_, bounded := e.Parts[ledger.PartBounds]
			tools[key(&e.Event)] = store.Called{Tool: e.Event.Tool, Bounded: bounded}
		}
	}
	return func(e ledger.Stored, f store.EventFilter) bool {
		marks := store.Marks(nil, &e.Event, tools[key(&e.Event)])
		for _, list := range f.Marks {
			if !slices.ContainsFunc(list, func(m store.Mark) bool { return slices.Contains(marks, m) }) {
				return false
			}
		}
		at := ledger.Time(e.Event.At)
		return (f.Since.IsZero() || !at.Before(f.Since)) && (f.Until.IsZero() || !at.After(f.Until)) && (f.Before == 0 || e.Seq < f.Before)
	}
}

// searches are filters of all sorts.
func searches() map[string]store.EventFilter {
	marks := func(m ...store.Mark) []store.Mark { return m }
	minute := func(n int) time.Time { return ledger.Time(base).Add(time.Duration(n) * time.Minute) }
	return map[string]store.EventFilter{
		"all":               {},
		"a page":            {Before: 300},
		"a status":          {Marks: [][]store.Mark{marks(store.StatusMark(tool.StatusDenied))}},
		"two statuses":      {Marks: [][]store.Mark{marks(store.StatusMark(tool.Failed), store.StatusMark(tool.TimedOut))}},
		"refused":           {Marks: [][]store.Mark{marks(store.MarkRefused)}},
		"slow":              {Marks: [][]store.Mark{marks(store.MarkSlow)}},
		"bounded":           {Marks: [][]store.Mark{marks(store.MarkBounded)}},
		"a tool":            {Marks: [][]store.Mark{marks(store.ToolMark("fs.write"))}},
		"an extension":      {Marks: [][]store.Mark{marks(store.ExtensionMark("e1"))}},
		"a kind":            {Marks: [][]store.Mark{marks(store.KindMark(ledger.RunStarted))}},
		"a tool's failures": {Marks: [][]store.Mark{marks(store.ToolMark("fs.write")), marks(store.StatusMark(tool.Failed), store.MarkSlow)}},
		"since":             {Since: minute(800)},
		"until":             {Until: minute(100)},
		"a time":            {Since: minute(300), Until: minute(310), Marks: [][]store.Mark{marks(store.ToolMark("fs.read"))}},
		"failures of a page and time": {Since: minute(700), Until: minute(890), Before: 1100,
			Marks: [][]store.Mark{marks(store.StatusMark(tool.Failed))}},
		"nothing":     {Marks: [][]store.Mark{marks(store.ToolMark("no.such"))}},
		"one of none": {Marks: [][]store.Mark{marks()}},
	}
}

// findsCalls compares every call that is found alone with the list of its run.
func findsCalls(t *testing.T, s store.Store, runs []ledger.Seq) {
	if c, err := s.Call(context.Background(), runs[0], 901); !errors.Is(err, fault.RunUnknown) {
		t.Errorf("a call that is not there: %+v, %v", c, err)
	}
	for _, run := range append(runs, 1<<40) { // a run that is not there has no calls
		last, all := 0, []ledger.Call(nil)
		if run < 1<<40 {
			all = calls(t, s, run)
		}
		for _, c := range all {
			last = max(last, c.Index)
		}
		if got, err := s.LastCall(context.Background(), run); err != nil || got != last {
			t.Errorf("LastCall of run %d: %d, %v, want %d", run, got, err, last)
		}
		for _, want := range all {
			if got, err := s.Call(context.Background(), run, want.Index); err != nil || got.Intent != want.Intent || got.Outcome != want.Outcome || got.Status != want.Status || got.Tool != want.Tool {
				t.Fatalf("Call(%d) = %+v, %v, want %+v", want.Index, got, err, want)
			}
		}
	}
}
