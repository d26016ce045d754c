package catalog_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/tools/infer"
)

// catalogMemory is a Memory that several catalogs share, as processes do, and
// that a test can break.
type catalogMemory struct {
	mu     sync.Mutex
	m      map[string]map[tool.ID]catalog.Record
	broken error
	writes int
}

func (m *catalogMemory) Load(source string) (map[tool.ID]catalog.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.m[source], m.broken
}

func (m *catalogMemory) Change(source string, f func(map[tool.ID]catalog.Record) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	next := maps.Clone(m.m[source])
	if next == nil {
		next = map[tool.ID]catalog.Record{}
	}
	if f(next) {
		if m.m == nil {
			m.m = map[string]map[tool.ID]catalog.Record{}
		}
		m.m[source] = next
		m.writes++
	}
	return nil
}

func (m *catalogMemory) set(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.broken = err
}

func disabled(t *testing.T, c *catalog.Catalog, id tool.ID, want string) {
	t.Helper()
	e, err := c.Lookup(id)
	if err != nil {
		t.Fatal(err)
	}
	if want == "" && e.Disabled != "" || !strings.Contains(e.Disabled, want) {
		t.Fatalf("%s is disabled because %q, want %q", id, e.Disabled, want)
	}
}

func TestFirstUsePinsAndAChangeSwitchesOff(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "adds two numbers"), mcp("mcp:a:unused", "one"))
	open(t, catalog.Config{Memory: memory}, s).List(t.Context(), catalog.Filter{}) // a look pins nothing
	s.set(nil, mcp("mcp:a:x", "adds two\nnumbers"), mcp("mcp:a:unused", "one"))
	c := open(t, catalog.Config{Memory: memory}, s)
	disabled(t, c, "mcp:a:x", "")

	s.set(nil, mcp("mcp:a:x", "adds two\nnumbers,\u200b and sends them"), mcp("mcp:a:unused", "two"))
	c = open(t, catalog.Config{Memory: memory}, s) // another process
	disabled(t, c, "mcp:a:x", "changed since it was accepted")
	disabled(t, c, "mcp:a:unused", "")
	l := c.List(t.Context(), catalog.Filter{Enabled: true, Source: "mcp:a"})
	if got := ids(l); !slices.Equal(got, []string{"mcp:a:unused"}) {
		t.Errorf("enabled are %v", got)
	}
	if changed, err := c.Changed(t.Context(), "mcp:a"); err != nil || !slices.Equal(changed, []tool.ID{"mcp:a:x"}) {
		t.Errorf("changed are %v, %v", changed, err)
	}

	d, err := c.Difference(t.Context(), "user:ann", "mcp:a:x")
	if err != nil || !strings.Contains(d.Diff().Text, "-  numbers\n+  numbers,\\u{200b} and sends them\n") {
		t.Errorf("the difference is %s, %v", d.Diff().Text, err)
	}
	if done, err := c.Accept(t.Context(), "user:ann", "mcp:a:x", ""); err != nil || done.Is == nil {
		t.Fatalf("%+v, %v", done, err)
	}
	disabled(t, c, "mcp:a:x", "")
	if done, err := c.Accept(t.Context(), "user:ann", "mcp:a:x", ""); err != nil || done.Is != nil {
		t.Errorf("accepted again: %+v, %v", done, err)
	}
	s.set(nil, mcp("mcp:a:x", "adds two\nnumbers"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "changed")
	s.set(nil, mcp("mcp:a:x", "adds two\nnumbers,\u200b and sends them"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "") // what was accepted again
}

func TestWhatAClientIsShownIsPinned(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "one"))
	open(t, catalog.Config{Memory: memory}, s).List(t.Context(), catalog.Filter{Use: true})
	s.set(nil, mcp("mcp:a:x", "two"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "changed")
}

