package policy

import "github.com/remitrun/remit/internal/base/tool"

// boundGates are a policy's gates: rules that refuse a call regardless of its
// actions. No gate allows anything.
type boundGates struct {
	any     bool // one of them may refuse a call
	risks   []riskRule
	effects []effectGate
	holds   []effectGate // side_effects.hold: no gates, they refuse nothing
	plan    planGates
}

// riskRule is a bound gate of tools by risk.
type riskRule struct {
	boundEntry

	risk tool.Risk
}

// bindGates prepares the gates, with the texts that a decision prints.
func (r *Rules) bindGates(d *content) {
	if g := d.tools.askFromRisk; g != nil {
		b := r.gateEntry(Ask, g.pos.Line, "tools.ask_from_risk", g.risk.String())
		r.gate, r.risk = &b, g.risk
	}
	if d.tools.unlisted == Ask.String() {
		b := r.gateEntry(Ask, d.tools.unlistedPos.Line, "tools.unlisted", d.tools.unlisted)
		r.unlisted = &b
	}
	if b := r.riskRule(Deny, d.tools.denyFromRisk, "deny_from_risk", "denied"); b != nil {
		r.gates.risks = append(r.gates.risks, *b)
	}
	if b := r.riskRule(Ask, d.tools.adminFromRisk, "admin_from_risk", "needs approval of a person who may approve admin calls,"); b != nil {
		b.admin = true
		r.gates.risks = append(r.gates.risks, *b)
	}
	r.bindEffects(d)
	r.bindHolds(d)
	r.bindPlan(d)
	g := &r.gates
	g.any = len(g.risks)+len(g.effects) > 0 || g.plan.required != nil || g.plan.risk != nil
}

func (r *Rules) riskRule(e Effect, at *riskGate, name, why string) *riskRule {
	if at == nil {
		return nil
	}
	b := &riskRule{r.gateEntry(e, at.pos.Line, "tools."+name, at.risk.String()), at.risk}
	b.reason = why + " by " + b.rule.String()
	return b
}

// gateEntry is an entry that has no pattern to match.
func (r *Rules) gateEntry(e Effect, line int, name, text string) boundEntry {
	return boundEntry{effect: e, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Line: line, Name: name, Pattern: text}}
}

// verb is the verb for an effect in a decision.
func verb(e Effect) string {
	if e == Ask {
		return "needs approval"
	}
	return "denied"
}
