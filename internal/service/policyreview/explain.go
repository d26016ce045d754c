package policyreview

import (
	"context"
	"errors"
	"fmt"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/runs"
)

// Explanation is the decision on a call that is not run, with every rule that took part.
type Explanation struct {
	Tool    tool.ID  `json:"tool"`
	Effect  string   `json:"effect" enum:"allow,ask,deny"`
	Rule    string   `json:"rule"`
	Reason  string   `json:"reason"`
	Actions []string `json:"actions"`
	Rules   []Rule   `json:"rules"`

	// Concern is the policies' concern about the call.
	Concern runs.Concern `json:"-"`
}

// Rule is one rule that took part.
type Rule struct {
	Effect string `json:"effect"`
	Rule   string `json:"rule"`
	Where  string `json:"where,omitempty"`  // file:line; the API does not tell this machine's files
	Line   int    `json:"line,omitempty"`   // in that file
	Policy string `json:"policy,omitempty"` // the policy's name, where there are several
	Link   int    `json:"link,omitempty"`   // the policy's place in the chain from 1, where there are several
	Action string `json:"action"`
}

// Explain decides a call under a chain of policy files without running it. All files must
// allow the call. Files and commands are looked up; the network is not used.
func (s *Reviewer) Explain(ctx context.Context, files []string, workspace string, id tool.ID, args tool.Args) (Explanation, error) {
	ex := Explanation{Tool: id, Actions: []string{}, Rules: []Rule{}}
	ps, err := s.Policies.ChainOf(files)
	if err != nil {
		return ex, err
	}
	g, _, err := s.Policies.Grant(ps, workspace)
	if err != nil {
		return ex, err
	}
	return s.ExplainUnder(ctx, g.Chain(), workspace, id, args, s.Facts)
}

// ExplainUnder decides a call under a chain without running it. Where facts is nil nothing is
// looked up: a caller without other rights must not learn which files exist.
func (s *Reviewer) ExplainUnder(ctx context.Context, chain policy.Chain, workspace string, id tool.ID, args tool.Args, facts *runs.Facts) (Explanation, error) {
	ex := Explanation{Tool: id, Actions: []string{}, Rules: []Rule{}}
	e, err := s.Catalog.Lookup(id)
	if errors.Is(err, fault.ToolUnknown) {
		e, err = s.Catalog.ForClient().Lookup(id)
	}
	if err != nil {
		return ex, err
	}
	if err := e.Validate(args); err != nil {
		return ex, err
	}
	if chain, err = runner.BoundsOf(e.Tool).Narrow(chain, s.Home.Env(workspace)); err != nil {
		return ex, err
	}
	env := s.Home.ToolEnv(workspace, chain.Limits())
	prepared, err := e.Tool.Prepare(env, args)
	if err != nil {
		return ex, err
	}
	call := policy.Call{Tool: e.Spec, Args: args, Actions: append(prepared.Actions, chain.Within(e.Spec, args)...)}
	d := chain.Decide(call)
	ex.Concern = runs.ConcernOf(chain, call)
	if d.Effect != policy.Deny && facts != nil {
		if err := facts.Look(ctx, env, chain.Limits(), call.Actions); err != nil {
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

// rulesOf lists the rules of all links that take part in a decision.
func rulesOf(chain policy.Chain, call policy.Call) []Rule {
	out := []Rule{}
	for _, m := range chain.Explain(call) {
		r := Rule{Effect: m.Effect.String(), Rule: m.Rule.String(), Action: m.Action}
		if m.Rule != nil && m.Rule.Line > 0 {
			r.Where, r.Line = fmt.Sprintf("%s:%d", m.Rule.File, m.Rule.Line), m.Rule.Line
		}
		if len(chain) > 1 && m.Rule != nil {
			r.Policy, r.Link = m.Rule.Policy, m.Link+1
		}
		out = append(out, r)
	}
	return out
}
