package policy

import (
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// Examples gives arguments for calls of the tool that an entry of tools names,
// for showing how policies differ: some that its constraints are likely to
// allow, then some that they are likely not to. They are examples and no proof.
func (e Entry) Examples() []tool.Args {
	out := []tool.Args{{}}
	if e.entry == nil || e.entry.args == nil {
		return append(out, tool.Args{"x": "x"})
	}
	fits := tool.Args{}
	for _, a := range e.entry.args.list {
		set(fits, a.name, a.rule.example())
	}
	out = append([]tool.Args{fits}, out...)
	for _, a := range e.entry.args.list {
		other := tool.Args{}
		for _, b := range e.entry.args.list {
			set(other, b.name, b.rule.example())
		}
		set(other, a.name, "another value")
		out = append(out, other)
	}
	more := tool.Args{}
	for _, a := range e.entry.args.list {
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
	for _, p := range parts[:len(parts)-1] {
		next, ok := args[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			args[p] = next
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
