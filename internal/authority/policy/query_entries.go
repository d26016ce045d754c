package policy

import (
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// Entry is one line of one list of a policy, for tools that compare or rewrite
// policies. It decides nothing.
type Entry struct {
	Section string  // "files.read", "network", ...
	Effect  Effect  // which list it is in
	Pattern string  // as written
	Line    int     // in the policy's file
	Text    string  // the entry in canonical form, of several lines if it is a mapping
	Args    []Arg   // an entry of tools: the constraints of the arguments
	Secret  *Secret // an entry of network: the credential of its requests
	Closed  bool    // an entry of tools that has args and does not say others: allow

	pattern pattern
}

// Arg is the constraint on one argument of an entry of tools.
type Arg struct {
	Name       string // dotted, as written
	Constraint string // in canonical form, as {max_length: 80}; {} for any value
	// Within is the part of it that makes actions of the argument, as
	// {within: files.read, base: "src"}; "" if there is none. It does so in every
	// call of the tool, also in one that another entry allows.
	Within string
}

// Matches reports whether an entry of tools or models names this tool or model.
func (e Entry) Matches(name string) bool {
	switch p := e.pattern.(type) {
	case *toolPattern:
		return p.name.Match(name)
	case *namePattern:
		return p.name.Match(name)
	}
	return false
}

// Entries lists a policy's entries in the document's order, deny lists first.
func (p *Policy) Entries() []Entry {
	var out []Entry
	d := p.content()
	for id := range numSections {
		lists := &d.section(id).lists
		for e := range lists {
			for i := range lists[e] {
				out = append(out, entryOf(id, Effect(e), lists[e][i].pattern, lists[e][i].pos.Line))
			}
		}
	}
	return out
}

func entryOf(id sectionID, e Effect, p pattern, line int) Entry {
	out := Entry{Section: id.String(), Effect: e, Pattern: p.String(), Line: line, Text: printed(p), pattern: p}
	switch p := p.(type) {
	case *networkPattern:
		out.Secret = p.secret
	case *toolPattern:
		if p.args == nil {
			break
		}
		out.Closed = !p.args.others
		for _, a := range p.args.list {
			out.Args = append(out.Args, Arg{a.name, a.rule.print(), a.rule.printWithin()})
		}
	}
	return out
}

// Mentions reports whether the document has a section, if an empty one.
func (p *Policy) Mentions(section string) bool {
	return p.content().section(sectionNamed(section)).set
}

// Inherited reports whether a section is left to the other policies of a chain:
// the policy says rest: inherit and does not mention it.
func (p *Policy) Inherited(section string) bool {
	d := p.content()
	id := d.deciding(sectionNamed(section))
	return id != noSection && d.inherit && !d.section(id).set
}

// Allowing gives, for each policy of the chain that decides tools itself, the
// entries of tools.allow that match a call. A nil list means that the policy
// allows the tool as a built-in one; an empty one that it asks or denies.
func (c Chain) Allowing(call Call) [][]Entry {
	out := [][]Entry{}
	for _, r := range c {
		if r == nil || r.policy == nil || call.Tool == nil || r.sections[toolSection].inherits {
			continue
		}
		list := []Entry{}
		if r.allowsBuiltIn(call.Tool) {
			list = nil
		}
		for i := range r.sections[toolSection].lists[Allow] {
			if b := &r.sections[toolSection].lists[Allow][i]; r.matchesCall(b, &call) {
				list = append(list, entryOf(toolSection, Allow, b.pattern, b.rule.Line))
			}
		}
		out = append(out, list)
	}
	return out
}

// DecideTool gives the decision on a call's tool and arguments alone.
func (c Chain) DecideTool(t *tool.Spec, args tool.Args, actions []tool.Action) Effect {
	e, _ := c.tool(&Call{Tool: t, Args: args, Actions: actions}, nil)
	return e
}

// printWithin writes the parts of a constraint that make actions.
func (c *constraint) printWithin() string {
	only := &constraint{within: c.within, base: c.base}
	if c.each != nil && c.each.printWithin() != "" {
		only.each = &constraint{within: c.each.within, base: c.each.base, each: c.each.each}
	}
	if only.within == noSection && only.each == nil {
		return ""
	}
	return only.print()
}

// Examples gives arguments for calls of the tool that an entry of tools names,
// for showing how policies differ: some that its constraints are likely to
// allow, then some that they are likely not to. They are examples and no proof.
func (e Entry) Examples() []tool.Args {
	out := []tool.Args{{}}
	p, ok := e.pattern.(*toolPattern)
	if !ok || p.args == nil {
		return append(out, tool.Args{"x": "x"})
	}
	fits := tool.Args{}
	for _, a := range p.args.list {
		set(fits, a.name, a.rule.example())
	}
	out = append([]tool.Args{fits}, out...)
	for _, a := range p.args.list {
		other := tool.Args{}
		for _, b := range p.args.list {
			set(other, b.name, b.rule.example())
		}
		set(other, a.name, "another value")
		out = append(out, other)
	}
	more := tool.Args{}
	for _, a := range p.args.list {
		set(more, a.name, a.rule.example())
	}
	more["another argument"] = true
	return append(out, more)
}

// set puts a value at a dotted name.
func set(args map[string]any, name string, v any) {
	parts, err := splitName(name)
	if err != nil {
		return
	}
	for _, part := range parts[:len(parts)-1] {
		next, ok := args[part].(map[string]any)
		if !ok {
			next = map[string]any{}
			args[part] = next
		}
		args = next
	}
	args[parts[len(parts)-1]] = v
}

// example is a value that is likely to satisfy a constraint.
func (c *constraint) example() any {
	switch {
	case c.hasEquals:
		return c.equals
	case len(c.oneOf) > 0:
		return c.oneOf[0]
	case c.each != nil:
		return []any{c.each.example()}
	case c.globText != "":
		return strings.NewReplacer("**", "x", "*", "x", "?", "x", "\\", "").Replace(c.globText)
	case c.min != "":
		return c.min
	case c.max != "":
		return c.max
	case c.within == networkSection:
		return "https://example.net/"
	case c.within == commandSection:
		return "true"
	case c.within != noSection:
		return "/x"
	case c.minLength != nil:
		return strings.Repeat("x", min(*c.minLength, 1000))
	}
	return json.Number("1").String()
}
