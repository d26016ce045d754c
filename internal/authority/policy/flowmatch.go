package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
)

// matches reports whether an entry names an action. An exception must hold for the path as
// given and for the real one; for a source, one of them is enough.
func (s *flowSource) matches(c Chain, a *tool.Action, exception bool) bool {
	switch s.Section {
	case "files":
		if a.Kind != tool.FileRead && a.Kind != tool.FileWrite && a.Kind != tool.FileDelete {
			return false
		}
		asked, really := s.path(a.Path), a.Real == "" || s.path(a.Real)
		if exception {
			return asked && really
		}
		return asked || a.Real != "" && really
	case "network":
		return a.Kind == tool.Network && s.rules.matches(&s.bound, &facts{action: a})
	case "commands":
		return a.Kind == tool.Command && (a.Unknown != "" && !exception || s.rules.matches(&s.bound, &facts{action: a}))
	case "models":
		return a.Kind == tool.Model && s.rules.matches(&s.bound, &facts{action: a})
	case "databases":
		return (a.Kind == tool.TableRead || a.Kind == tool.TableWrite) && s.name.Match(a.Database)
	case "secrets":
		return a.Kind == tool.Network && !exception && s.sentTo(c, a.Target)
	}
	return false
}

func (s *flowSource) path(p string) bool {
	if pathProblem(p) != "" {
		return false // denied
	}
	return s.bound.pattern.(*filePattern).match(&facts{path: p, folded: glob.Fold(p)})
}

// below reports whether the entry may name files in a folder.
func (s *flowSource) below(a *tool.Action) bool {
	return slices.ContainsFunc(s.bound.pattern.(*filePattern).exact.Bases(), func(b glob.Base) bool {
		return under(a.Path, b.Path) || b.Deep && under(b.Path, a.Path) || a.Real != "" && (under(a.Real, b.Path) || b.Deep && under(b.Path, a.Real))
	})
}

// sentTo reports whether a request to a target is given the secret.
func (s *flowSource) sentTo(c Chain, t tool.Target) bool {
	return slices.ContainsFunc(c, func(r *Rules) bool {
		return slices.ContainsFunc(r.secrets(t), func(x Secret) bool { return x.Store != "" && s.name.Match(x.Store) })
	})
}

// usedBy reports whether an entry of secrets lets a tool use the secret.
func (s *flowSource) usedBy(c Chain, id tool.ID) bool {
	return slices.ContainsFunc(c, func(r *Rules) bool {
		return slices.ContainsFunc(r.policy.content().secrets.list, func(u secretUse) bool { return s.name.Match(u.Name) && u.covers(id) })
	})
}

// givenTo reports whether processes of a tool have the secret as a variable.
func (s *flowSource) givenTo(c Chain, id tool.ID) bool {
	list, err := c.EnvSecrets(id)
	return err != nil || slices.ContainsFunc(list, func(x EnvSecret) bool { return s.name.Match(x.Store) })
}

// Narrow returns the chain that decides and confines a call, in a context with labels: the
// chain itself, without the data that the call does not name, and with the flows of its labels. foreign:
// another program carries out the call.
func (f *Flows) Narrow(context Labels, of Of, foreign bool) Chain {
	key := flowKey{context | of.Holds, of.Named &^ of.Holds, foreign}
	f.mu.Lock()
	defer f.mu.Unlock()
	if c, ok := f.chains[key]; ok {
		return c
	}
	c := f.narrow(key)
	if len(f.chains) < maxFlowChains {
		f.chains[key] = c
	}
	return c
}

func (f *Flows) narrow(key flowKey) Chain {
	c := slices.Clone(f.chain)
	var links []*Rules
	for i := range f.labels {
		l, bit := &f.labels[i], Labels(1)<<i
		switch {
		case key.context&bit == 0:
			if len(l.only) > 0 && key.named&bit == 0 {
				l.withhold(c)
			}
			continue
		case key.foreign:
			links = append(links, l.lone...)
		default:
			links = append(links, l.only...)
		}
		links = append(links, l.asks...)
	}
	if f.local != nil && !key.foreign {
		links = append(links, f.local)
	}
	return append(c, links...)
}

// withhold adds deny entries for a label's files and hosts to a chain that nobody else has.
func (l *flowLabel) withhold(c Chain) {
	rule := l.only[0].flow.rule
	rule.Name = "flows." + l.name + ".withheld"
	deny := func(id sectionID, p pattern, text string) {
		b := boundEntry{effect: Deny, pattern: p, rule: rule}
		b.rule.Pattern = text
		c.deny(id, []boundEntry{b})
	}
	for _, s := range l.from {
		switch s.Section {
		case "files":
			for _, id := range []sectionID{readSection, writeSection, deleteSection} {
				deny(id, s.bound.pattern, s.Pattern)
			}
		case "network":
			deny(networkSection, s.bound.pattern, s.Pattern)
		case "secrets":
			for _, p := range secretEntries(c, s.name) {
				deny(networkSection, p, p.text)
			}
		}
	}
}

