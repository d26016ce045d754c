package runs

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// Ahead gives the decision on a call of the client by the names that it has: nothing is looked up or recorded.
// A call that cannot be decided is denied.
func (c *ClientSession) Ahead(call runner.Call) policy.Effect {
	_, of, ok := c.policyCall(call)
	if !ok {
		return policy.Deny
	}
	return c.Run.Grant.Chain().Decide(of).Effect
}

// Concerns is [Concerned] for the policies of the session.
func (c *ClientSession) Concerns(call runner.Call) bool {
	chain, of, ok := c.policyCall(call)
	return ok && Concerned(chain, of)
}

// Concerned reports whether policies have something against a call that may not be meant: an entry denies it or asks about
// it, or the name of a file is sensitive. That no entry allows it is not enough, except for a file in a command.
func Concerned(chain policy.Chain, of policy.Call) bool {
	return slices.ContainsFunc(of.Actions, func(a tool.Action) bool {
		d := chain.DecideAction(a)
		if d.Effect == policy.Allow {
			return false
		}
		return slices.ContainsFunc(d.Refusals, func(r policy.Refusal) bool { return r.Rule != nil && r.Rule.Line > 0 }) ||
			a.Path != "" && (of.Tool.ID == shellTool || policy.Spelled(a.Path))
	})
}

// policyCall prepares a call for the policies.
func (c *ClientSession) policyCall(call runner.Call) (policy.Chain, policy.Call, bool) {
	chain := c.Run.Grant.Chain()
	e, err := c.Runner.Catalog.Lookup(call.Tool)
	if err != nil {
		return chain, policy.Call{}, false
	}
	prepared, err := e.Tool.Prepare(c.Run.Env, call.Args)
	if err != nil {
		return chain, policy.Call{}, false
	}
	return chain, policy.Call{Tool: e.Spec, Args: call.Args, Actions: append(prepared.Actions, chain.Within(e.Spec, call.Args)...)}, true
}
