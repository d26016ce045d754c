package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestToolsOfAllSourcesAreListedSideBySide(t *testing.T) {
	c := open(t, catalog.Config{}, offer("mcp:b", mcp("mcp:b:two", "d"), mcp("mcp:b:one", "d")), offer("mcp:a", mcp("mcp:a:x", "d")))
	got := ids(c.List(t.Context(), catalog.Filter{}))
	want := []string{"fs.read", "mcp:a:x", "mcp:b:one", "mcp:b:two", "shell.run"}
	if !slices.Equal(got, want) {
		t.Fatalf("listed are %v, want %v", got, want)
	}
}

func TestBuiltInToolAsksNoSource(t *testing.T) {
	s := offer("mcp:a", mcp("mcp:a:x", "d"))
	c := open(t, catalog.Config{}, s)
	if _, err := c.Lookup("fs.read"); err != nil {
		t.Fatal(err)
	}
	_, err := c.Lookup("fs.raed")
	wantCode(t, err, fault.ToolUnknown)
	if n := s.asked.Load(); n != 0 {
		t.Fatalf("the source was asked %d times", n)
	}
}

func TestLookupAsksOnlyTheToolsOwnSource(t *testing.T) {
	a, b := offer("mcp:a", mcp("mcp:a:x", "d")), offer("mcp:b", mcp("mcp:b:x", "d"))
	c := open(t, catalog.Config{}, a, b)
	for range 3 {
		if e, err := c.Lookup("mcp:a:x"); err != nil || e.Disabled != "" {
			t.Fatalf("%v, %q", err, e.Disabled)
		}
	}
	_, err := c.Lookup("mcp:a:y")
	wantCode(t, err, fault.ToolUnknown)
	if a.asked.Load() != 1 || b.asked.Load() != 0 {
		t.Fatalf("asked %d and %d times, want once and never", a.asked.Load(), b.asked.Load())
	}
}

func TestManyAskOnce(t *testing.T) {
	s := offer("mcp:a", mcp("mcp:a:x", "d"))
	go_ := make(chan struct{})
	s.before = func(context.Context) { <-go_ }
	c := open(t, catalog.Config{}, s)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := c.Lookup("mcp:a:x"); err != nil {
				t.Error(err)
			}
		})
	}
	until(t, "the source is asked", func() bool { return s.asked.Load() > 0 })
	close(go_)
	all.Wait()
	if n := s.asked.Load(); n != 1 {
		t.Fatalf("asked %d times", n)
	}
}

func TestWhatFailsHidesNothingElse(t *testing.T) {
	hangs, fails, crashes := offer("mcp:hangs"), offer("mcp:fails"), offer("mcp:crashes")
	stop := make(chan struct{})
	hangs.before = func(context.Context) { <-stop } // whatever its context says
	fails.err = errors.New("no such command")
	crashes.before = func(context.Context) { panic("boom") }
	c := open(t, catalog.Config{Timeout: 2 * time.Second}, hangs, offer("mcp:good", mcp("mcp:good:x", "d")), fails, crashes, offer("bad name"))
	defer close(stop)
	l := c.List(t.Context(), catalog.Filter{})
	if got := ids(l); !slices.Contains(got, "mcp:good:x") || len(got) != 3 {
		t.Fatalf("listed are %v", got)
	}
	want := map[string]string{"mcp:hangs": "within 2s", "mcp:fails": "no such command", "mcp:crashes": "boom", "bad name": "is not a valid source name"}
	for _, f := range l.Failing {
		if !strings.Contains(f.Err.Error(), want[f.Source]) || want[f.Source] == "" {
			t.Errorf("%s fails with %v", f.Source, f.Err)
		}
		delete(want, f.Source)
	}
	if len(want) > 0 {
		t.Errorf("not told of: %v", want)
	}
	before := time.Now()
	_, err := c.Lookup("mcp:hangs:x")
	wantCode(t, err, fault.ToolFailed)
	if hangs.asked.Load() != 1 || time.Since(before) > time.Minute {
		t.Errorf("a source that hangs was asked %d times, and the second answer took %s", hangs.asked.Load(), time.Since(before))
	}
}

