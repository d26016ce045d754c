package schema_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// The required tests of the JSON Schema test suite that need no other document.
func TestSuite(t *testing.T) {
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
	done := 0
	for lines.Scan() {
		var group struct {
			Draft       string
			Description string
			Optional    bool
			NeedsRemote bool `json:"needs_remote"`
			Schema      json.RawMessage
			Tests       []struct {
				Description string
				Data        json.RawMessage
				Valid       bool
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &group); err != nil {
			t.Fatal(err)
		}
		if group.Optional || group.NeedsRemote || group.Draft != "draft2020-12" {
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
	if done < 100 {
		t.Errorf("only %d cases were found", done)
	}
}
