package policy_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// any allows every tool whatever it does.
const anyTool = "tools: {allow: ['**']"

func risky(r tool.Risk, plan policy.PlanFit, effects ...tool.Effect) policy.Call {
	return policy.Call{Tool: &tool.Spec{ID: "a.b", Source: "mcp", Risk: r, Effects: tool.EffectSet(effects...)}, Plan: plan}
}

func TestGatesRefuseByWhatACallIs(t *testing.T) {
	tests := map[string]struct {
		docs []string
		call policy.Call
		want policy.Effect
		rule string // and its line
		say  string
	}{
		"nothing is said":                 {[]string{anyTool + "}"}, risky(tool.Critical, policy.NoPlan), policy.Allow, "tools.allow[0]", ""},
		"below the risk that is denied":   {[]string{anyTool + ", deny_from_risk: high}"}, risky(tool.Medium, policy.NoPlan), policy.Allow, "tools.allow[0]", ""},
		"at the risk that is denied":      {[]string{anyTool + ", deny_from_risk: high}"}, risky(tool.High, policy.NoPlan), policy.Deny, `tools.deny_from_risk "high":2`, "denied by"},
		"above it, in an inner policy":    {[]string{anyTool + "}", anyTool + ", deny_from_risk: medium}"}, risky(tool.High, policy.NoPlan), policy.Deny, `tools.deny_from_risk "medium":2`, ""},
		"an admin must answer":            {[]string{anyTool + ", admin_from_risk: critical}"}, risky(tool.Critical, policy.NoPlan), policy.Ask, `tools.admin_from_risk "critical":2`, "admin"},
		"deny is stricter than admin":     {[]string{anyTool + ", admin_from_risk: low, deny_from_risk: critical}"}, risky(tool.Critical, policy.NoPlan), policy.Deny, "tools.deny_from_risk", ""},
		"no plan for this risk":           {[]string{anyTool + ", frozen_plan_from_risk: high}"}, risky(tool.High, policy.NoPlan), policy.Deny, `tools.frozen_plan_from_risk "high":2`, "frozen plan"},
		"in the plan":                     {[]string{anyTool + ", frozen_plan_from_risk: high}"}, risky(tool.High, policy.InPlan), policy.Allow, "tools.allow[0]", ""},
		"beside the plan, though it asks": {[]string{anyTool + ", frozen_plan_from_risk: high}\nfrozen_plan: {otherwise: ask}"}, risky(tool.High, policy.OutOfPlan), policy.Deny, "tools.frozen_plan_from_risk", ""},
		"beside the plan":                 {[]string{anyTool + "}"}, risky(tool.Low, policy.OutOfPlan), policy.Deny, "default", "not in the run's frozen plan"},
		"beside the plan, ask":            {[]string{anyTool + "}\nfrozen_plan: {otherwise: ask}"}, risky(tool.Low, policy.OutOfPlan), policy.Ask, `frozen_plan.otherwise "ask":3`, "not in the run's frozen plan"},
		"beside the plan, one denies":     {[]string{anyTool + "}\nfrozen_plan: {otherwise: ask}", anyTool + "}\nfrozen_plan: {otherwise: deny}"}, risky(tool.Low, policy.OutOfPlan), policy.Deny, `frozen_plan.otherwise "deny":3`, ""},
		"beside the plan, one is silent":  {[]string{anyTool + "}\nfrozen_plan: {otherwise: ask}", anyTool + "}"}, risky(tool.Low, policy.OutOfPlan), policy.Deny, "default", ""},
		"beside the plan, one inherits":   {[]string{anyTool + "}\nfrozen_plan: {otherwise: ask}", "rest: inherit"}, risky(tool.Low, policy.OutOfPlan), policy.Ask, "frozen_plan.otherwise", ""},
		"beside the plan, all inherit":    {[]string{"rest: inherit\n" + anyTool + "}"}, risky(tool.Low, policy.OutOfPlan), policy.Deny, "default", ""},
		"a plan is required":              {[]string{anyTool + "}\nfrozen_plan: {required: true}"}, risky(tool.Low, policy.NoPlan), policy.Deny, `frozen_plan.required "true":3`, ""},
		"a plan is required and there":    {[]string{anyTool + "}\nfrozen_plan: {required: true}"}, risky(tool.Low, policy.InPlan), policy.Allow, "tools.allow[0]", ""},
		"an effect is asked about":        {[]string{anyTool + "}\nside_effects: {ask: [fs.delete]}"}, risky(tool.Low, 0, tool.FSDelete, tool.FSRead), policy.Ask, `side_effects.ask[0] "fs.delete":3`, "declares fs.delete"},
		"another effect":                  {[]string{anyTool + "}\nside_effects: {ask: [fs.delete]}"}, risky(tool.Low, 0, tool.FSWrite), policy.Allow, "tools.allow[0]", ""},
		"a group is denied":               {[]string{anyTool + "}\nside_effects: {ask: [fs.delete], deny: [payments, 'fs.*']}"}, risky(tool.Low, 0, tool.FSDelete), policy.Deny, `side_effects.deny[1] "fs.*":3`, ""},
		"all are denied":                  {[]string{anyTool + "}\nside_effects: {deny: ['*']}"}, risky(tool.Low, 0, tool.Payments), policy.Deny, "side_effects.deny[0]", "payments"},
		"none is declared":                {[]string{anyTool + "}\nside_effects: {deny: ['*']}"}, risky(tool.Low, 0), policy.Allow, "tools.allow[0]", ""},
		"a narrowing policy that inherits": {[]string{anyTool + "}", "rest: inherit\nside_effects: {deny: [network.http]}"}, risky(tool.Low, 0, tool.NetworkHTTP), policy.Deny,
			`side_effects.deny[0] "network.http":3`, ""},
		"gates allow nothing": {[]string{"tools: {allow: [x], ask_from_risk: low, admin_from_risk: low}\nside_effects: {ask: ['*']}"}, risky(tool.Low, 0, tool.FSRead), policy.Deny, "default", "no entry of tools.allow"},
		"no policy":           {[]string{"name: none\ntools: {allow: []}"}, risky(tool.Low, 0), policy.Deny, "default", policy.NoPolicy},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := chain(t, tt.docs...).Decide(tt.call)
			if d.Effect != tt.want {
				t.Fatalf("%v by %s: %s; want %v", d.Effect, d.Rule, d.Reason, tt.want)
			}
			if got := fmt.Sprintf("%s:%d", d.Rule, d.Rule.Line); !strings.HasPrefix(got, tt.rule) {
				t.Errorf("by %s, want %s", got, tt.rule)
			}
			if !strings.Contains(d.Reason, tt.say) {
				t.Errorf("reason %q does not say %q", d.Reason, tt.say)
			}
			if (d.Effect == policy.Allow) != (len(d.Refusals) == 0) {
				t.Errorf("%v with %v", d.Effect, d.Refusals)
			}
		})
	}
}

