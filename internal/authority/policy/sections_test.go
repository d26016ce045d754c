package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

func TestOpensTellsWhatAChainMayAllow(t *testing.T) {
	tests := map[string]struct {
		chain []string
		want  string
	}{
		"no policy":                  {nil, ""},
		"nothing":                    {[]string{""}, ""},
		"only denied":                {[]string{"files: {read: {deny: ['**']}}"}, ""},
		"allowed":                    {[]string{"files: {read: {allow: ['**']}}\nnetwork: {allow: [example.com]}"}, "files.read network"},
		"asked":                      {[]string{"commands: {ask: [ls]}"}, "commands"},
		"built-in tools do not show": {[]string{"files: {read: {allow: ['**']}}"}, "files.read"},
		"tools do":                   {[]string{"tools: {allow: [fs.read]}"}, "tools"},
		"closed by the second":       {[]string{"files: {read: {allow: ['**']}, write: {allow: ['**']}}", "files: {read: {allow: ['a']}}"}, "files.read"},
		"left to the first":          {[]string{"files: {read: {allow: ['**']}, write: {allow: ['**']}}", "rest: inherit\nfiles: {read: {allow: ['a']}}"}, "files.read files.write"},
		"tools of the first only":    {[]string{"tools: {allow: [fs.read]}", "files: {read: {allow: ['**']}}"}, "tools"},
		"no tool at all":             {[]string{"tools: {allow: [fs.read]}", "tools: {allow: []}"}, ""},
	}
	for name, tt := range tests {
		var c policy.Chain
		for _, text := range tt.chain {
			p, err := policy.Parse("p.yaml", []byte("version: 1\n"+text+"\n"))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			r, err := p.Bind(policy.Env{Workspace: "/w", Home: "/home/x"})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c = append(c, r)
		}
		if got := strings.Join(c.Opens(), " "); got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
