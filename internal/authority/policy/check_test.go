package policy_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// checkedAgainst is an installation with a few tools, one server and one provider.
func checkedAgainst() policy.Installation {
	spec := func(id tool.ID, e ...tool.Effect) *tool.Spec {
		return &tool.Spec{ID: id, Effects: tool.EffectSet(e...)}
	}
	return policy.Installation{
		Tools: []*tool.Spec{spec("fs.read", tool.FSRead), spec("fs.write", tool.FSWrite), spec("time.now"),
			spec("http.get", tool.NetworkHTTP), spec("shell.run", tool.SystemExec, tool.FSRead, tool.FSWrite)},
		Groups:    []string{"web_fetch"},
		Providers: []string{"scripted", "anthropic", "local"},
		Sources:   []policy.ToolSource{{Name: "mcp:files", Within: []string{"files.read"}}, {Name: "mcp:notes"}},
		Env:       []string{"HOME", "PATH"},
	}
}

func TestCheckMistakes(t *testing.T) {
	tests := map[string]struct {
		src  string
		want string // a part of the one mistake; "": there is none
	}{
		"a misspelled method":            {`network: {allow: ["gett http://x.test"]}`, `"GETT" is not a registered HTTP method`},
		"one of several methods":         {`network: {ask: ["GET,PSOT x.test"]}`, `"PSOT" is not`},
		"a denied method":                {`network: {deny: ["DELTE x.test"]}`, `"DELTE" is not`},
		"methods":                        {`network: {allow: ["get,HEAD x.test", "PROPFIND x.test", "PURGE x.test"]}`, ""},
		"a pipe":                         {`commands: {allow: ["git log | head"]}`, `shell operator "|"`},
		"and":                            {`commands: {deny: ["cd x && rm **"]}`, `shell operator "&&"`},
		"a semicolon at a word's end":    {`commands: {allow: ["git status; ls"]}`, `shell operator ";"`},
		"a redirection":                  {`commands: {allow: ["echo * >out.txt"]}`, `shell operator ">out.txt"`},
		"a redirected descriptor":        {`commands: {allow: ["make 2>&1"]}`, `shell operator "2>&1"`},
		"a substitution":                 {`commands: {allow: ["echo $(id)"]}`, `shell operator "$(id)"`},
		"backquotes":                     {"commands: {allow: ['echo `id`']}", "shell operator \"`id`\""},
		"quoted operators":               {`commands: {allow: ["find ** -exec cat {} \\;", "grep '|' **", "awk \"a > b\" *"]}`, ""},
		"operators within words":         {`commands: {allow: ["curl https://x.test/?a=1&b=2", "pip install a>=2", "git log --format=%h|%s"]}`, ""},
		"an assignment":                  {`commands: {allow: ["CI=1 make"]}`, `begins with an assignment to "CI"`},
		"an assignment as an argument":   {`commands: {allow: ["make CI=1"]}`, ""},
		"a replaced variable":            {`commands: {env: [LANG, HOME]}`, `"HOME" is always set`},
		"a replaced variable of a role":  {"roles:\n  'agent:*':\n    commands: {env: [PATH]}", `"PATH" is always set`},
		"an unknown built-in tool":       {`tools: {allow: [fs.raed, "*"]}`, `no built-in tool is called "fs.raed"`},
		"an unknown built-in pattern":    {`tools: {deny: ["files.*"]}`, `no built-in tool is called "files.*"`},
		"an unknown tool with arguments": {`tools: {allow: ["*", {tool: fs.red, args: {path: {equals: a}}}]}`, `no built-in tool is called "fs.red"`},
		"an unknown counted tool":        {`limits: {per_tool: {shel.run: 3}}`, `no built-in tool is called "shel.run"`},
		"an unknown tool of a secret":    {`secrets: [{name: a-b, tools: [http.gte], hosts: [x.test]}]`, `no built-in tool is called "http.gte"`},
		"a capability's tool":            {`tools: {allow: ["web_fetch.web_fetch", "web_fetch.*"]}`, ""},
		"built-in tools in any case":     {`tools: {deny: [FS.READ]}`, ""},
		"patterns of tools":              {`tools: {allow: ["*", "fs.*", "mcp:*", "mcp:notes:*", "*:notes:x", "wasm:a:b", "api:*:get"]}`, ""},
		"an unknown kind of source":      {`tools: {allow: ["mpc:notes:*"]}`, `"mpc" is not a kind of source`},
		"a source without a tool":        {`tools: {allow: ["mcp:notes"]}`, "names a source without a tool"},
		"a source's tool":                {`tools: {allow: ["mcp:notes*"]}`, ""},
		"an unknown provider":            {`models: {allow: ["antropic/claude"]}`, `no provider of models is called "antropic"`},
		"a model without a provider":     {`models: {allow: [claude-opus]}`, `"claude-opus" has no provider`},
		"models":                         {`models: {allow: ["anthropic/*", "scripted:a.yaml", "scripted/b", "*", "anth*", "*/small", local/x]}`, ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			got, _ := parseChecked(t, c.src).Check(checkedAgainst())
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("mistakes: %v; want none", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Msg, c.want)):
				t.Errorf("mistakes: %v; want one with %q", got, c.want)
			case c.want != "" && (got[0].Code != fault.PolicyInvalid || got[0].Pos.Line < 2 || got[0].Pos.Column < 1 || got[0].Field == ""):
				t.Errorf("mistake %+v; want E1003 with its place and field", got[0])
			}
		})
	}
}

