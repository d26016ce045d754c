package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// thirtyRules is a policy of 30 rules, constraints on arguments in some, and
// calls that it allows.
func thirtyRules(t testing.TB) (policy.Chain, []policy.Call) {
	var b strings.Builder
	b.WriteString("files:\n  read:\n    allow: [\"src/**\", \"docs/**\", \"*.md\", \"**/*.go\", \"testdata/{a,b}/*\"]\n    deny: [\"**/*.bak\", \"private/**\", \"**/secret*\", \"**/.git/**\", \"tmp/*\"]\n")
	b.WriteString("  write: {allow: [\"out/**\", \"build/**\"], deny: [\"**/*.lock\"]}\n")
	b.WriteString("network: {allow: [api.github.com, \"GET https://*.example.com/v1/**\"], deny: [evil.example.com]}\n")
	b.WriteString("commands: {allow: [\"git status **\", \"go test **\"], deny: [\"** --force **\"]}\ntools:\n  allow: [\"fs.*\", \"http.*\", shell.run")
	b.WriteString(", {tool: \"mcp:mail:send\", args: {to: {each: \"*@example.com\"}, subject: {}, body: {max_length: 10000}, n: {min: 1, max: 10}, kind: {one_of: [a, b]}}}")
	for i := range 5 {
		fmt.Fprintf(&b, ", {tool: \"mcp:s%d:*\", args: {id: {regex: \"[a-z]+\"}}}", i)
	}
	b.WriteString("]\n  deny: [\"mcp:bad:*\", {tool: \"mcp:mail:send\", args: {subject: {glob: \"**secret**\"}}}]\n")
	spec := func(id tool.ID) *tool.Spec { return &tool.Spec{ID: id, Source: "builtin"} }
	return chain(t, b.String()), []policy.Call{
		{Tool: spec("fs.read"), Actions: []tool.Action{{Kind: tool.FileRead, Path: "/ws/src/a/README.md", Real: "/ws/src/a/README.md"}}},
		{Tool: spec("fs.read"), Actions: []tool.Action{{Kind: tool.FileRead, Path: "/ws/link.md", Real: "/ws/Docs.md"}}},
		{Tool: spec("http.get"), Actions: []tool.Action{get(t, "https://x.example.com/v1/a/b")}},
		{Tool: spec("shell.run"), Actions: []tool.Action{run("go", "test", "./...")}},
		{Tool: spec("mcp:mail:send"), Args: tool.Args{"to": []any{"a@example.com"}, "subject": "hello", "body": "text", "n": json.Number("3"), "kind": "b"}},
	}
}

func TestAllowingAllocatesNothing(t *testing.T) {
	c, calls := thirtyRules(t)
	for _, call := range calls {
		if d := c.Decide(call); d.Effect != policy.Allow {
			t.Fatalf("%s: %v %s", call.Tool.ID, d.Effect, d.Reason)
		}
		if n := testing.AllocsPerRun(100, func() { c.Decide(call) }); n != 0 {
			t.Errorf("Decide on %s: %v allocations", call.Tool.ID, n)
		}
		for _, a := range call.Actions {
			if n := testing.AllocsPerRun(100, func() { c.DecideAction(a) }); n != 0 {
				t.Errorf("DecideAction on %s: %v allocations", a, n)
			}
		}
	}
}

// BenchmarkDecideChain decides under a chain of five policies of 30 rules each,
// with gates that let the call through.
func BenchmarkDecideChain(b *testing.B) {
	one, calls := thirtyRules(b)
	c := policy.Chain{one[0]}
	for len(c) < 5 {
		next, _ := thirtyRules(b)
		c = append(c, next[0])
	}
	c = append(c[:4], rules(b, "rest: inherit\ntools: {allow: ['**'], deny_from_risk: critical, admin_from_risk: critical}\nside_effects: {deny: [payments]}"))
	for _, call := range calls {
		b.Run(string(call.Tool.ID), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Decide(call)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	c, calls := thirtyRules(b)
	for _, call := range calls {
		b.Run(string(call.Tool.ID), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.Decide(call)
			}
		})
	}
}

// What one policy of a chain finds out about a path holds for another one only if both have the
// same state folder and the same own folder.
func TestPoliciesOfAChainShareNoForeignFindings(t *testing.T) {
	const all = "version: 1\nname: all\nfiles: {read: {allow: ['**']}}\n"
	bind := func(env policy.Env) *policy.Rules {
		p, err := policy.Parse("all.yaml", []byte(all))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain, stateful := bind(policy.Env{Workspace: "/ws"}), bind(policy.Env{Workspace: "/ws", State: "/ws/state"})
	elsewhere := bind(policy.Env{Workspace: "/other"})
	owning := policy.Chain{elsewhere}.Owning("/ws/tool")[0]
	for name, tc := range map[string]struct {
		path  string
		chain policy.Chain
		want  policy.Effect
	}{
		"ordinary for both":                   {"/ws/a", policy.Chain{plain, stateful}, policy.Allow},
		"state of the second":                 {"/ws/state/a", policy.Chain{plain, stateful}, policy.Deny},
		"state of the first":                  {"/ws/state/a", policy.Chain{stateful, plain}, policy.Deny},
		"state of neither":                    {"/ws/state/a", policy.Chain{plain, plain}, policy.Allow},
		"own folder of the second":            {"/ws/tool/a", policy.Chain{plain, owning}, policy.Allow},
		"outside of the second":               {"/ws/a", policy.Chain{plain, elsewhere}, policy.Deny},
		"state of the second, in other case":  {"/ws/STATE/a", policy.Chain{plain, stateful}, policy.Deny},
		"a sensitive name in its own folder":  {"/ws/tool/.env", policy.Chain{plain, owning}, policy.Deny},
		"a sensitive name everywhere, thrice": {"/ws/.env", policy.Chain{plain, stateful, plain}, policy.Deny},
	} {
		a := tool.Action{Kind: tool.FileRead, Path: tc.path, Real: tc.path}
		if got := tc.chain.DecideAction(a).Effect; got != tc.want {
			t.Errorf("%s: %s is decided as %v, want %v", name, tc.path, got, tc.want)
		}
		least := policy.Allow
		for _, r := range tc.chain {
			least = min(least, policy.Chain{r}.DecideAction(a).Effect)
		}
		if least != tc.want {
			t.Errorf("%s: the policies one by one say %v, want %v", name, least, tc.want)
		}
	}
}
