package runner_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// afar is a tool of another source.
type afar struct {
	*probe
	source string
}

func (a afar) Spec() *tool.Spec {
	s := a.probe.Spec()
	s.Source = a.source
	return s
}

func TestSourcesBoundCalls(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return time.Unix(1000+now.Load(), 0) }
	p, b := &probe{id: "far"}, &probe{id: "near"}
	h := newHouse(t, open, afar{p, "mcp-remote"}, b)
	h.rn.Sources = runner.NewSources(map[runner.Tier]runner.TierLimits{runner.RemoteMCP: {PerMinute: 2}}, clock)
	h.under("files: {read: {allow: ['**'], deny: [secret], ask: [ask]}}\ntools: {allow: ['*']}", nil)
	steps := []struct {
		at   int64
		tool tool.ID
		path string
		want fault.Code
	}{
		{0, "far", "a", 0}, {0, "far", "secret", fault.Denied}, {0, "far", "ask", fault.NeedsApproval}, {30, "far", "a", 0},
		{59, "far", "a", fault.LimitReached}, {59, "near", "a", 0}, {60, "far", "a", 0}, {61, "far", "a", fault.LimitReached}, {90, "far", "a", 0},
	}
	for i, s := range steps {
		now.Store(s.at)
		if o := h.call(s.tool, tool.Args{"path": s.path}); fault.CodeOf(orNone(o.Err)) != s.want {
			t.Errorf("call %d: %v, want %s", i+1, o.Err, s.want)
		}
	}
}

func orNone(err error) error {
	if err == nil {
		return fault.Code(0)
	}
	return err
}

func TestCallsOfASourceWaitTheirTurn(t *testing.T) {
	var under, most atomic.Int32
	p := &probe{id: "far", run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		n := under.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(time.Millisecond) // so that others get to wait
		under.Add(-1)
		return tool.Result{}, nil
	}}
	h := newHouse(t, open, afar{p, "nobody knows"})
	h.rn.Sources = runner.NewSources(map[runner.Tier]runner.TierLimits{runner.Cloud: {AtOnce: 3, RunTime: time.Minute}}, nil)
	h.under("tools: {allow: ['*']}", nil)
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			if o := h.call("far", nil); o.Status != tool.Completed {
				t.Errorf("%s %v", o.Status, o.Err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 3 {
		t.Errorf("%d were under way at once", most.Load())
	}
}

func TestWhoWaitsCanBeCancelled(t *testing.T) {
	began, done := make(chan struct{}), make(chan struct{})
	p := &probe{id: "far", run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		close(began)
		<-done
		return tool.Result{}, nil
	}}
	r := &ruler{}
	h := newHouse(t, open, afar{p, "mcp"})
	h.rn.Authority = r
	h.rn.Sources = runner.NewSources(map[runner.Tier]runner.TierLimits{runner.LocalMCP: {AtOnce: 1}}, nil)
	h.under("tools: {allow: ['*']}\non_revoke: finish", nil)
	first := make(chan runner.Outcome)
	go func() { first <- h.call("far", nil) }()
	<-began
	ctx, cancel := context.WithCancel(h.ctx)
	cancel()
	if o := h.rn.Execute(ctx, h.run, runner.Call{Tool: "far"}); o.Status != tool.Cancelled {
		t.Errorf("%s %v", o.Status, o.Err)
	}
	close(done)
	if o := <-first; o.Status != tool.Completed || p.ran.Load() != 1 || r.open != 0 {
		t.Errorf("%s %v, ran %d, open %d", o.Status, o.Err, p.ran.Load(), r.open)
	}
}

func TestARunTimeOfATierEndsACall(t *testing.T) {
	p := &probe{id: "far", run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	h := newHouse(t, open, afar{p, "extension"})
	h.rn.Sources = runner.NewSources(map[runner.Tier]runner.TierLimits{runner.Extension: {RunTime: 10 * time.Millisecond}}, nil)
	h.under("tools: {allow: ['*']}", nil)
	if o := h.call("far", nil); o.Status != tool.TimedOut || !errors.Is(o.Err, fault.ToolTimeout) {
		t.Errorf("%s %v", o.Status, o.Err)
	}
}

// A server that hangs holds up its own calls, for a bounded time, and nobody else's.
func TestAServerThatHangsDelaysNobodyElse(t *testing.T) {
	began, done := make(chan struct{}, 2), make(chan struct{})
	hangs := &probe{id: "mcp:stuck:call", run: func(context.Context, permit.Permit, tool.Args) (tool.Result, error) {
		began <- struct{}{}
		<-done
		return tool.Result{}, nil
	}}
	h := newHouse(t, open, afar{hangs, "mcp"}, afar{&probe{id: "mcp:fine:call"}, "mcp"}, afar{&probe{id: "mcp:stuck:other"}, "mcp"})
	h.rn.Sources = runner.NewSources(map[runner.Tier]runner.TierLimits{runner.LocalMCP: {AtOnce: 2, Wait: 10 * time.Millisecond}}, nil)
	h.under("tools: {allow: ['*']}", nil)
	ended := make(chan runner.Outcome, 2)
	for range 2 {
		go func() { ended <- h.call("mcp:stuck:call", nil) }()
		<-began
	}
	for range 5 {
		if o := h.call("mcp:fine:call", nil); o.Status != tool.Completed {
			t.Fatalf("another server's call: %s %v", o.Status, o.Err)
		}
	}
	if o := h.call("mcp:stuck:other", nil); !errors.Is(o.Err, fault.LimitReached) || !strings.Contains(o.Err.Error(), "mcp:stuck") {
		t.Errorf("a third call of the server that hangs: %s %v", o.Status, o.Err)
	}
	close(done)
	for range 2 {
		if o := <-ended; o.Status != tool.Completed {
			t.Errorf("%s %v", o.Status, o.Err)
		}
	}
	if o := h.call("mcp:stuck:other", nil); o.Status != tool.Completed {
		t.Errorf("after the others ended: %s %v", o.Status, o.Err)
	}
}
