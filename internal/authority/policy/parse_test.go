package policy_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestParseRefuses(t *testing.T) {
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	tests := []struct {
		name, src string
		want      []string
	}{
		{"empty", "", []string{"E1003"}},
		{"no mapping", "- a", []string{"p.yaml:1:1", "mapping"}},
		{"no version", "name: x", []string{"version: the version is missing"}},
		{"version 2", "version: 2", []string{"p.yaml:1:10: version"}},
		{"version as text", "version: '1'", []string{"version 1, not the string"}},
		{"unknown key, near miss", "version: 1\nfile: {}", []string{"p.yaml:2:1: file: unknown key", `did you mean "files"?`}},
		{"unknown key, far", "version: 1\nqqqqqqq: {}", []string{"known keys: agents, api, approvals, commands"}},
		{"near miss below", "version: 1\nfiles: {read: {alow: []}}", []string{`did you mean "allow"?`, "files.read.alow"}},
		{"duplicate key", "version: 1\nname: a\nname: b", []string{"p.yaml:3"}},
		{"second document", "version: 1\n---\nversion: 1", []string{"E1003"}},
		{"anchor", "version: 1\nname: &a b", []string{"anchors"}},
		{"alias bomb", "version: 1\nx: &a [1,1]\ny: [*a,*a]", []string{"anchors", "aliases"}},
		{"merge key", "version: 1\n<<: {name: a}", []string{"E1003"}},
		{"tag", "version: 1\nname: !!binary aGVsbG8=", []string{`the tag "!!binary"`}},
		{"NUL", "version: 1\nname: a\x00b", []string{"p.yaml:2", "NUL"}},
		{"not UTF-8", "version: 1\nname: a\xff", []string{"p.yaml:2", "UTF-8"}},
		{"a line break in a comment", "version: 1\n# note\u2028network: {allow: ['*']}", []string{"p.yaml:2", `\u2028`}},
		{"a carriage return in a comment", "version: 1\n# note\rnetwork: {allow: ['*']}", []string{"p.yaml:2", `'\r'`}},
		{"text that is turned round", "version: 1\nname: a # \u202enetwork", []string{"p.yaml:2", `\u202e`}},
		{"too large", "version: 1\n#" + strings.Repeat("x", policy.MaxSize), []string{"the maximum is 1048576"}},
		{"too deep", "version: 1\nname: " + deep, []string{"E1003"}},
		{"broken", "version: 1\nname: [", []string{"not valid YAML"}},
		{"name is a number", "version: 1\nname: 1", []string{"must be a string", "quotes"}},
		{"list is a string", "version: 1\nfiles: {read: {allow: '**'}}", []string{"files.read.allow: must be a list"}},
		{"all at once", "version: 1\nfiles: {read: {allow: [1, '../x']}}\nlimits: {calls: -1, time: 5}",
			[]string{"allow[0]", "allow[1]", "limits.calls", "limits.time"}},
		{"dot dot", "version: 1\nfiles: {read: {allow: [a/../b]}}", []string{`segment ".."`}},
		{"empty segment", "version: 1\nfiles: {read: {allow: [a//b]}}", []string{"empty segment"}},
		{"bad class", "version: 1\nfiles: {read: {deny: ['[a']}}", []string{"class", "not closed"}},
		{"** in a segment", "version: 1\nfiles: {read: {deny: ['private**']}}", []string{"whole segment"}},
		{"too many braces", "version: 1\nfiles: {read: {deny: ['" + strings.Repeat("{a,b}", 9) + "']}}", []string{"more than 256"}},
		{"~user", "version: 1\nfiles: {read: {deny: ['~root/x']}}", []string{"only ~/"}},
		{"size zero", "version: 1\nfiles: {read: {max_bytes: 0}}", []string{"size of at least 1"}},
		{"size overflow", "version: 1\nfiles: {read: {max_bytes: 99999999999TiB}}", []string{"size"}},
		{"octal", "version: 1\nlimits: {calls: 010}", []string{"begins with a zero"}},
		{"money without a currency", "version: 1\nlimits: {money: 1.50}", []string{"1.50 USD"}},
		{"no money", "version: 1\nlimits: {money: 0.00 USD}", []string{"1.50 USD"}},
		{"too fine money", "version: 1\nlimits: {money: 0.0000001 USD}", []string{"1.50 USD"}},
		{"bad risk", "version: 1\ntools: {ask_from_risk: hgh}", []string{"low, medium"}},
		{"bad host", "version: 1\nnetwork: {allow: ['http://user@x']}", []string{"network.allow[0]"}},
		{"bad tool", "version: 1\ntools: {allow: ['a b']}", []string{"tool pattern"}},
		{"args without tool", "version: 1\ntools: {allow: [{args: {}}]}", []string{"has no tool"}},
		{"constraint typo", "version: 1\ntools: {allow: [{tool: a, args: {x: {max_len: 3}}}]}", []string{"unknown key", "max_length"}},
		{"bad regex", "version: 1\ntools: {allow: [{tool: a, args: {x: {regex: '('}}}]}", []string{"regex"}},
		{"regex that leaves its group", "version: 1\ntools: {allow: [{tool: a, args: {x: {regex: 'a)|(b'}}}]}", []string{"regex"}},
		{"within in deny", "version: 1\ntools: {deny: [{tool: a, args: {x: {within: network}}}]}", []string{"within has no meaning"}},
		{"others in deny", "version: 1\ntools: {deny: [{tool: a, args: {}, others: allow}]}", []string{"others has no meaning"}},
		{"base alone", "version: 1\ntools: {allow: [{tool: a, args: {x: {base: '.'}}}]}", []string{"base has a meaning"}},
		{"argument twice", "version: 1\ntools: {allow: [{tool: a, args: {x: {}, x.y: {}}}]}", []string{"x.y"}},
		{"path of the workspace", "version: 1\ncommands: {path: [bin]}", []string{"commands.path[0]"}},
		{"role in a role", "version: 1\nroles: {'agent:*': {roles: {}}}", []string{`unknown key "roles"`}},
		{"rest", "version: 1\nrest: allow", []string{"must be inherit"}},
		{"not a number", "version: 1\ntools: {allow: [{tool: a, args: {x: .inf}}]}", []string{"not a number that JSON can hold"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := policy.Parse("p.yaml", []byte(tt.src))
			if !errors.Is(err, fault.PolicyInvalid) {
				t.Fatalf("got %v", err)
			}
			var l fault.List
			if !errors.As(err, &l) {
				t.Errorf("%T is no list", err)
			}
			for _, w := range tt.want {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("%v\ndoes not say %q", err, w)
				}
			}
		})
	}
}

