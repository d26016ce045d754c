package plan

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/document"
)

// template is an argument value with its expressions taken apart, once, when the plan is read.
// Values inserted later are never parsed.
type template struct {
	lit   any    // a value without any expression in it
	ref   *ref   // a string that is exactly one expression
	parts []part // a string with expressions inside
	list  bool
	keys  []string // of an object
	kids  []*template
}

// part is literal text or an inserted value.
type part struct {
	text string
	ref  *ref
}

func (t *template) literal() bool { return t.ref == nil && t.parts == nil && t.kids == nil }

// hasExpression reports whether some text of a value has an expression, or an escaped one.
// Most arguments have none, and are kept once.
func hasExpression(n *document.Node) bool {
	return n.Kind == document.String && strings.Contains(n.Text, "${{") || slices.ContainsFunc(n.Items, hasExpression) ||
		slices.ContainsFunc(n.Pairs, func(p document.Pair) bool { return hasExpression(p.Value) })
}

// template compiles a value and collects its references.
func (r *reader) template(n *document.Node, field string, refs *[]*ref) *template {
	if n.Kind == document.String && strings.Contains(n.Text, "${{") {
		return r.text(n.Text, n, field, refs)
	}
	t := &template{}
	fixed := true
	add := func(n *document.Node, field string) {
		kid := r.template(n, field, refs)
		fixed = fixed && kid.literal()
		t.kids = append(t.kids, kid)
	}
	for i, item := range n.Items {
		add(item, document.Index(field, i))
	}
	for _, p := range n.Pairs {
		t.keys = append(t.keys, p.Key.Text)
		add(p.Value, document.Join(field, p.Key.Text))
	}
	if t.list = n.Kind == document.List; fixed {
		return &template{lit: literalValue(n, t)}
	}
	return t
}

// literalValue reuses the values of the parts, where escapes are resolved.
func literalValue(n *document.Node, t *template) any {
	switch n.Kind {
	case document.List:
		out := make([]any, len(t.kids))
		for i, k := range t.kids {
			out[i] = k.lit
		}
		return out
	case document.Mapping:
		out := make(map[string]any, len(t.kids))
		for i, k := range t.kids {
			out[t.keys[i]] = k.lit
		}
		return out
	}
	return n.Value()
}

// text takes a string with expressions or escapes apart.
func (r *reader) text(s string, at *document.Node, field string, refs *[]*ref) *template {
	var parts []part
	var lit strings.Builder
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "$${{"):
			lit.WriteString("${{")
			i += 4
		case strings.HasPrefix(s[i:], "${{"):
			p := &scanner{s: s, at: i + 3}
			ref := p.reference()
			if p.err == nil && !p.take("}}") {
				p.fail("%q is missing; only a reference can stand here, conditions belong into if", "}}")
			}
			if p.err != nil {
				r.bad(at, field, "write $${{ for the text itself", "%v in %q", p.err, excerpt(s[i:]))
				return &template{lit: s}
			}
			ref.at, ref.field = at, field
			*refs = append(*refs, ref)
			if lit.Len() > 0 {
				parts = append(parts, part{text: lit.String()})
				lit.Reset()
			}
			parts = append(parts, part{ref: ref})
			i = p.at
		default:
			lit.WriteByte(s[i])
			i++
		}
	}
	switch {
	case len(parts) == 0:
		return &template{lit: lit.String()}
	case len(parts) == 1 && lit.Len() == 0:
		return &template{ref: parts[0].ref}
	case lit.Len() > 0:
		parts = append(parts, part{text: lit.String()})
	}
	return &template{parts: parts}
}
