package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
)

// Installation lists the parts of one installation of Remit, for [Policy.Check].
// A nil field is not checked.
type Installation struct {
	Tools     []*tool.Spec // built-in ones, which remit tools lists
	Unlisted  []*tool.Spec // of Remit itself too, which only one command of it calls
	Groups    []string     // the first parts of the IDs of capabilities' tools
	Providers []string     // of models
	Sources   []ToolSource // that are configured
	Env       []string     // variables that the sandbox always sets itself
}

// ToolSource is a source of tools, with the sections that decide arguments of its
// tools besides what policies say.
type ToolSource struct {
	Name   string // as mcp:files
	Within []string
}

// Check finds entries that are valid but have no effect. A mistake can never
// match; a warning is about an entry or a section that is probably not what its
// author meant. Both are in the document's order.
func (p *Policy) Check(in Installation) (mistakes, warnings fault.List) {
	c := &checker{in: in, file: p.file}
	c.content("", p.content())
	for _, r := range p.content().roles {
		c.content(document.Join("roles", r.pattern)+".", r.policy.doc)
	}
	byPlace := func(x, y *fault.Error) int { return x.Pos.Line - y.Pos.Line }
	slices.SortStableFunc(c.mistakes, byPlace)
	slices.SortStableFunc(c.warnings, byPlace)
	return c.mistakes, c.warnings
}

type checker struct {
	in                 Installation
	file               string
	mistakes, warnings fault.List
}

func (c *checker) note(into *fault.List, at fault.Pos, field, hint, format string, args ...any) {
	e := fault.New(fault.PolicyInvalid, format, args...).At(at).In(field)
	e.Hint = hint
	*into = append(*into, e)
}

func (c *checker) mistake(at fault.Pos, field, hint, format string, args ...any) {
	c.note(&c.mistakes, at, field, hint, format, args...)
}

func (c *checker) warn(at fault.Pos, field, hint, format string, args ...any) {
	c.note(&c.warnings, at, field, hint, format, args...)
}

func (c *checker) content(prefix string, d *content) {
	for id := noSection + 1; id < numSections; id++ {
		s := d.section(id)
		for e := range s.lists {
			for i := range s.lists[e] {
				field := fmt.Sprintf("%s%s.%s[%d]", prefix, id, listNames[e], i)
				c.entry(id, Effect(e), field, &s.lists[e][i])
				c.denied(s, Effect(e), field, &s.lists[e][i])
			}
		}
	}
	for i, t := range d.limits.perTool {
		c.toolName(t.pos, fmt.Sprintf("%slimits.per_tool[%d]", prefix, i), t.pattern, true)
	}
	for i, u := range d.secrets.list {
		for j, name := range u.Tools {
			c.toolName(u.pos, fmt.Sprintf("%ssecrets[%d].tools[%d]", prefix, i, j), name, false)
		}
	}
	for i, name := range d.commands.env {
		if slices.Contains(c.in.Env, name) {
			at := fault.Pos{File: c.file}
			if i < len(d.commands.envPos) {
				at = d.commands.envPos[i]
			}
			c.mistake(at, fmt.Sprintf("%scommands.env[%d]", prefix, i), "leave it out",
				"the variable %q is always set by Remit, so its value is never passed on", name)
		}
	}
	c.reach(prefix, d)
}

// entry checks one entry of a list.
func (c *checker) entry(id sectionID, e Effect, field string, en *entry) {
	text := en.pattern.String()
	switch id {
	case networkSection:
		rule := en.pattern.(*networkPattern).rule
		for _, m := range rule.Methods() {
			if !rule.Agent() && !target.Registered(m) {
				c.mistake(en.pos, field, meant(m, target.RegisteredMethods()), "%q is not a registered HTTP method, so the entry %q never matches", m, text)
			}
		}
	case commandSection:
		if op := command.Operator(text); op != "" && (e != Deny || op != "|") {
			c.mistake(en.pos, field, "name each command in an entry of its own; quote the operator if it is an argument",
				"the command pattern %q has the shell operator %q, but a pattern is compared with one command at a time", text, op)
		}
		if name := command.Assigns(text); name != "" {
			c.mistake(en.pos, field, "leave the assignment out; commands.env passes variables on",
				"the command pattern %q begins with an assignment to %q, but a pattern begins with a command", text, name)
		}
	case toolSection:
		c.toolName(en.pos, field, text, e == Deny)
	case modelSection:
		c.model(en, field)
	}
}