// A call about which somebody asks anyway needs an admin's answer all the same.
func TestAdminIsKeptBesideOtherQuestions(t *testing.T) {
	for name, tt := range map[string]struct {
		doc  string
		risk tool.Risk
		want bool
	}{
		"only asked":       {"tools: {ask: ['a.*'], admin_from_risk: critical}", tool.High, false},
		"asked and admin":  {"tools: {ask: ['a.*'], admin_from_risk: high}", tool.High, true},
		"allowed, no risk": {"tools: {allow: ['a.*'], admin_from_risk: high}", tool.Low, false},
	} {
		if d := chain(t, tt.doc).Decide(risky(tt.risk, policy.NoPlan)); d.Admin != tt.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestDecidePlanLooksAtThePlanAlone(t *testing.T) {
	c := chain(t, "tools: {allow: [], frozen_plan_from_risk: high, deny_from_risk: low}\nside_effects: {deny: ['*']}")
	for name, tt := range map[string]struct {
		call policy.Call
		want policy.Effect
	}{
		"low risk":     {risky(tool.Low, policy.NoPlan, tool.FSWrite), policy.Allow},
		"high risk":    {risky(tool.High, policy.NoPlan), policy.Deny},
		"in the plan":  {risky(tool.High, policy.InPlan), policy.Allow},
		"not in it":    {risky(tool.Low, policy.OutOfPlan), policy.Deny},
		"unknown tool": {policy.Call{}, policy.Deny},
	} {
		if d := c.DecidePlan(tt.call); d.Effect != tt.want {
			t.Errorf("%s: %v %s", name, d.Effect, d.Reason)
		}
	}
	if d := (policy.Chain{}).DecidePlan(risky(tool.Low, policy.InPlan)); d.Effect != policy.Deny {
		t.Errorf("no policy: %v", d)
	}
}

func TestTermsAreTheStrictestOfTheChain(t *testing.T) {
	tests := map[string]struct {
		docs []string
		want policy.Terms
	}{
		"nothing said": {[]string{""}, policy.Terms{Approvers: 1, ApprovalTimeout: 10 * time.Minute, ApprovalExpires: time.Hour, Session: true}},
		"all said": {[]string{"approvals: {approvers: 2, timeout: 5m, session: false, expires: 30m}\nfrozen_plan: {required: true}\non_revoke: finish"},
			policy.Terms{Approvers: 2, ApprovalTimeout: 5 * time.Minute, ApprovalExpires: 30 * time.Minute, PlanRequired: true, FinishRevoked: true}},
		"the strictest of two": {[]string{"approvals: {approvers: 3, timeout: 5m, session: true}\non_revoke: finish", "approvals: {approvers: 2, timeout: 1h, expires: 2h, session: false}\non_revoke: cancel"},
			policy.Terms{Approvers: 3, ApprovalTimeout: 5 * time.Minute, ApprovalExpires: 2 * time.Hour}},
		"roles of both": {[]string{"approvals: {roles: [lead, reviewer, owner]}", "rest: inherit\napprovals: {roles: [owner, reviewer]}", "rest: inherit"},
			policy.Terms{Approvers: 1, ApprovalTimeout: 10 * time.Minute, ApprovalExpires: time.Hour, Session: true, Roles: []string{"reviewer", "owner"}}},
		"no role of both": {[]string{"approvals: {roles: [lead]}", "rest: inherit\napprovals: {roles: [owner]}"},
			policy.Terms{Approvers: 1, ApprovalTimeout: 10 * time.Minute, ApprovalExpires: time.Hour, Session: true, Roles: []string{}}},
		"a silent one cancels": {[]string{"on_revoke: finish", ""}, policy.Terms{Approvers: 1, ApprovalTimeout: 10 * time.Minute, ApprovalExpires: time.Hour, Session: true}},
		"one that inherits leaves it": {[]string{"on_revoke: finish", "rest: inherit"},
			policy.Terms{Approvers: 1, ApprovalTimeout: 10 * time.Minute, ApprovalExpires: time.Hour, Session: true, FinishRevoked: true}},
	}
	for name, tt := range tests {
		if got := chain(t, tt.docs...).Terms(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	for src, want := range map[string]string{"approvals: {roles: []}": "is empty: it needs at least one role", "approvals: {roles: [Lead]}": `"Lead" is not a valid name of a role`} {
		if _, err := policy.Parse("p.yaml", []byte("version: 1\n"+src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", src, err)
		}
	}
	two := chain(t, "violations: {path: pause, host: notify, plan: log}", "violations: {path: notify, host: revoke}").Terms()
	for v, want := range map[policy.Violation]policy.Response{policy.PathViolation: policy.PauseGrant, policy.HostViolation: policy.RevokeGrant,
		policy.PlanViolation: policy.LogViolation, policy.ToolViolation: policy.LogViolation, 200: policy.RevokeGrant} {
		if got := two.Response(v); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
	if t2 := (policy.Chain{nil}).Terms(); t2.Session || t2.FinishRevoked {
		t.Errorf("a missing policy: %+v", t2)
	}
}

func TestDelegationNeedsEveryPolicy(t *testing.T) {
	all := "delegate: {actions: [files.read, network], to: ['agent:*'], depth: 2}"
	tests := map[string]struct {
		docs     []string
		to       string
		depth    int
		sections []string
		say      string // "": allowed
	}{
		"allowed":                  {[]string{all}, "agent:a", 2, []string{"files.read"}, ""},
		"nothing said":             {[]string{""}, "agent:a", 1, nil, "does not say"},
		"an empty mapping":         {[]string{"delegate: {}"}, "agent:a", 1, nil, "delegate.to"},
		"to somebody else":         {[]string{all}, "user:a", 1, nil, `"user:a"`},
		"too deep":                 {[]string{all}, "agent:a", 3, nil, "delegate.depth"},
		"no depth at all":          {[]string{all}, "agent:a", 0, nil, "delegate.depth"},
		"without depth: once":      {[]string{"delegate: {actions: [network], to: ['agent:*']}"}, "agent:a", 2, nil, "1 times"},
		"more than may be":         {[]string{all}, "agent:a", 1, []string{"files.read", "files.write"}, `"files.write"`},
		"an inner one is silent":   {[]string{all, ""}, "agent:a", 1, nil, "does not say"},
		"an inner one inherits":    {[]string{all, "rest: inherit"}, "agent:a", 1, []string{"network"}, ""},
		"an inner one says less":   {[]string{all, "delegate: {actions: [network], to: ['agent:*']}"}, "agent:a", 1, []string{"files.read"}, "files.read"},
		"all inherit":              {[]string{"rest: inherit"}, "agent:a", 1, nil, "no policy says"},
		"text of another's making": {[]string{all}, "agent:a\nx", 1, nil, `"agent:a\nx"`},
	}
	for name, tt := range tests {
		err := chain(t, tt.docs...).MayDelegate(tt.to, tt.depth, tt.sections)
		if tt.say == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, fault.NotDelegable) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %v, want %q", name, err, tt.say)
		}
	}
}

func TestGatesAreReadStrictly(t *testing.T) {
	for src, want := range map[string]string{
		"tools: {deny_from_risk: severe}":          "p.yaml:2:25: tools.deny_from_risk",
		"side_effects: {deny: [fs.remove]}":        "side_effects.deny[0]",
		"side_effects: {deny: [fs.delet]}":         `did you mean "fs.delete"?`,
		"side_effects: {allow: [fs.read]}":         "side_effects.allow: unknown key",
		"side_effects: {ask: fs.read}":             "must be a list",
		"approvals: {approvers: 0}":                "approvals.approvers: must be a whole number from 1",
		"approvals: {session: sometimes}":          "approvals.session: must be true or false",
		"approvals: {timeout: 10}":                 "approvals.timeout",
		"frozen_plan: {otherwise: allow}":          "must be ask or deny",
		"frozen_plan: {required: 1}":               "frozen_plan.required",
		"delegate: {actions: [files]}":             "delegate.actions[0]",
		"delegate: {actions: [none]}":              "delegate.actions[0]",
		"delegate: {to: ['a b']}":                  "delegate.to[0]",
		"delegate: {depth: 0}":                     "delegate.depth",
		"on_revoke: wait":                          "must be finish or cancel",
		"violations: {path: ignore}":               "must be log or notify or pause or revoke",
		"violations: {file: log}":                  "violations.file: unknown key",
		"roles: {'agent:*': {on_revoke: perhaps}}": "on_revoke",
	} {
		_, err := policy.Parse("p.yaml", []byte("version: 1\n"+src))
		if !errors.Is(err, fault.PolicyInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

// Whatever gates there are, one more policy or one more gate allows nothing more.
func TestPropertiesOfGates(t *testing.T) {
	risk := rapid.SampledFrom([]string{"", "low", "medium", "high", "critical"})
	effect := rapid.SliceOfN(rapid.SampledFrom([]string{"fs.read", "fs.*", "payments", "network.http", "*"}), 0, 2)
	draw := func(t *rapid.T) string {
		doc := "version: 1\ntools: {allow: ['**']"
		for _, key := range []string{"ask_from_risk", "deny_from_risk", "admin_from_risk", "frozen_plan_from_risk"} {
			if r := risk.Draw(t, key); r != "" {
				doc += ", " + key + ": " + r
			}
		}
		doc += "}\nside_effects: {ask: " + quoted(effect.Draw(t, "ask")) + ", deny: " + quoted(effect.Draw(t, "deny")) + "}\n"
		doc += rapid.SampledFrom([]string{"", "frozen_plan: {otherwise: ask}", "frozen_plan: {otherwise: deny, required: true}"}).Draw(t, "plan")
		return doc + rapid.SampledFrom([]string{"", "\nrest: inherit"}).Draw(t, "rest")
	}
	bind := func(t *rapid.T, src []byte) *policy.Rules {
		p, err := policy.Parse("p", src)
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := bind(t, []byte(draw(t))), bind(t, []byte(draw(t)))
		call := risky(tool.Risk(rapid.IntRange(0, 3).Draw(t, "risk")), policy.PlanFit(rapid.IntRange(0, 2).Draw(t, "fit")))
		call.Tool.Effects = tool.Effects(rapid.Uint32Range(0, 1<<17-1).Draw(t, "effects"))
		one, two, turned := policy.Chain{a}.Decide(call), policy.Chain{a, b}.Decide(call), policy.Chain{b, a}.Decide(call)
		if two.Effect > one.Effect && call.Plan != policy.OutOfPlan {
			t.Fatalf("narrowing made %v of %v", two.Effect, one.Effect)
		}
		if two.Effect != turned.Effect || two.Admin != turned.Admin {
			t.Fatalf("the order counts: %+v, %+v", two, turned)
		}
		if p := (policy.Chain{a, b}).DecidePlan(call); p.Effect < two.Effect {
			t.Fatalf("the plan says %v, all of it %v", p.Effect, two.Effect)
		}
		again := bind(t, a.Policy().Print())
		if d := (policy.Chain{again}).Decide(call); d.Effect != one.Effect || d.Rule.String() != one.Rule.String() || d.Reason != one.Reason {
			t.Fatalf("printed and read again %+v, was %+v", d, one)
		}
	})
}

// Which tools an entry is of is found out quickly, and by nothing but its pattern.
func TestToolEntriesMatchByTheirWholePattern(t *testing.T) {
	for _, tt := range []struct {
		list, pattern, id string
		match             bool
	}{
		{"deny", "FS.*", "fs.read", true}, {"deny", "fs.Read", "fs.read", true}, {"deny", "*.read", "fs.read", true}, {"deny", "mcp:*:x", "MCP:a:b:x", true},
		{"deny", "fs.", "fs.read", false}, {"deny", "fs.reads", "fs.read", false}, {"ask", "FS.*", "fs.read", false}, {"ask", "fs.*", "fs.read", true},
		{"ask", "*", "fs.read", true}, {"ask", "f*.r*", "fs.read", true}, {"ask", "fs.read", "fs.rea", false},
	} {
		c := chain(t, fmt.Sprintf("tools: {allow: ['**'], %s: [%q]}", tt.list, tt.pattern))
		d := c.Decide(policy.Call{Tool: &tool.Spec{ID: tool.ID(tt.id), Source: "mcp"}})
		if (d.Effect != policy.Allow) != tt.match {
			t.Errorf("%s %q on %q: %v", tt.list, tt.pattern, tt.id, d.Effect)
		}
	}
}
