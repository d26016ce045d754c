package inspect

import (
	"encoding/json"
	"slices"
	"strings"
)

// maxDepth bounds the depth of an inspected schema. Deeper schemas are refused when
// tools are listed ([TooDeep]).
const maxDepth = 64

// TooDeep reports whether a JSON text is nested deeper than is looked into.
func TooDeep(src []byte) bool {
	depth, text := 0, false
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// Schema inspects all texts of a JSON Schema: descriptions and titles, but also
// property names, values and examples, which a model reads as well. Invalid JSON has
// no findings.
func Schema(where string, src []byte) []Finding {
	by := worthReading(string(src))
	if len(by) == 0 {
		return nil
	}
	var v any
	if json.Unmarshal(src, &v) != nil {
		return nil
	}
	var out []Finding
	walk(where, v, 0, func(at, s string) {
		if len(out) < maxFindings {
			out = append(out, text(at, s, by)...)
		}
	})
	return out
}

// worthReading returns the rules that could match in a JSON text: those whose words
// occur in it. If the text has escapes, it returns all rules.
func worthReading(s string) []rule {
	if !clean(s) || strings.Contains(s, `\u`) || strings.Contains(s, `\/`) {
		return rules
	}
	lower := strings.ToLower(s)
	out := slices.DeleteFunc(slices.Clone(rules), func(r rule) bool { return len(r.words) > 0 && !r.possible(lower) })
	odd := encoded(s) != nil || strings.Contains(s, strings.Repeat(" ", 30)) || strings.Contains(s, `\n\n\n\n`) || strings.Contains(s, `\t\t\t\t`)
	if !odd && !slices.ContainsFunc(out, func(r rule) bool { return len(r.words) > 0 }) {
		return nil
	}
	return out
}

func walk(at string, v any, depth int, text func(at, s string)) {
	if depth > maxDepth {
		return
	}
	switch v := v.(type) {
	case string:
		text(at, v)
	case []any:
		for _, x := range v {
			walk(at, x, depth+1, text)
		}
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			text(at+" (a name)", name)
			walk(at+"."+Visible(name), v[name], depth+1, text)
		}
	}
}

// isPlainJSON reports whether a JSON text has no character that cannot be seen, written as
// it is or escaped: where it has escapes, they are of ASCII that can be seen, as
// json.Marshal escapes "<".
func isPlainJSON(s string) bool {
	if !clean(s) {
		return false
	}
	for {
		_, after, escaped := strings.Cut(s, `\u`)
		if !escaped {
			return true
		}
		if len(after) < 4 || after[:2] != "00" || after[2] < '2' || after[2] > '7' || after[2] == '7' && after[3]|0x20 == 'f' {
			return false
		}
		s = after
	}
}

// CleanSchema takes invisible characters out of the titles, descriptions and
// comments of a JSON Schema. Names and values stay: arguments are checked
// against them. One without such characters comes back as it is.
func CleanSchema(src json.RawMessage) json.RawMessage {
	if isPlainJSON(string(src)) {
		return src
	}
	var v any
	dec := json.NewDecoder(strings.NewReader(string(src)))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return src
	}
	changed := false
	v = cleanValue(v, 0, &changed)
	if !changed {
		return src
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return src
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

func cleanValue(v any, depth int, changed *bool) any {
	if depth > maxDepth {
		return v
	}
	switch x := v.(type) {
	case []any:
		for i := range x {
			x[i] = cleanValue(x[i], depth+1, changed)
		}
	case map[string]any:
		for name, one := range x {
			text, isText := one.(string)
			switch name {
			case "title", "description", "$comment":
				if isText {
					if c := Clean(text); c != text {
						x[name], *changed = c, true
					}
					continue
				}
			}
			x[name] = cleanValue(one, depth+1, changed)
		}
	}
	return v
}

// Names returns the first property name of a schema with invisible characters, or "".
// No honest argument has such a name.
func Names(src []byte) (bad string) {
	if isPlainJSON(string(src)) {
		return ""
	}
	var v any
	if json.Unmarshal(src, &v) != nil {
		return ""
	}
	walk("", v, 0, func(at, s string) {
		if bad == "" && strings.HasSuffix(at, " (a name)") && HasInvisible(s) {
			bad = Visible(s)
		}
	})
	return bad
}
