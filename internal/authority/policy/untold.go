package policy

import (
	"slices"

	"github.com/remitrun/remit/internal/base/tool"
)

// untold is how a policy decides a command that cannot be determined before it
// runs. It could be any command.
type untold struct {
	any  *boundEntry // allows every command; nil: some command is denied or asked about
	rule boundEntry  // decides otherwise
}

// bindUntold prepares the decision on commands that cannot be determined.
func (r *Rules) bindUntold(d *content) {
	s := &r.sections[commandSection]
	every := func(e Effect) int {
		return slices.IndexFunc(s.lists[e], func(b boundEntry) bool {
			p, ok := b.pattern.(*commandPattern)
			return ok && (p.cmd.String() == "**" || p.cmd.String() == "* **")
		})
	}
	u := &r.untold
	u.rule = boundEntry{effect: Ask, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Line: d.commands.untoldPos.Line,
		Name: "commands.untold", Pattern: d.commands.untold}}
	closed := len(s.lists[Allow])+len(s.lists[Ask]) == 0 || every(Deny) >= 0
	if closed || d.commands.untold == Deny.String() {
		u.rule.effect = Deny
	}
	if closed {
		u.rule.rule = *defaultRule(r)
	}
	if i := every(Allow); i >= 0 && d.commands.cwd == nil && len(d.commands.values) == 0 && len(s.lists[Ask])+len(s.lists[Deny]) == 0 {
		u.any = &s.lists[Allow][i]
	}
}

// judgeUntold decides a command that cannot be determined.
func (r *Rules) judgeUntold(a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	if b := r.untold.any; b != nil {
		all.match(link, b, a, nil)
		return Allow, b
	}
	b := r.untold.rule
	b.reason = unknownNeeds + a.Unknown
	if b.effect == Ask {
		b.reason = "needs approval by commands.untold: " + b.reason
	}
	all.match(link, &b, a, nil)
	return b.effect, &b
}
