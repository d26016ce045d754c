package app

import (
	"context"
	"fmt"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/runs"
)

// Explanation is a decision on a call that is not run, with every rule that
// took part.
type Explanation struct {
	Tool    tool.ID       `json:"tool"`
	Effect  string        `json:"effect"`
	Rule    string        `json:"rule"`
	Reason  string        `json:"reason"`
	Actions []string      `json:"actions"`
	Rules   []ExplainRule `json:"rules"`
}

// ExplainRule is one rule that took part.
type ExplainRule struct {
	Effect string `json:"effect"`
	Rule   string `json:"rule"`
	Where  string `json:"where"`            // file:line
	Policy string `json:"policy,omitempty"` // the policy's name, where there are several
	Link   int    `json:"link,omitempty"`   // the policy's place in the chain from 1, where there are several
	Action string `json:"action"`
}

// Explain decides a call under a chain of policy files, all of which must allow
// it, without running it. Files and commands are looked up as they are now; the
// network is not asked.
func (a *App) Explain(ctx context.Context, files []string, workspace string, id tool.ID, args tool.Args) (Explanation, error) {
	ex := Explanation{Tool: id, Actions: []string{}, Rules: []ExplainRule{}}
	ps, err := a.Policies.ChainOf(files)
	if err != nil {
		return ex, err
	}
	g, _, err := a.Policies.Grant(ps, workspace)
	if err != nil {
		return ex, err
	}
	e, err := a.catalog.Lookup(id)
	if err != nil {
		return ex, err
	}
	if err := e.Validate(args); err != nil {
		return ex, err
	}
	chain, err := runner.BoundsOf(e.Tool).Narrow(g.Chain(), a.Home.Env(workspace))
	if err != nil {
		return ex, err
	}
	env := a.Home.ToolEnv(workspace, chain.Limits())
	prepared, err := e.Tool.Prepare(env, args)
	if err != nil {
		return ex, err
	}
	call := policy.Call{Tool: e.Spec, Args: args, Actions: append(prepared.Actions, chain.Within(e.Spec, args)...)}
	d := chain.Decide(call)
	if d.Effect != policy.Deny {
		if err := (runs.Facts{Offline: true}).Look(ctx, env, chain.Limits(), call.Actions); err != nil {
			return ex, err
		}
		d = chain.Decide(call)
	}
	ex.Effect, ex.Rule, ex.Reason = d.Effect.String(), d.Rule.String(), d.Reason
	for _, act := range call.Actions {
		ex.Actions = append(ex.Actions, act.String())
	}
	ex.Rules = rulesOf(chain, call)
	return ex, nil
}

// rulesOf is every rule of every link that takes part in a decision.
func rulesOf(chain policy.Chain, call policy.Call) []ExplainRule {
	out := []ExplainRule{}
	for _, m := range chain.Explain(call) {
		r := ExplainRule{Effect: m.Effect.String(), Rule: m.Rule.String(), Action: m.Action}
		if m.Rule != nil && m.Rule.Line > 0 {
			r.Where = fmt.Sprintf("%s:%d", m.Rule.File, m.Rule.Line)
		}
		if len(chain) > 1 && m.Rule != nil {
			r.Policy, r.Link = m.Rule.Policy, m.Link+1
		}
		out = append(out, r)
	}
	return out
}
