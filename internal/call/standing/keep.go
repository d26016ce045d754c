package standing

import (
	"context"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
)

// Keep is Delegate that also records blocks which only narrow: what an issuer has
// made for others can then be listed, and revoked, before it is ever used.
func (a *Authority) Keep(ctx context.Context, c token.Claims, env policy.Env, note string) (grant.Grant, error) {
	g, err := a.Delegate(ctx, c, env, note)
	if err != nil {
		return g, err
	}
	last := len(g.Nodes()) - 1
	for i := 1; i <= last; i++ {
		text := ""
		if i == last {
			text = note
		}
		if err := a.admit(ctx, c, g, i, false, text); err != nil {
			return grant.Grant{}, err
		}
	}
	return g, nil
}
