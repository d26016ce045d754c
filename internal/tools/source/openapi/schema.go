package openapi

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
)

// converted is a schema as a tool's schema has it.
type converted struct {
	text []byte
	refs []string // pointers to the schemas that it refers to
}

// maxDepth bounds how deep one schema may be nested; deeper parts are left open.
const maxDepth = 60

// schema converts what a pointer leads to, once. A part that cannot be read is left open.
func (r *reader) schema(pointer string) *converted {
	if c, ok := r.schemas[pointer]; ok {
		return c
	}
	c := &converted{text: []byte("true")}
	if raw, err := r.valueAt("", pointer); err == nil {
		c = r.convert(raw)
	}
	r.schemas[pointer] = c
	return c
}

// convert returns a schema of the document as one of JSON Schema 2020-12.
func (r *reader) convert(raw json.RawMessage) *converted {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if len(raw) == 0 || dec.Decode(&v) != nil {
		return &converted{text: []byte("true")}
	}
	x := conversion{r: r}
	text, err := json.Marshal(x.schema(v, 0))
	if err != nil {
		return &converted{text: []byte("true")}
	}
	return &converted{text, x.refs}
}

// conversion converts one schema.
type conversion struct {
	r    *reader
	refs []string
}

func (x *conversion) schema(v any, depth int) any {
	m, ok := v.(map[string]any)
	if !ok {
		b, isBool := v.(bool)
		return !isBool || b
	}
	if depth > maxDepth {
		return true
	}
	if ref, ok := m["$ref"].(string); ok {
		if !slices.Contains(x.refs, ref) {
			x.refs = append(x.refs, ref)
		}
		return map[string]any{"$ref": "#/$defs/" + defName(ref)}
	}
	out := map[string]any{}
	for k, v := range m {
		if read, ok := x.r.keywords[k]; ok {
			if w, ok := read(x, v, depth+1); ok {
				out[k] = w
			}
		}
	}
	x.tidy(m, out)
	return out
}

// tidy settles what several keywords say together.
func (x *conversion) tidy(m, out map[string]any) {
	if one, ok := out["oneOf"]; ok {
		// The server decides which of several fitting ones applies.
		delete(out, "oneOf")
		if _, both := out["anyOf"]; both {
			all, _ := out["allOf"].([]any)
			out["allOf"] = append(all, map[string]any{"anyOf": one})
		} else {
			out["anyOf"] = one
		}
	}
	for _, k := range [][2]string{{"exclusiveMinimum", "minimum"}, {"exclusiveMaximum", "maximum"}} {
		if b, ok := m[k[0]].(bool); ok && b && out[k[1]] != nil {
			out[k[0]] = out[k[1]]
			delete(out, k[1])
		}
	}
	x.notSent(m, out)
	if b, ok := m["nullable"].(bool); ok && b && x.r.v30 {
		nullable(out)
	}
}

// notSent drops properties that a server alone writes.
func (x *conversion) notSent(m, out map[string]any) {
	props, _ := m["properties"].(map[string]any)
	kept, _ := out["properties"].(map[string]any)
	required, _ := out["required"].([]any)
	for name, p := range props {
		if s, ok := p.(map[string]any); ok && s["readOnly"] == true {
			delete(kept, name)
			required = slices.DeleteFunc(required, func(v any) bool { return v == name })
		}
	}
	if len(required) == 0 {
		delete(out, "required")
	} else {
		out["required"] = required
	}
}

// nullable lets a schema of version 3.0 also be null.
func nullable(out map[string]any) {
	if list, ok := out["enum"].([]any); ok && !slices.Contains(list, nil) {
		out["enum"] = append(slices.Clone(list), nil)
	}
	switch t := out["type"].(type) {
	case string:
		out["type"] = []any{t, "null"}
		return
	case []any:
		if !slices.Contains(t, any("null")) {
			out["type"] = append(t, "null")
		}
		return
	}
	for _, k := range []string{"allOf", "anyOf"} {
		if list, ok := out[k]; ok {
			delete(out, k)
			out["anyOf"] = []any{map[string]any{k: list}, map[string]any{"type": "null"}}
			return
		}
	}
}

// keyword reads the value of a keyword; one that is not as it should be is left out.
type keyword func(x *conversion, v any, depth int) (any, bool)

