package runs

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
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

// Concern is the reason for which policies object to a call for an argument that may be plain text.
type Concern uint8

// The concerns. That no entry allows the call is not one, except for a file in a command.
const (
	NoConcern Concern = iota
	ByName            // a file's name is sensitive
	ByEntry           // an entry denies the call or asks about it
)

// Concerns is [ConcernOf] for the policies of the session.
func (c *ClientSession) Concerns(call runner.Call) Concern {
	chain, of, ok := c.policyCall(call)
	if !ok {
		return NoConcern
	}
	return ConcernOf(chain, of)
}

// ConcernOf gives the strongest concern that policies have about a call.
func ConcernOf(chain policy.Chain, of policy.Call) (most Concern) {
	for _, a := range of.Actions {
		d := chain.DecideAction(a)
		switch {
		case d.Effect == policy.Allow:
		case slices.ContainsFunc(d.Refusals, func(r policy.Refusal) bool { return r.Rule != nil && r.Rule.Line > 0 }):
			return ByEntry
		case a.Path != "" && (of.Tool.ID == shellTool || policy.Spelled(a.Path)):
			most = ByName
		}
	}
	return most
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
