package standing

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// Issue records the grant of a token that this ledger has just issued, so that
// it may be used. Note is for people.
func (a *Authority) Issue(ctx context.Context, c token.Claims, note string) error {
	return a.IssueTo(ctx, c, note, nil)
}

// IssueTo is Issue, to a person whom an identity provider knows; nil: it knows nothing of the
// holder.
func (a *Authority) IssueTo(ctx context.Context, c token.Claims, note string, person *ledger.Person) error {
	if n := len(c.Links()); n != 1 {
		return fault.New(fault.Internal, "a token of %d blocks is not one that was just issued", n)
	}
	rec, err := a.record(c, 0, note)
	if err != nil {
		return err
	}
	rec.Person = person
	return a.grants.PutGrant(ctx, rec)
}

// Restore makes a grant from a token, with its policies bound to env: the token's own policies
// alone set its permissions, and the ledger decides whether it may be used now. It is refused if
// this ledger has not issued it (fault.GrantUnknown), if it was handed on further or to others than
// its policies let it (fault.NotDelegable, BudgetSpent), and where Check refuses it. A block that
// handed the grant on and was never seen here is recorded with its ancestors, and counts as a child
// of all of them.
func (a *Authority) Restore(ctx context.Context, c token.Claims, env policy.Env) (grant.Grant, error) {
	return a.Delegate(ctx, c, env, "")
}

// Delegate is Restore with a note for people, kept with what it records.
func (a *Authority) Delegate(ctx context.Context, c token.Claims, env policy.Env, note string) (grant.Grant, error) {
	if a.grants == nil {
		return grant.Grant{}, unknown(fault.New(fault.StoreFailed, "no ledger is open"))
	}
	if err := a.issued(ctx, c); err != nil {
		return grant.Grant{}, err
	}
	g, hands, err := a.restore(ctx, c, env)
	if err != nil {
		return grant.Grant{}, err
	}
	if len(hands) == 0 {
		return g, nil
	}
	for i := 1; i <= hands[len(hands)-1]; i++ { // also what only narrowed: it is what the next one descends from
		text := ""
		if i == len(g.Nodes())-1 {
			text = note
		}
		if err := a.admit(ctx, c, g, i, slices.Contains(hands, i), text); err != nil {
			return grant.Grant{}, err
		}
	}
	return g, nil
}

// built is the grant that a token makes in an environment, with the blocks that handed it on. It
// never changes. Whether the grant may be used is not part of it.
type built struct {
	grant grant.Grant
	hands []int
}

// restore makes a grant of a token, or finds the one that was made before, and checks that it may
// be used now. Tokens that are refused are not kept: they must not evict others.
func (a *Authority) restore(ctx context.Context, c token.Claims, env policy.Env) (grant.Grant, []int, error) {
	key := strings.Join(append([]string{c.Digest().String(), env.Workspace, env.Home, env.State}, env.Path...), "\x00")
	b, known := a.built.Get(key)
	var err error
	if !known {
		b.grant, err = build(c, env)
	}
	if err == nil {
		err = a.Check(ctx, b.grant)
	}
	if err != nil || known {
		return b.grant, b.hands, err
	}
	if b.hands, err = handovers(c, b.grant, env); err == nil {
		a.built.Put(key, b, b.grant.Chain().Size()+1024*len(b.grant.Nodes()))
	}
	return b.grant, b.hands, err
}

// issued refuses a token whose root the ledger does not know.
func (a *Authority) issued(ctx context.Context, c token.Claims) error {
	parent, err := a.grants.Issued(ctx, c.ID())
	if errors.Is(err, fault.GrantUnknown) {
		return fault.Wrap(fault.GrantUnknown, err, "the token's grant %s is not in this ledger", c.ID()).
			WithHint("a token is used with the ledger that issued it")
	}
	if err == nil && parent != uuid.Nil {
		err = fault.New(fault.GrantInvalid, "the ledger has recorded %s as no root", c.ID())
	}
	return err
}

// build makes the grant that a token says: one node for each block, all kept.
func build(c token.Claims, env policy.Env) (grant.Grant, error) {
	chains, err := c.Bind(env)
	if err != nil {
		return grant.Grant{}, err
	}
	var g grant.Grant
	for i, l := range c.Links() {
		g = g.Derive(grant.Terms{
			ID: l.Grant, Holder: holder(c, i), Policies: chains[i], Budgets: l.Budgets.Min(grant.BudgetsOf(chains[i]...)),
			NotBefore: l.NotBefore, Expires: l.Expires, Pins: l.Pins, Kept: true,
		})
	}
	return g, nil
}

// holder is who holds a token from block i on.
func holder(c token.Claims, i int) string {
	links := c.Links()
	for ; i > 0 && links[i].Holder == ""; i-- {
	}
	return links[i].Holder
}

