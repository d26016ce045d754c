package policy

import (
	"net/netip"
	"path"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// Decide gives the decision on a call: the strictest of all policies in the
// chain, all its actions and the tool itself. Facts that are empty in an action
// are not judged (that is the first step); facts that are there are (second).
func (c Chain) Decide(call Call) Decision {
	if d, ok := c.decide(&call, nil); ok {
		return d
	}
	var all collector
	d, _ := c.decide(&call, &all)
	return all.decision(d)
}

// DecideAction gives the decision on one action alone, for handles at the
// moment of use.
func (c Chain) DecideAction(a tool.Action) Decision {
	if e, b, _ := c.action(&a, nil); e == Allow {
		return Decision{Effect: Allow, Rule: &b.rule, Reason: b.reason}
	}
	var all collector
	e, _, _ := c.action(&a, &all)
	return all.decision(Decision{Effect: e})
}

// decide judges everything about a call. Without a collector it stops at the
// first thing that is not allowed and reports false.
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

// action judges one action by every link.
func (c Chain) action(a *tool.Action, all *collector) (Effect, *boundEntry, bool) {
	id := sectionOf(a.Kind)
	switch {
	case len(c) == 0:
		all.refuse(nil, 0, a, "no policy allows anything here")
		return Deny, nil, false
	case a.Unknown != "":
		all.refuse(c[0], 0, a, "what the call needs cannot be told: "+a.Unknown)
		return Deny, nil, false
	case id == noSection:
		all.refuse(c[0], 0, a, "it is no kind of action that a policy decides")
		return Deny, nil, false
	}
	effect, decided := Allow, false
	var first *boundEntry
	for i, r := range c {
		if r == nil || r.policy == nil {
			all.refuse(nil, i, a, "a policy of the chain is missing")
			return Deny, nil, false
		}
		if r.sections[id].inherits {
			all.match(i, &r.inherit, a, nil)
			continue
		}
		decided = true
		e, b := r.judge(id, a, i, all)
		effect = min(effect, e)
		if first == nil {
			first = b
		}
		if e != Allow && all == nil {
			return e, b, true
		}
	}
	if !decided && a.Typed && id == commandSection {
		all.match(0, &c[0].typed, a, nil)
		return Ask, &c[0].typed, true
	}
	if !decided {
		all.refuse(c[0], 0, a, "no policy of the chain has a section "+id.String())
		return Deny, nil, false
	}
	return effect, first, true
}

// facts is an action prepared for one link's patterns.
type facts struct {
	a      *tool.Action
	path   string
	folded string
	needs  []glob.Need
}

// judge decides an action by one link.
func (r *Rules) judge(id sectionID, a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	if id != readSection && id != writeSection {
		f := facts{a: a}
		e, b := r.search(id, &f, link, all)
		if id == networkSection && e == Allow {
			e, b = r.judgeUnseen(b, a, link, all)
		}
		if id == networkSection && e != Deny {
			return r.judgeAddrs(e, b, a, link, all)
		}
		return e, b
	}
	e, b := r.judgePath(id, a, a.Path, link, all)
	if a.Real == "" || a.Real == a.Path || e == Deny && all == nil {
		return e, b
	}
	e2, b2 := r.judgePath(id, a, a.Real, link, all)
	if e2 < e {
		return e2, b2
	}
	return e, b
}

func (r *Rules) judgePath(id sectionID, a *tool.Action, p string, link int, all *collector) (Effect, *boundEntry) {
	if as, ok := r.owned(p); ok {
		// What a policy says of the place itself, by its whole path, holds.
		if _, b := r.judgePlain(id, a, p, link, nil); b == nil {
			p = as
		}
	}
	return r.judgePlain(id, a, p, link, all)
}

func (r *Rules) judgePlain(id sectionID, a *tool.Action, p string, link int, all *collector) (Effect, *boundEntry) {
	if why := pathProblem(p); why != "" {
		if all != nil {
			all.refuse(r, link, a, "the path "+strconv.Quote(clip(p))+" cannot be decided: "+why)
		}
		return Deny, nil
	}
	var buf [stackNeeds]glob.Need
	f := facts{a: a, path: p, folded: glob.Fold(p)}
	f.needs = r.needs(p, f.folded, id == writeSection, buf[:])
	return r.search(id, &f, link, all)
}

// search looks for entries that match, strictest lists first. With a collector
// it notes all of them.
func (r *Rules) search(id sectionID, f *facts, link int, all *collector) (Effect, *boundEntry) {
	var best *boundEntry
	for e := range r.sections[id].lists {
		list := r.sections[id].lists[e]
		for i := range list {
			b := &list[i]
			if !r.matches(id, b, f) {
				continue
			}
			if all == nil {
				return b.effect, b
			}
			if best == nil {
				best = b
			}
			all.match(link, b, f.a, f)
		}
	}
	if best != nil {
		return best.effect, best
	}
	if f.a.Typed && id == commandSection {
		all.match(link, &r.typed, f.a, nil)
		return Ask, &r.typed
	}
	if all != nil {
		all.refuse(r, link, f.a, r.noMatch(id, f))
	}
	return Deny, nil
}

func (r *Rules) matches(id sectionID, b *boundEntry, f *facts) bool {
	switch id {
	case readSection, writeSection:
		if b.effect == Deny {
			return b.fold.Match(f.folded) || f.folded != f.path && b.exact.Match(f.path)
		}
		return b.exact.MatchSpelled(f.path, f.needs)
	case networkSection:
		return b.entry.net.Match(f.a.Target)
	case commandSection:
		if b.effect == Deny {
			return b.cmd.MatchDeny(f.a, r.path)
		}
		return b.cmd.Match(f.a, r.path)
	case modelSection:
		return b.entry.name.Match(f.a.Model)
	case apiSection:
		return b.entry.name.Match(f.a.API)
	}
	return false
}

// judgeUnseen judges an allowed connection whose requests nobody sees: where
// the policy asks about some of what it can carry, it asks about the connection.
// (An entry of deny matches an unknown method or path by itself; an entry of ask
// alone opens no connection.)
func (r *Rules) judgeUnseen(b *boundEntry, a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	if a.Target.Method != "" && a.Target.Path != "" {
		return Allow, b
	}
	asks := r.sections[networkSection].lists[Ask]
	for i := range asks {
		if asks[i].entry.net.Covers(a.Target) {
			all.match(link, &asks[i], a, nil)
			return Ask, &asks[i]
		}
	}
	return Allow, b
}

// judgeAddrs judges the addresses that the host resolved to: none may be
// denied, and each must be public or named by an entry that matches.
func (r *Rules) judgeAddrs(e Effect, b *boundEntry, a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	lists := &r.sections[networkSection].lists
	for _, addr := range a.Addrs {
		for i := range lists[Deny] {
			if d := &lists[Deny][i]; d.entry.net.DeniesAddr(a.Target, addr) {
				all.match(link, d, a, nil)
				return Deny, d
			}
		}
		if !coversAddr(lists, a, addr) {
			if all != nil {
				all.refuse(r, link, a, "the host has the address "+addr.String()+", which is not public, and no entry names that address")
			}
			return Deny, nil
		}
	}
	return e, b
}

func coversAddr(lists *[3][]boundEntry, a *tool.Action, addr netip.Addr) bool {
	for e := Ask; e <= Allow; e++ {
		for i := range lists[e] {
			if n := lists[e][i].entry.net; n.Match(a.Target) && n.AllowsAddr(addr) {
				return true
			}
		}
	}
	return false
}

// noMatch says why nothing in a section matched.
func (r *Rules) noMatch(id sectionID, f *facts) string {
	lists := &r.sections[id].lists
	subject := f.a.Subject()
	if f.path != "" {
		subject = strconv.Quote(r.shown(f.path))
		for e := Ask; e <= Allow; e++ {
			for i := range lists[e] {
				if b := &lists[e][i]; b.exact.Match(f.path) {
					return subject + " is a sensitive name: an entry must spell it, " + b.rule.String() + " does not"
				}
			}
		}
	}
	if id == networkSection && !r.policy.document().sections[id].set {
		return "the policy has no section network, so nothing matches " + subject
	}
	if len(lists[Allow])+len(lists[Ask]) == 0 {
		return id.String() + ".allow is empty, so nothing matches " + subject
	}
	why := ""
	if id == networkSection {
		if why = r.nearMiss(f.a.Target); why != "" {
			why = ": " + why
		}
	}
	return "no entry of " + id.String() + ".allow matches " + subject + why
}

// shown is a path as people write it: relative where it is in the workspace.
func (r *Rules) shown(p string) string {
	if rel, ok := strings.CutPrefix(p, strings.TrimSuffix(r.env.Workspace, "/")+"/"); ok {
		return path.Clean(rel)
	}
	return p
}