func TestToolsOfAFailingSourceAreKeptAndTold(t *testing.T) {
	s, now := offer("mcp:a", mcp("mcp:a:x", "d")), newClock()
	c := open(t, catalog.Config{Now: now.now}, s)
	c.List(t.Context(), catalog.Filter{})
	s.set(errors.New("gone"))
	now.pass(2 * time.Minute)
	var l catalog.Listing
	until(t, "it is told to fail", func() bool {
		l = c.List(t.Context(), catalog.Filter{})
		return len(l.Failing) == 1
	})
	f := l.Failing[0]
	if f.Source != "mcp:a" || !f.Since.Equal(now.now()) || !slices.Equal(f.Last, []string{"mcp:a:x"}) {
		t.Errorf("told is %+v", f)
	}
	find(t, l, "mcp:a:x")
	s.set(nil, mcp("mcp:a:x", "d"))
	now.pass(time.Minute)
	until(t, "it works again", func() bool { return len(c.List(t.Context(), catalog.Filter{}).Failing) == 0 })
}

func TestAListDoesNotWaitForWhatFailedBefore(t *testing.T) {
	s, now := offer("mcp:a", mcp("mcp:a:x", "d")), newClock()
	s.set(errors.New("gone"), mcp("mcp:a:x", "d"))
	c := open(t, catalog.Config{Now: now.now}, s)
	c.List(t.Context(), catalog.Filter{})
	now.pass(time.Minute)
	hold := make(chan struct{})
	s.mu.Lock()
	s.err, s.before = nil, func(context.Context) { <-hold }
	s.mu.Unlock()
	if l := c.List(t.Context(), catalog.Filter{}); len(l.Failing) != 1 || len(l.Tools) != 2 {
		t.Errorf("listed are %v, failing %v", ids(l), l.Failing)
	}
	close(hold) // had the list waited, it would wait still
	until(t, "it works again", func() bool { return len(c.List(t.Context(), catalog.Filter{}).Failing) == 0 })
	if _, err := c.Lookup("mcp:a:x"); err != nil {
		t.Error(err)
	}
}

func TestWhatIsFreshIsNotAskedAgain(t *testing.T) {
	s, now := offer("mcp:a", mcp("mcp:a:x", "d")), newClock()
	c := open(t, catalog.Config{Now: now.now}, s)
	for range 5 {
		c.List(t.Context(), catalog.Filter{})
		now.pass(10 * time.Second)
	}
	if n := s.asked.Load(); n != 1 {
		t.Fatalf("asked %d times in 50 s", n)
	}
	s.set(nil, mcp("mcp:a:y", "d"))
	now.pass(11 * time.Second)
	if got := ids(c.List(t.Context(), catalog.Filter{Source: "mcp:a"})); !slices.Equal(got, []string{"mcp:a:x"}) {
		t.Fatalf("while it is asked again listed are %v, want what there was", got)
	}
	until(t, "the new tool is listed", func() bool {
		return slices.Equal(ids(c.List(t.Context(), catalog.Filter{Source: "mcp:a"})), []string{"mcp:a:y"})
	})
}

func TestARefreshAsksAgain(t *testing.T) {
	s, now := offer("mcp:a", mcp("mcp:a:x", "d")), newClock()
	c := open(t, catalog.Config{Now: now.now, Fresh: time.Hour}, s)
	c.List(t.Context(), catalog.Filter{})
	s.set(nil, mcp("mcp:a:y", "d"))
	until(t, "it is asked again", func() bool { // not within a second
		c.Refresh()
		l := c.List(t.Context(), catalog.Filter{Source: "mcp:a"})
		return len(l.Tools) == 1 && l.Tools[0].Spec.ID == "mcp:a:y"
	})
}

