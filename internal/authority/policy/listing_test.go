package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

var (
	fsRead  = &tool.Spec{ID: "fs.read", Source: "builtin", Effects: tool.EffectSet(tool.FSRead)}
	fsMove  = &tool.Spec{ID: "fs.move", Source: "builtin", Risk: tool.Medium, Effects: tool.EffectSet(tool.FSRead, tool.FSWrite, tool.FSDelete)}
	httpGet = &tool.Spec{ID: "http.get", Source: "builtin", Risk: tool.Medium, Effects: tool.EffectSet(tool.NetworkHTTP)}
	shell   = &tool.Spec{ID: "shell.run", Source: "builtin", Risk: tool.High, Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.NetworkHTTP)}
	clockT  = &tool.Spec{ID: "time.now", Source: "builtin"}
	issues  = &tool.Spec{ID: "mcp:github:get_issue", Source: "mcp", Risk: tool.Medium, Effects: tool.EffectSet(tool.NetworkHTTP)}
)

func TestOffers(t *testing.T) {
	tests := map[string]struct {
		policies []string
		spec     *tool.Spec
		want     bool
	}{
		"no policy":                           {nil, clockT, false},
		"a built-in tool that needs nothing":  {[]string{"name: x"}, clockT, true},
		"its section is missing":              {[]string{"name: x"}, fsRead, false},
		"its section allows something":        {[]string{"files: {read: {allow: [a]}}"}, fsRead, true},
		"its section only asks":               {[]string{"files: {read: {ask: [a]}}"}, fsRead, true},
		"its section only denies":             {[]string{"files: {read: {deny: [a]}}"}, fsRead, false},
		"reading is no writing":               {[]string{"files: {read: {allow: [a]}}"}, fsMove, false},
		"a command needs commands":            {[]string{"files: {read: {allow: [a]}, write: {allow: [a]}}\nnetwork: {allow: [x.org]}"}, shell, false},
		"commands":                            {[]string{"commands: {allow: [ls]}"}, shell, true},
		"one of two policies is closed":       {[]string{"files: {read: {allow: [a]}}", "network: {allow: [x.org]}"}, fsRead, false},
		"one of two policies inherits":        {[]string{"files: {read: {allow: [a]}}", "rest: inherit\nnetwork: {allow: [x.org]}"}, fsRead, true},
		"a denied name":                       {[]string{"files: {read: {allow: [a]}}\ntools: {deny: ['fs.*']}"}, fsRead, false},
		"denied with some arguments":          {[]string{"files: {read: {allow: [a]}}\ntools: {deny: [{tool: fs.read, args: {path: secret}}]}"}, fsRead, true},
		"not in tools.allow":                  {[]string{"files: {read: {allow: [a]}}\ntools: {allow: ['http.*']}"}, fsRead, false},
		"in tools.ask alone":                  {[]string{"tools: {ask: ['mcp:github:*']}"}, issues, true},
		"another source, no tools.allow":      {[]string{"network: {allow: [x.org]}"}, issues, false},
		"another source needs no section":     {[]string{"tools: {allow: ['mcp:github:get_*']}"}, issues, true},
		"another source, another name":        {[]string{"tools: {allow: ['mcp:github:put_*']}"}, issues, false},
		"with constraints":                    {[]string{"tools: {allow: [{tool: 'mcp:github:*', args: {id: 1}}]}"}, issues, true},
		"network allowed, and the name is":    {[]string{"network: {allow: [x.org]}"}, httpGet, true},
		"two policies that name it":           {[]string{"tools: {allow: ['mcp:**']}", "tools: {allow: ['mcp:github:*']}"}, issues, true},
		"two policies, the second is another": {[]string{"tools: {allow: ['mcp:github:*']}", "tools: {allow: ['mcp:mail:*']}"}, issues, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chain(t, tt.policies...).Offers(tt.spec); got != tt.want {
				t.Errorf("%s: offered %v, want %v, by\n%s", tt.spec.ID, got, tt.want, strings.Join(tt.policies, "\n---\n"))
			}
		})
	}
}

