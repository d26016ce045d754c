package analyze_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/builtin/analyze"
)

func live(t *testing.T) permit.Permit {
	return permittest.World{Policy: "version: 1\nname: test\n"}.Permit(t)
}

func TestSchemas(t *testing.T) {
	for text, want := range map[string]string{
		`1`:                              `{"type":"integer"}`,
		`1.0`:                            `{"type":"number"}`,
		`[]`:                             `{"type":"array"}`,
		`[1, 2.5]`:                       `{"items":{"type":"number"},"type":"array"}`,
		`[1, "a", null]`:                 `{"items":{"type":["null","integer","string"]},"type":"array"}`,
		`{}`:                             `{"properties":{},"type":"object"}`,
		`{"b": true, "a": {"c": []}}`:    `{"properties":{"a":{"properties":{"c":{"type":"array"}},"required":["c"],"type":"object"},"b":{"type":"boolean"}},"required":["a","b"],"type":"object"}`,
		`[{"a": 1}, {"a": 2, "b": "x"}]`: `{"items":{"properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["a"],"type":"object"},"type":"array"}`,
	} {
		res, err := permittest.Run(t.Context(), analyze.Tools()[0], live(t), tool.Args{"text": text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		schema, _ := res.Output["schema"].(map[string]any)
		delete(schema, "$schema")
		b, err := canon.Marshal(schema)
		if err != nil || string(b) != want {
			t.Errorf("%s:\n got %s\nwant %s", text, b, want)
		}
	}
	for _, text := range []string{"", "x", `{"a":1,"a":2}`, "1 2", "\xff", strings.Repeat("[", 5000)} {
		if _, err := permittest.Run(t.Context(), analyze.Tools()[0], live(t), tool.Args{"text": text}); !errors.Is(err, fault.ArgsInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A text fits the schema that was made of it.
func TestATextFitsItsSchema(t *testing.T) {
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			kinds := 4
			if depth > 0 {
				kinds = 6
			}
			switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
			case 0:
				return nil
			case 1:
				return rapid.Bool().Draw(t, "bool")
			case 2:
				return json.Number(rapid.SampledFrom([]string{"0", "-1", "1.5", "1e3", "123456789012345678901234567890"}).Draw(t, "number"))
			case 3:
				return rapid.StringN(0, 5, 20).Draw(t, "string")
			case 4:
				return rapid.SliceOfN(value(depth-1), 0, 4).Draw(t, "list")
			}
			return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), value(depth-1), 0, 4).Draw(t, "object")
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		b, err := canon.Marshal(value(3).Draw(t, "value"))
		if err != nil {
			t.Skip("no JSON")
		}
		v, err := canon.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		text, err := canon.Marshal(analyze.Schema(v))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("s.json", doc); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile("s.json")
		if err != nil {
			t.Fatal(err)
		}
		inst, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(inst); err != nil {
			t.Fatalf("%s does not fit %s: %v", b, text, err)
		}
	})
}

func TestObjectsThatAreMaps(t *testing.T) {
	m := map[string]any{}
	for i := range 1000 {
		m[strings.Repeat("k", i+1)] = json.Number("1")
	}
	s := analyze.Schema(m)
	if p, _ := s["properties"].(map[string]any); len(p) > 200 || s["required"] != nil {
		t.Errorf("%d properties, %v", len(p), s["required"])
	}
}

func TestConformance(t *testing.T) {
	permittest.Tool(t, analyze.Tools()[0], permittest.World{Policy: "version: 1\nname: test\n"}, tool.Args{"text": `{"a": [1, null]}`})
}
