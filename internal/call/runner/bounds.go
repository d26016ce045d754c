package runner

import (
	"context"
	"slices"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Bounds are the policies and folders of one call, besides its run's grant.
type Bounds struct {
	Policies []*policy.Policy
	Own      string // see Owning
	Programs string // see Running
}

// BoundsOf returns the bounds of a tool.
func BoundsOf(t permit.Tool) (b Bounds) {
	if t, ok := t.(Bounded); ok {
		b.Policies = t.Bounds()
	}
	if t, ok := t.(Owning); ok {
		b.Own = t.Own()
	}
	if t, ok := t.(Running); ok {
		b.Programs = t.Programs()
	}
	return b
}

// Narrow returns the chain that decides the call: with the policies, bound to env, and
// with the tool's folders.
func (b Bounds) Narrow(c policy.Chain, env policy.Env) (policy.Chain, error) {
	c = slices.Clip(c)
	for _, p := range b.Policies {
		r, err := p.Bind(env)
		if err != nil {
			return nil, err
		}
		c = append(c, r)
	}
	return c.Owning(b.Own).Running(b.Programs), nil
}

func (b Bounds) none() bool { return len(b.Policies) == 0 && b.Own == "" && b.Programs == "" }

// bindPolicies adds the policies of the tool and of the caller to those of the run.
func (f *flight) bindPolicies(ctx context.Context) error {
	var err error
	var of Bounds
	if f.run.Recall != nil {
		of, err = f.run.Recall.Bounds(ctx, f.c)
	} else {
		of = BoundsOf(f.entry.Tool)
		of.Policies = slices.Concat(of.Policies, f.c.Bounds)
	}
	if err != nil || of.none() {
		return err
	}
	if n := len(f.chain) + len(of.Policies); n > maxLinks {
		return fault.New(fault.Denied, "the call would run under %d policies; the limit is %d", n, maxLinks)
	}
	chain, err := of.Narrow(f.chain, f.run.Bound)
	if err != nil {
		return fault.Wrap(fault.Denied, err, "the call's bounds cannot be read: %s", fault.Message(err))
	}
	f.bounds, f.chain = of, chain
	f.limits = f.chain.Limits()
	return nil
}

// recordedBounds are the bounds as recorded; nil if there are none.
func (f *flight) recordedBounds() *ledger.CallBounds {
	if f.bounds.none() {
		return nil
	}
	b := &ledger.CallBounds{Own: f.bounds.Own, Programs: f.bounds.Programs}
	for _, p := range f.bounds.Policies {
		b.Policies = append(b.Policies, sourceOf(p))
	}
	return b
}

func sourceOf(p *policy.Policy) ledger.PolicySource {
	return ledger.PolicySource{Name: p.Name(), File: p.File(), Source: string(p.Source())}
}
