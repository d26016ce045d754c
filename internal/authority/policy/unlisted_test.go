package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// tools.unlisted asks about tools that no entry matches, and opens a list of allowed tools for the built-in ones.
func TestUnlistedTools(t *testing.T) {
	const allow, ask, deny = policy.Allow, policy.Ask, policy.Deny
	tests := map[string]struct {
		tools string
		id    tool.ID
		args  tool.Args
		want  policy.Effect
	}{
		"a built-in tool":                         {"unlisted: ask", "fs.read", nil, allow},
		"another tool":                            {"unlisted: ask", "mcp:linear:get", nil, ask},
		"an allowed one":                          {"unlisted: ask, allow: ['mcp:linear:*']", "mcp:linear:get", nil, allow},
		"one that the list does not have":         {"unlisted: ask, allow: ['mcp:linear:*']", "agent:claude:Artifact", nil, ask},
		"a built-in tool beside the list":         {"unlisted: ask, allow: ['mcp:linear:*']", "fs.read", nil, allow},
		"a built-in tool beside a closed list":    {"allow: ['mcp:linear:*']", "fs.read", nil, deny},
		"the same, as written":                    {"unlisted: deny, allow: ['mcp:linear:*']", "fs.read", nil, deny},
		"a built-in tool beside an empty list":    {"unlisted: ask, allow: []", "fs.read", nil, allow},
		"a denied tool":                           {"unlisted: ask, deny: ['mcp:*']", "mcp:linear:get", nil, deny},
		"a denied built-in tool":                  {"unlisted: ask, deny: ['fs.*']", "fs.read", nil, deny},
		"other arguments than the list's":         {"unlisted: ask, allow: [{tool: 'mcp:linear:get', args: {id: a}}]", "mcp:linear:get", tool.Args{"id": "b"}, ask},
		"other arguments, a built-in tool":        {"unlisted: ask, allow: [{tool: fs.read, args: {path: a}}]", "fs.read", tool.Args{"path": "b"}, ask},
		"the list's arguments, a built-in tool":   {"unlisted: ask, allow: [{tool: fs.read, args: {path: a}}]", "fs.read", tool.Args{"path": "a"}, allow},
		"an ask entry's other arguments, builtin": {"unlisted: ask, ask: [{tool: fs.read, args: {path: a}}]", "fs.read", tool.Args{"path": "b"}, allow},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := &tool.Spec{ID: test.id, Source: "builtin"}
			if source, _, ok := strings.Cut(string(test.id), ":"); ok {
				spec.Source = source
			}
			c := chain(t, "tools: {"+test.tools+"}")
			if got := c.Decide(policy.Call{Tool: spec, Args: test.args}); got.Effect != test.want {
				t.Errorf("got %s (%s), want %s", got.Effect, got.Reason, test.want)
			}
		})
	}
}

// unlisted: ask allows a call only where the same lists allow it, or would without tools.allow; and a tool that a call can
// be asked about is offered.
func TestUnlistedAllowsNothingByItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDoc(t, "policy")
		d.unlisted = "ask"
		closed, without := d, "files: {read: {allow: ['**']}}\ntools: {ask: "+quoted(d.tAsk)+", deny: "+quoted(d.tDeny)+"}"
		closed.unlisted = "deny"
		id := rapid.SampledFrom([]tool.ID{"fs.read", "fs.write", "mcp:a:b", "agent:claude:X", "ext:a:b"}).Draw(t, "tool")
		spec := &tool.Spec{ID: id, Source: "builtin"}
		if source, _, ok := strings.Cut(string(id), ":"); ok {
			spec.Source = source
		}
		c := mustChain(t, d)
		got, call := c.DecideTool(spec, nil, nil), policy.Call{Tool: spec}
		p, err := policy.Parse("p", []byte("version: 1\n"+without))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(env)
		if err != nil {
			t.Fatal(err)
		}
		if listed := mustChain(t, closed).Decide(call).Effect; got == policy.Allow && listed != policy.Allow && (policy.Chain{r}).Decide(call).Effect != policy.Allow {
			t.Fatalf("%s is allowed by %s", id, d)
		} else if got < listed {
			t.Fatalf("%s: ask made %s of %s", id, got, listed)
		}
		if got != policy.Deny && (!c.Naming(spec) || !c.OpensTools()) {
			t.Fatalf("%s is %s, and is not named", id, got)
		}
	})
}