func TestWhatIsOldIsNotGoneBy(t *testing.T) {
	s, now := offer("mcp:a", mcp("mcp:a:x", "one")), newClock()
	c := open(t, catalog.Config{Now: now.now}, s)
	disabled(t, c, "mcp:a:x", "")
	s.set(nil, mcp("mcp:a:x", "two"))
	now.pass(time.Hour)
	disabled(t, c, "mcp:a:x", "changed")
	s.set(errors.New("gone"))
	now.pass(time.Hour)
	_, err := c.Lookup("mcp:a:x")
	wantCode(t, err, fault.ToolFailed)
}

func TestAfterANoticeLookupGivesTheNewest(t *testing.T) {
	s := offer("mcp:a", mcp("mcp:a:x", "one"))
	told := make(chan string, 10)
	c := open(t, catalog.Config{}, s)
	defer c.Watch(func(name string) { told <- name })()
	first, err := c.Lookup("mcp:a:x")
	if err != nil {
		t.Fatal(err)
	}
	s.set(nil, mcp("mcp:a:x", "two"))
	s.tell(t)
	until(t, "the newest is found", func() bool {
		e, err := c.Lookup("mcp:a:x")
		return err == nil && e.Spec.Description == "two" && e.Digest != first.Digest && e.Disabled != ""
	})
	if name := <-told; name != "mcp:a" {
		t.Errorf("told was %q", name)
	}
}

func TestNoticesAllTheTimeDoNotAskAllTheTime(t *testing.T) {
	s := offer("mcp:a", mcp("mcp:a:x", "d"))
	c := open(t, catalog.Config{}, s)
	c.List(t.Context(), catalog.Filter{})
	for range 2000 {
		s.changed <- struct{}{}
	}
	if n := s.asked.Load(); n > 60 {
		t.Fatalf("asked %d times", n)
	}
}

func TestFloodIsBounded(t *testing.T) {
	var tools []*fake
	for i := range 12_000 {
		tools = append(tools, mcp(fmt.Sprintf("mcp:flood:tool_%d_", i), strings.Repeat("d ", 50)))
	}
	s := offer("mcp:flood", tools...)
	c := open(t, catalog.Config{}, s, offer("mcp:good", mcp("mcp:good:x", "d")))
	l := c.List(t.Context(), catalog.Filter{})
	find(t, l, "mcp:good:x")
	if len(l.Tools) != 10_003 || len(l.Refused) == 0 || !strings.Contains(l.Refused[0].Why, "12000 tools") {
		t.Fatalf("%d tools are listed, refused is %v", len(l.Tools), l.Refused)
	}
}

func TestCloseEndsSources(t *testing.T) {
	s := offer("mcp:a", mcp("mcp:a:x", "d"))
	s.before = func(ctx context.Context) { <-ctx.Done() }
	c := open(t, catalog.Config{}, s)
	done := make(chan error)
	go func() { _, err := c.Lookup("mcp:a:x"); done <- err }()
	until(t, "it is asked", func() bool { return s.asked.Load() == 1 })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("a lookup goes through after the end")
	}
	if err := c.Close(); err != nil || s.closed.Load() != 1 {
		t.Errorf("closed %d times, %v", s.closed.Load(), err)
	}
}

func TestSourcesComeAndGo(t *testing.T) {
	c := open(t, catalog.Config{})
	s := offer("mcp:a", mcp("mcp:a:x", "d"))
	c.Add(catalog.From(s))
	c.Add(catalog.Broken("api", errors.New("bad file")))
	if l := c.List(t.Context(), catalog.Filter{}); len(l.Failing) != 1 || l.Failing[0].Source != "api" || l.Failing[0].Err.Error() != "bad file" {
		t.Errorf("failing is %+v", l.Failing)
	}
	if _, err := c.Lookup("mcp:a:x"); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove("mcp:a"); err != nil || s.closed.Load() != 1 {
		t.Fatalf("closed %d times, %v", s.closed.Load(), err)
	}
	_, err := c.Lookup("mcp:a:x")
	wantCode(t, err, fault.ToolUnknown)
}
