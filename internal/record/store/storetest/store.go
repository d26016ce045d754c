// Package storetest is the contract of [store.Store] as tests: every backend passes
// [Store]. Start there.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// OpenStore opens a store on a home folder. The suite opens several on one.
type OpenStore func(t *testing.T, home string) store.Store

// Store checks that open returns a [store.Store].
func Store(t *testing.T, open OpenStore) {
	t.Helper()
	cases := []struct {
		name string
		run  func(t *testing.T, open OpenStore)
	}{
		{"a run folds back to what was recorded", storeFoldsBack},
		{"events come in both directions from anywhere", storeEvents},
		{"what has a mark or a time is found", storeFinds},
		{"calls come in the order of their index", storeCallOrder},
		{"runs are filtered and paged", storeFilters},
		{"a run is found by a unique prefix", storePrefix},
		{"big payloads come back and are kept once", storeBig},
		{"entries that make no sense are refused alone", storeRefuses},
		{"all entries of an append are written or none", storeAtomic},
		{"a cancelled append writes nothing", storeCancelled},
		{"concurrent appends are all written once", storeConcurrent},
		{"a refused append changes nothing beside one that ends the run", storeRefusedTogether},
		{"two stores on one home see and extend each other", storeTwo},
		{"what was recorded is there after reopening", storeReopen},
		{"a dead owner's run is closed as interrupted", storeRecovers},
		{"a client's run stays open", storeKeepsRunsOfClients},
		{"a live owner's run is left alone", storeLeavesAlone},
		{"two stores that recover at once close a run once", storeRecoverRace},
		{"a sound ledger verifies and is proved", storeVerifies},
		{"a closed store refuses", storeClosed},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

func storeFoldsBack(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, id := start(t, s, nil)
	put(t, s, intent(run, 1))
	first := outcome(run, 1, tool.Completed)
	first.Event.Refused = 5
	first.Payload[ledger.PartAttempts] = []byte(`{"refused":[]}`)
	put(t, s, first)
	put(t, s, done(run, 2, "fs.read", tool.StatusDenied))
	put(t, s, intent(run, 3), outcome(run, 3, tool.Failed))
	put(t, s, finish(run, tool.Failed))

	got, err := s.Run(context.Background(), id.String())
	if err != nil {
		t.Fatal(err)
	}
	fromEvents, fromCalls, err := ledger.Fold(events(t, s, run))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fromEvents, got); d != "" {
		t.Errorf("Run differs from the fold of its events (-fold +run):\n%s", d)
	}
	if d := cmp.Diff(fromCalls, calls(t, s, run)); d != "" {
		t.Errorf("Calls differ from the fold of their events (-fold +calls):\n%s", d)
	}
	if got.Status != "failed" || got.Total != 3 || got.Completed != 1 || got.Denied != 1 || got.Failed != 1 || got.Refused != 5 || got.Name != "suite" || got.Ended.IsZero() {
		t.Errorf("Run = %+v, want failed with counts 3, 1, 1, 1, and 5 refusals", got)
	}
	c := fromCalls[0]
	if c.Status != tool.Completed || c.Refused != 5 || string(c.Parts[ledger.PartAttempts].Inline) != `{"refused":[]}` || c.Tool != "fs.write" || c.Duration != 450*time.Microsecond || string(c.Parts[ledger.PartOutput].Inline) != `{"bytes":12}` ||
		string(c.Parts[ledger.PartArgs].Inline) != `{"path":"out/1.txt"}` || !c.Declared.Has(tool.FSWrite) || !c.Happened.Has(tool.FSWrite) {
		t.Errorf("call 1 = %+v", c)
	}
}

func storeEvents(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, _ := start(t, s, nil)
	for i := 1; i <= 300; i++ {
		put(t, s, done(run, i, "fs.read", tool.Completed))
	}
	for _, from := range []ledger.Seq{0, 1, 129, 301, 302} {
		up, down := events(t, s, from), found(t, s, store.EventFilter{Before: from})
		first, n := max(from, 1), 302-int(max(from, 1))
		if len(up) != n || n > 0 && up[0].Seq != first {
			t.Errorf("Events(%d) gives %d events, want %d from %d", from, len(up), n, first)
		}
		last := ledger.Seq(301)
		if from > 0 {
			last = min(from-1, 301)
		}
		if len(down) != int(last) || last > 0 && (down[0].Seq != last || down[len(down)-1].Seq != 1) {
			t.Errorf("Find before %d gives %d events, want %d down to 1", from, len(down), last)
		}
	}
	for _, err := range s.Find(context.Background(), store.EventFilter{}) {
		if err != nil {
			t.Error(err)
		}
		break // a listing that is left early holds nothing
	}
	for range s.Events(context.Background(), 0) {
		break // a listing that is left early holds nothing
	}
	sound(t, s)
}

func storeCallOrder(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	other, _ := start(t, s, nil)
	run, _ := start(t, s, nil)
	const n = 400
	for i := n; i >= 1; i-- {
		put(t, s, intent(run, i))
	}
	put(t, s, intent(other, 1))
	for i := 1; i < n; i++ {
		put(t, s, outcome(run, i, tool.Completed))
	}
	got := calls(t, s, run)
	if len(got) != n {
		t.Fatalf("%d calls, want %d", len(got), n)
	}
	for i, c := range got {
		if c.Index != i+1 || (c.Status == tool.Completed) != (i+1 < n) || c.Step != fmt.Sprintf("s%d", i+1) {
			t.Fatalf("call %d = %+v", i+1, c)
		}
	}
	if got[n-1].Status != tool.Pending || got[n-1].Outcome != 0 {
		t.Errorf("the open call is %+v, want pending", got[n-1])
	}
}

// fiftyRuns records runs of many kinds, as storeFilters tells them apart.
func fiftyRuns(t *testing.T, s store.Store) (all []ledger.Seq) {
	t.Helper()
	for i := range 50 {
		run, _ := start(t, s, func(e *ledger.Event) {
			e.At = base + int64(i)*1_000_000
			if i%5 == 0 {
				e.Mode = ledger.Replay
			}
		})
		all = append(all, run)
		switch i % 4 {
		case 1:
			put(t, s, done(run, 1, "fs.read", tool.Failed), finish(run, tool.Failed))
		case 2:
			put(t, s, done(run, 1, "http.get", tool.StatusDenied), finish(run, tool.Completed))
		case 3:
			out := outcome(run, 1, tool.Completed)
			if i%8 == 3 {
				out.Event.Refused = 2 // allowed, and then refused something
			}
			put(t, s, intent(run, 1), out, finish(run, tool.Completed))
		}
	}
	return all
}

func storeFilters(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	ctx := context.Background()
	all := fiftyRuns(t, s)
	tests := map[string]struct {
		f    store.RunFilter
		want func(i int) bool
	}{
		"all":     {store.RunFilter{}, func(int) bool { return true }},
		"running": {store.RunFilter{Status: "running"}, func(i int) bool { return i%4 == 0 }},
		"failed":  {store.RunFilter{Failed: true}, func(i int) bool { return i%4 == 1 }},
		"status":  {store.RunFilter{Status: "completed"}, func(i int) bool { return i%4 >= 2 }},
		"denied":  {store.RunFilter{Denied: true}, func(i int) bool { return i%4 == 2 || i%8 == 3 }},
		"tool":    {store.RunFilter{Tool: "fs.write"}, func(i int) bool { return i%4 == 3 }},
		"mode":    {store.RunFilter{Mode: ledger.Replay}, func(i int) bool { return i%5 == 0 }},
		"time":    {store.RunFilter{Since: ledger.Time(base + 10_000_000), Until: ledger.Time(base + 20_000_000)}, func(i int) bool { return i >= 10 && i < 20 }},
		"two":     {store.RunFilter{Mode: ledger.Replay, Failed: true}, func(i int) bool { return i%20 == 5 }},
		"no such": {store.RunFilter{Tool: "no.such"}, func(int) bool { return false }},
		// Denied, failed and refused calls are always listed.
		"without":   {store.RunFilter{Without: []tool.ID{"fs.write", "fs.read", "http.get"}}, func(i int) bool { return i%8 != 7 || i%5 == 0 }},
		"big pages": {store.RunFilter{Limit: 1000}, func(int) bool { return true }},
	}
	for name, tt := range tests {
		var want []ledger.Seq
		for i := len(all) - 1; i >= 0; i-- {
			if tt.want(i) {
				want = append(want, all[i])
			}
		}
		f := tt.f
		if f.Limit == 0 {
			f.Limit = 3
		}
		got := pages(t, s, f)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: runs differ (-want +got):\n%s", name, d)
		}
	}
	if page, err := s.Runs(ctx, store.RunFilter{}); err != nil || len(page) != 20 {
		t.Errorf("without a limit there are %d runs (%v), want 20", len(page), err)
	}
	if _, err := s.Runs(ctx, store.RunFilter{Status: "strange"}); !errors.Is(err, fault.Usage) {
		t.Errorf("an unknown status gives %v, want %v", err, fault.Usage)
	}
}

