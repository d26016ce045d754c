package policyreview

import (
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/cases"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
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
		d = chain.Decide(call)
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
	e, err := s.Catalog.Lookup(c.Tool)
	if err != nil {
		return policy.Call{}, fault.New(fault.CodeOf(err), "%s", fault.Message(err)).At(c.Pos)
	}
	if err := e.Validate(c.Args); err != nil {
		return policy.Call{}, fault.New(fault.CodeOf(err), "%s", fault.Message(err)).At(c.Pos)
	}
	limits := chain.Limits()
	prepared, err := e.Tool.Prepare(limits.ToolEnv(env.Workspace, env.Home), c.Args)
	if err != nil {
		return policy.Call{}, fault.New(fault.CodeOf(err), "%s", fault.Message(err)).At(c.Pos)
	}
	return policy.Call{Tool: e.Spec, Args: c.Args, Actions: append(prepared.Actions, chain.Within(e.Spec, c.Args)...)}, nil
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
