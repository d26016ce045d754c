package catalog_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
)

// failures is a memory that keeps failures, and nothing of tools.
type failures struct {
	mu sync.Mutex
	m  map[string]*catalog.Failure
}

func (*failures) Load(string) (map[tool.ID]catalog.Record, error) { return nil, nil }
func (*failures) Change(_ string, f func(map[tool.ID]catalog.Record) bool) error {
	f(map[tool.ID]catalog.Record{})
	return nil
}

func (f *failures) Failure(source string) *catalog.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.m[source]
}

func (f *failures) Failed(source string, x *catalog.Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.m == nil {
		f.m = map[string]*catalog.Failure{}
	}
	f.m[source] = x
}

func TestAListDoesNotWaitForWhatHangs(t *testing.T) {
	hangs := offer("mcp:slow", mcp("mcp:slow:read", "reads"))
	hangs.before = func(ctx context.Context) { <-ctx.Done() }
	quick := offer("mcp:quick", mcp("mcp:quick:get", "gets"))
	c, err := catalog.Open(catalog.Config{Sources: []catalog.Source{catalog.From(recalling{hangs}), catalog.From(quick)}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	list := c.List(t.Context(), catalog.Filter{Wait: time.Millisecond}) // without Wait it would take 35 s
	if len(list.Tools) != 1 || list.Tools[0].Spec.ID != "mcp:quick:get" {
		t.Errorf("tools: %v, refused %v; want those of the source that answers", list.Tools, list.Refused)
	}
	if len(list.Failing) != 1 || list.Failing[0].Source != "mcp:slow" || !list.Failing[0].Late {
		t.Errorf("failing: %+v; want mcp:slow, which is late", list.Failing)
	}
}

func TestUsedToolsOfALateSourceAreListedAsRemembered(t *testing.T) {
	src := offer("mcp:slow", mcp("mcp:slow:read", "reads"), mcp("mcp:slow:never", "is never used"))
	memory := &catalogMemory{}
	first, err := catalog.Open(catalog.Config{Sources: []catalog.Source{catalog.From(recalling{src})}, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Lookup("mcp:slow:read"); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	src.before = func(ctx context.Context) { <-ctx.Done() }
	second, err := catalog.Open(catalog.Config{Sources: []catalog.Source{catalog.From(recalling{src})}, Memory: memory})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	list := second.List(t.Context(), catalog.Filter{Wait: time.Millisecond})
	if len(list.Tools) != 1 || list.Tools[0].Spec.ID != "mcp:slow:read" || !list.Tools[0].Recalled {
		t.Errorf("tools: %+v; want mcp:slow:read as remembered", list.Tools)
	}
}

func TestFailuresAreRememberedAndTriedLessOften(t *testing.T) {
	now, memory := newClock(), &failures{}
	src := offer("mcp:down")
	src.set(errors.New("it is down"))
	list := func() catalog.Listing { // each time as another process
		c, err := catalog.Open(catalog.Config{Sources: []catalog.Source{catalog.From(recalling{src})}, Memory: memory, Now: now.now})
		if err != nil {
			t.Fatal(err)
		}
		l := c.List(t.Context(), catalog.Filter{})
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if l := list(); len(l.Failing) != 1 || src.asked.Load() != 1 {
		t.Fatalf("failing: %+v, asked %d times; want one failure of one attempt", l.Failing, src.asked.Load())
	}
	if got := memory.Failure("mcp:down"); got == nil || got.Count != 1 {
		t.Fatalf("remembered: %+v; want one failure", got)
	}
	now.pass(4 * time.Second)
	if l := list(); len(l.Failing) != 1 || src.asked.Load() != 1 {
		t.Errorf("failing: %+v, asked %d times; want the remembered failure and no attempt", l.Failing, src.asked.Load())
	}
	memory.Failed("mcp:down", &catalog.Failure{Since: now.now(), Tried: now.now(), Count: 3, Code: 2003, Message: "down"})
	now.pass(19 * time.Second) // after three failures it is 20 s
	if list(); src.asked.Load() != 1 {
		t.Errorf("asked %d times; want no attempt within the backoff", src.asked.Load())
	}
}

func TestSeenToolsOfALateSourceAreListedAsSeen(t *testing.T) {
	src := offer("mcp:slow", mcp("mcp:slow:read", "reads"))
	memory := &catalogMemory{}
	list := func(f catalog.Filter) catalog.Listing { // each time as another process
		c, err := catalog.Open(catalog.Config{Sources: []catalog.Source{catalog.From(recalling{src})}, Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		return c.List(t.Context(), f)
	}
	if l := list(catalog.Filter{}); len(l.Tools) != 1 || l.Tools[0].Recalled {
		t.Fatalf("tools: %+v; want one of the source itself", l.Tools)
	}
	src.before = func(ctx context.Context) { <-ctx.Done() }
	if l := list(catalog.Filter{Wait: time.Millisecond}); len(l.Tools) != 1 || l.Tools[0].Spec.Description != "reads" || !l.Tools[0].Recalled || !l.Tools[0].Accepted.IsZero() {
		t.Errorf("a person who looks gets %+v; want mcp:slow:read as it was seen", l.Tools)
	}
	if l := list(catalog.Filter{Wait: time.Millisecond, Use: true}); len(l.Tools) != 0 {
		t.Errorf("a client gets %+v; want nothing that was only seen", l.Tools)
	}
}

// TestAClientIsToldWhenASourceAnswersAgain: also before the back-off is over, where
// another process made the failure be forgotten, as a login does.
func TestAClientIsToldWhenASourceAnswersAgain(t *testing.T) {
	for name, again := range map[string]func(now *clock, m *failures){
		"the back-off is over": func(now *clock, _ *failures) { now.pass(time.Hour) },
		"a login":              func(_ *clock, m *failures) { m.Failed("mcp:down", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			now, memory := newClock(), &failures{}
			src := offer("mcp:down", mcp("mcp:down:get", "gets"))
			src.set(errors.New("it is down"))
			c := open(t, catalog.Config{Memory: memory, Now: now.now, Poll: time.Millisecond}, src)
			told := make(chan string, 8)
			defer c.Watch(func(source string) { told <- source })()
			if l := c.List(t.Context(), catalog.Filter{Use: true}); len(l.Failing) != 1 {
				t.Fatalf("failing: %+v; want mcp:down", l.Failing)
			}
			src.set(nil, mcp("mcp:down:get", "gets"))
			again(now, memory)
			if got := <-told; got != "mcp:down" {
				t.Errorf("told of %s", got)
			}
			find(t, c.List(t.Context(), catalog.Filter{Use: true}), "mcp:down:get")
		})
	}
}
