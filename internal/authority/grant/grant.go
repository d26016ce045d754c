// Package grant represents authority as a value: its holder, and the chain of
// policies that limits it. A grant can only be narrowed, never widened. Start at
// [New] and [Grant.Derive].
package grant

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Grant is authority held by one principal. The zero Grant allows nothing.
// Grants are values that cannot be changed; copying one gives no more authority.
type Grant struct {
	nodes []Node // from the root to this one
	chain policy.Chain
	pins  map[tool.ID]tool.Digest
}

// Node is one step of a grant's descent. Its limits apply to the node and all its
// descendants together.
type Node struct {
	ID        uuid.UUID
	Holder    string    // as "user:ann" or "agent:docs"
	Links     int       // Chain()[:Links] holds the policies of the node and its ancestors
	Budgets   Budgets   // the node's own; those of its ancestors also apply
	NotBefore time.Time // zero: at once
	Expires   time.Time // zero: the node itself never expires
	// Kept: the ledger keeps the node. Its use is then counted across runs and
	// processes, and it can be revoked. Other nodes end with their run.
	Kept bool
}

// Terms are the restrictions that a grant adds to its parent.
type Terms struct {
	ID        uuid.UUID
	Holder    string
	Policies  []*policy.Rules // further links, all of which limit the grant
	Budgets   Budgets
	NotBefore time.Time
	Expires   time.Time
	Pins      map[tool.ID]tool.Digest // tools that may only be used with this digest
	Kept      bool
}

// New makes a root grant. Without policies it allows nothing.
func New(t Terms) Grant { return Grant{}.Derive(t) }

// Derive returns a grant that allows only what both g and the terms allow. If they
// pin a tool to different digests, the tool cannot be used.
func (g Grant) Derive(t Terms) Grant {
	d := Grant{chain: append(slices.Clip(g.chain), t.Policies...), pins: g.pins}
	d.nodes = append(slices.Clip(g.nodes), Node{
		ID: t.ID, Holder: t.Holder, Links: len(d.chain), Budgets: t.Budgets, NotBefore: t.NotBefore, Expires: t.Expires, Kept: t.Kept,
	})
	if len(t.Pins) > 0 {
		d.pins = maps.Clone(t.Pins)
		for id, digest := range g.pins {
			if have, ok := d.pins[id]; ok && have != digest {
				digest = tool.Digest{}
			}
			d.pins[id] = digest
		}
	}
	return d
}

// Root makes a root grant from policies bound to env, with the further links that
// their roles give the holder. A policy that cannot be bound is an error: it is
// never left out. A first policy that says rest: inherit is also an error,
// because it has no parent to inherit from.
func Root(id uuid.UUID, holder string, env policy.Env, ps ...*policy.Policy) (Grant, error) {
	if len(ps) > 0 && ps[0].Inherits() {
		return Grant{}, fault.New(fault.PolicyInvalid, "a root policy must not have rest: inherit").
			At(fault.Pos{File: ps[0].File()}).WithHint("list the allowed entries, or use it to narrow another policy")
	}
	var chain policy.Chain
	for _, p := range ps {
		links, err := Links(env, p, holder)
		if err != nil {
			return Grant{}, err
		}
		chain = append(chain, links...)
	}
	return New(Terms{ID: id, Holder: holder, Policies: chain}), nil
}

// Links binds a policy to env, with the further links that its roles give the
// holders, one after the other.
func Links(env policy.Env, p *policy.Policy, holders ...string) (policy.Chain, error) {
	return NewBinder(env).Links(p, holders...)
}

// Binder binds policies to one environment. It binds each policy only once.
type Binder struct {
	env   policy.Env
	bound map[*policy.Policy]*policy.Rules
}

// NewBinder makes an empty binder.
func NewBinder(env policy.Env) *Binder {
	return &Binder{env: env, bound: map[*policy.Policy]*policy.Rules{}}
}

// Links is [Links] in the binder's environment.
func (b *Binder) Links(p *policy.Policy, holders ...string) (policy.Chain, error) {
	list := []*policy.Policy{p}
	for _, h := range holders {
		list = append(list, p.Roles(h)...)
	}
	var out policy.Chain
	for _, link := range list {
		r := b.bound[link]
		if r == nil {
			var err error
			if r, err = link.Bind(b.env); err != nil {
				return nil, err
			}
			b.bound[link] = r
		}
		out = append(out, r)
	}
	return out, nil
}

// ID identifies the grant. The zero Grant has the zero UUID.
func (g Grant) ID() uuid.UUID { return g.lastNode().ID }

// Parent is the grant that this one derives from, or the zero UUID.
func (g Grant) Parent() uuid.UUID {
	if len(g.nodes) < 2 {
		return uuid.Nil
	}
	return g.nodes[len(g.nodes)-2].ID
}

// Holder returns the principal that has the grant, as "user:ann" or "agent:docs".
func (g Grant) Holder() string { return g.lastNode().Holder }

func (g Grant) lastNode() Node {
	if len(g.nodes) == 0 {
		return Node{}
	}
	return g.nodes[len(g.nodes)-1]
}

// Chain returns every policy that limits the grant. The caller must not change
// it.
func (g Grant) Chain() policy.Chain { return g.chain }

// Nodes returns the grant's descent, from the root to the grant itself. The
// caller must not change it.
func (g Grant) Nodes() []Node { return g.nodes }

// Kept reports whether the ledger keeps any node of the grant.
func (g Grant) Kept() bool { return slices.ContainsFunc(g.nodes, func(n Node) bool { return n.Kept }) }

// Pinned returns the digest that a tool must have, if the grant pins the tool.
func (g Grant) Pinned(id tool.ID) (tool.Digest, bool) {
	d, ok := g.pins[id]
	return d, ok
}

// Pins returns all pinned tools. The caller must not change it.
func (g Grant) Pins() map[tool.ID]tool.Digest { return g.pins }

// Expires returns the earliest expiry of all nodes; zero: the grant never
// expires.
func (g Grant) Expires() time.Time {
	var end time.Time
	for _, n := range g.nodes {
		if !n.Expires.IsZero() && (end.IsZero() || n.Expires.Before(end)) {
			end = n.Expires
		}
	}
	return end
}

// At checks that the grant is valid at a time. If not, the error is
// fault.GrantExpired or fault.GrantEarly.
func (g Grant) At(now time.Time) error {
	for i := range g.nodes {
		switch n := &g.nodes[i]; {
		case !n.Expires.IsZero() && !now.Before(n.Expires):
			return fault.New(fault.GrantExpired, "the grant %s of %q expired at %s", n.ID, n.Holder, n.Expires.UTC().Format(time.RFC3339)).
				WithHint("ask its issuer for a new one")
		case now.Before(n.NotBefore):
			return fault.New(fault.GrantEarly, "the grant %s of %q is not valid before %s", n.ID, n.Holder, n.NotBefore.UTC().Format(time.RFC3339)).
				WithHint("wait, or look at the clock of this machine")
		}
	}
	return nil
}
