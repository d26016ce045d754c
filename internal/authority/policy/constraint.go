package policy

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/document"
)

// constraint bounds one argument: every part that is set must hold.
type constraint struct {
	hasEquals            bool
	equals               any
	oneOf                []any // nil: not given
	globText             string
	glob                 *glob.Text
	regex                *expression
	min, max             json.Number // "": not given
	minLength, maxLength *int
	each                 *constraint
	within               sectionID
	base                 string
	optional             bool
}

// maxNesting bounds values and constraints within one another.
const maxNesting = 24

// depth is how deep the constraint nests as it is printed.
func (c *constraint) depth() int {
	d := max(valueDepth(c.equals), valueDepth(c.oneOf))
	if c.each != nil {
		d = max(d, c.each.depth())
	}
	return d + 1
}

func valueDepth(v any) int {
	d := 0
	switch v := v.(type) {
	case []any:
		for _, w := range v {
			d = max(d, valueDepth(w)+1)
		}
	case map[string]any:
		for _, w := range v {
			d = max(d, valueDepth(w)+1)
		}
	}
	return d
}

func (p *parser) constraint(e Effect, n *document.Node, path string) *constraint {
	c := &constraint{}
	if n.Kind != document.Mapping {
		c.hasEquals, c.equals = true, n.Value()
		return c
	}
	p.mapping(n, path, document.Fields{
		"equals": func(n *document.Node, _ string) { c.hasEquals, c.equals = true, n.Value() },
		"one_of": func(n *document.Node, path string) {
			list, ok := n.Value().([]any)
			if !ok || len(list) == 0 {
				p.Expected(n, path, "a list of at least one value")
			}
			c.oneOf = list
		},
		"glob":       func(n *document.Node, path string) { p.glob(n, path, c) },
		"regex":      func(n *document.Node, path string) { c.regex = p.expression(n, path) },
		"min":        p.number(&c.min),
		"max":        p.number(&c.max),
		"min_length": p.length(&c.minLength),
		"max_length": p.length(&c.maxLength),
		"each":       func(n *document.Node, path string) { c.each = p.each(e, n, path) },
		"within":     p.within(e, c),
		"base": p.String(&c.base, func(s string) error {
			_, err := cleanBase(s, Env{Workspace: "/w", Home: "/h"})
			return err
		}),
		"optional": p.Bool(&c.optional),
	})
	if c.base != "" && c.within == noSection {
		p.Fail(n, path, "base has a meaning beside within only")
	}
	return c
}

// each reads the constraint on every element. A bare string is a glob here, as
// lists are mostly of addresses, names and paths; elsewhere it is the value.
func (p *parser) each(e Effect, n *document.Node, path string) *constraint {
	if n.Kind != document.String {
		return p.constraint(e, n, path)
	}
	c := &constraint{}
	p.glob(n, path, c)
	return c
}

func (p *parser) glob(n *document.Node, path string, c *constraint) {
	if p.full {
		return // reported already
	}
	p.String(&c.globText, func(s string) (err error) {
		if c.glob, err = glob.CompileText(s); err == nil {
			p.charge(n, path, c.glob.Added()/globPart)
		}
		return err
	})(n, path)
}

func (p *parser) within(e Effect, c *constraint) document.Field {
	return func(n *document.Node, path string) {
		if e == Deny {
			p.Fail(n, path, "within has no meaning in deny").Hint = "the deny lists of the sections say what is denied"
			return
		}
		var name string
		p.OneOf(&name, "files.read", "files.write", "files.delete", "network", "commands")(n, path)
		c.within = sectionNamed(name)
	}
}

func (p *parser) length(into **int) document.Field {
	return optional(p, into, func(v *int) document.Field { return document.Int(p.Reader, v, 0, maxCount) })
}

func (p *parser) number(into *json.Number) document.Field {
	return func(n *document.Node, path string) {
		if v, ok := n.Value().(json.Number); ok {
			*into = v
			return
		}
		p.Expected(n, path, "a number")
	}
}

// check evaluates the constraint on a value that is there.
func (c *constraint) check(v any, x *context) truth {
	t := yes
	if c.hasEquals {
		t = t.and(sameValue(c.equals, v))
	}
	if c.oneOf != nil {
		found := no
		for _, w := range c.oneOf {
			switch sameValue(w, v) {
			case yes:
				found = yes
			case unknown:
				if found == no {
					found = unknown
				}
			}
		}
		t = t.and(found)
	}
	if c.glob != nil || c.regex != nil {
		t = t.and(c.checkText(v))
	}
	if c.min != "" || c.max != "" {
		t = t.and(c.checkRange(v))
	}
	if c.minLength != nil || c.maxLength != nil {
		t = t.and(c.checkLength(v))
	}
	if c.each != nil {
		t = t.and(c.checkEach(v, x))
	}
	if c.within != noSection {
		t = t.and(x.within(c, v))
	}
	return t
}

func (c *constraint) checkText(v any) truth {
	s, ok := v.(string)
	if !ok {
		return unknown
	}
	if c.glob != nil && !c.glob.Match(s) {
		return no
	}
	switch {
	case c.regex == nil:
		return yes
	case !utf8.ValidString(s):
		return no
	}
	return c.regex.match(s)
}

func (c *constraint) checkRange(v any) truth {
	n, ok := v.(json.Number)
	if !ok {
		return unknown
	}
	t := yes
	if c.min != "" {
		cmp, ok := compareNumbers(n, c.min)
		if !ok {
			return unknown
		}
		t = t.and(truthOf(cmp >= 0))
	}
	if c.max != "" {
		cmp, ok := compareNumbers(n, c.max)
		if !ok {
			return unknown
		}
		t = t.and(truthOf(cmp <= 0))
	}
	return t
}

// checkLength counts a string's characters or a list's elements.
func (c *constraint) checkLength(v any) truth {
	n := 0
	switch v := v.(type) {
	case string:
		n = utf8.RuneCountInString(v)
	case []any:
		n = len(v)
	default:
		return unknown
	}
	return truthOf((c.minLength == nil || n >= *c.minLength) && (c.maxLength == nil || n <= *c.maxLength))
}

func (c *constraint) checkEach(v any, x *context) truth {
	list, ok := v.([]any)
	if !ok {
		return unknown
	}
	if x.loose() && len(list) > 0 {
		// A further element in the list does not evade a deny or ask entry.
		for _, w := range list {
			if c.each.check(w, x) != no {
				return yes
			}
		}
		return no
	}
	t := yes
	for _, w := range list {
		if t = t.and(c.each.check(w, x)); t != yes {
			break // in allow it is settled
		}
	}
	return t
}
