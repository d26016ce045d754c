package policy

import "github.com/remitrun/remit/internal/base/tool"

// Entry is one line of one list of a policy, for tools that compare or rewrite
// policies. It decides nothing.
type Entry struct {
	Section string  // "files.read", "network", ...
	Effect  Effect  // which list it is in
	Pattern string  // as written
	Line    int     // in the policy's file
	Text    string  // the entry in canonical form, of several lines if it is a mapping
	Args    []Arg   // an entry of tools: what constrains the arguments
	Secret  *Secret // an entry of network: what is added to its requests
	Closed  bool    // an entry of tools that has args and does not say others: allow

	entry *entry
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
	return e.entry != nil && e.entry.name != nil && e.entry.name.Match(name)
}

// Entries lists a policy's entries in the document's order, deny lists first.
func (p *Policy) Entries() []Entry {
	var out []Entry
	d := p.document()
	for id := range d.sections {
		for e := range d.sections[id].lists {
			for i := range d.sections[id].lists[e] {
				out = append(out, entryOf(sectionID(id), Effect(e), &d.sections[id].lists[e][i]))
			}
		}
	}
	return out
}

func entryOf(id sectionID, e Effect, en *entry) Entry {
	out := Entry{Section: id.String(), Effect: e, Pattern: en.text, Line: en.pos.Line, Text: printed(en), Secret: en.key, entry: en}
	if en.args != nil {
		out.Closed = !en.args.others
		for _, a := range en.args.list {
			out.Args = append(out.Args, Arg{a.name, a.rule.print(), a.rule.printWithin()})
		}
	}
	return out
}

// Inherited reports whether a section is left to the other policies of a chain:
// the policy says rest: inherit and does not mention it.
func (p *Policy) Inherited(section string) bool {
	d := p.document()
	for id, name := range sectionNames {
		if name == section {
			return d.inherit && !d.sections[id].set
		}
	}
	return false
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
		if call.Tool.Source == "builtin" && !r.sections[toolSection].allowSet {
			list = nil
		}
		for i := range r.sections[toolSection].lists[Allow] {
			if b := &r.sections[toolSection].lists[Allow][i]; r.matchesCall(b, &call) {
				list = append(list, entryOf(toolSection, Allow, b.entry))
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