func TestParseReadsJSONAndAllOfTheFormat(t *testing.T) {
	p := docsWriter(t)
	r, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	l := policy.Chain{r}.Limits()
	if l.ReadBytes != 5<<20 || l.Memory != 512<<20 || l.Calls != 200 || *l.Depth != 2 || len(l.PerTool) != 1 || !l.PerTool[0].Match("http.get") {
		t.Errorf("limits %+v", l)
	}
	if p.Durability() != "process" || p.Name() != "docs-writer" || p.Digest() == (tool.Digest{}) {
		t.Errorf("%s %s", p.Name(), p.Durability())
	}
	if n := len(p.Roles("agent:research-1")); n != 1 || len(p.Roles("user:x")) != 0 {
		t.Errorf("%d roles", n)
	}
	if role := p.Roles("agent:research-1")[0]; !role.Inherits() || !bytes.Contains(role.Source(), []byte("docs.example.com")) {
		t.Errorf("role %s", role.Source())
	}
	j, err := policy.Parse("x/my.json", []byte(`{"version": 1, "files": {"read": {"allow": ["a\u002fb"]}}}`))
	if err != nil || j.Name() != "my" {
		t.Errorf("JSON: %v", err)
	}
}

func TestLimitsAreTheSmallestOfTheChain(t *testing.T) {
	c := chain(t,
		"commands: {env: [A, B], path: [/opt/a, /opt/b], timeout: 60s}\nlimits: {calls: 9}",
		"rest: inherit",
		"commands: {env: [B, C], path: [/opt/b], timeout: 30s}\nlimits: {calls: 10, time: 1m}")
	l := c.Limits()
	if l.Calls != 9 || l.CommandTimeout.Seconds() != 30 || l.Time.Minutes() != 1 || strings.Join(l.Env, " ") != "B" ||
		strings.Join(l.Path, " ") != "/usr/local/bin /usr/bin /bin /opt/b" {
		t.Errorf("%+v", l)
	}
}

