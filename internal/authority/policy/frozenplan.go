package policy

import (
	"github.com/remitrun/remit/internal/base/fault"
)

// PlanFit says whether a call is part of the frozen plan of its run.
type PlanFit uint8

// The zero PlanFit is that of a run without a frozen plan.
const (
	NoPlan    PlanFit = iota // the run has no frozen plan
	InPlan                   // the plan has this call
	OutOfPlan                // the plan does not have it
)

// frozenPlanSettings is the section frozen_plan.
type frozenPlanSettings struct {
	required                  bool
	otherwise                 string // "", "ask" or "deny"
	requiredPos, otherwisePos fault.Pos
}

func (s *frozenPlanSettings) setting() setting {
	return mapping("frozen_plan", flag("required", &s.required).at(&s.requiredPos),
		choice("otherwise", &s.otherwise, "ask", "deny").at(&s.otherwisePos))
}

// planGates are a policy's rules on frozen plans. required refuses calls of a run
// without a frozen plan. otherwise decides calls that are not in the run's plan.
type planGates struct {
	required, otherwise *boundEntry
	risk                *riskRule
}

func (r *Rules) bindPlan(d *content) {
	g, s := &r.gates.plan, &d.frozenPlan
	g.risk = r.riskRule(Deny, d.tools.planFromRisk, "frozen_plan_from_risk", "calls of this risk need a frozen plan,")
	if s.required {
		b := r.gateEntry(Deny, s.requiredPos.Line, "frozen_plan.required", "true")
		b.reason = "the run has no frozen plan, which is required by " + b.rule.String()
		g.required = &b
	}
	switch {
	case s.otherwise != "":
		e := Deny
		if s.otherwise == "ask" {
			e = Ask
		}
		b := r.gateEntry(e, s.otherwisePos.Line, "frozen_plan.otherwise", s.otherwise)
		b.reason = "the call is not in the run's frozen plan: " + verb(e) + " by " + b.rule.String()
		g.otherwise = &b
	case !d.inherit:
		b := r.gateEntry(Deny, 0, "default", "")
		b.reason = "the call is not in the run's frozen plan"
		g.otherwise = &b
	}
}

// DecidePlan decides only whether a call fits the run's frozen plan: the first
// part of a decision. It looks at the call's Tool and Plan.
func (c Chain) DecidePlan(call Call) Decision {
	if call.Tool == nil || len(c) == 0 {
		return Decision{Reason: "no policy allows anything here"}
	}
	if e := c.plan(&call, nil); e == Allow {
		return Decision{Effect: Allow, Reason: "no policy asks for a frozen plan here"}
	}
	var all collector
	e := c.plan(&call, &all)
	return all.decision(Decision{Effect: e})
}

// plan decides whether a call fits the run's frozen plan. If no policy decides
// calls that are not in the plan, they are denied.
func (c Chain) plan(call *Call, all *collector) Effect {
	effect, decided := Allow, call.Plan != OutOfPlan
	for i, r := range c {
		if r == nil || call.Plan == InPlan || call.Plan == NoPlan && !r.gates.any {
			continue
		}
		g := &r.gates.plan
		b := g.required
		if call.Plan == OutOfPlan {
			b = g.otherwise
		}
		if b != nil {
			decided = true
			effect = min(effect, b.effect)
			all.matchCall(i, b, call)
		}
		if g.risk != nil && call.Tool.Risk >= g.risk.risk {
			effect = min(effect, g.risk.effect)
			all.matchCall(i, &g.risk.boundEntry, call)
		}
	}
	if !decided {
		all.refuseCall(nil, 0, call, "the call is not in the run's frozen plan")
		return Deny
	}
	return effect
}