// pages gives the places of all runs of a filter, page by page.
func pages(t *testing.T, s store.Store, f store.RunFilter) (got []ledger.Seq) {
	t.Helper()
	for {
		page, err := s.Runs(context.Background(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > f.Limit {
			t.Fatalf("a page of %d runs, want at most %d", len(page), f.Limit)
		}
		for _, r := range page {
			got = append(got, r.Seq)
		}
		if len(page) < f.Limit {
			return got
		}
		f.Before = page[len(page)-1].Seq
	}
}

func storePrefix(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	ids := []string{"0198aaaa-0000-7000-8000-000000000001", "0198aaaa-0000-7000-8000-000000000002", "0198bbbb-0000-7000-8000-000000000003"}
	for _, id := range ids {
		u := uuid.MustParse(id)
		start(t, s, func(e *ledger.Event) { e.ID = u[:] })
	}
	tests := map[string]string{ // filter, found run
		ids[0]: ids[0], ids[1]: ids[1], "0198b": ids[2], "0198BBBB-0": ids[2], "0198bbbb0000": ids[2],
		"0198": "", "0198aaaa": "", "019": "", "": "", "zzzz": "", "0199": "", "%": "", ids[0] + "0": "", "0198bbbb-0000-7000-8000-000000000003-----": "",
	}
	for ask, want := range tests {
		r, err := s.Run(context.Background(), ask)
		if want == "" {
			if !errors.Is(err, fault.RunUnknown) {
				t.Errorf("Run(%q) = %v, %v; want %v", ask, r.ID, err, fault.RunUnknown)
			}
		} else if err != nil || r.ID.String() != want {
			t.Errorf("Run(%q) = %v, %v; want %s", ask, r.ID, err, want)
		}
	}
}

func storeBig(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, _ := start(t, s, nil)
	random := make([]byte, 8<<20)
	_, _ = rand.Read(random)
	bodies := [][]byte{random, bytes.Repeat([]byte("remit "), 1<<20), random[:4096], random[:4097], {}, random}
	for i, b := range bodies {
		e := done(run, i+1, "fs.read", tool.Completed)
		e.Payload[ledger.PartOutput] = b
		put(t, s, e)
	}
	for i, c := range calls(t, s, run) {
		p := c.Parts[ledger.PartOutput]
		got, err := s.Load(context.Background(), p)
		if err != nil || !bytes.Equal(got, bodies[i]) || p.Size() != int64(len(bodies[i])) {
			t.Errorf("output %d: %d bytes, size %d, %v; want the %d bytes that were recorded", i+1, len(got), p.Size(), err, len(bodies[i]))
		}
	}
	if r := sound(t, s); r.Blobs != 3 {
		t.Errorf("%d blobs are kept, want 3: equal bytes once, small ones not apart", r.Blobs)
	}
	if _, err := s.Load(context.Background(), ledger.Part{Blob: &ledger.BlobRef{Size: 1}}); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("a missing blob gives %v, want %v", err, fault.StoreCorrupt)
	}
}

func storeRefuses(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, id := start(t, s, nil)
	put(t, s, intent(run, 1), outcome(run, 1, tool.Completed), intent(run, 2))
	ended, _ := start(t, s, nil)
	put(t, s, finish(ended, tool.Completed))
	same := ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: base, ID: id[:], Mode: ledger.Live}}
	fresh := uuid.Must(uuid.NewV7())
	twin := ledger.Entry{Event: ledger.Event{Kind: ledger.RunStarted, At: base, ID: fresh[:], Mode: ledger.Live}}
	broken := done(run, 7, "fs.read", tool.Completed)
	broken.Event.Step = "\xff"
	tests := map[string][]ledger.Entry{
		"nothing":                     nil,
		"no kind":                     {{}},
		"an outcome without intent":   {outcome(run, 9, tool.Completed)},
		"a second outcome":            {outcome(run, 1, tool.Completed)},
		"a call's number again":       {intent(run, 1)},
		"a call's number as one":      {done(run, 2, "fs.read", tool.Completed)},
		"an end with an open call":    {finish(run, tool.Completed)},
		"an unknown run":              {intent(9999, 1)},
		"a run that is no run":        {intent(run+1, 3)},
		"a run that has ended":        {intent(ended, 1)},
		"an ID again":                 {same},
		"an ID twice at once":         {twin, twin},
		"an intent that has ended":    {intent(run, 5), outcome(run, 5, tool.Completed), outcome(run, 5, tool.Completed)},
		"an outcome without a status": {outcome(run, 2, tool.Pending)},
		"text that is not UTF-8":      {broken},
	}
	before := len(events(t, s, 0))
	for name, entries := range tests {
		if _, err := s.Append(context.Background(), entries...); !errors.Is(err, fault.Internal) {
			t.Errorf("%s: %v, want %v", name, err, fault.Internal)
		}
	}
	var wg sync.WaitGroup // among refused ones, sound ones are written
	for i := 10; i < 60; i++ {
		wg.Go(func() {
			_, err := s.Append(context.Background(), intent(run, i), outcome(run, i, tool.Completed))
			_, bad := s.Append(context.Background(), outcome(run, 1, tool.Completed))
			if err != nil || bad == nil {
				t.Errorf("call %d: %v, and a bad one: %v", i, err, bad)
			}
		})
	}
	wg.Wait()
	put(t, s, outcome(run, 2, tool.Completed), finish(run, tool.Completed))
	if after := len(events(t, s, 0)); after != before+102 {
		t.Errorf("%d events were added, want 102", after-before)
	}
	sound(t, s)
}

