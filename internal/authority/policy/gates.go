package policy

import (
	"strconv"

	"github.com/remitrun/remit/internal/base/tool"
)

// PlanFit says how a call stands to the frozen plan of its run.
type PlanFit uint8

// The zero PlanFit is that of a run without a frozen plan.
const (
	NoPlan    PlanFit = iota // the run is bound to none
	InPlan                   // the plan has this call
	OutOfPlan                // it does not
)

// boundGates is what a policy's gates come to: what they say of a call whatever
// its actions are.
type boundGates struct {
	any     bool // one of them may refuse a call
	risks   []boundRisk
	effects []boundEffect
	// Of frozen plans: what refuses calls of a run without one, and what is said
	// of a call that is not in the run's.
	required, otherwise *boundEntry
	planRisk            *boundRisk
}

type boundRisk struct {
	boundEntry
	risk tool.Risk
}

type boundEffect struct {
	boundEntry
	set tool.Effects
}

// bindGates prepares what the document's gates say, with the texts that a
// decision prints.
func (r *Rules) bindGates(d *document) {
	g := &r.gates
	rule := func(e Effect, line int, name, pattern string) boundEntry {
		return boundEntry{effect: e, rule: Rule{Policy: d.name, File: r.policy.file, Line: line, Name: name, Pattern: pattern}}
	}
	risk := func(e Effect, at *riskGate, name, why string) *boundRisk {
		if at == nil {
			return nil
		}
		b := &boundRisk{rule(e, at.pos.Line, "tools."+name, at.risk.String()), at.risk}
		b.reason = why + " by " + b.rule.String()
		return b
	}
	if b := risk(Deny, d.denyFromRisk, "deny_from_risk", "denied"); b != nil {
		g.risks = append(g.risks, *b)
	}
	if b := risk(Ask, d.adminFromRisk, "admin_from_risk", "needs approval of somebody who may approve admin calls,"); b != nil {
		b.admin = true
		g.risks = append(g.risks, *b)
	}
	g.planRisk = risk(Deny, d.planFromRisk, "frozen_plan_from_risk", "calls of this risk need a frozen plan,")
	for e, list := range d.effects {
		for i, en := range list {
			b := rule(Effect(e), en.pos.Line, "side_effects."+listNames[e]+"["+strconv.Itoa(i)+"]", en.text)
			b.reason = map[Effect]string{Deny: "denied by ", Ask: "needs approval by "}[Effect(e)] + b.rule.String()
			g.effects = append(g.effects, boundEffect{b, en.set})
		}
	}
	if d.planRequired {
		b := rule(Deny, d.planPos.Line, "frozen_plan.required", "true")
		b.reason = "the run has no frozen plan, which is required by " + b.rule.String()
		g.required = &b
	}
	if d.planElse != "" {
		e := Deny
		if d.planElse == "ask" {
			e = Ask
		}
		b := rule(e, d.elsePos.Line, "frozen_plan.otherwise", d.planElse)
		b.reason = "the call is not in the run's frozen plan: " + map[Effect]string{Deny: "denied", Ask: "needs approval"}[e] + " by " + b.rule.String()
		g.otherwise = &b
	} else if !d.inherit {
		b := rule(Deny, 0, "default", "")
		b.reason = "the call is not in the run's frozen plan"
		g.otherwise = &b
	}
	g.any = len(g.risks)+len(g.effects) > 0 || g.required != nil || g.planRisk != nil
}

// DecidePlan says what the chain makes of how a call stands to the run's frozen
// plan, and of nothing else: the first of the decision's parts. It looks at the
// call's Tool and Plan.
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

// gates judges what a call is, apart from what it does and which tool it
// names: its place in a frozen plan, the risk, the declared side effects.
// Gates refuse; none allows anything.
func (c Chain) gates(call *Call, all *collector) Effect {
	if call.Tool == nil {
		return Allow // its decision as a tool denies
	}
	effect := c.plan(call, all)
	if effect != Allow && all == nil {
		return effect
	}
	for i, r := range c {
		if r == nil || !r.gates.any {
			continue
		}
		for k := range r.gates.risks {
			if b := &r.gates.risks[k]; call.Tool.Risk >= b.risk {
				effect = min(effect, b.effect)
				all.matchCall(i, &b.boundEntry, call)
			}
		}
		for k := range r.gates.effects {
			if b := &r.gates.effects[k]; call.Tool.Effects&b.set != 0 {
				effect = min(effect, b.effect)
				all.matchEffects(i, b, call)
			}
		}
	}
	return effect
}

// plan judges a call's place in a frozen plan. Where no link says what becomes
// of a call that is not in it, it is denied.
func (c Chain) plan(call *Call, all *collector) Effect {
	effect, decided := Allow, call.Plan != OutOfPlan
	for i, r := range c {
		if r == nil || call.Plan == InPlan || call.Plan == NoPlan && !r.gates.any {
			continue
		}
		b := r.gates.required
		if call.Plan == OutOfPlan {
			b = r.gates.otherwise
		}
		if b != nil {
			decided = true
			effect = min(effect, b.effect)
			all.matchCall(i, b, call)
		}
		if b := r.gates.planRisk; b != nil && call.Tool.Risk >= b.risk {
			effect = min(effect, b.effect)
			all.matchCall(i, &b.boundEntry, call)
		}
	}
	if !decided {
		all.refuseCall(nil, 0, call, "the call is not in the run's frozen plan")
		return Deny
	}
	return effect
}

func (c *collector) matchEffects(link int, b *boundEffect, call *Call) {
	if c != nil {
		reason := b.reason + ": the tool declares " + (call.Tool.Effects & b.set).String()
		c.matches = append(c.matches, Match{Link: link, Effect: b.effect, Rule: &b.rule, Action: string(call.Tool.ID), Reason: reason})
	}
}
