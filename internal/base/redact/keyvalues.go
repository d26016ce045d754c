package redact

import (
	"slices"
	"strings"
)

// KeysIn is [Keys] for decoded JSON: it masks keys in strings and in the names of fields. A list of strings is searched as
// the lines of one text, because a private key may have several of them. The structure and all other values stay. If nothing
// matched, it returns v itself and no rules.
func KeysIn(v any) (masked any, rules []string) {
	var m valueMasker
	if masked = m.value(v); m.rules == nil {
		return v, nil
	}
	return masked, m.rules
}

// valueMasker copies values, and collects the rules that matched.
type valueMasker struct{ rules []string }

func (m *valueMasker) value(v any) any {
	switch v := v.(type) {
	case string:
		return m.text(v)
	case map[string]any:
		return m.object(v)
	case []any:
		return m.list(v)
	}
	return v
}

func (m *valueMasker) text(s string) string {
	s, rules := Keys(s)
	for _, r := range rules {
		m.note(r)
	}
	return s
}

func (m *valueMasker) note(rule string) {
	if !slices.Contains(m.rules, rule) {
		m.rules = append(m.rules, rule)
	}
}

// object keeps the number of fields: names that have become equal get a sign each.
func (m *valueMasker) object(v map[string]any) map[string]any {
	out := make(map[string]any, len(v))
	for name, field := range v {
		masked := m.text(name)
		for masked != name && has(masked, v, out) {
			masked += "'"
		}
		out[masked] = m.value(field)
	}
	return out
}

func has(name string, objects ...map[string]any) bool {
	return slices.ContainsFunc(objects, func(o map[string]any) bool { _, ok := o[name]; return ok })
}

func (m *valueMasker) list(v []any) []any {
	out := make([]any, len(v))
	lines := make([]string, 0, len(v))
	for i, item := range v {
		s, ok := item.(string)
		if !ok {
			for j := range v {
				out[j] = m.value(v[j])
			}
			return out
		}
		lines, out[i] = append(lines, s), s
	}
	spans := findKeys(strings.Join(lines, "\n"))
	at := 0 // where the line begins in the text
	for i, s := range lines {
		out[i] = m.line(s, at, spans)
		at += len(s) + 1
	}
	return out
}

// line is the line of a text that begins at a place, without its parts of the keys. The line in which a key begins gets the
// marker.
func (m *valueMasker) line(s string, at int, spans []span) string {
	var b strings.Builder
	done := 0
	for _, k := range spans {
		from, to := max(k.from-at, done), min(k.to-at, len(s))
		if from >= to && (k.from < at || k.from-at >= len(s)) {
			continue
		}
		b.WriteString(s[done:from])
		if k.from >= at {
			b.WriteString(marker(k.rule))
			m.note(k.rule)
		}
		done = to
	}
	return b.String() + s[done:]
}