func storeAtomic(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, _ := start(t, s, nil)
	if _, err := s.Append(context.Background(), intent(run, 1), outcome(run, 1, tool.Completed), intent(run, 1)); err == nil {
		t.Fatal("a call's number was taken twice")
	}
	if got := calls(t, s, run); len(got) != 0 {
		t.Errorf("%d calls were recorded, want none", len(got))
	}
	if seq := put(t, s, intent(run, 1), outcome(run, 1, tool.Completed)); seq != run+1 {
		t.Errorf("the first entry's place is %d, want %d", seq, run+1)
	}
	if got := calls(t, s, run); len(got) != 1 || got[0].Intent != run+1 || got[0].Outcome != run+2 {
		t.Errorf("calls = %+v", got)
	}
}

func storeCancelled(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	run, _ := start(t, s, nil)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Append(ctx, intent(run, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Append = %v, want %v", err, context.Canceled)
	}
	if got := calls(t, s, run); len(got) != 0 {
		t.Errorf("a cancelled append wrote %d calls", len(got))
	}
	var wg sync.WaitGroup // cancelled at any moment: an error means not written, none means written
	written := make([]bool, 200)
	for i := range written {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*5*time.Microsecond)
			defer cancel()
			_, err := s.Append(ctx, done(run, i+1, "fs.read", tool.Completed))
			written[i] = err == nil
		})
	}
	wg.Wait()
	got := map[int]bool{}
	for _, c := range calls(t, s, run) {
		got[c.Index-1] = true
	}
	for i, w := range written {
		if w != got[i] {
			t.Errorf("call %d: Append said written=%v, the ledger says %v", i+1, w, got[i])
		}
	}
	for _, err := range s.Events(ctx, 0) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Events under a cancelled context gives %v", err)
		}
	}
}

