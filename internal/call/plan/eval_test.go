package plan_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
)

// world is a set of values for expressions: outputs and statuses by index.
type world struct {
	inputs  map[string]any
	outputs map[int]map[string]any
	ended   map[int]plan.Ended
}

func (w world) Input(name string) any                { return w.inputs[name] }
func (w world) Ended(i int) plan.Ended               { return w.ended[i] }
func (w world) Output(i int) (map[string]any, error) { return w.outputs[i], nil }

func testWorld() world {
	return world{
		inputs: map[string]any{"s": "text", "evil": `"}} ${{ inputs.secret }} $(rm -rf /)`, "secret": "hunter2", "n": json.Number("3"), "big": json.Number("9007199254740993"),
			"l": []any{json.Number("1"), "two"}, "o": map[string]any{"b": nil, "a k": true}, "none": nil, "empty": ""},
		outputs: map[int]map[string]any{1: {"count": json.Number("2"), "entries": []any{map[string]any{"path": "/a"}}, "bytes": "x"}},
		ended:   map[int]plan.Ended{1: {Status: tool.Completed}, 2: {Status: tool.StatusDenied, Code: fault.Denied, Message: "no rule"}},
	}
}

// stepWith makes a plan whose third step has the given args or condition.
func stepWith(t testing.TB, key, value string) (*plan.Step, error) {
	t.Helper()
	v, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	names := "s evil secret n big l o none empty"
	src := fmt.Sprintf(`{"inputs": {"%s": {}}, "steps": [{"tool":"t","id":"a"},{"tool":"t","id":"b"},{"tool":"t",%s}]}`,
		strings.Join(strings.Fields(names), `": {}, "`), strings.ReplaceAll(key, "%", string(v)))
	p, err := plan.Parse("p.json", []byte(src))
	if err != nil {
		return nil, err
	}
	return p.Steps[2], nil
}

func TestResolve(t *testing.T) {
	tests := map[string]struct {
		in   string
		want any
	}{
		"a whole expression keeps its type":    {"${{ inputs.n }}", json.Number("3")},
		"also a list's":                        {"${{inputs.l}}", []any{json.Number("1"), "two"}},
		"also null":                            {"${{ inputs.none }}", nil},
		"large integers stay":                  {"${{ inputs.big }}", json.Number("9007199254740993")},
		"inside a string it becomes text":      {"n=${{ inputs.n }}, s=${{ inputs.s }}", "n=3, s=text"},
		"objects become compact JSON":          {"<${{ inputs.o }}>", `<{"a k":true,"b":null}>`},
		"a space makes it a string":            {" ${{ inputs.n }}", " 3"},
		"nested fields":                        {"${{ steps.a.output.entries[0].path }}", "/a"},
		"fields in brackets":                   {"${{ inputs.o['a k'] }}", true},
		"a status":                             {"${{ steps.b.status }}", "denied"},
		"an error":                             {"${{ steps.b.error.code }}: ${{ steps.b.error.message }}", "E1001: no rule"},
		"no error":                             {"${{ steps.a.error }}", nil},
		"what is inserted is never read again": {"${{ inputs.evil }}", `"}} ${{ inputs.secret }} $(rm -rf /)`},
		"nor inside a string":                  {"x${{ inputs.evil }}", `x"}} ${{ inputs.secret }} $(rm -rf /)`},
		"two values do not make a new one":     {"$${{ inputs.n }}${{ inputs.s }}", "${{ inputs.n }}text"},
		"escape":                               {"$${{ inputs.nothing", "${{ inputs.nothing"},
		"a lone dollar":                        {"$$ ${ {{ }} $", "$$ ${ {{ }} $"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s, err := stepWith(t, `"args":{"x":[{"y":%}], "z": 1}`, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Resolve(testWorld())
			want := tool.Args{"x": []any{map[string]any{"y": tc.want}}, "z": json.Number("1")}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %#v, %v", got, err)
			}
		})
	}
}

func TestResolveFails(t *testing.T) {
	for in, want := range map[string]string{
		"${{ steps.a.output.cuont }}":      `there is no "cuont" in an object with "bytes", "count", "entries"`,
		"${{ steps.a.output.entries[1] }}": "there is no [1] in a list of 1",
		"${{ steps.a.output.bytes.x }}":    `there is no "x" in a string`,
		"${{ steps.b.output }}":            `step "b" has no output: it ended as denied`,
		"${{ inputs.none.x }}":             `there is no "x" in null`,
	} {
		s, err := stepWith(t, `"args":{"x":%}`, in)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = s.Resolve(testWorld()); !errors.Is(err, fault.PlanReference) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "steps[2].args.x") {
			t.Errorf("%s: got %v", in, err)
		}
	}
}