// TestWhatIsNotOfferedIsDenied is the promise of Offers: no call of such a tool
// is allowed, nor asked about.
func TestWhatIsNotOfferedIsDenied(t *testing.T) {
	part := func(t *rapid.T, label string, options ...string) string {
		return rapid.SampledFrom(append(options, "")).Draw(t, label)
	}
	calls := []policy.Call{
		{Tool: fsRead, Args: tool.Args{"path": "a"}, Actions: []tool.Action{read("a")}},
		{Tool: fsMove, Args: tool.Args{"from": "a", "to": "b"}, Actions: []tool.Action{write("a"), write("b")}},
		{Tool: httpGet, Args: tool.Args{"url": "https://x.org/"}, Actions: []tool.Action{get(t, "https://x.org/")}},
		{Tool: shell, Args: tool.Args{"argv": []any{"ls"}}, Actions: []tool.Action{run("ls")}},
		{Tool: clockT, Args: tool.Args{}},
		{Tool: issues, Args: tool.Args{"id": "1"}},
	}
	offered := 0
	rapid.Check(t, func(t *rapid.T) {
		var srcs []string
		for range rapid.IntRange(1, 2).Draw(t, "links") {
			src := "name: x\n" + part(t, "rest", "rest: inherit\n") +
				part(t, "files", "files: {read: {allow: ['**']}}\n", "files: {read: {ask: ['**']}, write: {allow: ['**']}}\n", "files: {write: {deny: ['**']}}\n") +
				part(t, "network", "network: {allow: [x.org]}\n", "network: {ask: [x.org]}\n") + part(t, "commands", "commands: {allow: ['**']}\n") +
				part(t, "tools", "tools: {allow: ['fs.*', 'mcp:**']}\n", "tools: {ask: ['**']}\n", "tools: {deny: ['fs.*']}\n", "tools: {allow: ['**'], deny: [{tool: '**', args: {path: a}}]}\n", "tools: {ask_from_risk: medium}\n")
			srcs = append(srcs, src)
		}
		var c policy.Chain
		for _, s := range srcs {
			p, err := policy.Parse("test.yaml", []byte("version: 1\n"+s))
			if err != nil {
				t.Skip(err)
			}
			r, err := p.Bind(env)
			if err != nil {
				t.Skip(err)
			}
			c = append(c, r)
		}
		for _, call := range calls {
			if c.Offers(call.Tool) {
				offered++
				continue
			}
			if d := c.Decide(call); d.Effect != policy.Deny {
				t.Fatalf("%s is not offered, and %s by %s under\n%s", call.Tool.ID, d.Effect, d.Rule, strings.Join(srcs, "---\n"))
			}
		}
	})
	if offered == 0 {
		t.Error("nothing was offered: the test shows nothing")
	}
}

func TestWrittenTellsWhatIsAllowedInstead(t *testing.T) {
	c := chain(t, "name: outer\nfiles: {read: {allow: ['src/**', notes.txt], ask: ['ask/**']}}", "name: inner\nrest: inherit\ncommands: {allow: [ls]}")
	got := strings.Join(c.Written(tool.FileRead), "\n")
	if want := `files.read.allow of policy "outer": "src/**", "notes.txt"; a person is asked about "ask/**"`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := strings.Join(c.Written(tool.Command), "\n"); !strings.Contains(got, `"outer": nothing`) || !strings.Contains(got, `"inner": "ls"`) {
		t.Errorf("commands: %s", got)
	}
	many := chain(t, "files: {read: {allow: ["+strings.Repeat("a,", 40)+"b]}}").Written(tool.FileRead)
	if len(many) != 1 || !strings.HasSuffix(many[0], "and 29 more") {
		t.Errorf("a long list: %q", many)
	}
}
