// Package analyze holds the built-in tool analyze.schema, which infers the JSON Schema of a
// JSON text. It only computes. Start at [Tools] and [Schema].
package analyze

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// ID is the tool's ID.
const ID = tool.ID("analyze.schema")

// maxText bounds the text, in bytes.
const maxText = 4 << 20

type arguments struct {
	Text string `json:"text"`
}

// Tools returns the tool.
func Tools() []permit.Tool {
	return []permit.Tool{typed.Func(tool.Spec{
		ID: ID, Title: "Infer a JSON Schema", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Infers a JSON Schema (2020-12) from a JSON text. Properties that every element of a list has are required.",
		Input: []byte(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false, "required": ["text"],
			"properties": {"text": {"type": "string", "minLength": 1, "maxLength": 4194304}}}`),
		Output: []byte(`{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "additionalProperties": false, "required": ["schema"], "properties": {"schema": {"type": "object"}}}`),
	}, run)}
}

func run(_ context.Context, _ permit.Permit, a arguments) (map[string]any, error) {
	if len(a.Text) > maxText {
		return nil, fault.New(fault.ArgsInvalid, "the text has %d bytes; the limit is %d", len(a.Text), maxText).In("text")
	}
	v, err := canon.Decode([]byte(strings.TrimSpace(a.Text)))
	if err != nil {
		return nil, fault.New(fault.ArgsInvalid, "the text is not JSON: %v", err).In("text")
	}
	return map[string]any{"schema": Schema(v)}, nil
}

// shape describes the values seen in one place.
type shape struct {
	types      map[string]bool
	properties map[string]*shape
	objects    int            // how many were seen,
	seen       map[string]int // and how many of them had each property
	items      *shape         // of lists
	more       bool           // it has more properties than are told apart
}

// maxProperties bounds the properties that are told apart in one place: an object
// with more is a map whose keys are data.
const maxProperties = 200

// Schema describes a value as decoded from JSON.
func Schema(v any) map[string]any {
	s := &shape{}
	s.see(v)
	out := s.schema()
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	return out
}

func (s *shape) see(v any) {
	if s.types == nil {
		s.types = map[string]bool{}
	}
	switch v := v.(type) {
	case nil:
		s.types["null"] = true
	case bool:
		s.types["boolean"] = true
	case string:
		s.types["string"] = true
	case json.Number:
		s.types[kindOf(v)] = true
	case []any:
		s.types["array"] = true
		for _, item := range v {
			if s.items == nil {
				s.items = &shape{}
			}
			s.items.see(item)
		}
	case map[string]any:
		s.object(v)
	default:
		s.types[fmt.Sprintf("%T", v)] = true
	}
}

func kindOf(n json.Number) string {
	if strings.ContainsAny(n.String(), ".eE") {
		return "number"
	}
	return "integer"
}

func (s *shape) object(v map[string]any) {
	s.types["object"] = true
	if s.properties == nil {
		s.properties, s.seen = map[string]*shape{}, map[string]int{}
	}
	s.objects++
	names := make([]string, 0, len(v))
	for name := range v {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		p := s.properties[name]
		if p == nil && len(s.properties) >= maxProperties {
			s.more = true
			continue
		}
		if p == nil {
			p = &shape{}
			s.properties[name] = p
		}
		p.see(v[name])
		s.seen[name]++
	}
}

func (s *shape) schema() map[string]any {
	out := map[string]any{}
	types := make([]any, 0, len(s.types))
	for _, t := range []string{"null", "boolean", "integer", "number", "string", "array", "object"} {
		if s.types[t] && (t != "integer" || !s.types["number"]) {
			types = append(types, t)
		}
	}
	switch len(types) {
	case 0:
	case 1:
		out["type"] = types[0]
	default:
		out["type"] = types
	}
	if s.items != nil {
		out["items"] = s.items.schema()
	}
	if s.types["object"] {
		s.members(out)
	}
	return out
}

// members adds the properties of objects.
func (s *shape) members(out map[string]any) {
	names := make([]string, 0, len(s.properties))
	properties := make(map[string]any, len(s.properties))
	for name, p := range s.properties {
		properties[name] = p.schema()
		if s.seen[name] == s.objects {
			names = append(names, name)
		}
	}
	out["properties"] = properties
	if slices.Sort(names); len(names) > 0 && !s.more {
		required := make([]any, len(names))
		for i, name := range names {
			required[i] = name
		}
		out["required"] = required
	}
}