// handovers returns the blocks that handed the grant on to somebody else, after
// checking that policies and limits of depth let them.
func handovers(c token.Claims, g grant.Grant, env policy.Env) ([]int, error) {
	nodes := g.Nodes()
	var hands []int
	binder := grant.NewBinder(env)
	for i := 1; i < len(nodes); i++ {
		if !c.Handed(i) { // to another name, or to another key
			continue
		}
		hands = append(hands, i)
		before, err := chainBefore(c, i, binder)
		if err != nil {
			return nil, err
		}
		opens := g.Chain()[:nodes[i].Links].Opens()
		if err := before.MayDelegate(nodes[i].Holder, len(hands), opens); err != nil {
			return nil, err
		}
		if err := depth(nodes[:i+1], hands); err != nil {
			return nil, err
		}
	}
	return hands, nil
}

// chainBefore is the chain that the holder before block i had, with the roles of who
// held it until then and not of those it goes to.
func chainBefore(c token.Claims, i int, binder *grant.Binder) (policy.Chain, error) {
	all, err := c.Policies()
	if err != nil {
		return nil, err
	}
	var out policy.Chain
	for j := range i {
		for _, p := range all[j] {
			var holders []string
			for k := j; k < i; k++ {
				if h := holder(c, k); k == j || h != holder(c, k-1) {
					holders = append(holders, h)
				}
			}
			links, err := binder.Links(p, holders...)
			if err != nil {
				return nil, err
			}
			out = append(out, links...)
		}
	}
	return out, nil
}

// depth refuses the last node, which was handed on, where it is deeper below
// another one than that allows.
func depth(nodes []grant.Node, hands []int) error {
	below := 0 // how often it was handed on since node i
	for i := len(nodes) - 2; i >= 0; i-- {
		if slices.Contains(hands, i+1) {
			below++
		}
		if d := nodes[i].Budgets.Depth; d != nil && below > *d {
			return fault.New(fault.NotDelegable, "the grant %s may be handed on %d deep, and was %d deep to %q", nodes[i].ID, *d, below, nodes[len(nodes)-1].Holder).
				WithHint("agents.depth, or a budget of depth, says how far")
		}
	}
	return nil
}

// admit records block i unless the ledger has it, and counts it as a child if it
// handed the grant on.
func (a *Authority) admit(ctx context.Context, c token.Claims, g grant.Grant, i int, handed bool, note string) error {
	_, err := a.grants.Grant(ctx, g.Nodes()[i].ID.String())
	if err == nil || !errors.Is(err, fault.GrantUnknown) {
		return err
	}
	rec, err := a.record(c, i, note)
	if err != nil {
		return err
	}
	var above []grant.Node
	if handed {
		above = g.Nodes()[:i]
	}
	settle, err := a.child(ctx, above)
	if err != nil {
		return err
	}
	err = a.grants.PutGrant(ctx, rec)
	serr := settle(ctx, err == nil)
	if errors.Is(err, fault.Conflict) { // somebody was faster
		err = nil
	}
	return errors.Join(err, serr)
}

// record is how the ledger keeps block i of a token. It never lasts longer than
// what it descends from.
func (a *Authority) record(c token.Claims, i int, note string) (store.GrantRecord, error) {
	l := c.Links()[i]
	rec := store.GrantRecord{ID: l.Grant, Holder: holder(c, i), Issued: l.Issued, Budgets: l.Budgets, Note: note}
	if i > 0 {
		rec.Parent = c.Links()[i-1].Grant
	}
	if rec.Issued.IsZero() {
		rec.Issued = a.now()
	}
	for _, up := range c.Links()[:i+1] {
		rec.Expires, rec.NotBefore = earliest(rec.Expires, up.Expires), latest(rec.NotBefore, up.NotBefore)
	}
	if l.Delegate != nil {
		b, err := json.Marshal(l.Delegate)
		if err != nil {
			return rec, fault.Wrap(fault.Internal, err, "a grant cannot be recorded")
		}
		rec.Delegable = b
	}
	all, err := c.Policies()
	if err != nil {
		return rec, err
	}
	for _, p := range all[i] {
		rec.Policies = append(rec.Policies, ledger.PolicySource{Name: p.Name(), File: p.File(), Source: string(p.Source())})
	}
	return rec, nil
}

// earliest of two ends of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// child draws a child from each of the ancestors that limits how many there are below it. Its
// result settles that: the child exists, or does not.
func (a *Authority) child(ctx context.Context, ancestors []grant.Node) (func(context.Context, bool) error, error) {
	var asks []store.Lease
	for _, n := range ancestors {
		if n.Budgets.Children == nil {
			continue
		}
		if a.budgets == nil {
			return nil, fault.New(fault.NotDelegable, "the grant %s limits its children, and nothing here counts them", n.ID)
		}
		if err := a.budgets.OpenBudget(ctx, n.ID, n.Budgets); err != nil {
			return nil, err
		}
		asks = append(asks, store.Lease{Meter: store.MeterID{Node: n.ID, What: grant.MeterChildren}, Least: 1, Want: 1})
	}
	if len(asks) == 0 {
		return func(context.Context, bool) error { return nil }, nil
	}
	got, err := a.budgets.Lease(ctx, 0, asks)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, exists bool) error {
		done := make([]store.Settlement, len(got))
		for i, l := range got {
			done[i] = store.Settlement{Meter: l.Meter, Return: l.Want}
			if exists {
				done[i].Spent, done[i].Return = 1, l.Want-1
			}
		}
		return a.budgets.Settle(context.WithoutCancel(ctx), 0, done)
	}, nil
}
