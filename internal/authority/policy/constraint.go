package policy

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/authority/policy/glob"
)

// constraint is what must hold of one argument: all parts that are given.
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

// toolEntry reads an entry of tools with constraints on the arguments.
func (p *parser) toolEntry(e Effect, n *yaml.Node, field string) entry {
	en := entry{pos: p.pos(n)}
	others, hasTool := false, false
	p.mapping(n, field, keys{
		"tool": func(n *yaml.Node, f string) {
			hasTool = true
			if s, ok := p.text(n, f); ok {
				en.text = s
				if err := en.compile(toolSection, e); err != nil {
					p.fail(n, f, "%v", err)
				}
			}
		},
		"args": func(n *yaml.Node, f string) { en.args = p.arguments(e, n, f) },
		"others": func(n *yaml.Node, f string) {
			var s string
			p.oneOf(&s, "allow")(n, f)
			others = s == "allow"
			if e == Deny || e == Ask {
				p.fail(n, f, "others has no meaning in %s: such an entry matches whatever else a call holds", listNames[e])
			}
		},
	})
	if !hasTool {
		p.fail(n, field, "the entry names no tool").Hint = "write {tool: ID, args: {...}}"
	}
	switch {
	case en.args != nil:
		en.args.others = others
	case others:
		p.fail(n, field, "others has a meaning beside args only")
	}
	return en
}

func (p *parser) arguments(e Effect, n *yaml.Node, field string) *arguments {
	a := &arguments{}
	p.pairs(n, field, func(k, v *yaml.Node, f string) {
		names, err := splitName(k.Value)
		if err != nil {
			p.fail(k, f, "%v", err)
			return
		}
		c := p.constraint(e, v, f)
		if c.depth() > maxNesting {
			p.fail(v, f, "nested more than %d levels deep", maxNesting)
			return
		}
		a.list = append(a.list, argument{k.Value, c})
		at := &a.tree
		for _, name := range names {
			if at.rule != nil {
				p.fail(k, f, "an argument above %q has a constraint already", k.Value)
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
			p.fail(k, f, "argument %q is listed twice, whole and in parts", k.Value)
			return
		}
		at.rule = c
	})
	return a
}

// splitName cuts message.to at its dots; \. is a dot in a name.
func splitName(s string) ([]string, error) {
	var out []string
	var b strings.Builder
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s) || s[i] == '.':
			if b.Len() == 0 {
				return nil, fmt.Errorf("argument %q has an empty part", s)
			}
			out = append(out, b.String())
			b.Reset()
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '.' || s[i+1] == '\\'):
			i++
			b.WriteByte(s[i])
		case s[i] == '\\':
			return nil, fmt.Errorf("argument %q: a backslash stands before a dot or a backslash only", s)
		default:
			b.WriteByte(s[i])
		}
	}
	if len(out) > 16 {
		return nil, fmt.Errorf("argument %q is nested too deep", s)
	}
	return out, nil
}

func (p *parser) constraint(e Effect, n *yaml.Node, field string) *constraint {
	c := &constraint{}
	if n.Kind != yaml.MappingNode {
		c.hasEquals, c.equals = true, p.value(n, field)
		return c
	}
	p.mapping(n, field, keys{
		"equals": func(n *yaml.Node, f string) { c.hasEquals, c.equals = true, p.value(n, f) },
		"one_of": func(n *yaml.Node, f string) {
			list, ok := p.value(n, f).([]any)
			if !ok || len(list) == 0 {
				p.fail(n, f, "must be a list of at least one value, not %s", describe(n))
			}
			c.oneOf = list
		},
		"glob":       func(n *yaml.Node, f string) { p.glob(n, f, c) },
		"regex":      func(n *yaml.Node, f string) { c.regex = p.expression(n, f) },
		"min":        p.number(&c.min),
		"max":        p.number(&c.max),
		"min_length": p.optional(&c.minLength),
		"max_length": p.optional(&c.maxLength),
		"each":       func(n *yaml.Node, f string) { c.each = p.each(e, n, f) },
		"within":     p.within(e, c),
		"base": func(n *yaml.Node, f string) {
			p.pattern(n, f, &c.base, func(s string) error { _, err := cleanBase(s, Env{Workspace: "/w", Home: "/h"}); return err })
		},
		"optional": func(n *yaml.Node, f string) {
			if n.Tag != "!!bool" || n.Value != "true" && n.Value != "false" {
				p.fail(n, f, "must be true or false, not %s", describe(n))
			}
			c.optional = n.Value == "true"
		},
	})
	if c.base != "" && c.within == noSection {
		p.fail(n, field, "base has a meaning beside within only")
	}
	return c
}

// each reads the constraint on every element. A bare string is a glob here, as
// lists are mostly of addresses, names and paths; elsewhere it is the value.
func (p *parser) each(e Effect, n *yaml.Node, field string) *constraint {
	if !isText(n) {
		return p.constraint(e, n, field)
	}
	c := &constraint{}
	p.glob(n, field, c)
	return c
}

func (p *parser) glob(n *yaml.Node, field string, c *constraint) {
	p.pattern(n, field, &c.globText, func(s string) (err error) {
		if c.glob, err = glob.CompileText(s); err == nil {
			p.charge(n, field, c.glob.Added()/globPart)
		}
		return err
	})
}

func (p *parser) within(e Effect, c *constraint) func(*yaml.Node, string) {
	return func(n *yaml.Node, f string) {
		if e == Deny {
			p.fail(n, f, "within has no meaning in deny").Hint = "the sections' own deny lists say what is denied"
			return
		}
		var s string
		p.oneOf(&s, "files.read", "files.write", "network", "commands")(n, f)
		for id, name := range sectionNames {
			if name == s && s != "" {
				c.within = sectionID(id)
			}
		}
	}
}

func (p *parser) pattern(n *yaml.Node, field string, into *string, compile func(string) error) {
	s, ok := p.text(n, field)
	if !ok {
		return
	}
	if p.full {
		return // reported already
	}
	if err := compile(s); err != nil {
		p.fail(n, field, "%v", err)
	}
	*into = s
}

func (p *parser) number(into *json.Number) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if v, ok := p.value(n, field).(json.Number); ok {
			*into = v
			return
		}
		p.fail(n, field, "must be a number, not %s", describe(n))
	}
}

// value reads a YAML node as the JSON value that it stands for.
func (p *parser) value(n *yaml.Node, field string) any {
	switch n.Kind {
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, c := range n.Content {
			out[i] = p.value(c, fmt.Sprintf("%s[%d]", field, i))
		}
		return out
	case yaml.MappingNode:
		out := map[string]any{}
		p.pairs(n, field, func(k, v *yaml.Node, f string) { out[k.Value] = p.value(v, f) })
		return out
	}
	switch {
	case isText(n):
		return n.Value
	case n.Tag == "!!null":
		return nil
	case n.Tag == "!!bool" && (n.Value == "true" || n.Value == "false"):
		return n.Value == "true"
	case (n.Tag == "!!int" || n.Tag == "!!float") && len(n.Value) <= 500 && numberForm.MatchString(n.Value):
		return json.Number(n.Value)
	}
	p.fail(n, field, "%s is no JSON value", describe(n)).Hint = "put a string in quotes; write numbers in plain decimal"
	return nil
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
		// A deny or ask entry is not evaded by an element beside those it names.
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