// denied warns about an entry that a deny entry repeats.
func (c *checker) denied(s *section, e Effect, field string, en *entry) {
	if e == Deny || en.hasArgs() {
		return
	}
	for i := range s.lists[Deny] {
		if d := &s.lists[Deny][i]; d.pattern.String() == en.pattern.String() && !d.hasArgs() {
			c.warn(en.pos, field, "remove one of them", "%q has no effect: deny[%d] on line %d has the same pattern", en.pattern, i, d.pos.Line)
			return
		}
	}
}

func (en *entry) hasArgs() bool {
	p, ok := en.pattern.(*toolPattern)
	return ok && p.args != nil
}

// meant returns a hint with the name that was probably meant.
func meant(got string, names []string) string {
	if best := near.Word(got, names); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return ""
}

// sourceKinds begin the IDs of tools of sources.
var sourceKinds = []string{"agent", "api", "ext", "mcp", "wasm"}

// toolName checks a pattern of tool IDs. In a wide pattern, as in deny lists,
// every * crosses colons.
func (c *checker) toolName(at fault.Pos, field, pattern string, wide bool) {
	if c.in.Tools == nil {
		return
	}
	kind, rest, sourced := strings.Cut(pattern, ":")
	switch {
	case sourced && strings.Contains(kind, "*"):
	case !sourced && (c.reaches(pattern) || slices.ContainsFunc(sourceKinds, func(k string) bool { return mayBegin(pattern, k+":") })):
	case !sourced:
		c.mistake(at, field, c.nearTool(pattern), "no built-in tool is called %q", pattern)
	case !slices.Contains(sourceKinds, kind):
		c.mistake(at, field, "a tool of a source is called mcp:NAME:TOOL, api:NAME:TOOL, ext:NAME:TOOL, wasm:NAME:TOOL or agent:NAME:TOOL",
			"%q is not a kind of source, so %q never matches", kind, pattern)
	case !strings.Contains(rest, ":") && (!strings.Contains(rest, "*") || !wide && !strings.HasSuffix(rest, "*")):
		c.mistake(at, field, fmt.Sprintf("write %s:* for all tools of %s", strings.TrimSuffix(pattern, ":"), pattern),
			"%q names a source without a tool, so it never matches", pattern)
	default:
		c.source(at, field, pattern)
	}
}

// source warns where a pattern names a source that is not configured, and one of
// nearly the same name is.
func (c *checker) source(at fault.Pos, field, pattern string) {
	parts := strings.SplitN(pattern, ":", 3)
	if len(parts) < 3 || strings.Contains(parts[1], "*") {
		return
	}
	name := parts[0] + ":" + parts[1]
	var names []string
	for _, s := range c.in.Sources {
		names = append(names, s.Name)
	}
	if slices.Contains(names, name) {
		return
	}
	if hint := meant(name, names); hint != "" {
		c.warn(at, field, hint, "no source %s is configured here", name)
	}
}

func (c *checker) nearTool(pattern string) string {
	names := make([]string, len(c.in.Tools))
	for i, t := range c.in.Tools {
		names[i] = string(t.ID)
	}
	if hint := meant(pattern, names); hint != "" {
		return hint
	}
	return "remit tools lists them; a tool of an MCP server is called mcp:NAME:TOOL"
}

// reaches reports whether a pattern without a source may match one of Remit's own
// tools or a capability's.
func (c *checker) reaches(pattern string) bool {
	name, err := glob.CompileName(pattern, ':', true)
	if err != nil {
		return true // reported when it was read
	}
	for _, t := range slices.Concat(c.in.Tools, c.in.Unlisted) {
		if name.Match(string(t.ID)) {
			return true
		}
	}
	return slices.ContainsFunc(c.in.Groups, func(g string) bool { return mayBegin(pattern, g+".") })
}

// mayBegin reports whether a pattern may match an ID that begins with head.
func mayBegin(pattern, head string) bool {
	literal, _, wild := strings.Cut(pattern, "*")
	return strings.HasPrefix(literal, head) || wild && strings.HasPrefix(head, literal)
}

// model checks that a pattern's provider is configured.
func (c *checker) model(en *entry, field string) {
	text := en.pattern.String()
	head := text
	if i := strings.IndexAny(head, "/:"); i >= 0 {
		head = head[:i]
	} else if !strings.Contains(head, "*") {
		c.mistake(en.pos, field, "write provider/model, as anthropic/"+head, "%q has no provider, so it never matches", text)
		return
	}
	name, err := glob.CompileName(head, '/', true)
	if c.in.Providers == nil || err != nil || slices.ContainsFunc(c.in.Providers, name.Match) {
		return
	}
	hint := meant(head, c.in.Providers)
	if hint == "" {
		hint = "the providers are " + strings.Join(c.in.Providers, ", ") + "; config.yaml adds others under models.providers"
	}
	c.mistake(en.pos, field, hint, "no provider of models is called %q, so %q never matches", head, text)
}

