package policy

import (
	"github.com/remitrun/remit/internal/base/tool"
)

// Match is one rule that took part in a decision.
type Match struct {
	Link   int // the policy's place in the chain, from 0
	Effect Effect
	Rule   *Rule
	Action string // the action as it prints, or the tool's ID
	Reason string
	Admin  bool // it needs an approver of admin calls
}

// Explain gives every rule that took part in the decision on a call, matching
// or refusing by default, in the order of actions, tool last, and of the chain.
func (c Chain) Explain(call Call) []Match {
	var all collector
	c.decide(&call, &all)
	return all.matches
}

// collector notes all that matches. A nil collector notes nothing.
type collector struct {
	matches []Match
}

func (c *collector) match(link int, b *boundEntry, a *tool.Action, f *facts) {
	if c == nil {
		return
	}
	name := a.String()
	reason := b.reason
	if reason == "" {
		verb := "denied by "
		if b.effect == Ask {
			verb = "needs approval by "
		}
		reason = verb + b.rule.String()
		if f != nil && f.use != nil {
			reason += ": " + f.use.String()
		}
	}
	if f != nil && f.path != "" && f.path != a.Path {
		name = a.Kind.String() + " " + a.Subject() + " (really " + tool.Action{Kind: a.Kind, Path: f.path}.Subject() + ")"
	}
	c.matches = append(c.matches, Match{link, b.effect, &b.rule, name, reason, b.admin})
}

func (c *collector) matchCall(link int, b *boundEntry, call *Call) {
	if c == nil {
		return
	}
	reason := b.reason
	switch {
	case reason != "":
	case b.effect == Ask:
		reason = "needs approval by " + b.rule.String()
	default:
		reason = "denied by " + b.rule.String()
	}
	c.matches = append(c.matches, Match{link, b.effect, &b.rule, string(call.Tool.ID), reason, b.admin})
}

// refuse notes that nothing allows an action.
func (c *collector) refuse(r *Rules, link int, a *tool.Action, reason string) {
	if c != nil {
		c.matches = append(c.matches, Match{link, Deny, defaultRule(r), a.String(), reason, false})
	}
}

func (c *collector) refuseCall(r *Rules, link int, call *Call, reason string) {
	if c == nil {
		return
	}
	id := ""
	if call.Tool != nil {
		id = string(call.Tool.ID)
	}
	c.matches = append(c.matches, Match{link, Deny, defaultRule(r), id, reason, false})
}

func defaultRule(r *Rules) *Rule {
	if r == nil || r.policy == nil {
		return &Rule{Name: "default"}
	}
	if r.flow != nil {
		return &r.flow.rule
	}
	return &Rule{Policy: r.policy.Name(), File: r.policy.file, Name: "default"}
}

// decision completes a decision that is not Allow with the collected reasons.
func (c *collector) decision(d Decision) Decision {
	if d.Effect == Allow {
		return d
	}
	for _, m := range c.matches {
		if m.Effect == Allow {
			continue
		}
		d.Admin = d.Admin || m.Admin
		d.Refusals = append(d.Refusals, Refusal{m.Effect, m.Rule, m.Action, m.Reason})
		if d.Rule == nil && m.Effect == d.Effect {
			d.Rule, d.Reason, d.Link = m.Rule, m.Reason, m.Link
		}
	}
	return d
}
