package wasm_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
)

func TestParseManifest(t *testing.T) {
	m, err := wasm.ParseManifest("m.yaml", []byte(`{"version": 1, "release": "2", "memory": "8MiB", "timeout": "5s",
		"wants": {"env": ["LANG"]}, "tools": [
		{"function": "a", "description": "d", "input": {"type": "object"}},
		{"function": "b", "title": "B", "description": "d", "risk": "high", "memory": "512KiB", "timeout": "1m",
		 "input": {"type": "object", "properties": {"path": {"type": "string", "minimum": 1.5}}}, "output": {"type": "object"},
		 "wants": {"files": {"read": [".", {"argument": "path"}], "write": ["out/"]}, "clock": true, "random": true}}]}`))
	must(t, err)
	want := []wasm.Function{
		{Name: "a", Title: "a", Description: "d", Input: []byte(`{"type":"object"}`), Memory: 8 << 20, Timeout: 5 * time.Second, Wants: wasm.Wants{Env: []string{"LANG"}}},
		{Name: "b", Title: "B", Description: "d", Input: []byte(`{"properties":{"path":{"minimum":1.5,"type":"string"}},"type":"object"}`), Output: []byte(`{"type":"object"}`),
			Risk: tool.High, Memory: 512 << 10, Timeout: time.Minute, Wants: wasm.Wants{
				Read: []wasm.Place{{Folder: "."}, {Argument: "path"}}, Write: []wasm.Place{{Folder: "out"}}, Clock: true, Random: true}},
	}
	if !reflect.DeepEqual(m.Functions, want) || m.Release != "2" || m.Digest.IsZero() {
		t.Errorf("got %+v", m)
	}
	const version = "2, module sha256:0000000000000000000000000000000000000000000000000000000000000000, memory 512KiB, timeout 1m0s, " +
		"reads ., reads argument path, writes out, clock, random"
	if got := m.Version(&m.Functions[1], tool.Digest{}); got != version {
		t.Errorf("version %q", got)
	}
	if got := m.Functions[1].Wants.Effects(); got != tool.EffectSet(tool.FSRead, tool.FSWrite, tool.FSDelete) {
		t.Errorf("effects %v", got)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	const tools = "version: 1\ntools:\n- function: f\n  description: d\n  input: {type: object}\n"
	for name, tc := range map[string]struct{ src, want string }{
		"nothing":                    {"", "the manifest is empty"},
		"a list":                     {"[]", "must be a mapping"},
		"no YAML":                    {"a: [", "not valid YAML"},
		"no text":                    {"\x00", "NUL byte"},
		"too long":                   {strings.Repeat("# \n", 400_000), "the maximum is 1048576"},
		"no version":                 {"tools: [{function: f, description: d, input: {type: object}}]", "the required key \"version\" is missing"},
		"another version":            {"version: 2", "this Remit reads version 1"},
		"no tools":                   {"version: 1\n", "has no tools"},
		"an empty list":              {"version: 1\ntools: []\n", "has no tools"},
		"a key twice":                {"version: 1\nversion: 1\n", "version"},
		"an unknown key":             {tools + "network: true\n", `m.yaml:6:1: network: unknown key "network"`},
		"a network":                  {tools + "  wants: {network: [\"*\"]}\n", `tools[0].wants.network: unknown key "network"`},
		"a function twice":           {tools + "- function: f\n  description: d\n  input: {type: object}\n", `another tool has the function "f"`},
		"no function":                {"version: 1\ntools: [{description: d, input: {type: object}}]", "does not say which function"},
		"a name with a colon":        {"version: 1\ntools: [{function: \"a:b\", description: d, input: {type: object}}]", `"a:b" is not a valid function name`},
		"no description":             {"version: 1\ntools: [{function: f, input: {type: object}}]", "has no description"},
		"no schema":                  {"version: 1\ntools: [{function: f, description: d}]", "has no input schema"},
		"a schema of text":           {"version: 1\ntools: [{function: f, description: d, input: {type: string}}]", "not of type object"},
		"a schema that is none":      {"version: 1\ntools: [{function: f, description: d, input: {type: 7}}]", "is not a valid JSON Schema"},
		"a schema from elsewhere":    {"version: 1\ntools: [{function: f, description: d, input: {type: object, $ref: \"https://x.example/s\"}}]", "is not a valid JSON Schema"},
		"an absolute folder":         {tools + "  wants: {files: {read: [/etc]}}\n", `"/etc" is not relative`},
		"a home folder":              {tools + "  wants: {files: {read: [~/x]}}\n", "is not relative"},
		"a way out":                  {tools + "  wants: {files: {read: [a/../../b]}}\n", "leads out of the workspace"},
		"a folder in two spellings":  {tools + "  wants: {files: {read: [./a]}}\n", `is written "a"`},
		"an empty folder":            {tools + "  wants: {files: {read: [\"\"]}}\n", "the folder is empty"},
		"an argument that is not":    {tools + "  wants: {files: {read: [{argument: p}]}}\n", `wants names the argument "p", which its input schema does not have`},
		"a variable with =":          {tools + "  wants: {env: [\"A=b\"]}\n", "not a valid variable name"},
		"a clock of text":            {tools + "  wants: {clock: \"yes\"}\n", "must be true or false"},
		"too much memory":            {tools + "memory: 2GiB\n", "between 64KiB and 1GiB"},
		"memory that is no size":     {tools + "memory: lots\n", "is not a valid size"},
		"memory as a number":         {tools + "memory: 64\n", "must be a string"},
		"a time that is too long":    {tools + "timeout: 1h\n", "not between 1ms and 5m"},
		"a risk that is none":        {tools + "  risk: none\n", "not low, medium, high or critical"},
		"an alias":                   {"version: 1\ntools: [{function: f, description: d, input: &a {type: object, x: *a}}]", "alias"},
		"a schema that is too deep":  {"version: 1\ntools: [{function: f, description: d, input: " + strings.Repeat("{a: ", 200) + "1" + strings.Repeat("}", 200) + "}]", ""},
		"a number that JSON has not": {"version: 1\ntools: [{function: f, description: d, input: {type: object, x: .nan}}]", "is not a number that JSON can hold"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := wasm.ParseManifest("m.yaml", []byte(tc.src))
			if m != nil || !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %+v, %v, want %q", m, err, tc.want)
			}
		})
	}
}

