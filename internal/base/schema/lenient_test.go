package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/schema"
)

func compileUsable(t *testing.T, src string) *schema.Schema {
	t.Helper()
	s, err := schema.CompileUsable("x", []byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return s
}

func decoded(t *testing.T, src string) any {
	t.Helper()
	v, err := schema.Decode([]byte(src))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// unusable are keywords that cannot be used, each beside keywords of the same schema that can.
var unusable = []string{
	`"pattern": "^(?!x).*"`, `"pattern": "(?<=a)b"`, `"pattern": "\\u00e9"`, `"pattern": "("`, `"pattern": 5`, `"pattern": null`,
	`"properties": null`, `"properties": []`, `"properties": {"a": null}`, `"properties": {"a": 5}`,
	`"required": null`, `"required": true`, `"required": "a"`, `"required": [5]`,
	`"exclusiveMinimum": true`, `"exclusiveMaximum": false`, `"minimum": "1"`, `"maximum": null`, `"multipleOf": 0`, `"minLength": -1`, `"maxLength": null`,
	`"enum": null`, `"enum": "a"`, `"items": null`, `"items": [{}]`, `"items": 5`, `"allOf": null`, `"anyOf": []`, `"oneOf": {}`, `"not": null`, `"not": 5`,
	`"$ref": null`, `"$ref": 5`, `"$ref": "#/$defs/none"`, `"$ref": "#none"`, `"$ref": "https://example.com/s.json"`, `"$ref": "file:///etc/passwd"`, `"$ref": "x.json#/a"`,
	`"patternProperties": {"^(?!x)": {"type": "string"}}`, `"patternProperties": null`, `"additionalProperties": null`, `"dependentRequired": {"a": 5}`,
	`"title": 5`, `"description": null`, `"format": 5`, `"$schema": null`, `"$id": null`, `"type": null`, `"type": "any"`, `"type": ["string", "file"]`,
}

// A keyword that cannot be used costs no schema, wherever it is, and all values pass it.
func TestUnusableKeywordsAreLeftOut(t *testing.T) {
	values := []string{`{}`, `{"a": 1}`, `{"a": "x"}`, `"x"`, `5`, `-1`, `[]`, `[1, {"a": null}]`, `null`, `true`}
	around := []string{
		`%s`, `{"allOf": [%s]}`, `{"anyOf": [%s]}`, `{"not": {"not": %s}}`, `{"if": %s, "then": true, "else": true}`, `{"if": true, "then": %s}`,
		`{"$defs": {"d": %s}, "$ref": "#/$defs/d"}`, `{"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"d": %s}, "$ref": "#/definitions/d"}`,
	}
	for _, keyword := range unusable {
		for _, form := range around {
			src := fmt.Sprintf(form, "{"+keyword+"}")
			s := compileUsable(t, src)
			for _, v := range values {
				if err := s.Validate(decoded(t, v)); err != nil {
					t.Errorf("%s refuses %s: %v", src, v, err)
				}
			}
		}
	}
}

// The keywords beside one that cannot be used are checked.
func TestUsableKeywordsAreChecked(t *testing.T) {
	for _, keyword := range unusable {
		if strings.Contains(keyword, `"type"`) && !strings.Contains(keyword, "patternProperties") {
			continue // a key is not there twice
		}
		s := compileUsable(t, `{"properties": {"p": {"type": "string", `+keyword+`}, "q": {"type": "integer"}}, "required": ["q"]}`)
		for _, wrong := range []string{`{"q": "x"}`, `{}`, `{"p": 5, "q": 1}`} {
			if s.Validate(decoded(t, wrong)) == nil {
				t.Errorf("beside %s, %s passes", keyword, wrong)
			}
		}
	}
}

// A part without one of its keywords is looser. What was built on it does not become stricter.
func TestLooserPartsRefuseNothing(t *testing.T) {
	const part = `{"type": "string", "pattern": "^(?!x)"}`
	for src, value := range map[string]string{
		`{"not": ` + part + `}`: `"x"`,
		`{"oneOf": [` + part + `, {"type": "string", "maxLength": 3}]}`:                                                                              `"xy"`,
		`{"if": ` + part + `, "then": {"maxLength": 1}, "else": {"minLength": 1}}`:                                                                   `"xyz"`,
		`{"contains": ` + part + `, "maxContains": 1}`:                                                                                               `["a", "x"]`,
		`{"patternProperties": {"^(?!x)": {"type": "string"}}, "additionalProperties": false}`:                                                       `{"a": "b"}`,
		`{"$ref": "https://example.com/s.json", "unevaluatedProperties": false}`:                                                                     `{"a": 1}`,
		`{"allOf": [{"$ref": "#/$defs/no"}], "unevaluatedItems": false}`:                                                                             `[1]`,
		`{"properties": 5, "additionalProperties": false}`:                                                                                           `{"a": 1}`,
		`{"$defs": {"d": {"properties": {"n": {"$ref": "#/$defs/d"}, "p": ` + part + `}}}, "not": {"$ref": "#/$defs/d"}}`:                            `{"p": "x"}`,
		`{"$defs": {"d": {"$ref": "#/$defs/e", "$recursiveRef": "#", "$dynamicRef": "#/$defs/e"}, "e": ` + part + `}, "not": {"$ref": "#/$defs/d"}}`: `"x"`,
		`{"$dynamicRef": "#m", "$defs": {"m": {"$dynamicAnchor": "m", "not": ` + part + `}}}`:                                                        `"x"`,
	} {
		if err := compileUsable(t, src).Validate(decoded(t, value)); err != nil {
			t.Errorf("%s refuses %s: %v", src, value, err)
		}
	}
}

// A schema with nothing unusable means the same in both ways.
func TestUsableSchemasAreTheSame(t *testing.T) {
	for _, src := range []string{
		`{"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}}, "required": ["a"], "additionalProperties": false}`,
		`{"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "not": {"required": ["c"]}}`, `{"properties": {"a": {"const": null}}, "unevaluatedProperties": false}`,
	} {
		strict, err := schema.Compile("x", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{`{}`, `{"a": "a"}`, `{"a": "b"}`, `{"a": null}`, `{"a": "a", "b": 1}`, `{"b": 1, "c": 2}`} {
			if a, b := strict.Validate(decoded(t, v)), compileUsable(t, src).Validate(decoded(t, v)); (a == nil) != (b == nil) {
				t.Errorf("%s of %s: %v, and without unusable keywords %v", src, v, a, b)
			}
		}
	}
}

func TestUnusable(t *testing.T) {
	for src, want := range map[string]string{
		`{"type": "array"}`: "type: got array, want object", `{"type": ["string", "null"]}`: "type: ", `5`: "expected a schema", `null`: "expected a schema",
		`{"$schema": "https://example.com/own"}`: "$schema: ", `{"$schema": 5}`: "$schema: ", `{"properties": {"a": {"$schema": "x"}}}`: "$schema: ",
		`{"$id": 5}`: "$id: ", `{"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}`: "$id: ",
		strings.Repeat(`{"not":`, 201) + "{}" + strings.Repeat("}", 201): "nested more than 200",
	} {
		var doc any
		if err := json.Unmarshal([]byte(src), &doc); err != nil {
			t.Fatal(err)
		}
		if err := schema.Unusable(doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want %q", src, err, want)
		}
	}
	for _, src := range []string{
		`true`, `{}`, `{"type": "object"}`, `{"type": ["null", "object"]}`, `{"type": null}`, `{"type": "dict"}`, `{"type": []}`,
		`{"$schema": "https://json-schema.org/draft-07/schema#"}`, `{"$schema": "http://json-schema.org/draft/2020-12/schema"}`, `{"$ref": "#/no"}`,
	} {
		if err := schema.Unusable(decoded(t, src)); err != nil {
			t.Errorf("%s: %v", src, err)
		}
		compileUsable(t, src)
	}
}