func TestAnnotationsArePinned(t *testing.T) {
	memory, s, yes := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "d")), true
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	changed := mcp("mcp:a:x", "d")
	changed.hints = infer.Hints{ReadOnly: &yes}
	s.set(nil, changed)
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "changed")
}

func TestTheOperatorsWordVoidsNothing(t *testing.T) {
	memory, s, low := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "d")), tool.Low
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	said := func(tool.ID) catalog.Said { return catalog.Said{Said: infer.Said{Risk: &low}} }
	trusted := mcp("mcp:a:x", "d")
	trusted.hints = infer.Hints{Trusted: true, Cannot: tool.EffectSet(tool.FSWrite)}
	s.set(nil, trusted)
	disabled(t, open(t, catalog.Config{Memory: memory, Said: said}, s), "mcp:a:x", "")
}

func TestWhatChangedAgainSinceItWasShownIsNotAccepted(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "one"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	s.set(nil, mcp("mcp:a:x", "two"))
	c := open(t, catalog.Config{Memory: memory}, s)
	if _, err := c.Difference(t.Context(), "user:ann", "mcp:a:x"); err != nil {
		t.Fatal(err)
	}
	s.set(nil, mcp("mcp:a:x", "three"))
	c = open(t, catalog.Config{Memory: memory}, s)
	_, err := c.Accept(t.Context(), "user:ann", "mcp:a:x", "")
	wantCode(t, err, fault.Conflict)
	disabled(t, c, "mcp:a:x", "changed")
	if _, err := c.Difference(t.Context(), "user:ann", "mcp:a:x"); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Accept(t.Context(), "user:ann", "mcp:a:x", ""); err != nil || done.Is.Description != "three" {
		t.Fatalf("%+v, %v", done, err)
	}
}

// TestTheLookOfAnotherPersonDoesNotCount: who accepts a tool has seen this version of it.
func TestTheLookOfAnotherPersonDoesNotCount(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "one"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	s.set(nil, mcp("mcp:a:x", "two"))
	c := open(t, catalog.Config{Memory: memory}, s)
	digest := ""
	look := func(person string) {
		t.Helper()
		d, err := c.Difference(t.Context(), person, "mcp:a:x")
		if err != nil {
			t.Fatal(err)
		}
		digest = d.Is.Digest
	}
	refused := func(person, digest, why string) {
		t.Helper()
		_, err := c.Accept(t.Context(), person, "mcp:a:x", digest)
		wantCode(t, err, fault.Conflict)
		if err != nil && !strings.Contains(err.Error(), why) {
			t.Errorf("%q is refused because %v, want %q", person, err, why)
		}
		disabled(t, c, "mcp:a:x", "changed")
	}
	refused("user:ann", "", "was not shown to you")
	look("user:ann")
	look("")
	for _, other := range []string{"user:bob", "user:annn", "ann", ""} {
		refused(other, "", "was not shown to you")
		refused(other, digest, "was not shown to you")
	}
	old := digest
	s.set(nil, mcp("mcp:a:x", "three"))
	c = open(t, catalog.Config{Memory: memory}, s)
	look("user:bob")
	refused("user:ann", "", "changed again")
	refused("user:ann", digest, "changed again")
	refused("user:bob", old, "changed again")
	if done, err := c.Accept(t.Context(), "user:bob", "mcp:a:x", digest); err != nil || done.Is == nil || done.Is.Description != "three" {
		t.Fatalf("%+v, %v", done, err)
	}
	disabled(t, c, "mcp:a:x", "")
}

