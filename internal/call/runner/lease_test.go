package runner_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// leased is a recorder that loses its lease when a test says so.
type leased struct {
	runner.Recorder

	after ledger.Kind // an event after which it is lost; 0: none

	mu   sync.Mutex
	err  error
	lost chan struct{}
}

func (l *leased) Append(ctx context.Context, entries ...ledger.Entry) (ledger.Seq, error) {
	seq, err := l.Recorder.Append(ctx, entries...)
	for _, e := range entries {
		if e.Event.Kind == l.after {
			l.lose()
		}
	}
	return seq, err
}

func (l *leased) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fault.New(fault.StoreFailed, "another node took over")
		close(l.lost)
	}
}

func (l *leased) HoldsLease() (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost, l.err
}

// TestACallWithoutALeaseDoesNotStart: the node lost its lease after the call's intent was
// recorded, as one that was stopped there.
func TestACallWithoutALeaseDoesNotStart(t *testing.T) {
	p := &probe{id: "probe.act", effects: tool.EffectSet(tool.FSWrite)}
	h := newHouse(t, open, p)
	h.rn.Record = &leased{Recorder: h.st, after: ledger.CallIntent, lost: make(chan struct{})}
	o := h.call("probe.act", nil)
	if p.ran.Load() != 0 || o.Fatal == nil || !errors.Is(o.Err, fault.StoreFailed) {
		t.Errorf("ran %d times: %v, fatal %v", p.ran.Load(), o.Err, o.Fatal)
	}
}

// TestACallEndsWithTheLease: a call under way is ended when its node loses the lease.
func TestACallEndsWithTheLease(t *testing.T) {
	l := &leased{lost: make(chan struct{})}
	p := &probe{id: "probe.act", effects: tool.EffectSet(tool.FSWrite), run: func(ctx context.Context, _ permit.Permit, _ tool.Args) (tool.Result, error) {
		l.lose()
		<-ctx.Done()
		return tool.Result{}, ctx.Err()
	}}
	h := newHouse(t, open, p)
	l.Recorder, h.rn.Record = h.st, l
	if o := h.call("probe.act", nil); !errors.Is(o.Err, fault.Interrupted) || o.Status != tool.StatusInterrupted {
		t.Errorf("the call ended with %v", o.Err)
	}
}
