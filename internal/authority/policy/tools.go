package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// toolSettings is the section tools.
type toolSettings struct {
	section

	askFromRisk, denyFromRisk, adminFromRisk, planFromRisk *riskGate

	unlisted    string // "ask" or "deny"; "" is deny
	unlistedPos fault.Pos
}

func (s *toolSettings) setting() setting {
	return s.section.setting("tools", toolSection, risk("ask_from_risk", &s.askFromRisk), risk("deny_from_risk", &s.denyFromRisk),
		risk("admin_from_risk", &s.adminFromRisk), risk("frozen_plan_from_risk", &s.planFromRisk),
		choice("unlisted", &s.unlisted, Ask.String(), Deny.String()).at(&s.unlistedPos))
}

// toolPattern is an entry of tools.
type toolPattern struct {
	text string
	name *glob.Text
	args *arguments // nil: any
	hold Hold
}

var toolForm = regex.Lazy(`^[A-Za-z0-9*][A-Za-z0-9._:/@*-]*$`)

func parseToolPattern(text string, e Effect) (pattern, error) {
	name, err := compileToolName(text, e == Deny)
	if err != nil {
		return nil, err
	}
	return &toolPattern{text: text, name: name}, nil
}

// compileToolName reads a pattern of tool IDs. In a wide one, as in deny lists,
// every * crosses colons.
func compileToolName(s string, wide bool) (*glob.Text, error) {
	if len(s) > 200 || !toolForm.MatchString(s) {
		return nil, fmt.Errorf("%q is not a valid tool pattern; expected a tool's ID, with * as a wildcard", s)
	}
	return glob.CompileName(s, ':', wide)
}

// toolEntry reads an entry with constraints on the arguments.
func (p *parser) toolEntry(e Effect, n *document.Node, path string) pattern {
	en := &toolPattern{}
	others := ""
	p.mapping(n, path, document.Fields{
		"tool": func(n *document.Node, path string) {
			if parsed, ok := p.pattern(toolSection, e, n, path).(*toolPattern); ok {
				parsed.args, parsed.hold = en.args, en.hold
				en = parsed
			}
		},
		"args": func(n *document.Node, path string) { en.args = p.arguments(e, n, path) },
		"hold": func(n *document.Node, path string) { p.hold(&en.hold)(n, path) },
		"others": func(n *document.Node, path string) {
			p.OneOf(&others, "allow")(n, path)
			if e != Allow {
				p.Fail(n, path, "others has no meaning in %s: such an entry matches whatever other arguments there are", listNames[e])
			}
		},
	})
	if n.Lookup("tool") == nil {
		p.Fail(n, path, "the entry has no tool").Hint = "write {tool: ID, args: {...}}"
	}
	switch {
	case e == Deny && en.hold != NoHold:
		p.Fail(n, path, "hold has no meaning in deny")
	case en.args != nil:
		en.args.others = others != ""
	case others != "":
		p.Fail(n, path, "others has a meaning beside args only")
	}
	return en
}

func (p *toolPattern) String() string { return p.text }

func (p *toolPattern) print(w *printer, in int) {
	if p.args == nil && p.hold == NoHold {
		w.line(in, "- %s", quote(p.text))
		return
	}
	w.line(in, "- tool: %s", quote(p.text))
	if p.hold != NoHold {
		w.line(in+1, "hold: %s", p.hold.text())
	}
	if p.args == nil {
		return
	}
	if len(p.args.list) == 0 {
		w.line(in+1, "args: {}")
	} else {
		w.line(in+1, "args:")
	}
	for _, a := range p.args.list {
		w.line(in+2, "%s: %s", quote(a.name), a.rule.print())
	}
	if p.args.others {
		w.line(in+1, "others: allow")
	}
}

func (p *toolPattern) bind(*Rules, Effect) (pattern, error) { return p, nil }

// includes knows equal entries only: constraints are not compared.
func (p *toolPattern) includes(_ *Rules, other pattern) bool {
	return printed(p) == printed(other)
}

func (p *toolPattern) disjoint(pattern) bool { return false }

// tool is the pattern of an entry of tools.
func (b *boundEntry) tool() *toolPattern { return b.pattern.(*toolPattern) }

func (en *entry) tool() *toolPattern { return en.pattern.(*toolPattern) }

// matchName reports whether the pattern names a tool, whatever its arguments.
func (p *toolPattern) matchName(id tool.ID) bool { return p.name.Match(string(id)) }