func storeConcurrent(t *testing.T, open OpenStore) {
	s := open(t, t.TempDir())
	const callers, each = 16, 25
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			run, _ := start(t, s, nil)
			for i := 1; i <= each; i++ {
				in, out := intent(run, i), outcome(run, i, tool.Completed)
				in.Durable = i%2 == 0
				put(t, s, in)
				put(t, s, out)
			}
			put(t, s, finish(run, tool.Completed))
		})
	}
	wg.Wait()
	if r := sound(t, s); r.Events != callers*(2*each+2) || r.Runs != callers {
		t.Errorf("%d events of %d runs, want %d of %d", r.Events, r.Runs, callers*(2*each+2), callers)
	}
}

func storeTwo(t *testing.T, open OpenStore) {
	home := t.TempDir()
	stores := []store.Store{open(t, home), open(t, home)}
	shared, id := start(t, stores[0], nil)
	var wg sync.WaitGroup
	for n, s := range stores {
		wg.Go(func() {
			run, _ := start(t, s, nil)
			for i := 1; i <= 40; i++ {
				put(t, s, intent(run, i))
				put(t, s, outcome(run, i, tool.Completed))
				put(t, s, done(shared, 2*i+n, "fs.read", tool.Completed))
			}
			put(t, s, finish(run, tool.Completed))
		})
	}
	wg.Wait()
	if _, err := stores[1].Append(context.Background(), done(shared, 2, "fs.read", tool.Completed)); err == nil {
		t.Error("a call's number that the other store used was taken again")
	}
	put(t, stores[1], finish(shared, tool.Completed))
	for _, s := range stores {
		r, err := s.Run(context.Background(), id.String())
		if err != nil || r.Status != "completed" || r.Total != 80 {
			t.Errorf("the shared run is %+v, %v; want completed with 80 calls", r, err)
		}
		sound(t, s)
	}
}
