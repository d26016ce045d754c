package plan_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/plan"
)

const full = `# every key
version: 1
name: full
description: all there is
inputs:
  dir: {type: string, required: true, pattern: "[a-z/]+"}
  n: {type: integer, default: 3, enum: [1, 2, 3]}
  opts: {type: object, default: {deep: [1, {a: b}]}}
max_parallel: 4
steps:
  - tool: fs.list
    id: list
    args: {path: "${{ inputs.dir }}"}
  - tool: fs.read
    id: read
    name: Read it
    needs: [list]
    if: steps.list.output.count > 0 && inputs.n != 2
    on_error: continue
    args:
      path: ${{ steps.list.output.entries[0].path }}
      text: "a $${{ b }} ${{ inputs.opts }} ${{ inputs.n }}"
      flags: [0x10, 0o17, +5, .5, 1.50, 1e3, ~, yes, 2001-12-14, ".nan", 12345678901234567890]
  - {tool: "mcp:mail:send", args: {body: "${{ steps.read.status }}"}, if: always()}
`

func mustParse(t testing.TB, src string) *plan.Plan {
	t.Helper()
	p, err := plan.Parse("p.yaml", []byte(src))
	if err != nil {
		t.Fatalf("%v\nin\n%s", err, src)
	}
	return p
}

func same(a, b *plan.Plan) string {
	return cmp.Diff(a, b, cmpopts.IgnoreUnexported(plan.Plan{}, plan.Param{}, plan.Step{}),
		cmpopts.IgnoreTypes(fault.Pos{}), cmpopts.IgnoreFields(plan.Plan{}, "File"), cmpopts.EquateEmpty())
}

func TestParse(t *testing.T) {
	p := mustParse(t, full)
	if p.MaxParallel != 4 || len(p.Params) != 3 || len(p.Steps) != 3 || p.Steps[2].ID != "step-3" {
		t.Fatalf("got %+v", p)
	}
	want := []any{json.Number("16"), json.Number("15"), json.Number("5"), json.Number("0.5"), json.Number("1.50"), json.Number("1e3"),
		nil, "yes", "2001-12-14", ".nan", json.Number("12345678901234567890")}
	if got := p.Steps[1].Args["flags"]; !reflect.DeepEqual(got, want) {
		t.Errorf("scalars: got %#v", got)
	}
	if !p.Referenced(1) || p.Referenced(2) || p.Referenced(0) || p.Referenced(9) {
		t.Error("only the output of step 1 is referred to")
	}
	if got := p.Steps[2].Deps(); !reflect.DeepEqual(got, []int{2}) {
		t.Errorf("implicit dependencies: got %v", got)
	}
	if p.Digest().IsZero() || string(p.Source()) != full {
		t.Error("the source must be kept as it was")
	}
	if d := same(p, mustParse(t, string(p.Print()))); d != "" {
		t.Errorf("printing loses: %s\n%s", d, p.Print())
	}
}

