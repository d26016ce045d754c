package standing

import (
	"context"
	"errors"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// HandOn lets a grant of this process be used that another holder's was handed on
// for: g's last node is theirs, the one before it their delegator's. It is refused
// where the delegator's policies do not let it be handed on to that holder, for
// those sections or so deep (fault.NotDelegable), where there may be no more
// children (fault.BudgetSpent), and where Check refuses the grant. Hands are the
// nodes of g, by their place, at which it was handed on, the last one among them.
//
// A grant that is new is recorded and counted as a child of all of its ancestors;
// one that is not was: it is only judged anew.
func (a *Authority) HandOn(ctx context.Context, g grant.Grant, hands []int, rec *store.GrantRecord) error {
	nodes := g.Nodes()
	last := len(nodes) - 1
	if last < 1 || len(hands) == 0 || hands[len(hands)-1] != last {
		return fault.New(fault.Internal, "a grant that nobody held before cannot be handed on")
	}
	held := g.Chain()[:nodes[last-1].Links]
	if err := held.MayDelegate(nodes[last].Holder, len(hands), g.Chain().Opens()); err != nil {
		return err
	}
	if err := depth(nodes, hands); err != nil {
		return err
	}
	if err := a.Check(ctx, g); err != nil || rec == nil {
		return err
	}
	return a.bear(ctx, nodes[:last], *rec)
}

// bear records a new child of ancestors.
func (a *Authority) bear(ctx context.Context, ancestors []grant.Node, rec store.GrantRecord) error {
	if a.grants == nil {
		return unknown(fault.New(fault.StoreFailed, "no ledger is open"))
	}
	settle, err := a.child(ctx, ancestors)
	if err != nil {
		return err
	}
	err = a.grants.PutGrant(ctx, rec)
	return errors.Join(err, settle(ctx, err == nil))
}

// Begin records a new grant of this process that was not handed on, as a session's
// that narrows its holder's own, and lets it be used.
func (a *Authority) Begin(ctx context.Context, g grant.Grant, rec store.GrantRecord) error {
	if a.grants == nil {
		return unknown(fault.New(fault.StoreFailed, "no ledger is open"))
	}
	if err := a.grants.PutGrant(ctx, rec); err != nil {
		return err
	}
	return a.Check(ctx, g)
}
