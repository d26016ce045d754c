package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
)

// Keywords that the interfaces of models refuse at the root of a tool's schema.
var alternatives = []string{"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "enum", "const"}

// Bounds of the parts that Flat looks into.
const (
	maxFlatDepth = 8
	maxFlatParts = 200
	maxFlatText  = 2000 // bytes of its description
)

// Flat returns a schema for models: an object without alternatives at its root, which the interfaces
// of models refuse. It has the properties of all parts and requires what each alternative requires. Its
// description says which arguments belong together. It admits more than src: arguments are checked against src.
func Flat(src json.RawMessage) json.RawMessage {
	const anything = `{"type":"object"}`
	var plain map[string]json.RawMessage
	if json.Unmarshal(src, &plain) != nil || plain == nil {
		return json.RawMessage(anything)
	}
	if !slices.ContainsFunc(append(alternatives, "$ref"), func(key string) bool { _, there := plain[key]; return there }) {
		if string(plain["type"]) == `"object"` {
			return src
		}
		plain["type"] = json.RawMessage(`"object"`)
		out, err := json.Marshal(plain)
		if err != nil {
			return json.RawMessage(anything)
		}
		return out
	}
	doc, err := Decode(src)
	root, ok := doc.(map[string]any)
	if err != nil || !ok {
		return json.RawMessage(anything)
	}
	return flat(root)
}

func flat(root map[string]any) json.RawMessage {
	f := flattener{root: root, properties: map[string]any{}}
	required, notes := f.part(root, 0)
	for _, key := range alternatives {
		delete(root, key)
	}
	if _, isText := root["$ref"].(string); isText {
		delete(root, "$ref") // its properties are there
	}
	root["type"] = "object"
	if len(f.properties) > 0 {
		root["properties"] = f.properties
	}
	if len(required) > 0 {
		root["required"] = required
	}
	if len(notes) > 0 {
		said, _ := root["description"].(string)
		root["description"] = clip.Text(strings.TrimSpace(said+"\n"+strings.Join(notes, " ")), max(maxFlatText, len(said)))
	}
	out, err := json.Marshal(root)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return out
}

// flattener collects the properties of the parts of a schema that hold at its root.
type flattener struct {
	root       map[string]any
	properties map[string]any
	parts      int
}

// part adds a part. It returns the arguments that the part requires, and its alternatives in words.
func (f *flattener) part(m map[string]any, depth int) (required, notes []string) {
	if f.parts++; depth > maxFlatDepth || f.parts > maxFlatParts {
		return nil, nil
	}
	properties, _ := m["properties"].(map[string]any)
	for name, p := range properties {
		f.property(name, p)
	}
	list, _ := m["required"].([]any)
	for _, one := range list {
		if name, ok := one.(string); ok {
			required = append(required, name)
		}
	}
	for _, below := range append(f.list(m["allOf"]), f.list([]any{map[string]any{"$ref": m["$ref"]}})...) {
		more, said := f.part(below, depth+1)
		required, notes = append(required, more...), append(notes, said...)
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		parts := f.list(m[key])
		common, said := f.choice(parts, depth)
		if all, _ := m[key].([]any); len(parts) < len(all) {
			common = nil // the others may require nothing
		}
		required, notes = append(required, common...), append(notes, said...)
	}
	for _, below := range f.list([]any{m["then"], m["else"]}) {
		_, _ = f.part(below, depth+1)
	}
	slices.Sort(required)
	return slices.Compact(required), notes
}

// choice adds parts of which one holds, and returns what all of them require.
func (f *flattener) choice(parts []map[string]any, depth int) (common, notes []string) {
	var words []string
	for i, below := range parts {
		required, said := f.part(below, depth+1)
		if i == 0 {
			common = required
		}
		common = slices.DeleteFunc(slices.Clone(common), func(name string) bool { return !slices.Contains(required, name) })
		names, _ := below["properties"].(map[string]any)
		if words = append(words, nameList(required, names)); len(said) > 0 {
			words[i] += " (" + strings.Join(said, " ") + ")"
		}
	}
	if len(words) > 1 {
		notes = []string{"Needs the arguments of one of these: " + strings.Join(words, "; or ") + "."}
	}
	return common, notes
}

// nameList names the arguments of an alternative.
func nameList(required []string, properties map[string]any) string {
	var out []string
	for _, name := range required {
		out = append(out, fmt.Sprintf("%q", name))
	}
	var free []string
	for name := range properties {
		if !slices.Contains(required, name) {
			free = append(free, fmt.Sprintf("%q", name))
		}
	}
	slices.Sort(free)
	switch {
	case len(out)+len(free) == 0:
		return "no others"
	case len(free) == 0:
		return strings.Join(out, ", ")
	case len(out) == 0:
		return "optionally " + strings.Join(free, ", ")
	}
	return strings.Join(out, ", ") + ", and optionally " + strings.Join(free, ", ")
}

// property adds an argument. Different schemas of one name are alternatives.
func (f *flattener) property(name string, p any) {
	was, there := f.properties[name]
	if !there {
		f.properties[name] = p
		return
	}
	all := []any{was}
	if m, ok := was.(map[string]any); ok && len(m) == 1 {
		if list, ok := m["anyOf"].([]any); ok {
			all = list
		}
	}
	if !holds(all, p) && len(all) < maxFlatParts {
		f.properties[name] = map[string]any{"anyOf": append(slices.Clone(all), p)}
	}
}

// list returns the schemas of a list that are objects. A reference within the document gives its target.
func (f *flattener) list(v any) []map[string]any {
	list, _ := v.([]any)
	var out []map[string]any
	for _, one := range list {
		m, ok := one.(map[string]any)
		if ref, isRef := m["$ref"].(string); isRef {
			if pointer, local := strings.CutPrefix(ref, "#/"); local {
				m, ok = f.at(pointer)
			} else {
				ok = false
			}
		} else if _, there := m["$ref"]; there {
			ok = false
		}
		if ok {
			out = append(out, m)
		}
	}
	return out
}

// at follows a JSON pointer through objects.
func (f *flattener) at(pointer string) (map[string]any, bool) {
	m := f.root
	for _, part := range strings.Split(pointer, "/") {
		below, ok := m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)].(map[string]any)
		if !ok {
			return nil, false
		}
		m = below
	}
	return m, true
}
