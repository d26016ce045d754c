package policy

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/tool"
)

// untold is how a policy decides a command that cannot be determined before it
// runs. It could be any command.
type untold struct {
	any    *boundEntry // allows every command; nil: some command is denied or asked about
	inside *boundEntry // allows such a command, and a program of the workspace, in a sandbox; nil: nothing does
	rule   boundEntry  // decides otherwise
}

// Untold is the name of the rule that decides such a command.
const Untold = "commands.untold"

// isEvery reports whether a pattern matches every command.
func isEvery(p pattern) bool {
	c, ok := p.(*commandPattern)
	return ok && (c.cmd.String() == "**" || c.cmd.String() == "* **")
}

// certain names a setting that cannot be held for a command that is not determined; "": there is none.
func (s *commandSettings) certain() string {
	switch {
	case s.cwd != nil:
		return "commands.cwd"
	case len(s.values) > 0:
		return "a value in commands.env"
	}
	return ""
}

// checkUntold refuses an allow that could not be given.
func (s *commandSettings) checkUntold(p *parser) {
	if s.untold != Allow.String() {
		return
	}
	at := &document.Node{Line: s.untoldPos.Line, Column: s.untoldPos.Column}
	if !slices.ContainsFunc(s.lists[Allow], func(e entry) bool { return e.pattern != nil && isEvery(e.pattern) }) {
		p.Fail(at, Untold, "allow needs the entry \"**\" in commands.allow: such a command could be any")
	} else if which := s.certain(); which != "" {
		p.Fail(at, Untold, "allow does not go with %s, which nothing would hold for such a command", which)
	}
}

// bindUntold prepares the decision on commands that cannot be determined.
func (r *Rules) bindUntold(d *content) {
	s := &r.sections[commandSection]
	every := func(e Effect) int {
		return slices.IndexFunc(s.lists[e], func(b boundEntry) bool { return isEvery(b.pattern) })
	}
	u := &r.untold
	u.rule = boundEntry{effect: Ask, rule: Rule{Policy: r.policy.Name(), File: r.policy.file, Line: d.commands.untoldPos.Line,
		Name: Untold, Pattern: d.commands.untold}}
	closed := len(s.lists[Allow])+len(s.lists[Ask]) == 0 || every(Deny) >= 0
	if closed || d.commands.untold == Deny.String() {
		u.rule.effect = Deny
	}
	if closed {
		u.rule.rule = *defaultRule(r)
	}
	i := every(Allow)
	if i >= 0 && d.commands.certain() == "" && len(s.lists[Ask])+len(s.lists[Deny]) == 0 {
		u.any = &s.lists[Allow][i]
	}
	if i >= 0 && !closed && d.commands.certain() == "" && d.commands.untold == Allow.String() {
		inside := u.rule
		inside.effect = Allow
		u.inside = &inside
	}
}

// allowsInside returns the rule that leaves a command to its sandbox; nil: there is none, or no sandbox.
func (r *Rules) allowsInside(a *tool.Action) *boundEntry {
	if a.Unconfined || a.Unknown == "" && !r.isOwnProgram(a) {
		return nil
	}
	return r.untold.inside
}

// isOwnProgram reports whether a command is named by a path in the workspace, or in a folder that a sandbox has of its own.
func (r *Rules) isOwnProgram(a *tool.Action) bool {
	if len(a.Argv) == 0 || !strings.Contains(a.Argv[0], "/") || r.env.Workspace == "" {
		return false
	}
	p := a.Argv[0]
	if !path.IsAbs(p) {
		p = path.Join(a.Dir, p)
	}
	if p = path.Clean(p); !path.IsAbs(p) {
		return false
	}
	if underAny([]string{r.env.Workspace, r.own}, p) {
		return true
	}
	return command.InOwnFolder(p) && !underAny([]string{r.env.Home, r.env.State, r.env.Repository}, p)
}

// judgeUntold decides a command that cannot be determined.
func (r *Rules) judgeUntold(a *tool.Action, link int, all *collector) (Effect, *boundEntry) {
	if b := r.untold.any; b != nil {
		all.match(link, b, a, nil)
		return Allow, b
	}
	if b := r.allowsInside(a); b != nil {
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