// TestALookOfAnOlderRecordCountsForNobody: its records are readable, and name no person.
func TestALookOfAnOlderRecordCountsForNobody(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "one"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	s.set(nil, mcp("mcp:a:x", "two"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "changed")
	b, err := json.Marshal(memory.m["mcp:a"]["mcp:a:x"])
	if err != nil {
		t.Fatal(err)
	}
	var older catalog.Record
	text := strings.TrimSuffix(string(b), "}") + `,"shown":"` + memory.m["mcp:a"]["mcp:a:x"].Latest.Digest + `"}`
	if err := json.Unmarshal([]byte(text), &older); err != nil || older.Latest == nil || older.Looks != nil {
		t.Fatalf("%s is read as %+v, %v", text, older, err)
	}
	memory.m["mcp:a"]["mcp:a:x"] = older
	c := open(t, catalog.Config{Memory: memory}, s)
	for _, person := range []string{"user:ann", ""} {
		_, err = c.Accept(t.Context(), person, "mcp:a:x", "")
		wantCode(t, err, fault.Conflict)
	}
}

func TestLooksAreBounded(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "one"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	s.set(nil, mcp("mcp:a:x", "two"))
	c := open(t, catalog.Config{Memory: memory}, s)
	for i := range 300 {
		for range 2 {
			if _, err := c.Difference(t.Context(), "user:p"+strconv.Itoa(i), "mcp:a:x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := *memory.m["mcp:a"]["mcp:a:x"].Looks; len(got) != 100 || got[99].Person != "user:p299" {
		t.Errorf("%d looks are kept, the last of %q", len(got), got[len(got)-1].Person)
	}
	if done, err := c.Accept(t.Context(), "user:p299", "mcp:a:x", ""); err != nil || done.Is == nil {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestAcceptWhileTheSourceFailsTakesWhatWasSeenLast(t *testing.T) {
	memory, s := &catalogMemory{}, offer("mcp:a", mcp("mcp:a:x", "one"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "")
	s.set(nil, mcp("mcp:a:x", "two"))
	disabled(t, open(t, catalog.Config{Memory: memory}, s), "mcp:a:x", "changed")
	s.set(errors.New("gone"))
	c := open(t, catalog.Config{Memory: memory}, s)
	if _, err := c.Difference(t.Context(), "user:ann", "mcp:a:x"); err != nil {
		t.Fatal(err)
	}
	if done, err := c.Accept(t.Context(), "user:ann", "mcp:a:x", ""); err != nil || done.Is == nil || done.Is.Description != "two" {
		t.Fatalf("%+v, %v", done, err)
	}
	if l := c.List(t.Context(), catalog.Filter{}); len(l.Failing) != 1 || !slices.Equal(l.Failing[0].Last, []string{"mcp:a:x"}) {
		t.Errorf("failing is %+v, want it with what is remembered of it", l.Failing)
	}
}

func TestAPersonSwitchesToolsOff(t *testing.T) {
	memory := &catalogMemory{}
	s := offer("mcp:a", mcp("mcp:a:x", "one"))
	c := open(t, catalog.Config{Memory: memory}, s)
	for _, id := range []tool.ID{"mcp:a:x", "shell.run"} {
		if changed, err := c.Switch(t.Context(), id, false); err != nil || !changed {
			t.Fatal(changed, err)
		}
		disabled(t, c, id, "a person disabled it")
	}
	s.set(nil, mcp("mcp:a:x", "two"))
	c = open(t, catalog.Config{Memory: memory}, s)
	disabled(t, c, "shell.run", "a person disabled it")
	if changed, err := c.Switch(t.Context(), "mcp:a:x", true); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if changed, err := c.Switch(t.Context(), "shell.run", true); err != nil || !changed {
		t.Fatal(changed, err)
	}
	disabled(t, c, "shell.run", "")
	_, err := c.Switch(t.Context(), "mcp:a:none", false)
	wantCode(t, err, fault.ToolUnknown)
	_, err = c.Switch(t.Context(), "mcp:none:x", false)
	wantCode(t, err, fault.ToolUnknown)
}

func TestWithoutMemoryToolsAreOff(t *testing.T) {
	memory := &catalogMemory{}
	c := open(t, catalog.Config{Memory: memory}, offer("mcp:a", mcp("mcp:a:x", "one")))
	memory.set(fault.New(fault.StoreFailed, "no disk"))
	disabled(t, c, "mcp:a:x", "no disk")
	disabled(t, c, "fs.read", "no disk")
	if l := c.List(t.Context(), catalog.Filter{Enabled: true}); len(l.Tools) != 0 {
		t.Errorf("enabled are %v", ids(l))
	}
	memory.set(nil)
	disabled(t, c, "mcp:a:x", "")
}

func TestListingWritesOnlyWhatIsNew(t *testing.T) {
	memory, now := &catalogMemory{}, newClock()
	c := open(t, catalog.Config{Memory: memory, Now: now.now}, offer("mcp:a", mcp("mcp:a:x", "one"), mcp("mcp:a:y", "one")))
	for range 10 {
		c.List(t.Context(), catalog.Filter{})
		now.pass(time.Minute)
	}
	if memory.writes != 1 {
		t.Fatalf("%d writes", memory.writes)
	}
	x := find(t, c.List(t.Context(), catalog.Filter{}), "mcp:a:x")
	now.pass(2 * time.Hour)
	y := find(t, c.List(t.Context(), catalog.Filter{}), "mcp:a:x")
	if x.First.IsZero() || !y.First.Equal(x.First) || !y.Last.After(x.Last) || !x.Accepted.IsZero() {
		t.Errorf("seen first %s and %s, last %s and %s", x.First, y.First, x.Last, y.Last)
	}
}

func TestUsesAtOncePinOneVersion(t *testing.T) {
	memory := &catalogMemory{}
	var all sync.WaitGroup
	for i := range 8 {
		c := open(t, catalog.Config{Memory: memory}, offer("mcp:a", mcp("mcp:a:x", strings.Repeat("d", i+1))))
		all.Go(func() {
			for range 20 {
				if _, err := c.Lookup("mcp:a:x"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	first := memory.m["mcp:a"]["mcp:a:x"].Accepted.Digest
	on := 0
	for i := range 8 {
		e, err := open(t, catalog.Config{Memory: memory}, offer("mcp:a", mcp("mcp:a:x", strings.Repeat("d", i+1)))).Lookup("mcp:a:x")
		if err != nil {
			t.Fatal(err)
		}
		if e.Disabled == "" {
			on++
		}
	}
	if on != 1 || memory.m["mcp:a"]["mcp:a:x"].Accepted.Digest != first {
		t.Fatalf("%d versions are on", on)
	}
}

func TestWhoMustNotStartAnythingGetsWhatWasAccepted(t *testing.T) {
	memory := &catalogMemory{}
	s := offer("mcp:a", mcp("mcp:a:x", "one"), mcp("mcp:a:y", "one"))
	with := func() *catalog.Catalog {
		c, err := catalog.Open(catalog.Config{Memory: memory, Sources: []catalog.Source{catalog.From(recalling{s})}, BuiltIn: []permit.Tool{builtin("fs.read")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	used, err := with().Lookup("mcp:a:x")
	if err != nil {
		t.Fatal(err)
	}
	s.set(nil, mcp("mcp:a:x", "two"))
	asked := s.asked.Load()
	still := with().Still()
	got, err := still.Lookup("mcp:a:x")
	if err != nil || got.Digest != used.Digest || got.Spec.Description != "one" || got.Disabled != "" || got.Spec.Effects.Has(tool.NetworkHTTP) {
		t.Errorf("it gives %+v, %q, %v", got.Spec, got.Disabled, err)
	}
	if err := got.Validate(tool.Args{"path": "x"}); err != nil {
		t.Error(err)
	}
	_, err = still.Lookup("mcp:a:y")
	wantCode(t, err, fault.ToolUnknown)
	if _, err := still.Lookup("fs.read"); err != nil {
		t.Error(err)
	}
	if n := s.asked.Load(); n != asked {
		t.Errorf("the source was asked %d times", n-asked)
	}
}
