package standing

import (
	"context"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
)

// Keep is Delegate that also records blocks which only narrow: an issuer's grants for others can
// then be listed, and revoked, before they are ever used.
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

// KeepDevice records the last block of a token as a device of the person that the root was
// issued to: it may answer that person's questions. The block must derive from the root
// directly, and have its holder.
func (a *Authority) KeepDevice(ctx context.Context, c token.Claims, env policy.Env, device string) (grant.Grant, error) {
	g, err := a.Restore(ctx, c, env)
	if err != nil {
		return g, err
	}
	if n := g.Nodes(); len(n) != 2 || n[1].Holder != n[0].Holder || device == "" {
		return grant.Grant{}, fault.New(fault.NotDelegable, "the grant %s cannot have devices: it was narrowed or handed on", g.Nodes()[0].ID).
			WithHint("sign in under the grant that was issued to the person")
	}
	rec, err := a.record(c, 1, "web UI: "+device)
	if err != nil {
		return grant.Grant{}, err
	}
	rec.Device = device
	return g, a.grants.PutGrant(ctx, rec)
}
