package schema_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/schema"
)

func TestCompileRefuses(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"not JSON":         {"{", "not valid JSON"},
		"an unknown type":  {`{"type": "strin"}`, "not valid"},
		"a remote schema":  {`{"$ref": "https://example.com/s.json"}`, "not valid"},
		"a file":           {`{"$ref": "file:///etc/passwd"}`, "not valid"},
		"a missing anchor": {`{"$ref": "#/$defs/x"}`, "not valid"},
		"too large":        {`{"title": "` + strings.Repeat("x", schema.MaxBytes) + `"}`, "the maximum is"},
		"too deep":         {strings.Repeat(`{"not":`, 201) + "{}" + strings.Repeat("}", 201), "more than 200 levels"},
	}
	for name, tt := range tests {
		if _, err := schema.Compile("x", []byte(tt.src)); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "schema of x") {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestEveryProblemIsListed(t *testing.T) {
	s, err := schema.Compile("x", []byte(`{"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"minimum": 3}}}, "required": ["c"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(map[string]any{"c": nil}); err != nil {
		t.Error(err)
	}
	err = s.Validate(map[string]any{"a": json.Number("5"), "b": []any{json.Number("2")}})
	var invalid *schema.Invalid
	if !errors.As(err, &invalid) || len(invalid.Problems) != 3 {
		t.Fatalf("got %v, want 3 problems", err)
	}
	for _, want := range []string{"a: got number, want string", "b.0: minimum: got 2, want 3", "missing property 'c'"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}

// An unknown property is named with the known one that was meant, at any depth.
func TestUnknownPropertiesAreNamed(t *testing.T) {
	s, err := schema.Compile("x", []byte(`{"additionalProperties": false, "properties": {
		"path": {}, "edits": {"items": {"additionalProperties": false, "properties": {"old": {}, "new": {}}}},
		"range": {"additionalProperties": false, "properties": {"first": {}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		value      map[string]any
		text, hint string
	}{
		"at the top":      {map[string]any{"pth": ""}, `unknown property "pth"`, `did you mean "path"?`},
		"in an object":    {map[string]any{"range": map[string]any{"frist": 1.0}}, `range: unknown property "frist"`, `did you mean "first"?`},
		"in a list":       {map[string]any{"edits": []any{map[string]any{"odl": ""}}}, `edits.0: unknown property "odl"`, `did you mean "old"?`},
		"nothing is near": {map[string]any{"quux": ""}, `unknown property "quux"`, ""},
		"two":             {map[string]any{"quux": "", "xyzzy": ""}, `unknown properties "quux", "xyzzy"`, ""},
	}
	for name, tt := range tests {
		err := s.Validate(tt.value)
		var invalid *schema.Invalid
		if !errors.As(err, &invalid) || len(invalid.Problems) != 1 {
			t.Errorf("%s: got %v, want one problem", name, err)
			continue
		}
		if err.Error() != tt.text || invalid.Problems[0].Hint != tt.hint {
			t.Errorf("%s: got %q with the hint %q, want %q with %q", name, err, invalid.Problems[0].Hint, tt.text, tt.hint)
		}
	}
}

// Keywords of the wrong form are refused, as a schema that is misread checks nothing.
func TestKeywordsOfTheWrongFormAreRefused(t *testing.T) {
	for _, src := range []string{
		`{"type": []}`, `{"type": 5}`, `{"type": ["string", "string"]}`, `{"enum": "a"}`, `{"minimum": "1"}`, `{"multipleOf": 0}`, `{"minLength": -1}`,
		`{"maxItems": 1.5}`, `{"pattern": "("}`, `{"pattern": 5}`, `{"required": "a"}`, `{"required": ["a", "a"]}`, `{"required": [5]}`,
		`{"properties": []}`, `{"properties": {"a": 5}}`, `{"items": [{}]}`, `{"allOf": {}}`, `{"anyOf": []}`, `{"not": 5}`, `{"uniqueItems": "yes"}`,
		`{"patternProperties": {"(": {}}}`, `{"dependentRequired": {"a": "b"}, "dependentSchemas": []}`, `{"$ref": 5}`, `{"$id": 5}`, `{"$id": "a#b"}`,
		`{"$schema": "https://example.com/own"}`, `{"$schema": 5}`, `{"title": 5}`, `{"description": ["x"]}`, `{"readOnly": 1}`, `5`, `"x"`,
		`{"$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}}`, `{"$defs": {"a": {"$id": "x"}, "b": {"$id": "x"}}}`,
		`{"$ref": "#/$defs"}` + "x", `{"$ref": "#/allOf/2", "allOf": [{}]}`, `{"$defs": {"a": {"type": "strin"}}, "$ref": "#/$defs/a"}`,
	} {
		if _, err := schema.Compile("x", []byte(src)); err == nil {
			t.Errorf("%s was accepted", src)
		}
	}
}

// A schema of a stranger takes a bounded time, and one that cannot be checked lets nothing
// pass.
func TestChecksAreBounded(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	doubling := `{"$defs": {"a0": {"type": "integer"}`
	for i := range 60 {
		doubling += fmt.Sprintf(`, "a%d": {"allOf": [{"$ref": "#/$defs/a%d"}, {"allOf": [{"$ref": "#/$defs/a%d"}]}]}`, i+1, i, i)
	}
	for name, src := range map[string]string{
		"work that doubles":   doubling + `}, "$ref": "#/$defs/a60"}`,
		"itself":              `{"$ref": "#"}`,
		"two of each other":   `{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}, true]}}, "$ref": "#/$defs/a"}`,
		"not itself":          `{"not": {"$ref": "#"}}`,
		"itself as condition": `{"if": {"$ref": "#"}, "then": true}`,
	} {
		s, err := schema.Compile("x", []byte(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var invalid *schema.Invalid
		if err := s.Validate(json.Number("1")); err == nil || errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want that the check is given up", name, err)
		}
	}
	s, err := schema.Compile("x", []byte(`{"minimum": 3, "type": "number"}`))
	if err != nil {
		t.Fatal(err)
	}
	if s.Validate(json.Number("1e999999999")) == nil {
		t.Error("a number that is too large to be compared was accepted")
	}
}

// suiteGroup is a schema of the JSON Schema test suite with its cases.
type suiteGroup struct {
	Draft, File, Description string
	Optional                 bool
	NeedsRemote              bool `json:"needs_remote"`
	Schema                   json.RawMessage
	Tests                    []struct {
		Description string
		Data        json.RawMessage
		Valid       bool
	}
}

// suite reads the JSON Schema test suite.
func suite(t *testing.T) []suiteGroup {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: the JSON Schema test suite is not read")
	}
	f, err := os.Open(filepath.Join(dir, "schema", "json_schema_tests.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	var out []suiteGroup
	for lines.Scan() {
		var g suiteGroup
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			t.Fatal(err)
		}
		if g.Draft == "draft7" {
			g.Schema = bytes.Replace(g.Schema, []byte("{"), []byte(`{"$schema": "http://json-schema.org/draft-07/schema#", `), 1)
			g.Schema = bytes.Replace(g.Schema, []byte(", }"), []byte("}"), 1)
		}
		out = append(out, g)
	}
	return out
}

// The required tests of drafts 7 and 2020-12 that need no other document.
func TestSuite(t *testing.T) {
	done := 0
	for _, group := range suite(t) {
		if group.Optional || group.NeedsRemote {
			continue
		}
		s, err := schema.Compile("suite", group.Schema)
		if err != nil {
			t.Errorf("%s: %v", group.Description, err)
			continue
		}
		for _, c := range group.Tests {
			v, err := schema.Decode(c.Data)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Validate(v); (err == nil) != c.Valid {
				t.Errorf("%s, %s: %v, want valid %v", group.Description, c.Description, err, c.Valid)
			}
			done++
		}
	}
	if done < 2000 {
		t.Errorf("only %d cases were found", done)
	}
}

// Where the suite leaves a choice, values are judged as an independent validator judges
// them. Schemas that refer to a draft's own schema are left out: that is another document.
func TestAgreesWithAnotherValidator(t *testing.T) {
	done := 0
	for _, group := range suite(t) {
		if strings.HasPrefix(group.File, "optional/format/") || bytes.Contains(group.Schema, []byte(`"$ref": "http`)) {
			continue
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(group.Schema))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		c.DefaultDraft(jsonschema.Draft2020)
		c.UseLoader(jsonschema.SchemeURLLoader{})
		if err := c.AddResource("remit:suite", doc); err != nil {
			t.Fatal(err)
		}
		other, otherErr := c.Compile("remit:suite")
		s, err := schema.Compile("suite", group.Schema)
		if (err == nil) != (otherErr == nil) {
			t.Errorf("%s %s, %s: got %v, the other %v", group.Draft, group.File, group.Description, err, otherErr)
		}
		if err != nil || otherErr != nil {
			continue
		}
		for _, one := range group.Tests {
			v, err := schema.Decode(one.Data)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := s.Validate(v), other.Validate(v); (got == nil) != (want == nil) {
				t.Errorf("%s %s, %s, %s: got %v, the other %v", group.Draft, group.File, group.Description, one.Description, got, want)
			}
			done++
		}
	}
	if done < 2000 {
		t.Errorf("only %d cases were compared", done)
	}
}