func TestCheckWarnings(t *testing.T) {
	const files = "files: {read: {allow: ['**']}}\n"
	tests := map[string]struct {
		src  string
		want string
	}{
		"tools.allow closes what files needs":   {files + `tools: {allow: ["mcp:notes:*"]}`, "files.read: the section allows something that no call can reach"},
		"an empty tools.allow":                  {"commands: {ask: [ls]}\ntools: {allow: []}", "commands: the section allows"},
		"tools.deny does the same":              {"network: {allow: [x.test]}\ntools: {deny: [http.get]}", "network: the section allows"},
		"a role":                                {"roles:\n  'agent:*':\n    files: {write: {allow: [a]}}\n    tools: {allow: [time.now]}", "files.write: the section allows"},
		"a built-in tool is left":               {files + `tools: {allow: ["mcp:notes:*", fs.read]}`, ""},
		"one is left to be asked about":         {files + `tools: {allow: [], ask: ["fs.*"]}`, ""},
		"a command reads files too":             {files + `tools: {allow: [shell.run]}`, ""},
		"no tools.allow":                        {files + `tools: {ask: ["mcp:*"]}`, ""},
		"a server whose arguments are paths":    {files + `tools: {allow: ["mcp:files:*"]}`, ""},
		"an entry whose arguments are paths":    {files + `tools: {allow: [{tool: "mcp:notes:read", args: {path: {within: files.read}}}]}`, ""},
		"modules may read files":                {files + `tools: {allow: ["wasm:a:*"]}`, ""},
		"documents of APIs use the network":     {"network: {allow: [x.test]}\n" + `tools: {allow: ["api:pets:*"]}`, ""},
		"a capability's tool may use it":        {"network: {allow: [x.test]}\n" + `tools: {allow: ["web_fetch.*"]}`, ""},
		"a section that only denies":            {"files: {read: {deny: ['*.key']}}\ntools: {allow: [time.now]}", ""},
		"a source of nearly a configured name":  {`tools: {allow: ["*", "mcp:ntes:*"]}`, "no source mcp:ntes is configured here"},
		"a source that is elsewhere configured": {`tools: {allow: ["*", "mcp:github:*"]}`, ""},
		"allowed and denied":                    {"files: {read: {allow: [src/a], deny: [src/a]}}", `"src/a" has no effect`},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			bad, got := parseChecked(t, c.src).Check(checkedAgainst())
			if len(bad) > 0 {
				t.Fatalf("mistakes: %v; want none", bad)
			}
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("warnings: %v; want none", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0].Field+": "+got[0].Msg, c.want)):
				t.Errorf("warnings: %v; want one with %q", got, c.want)
			}
		})
	}
}

func parseChecked(t *testing.T, src string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\n"+src+"\n"))
	if err != nil {
		t.Fatalf("policy cannot be read: %v", err)
	}
	return p
}
