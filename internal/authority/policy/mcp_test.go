package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

func TestWhatServersMayAsk(t *testing.T) {
	all := policy.MCP{Elicitation: true, Sampling: true, Roots: true}
	for name, tc := range map[string]struct {
		links []string
		want  policy.MCP
	}{
		"nothing said":               {[]string{""}, policy.MCP{}},
		"all":                        {[]string{"mcp: {elicitation: ask, sampling: ask, roots: ask}\n"}, all},
		"the others stay refused":    {[]string{"mcp: {elicitation: ask}\n"}, policy.MCP{Elicitation: true}},
		"one link refuses":           {[]string{"mcp: {elicitation: ask, sampling: ask}\n", "mcp: {elicitation: deny, sampling: ask}\n"}, policy.MCP{Sampling: true}},
		"a link that does not say":   {[]string{"mcp: {elicitation: ask}\n", ""}, policy.MCP{}},
		"a link that leaves it":      {[]string{"mcp: {elicitation: ask}\n", "rest: inherit\n"}, policy.MCP{Elicitation: true}},
		"a part that a link leaves":  {[]string{"mcp: {elicitation: ask, roots: ask}\n", "mcp: {roots: deny}\nrest: inherit\n"}, policy.MCP{Elicitation: true}},
		"no link says":               {[]string{"mcp: {elicitation: deny}\n", "rest: inherit\n"}, policy.MCP{}},
		"what is said twice is once": {[]string{"mcp: {roots: ask}\n", "mcp: {roots: ask}\n"}, policy.MCP{Roots: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var c policy.Chain
			for _, l := range tc.links {
				c = append(c, rules(t, l))
			}
			if got := c.MCP(); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
	if got := (policy.Chain{}).MCP(); got != (policy.MCP{}) {
		t.Errorf("no policy: %+v", got)
	}
	const src = "version: 1\nname: \"test\"\nmcp:\n  elicitation: ask\n  sampling: deny\n"
	p, err := policy.Parse("t", []byte(src))
	if err != nil || string(p.Print()) != src {
		t.Errorf("%v, printed as\n%s", err, p.Print())
	}
	for _, bad := range []string{"mcp: ask", "mcp: {elicitation: allow}", "mcp: {prompts: ask}", "mcp: {elicitation: ask, elicitation: deny}"} {
		if _, err := policy.Parse("t", []byte("version: 1\nname: t\n"+bad+"\n")); err == nil || !strings.Contains(err.Error(), "mcp") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
