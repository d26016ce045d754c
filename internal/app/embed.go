package app

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/record/store"
)

// IssueGrantOf is IssueGrant for policies that are in memory.
func (a *App) IssueGrantOf(ctx context.Context, t GrantTerms, ps ...*policy.Policy) (Token, error) {
	if err := t.Budgets.Check(); err != nil {
		return Token{}, err
	}
	return a.issueOf(ctx, t, ps...)
}

// KeepNarrower is NarrowGrant for policies that are in memory. What comes of it is
// recorded, so that it can be found and revoked before it is ever used.
func (a *App) KeepNarrower(ctx context.Context, text string, t GrantTerms, ps ...*policy.Policy) (Token, error) {
	if err := t.Budgets.Check(); err != nil {
		return Token{}, err
	}
	t.parsed = ps
	return a.narrowed(ctx, text, t)
}

// RevokeToken revokes the grant that a token is of, and with it all that derives
// from it.
func (a *App) RevokeToken(ctx context.Context, text, reason string) error {
	c, err := a.authentic(text)
	if err != nil {
		return err
	}
	auth, _, err := a.granted(ctx)
	if err != nil {
		return err
	}
	return auth.SetStanding(ctx, store.StandingChange{
		Grant: c.Leaf(), To: store.Revoked, By: "user:" + a.Home.User, Reason: reason, At: time.Now(),
	})
}
