package policyreview

import (
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/cases"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// CaseResult is the result of one case of a policy test.
type CaseResult struct {
	Name    string   `json:"name"`
	Where   string   `json:"where"` // file:line
	Pass    bool     `json:"pass"`
	Expect  string   `json:"expect"`
	Effect  string   `json:"effect"`
	Rule    string   `json:"rule"`
	Reason  string   `json:"reason"`
	Why     string   `json:"why,omitempty"` // why it failed
	Actions []string `json:"actions"`
	Rules   []Rule   `json:"rules"`
}

// Test runs a file of cases. Its result does not depend on this machine: paths are not
// resolved and names have no addresses, unless a case gives them, and the person's own outer
// bound is left out.
func (s *Reviewer) Test(file string) ([]CaseResult, error) {
	src, err := wholefile.Read(file, cases.MaxSize)
	if err != nil {
		return nil, fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	f, err := cases.Parse(file, src)
	if err != nil {
		return nil, err
	}
	var ps []*policy.Policy
	for _, name := range f.Policies {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		p, err := policies.Read(name)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	id, err := home.NewID()
	if err != nil {
		return nil, err
	}
	env := policy.Env{Workspace: f.Workspace, Home: f.Home, Path: s.Home.Path}
	var out []CaseResult
	for _, c := range f.Cases {
		g, err := grant.Root(id, c.Principal, env, ps...)
		if err != nil {
			return nil, err
		}
		r, err := s.testCase(c, g.Chain(), env)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// testCase decides one case.
func (s *Reviewer) testCase(c cases.Case, chain policy.Chain, env policy.Env) (CaseResult, error) {
	r := CaseResult{Name: c.Name, Where: c.Pos.String(), Expect: c.Expect.String(), Actions: []string{}}
	call, err := s.caseCall(c, chain, env)
	if err != nil {
		return r, err
	}
	for i := range call.Actions {
		act := &call.Actions[i]
		switch act.Kind {
		case tool.FileRead, tool.FileWrite, tool.FileDelete:
			act.Real = c.Real
		case tool.Network:
			act.Addrs = c.Addrs
		}
		r.Actions = append(r.Actions, act.String())
	}
	var d policy.Decision
	if c.Tool == "" {
		d = chain.DecideAction(call.Actions[0])
		r.Rules = actionRules(chain, call.Actions[0])
	} else {
		if d, err = s.decideCase(c, call, chain, env); err != nil {
			return r, err
		}
		r.Rules = rulesOf(chain, call)
	}
	r.Effect, r.Rule, r.Reason = d.Effect.String(), d.Rule.String(), d.Reason
	switch {
	case d.Effect != c.Expect:
		r.Why = "expected " + r.Expect + ", is " + r.Effect
	case c.Rule != "" && !strings.HasPrefix(r.Rule, c.Rule):
		r.Why = "expected the rule " + c.Rule + ", decided by " + r.Rule
	default:
		r.Pass = true
	}
	return r, nil
}

// caseCall gives the call of a case, with the actions that it needs.
func (s *Reviewer) caseCall(c cases.Case, chain policy.Chain, env policy.Env) (policy.Call, error) {
	if c.Tool == "" {
		return policy.Call{Actions: []tool.Action{c.Action}}, nil
	}
	return s.prepared(c.Pos, c.Tool, c.Args, chain, env)
}

func (s *Reviewer) prepared(pos fault.Pos, id tool.ID, args tool.Args, chain policy.Chain, env policy.Env) (policy.Call, error) {
	at := func(err error) error { return fault.New(fault.CodeOf(err), "%s", fault.Message(err)).At(pos) }
	e, err := s.Catalog.Lookup(id)
	if err != nil {
		return policy.Call{}, at(err)
	}
	if err := e.Validate(args); err != nil {
		return policy.Call{}, at(err)
	}
	limits := chain.Limits()
	prepared, err := e.Tool.Prepare(limits.ToolEnv(env.Workspace, env.Home), args)
	if err != nil {
		return policy.Call{}, at(err)
	}
	return policy.Call{Tool: e.Spec, Args: args, Actions: append(prepared.Actions, chain.Within(e.Spec, args)...)}, nil
}

// decideCase decides a call as the runner does, after the earlier calls that the case names.
func (s *Reviewer) decideCase(c cases.Case, call policy.Call, chain policy.Chain, env policy.Env) (policy.Decision, error) {
	d := chain.Decide(call)
	flows, err := chain.Flows()
	if flows == nil || err != nil || d.Effect == policy.Deny {
		return d, err
	}
	x, context := provenance.New(), policy.Labels(0)
	runner.Given(x, chain, nil, nil, uuid.Nil)
	x.Say(provenance.Person, c.Said)
	decide := func(call policy.Call, of policy.Of) (policy.Decision, ledger.CallFlow) {
		var seen ledger.CallFlow
		d := flows.DecideFlows(flows.Narrow(context, of, false), call)
		runner.JudgeOrigins(flows, context, of, call, false, x, &d, &seen)
		return d, seen
	}
	for i, b := range c.After {
		earlier, err := s.prepared(b.Pos, b.Tool, b.Args, chain, env)
		if err != nil {
			return d, err
		}
		of := flows.Of(earlier, false).Reaching(flows.Set(b.Labels))
		_, seen := decide(earlier, of)
		r := runner.Joined(seen, "", i+1, string(b.Tool), map[string]any(b.Args), map[string]any{"text": b.Output})
		r.Scope = flows.Scope()
		x.Add(r)
		context |= of.Result
	}
	if f, _ := decide(call, flows.Of(call, false)); f.Effect < d.Effect {
		return f, nil
	}
	return d, nil
}

// actionRules lists the rules that take part in the decision on one action.
func actionRules(chain policy.Chain, act tool.Action) []Rule {
	out := []Rule{}
	for _, r := range rulesOf(chain, policy.Call{Actions: []tool.Action{act}}) {
		if r.Action != "" { // else it is a rule of the tool, and there is none
			out = append(out, r)
		}
	}
	return out
}
