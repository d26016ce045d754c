package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/tool"
)

// arguments are an entry's constraints on a call's arguments, as a tree of
// argument names.
type arguments struct {
	list   []argument // in the document's order
	tree   node
	others bool // arguments that are not listed are allowed
}

// argument is one constraint as written.
type argument struct {
	name string // dotted
	rule *constraint
}

// node is a level of the tree: a named argument with a constraint, or with
// arguments of its own.
type node struct {
	name     string
	rule     *constraint
	children []*node
}

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}

// arguments reads the key args of an entry.
func (p *parser) arguments(e Effect, n *document.Node, path string) *arguments {
	a := &arguments{}
	p.Each(n, path, func(key, value *document.Node, path string) {
		names, err := splitName(key.Text)
		if err != nil {
			p.Fail(key, path, "%v", err)
			return
		}
		c := p.constraint(e, value, path)
		if c.depth() > maxNesting {
			p.Fail(value, path, "nested more than %d levels deep", maxNesting)
			return
		}
		a.list = append(a.list, argument{key.Text, c})
		at := &a.tree
		for _, name := range names {
			if at.rule != nil {
				p.Fail(key, path, "an argument above %q has a constraint already", key.Text)
				return
			}
			next := at.child(name)
			if next == nil {
				next = &node{name: name}
				at.children = append(at.children, next)
			}
			at = next
		}
		if at.rule != nil || len(at.children) > 0 {
			p.Fail(key, path, "the argument %q is listed twice, whole and in parts", key.Text)
			return
		}
		at.rule = c
	})
	return a
}

// splitName splits message.to at its dots; \. is a dot in a name.
func splitName(s string) ([]string, error) {
	var out []string
	var b strings.Builder
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == '.':
			if b.Len() == 0 {
				return nil, fmt.Errorf("the argument %q has an empty part", s)
			}
			out = append(out, b.String())
			b.Reset()
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '.' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case s[i] == '\\':
			return nil, fmt.Errorf("the argument %q: a backslash may stand before a dot or a backslash only", s)
		default:
			b.WriteByte(s[i])
		}
	}
	if len(out) > 16 {
		return nil, fmt.Errorf("the argument %q has more than 16 parts", s)
	}
	return out, nil
}

// context is the context in which constraints are evaluated.
type context struct {
	rules   *Rules
	effect  Effect
	actions []tool.Action
	failed  string // the first argument that does not satisfy an allow entry
}

// loose reports an entry that matches unless it certainly does not.
func (x *context) loose() bool { return x.effect != Allow }

// level evaluates a level of the tree of arguments.
func (x *context) level(n *node, args map[string]any, others bool) truth {
	t := yes
	for _, c := range n.children {
		v, there := args[c.name]
		r := x.argument(c, v, there, others)
		if r != yes && x.failed == "" {
			x.failed = c.name
		}
		t = t.and(r)
	}
	if x.loose() || others {
		return t
	}
	for name := range args {
		if n.child(name) == nil {
			if x.failed == "" {
				x.failed = "argument " + strconv.Quote(clip.Text(name, 40)) + " is not listed"
			}
			return no
		}
	}
	return t
}

func (x *context) argument(c *node, v any, there, others bool) truth {
	if c.rule != nil {
		switch {
		case there:
			return c.rule.check(v, x)
		case c.rule.optional:
			return truthOf(!x.loose())
		}
		return unknown
	}
	if !there {
		return x.absent(c)
	}
	m, ok := asMap(v)
	if !ok {
		return unknown
	}
	return x.level(c, m, others)
}

// absent evaluates constraints on parts of an argument that is missing.
func (x *context) absent(c *node) truth {
	t := yes
	for _, k := range c.children {
		t = t.and(x.argument(k, nil, false, false))
	}
	return t
}
