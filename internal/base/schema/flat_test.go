package schema_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/schema"
)

// TestFlat makes schemas for models of all forms of alternatives.
func TestFlat(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"nothing to do": {`{"type":"object","properties":{"a":{}},"required":["a"]}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`},
		"no type":       {`{}`, `{"type":"object"}`},
		"not a schema":  {`5`, `{"type":"object"}`},
		"only alternatives": {`{"anyOf":[{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"description":"Needs the arguments of one of these: \"a\"; or \"b\"."}`},
		"what all require": {`{"description":"D","properties":{"c":{}},"required":["c"],"oneOf":[{"properties":{"k":{"const":"x"},"a":{}},"required":["k","a"]},{"properties":{"k":{"const":"y"},"b":{}},"required":["k"]}]}`,
			`{"type":"object","description":"D\nNeeds the arguments of one of these: \"a\", \"k\"; or \"k\", and optionally \"b\".","properties":{"a":{},"b":{},"c":{},"k":{"anyOf":[{"const":"x"},{"const":"y"}]}},"required":["c","k"]}`},
		"at least one": {`{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{},"b":{}},"description":"Needs the arguments of one of these: \"a\"; or \"b\"."}`},
		"all of them": {`{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}}},{"required":["b"]}]}`, `{"type":"object","properties":{"a":{},"b":{}},"required":["a","b"]}`},
		"conditions":  {`{"properties":{"a":{}},"if":{"required":["a"]},"then":{"properties":{"b":{}},"required":["b"]},"else":{"properties":{"c":{}}}}`, `{"type":"object","properties":{"a":{},"b":{},"c":{}}}`},
		"the same argument": {`{"anyOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"a":{"type":"string"}}}]}`,
			`{"type":"object","properties":{"a":{"type":"string"}},"description":"Needs the arguments of one of these: optionally \"a\"; or optionally \"a\"."}`},
		"references":       {`{"$defs":{"x":{"properties":{"a":{}},"required":["a"]}},"allOf":[{"$ref":"#/$defs/x"}]}`, `{"$defs":{"x":{"properties":{"a":{}},"required":["a"]}},"type":"object","properties":{"a":{}},"required":["a"]}`},
		"a reference":      {`{"$ref":"#/definitions/x","definitions":{"x":{"properties":{"a":{}},"required":["a"]}}}`, `{"definitions":{"x":{"properties":{"a":{}},"required":["a"]}},"type":"object","properties":{"a":{}},"required":["a"]}`},
		"a part unknown":   {`{"anyOf":[{"required":["a"]},true,{"$ref":"https://example.com"}],"properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}}}`},
		"one in another":   {`{"oneOf":[{"anyOf":[{"required":["a"]},{"required":["b"]}]}]}`, `{"type":"object"}`},
		"refused keywords": {`{"not":{"required":["z"]},"enum":[{}],"const":{},"properties":{"a":{"not":{}}}}`, `{"type":"object","properties":{"a":{"not":{}}}}`},
	} {
		var got, want any
		out := schema.Flat(json.RawMessage(tt.src))
		if json.Unmarshal(out, &got) != nil || json.Unmarshal([]byte(tt.want), &want) != nil {
			t.Fatalf("%s: %s is not JSON", name, out)
		}
		if name == "one in another" {
			if m, _ := got.(map[string]any); m["anyOf"] != nil || m["oneOf"] != nil {
				t.Errorf("%s: %s", name, out)
			}
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %s\nwant %s", name, out, tt.want)
		}
	}
}

// A stranger's schema that names itself or is very wide takes a bounded time and size.
func TestFlatIsBounded(t *testing.T) {
	for _, src := range []string{
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}}`,
		`{"anyOf":[` + strings.Repeat(`{"required":["`+strings.Repeat("n", 1000)+`"]},`, 5000) + `{}]}`,
	} {
		if out := schema.Flat(json.RawMessage(src)); len(out) > 5000 {
			t.Errorf("%.60s became %d bytes", src, len(out))
		}
	}
}
