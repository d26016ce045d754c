package runner

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Context is the labels of the data that a session, or a run without one, has seen so far.
// Labels are only added. The zero Context has none. It is safe for concurrent use.
type Context struct {
	mu     sync.Mutex
	labels []string // sorted, replaced and never changed
	clock  uint64   // counts readings and additions, so that a replay can repeat their order
	life   string   // names the clock; "": not needed yet
	values
}

// Add adds labels.
func (c *Context) Add(labels []string) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	for _, l := range labels {
		if at, known := slices.BinarySearch(c.labels, l); !known {
			c.labels = slices.Insert(slices.Clone(c.labels), at, l)
		}
	}
	return c.clock
}

// Labels lists the labels, sorted. The caller must not change the list.
func (c *Context) Labels() []string {
	labels, _ := c.read()
	return labels
}

func (c *Context) read() ([]string, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clock++
	return c.labels, c.clock
}

// flowOf holds the state of a call that concerns labels.
type flowOf struct {
	flows *policy.Flows // of the call's chain
	of    policy.Of
	seen  ledger.CallFlow
	added []string // by the call, when it begins
	files fileFlow
}

// checkFlows decides the call by the labels of its context and of the files and hosts that it
// names. From here on the call's chain has the flows of these labels, so they also hold in the
// handles and in the sandbox. The session's model is asked in any context: its operator chose it.
func (f *flight) checkFlows(ctx context.Context) error {
	if f.run.flows == nil && f.bounds.none() || f.c.Thought {
		return nil
	}
	flows := f.run.flows
	if !f.bounds.none() {
		var err error
		if flows, err = f.chain.Flows(); flows == nil || err != nil {
			return err
		}
	}
	labels, at := f.run.Context.read()
	f.flow = &flowOf{flows: flows, seen: ledger.CallFlow{Context: labels, Read: at}}
	if f.run.Recall != nil {
		was, err := f.run.Recall.Flow(ctx, f.c)
		if err != nil {
			return err
		}
		was.Read, was.Added, was.Judged, was.Endorsed = at, 0, 0, 0
		f.flow.seen, labels = was, was.Context
	}
	if f.run.Recall == nil {
		f.flow.seen.Referred = f.referred()
	}
	context := flows.Set(labels) | flows.Set(f.flow.seen.Referred)
	call := f.policyCall()
	if err := f.recallLabels(ctx, &call); err != nil {
		return err
	}
	f.flow.of = flows.Of(call, f.run.Env.Foreign)
	f.whole = f.chain
	if err := f.narrow(ctx, context); err != nil {
		return err
	}
	f.limits = f.chain.Limits()
	d := flows.DecideFlows(f.chain, call)
	if err := f.checkOrigins(ctx, context, call, &d); err != nil {
		return err
	}
	if d.Effect == policy.Allow {
		return nil
	}
	if d.Effect == policy.Ask { // the policies may ask, too
		d.Refusals, d.Admin = append(d.Refusals, f.decision.Refusals...), f.decision.Admin
	}
	if f.decision = d; d.Effect == policy.Ask {
		return nil
	}
	return fault.New(fault.FlowRefused, "%s", d.Reason).
		WithHint("the labels of a session stay with it; do work that does not need this data in a new session")
}

// addLabels adds the labels of the call's result to the context, before the call begins.
func (f *flight) addLabels(context.Context) error {
	if f.flow != nil {
		f.traceWrites()
		f.flow.added = f.flow.flows.Names(f.flow.of.Result)
		f.flow.seen.Added = f.run.Context.Add(f.flow.added)
		f.endorse()
	}
	return nil
}

// recordFlow adds the labels to the call's first event.
func (f *flight) recordFlow(ev *ledger.Event, pay ledger.Payload) error {
	if f.flow == nil {
		return nil
	}
	ev.Labels = f.flow.added
	b, err := json.Marshal(f.flow.seen)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the call's labels cannot be encoded")
	}
	pay[ledger.PartFlow] = b
	return nil
}