// FuzzParseManifest: what is accepted stays within the bounds, wants nothing outside
// of the workspace, and is read alike again.
func FuzzParseManifest(f *testing.F) {
	f.Add("version: 1\ntools:\n- {function: f, description: d, input: {type: object, properties: {p: {}}}, wants: {files: {read: [a/b, {argument: p}], write: [.]}, env: [A]}}\n")
	f.Add(`{"version": 1, "memory": "1MiB", "tools": [{"function": "f", "description": "d", "input": {"type": "object"}}]}`)
	f.Fuzz(func(t *testing.T, src string) {
		m, err := wasm.ParseManifest("m", []byte(src))
		if err != nil {
			if m != nil || !errors.Is(err, fault.Usage) {
				t.Fatalf("%v with %v", m, err)
			}
			return
		}
		again, err := wasm.ParseManifest("m", []byte(src))
		if err != nil || !reflect.DeepEqual(m, again) {
			t.Fatalf("read as %+v, then %+v (%v)", m, again, err)
		}
		for _, fn := range m.Functions {
			if _, err := tool.ParseID("wasm:m:" + fn.Name); err != nil || fn.Memory < 64<<10 || fn.Memory > wasm.MaxMemory || fn.Timeout <= 0 || fn.Timeout > wasm.MaxTimeout {
				t.Fatalf("%+v, %v", fn, err)
			}
			for _, p := range append(fn.Wants.Read, fn.Wants.Write...) {
				if p.Argument == "" && (p.Folder == "" || strings.HasPrefix(p.Folder, "/") || p.Folder == ".." || strings.HasPrefix(p.Folder, "../")) {
					t.Fatalf("the folder %q", p.Folder)
				}
			}
		}
	})
}
