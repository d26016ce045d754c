package custom_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/custom"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const whole = `id: docs_writer
name: Docs Writer
description: Writes the documentation of a project.
version: 1.0
icon: book
category: Writing
status: available
requires: [session_file_system]
wants: ["files.read docs/**"]
prompt: |
  Write plainly.
  Always read first.
tools:
  - tool: fs.read
    name: read_doc
    defaults: {path: docs/index.md, max_bytes: 1000, deep: {list: [1, 2.5, true, null, "x"]}}
  - {tool: "mcp:git:log", name: git_log}
`

func match(pattern string) []tool.ID {
	switch pattern {
	case "fs.read", "mcp:git:log":
		return []tool.ID{tool.ID(pattern)}
	}
	return nil
}

func TestParse(t *testing.T) {
	c, err := custom.Parse("docs.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := capability.Info{ID: "docs_writer", Name: "Docs Writer", Description: "Writes the documentation of a project.", Version: "1.0", Icon: "book",
		Category: "Writing", Status: capability.Available, Requires: []string{"session_file_system"}, Wants: []string{"files.read docs/**"}}
	if got := c.Info(); !reflect.DeepEqual(got, want) || c.File() != "docs.yaml" {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	part, err := c.Part(capability.Session{Match: match}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tools := []capability.Offer{
		{Name: "read_doc", ID: "fs.read", Defaults: tool.Args{"path": "docs/index.md", "max_bytes": json.Number("1000"),
			"deep": map[string]any{"list": []any{json.Number("1"), json.Number("2.5"), true, nil, "x"}}}},
		{Name: "git_log", ID: "mcp:git:log"},
	}
	if part.Prompt != "Write plainly.\nAlways read first.\n" || !reflect.DeepEqual(part.Tools, tools) {
		t.Errorf("got %q and %+v", part.Prompt, part.Tools)
	}
}

func TestConformance(t *testing.T) {
	c, err := custom.Parse("docs.yaml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	capabilitytest.Capability(t, c, capabilitytest.Case{Session: func() capability.Session { return capability.Session{Match: match} }})
}

func TestDefaults(t *testing.T) {
	c, err := custom.Parse("x.yaml", []byte("id: a\nname: A\ndescription: d\nversion: 1\ntools: [{tool: fs.read, name: r, defaults: {path: x}}]"))
	if err != nil {
		t.Fatal(err)
	}
	if i := c.Info(); i.Icon != "puzzle" || i.Category != "Custom" || i.Status != capability.Available || !reflect.DeepEqual(i.Wants, []string{"tools fs.read"}) {
		t.Errorf("got %+v", i)
	}
}

const head = "id: a\nname: A\ndescription: d\nversion: '1'\n"

func TestBadFiles(t *testing.T) {
	for name, tt := range map[string]struct{ src, want string }{
		"nothing":                  {"", "x.yaml:1:1: "},
		"not YAML":                 {"id: [", "not valid YAML"},
		"a list":                   {"- a", "x.yaml:1:1: must be a mapping"},
		"unknown key":              {head + "promt: x\nprompt: y", `x.yaml:5:1: promt: unknown key "promt" (did you mean "prompt"?)`},
		"twice":                    {head + "name: B\nprompt: y", `x.yaml:5:1: name: the key "name" is given twice, first on line 2`},
		"missing":                  {"id: a\nprompt: y", "x.yaml:1:1: name: the required key"},
		"adds nothing":             {head, "the capability is empty"},
		"wrong type":               {head + "prompt: 5", "x.yaml:5:9: prompt: must be a string, not 5 (put it in quotes)"},
		"no ID":                    {strings.Replace(head, "id: a", "id: A-b", 1) + "prompt: y", `x.yaml:1:5: id: "A-b" is not a valid ID`},
		"status":                   {head + "prompt: y\nstatus: soon", "x.yaml:6:9: status: must be available"},
		"an anchor":                {head + "prompt: &a y", "x.yaml:5:9: prompt: anchors and aliases are not allowed"},
		"a tag":                    {head + "prompt: !!str y", `x.yaml:5:9: prompt: the tag "!!str" is not allowed`},
		"a second document":        {head + "prompt: y\n---\nid: b\n", "a second document begins here"},
		"a hidden character":       {head + "prompt: \"a\u200bb\"", "x.yaml:5:9: prompt: contains the invisible character"},
		"a tool without a name":    {head + "tools: [{tool: fs.read}]", "x.yaml:5:9: tools[0].name: the required key"},
		"no tool's ID":             {head + "tools: [{tool: 'fs read', name: x}]", "tools[0].tool: \"fs read\" is not a valid tool ID"},
		"a pattern for a tool":     {head + "tools: [{tool: 'fs.*', name: x}]", "tools[0].tool: "},
		"a name no model takes":    {head + "tools: [{tool: fs.read, name: 'a b'}]", "tools[0].name: \"a b\" is not a valid tool name"},
		"one name twice":           {head + "tools: [{tool: fs.read, name: a}, {tool: fs.list, name: a}]", `tools[1].name: two tools have the name "a"`},
		"defaults that are a list": {head + "tools: [{tool: fs.read, name: a, defaults: [1]}]", "tools[0].defaults: must be a mapping"},
		"defaults beyond JSON":     {head + "tools: [{tool: fs.read, name: a, defaults: {x: .inf}}]", "tools[0].defaults.x: .inf is not a number that JSON can hold"},
		"large":                    {head + "prompt: " + strings.Repeat("x", 17<<10), "prompt: has 17408 bytes; the maximum is 16384"},
		"too large":                {strings.Repeat("#", 65<<10), "the capability has 66560 bytes"},
		"deep":                     {head + "prompt: y\ntools: " + strings.Repeat("[", 20) + strings.Repeat("]", 20), "nested more than"},
		"not UTF-8":                {head + "prompt: \xff", "not UTF-8"},
		"requires twice":           {head + "requires: [b, b]", `requires[1]: "b" is listed twice`},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := custom.Parse("x.yaml", []byte(tt.src))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, %v; want %q", c, err, tt.want)
			}
			if !errors.Is(err, fault.CapabilityInvalid) {
				t.Errorf("the code is %v", fault.CodeOf(err))
			}
		})
	}
}

func TestATheCatalogDoesNotHave(t *testing.T) {
	c, err := custom.Parse("x.yaml", []byte(head+"tools: [{tool: fs.reed, name: r}]"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Part(capability.Session{Match: match}, nil); fault.CodeOf(err) != fault.CapabilityInvalid || !strings.Contains(err.Error(), `x.yaml:5:9: the tool "fs.reed" is unknown`) {
		t.Errorf("got %v", err)
	}
}

func TestIDOf(t *testing.T) {
	for src, want := range map[string]string{"id: b\nfoo: 1": "b", "id: [": "a_file", "id: 'B!'": "a_file"} {
		if got := custom.IDOf("/x/a_file.yaml", []byte(src)); got != want {
			t.Errorf("%q: %q, want %q", src, got, want)
		}
	}
	if got := custom.IDOf("/x/A File.yaml", nil); got != "" {
		t.Errorf("got %q", got)
	}
}

// compiled is the published schema.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(custom.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///s.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///s.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// FuzzParse: what is accepted fits the published schema, and comes out of it
// whole: a prompt within its bounds, names and IDs that are some.
func FuzzParse(f *testing.F) {
	s := compiled(f)
	for _, src := range []string{whole, head + "prompt: x", head + "requires: [a, b]", head + "tools: [{tool: fs.read, name: a, defaults: {a: 1e5}}]", "{id: a, name: b, description: c, version: 1, prompt: d}"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := custom.Parse("x.yaml", src)
		if err != nil {
			return
		}
		var v any
		if err := yaml.Unmarshal(src, &v); err != nil {
			t.Fatalf("accepted, and not YAML: %v", err)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return // a map whose keys are not all strings is not decoded so
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(doc); err != nil {
			t.Fatalf("%s is accepted, and does not fit the schema: %v", src, err)
		}
		if !capability.ValidID(c.Info().ID) {
			t.Fatalf("the ID is %q", c.Info().ID)
		}
		part, err := c.Part(capability.Session{}, nil)
		if err != nil || len(part.Prompt) > 16<<10 {
			t.Fatalf("%v, %d bytes", err, len(part.Prompt))
		}
		for _, o := range part.Tools {
			if !capability.ValidName(o.Name) {
				t.Fatalf("a tool is called %q", o.Name)
			}
		}
	})
}
