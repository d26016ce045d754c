package policy

import (
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// Decide decides a call: the strictest answer of every policy of the chain on
// every action of the call, on the tool with its arguments, and of the gates.
//
// A call is decided twice, before and after its facts are gathered: a fact that
// is empty in an action, as the resolved path, is not judged.
func (c Chain) Decide(call Call) Decision {
	if d, ok := c.decide(&call, nil); ok {
		return d
	}
	var all collector
	d, _ := c.decide(&call, &all)
	return all.decision(d)
}

// DecideAction decides one action alone, for a handle at the moment of its use.
func (c Chain) DecideAction(a tool.Action) Decision {
	if e, b, _ := c.action(&a, nil); e == Allow {
		return Decision{Effect: Allow, Rule: &b.rule, Reason: b.reason}
	}
	var all collector
	e, _, _ := c.action(&a, &all)
	return all.decision(Decision{Effect: e})
}

// decide decides all parts of a call. Without a collector it stops at the first
// part that is not allowed, and reports false.
func (c Chain) decide(call *Call, all *collector) (d Decision, ok bool) {
	d.Effect = Allow
	var first *boundEntry
	for i := range call.Actions {
		e, b, _ := c.action(&call.Actions[i], all)
		if e != Allow && all == nil {
			return d, false
		}
		d.Effect = min(d.Effect, e)
		if first == nil {
			first = b
		}
	}
	e, b := c.tool(call, all)
	if e != Allow && all == nil {
		return d, false
	}
	d.Effect = min(d.Effect, e)
	if first == nil {
		first = b
	}
	if e = c.gates(call, all); e != Allow && all == nil {
		return d, false
	}
	d.Effect = min(d.Effect, e)
	if d.Effect == Allow && first != nil {
		d.Rule, d.Reason = &first.rule, first.reason
	}
	return d, true
}

const unknownNeeds = "the call's needs are unknown: "

// action decides one action by every policy, in the section of its kind. The
// entry is the first that allows it; ok is false if no section decides it.
func (c Chain) action(a *tool.Action, all *collector) (effect Effect, first *boundEntry, ok bool) {
	id := sectionOf(a.Kind)
	switch {
	case len(c) == 0:
		all.refuse(nil, 0, a, "no policy allows anything here")
		return Deny, nil, false
	case a.Unknown != "" && id != commandSection:
		all.refuse(c[0], 0, a, unknownNeeds+a.Unknown)
		return Deny, nil, false
	case id == noSection:
		all.refuse(c[0], 0, a, "unknown kind of action")
		return Deny, nil, false
	}
	effect = Allow
	if id == commandSection {
		if i, b, why := c.contradiction(); b != nil {
			all.refuse(c[i], i, a, "no command can satisfy "+b.rule.String()+": "+why)
			return Deny, nil, false
		}
	}
	decided := false
	var seen ordinaryPaths
	for i, r := range c {
		if r == nil || r.policy == nil {
			all.refuse(nil, i, a, "a policy of the chain is missing")
			return Deny, nil, false
		}
		if r.flow != nil && r.flow.asks != nil {
			if effect = min(effect, r.judgeAsks(a, i, all)); effect != Allow && all == nil {
				return effect, nil, true
			}
			continue
		}
		if r.sections[id].inherits {
			all.match(i, &r.inherit, a, nil)
			continue
		}
		decided = true
		e, b := r.judge(id, a, i, &seen, all)
		effect = min(effect, e)
		if first == nil {
			first = b
		}
		if e != Allow && all == nil {
			return e, b, true
		}
	}
	if !decided && a.Typed && a.Unknown == "" && id == commandSection {
		all.match(0, &c[0].typed, a, nil)
		return Ask, &c[0].typed, true
	}
	if !decided {
		all.refuse(c[0], 0, a, "no policy of the chain has a section "+c[0].policy.content().deciding(id).String())
		return Deny, nil, false
	}
	return effect, first, true
}

// tool decides a call's tool and arguments by every policy.
func (c Chain) tool(call *Call, all *collector) (Effect, *boundEntry) {
	switch {
	case len(c) == 0:
		all.refuseCall(nil, 0, call, "no policy allows anything here")
		return Deny, nil
	case call.Tool == nil:
		all.refuseCall(c[0], 0, call, "the tool is not known")
		return Deny, nil
	case c.program() > MaxChainProgram:
		all.refuseCall(c[0], 0, call, "the regular expressions of all policies together are too large")
		return Deny, nil
	}
	effect, decided := Allow, false
	var first *boundEntry
	for i, r := range c {
		if r == nil || r.policy == nil {
			all.refuseCall(nil, i, call, "a policy of the chain is missing")
			return Deny, nil
		}
		if r.sections[toolSection].inherits {
			all.matchCall(i, &r.inherit, call)
			continue
		}
		decided = true
		e, b := r.judgeTool(call, i, all)
		effect = min(effect, e)
		if first == nil {
			first = b
		}
		if e != Allow && all == nil {
			return e, b
		}
	}
	if !decided {
		all.refuseCall(c[0], 0, call, "no policy of the chain has a section tools")
		return Deny, nil
	}
	return effect, first
}

// gates decides a call by its place in a frozen plan, its risk and its declared
// side effects. A gate refuses; none allows anything.
func (c Chain) gates(call *Call, all *collector) Effect {
	if call.Tool == nil {
		return Allow // the decision on the tool denies it
	}
	effect := c.plan(call, all)
	if effect != Allow && all == nil {
		return effect
	}
	for i, r := range c {
		if r != nil && r.flow != nil {
			effect = min(effect, r.judgeFlowTool(call, i, all))
			continue
		}
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

// judge decides an action by one policy.
func (r *Rules) judge(id sectionID, a *tool.Action, link int, seen *ordinaryPaths, all *collector) (Effect, *boundEntry) {
	switch id {
	case readSection, writeSection, deleteSection:
		return r.judgeFile(id, a, link, seen, all)
	case networkSection:
		return r.judgeNetwork(a, link, all)
	case commandSection:
		if b := r.judgeStart(a); b != nil {
			all.match(link, b, a, nil)
			return Deny, b
		}
		if a.Unknown != "" {
			return r.judgeUntold(a, link, all)
		}
	case databaseReadSection, databaseWriteSection:
		if r.flow != nil {
			return r.judgeFlowDatabase(a, link, all)
		}
		return r.judgeDatabase(id, a, link, all)
	}
	f := facts{action: a}
	return r.search(id, &f, link, all)
}

// search finds the strictest entry of a section that matches. With a collector
// it notes all that match.
func (r *Rules) search(id sectionID, f *facts, link int, all *collector) (Effect, *boundEntry) {
	if !r.sections[id].indexed {
		return r.searchAmong(nil, id, f, link, all)
	}
	var c candidates
	return r.searchAmong(&c, id, f, link, all)
}

func (r *Rules) searchAmong(c *candidates, id sectionID, f *facts, link int, all *collector) (Effect, *boundEntry) {
	var best *boundEntry
	for e := range r.sections[id].lists {
		list := r.sections[id].lists[e]
		c.find(id, r.sections[id].index[e], f)
		for i := range c.size(len(list)) {
			b := &list[c.at(i)]
			if !r.matches(b, f) {
				continue
			}
			if all == nil {
				return b.effect, b
			}
			if best == nil {
				best = b
			}
			all.match(link, b, f.action, f)
		}
	}
	if best != nil {
		return best.effect, best
	}
	if id == commandSection {
		if b := r.allowsInside(f.action); b != nil {
			all.match(link, b, f.action, nil)
			return Allow, b
		}
	}
	if f.action.Typed && id == commandSection {
		all.match(link, &r.typed, f.action, nil)
		return Ask, &r.typed
	}
	if all != nil {
		all.refuse(r, link, f.action, r.noMatch(id, f))
	}
	return Deny, nil
}

// Why a name is sensitive, see [Sensitive].
const (
	holdsSecrets = "may hold secrets"
	runsPrograms = "can make other programs run commands"
	ofTheSystem  = "belongs to the kernel or to Remit"
)

// Sensitivities are the reasons for which a name is sensitive, as refusals give them after it.
func Sensitivities() []string { return []string{holdsSecrets, runsPrograms, ofTheSystem} }

// sensitivity returns why the name of a path is sensitive.
func (r *Rules) sensitivity(f *facts) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(f.folded, "/"), "/")
	switch {
	case kernel([]byte(first)) || r.inState(f.folded, len(f.folded)):
		return ofTheSystem
	case r.needs(f.path, f.folded, false, nil) != nil:
		return holdsSecrets
	}
	return runsPrograms
}

// noMatch returns why no entry of a section matched.
func (r *Rules) noMatch(id sectionID, f *facts) string {
	if r.flow != nil {
		return r.flow.noMatch(f.action.String())
	}
	id = r.policy.content().deciding(id)
	lists := &r.sections[id].lists
	subject := f.action.Subject()
	if f.path != "" {
		subject = strconv.Quote(r.relative(f.path))
		for e := Ask; e <= Allow; e++ {
			for i := range lists[e] {
				if b := &lists[e][i]; b.pattern.(*filePattern).exact.Match(f.path) {
					if lead := f.action.Lead; lead != "" && under(lead, f.path) && r.needs(f.path, f.folded, true, nil) == nil {
						return subject + " is run or read by Git, whose settings name " + strconv.Quote(r.relative(lead)) + ": an entry must spell that, " + b.rule.String() + " does not"
					}
					return subject + " " + r.sensitivity(f) + "; to allow it, add " + subject + " to " + b.rule.listed()
				}
			}
		}
	}
	if f.use != nil {
		return "no entry of databases." + f.action.Database + "." + id.verb() + " matches " + f.use.String()
	}
	if id == networkSection && !r.policy.content().network.set {
		return "the policy has no section network, so nothing matches " + subject
	}
	if len(lists[Allow])+len(lists[Ask]) == 0 {
		return id.String() + ".allow is empty, so nothing matches " + subject
	}
	why := ""
	if id == networkSection {
		if why = r.nearMiss(f.action.Target); why != "" {
			why = ": " + why
		}
	}
	return "no entry of " + id.String() + ".allow matches " + subject + why
}
