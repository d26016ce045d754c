package compare_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/compare"
)

var env = policy.Env{Workspace: "/ws", Home: "/home/u", Path: []string{"/usr/bin"}}

func parse(t *testing.T, src string) (*policy.Policy, policy.Chain) {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\n"+src))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	return p, policy.Chain{r}
}

func TestDifferencesAreNamed(t *testing.T) {
	tests := map[string]struct {
		was, is   string
		changes   string // "-where text" and "+where text", with ! for no effect
		witnesses string // "on: was is"
	}{
		"nothing":          {`files: {read: {allow: [a, b]}}`, "files: {read: {allow: [b, a]}}\nname: other", "", ""},
		"a limit":          {`limits: {calls: 5}`, `limits: {calls: 3}`, "-limits.calls 5|+limits.calls 3", ""},
		"a wider folder":   {`files: {read: {allow: ["a/*"]}}`, `files: {read: {allow: ["a/**"]}}`, `!-files.read.allow "a/*"|+files.read.allow "a/**"`, `files.read "/ws/a/x/y": deny allow`},
		"an idle entry":    {`files: {read: {allow: ["**"]}}`, `files: {read: {allow: ["**", "a/*"]}}`, `!+files.read.allow "a/*"`, ""},
		"a deny meets":     {`files: {read: {allow: ["src/**"]}}`, `files: {read: {allow: ["src/**"], deny: ["**/*.bak"]}}`, `+files.read.deny "**/*.bak"`, `files.read "/ws/src/x.bak": allow deny`},
		"a method":         {`network: {allow: ["x.org"]}`, `network: {allow: ["GET x.org"]}`, `-network.allow "x.org"|!+network.allow "GET x.org"`, `network POST https://x.org/: allow deny`},
		"asking":           {`commands: {allow: ["git **"]}`, `commands: {allow: ["git **"], ask: ["git push **"]}`, `+commands.ask "git push **"`, `commands git push: allow ask`},
		"an argument":      {`tools: {allow: ["mcp:m:send"]}`, `tools: {allow: [{tool: "mcp:m:send", args: {to: {glob: "*@x.org"}}}]}`, `-tools.allow "mcp:m:send"|+tools.allow tool: "mcp:m:send" args: "to": {glob: "*@x.org"}`, `tools mcp:m:send {"to":"another value"}: allow deny`},
		"a risk gate":      {`tools: {allow: [fs.read]}`, `tools: {allow: [fs.read], ask_from_risk: high}`, "+tools.ask_from_risk high", "tools fs.read (risk high): allow ask"},
		"a role's section": {`roles: {"agent:a": {files: {read: {allow: [x]}}}}`, `roles: {"agent:a": {files: {read: {allow: [y]}}}}`, `-roles."agent:a".files.read.allow "x"|+roles."agent:a".files.read.allow "y"`, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			was, before := parse(t, tt.was)
			is, after := parse(t, tt.is)
			changes := compare.Documents(was, is)
			compare.Mark(changes, before, after)
			var got []string
			for _, c := range changes {
				moot := ""
				if c.Moot {
					moot = "!"
				}
				if c.Was != "" {
					got = append(got, moot+"-"+c.Where+" "+c.Was)
				}
				if c.Is != "" {
					got = append(got, moot+"+"+c.Where+" "+c.Is)
				}
			}
			if s := strings.Join(got, "|"); s != tt.changes {
				t.Errorf("changes:\n%s\nwant\n%s", s, tt.changes)
			}
			found := []string{}
			for _, w := range compare.Witnesses(before, after, env) {
				found = append(found, fmt.Sprintf("%s: %s %s", w.On, w.Was, w.Is))
			}
			if tt.witnesses == "" && len(found) > 0 || tt.witnesses != "" && !slices.Contains(found, tt.witnesses) {
				t.Errorf("examples %q, want %q", found, tt.witnesses)
			}
		})
	}
}

// A policy does not differ from itself, and what is said to make no difference
// makes none for any example.
func TestMootIsNoDifference(t *testing.T) {
	pattern := rapid.SampledFrom([]string{"**", "a/**", "a/*", "a/b", "*/b", "?/b", ".env", "**/b"})
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.SliceOfNDistinct(pattern, 1, 4, rapid.ID).Draw(rt, "allow")
		extra := pattern.Draw(rt, "extra")
		of := func(l []string) (*policy.Policy, policy.Chain) {
			return parse(t, "files: {read: {allow: ['"+strings.Join(l, "', '")+"']}}")
		}
		was, before := of(list)
		if len(compare.Documents(was, was))+len(compare.Witnesses(before, before, env)) > 0 {
			rt.Fatalf("%q differs from itself", list)
		}
		is, after := of(append(slices.Clone(list), extra))
		changes := compare.Documents(was, is)
		compare.Mark(changes, before, after)
		for _, c := range changes {
			if ws := compare.Witnesses(before, after, env); c.Moot && len(ws) > 0 {
				rt.Fatalf("%q added to %q is said to make no difference: %v", extra, list, ws)
			}
		}
	})
}