func TestParseAccepts(t *testing.T) {
	for name, src := range map[string]string{
		"a plan of the Capsule format": "version: '1.0'\nname: x\ndescription: y\nsteps:\n- tool: fs.read\n  args: {path: a}\n  id: a\n  name: b\n",
		"JSON":                         `{"steps":[{"tool":"t","args":{"s":"\ud83d\ude00\/"}}]}`,
		"version 1.0":                  "version: 1.0\nsteps: [{tool: t}]",
		"a byte order mark":            "\ufeffsteps: [{tool: t}]",
		"an alias":                     "steps: [{tool: t, args: &a {x: 1}}, {tool: t, args: *a}]",
		"a quoted merge key":           "steps: [{tool: t, args: {\"<<\": 1}}]",
		"one need as a string":         "steps: [{tool: t, id: a}, {tool: t, needs: a}]",
		"a later step":                 "steps: [{tool: t, args: {x: '${{ steps.b.output }}'}}, {tool: t, id: b}]",
		"an ID with a dot":             "steps: [{tool: t, id: a.b}, {tool: t, if: \"steps['a.b'].status == 'failed'\"}]",
		"a boolean condition":          "steps: [{tool: t, if: true}]",
		"empty args":                   "steps: [{tool: t, args: }]",
		"a document end":               "---\nsteps: [{tool: t}]\n...\n",
	} {
		t.Run(name, func(t *testing.T) {
			p := mustParse(t, src)
			if d := same(p, mustParse(t, string(p.Print()))); d != "" {
				t.Errorf("printing loses: %s", d)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", 150) + strings.Repeat("]", 150)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+p+",", 9) + "*" + p + "]\n"
	}
	tests := map[string]struct{ src, want string }{
		"nothing":                  {"", "the plan is empty"},
		"comments only":            {"# x\n", "the plan is empty"},
		"no steps":                 {"name: x\n", "E3001 p.yaml:1:1: steps: a plan needs steps"},
		"empty steps":              {"steps: []", "a plan needs steps"},
		"unknown key":              {"stepps: []\nsteps: [{tool: t}]", `p.yaml:1:1: stepps: unknown key "stepps" (did you mean "steps"?)`},
		"unknown step key":         {"steps:\n  - tool: t\n    arg: {}\n", `p.yaml:3:5: steps[0].arg: unknown key "arg" (did you mean "args"?)`},
		"duplicate key":            {"steps: [{tool: t}]\nname: a\nname: b", `p.yaml:3:1: name: the key "name" is given twice, first on line 2`},
		"duplicate key in args":    {"steps: [{tool: t, args: {a: 1, \"a\": 2}}]", "is given twice"},
		"duplicate key in JSON":    {`{"steps":[{"tool":"t"}],"name":"a","name":"b"}`, "occurs twice"},
		"second document":          {"steps: [{tool: t}]\n---\nsteps: [{tool: u}]\n", "a second document"},
		"not UTF-8":                {"name: x\nsteps: \xff", "p.yaml:2:8: the plan is not UTF-8"},
		"wrong type":               {"steps: {tool: t}", "steps must be a list, not a mapping"},
		"a name that is a number":  {"name: 1\nsteps: [{tool: t}]", "name: must be a string, not 1 (put it in quotes)"},
		"merge key":                {"steps: [{tool: t, args: {<<: {a: 1}}}]", "merge keys"},
		"a key that is no string":  {"steps: [{tool: t, args: {1: x}}]", `a key must be a string`},
		"a key that is a list":     {"steps: [{tool: t, args: {[a]: x}}]", "a key must be a string"},
		"custom tag":               {"steps: [{tool: t, args: {a: !x y}}]", `the tag "!x" is not allowed`},
		"binary":                   {"steps: [{tool: t, args: {a: !!binary aGk=}}]", "not allowed"},
		"leading zeros":            {"steps: [{tool: t, args: {mode: 0644}}]", "0644 begins with a zero"},
		"number out of range":      {"steps: [{tool: t, args: {x: 1e999}}]", "is not a number that JSON can hold"},
		"out of range in JSON":     {`{"steps":[{"tool":"t","args":{"x":1e999}}]}`, "is not a number that JSON can hold"},
		"half a surrogate pair":    {`{"steps":[{"tool":"t","args":{"x":"\ud800"}}]}`, "half a surrogate pair"},
		"alias bomb":               {bomb + "steps: [{tool: t}]", "aliases repeat more than"},
		"alias to itself":          {"steps: [{tool: t, args: &a {x: *a}}]", ""},
		"too deep":                 {"steps: [{tool: t, args: {x: " + deep + "}}]", "nested more than 100 levels"},
		"unknown version":          {"version: 2\nsteps: [{tool: t}]", "version of the plan format is unknown"},
		"no tool":                  {"steps: [{id: a}]", "steps[0].tool: a step needs a tool"},
		"bad tool":                 {"steps: [{tool: 'a b'}]", "is not a valid tool ID"},
		"duplicate id":             {"steps: [{tool: t, id: a}, {tool: t, id: a}]", `step 1 has the id "a" already`},
		"default id taken":         {"steps: [{tool: t, id: step-2}, {tool: t}]", `step 1 has the id "step-2" already`},
		"unknown need":             {"steps: [{tool: t, id: alpha}, {tool: t, needs: [alhpa]}]", `no step has the id "alhpa" (did you mean "alpha"?)`},
		"self need":                {"steps: [{tool: t, id: a, needs: [a]}]", "a step cannot need itself"},
		"self reference":           {"steps: [{tool: t, id: a, args: {x: '${{ steps.a.output }}'}}]", "a step cannot refer to itself"},
		"cycle":                    {"steps: [{tool: t, id: a, needs: [b]}, {tool: t, id: b, needs: [c]}, {tool: t, id: c, needs: [a]}]", `steps wait for each other: "a" → "b" → "c" → "a"`},
		"cycle through expression": {"steps: [{tool: t, id: a, needs: [b]}, {tool: t, id: b, if: steps.a.output.x}]", "wait for each other"},
		"unknown input":            {"inputs: {name: {}}\nsteps: [{tool: t, args: {x: '${{ inputs.nmae }}'}}]", `E3003 p.yaml:2:29: steps[0].args.x: the plan declares no input "nmae" (did you mean "name"?)`},
		"unknown step":             {"steps: [{tool: t, args: {x: '${{ steps.q.output }}'}}]", `no step has the id "q"`},
		"unknown part":             {"steps: [{tool: t, id: a}, {tool: t, args: {x: '${{ steps.a.outputs }}'}}]", `did you mean "output"?`},
		"other root":               {"steps: [{tool: t, args: {x: '${{ env.HOME }}'}}]", "a reference begins with inputs or steps"},
		"no end":                   {"steps: [{tool: t, args: {x: '${{ inputs.a'}}]", `"}}" is missing`},
		"operator in args":         {"inputs: {a: {}}\nsteps: [{tool: t, args: {x: '${{ inputs.a == 1 }}'}}]", "only a reference can stand here"},
		"bad condition":            {"steps: [{tool: t, if: \"1 == \"}]", "steps[0].if: a value is missing"},
		"chained comparison":       {"steps: [{tool: t, if: \"1 < 2 < 3\"}]", "cannot be chained"},
		"function":                 {"steps: [{tool: t, if: \"hashFiles('x')\"}]", "is not a valid value"},
		"double quotes":            {"steps: [{tool: t, if: 'inputs.a == \"x\"'}]", "single quotes"},
		"nested too deep":          {"steps: [{tool: t, if: '" + strings.Repeat("(", 100) + "1" + strings.Repeat(")", 100) + "'}]", "nested deeper"},
		"parallel 0":               {"max_parallel: 0\nsteps: [{tool: t}]", "from 1 to 64"},
		"parallel 65":              {"max_parallel: 65\nsteps: [{tool: t}]", "from 1 to 64"},
		"on_error":                 {"steps: [{tool: t, on_error: ignore}]", "must be stop or continue"},
		"default of another type":  {"inputs: {a: {type: integer, default: x}}\nsteps: [{tool: t}]", "inputs.a.default: must be an integer"},
		"default outside enum":     {"inputs: {a: {default: c, enum: [a, b]}}\nsteps: [{tool: t}]", `must be one of "a", "b"`},
		"default outside pattern":  {"inputs: {a: {default: xb, pattern: 'a|b'}}\nsteps: [{tool: t}]", "does not match the pattern"},
		"pattern that breaks out":  {"inputs: {a: {pattern: 'a)|(b'}}\nsteps: [{tool: t}]", "inputs.a.pattern"},
		"required with default":    {"inputs: {a: {default: x, required: true}}\nsteps: [{tool: t}]", "cannot have a default"},
		"unknown input type":       {"inputs: {a: {type: strin}}\nsteps: [{tool: t}]", `did you mean "string"?`},
		"args that are a list":     {"steps: [{tool: t, args: [a]}]", "args must be a mapping, not a list"},
		"broken YAML":              {"steps: [{tool: t}\n", "p.yaml:"},
		"control character":        {"name: \"\x07\"\nsteps: [{tool: t}]", "p.yaml:"},
		"an escape code in a name is shown, not obeyed": {"steps: [{tool: t, args: {x: \"${{ inputs['\\u009b31m\\e[0m'] }}\"}}]", `\u009b31m\x1b[0m`},
		"long key": {"steps: [{tool: t, args: {" + strings.Repeat("k", 300) + ": 1}}]", "a key has 300 bytes; the maximum is 250"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, err := plan.Parse("p.yaml", []byte(tc.src))
			if err == nil {
				t.Fatalf("accepted as\n%s", p.Print())
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			if c := fault.CodeOf(err); c != fault.PlanInvalid && c != fault.PlanReference {
				t.Errorf("code %v", c)
			}
		})
	}
}

func TestEveryProblemAtOnce(t *testing.T) {
	_, err := plan.Parse("p.yaml", []byte("nmae: x\nmax_parallel: 99\nsteps: [{args: []}, {tool: t, on_error: x}]"))
	var list fault.List
	if !errors.As(err, &list) || len(list) != 5 {
		t.Fatalf("got %d problems:\n%v", len(list), err)
	}
	_, err = plan.Parse("p.yaml", []byte("steps:\n"+strings.Repeat("- x\n", 5000)))
	if !errors.As(err, &list) || len(list) != 101 {
		t.Fatalf("a flood of problems is to be cut, got %d", len(list))
	}
}

func TestTenThousandStepsLoadFast(t *testing.T) {
	var b strings.Builder
	b.WriteString("steps:\n")
	for range 10_000 {
		b.WriteString("  - tool: fs.read\n    args: {path: \"docs/a file.txt\", limit: 100}\n")
	}
	begin := time.Now()
	p := mustParse(t, b.String())
	took := time.Since(begin)
	t.Logf("10,000 steps in %v", took)
	if len(p.Steps) != 10_000 || took > 30*time.Second {
		t.Fatalf("%d steps in %v", len(p.Steps), took)
	}
}

func TestInputs(t *testing.T) {
	p := mustParse(t, `
inputs:
  s: {required: true, pattern: "[a-z]+"}
  i: {type: integer, default: 7}
  n: {type: number}
  b: {type: boolean}
  a: {type: array}
  o: {type: object}
  e: {enum: [x, y]}
steps: [{tool: t}]`)
	got, err := p.Inputs(map[string]string{"s": "abc", "n": "1.5", "b": "true", "a": "[1]", "o": `{"k":null}`, "e": "x"})
	want := map[string]any{"s": "abc", "i": json.Number("7"), "n": json.Number("1.5"), "b": true, "a": []any{json.Number("1")}, "o": map[string]any{"k": nil}, "e": "x"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v", got, err)
	}
	if got, err := p.Inputs(map[string]string{"s": "abc"}); err != nil || got["n"] != nil || len(got) != 7 {
		t.Errorf("what is not given is null: %v, %v", got, err)
	}
	_, err = p.Inputs(map[string]string{"i": "1.5", "n": "1e999", "b": "yes", "a": "{}", "o": "[", "e": "z", "ss": "1"})
	var list fault.List
	if !errors.As(err, &list) || len(list) != 8 || fault.CodeOf(err) != fault.PlanInput {
		t.Errorf("every problem at once: got %v", err)
	}
	if _, err := p.Inputs(map[string]string{"s": "abc\n"}); err == nil {
		t.Error("a pattern matches the whole string")
	}
}

// A value in a list that an alias repeats later is whole both times.
func TestAliasesOfListsAreWhole(t *testing.T) {
	p, err := plan.Parse("p.yaml", []byte("steps:\n- {tool: t, args: {a: &a [1, [2, {x: [3]}]]}}\n- {tool: t, args: {a: *a, b: *a}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := p.Steps[0].Args["a"]
	if got := p.Steps[1].Args; len(want.([]any)) != 2 || !reflect.DeepEqual(got["a"], want) || !reflect.DeepEqual(got["b"], want) {
		t.Errorf("the aliases are %v, their anchor is %v", got, want)
	}
}
