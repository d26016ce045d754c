package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/tools/infer"
)

// fake is a tool that does nothing.
type fake struct {
	spec  tool.Spec
	hints infer.Hints
}

func (f *fake) Spec() *tool.Spec   { return &f.spec }
func (f *fake) Hints() infer.Hints { return f.hints }
func (*fake) Prepare(tool.Env, tool.Args) (permit.Prepared, error) {
	return permit.Prepared{}, nil
}

const anySchema = `{"type":"object","additionalProperties":false,"properties":{"path":{"type":"string"}}}`

func mcp(id, description string) *fake {
	return &fake{spec: tool.Spec{ID: tool.ID(id), Description: description, Source: "mcp", Input: json.RawMessage(anySchema)}}
}

func builtin(id string) *fake {
	return &fake{spec: tool.Spec{ID: tool.ID(id), Title: id, Source: "builtin", Input: json.RawMessage(anySchema), Effects: tool.EffectSet(tool.FSRead)}}
}

// source is a source whose answers a test chooses.
type source struct {
	name    string
	changed chan struct{}
	asked   atomic.Int32
	closed  atomic.Int32

	mu     sync.Mutex
	tools  []*fake
	err    error
	before func(ctx context.Context) // called first by Discover
}

func offer(name string, tools ...*fake) *source {
	return &source{name: name, tools: tools, changed: make(chan struct{}, 1)}
}

func (s *source) Name() string             { return s.name }
func (s *source) Changed() <-chan struct{} { return s.changed }
func (s *source) Close() error             { s.closed.Add(1); return nil }

func (s *source) Discover(ctx context.Context) ([]*fake, error) {
	s.asked.Add(1)
	s.mu.Lock()
	before, tools, err := s.before, s.tools, s.err
	s.mu.Unlock()
	if before != nil {
		before(ctx)
	}
	if err == nil {
		err = ctx.Err()
	}
	return tools, err
}

// recalling is a source that must not be started to know a tool.
type recalling struct{ *source }

func (r recalling) Recall(spec *tool.Spec, h infer.Hints) *fake {
	h.Cannot = tool.EffectSet(tool.NetworkHTTP)
	return &fake{spec: *spec, hints: h}
}

func (s *source) set(err error, tools ...*fake) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.tools = err, tools
}

// tell sends a change notice and waits until it was taken.
func (s *source) tell(t *testing.T) {
	t.Helper()
	s.changed <- struct{}{}
	until(t, "the notice is taken", func() bool { return len(s.changed) == 0 })
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happened that %s", what)
		}
	}
}

// clock is a time that a test moves.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time       { return time.Unix(0, c.at.Load()).UTC() }
func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

func open(t *testing.T, cfg catalog.Config, sources ...*source) *catalog.Catalog {
	t.Helper()
	for _, s := range sources {
		cfg.Sources = append(cfg.Sources, catalog.From(s))
	}
	if cfg.BuiltIn == nil {
		cfg.BuiltIn = []permit.Tool{builtin("fs.read"), builtin("shell.run")}
	}
	c, err := catalog.Open(cfg)
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

func ids(l catalog.Listing) []string {
	out := []string{}
	for _, t := range l.Tools {
		out = append(out, string(t.Spec.ID))
	}
	return out
}

func find(t *testing.T, l catalog.Listing, id string) catalog.Tool {
	t.Helper()
	for _, x := range l.Tools {
		if string(x.Spec.ID) == id {
			return x
		}
	}
	t.Fatalf("%s is not listed: %v; refused %v, failing %v", id, ids(l), l.Refused, l.Failing)
	return catalog.Tool{}
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Fatalf("the error is %v, want %v", err, code)
	}
}
