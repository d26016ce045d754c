package catalog_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/call/catalog"
)

// thousand is what twenty busy servers offer, as long as real ones describe it.
func thousand() []*source {
	var out []*source
	for i := range 20 {
		s := offer(fmt.Sprintf("mcp:server%c", 'a'+i))
		for j := range 50 {
			id := fmt.Sprintf("%s:get_thing_%c%c", s.name, 'a'+j/26, 'a'+j%26)
			f := mcp(id, strings.Repeat("Gives the things of the project that were changed since the given time. ", 6))
			f.spec.Input = []byte(`{"type":"object","additionalProperties":false,"properties":{` +
				`"project":{"type":"string","description":"the name of the project"},"since":{"type":"string","description":"the time, as 2026-01-31"},` +
				`"page":{"type":"integer","minimum":1,"description":"which page"},"sort":{"enum":["name","time"],"description":"how to sort them"}},"required":["project"]}`)
			s.tools = append(s.tools, f)
		}
		out = append(out, s)
	}
	return out
}

func opened(b *testing.B, cfg catalog.Config, sources []*source) *catalog.Catalog {
	b.Helper()
	for _, s := range sources {
		cfg.Sources = append(cfg.Sources, catalog.From(s))
	}
	c, err := catalog.Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkReady is the time from nothing to a list of the tools of 20 sources,
// each of which takes 100 ms to answer.
func BenchmarkReady(b *testing.B) {
	sources := thousand()
	for _, s := range sources {
		s.before = func(context.Context) { time.Sleep(100 * time.Millisecond) }
	}
	for b.Loop() {
		c := opened(b, catalog.Config{}, sources)
		if n := len(c.List(b.Context(), catalog.Filter{}).Tools); n != 1000 {
			b.Fatal(n)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkList1000(b *testing.B) {
	c := opened(b, catalog.Config{}, thousand())
	c.List(b.Context(), catalog.Filter{})
	for b.Loop() {
		if n := len(c.List(b.Context(), catalog.Filter{Enabled: true, Use: true}).Tools); n != 1000 {
			b.Fatal(n)
		}
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkLookup(b *testing.B) {
	c := opened(b, catalog.Config{}, thousand())
	for b.Loop() {
		if _, err := c.Lookup("mcp:servera:get_thing_aa"); err != nil {
			b.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

// TestReadyInTheTimeOfTheSlowest: sources are asked at once, and not one after
// the other.
func TestReadyInTheTimeOfTheSlowest(t *testing.T) {
	sources := thousand()
	arrived, all := make(chan struct{}, len(sources)), make(chan struct{})
	for _, s := range sources {
		s.before = func(ctx context.Context) { // none answers before each was asked
			arrived <- struct{}{}
			select {
			case <-all:
			case <-ctx.Done():
			}
		}
	}
	go func() {
		for range sources {
			<-arrived
		}
		close(all)
	}()
	c := open(t, catalog.Config{}, sources...)
	l := c.List(t.Context(), catalog.Filter{Source: "mcp"})
	if len(l.Tools) != 1000 || len(l.Failing) != 0 || !slices.IsSorted(ids(l)) {
		t.Fatalf("%d tools, failing is %v", len(l.Tools), l.Failing)
	}
}