// secretEntries are the entries of network that add a secret to requests, as deny entries.
func secretEntries(c Chain, name *glob.Text) []*networkPattern {
	var out []*networkPattern
	for _, r := range c {
		r.anyNetwork(func(p *networkPattern) bool {
			if p.secret != nil && p.secret.Store != "" && name.Match(p.secret.Store) {
				if wide, err := parseNetworkPattern(p.text, Deny); err == nil {
					out = append(out, wide.(*networkPattern))
				} else {
					out = append(out, p)
				}
			}
			return false
		})
	}
	return out
}

// DecideFlows decides a call by the flows that Narrow added to the chain: Allow, or the rule of
// a flow, whose name begins with "flows.".
func (f *Flows) DecideFlows(narrow Chain, call Call) Decision {
	if e := f.judge(narrow, &call, nil); e == Allow {
		return Decision{Effect: Allow}
	}
	var all collector
	e := f.judge(narrow, &call, &all)
	d := all.decision(Decision{Effect: e})
	return d
}

func (f *Flows) judge(c Chain, call *Call, all *collector) Effect {
	effect := Allow
	for _, r := range c[len(f.chain):] {
		for i := range call.Actions {
			effect = min(effect, r.judgeFlow(&call.Actions[i], all))
		}
		effect = min(effect, r.judgeFlowTool(call, r.flow.link, all))
		if effect != Allow && all == nil {
			return effect
		}
	}
	return effect
}

// judgeFlow decides an action by one flow.
func (r *Rules) judgeFlow(a *tool.Action, all *collector) Effect {
	if r.flow.asks != nil {
		return r.judgeAsks(a, r.flow.link, all)
	}
	id := sectionOf(a.Kind)
	if id == noSection || r.sections[id].inherits {
		return Allow
	}
	e, _ := r.judge(id, a, r.flow.link, nil, all)
	return e
}

// judgeAsks asks about an action that an entry of ask names.
func (r *Rules) judgeAsks(a *tool.Action, link int, all *collector) Effect {
	effect := Allow
	for i := range r.flow.asks {
		s := &r.flow.asks[i]
		if s.Section == "files" && a.Kind == tool.FileRead || !s.matches(nil, a, false) {
			continue
		}
		effect = Ask
		all.match(link, &s.bound, a, nil)
	}
	return effect
}

// judgeFlowTool decides a call's tool by one flow.
func (r *Rules) judgeFlowTool(call *Call, link int, all *collector) Effect {
	fk, effect := r.flow, Allow
	for i := range fk.asks {
		s := &fk.asks[i]
		if s.Section == "tools" && s.name.Match(string(call.Tool.ID)) || s.Section == "side_effects" && call.Tool.Effects&s.effects != 0 {
			effect = Ask
			all.matchCall(link, &s.bound, call)
		}
	}
	if fk.asks != nil || r.sections[networkSection].inherits || !fk.leaves(call) {
		return effect
	}
	if !slices.ContainsFunc(fk.tools, func(t *glob.Text) bool { return t.Match(string(call.Tool.ID)) }) {
		all.refuseCall(r, link, call, "the context has the label "+fk.label+", and "+fk.rule.Name+" does not have the tool "+string(call.Tool.ID))
		return Deny
	}
	return effect
}

// leaves reports whether a call's arguments leave by the call itself, and not by an action.
func (fk *flowLink) leaves(call *Call) bool {
	if fk.foreign {
		return len(call.Actions) == 0
	}
	switch call.Tool.Source {
	case "builtin", "extension", "wasm", "api":
		return false // their files, processes and requests are decided
	}
	return true
}

// judgeFlowDatabase decides a statement by a list only.
func (r *Rules) judgeFlowDatabase(a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	if slices.ContainsFunc(r.flow.databases, func(n *glob.Text) bool { return n.Match(a.Database) }) {
		return Allow, &r.left
	}
	if all != nil {
		all.refuse(r, link, a, r.flow.noMatch("the database "+a.Database))
	}
	return Deny, nil
}

// noMatch says why a list only refuses something.
func (fk *flowLink) noMatch(subject string) string {
	return "the context has the label " + fk.label + ", and " + fk.rule.Name + " does not have " + subject
}
