package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/document"
)

// Print writes the policy in canonical form: YAML with every string quoted, in
// a fixed order. Parsing it gives the same policy.
func (p *Policy) Print() []byte {
	d := p.content()
	w := &printer{}
	w.line(0, "version: 1")
	w.line(0, "name: %s", quote(d.name))
	w.settings(0, d.settings())
	if len(d.roles) > 0 {
		w.line(0, "roles:")
		for _, r := range d.roles {
			w.mapping(1, quote(r.pattern), true, r.policy.doc.settings())
		}
	}
	return w.b.Bytes()
}

type printer struct{ b bytes.Buffer }

func (w *printer) line(indent int, format string, args ...any) {
	w.b.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(&w.b, format+"\n", args...)
}

func (w *printer) settings(in int, settings []setting) {
	for _, s := range settings {
		s.print(w, in)
	}
}

// mapping writes a mapping. An empty one is left out or, if the document
// mentions it, written as {}.
func (w *printer) mapping(in int, key string, mentioned bool, settings []setting) {
	start := w.b.Len()
	w.line(in, "%s:", key)
	head := w.b.Len()
	w.settings(in+1, settings)
	switch {
	case w.b.Len() > head:
	case mentioned:
		w.b.Truncate(head - 1)
		w.b.WriteString(" {}\n")
	default:
		w.b.Truncate(start)
	}
}

// rest makes the setting rest: inherit.
func rest(inherit *bool) setting {
	word := ""
	if *inherit {
		word = "inherit"
	}
	return value("rest", func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			p.OneOf(&word, "inherit")(n, path)
			*inherit = word == "inherit"
		}
	}, func() string { return word })
}

// printed is an entry as it prints.
func printed(p pattern) string {
	var w printer
	p.print(&w, 0)
	return w.b.String()
}

// print writes a constraint as a flow mapping.
func (c *constraint) print() string {
	var parts []string
	add := func(key, value string) { parts = append(parts, key+": "+value) }
	if c.hasEquals {
		add("equals", printValue(c.equals))
	}
	if c.oneOf != nil {
		add("one_of", printValue(c.oneOf))
	}
	if c.glob != nil {
		add("glob", quote(c.globText))
	}
	if c.regex != nil {
		add("regex", quote(c.regex.source))
	}
	if c.min != "" {
		add("min", string(c.min))
	}
	if c.max != "" {
		add("max", string(c.max))
	}
	if c.minLength != nil {
		add("min_length", strconv.Itoa(*c.minLength))
	}
	if c.maxLength != nil {
		add("max_length", strconv.Itoa(*c.maxLength))
	}
	if c.each != nil {
		add("each", c.each.print())
	}
	if c.within != noSection {
		add("within", c.within.String())
	}
	if c.base != "" {
		add("base", quote(c.base))
	}
	if c.optional {
		add("optional", "true")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func printValue(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return string(v)
	case []any:
		parts := make([]string, len(v))
		for i, w := range v {
			parts[i] = printValue(w)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for k, w := range v {
			parts = append(parts, quote(k)+": "+printValue(w))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return "null"
}

// quote writes a YAML string: Go's escapes are among YAML's.
func quote(s string) string { return strconv.Quote(s) }