// sectionsOf returns the sections that decide the effects of a tool.
func sectionsOf(t *tool.Spec) []string {
	var out []string
	for id, effects := range sectionEffects {
		if t.Effects&effects != 0 {
			out = append(out, sectionNames[id])
		}
	}
	return out
}

var sectionEffects = map[sectionID]tool.Effects{
	readSection:    tool.EffectSet(tool.FSRead),
	writeSection:   tool.EffectSet(tool.FSWrite, tool.FSDelete, tool.FSChmod),
	deleteSection:  tool.EffectSet(tool.FSDelete),
	networkSection: tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket),
	commandSection: tool.EffectSet(tool.SystemExec),
}

// reach warns about sections whose entries no allowed tool can use, as files
// beside tools.allow: ["mcp:notes:*"].
func (c *checker) reach(prefix string, d *content) {
	if c.in.Tools == nil {
		return
	}
	for id := readSection; id <= commandSection; id++ {
		s := d.section(id)
		first := firstOf(s)
		if first == nil || c.reachable(d, sectionNames[id]) {
			continue
		}
		tools := c.usersOf(sectionNames[id])
		why := "tools.deny denies every tool that needs it"
		hint := "deny fewer tools"
		if d.tools.allowSet {
			why = "tools.allow is a closed list, and none of its entries is a tool that needs it"
			hint = "add the tools that should use it to tools.allow: " + strings.Join(tools, ", ")
		}
		c.warn(first.pos, prefix+sectionNames[id], hint, "the section allows something that no call can reach: %s", why)
	}
}

func firstOf(s *section) *entry {
	for _, e := range [...]Effect{Allow, Ask} {
		if len(s.lists[e]) > 0 {
			return &s.lists[e][0]
		}
	}
	return nil
}

// usersOf are the IDs of the built-in tools that need a section, quoted.
func (c *checker) usersOf(section string) []string {
	var out []string
	for _, t := range c.in.Tools {
		if slices.Contains(sectionsOf(t), section) {
			out = append(out, strconv.Quote(string(t.ID)))
		}
	}
	return out
}

func (c *checker) reachable(d *content, section string) bool {
	s := &d.tools
	denied := func(id tool.ID) bool {
		return slices.ContainsFunc(s.lists[Deny], func(en entry) bool { return en.tool().args == nil && en.tool().matchName(id) })
	}
	allowed := func(id tool.ID) bool {
		return !s.allowSet || s.unlisted == Ask.String() || slices.ContainsFunc(slices.Concat(s.lists[Allow], s.lists[Ask]), func(en entry) bool { return en.tool().matchName(id) })
	}
	for _, t := range slices.Concat(c.in.Tools, c.in.Unlisted) {
		if slices.Contains(sectionsOf(t), section) && allowed(t.ID) && !denied(t.ID) {
			return true
		}
	}
	for _, en := range slices.Concat(s.lists[Allow], s.lists[Ask]) {
		if c.mayUse(&en, section) {
			return true
		}
	}
	return false
}

// mayUse reports whether an entry may match a tool besides Remit's own whose
// calls the section decides. For modules and extensions this is unknown here.
func (c *checker) mayUse(en *entry, section string) bool {
	text, args := en.tool().text, en.tool().args
	if args != nil && slices.ContainsFunc(args.list, func(a argument) bool { return a.rule.decidedBy(section) }) {
		return true
	}
	if mayBegin(text, "wasm:") || mayBegin(text, "ext:") || section == sectionNames[networkSection] && mayBegin(text, "api:") {
		return true
	}
	if slices.ContainsFunc(c.in.Groups, func(g string) bool { return mayBegin(text, g+".") }) {
		return true
	}
	return slices.ContainsFunc(c.in.Sources, func(s ToolSource) bool {
		return mayBegin(text, s.Name+":") && slices.Contains(s.Within, section)
	})
}

// decidedBy reports whether a constraint has the section decide its argument.
func (c *constraint) decidedBy(section string) bool {
	return c != nil && (c.within != noSection && sectionNames[c.within] == section || c.each.decidedBy(section))
}
