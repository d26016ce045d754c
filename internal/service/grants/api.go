package grants

import (
	"context"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// May gives what decides the actions of the API that the holder of a grant asks for, by the
// policies as they are now.
func (s *Grants) May(ctx context.Context, held grant.Grant, env policy.Env) (func(action string) error, error) {
	today, err := s.BoundToday(ctx, held)
	if err != nil {
		return nil, err
	}
	outer, err := s.policies.Outer()
	if err != nil {
		return nil, err
	}
	chain := append(policy.Chain{}, held.Chain()...)
	for _, p := range append(today, outer) {
		if p == nil || !p.Mentions("api") {
			continue
		}
		links, err := grant.Links(env, p, held.Holder())
		if err != nil {
			return nil, err
		}
		chain = append(chain, links...)
	}
	return func(action string) error { return mayAsk(chain, action) }, nil
}

// MayNow decides an action of the API that goes on without the client who asked for it, under
// the client's grant.
func (s *Grants) MayNow(ctx context.Context, p Presented, workspace, action string) error {
	auth, st, err := s.Open(ctx)
	if err != nil {
		return err
	}
	c, err := s.Verify(ctx, st, p, workspace)
	if err != nil {
		return err
	}
	env := s.home.Env(workspace)
	held, err := auth.Restore(ctx, c, env)
	if err != nil {
		return err
	}
	may, err := s.May(ctx, held, env)
	if err != nil {
		return err
	}
	return may(action)
}

// mayAsk decides an action of the API.
func mayAsk(chain policy.Chain, action string) error {
	d := chain.DecideAction(tool.Action{Kind: tool.API, API: action})
	switch d.Effect {
	case policy.Allow:
		return nil
	case policy.Ask:
		return fault.New(fault.NeedsApproval, "api %s needs approval: %s", action, d.Reason).WithHint("nobody is asked about requests: have the grant's policy allow it, or use another grant")
	}
	return fault.New(fault.Denied, "api %s is not allowed: %s", action, d.Reason).WithHint("have the policies of the grant say: api: {allow: [%s]}", action)
}