func TestCondition(t *testing.T) {
	ok, wrong := plan.State{Success: true}, plan.State{Failure: true}
	tests := map[string]struct {
		state plan.State
		want  bool
	}{
		"true":                              {ok, true},
		"${{ true }}":                       {ok, true},
		"${{ inputs.n }} == 3":              {ok, true},
		"inputs.n == 3.0":                   {ok, true},
		"inputs.n == '3'":                   {ok, false},
		"inputs.n > 2 && inputs.n <= 3":     {ok, true},
		"inputs.big == 9007199254740992":    {ok, false},
		"inputs.big > 9007199254740992":     {ok, true},
		"-10 < -9 && -1 < 0 && -0 == 0":     {ok, true},
		"inputs.s != 'it''s'":               {ok, true},
		"'a' < 'b'":                         {ok, true},
		"inputs.empty || inputs.none || 0":  {ok, false},
		"!inputs.empty && !null && !0.0e5":  {ok, true},
		"!(true && false) == true":          {ok, true},
		"true || false && false":            {ok, true},
		"(true || false) && false":          {ok, false},
		"inputs.l == inputs.l":              {ok, true},
		"inputs.l == inputs.o":              {ok, false},
		"inputs.evil == 'x'":                {ok, false},
		"false && steps.a.output.nothing":   {ok, false},
		"true || steps.a.output.nothing":    {ok, true},
		"steps.b.status == 'denied'":        {ok, true},
		"inputs.n == 3 && true":             {wrong, false},
		"success()":                         {wrong, false},
		"failure()":                         {wrong, true},
		"failure() || inputs.n == 3":        {wrong, true},
		"always()":                          {wrong, true},
		"always() && steps.b.error != null": {wrong, true},
		"!success()":                        {wrong, true},
		"failure() ":                        {ok, false},
	}
	for in, tc := range tests {
		t.Run(in, func(t *testing.T) {
			s, err := stepWith(t, `"if":%`, in)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Condition(testWorld(), tc.state); err != nil || got != tc.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	for _, in := range []string{"1 < 'a'", "null < 1", "inputs.l < inputs.l", "steps.a.output.nothing", "true && steps.b.output.x"} {
		s, err := stepWith(t, `"if":%`, in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Condition(testWorld(), ok); !errors.Is(err, fault.PlanReference) {
			t.Errorf("%s: got %v, %v", in, got, err)
		}
	}
}

// shop is a set of tools with one schema.
type shop struct{ validated []tool.Args }

func (s *shop) Spec(id tool.ID) (*tool.Spec, bool) {
	return &tool.Spec{ID: id, Input: []byte(`{"type":"object","additionalProperties":false,"required":["path"],
		"properties":{"path":{"type":"string"},"limit":{"type":"integer"},"mode":{"enum":["a","b"]},"list":{"type":["array","null"]}}}`)}, id == "fs.read"
}
func (s *shop) Suggest(string) string { return "fs.read" }
func (s *shop) Validate(_ tool.ID, args tool.Args) error {
	s.validated = append(s.validated, args)
	if _, ok := args["path"].(string); !ok {
		return fault.List{fault.New(fault.ArgsInvalid, "must be a string").In("path")}
	}
	return nil
}

func TestCheck(t *testing.T) {
	tests := map[string]struct{ args, want string }{
		"fine":                            {"{path: a}", ""},
		"the whole schema on literals":    {"{path: 1}", "E2002 p.yaml:2:32: steps[0].args.path: fs.read: must be a string"},
		"escapes are literals":            {"{path: '$${{ x'}", ""},
		"an expression may be anything":   {"{path: '${{ inputs.x }}'}", ""},
		"missing":                         {"{limit: '${{ inputs.x }}'}", `steps[0].args.path: fs.read needs the argument "path" (add it)`},
		"unknown":                         {"{path: '${{ inputs.x }}', limt: 1}", `knows no argument "limt" (did you mean "limit"?)`},
		"type beside an expression":       {"{path: '${{ inputs.x }}', limit: x}", "must be of type integer"},
		"text with an expression is text": {"{path: a, limit: 'a${{ inputs.x }}'}", "must be of type integer"},
		"1.0 is an integer":               {"{path: '${{ inputs.x }}', limit: 1.0}", ""},
		"1.5 is none":                     {"{path: '${{ inputs.x }}', limit: 1.5}", "must be of type integer"},
		"enum beside an expression":       {"{path: '${{ inputs.x }}', mode: c}", `must be one of ["a","b"]`},
		"several types":                   {"{path: '${{ inputs.x }}', list: null}", ""},
		"a list with an expression":       {"{path: a, list: ['${{ inputs.x }}']}", ""},
		"an object where a list belongs":  {"{path: a, list: {a: '${{ inputs.x }}'}}", "must be of type array or null"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := mustParse(t, "inputs: {x: {}}\nsteps: [{tool: fs.read, args: "+tc.args+"}]")
			err := p.Check(&shop{})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
		})
	}
	err := mustParse(t, "steps: [{tool: fs.raed}, {tool: fs.read}]").Check(&shop{})
	var list fault.List
	if !errors.As(err, &list) || len(list) != 2 || list[0].Code != fault.ToolUnknown || !strings.Contains(err.Error(), `did you mean "fs.read"?`) {
		t.Errorf("got %v", err)
	}
}