func TestPrintParsesToTheSamePolicy(t *testing.T) {
	p := docsWriter(t)
	out := p.Print()
	q, err := policy.Parse("x", out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if again := q.Print(); !bytes.Equal(out, again) {
		t.Errorf("printed\n%s\nthen\n%s", out, again)
	}
}

func FuzzParse(f *testing.F) {
	src, err := os.ReadFile("testdata/docs-writer.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(src)
	f.Add([]byte("version: 1\nrest: inherit\ntools: {allow: [{tool: a, args: {x: 2024-01-01, y: [1.50, null, {a: b}]}}]}"))
	f.Add([]byte(`{"version": 1, "roles": {"a:*": {}}, "files": {}, "limits": {"per_tool": {"*": 0}}}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := policy.Parse("p.yaml", src)
		if err != nil {
			if !errors.Is(err, fault.PolicyInvalid) {
				t.Fatalf("%v has no code", err)
			}
			return
		}
		out := p.Print()
		q, err := policy.Parse("p.yaml", out)
		if err != nil {
			t.Fatalf("what was printed cannot be read: %v\n%s", err, out)
		}
		if again := q.Print(); !bytes.Equal(out, again) {
			t.Fatalf("%s\nis not\n%s", out, again)
		}
		if _, err := p.Bind(env); err != nil && !errors.Is(err, fault.PolicyInvalid) {
			t.Fatal(err)
		}
	})
}

func TestSchemaAgreesWithParse(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(policy.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("policy.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("policy.json")
	if err != nil {
		t.Fatal(err)
	}
	fits := func(src string) bool {
		var v any
		if err := yaml.Unmarshal([]byte(src), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		v, err = jsonschema.UnmarshalJSON(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		return s.Validate(v) == nil
	}
	if !fits(string(docsWriter(t).Source())) || !fits(string(docsWriter(t).Print())) {
		t.Error("the schema refuses a policy that Parse takes")
	}
	ready, err := filepath.Glob("profile/*/*.yaml")
	if err != nil || len(ready) < 10 {
		t.Fatalf("ready policies: %q, %v", ready, err)
	}
	for _, file := range ready {
		if src, err := os.ReadFile(file); err != nil || !strings.HasSuffix(filepath.Dir(file), "testdata") && !fits(string(src)) {
			t.Errorf("the schema refuses %s (%v)", file, err)
		}
	}
	for _, bad := range []string{"name: x", "version: 2", "version: 1\nfoo: 1", "version: 1\nfiles: {raed: {}}",
		"version: 1\ntools: {allow: [{tool: a, arg: {}}]}", "version: 1\ntools: {deny: [{tool: a, others: allow}]}",
		"version: 1\ntools: {allow: [{tool: a, args: {x: {glb: a}}}]}", "version: 1\nlimits: {time: soon}",
		"version: 1\nnetwork: {max_bytes: 5MiBs}", "version: 1\nroles: {'a:*': {name: x}}",
		"version: 1\nsecrets: [{name: a}]", "version: 1\nsecrets: [{name: a, tools: [b]}]",
		"version: 1\nnetwork: {allow: [{url: h, secret: {header: A, env: B, store: c}}]}"} {
		if fits(bad) {
			t.Errorf("the schema accepts %q", bad)
		}
		if _, err := policy.Parse("p", []byte(bad)); err == nil {
			t.Errorf("Parse accepts %q", bad)
		}
	}
}

// A list of variables closes it for a call, in whichever policy of the chain it stands.
func TestListedVariablesAreAllThatCallsMaySet(t *testing.T) {
	const open = "commands: {allow: ['**']}"
	for _, tc := range []struct {
		docs []string
		any  bool
		pass string
	}{
		{[]string{open}, true, ""},
		{[]string{open, open}, true, ""},
		{[]string{open, "rest: inherit"}, true, ""},
		{[]string{"commands: {allow: ['**'], env: []}"}, false, ""},
		{[]string{"commands: {allow: ['**'], env: [A, B]}", "commands: {allow: ['**'], env: [B, C]}"}, false, "B"},
		{[]string{"commands: {allow: ['**'], env: [A]}", "commands: {allow: ['**'], env: [B]}"}, false, ""},
		{[]string{open, "commands: {allow: ['**'], env: [A]}"}, false, ""},
		{[]string{"commands: {allow: ['**'], env: [A]}", open}, false, ""},
		{[]string{open, "commands: {allow: ['**'], env: [A]}", open}, false, ""},
	} {
		got := chain(t, tc.docs...).Limits().ToolEnv("/ws", "")
		if got.AnyVariable != tc.any || strings.Join(got.Pass, " ") != tc.pass {
			t.Errorf("%q: any variable %v, listed %q", tc.docs, got.AnyVariable, got.Pass)
		}
	}
}