// hasPrefix is a fast test that most entries fail. Deny entries ignore case.
func (b *boundEntry) hasPrefix(id tool.ID) bool {
	n := len(b.prefix)
	return len(id) >= n && (string(id[:n]) == b.prefix || b.effect == Deny && strings.EqualFold(string(id[:n]), b.prefix))
}

// judgeTool decides a call's tool and arguments by one policy.
func (r *Rules) judgeTool(call *Call, link int, all *collector) (Effect, *boundEntry) {
	if !r.sections[toolSection].indexed {
		return r.judgeToolAmong(nil, call, link, all)
	}
	var c candidates
	return r.judgeToolAmong(&c, call, link, all)
}

func (r *Rules) judgeToolAmong(c *candidates, call *Call, link int, all *collector) (Effect, *boundEntry) {
	s := &r.sections[toolSection]
	var best *boundEntry
	note := func(b *boundEntry) {
		if best == nil || b.effect < best.effect {
			best = b
		}
		all.matchCall(link, b, call)
	}
	for e := range s.lists {
		c.tool(s.index[e], call.Tool.ID)
		for i := range c.size(len(s.lists[e])) {
			if b := &s.lists[e][c.at(i)]; r.matchesCall(b, call) {
				note(b)
			}
		}
	}
	builtin := best == nil && r.allowsBuiltIn(call.Tool)
	if r.gate != nil && call.Tool.Risk >= r.risk && (best == nil || best.effect != Deny || all != nil) && (best != nil || builtin) {
		note(r.gate) // asks about an allowed call; allows nothing by itself
	}
	if best == nil && builtin {
		note(&r.builtin)
	}
	if best == nil && r.unlisted != nil {
		b := *r.unlisted
		b.reason = fmt.Sprintf("needs approval by %s: no entry of tools matches %q; an entry of tools.allow allows it without a question", b.rule.String(), call.Tool.ID)
		note(&b)
	}
	if best == nil {
		if all != nil {
			all.refuseCall(r, link, call, r.noTool(call))
		}
		return Deny, nil
	}
	return best.effect, best
}

// allowsBuiltIn reports whether a tool is built in, and allowed where no entry matches its call. Where tools.unlisted
// opens a list of allowed tools, an entry of that list still bounds the tool that it names.
func (r *Rules) allowsBuiltIn(t *tool.Spec) bool {
	s := &r.sections[toolSection]
	names := func(b boundEntry) bool { return b.tool().matchName(t.ID) }
	return t.Source == "builtin" && (!s.allowSet || r.unlisted != nil && !slices.ContainsFunc(s.lists[Allow], names))
}

func (r *Rules) matchesCall(b *boundEntry, call *Call) bool {
	if !b.hasPrefix(call.Tool.ID) {
		return false
	}
	p := b.tool()
	if !p.matchName(call.Tool.ID) {
		return false
	}
	if p.args == nil {
		return true
	}
	x := context{rules: r, effect: b.effect, actions: call.Actions}
	t := x.level(&p.args.tree, call.Args, p.args.others)
	return t == yes || t == unknown && x.loose()
}

// NoPolicyName is the name of the policy that stands in where there is none.
const NoPolicyName = "none"

// NoPolicy is the reason for a denial where no policy applies.
const NoPolicy = "no policy applies, so nothing is allowed; give one with -p FILE, or write remit.yaml in the workspace and trust it with: remit policy trust"

// noTool says why no entry of tools matched.
func (r *Rules) noTool(call *Call) string {
	id := strconv.Quote(string(call.Tool.ID))
	s := &r.sections[toolSection]
	for i := range s.lists[Allow] {
		b := &s.lists[Allow][i]
		if p := b.tool(); p.args != nil && p.matchName(call.Tool.ID) {
			x := context{rules: r, effect: Allow, actions: call.Actions}
			x.level(&p.args.tree, call.Args, p.args.others)
			if x.failed != "" {
				return b.rule.String() + " allows " + id + " only with other arguments: " + x.failed
			}
		}
	}
	switch {
	case !s.allowSet:
		return id + " is not a built-in tool, and the policy has no tools.allow; it needs the entry " + id
	case len(s.lists[Allow])+len(s.lists[Ask]) == 0 && r.policy.Name() == NoPolicyName:
		return NoPolicy
	case call.Tool.Source == "builtin":
		return "no entry of tools.allow matches " + id + "; a policy with tools.allow needs an entry for each built-in tool too: add " + id
	}
	return "no entry of tools.allow matches " + id + "; it needs the entry " + id
}
