package policy

import (
	"slices"
	"strconv"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/tool"
)

// Hold says whether a call waits for review in a held run. The strictest policy of a chain
// counts.
type Hold uint8

// The values of hold.
const (
	NoHold   Hold = iota
	HoldAsk       // it does not wait, since its answer is needed: a person is asked
	HoldBack      // it waits
)

// text is the value as policies write it; "" for none.
func (h Hold) text() string { return [...]string{"", "ask", "true"}[h] }

// hold reads a value of hold.
func (p *parser) hold(into *Hold) document.Field {
	return func(n *document.Node, path string) {
		if n.Is("ask") {
			*into = HoldAsk
			return
		}
		held := false
		p.Bool(&held)(n, path)
		if held {
			*into = HoldBack
		}
	}
}

// Holding returns whether a call waits for review in a held run, and the rule that says so.
// It does not allow the call.
func (c Chain) Holding(call Call) (Hold, *Rule) {
	best, rule := c.holdingTool(&call)
	for i := range call.Actions {
		if h, r := c.HoldingAction(call.Actions[i]); h > best {
			best, rule = h, r
		}
	}
	return best, rule
}

// HoldingAction is Holding for one action alone.
func (c Chain) HoldingAction(a tool.Action) (best Hold, rule *Rule) {
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue // such a chain allows nothing
		}
		if h, b := r.holdsAction(&a); h > best {
			best, rule = h, b
		}
	}
	return best, rule
}

func (c Chain) holdingTool(call *Call) (best Hold, rule *Rule) {
	if call.Tool == nil {
		return NoHold, nil
	}
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		for e := Ask; e <= Allow; e++ {
			list := r.sections[toolSection].lists[e]
			for i := range list {
				if h := list[i].tool().hold; h > best && r.matchesCall(&list[i], call) {
					best, rule = h, &list[i].rule
				}
			}
		}
		for i := range r.gates.holds {
			if g := &r.gates.holds[i]; best < HoldBack && g.set&call.Tool.Effects != 0 {
				best, rule = HoldBack, &g.rule
			}
		}
	}
	return best, rule
}

// safeMethods are the methods of requests that change nothing and whose answer is needed.
var safeMethods = []string{"GET", "HEAD", "OPTIONS"}

func (r *Rules) holdsAction(a *tool.Action) (best Hold, rule *Rule) {
	switch a.Kind {
	case tool.Network:
		if slices.Contains(safeMethods, a.Target.Method) {
			return NoHold, nil
		}
		unseen := a.Target.Method == "" || a.Target.Path == "" // a connection that can carry any request
		for e := Ask; e <= Allow; e++ {
			list := r.sections[networkSection].lists[e]
			for i := range list {
				if p := list[i].network(); p.hold > best && (p.rule.Match(a.Target) || unseen && p.rule.Covers(a.Target)) {
					best, rule = p.hold, &list[i].rule
				}
			}
		}
	case tool.TableWrite:
		for _, d := range r.policy.content().databases.list {
			if d.name == a.Database && d.hold > best {
				b := r.synthetic("databases."+d.name+".hold", "")
				b.rule.Line = d.pos.Line
				best, rule = d.hold, &b.rule
			}
		}
	}
	return best, rule
}

// MayHold reports whether some call could wait for review.
func (c Chain) MayHold() bool {
	return slices.ContainsFunc(c, func(r *Rules) bool {
		if r == nil || r.policy == nil {
			return false
		}
		held := len(r.gates.holds) > 0 || r.anyNetwork(func(p *networkPattern) bool { return p.hold == HoldBack }) ||
			slices.ContainsFunc(r.policy.content().databases.list, func(d database) bool { return d.hold == HoldBack })
		for e := Ask; e <= Allow && !held; e++ {
			held = slices.ContainsFunc(r.sections[toolSection].lists[e], func(b boundEntry) bool { return b.tool().hold == HoldBack })
		}
		return held
	})
}

// bindHolds prepares side_effects.hold.
func (r *Rules) bindHolds(d *content) {
	for i, en := range d.sideEffects.hold {
		b := r.gateEntry(Allow, en.pos.Line, "side_effects.hold["+strconv.Itoa(i)+"]", en.text)
		r.gates.holds = append(r.gates.holds, effectGate{b, en.set})
	}
}
