package cases_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/cases"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const good = `version: 1
policy: [outer.yaml, inner.yaml]
workspace: /src
cases:
  - name: reads
    call: {tool: fs.read, args: {path: a.txt, n: 5}}
    expect: allow
    rule: files.read.allow[0]
  - action: files.write ~/x
    expect: deny
    real: /home/user/y
  - action: network POST https://x.org/a
    addr: [10.0.0.1, "::1"]
    principal: agent:docs
    expect: ask
  - action: commands git status
    expect: allow
`

func TestCasesAreRead(t *testing.T) {
	f, err := cases.Parse("t.yaml", []byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Policies) != 2 || f.Workspace != "/src" || len(f.Cases) != 4 {
		t.Fatalf("%+v", f)
	}
	c := f.Cases
	if c[0].Tool != "fs.read" || c[0].Args["n"] != json.Number("5") || c[0].Expect != policy.Allow || c[0].Pos.Line != 5 {
		t.Errorf("%+v", c[0])
	}
	if c[1].Action.String() != `files.write "/home/user/x"` || c[1].Real != "/home/user/y" || c[1].Name != "files.write ~/x" {
		t.Errorf("%+v", c[1])
	}
	if c[2].Action.String() != "network POST https://x.org/a" || len(c[2].Addrs) != 2 || c[2].Principal != "agent:docs" || c[2].Expect != policy.Ask {
		t.Errorf("%+v", c[2])
	}
	if c[3].Action.Dir != "/src" || len(c[3].Action.Argv) != 2 {
		t.Errorf("%+v", c[3])
	}
}

func TestBadCasesAreRefusedWithTheirPlace(t *testing.T) {
	const head = "policy: p\ncases:\n"
	for name, tt := range map[string]struct{ src, want string }{
		"an unknown key":       {head + "  - {action: files.read a, expects: deny}", `t.yaml:3:28: cases[0].expects: unknown key "expects"`},
		"no policy":            {"cases: [{action: files.read a, expect: deny}]", "policy: no policy is named"},
		"no cases":             {"policy: p", "cases: there are no cases"},
		"an empty list":        {"policy: p\ncases: []", "cases: there are no cases"},
		"no expectation":       {head + "  - {action: files.read a}", "must be allow, ask or deny"},
		"another expectation":  {head + "  - {action: files.read a, expect: allowed}", `not "allowed"`},
		"neither":              {head + "  - {expect: allow}", "either a call or an action"},
		"both":                 {head + "  - {action: files.read a, call: {tool: fs.read}, expect: allow}", "either a call or an action"},
		"a kind":               {head + "  - {action: file a, expect: allow}", `"file" is not a kind of action`},
		"a bare kind":          {head + "  - {action: files.read, expect: allow}", "is not a valid action"},
		"quotes in a command":  {head + "  - {action: \"commands a 'b c'\", expect: allow}", "are ambiguous"},
		"a URL with userinfo":  {head + "  - {action: 'network https://a:b@x.org', expect: deny}", "is refused"},
		"no address":           {head + "  - {action: 'network https://x.org', addr: x.org, expect: deny}", `"x.org" is not a valid IP address`},
		"a relative workspace": {"policy: p\nworkspace: a\ncases: [{action: files.read a, expect: deny}]", "is not an absolute, clean path"},
		"a word and an action": {head + "  - {said: x, action: files.read a, expect: deny}", "said and after need a call"},
		"a step without tool":  {head + "  - {call: {tool: fs.read}, after: [{output: x}], expect: deny}", "names no tool"},
		"twice":                {head + "  - {expect: allow, expect: deny, action: files.read a}", "twice"},
		"an alias":             {head + "  - {call: {tool: fs.read, args: {a: &x 1, b: *x}}, expect: deny}", "aliases are not allowed"},
		"not valid YAML":       {"policy: [", "not valid YAML"},
		"a list":               {"[]", "must be a mapping"},
		"another version":      {"version: 2\npolicy: p\ncases: [{action: files.read a, expect: deny}]", "version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cases.Parse("t.yaml", []byte(tt.src))
			if err == nil || !strings.Contains(err.Error(), tt.want) || fault.CodeOf(err) != fault.PolicyInvalid {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// The published schema accepts what the parser does, and refuses what has an
// unknown key or no expectation.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(cases.Schema())))
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
	for src, want := range map[string]bool{
		good: true,
		"policy: p\ncases: [{action: files.read a, expect: deny}]":                                                                     true,
		"policy: p\ncases: [{said: x, after: [{tool: a, args: {b: 1}, output: c, labels: [d]}], call: {tool: fs.read}, expect: deny}]": true,
		"policy: p\ncases: [{after: [{output: c}], call: {tool: fs.read}, expect: deny}]":                                              false,
		"policy: p\ncases: [{action: files.read a, expect: deny, x: y}]":                                                               false,
		"policy: p\ncases: [{action: files.read a}]":                                                                                   false,
		"policy: p\ncases: [{expect: deny}]":                                                                                           false,
		"policy: p\ncases: []":                                                                                                         false,
		"cases: [{action: files.read a, expect: deny}]":                                                                                false,
	} {
		var v any
		if err := yaml.Load([]byte(src), &v); err != nil {
			t.Fatal(err)
		}
		_, perr := cases.Parse("t.yaml", []byte(src))
		if got := s.Validate(v) == nil; got != want || (perr == nil) != want {
			t.Errorf("%s: the schema says %v, the parser %v, want %v", src, got, perr, want)
		}
	}
}

func FuzzCases(f *testing.F) {
	f.Add(good)
	f.Add("policy: p\ncases: [{action: commands a, expect: deny}]")
	f.Fuzz(func(t *testing.T, src string) {
		file, err := cases.Parse("t.yaml", []byte(src))
		if err != nil {
			return
		}
		for _, c := range file.Cases {
			if (c.Tool == "") == (c.Action.Kind == tool.NoAction) || c.Expect > policy.Allow || c.Pos.Line == 0 {
				t.Fatalf("%q was read as %+v", src, c)
			}
		}
	})
}