// keywordTable has the keywords of a schema that are kept.
func keywordTable() map[string]keyword {
	text := func(_ *conversion, v any, _ int) (any, bool) {
		s, ok := v.(string)
		return clip.Text(s, maxText), ok
	}
	truth := func(_ *conversion, v any, _ int) (any, bool) { b, ok := v.(bool); return b, ok }
	one := func(x *conversion, v any, depth int) (any, bool) {
		switch v.(type) {
		case map[string]any, bool:
			return x.schema(v, depth), true
		}
		return nil, false
	}
	t := map[string]keyword{
		"pattern": pattern, "type": typeWord, "enum": enum, "required": required, "multipleOf": positive,
		"const": func(_ *conversion, v any, _ int) (any, bool) { return v, true }, "default": keepSmall,
		"items": one, "additionalProperties": one, "not": one, "contains": one, "propertyNames": one, "if": one, "then": one, "else": one,
		"properties": members(func(string) bool { return true }), "patternProperties": members(compiles),
	}
	for _, k := range []string{"title", "description", "format", "contentEncoding", "contentMediaType"} {
		t[k] = text
	}
	for _, k := range []string{"uniqueItems", "deprecated", "writeOnly"} {
		t[k] = truth
	}
	for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		t[k] = number
	}
	for _, k := range []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"} {
		t[k] = count
	}
	for _, k := range []string{"allOf", "anyOf", "oneOf", "prefixItems"} {
		t[k] = several
	}
	return t
}

func several(x *conversion, v any, depth int) (any, bool) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, false
	}
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = x.schema(s, depth)
	}
	return out, true
}

func members(fits func(string) bool) keyword {
	return func(x *conversion, v any, depth int) (any, bool) {
		m, ok := v.(map[string]any)
		out := make(map[string]any, len(m))
		for name, s := range m {
			if fits(name) {
				out[name] = x.schema(s, depth)
			}
		}
		return out, ok
	}
}

func compiles(p string) bool {
	_, err := regexp.Compile(p)
	return err == nil && len(p) <= 1000
}

func pattern(_ *conversion, v any, _ int) (any, bool) {
	s, ok := v.(string)
	return s, ok && compiles(s)
}

var types = []string{"null", "boolean", "object", "array", "number", "string", "integer"}

func typeWord(_ *conversion, v any, _ int) (any, bool) {
	switch v := v.(type) {
	case string:
		if v == "file" {
			v = "string"
		}
		return v, slices.Contains(types, v)
	case []any:
		var out []any
		for _, w := range v {
			if s, ok := w.(string); ok && slices.Contains(types, s) && !slices.Contains(out, w) {
				out = append(out, w)
			}
		}
		return out, len(out) > 0 && len(out) == len(v)
	}
	return nil, false
}

func enum(_ *conversion, v any, _ int) (any, bool) {
	list, ok := v.([]any)
	return list, ok && len(list) > 0 && len(list) <= 1000
}

func required(_ *conversion, v any, _ int) (any, bool) {
	list, ok := v.([]any)
	var out []any
	for _, n := range list {
		if s, isText := n.(string); isText && !slices.Contains(out, any(s)) {
			out = append(out, s)
		}
	}
	return out, ok && len(out) > 0
}

func number(_ *conversion, v any, _ int) (any, bool) {
	n, ok := v.(json.Number)
	return n, ok
}

func positive(_ *conversion, v any, _ int) (any, bool) {
	n, ok := v.(json.Number)
	f, err := n.Float64()
	return n, ok && err == nil && f > 0
}

func count(_ *conversion, v any, _ int) (any, bool) {
	n, ok := v.(json.Number)
	i, err := n.Int64()
	return n, ok && err == nil && i >= 0
}

// keepSmall keeps a default that is not larger than a description may be.
func keepSmall(_ *conversion, v any, _ int) (any, bool) {
	b, err := json.Marshal(v)
	return v, err == nil && len(b) <= maxText
}

// defName names the schema that a reference leads to within a tool's schema.
func defName(ref string) string {
	name, ok := strings.CutPrefix(ref, "#/components/schemas/")
	plain := ok && name != ""
	for i := 0; i < len(name) && plain; i++ {
		c := name[i]
		plain = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
	}
	if plain {
		return name
	}
	return "ref." + hash(ref)
}

// bundle returns the schemas that some schemas refer to, directly or not, as far as there is room:
// further ones are left open.
func (r *reader) bundle(refs []string, room int) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	for queue := slices.Clone(refs); len(queue) > 0; queue = queue[1:] {
		name := defName(queue[0])
		if _, done := out[name]; done {
			continue
		}
		c := r.schema(queue[0])
		if room -= len(c.text) + len(name) + 8; room < 0 {
			out[name] = json.RawMessage("true")
			continue
		}
		out[name] = c.text
		queue = append(queue, c.refs...)
	}
	return out
}
