package translate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/translate"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// samples are calls of each kind. "mcp:" stands for a tool, "GET " for a URL, "<" and ">" for
// reading and writing a file, and "$ " for a command.
var samples = strings.Split(`< /ws/a.txt;< /ws/docs/a;< /srv/cache/a;< /data/a.csv;> /ws/src/a.go;> /ws/a.txt;> /ws/out/a;> /srv/cache/a;$ git status;$ git log -1;$ npm run test x;`+
	`$ cargo test x;$ mkdir a;$ make;$ grep a b;$ ls -l;$ echo a;$ curl a;GET docs.example.com;GET api.github.com;GET registry.example.com;`+
	`mcp:github:get_issue;mcp:docs:search;mcp:docs:delete;mcp:mail:read_x;mcp:mail:send;mcp:github:x`, ";")

// allows gives the samples that a policy allows.
func allows(t *testing.T, src []byte) map[string]bool {
	t.Helper()
	p, err := policy.Parse("p.yaml", src)
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	r, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, s := range samples {
		head, rest, _ := strings.Cut(s, " ")
		var e policy.Effect
		switch head {
		case "<":
			e = policy.Chain{r}.DecideAction(tool.Action{Kind: tool.FileRead, Path: rest}).Effect
		case ">":
			e = policy.Chain{r}.DecideAction(tool.Action{Kind: tool.FileWrite, Path: rest}).Effect
		case "$":
			e = policy.Chain{r}.DecideAction(tool.Action{Kind: tool.Command, Argv: strings.Fields(rest), Dir: "/ws"}).Effect
		case "GET":
			e = policy.Chain{r}.DecideAction(tool.Action{Kind: tool.Network, Target: tool.Target{Scheme: "https", Host: rest, Port: 443, Path: "/", Method: "GET"}}).Effect
		default:
			e = policy.Chain{r}.Decide(policy.Call{Tool: &tool.Spec{ID: tool.ID(s)}}).Effect
		}
		if e == policy.Allow {
			out[s] = true
		}
	}
	return out
}

// format is a valid source of one agent, with the tables in it that have known keys only: an
// unknown key there makes these kinds of calls ask. The heads of samples name the kinds.
type format struct {
	agent, file string
	tables      map[string]string
}

const all = "< > $ GET mcp"

var formats = []format{
	{"claude", "claude.json", map[string]string{"": all, "permissions": all, "sandbox": "< > $ GET", "sandbox.network": "< > $ GET", "sandbox.filesystem": "< > $ GET"}},
	{"codex", "codex.toml", map[string]string{"": all, "sandbox_workspace_write": "< > $", "mcp_servers.docs": "mcp", "mcp_servers.docs.tools.purge": "mcp", "mcp_servers.off": "mcp"}},
	{"opencode", "opencode.jsonc", map[string]string{"": all}},
	{"capsule", "capsule.yaml", map[string]string{"": all, "tools.fs.read": "<", "tools.fs.write": ">", "tools.http.get": "GET", "tools.shell.run": "$"}},
	{"vscode", "vscode.json", map[string]string{"chat.tools.urls.autoApprove.https://*.example.org/*": "GET", "chat.tools.terminal.autoApprove.make": "$"}},
	{"gemini", "gemini.toml", map[string]string{"": all}},
	{"zed", "zed.json", map[string]string{"agent": all, "agent.tool_permissions": all, "agent.tool_permissions.tools.terminal": "$", "agent.tool_permissions.tools.edit_file": ">", "agent.tool_permissions.tools.mcp:github:get_issue": "mcp"}},
}

func (f format) read(t *testing.T) map[string]any {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", f.file))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	switch filepath.Ext(f.file) {
	case ".toml":
		err = toml.Unmarshal(src, &out)
	case ".yaml":
		r := document.NewReader(f.file, document.Options{Code: fault.Usage, AnyText: true, CoreTags: true, MaxBytes: 1 << 20})
		out, _ = r.Read(src).Value().(map[string]any)
		err = r.Err()
	default:
		err = json.Unmarshal(document.StripComments(src), &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (f format) translate(t *testing.T, v map[string]any) (translate.Result, map[string]bool) {
	t.Helper()
	src, err := json.Marshal(v)
	if filepath.Ext(f.file) == ".toml" {
		src, err = toml.Marshal(v)
	}
	if err != nil {
		t.Fatal(err)
	}
	res, err := translate.Translate(f.agent, f.file, src)
	if err != nil {
		return translate.Result{}, nil // refused as a whole
	}
	return res, allows(t, res.Policy)
}

// eachValue calls f with the path of each value, and a function that returns the source with
// another value in its place.
func eachValue(v any, path []string, f func(path []string, v any, with func(any) any)) {
	f(path, v, func(other any) any { return other })
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			eachValue(v[key], append(slices.Clone(path), key), func(path []string, old any, with func(any) any) {
				f(path, old, func(other any) any { c := maps.Clone(v); c[key] = with(other); return c })
			})
		}
	case []map[string]any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		for i := range v {
			eachValue(v[i], append(slices.Clone(path), fmt.Sprint(i)), func(path []string, old any, with func(any) any) {
				f(path, old, func(other any) any { c := slices.Clone(list); c[i] = with(other); return c })
			})
		}
	case []any:
		for i := range v {
			eachValue(v[i], append(slices.Clone(path), fmt.Sprint(i)), func(path []string, old any, with func(any) any) {
				f(path, old, func(other any) any { c := slices.Clone(v); c[i] = with(other); return c })
			})
		}
	}
}

// An unknown key in any table never allows more. It is named, and in a table of permissions all
// calls of its kind ask.
func TestUnknownKeysNeverAllow(t *testing.T) {
	for _, f := range formats {
		source := f.read(t)
		_, before := f.translate(t, source)
		if len(before) == 0 {
			t.Errorf("%s: nothing is allowed before, which shows nothing", f.file)
		}
		seen := map[string]bool{}
		eachValue(source, nil, func(path []string, v any, with func(any) any) {
			table, ok := v.(map[string]any)
			if !ok {
				return
			}
			at := strings.Join(path, ".")
			kinds := f.tables[at]
			seen[at] = true
			for _, value := range []any{"deny", false, map[string]any{"a": false}, []any{"x"}, 7} {
				changed := maps.Clone(table)
				changed["x-unknown"] = value
				root, _ := with(changed).(map[string]any)
				res, after := f.translate(t, root)
				for s := range after {
					if head, _, _ := strings.Cut(s, " "); !before[s] || slices.Contains(strings.Fields(kinds), strings.SplitN(head, ":", 2)[0]) {
						t.Errorf("%s: with %v in %q, %q is allowed", f.file, value, at, s)
					}
				}
				named := strings.Contains(string(res.Policy), "x-unknown") || slices.ContainsFunc(res.Dropped, func(d translate.Dropped) bool {
					return strings.Contains(d.Rule, "x-unknown") || at != "" && d.Rule == at
				})
				if after != nil && !named && (kinds != "" || f.agent != "vscode" && f.agent != "zed" && f.agent != "gemini") {
					t.Errorf("%s: the key x-unknown in %q is not named", f.file, at)
				}
			}
		})
		for at := range f.tables {
			if !seen[at] {
				t.Errorf("%s has no table %q", f.file, at)
			}
		}
	}
}

// A value of another type, or one that is not known, never allows more. Patterns are free text.
func TestUnknownValuesNeverAllow(t *testing.T) {
	for _, f := range formats {
		source := f.read(t)
		_, before := f.translate(t, source)
		eachValue(source, nil, func(path []string, v any, with func(any) any) {
			if len(path) == 0 {
				return
			}
			for _, value := range []any{7, "x-unknown", map[string]any{"x-unknown": 1}, []any{map[string]any{"x-unknown": "y"}}, nil} {
				_, list := v.([]any)
				if _, isText := v.(string); value == nil && filepath.Ext(f.file) == ".toml" || value == "x-unknown" && isText && free(path) || value == nil && !list {
					continue
				}
				root, _ := with(value).(map[string]any)
				_, after := f.translate(t, root)
				for s := range after {
					if !before[s] {
						t.Errorf("%s: with %v at %q, %q is allowed", f.file, value, path, s)
					}
				}
			}
		})
	}
}

// free reports whether a value is an item of a list, or a pattern.
func free(path []string) bool {
	last := path[len(path)-1]
	return last >= "0" && last <= "99" || slices.Contains([]string{"pattern", "toolName", "mcpName", "commandPrefix", "name"}, last)
}

// Refusals that each format can express, with a call that must not be allowed.
func TestRefusalsStayRefusals(t *testing.T) {
	codex := "sandbox_mode = \"workspace-write\"\napproval_policy = \"never\"\n"
	server := "[mcp_servers.mail]\ndefault_tools_approval_mode = \"approve\"\n"
	claude := `{"permissions": {"allow": ["Bash(git *)", "mcp__mail", "mcp__docs", "Edit", "WebFetch(domain:docs.example.com)"]%s}%s}`
	open := `{"permission": {"edit": "allow", "read": "allow", "bash": {"git *": "allow"}}%s}`
	gemini := "[[rule]]\ntoolName = \"search\"\nmcpName = \"docs\"\ndecision = \"allow\"\npriority = 1\n[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git\"\ndecision = \"allow\"\npriority = 1\n"
	code := `{"chat.tools.terminal.autoApprove": {"git": true}, "chat.tools.urls.autoApprove": {"https://docs.example.com": true}%s}`
	zed := `{"agent": {"tool_permissions": {"tools": {"terminal": {"always_allow": [{"pattern": "^git status$", "case_sensitive": true}]}, "edit_file": {"default": "allow"}, "mcp:github:get_issue": {"default": "allow"}}}%s}%s}`
	with := func(base string, parts ...any) string { return fmt.Sprintf(base, parts...) }
	for _, tt := range []struct{ agent, source, refused string }{
		{"codex", codex + server + "[mcp_servers.mail.tools.send]\napproval_mode = \"prompt\"", "mcp:mail:send"},
		{"codex", codex + server + "[mcp_servers.mail.tools.send]\napproval_mode = \"auto\"", "mcp:mail:send"},
		{"codex", codex + server + "[mcp_servers.mail.tools.send]\nenabled = false", "mcp:mail:send"},
		{"codex", codex + server + "enabled = false", "mcp:mail:send"},
		{"codex", codex + server + "disabled_tools = [\"send\"]", "mcp:mail:send"},
		{"codex", codex + server + "enabled_tools = [\"read_x\"]", "mcp:mail:send"},
		{"codex", codex + "[features]\nshell_tool = false", "$ git status"},
		{"codex", codex + "[projects.\"/ws\"]\ntrust_level = \"untrusted\"", "$ git status"},
		{"codex", codex + "profile = \"p\"\n[profiles.p]\nsandbox_mode = \"read-only\"", "> /ws/a.txt"},
		{"codex", codex + "[profiles.p]\napproval_policy = \"untrusted\"", "$ git status"},
		{"codex", codex + "[profiles.p.features]\nshell_tool = false", "$ git status"},
		{"codex", codex + "[hooks]\nPreToolUse = []", "$ git status"},
		{"codex", codex + "default_permissions = \"x\"\n[permissions.x]\nfilesystem = {}", "> /ws/a.txt"},
		{"claude", with(claude, "", `, "disabledMcpjsonServers": ["mail"]`), "mcp:mail:send"},
		{"claude", with(claude, "", `, "deniedMcpServers": [{"serverName": "mail"}]`), "mcp:mail:send"},
		{"claude", with(claude, "", `, "deniedMcpServers": [{"serverCommand": ["x"]}]`), "mcp:mail:send"},
		{"claude", with(claude, "", `, "deniedMcpServers": [{"serverUrl": "https://x/*"}]`), "mcp:mail:send"},
		{"claude", with(claude, "", `, "allowedMcpServers": [{"serverName": "docs"}]`), "mcp:mail:send"},
		{"claude", with(claude, "", `, "allowedMcpServers": []`), "mcp:mail:send"},
		{"claude", with(claude, `, "deny": ["PowerShell"]`, ""), "$ git status"},
		{"claude", with(claude, `, "deny": ["Ba*"]`, ""), "$ git status"},
		{"claude", with(claude, `, "deny": "Bash(git *)"`, ""), "$ git status"},
		{"claude", with(claude, `, "ask": [["Edit"]]`, ""), "> /ws/a.txt"},
		{"claude", with(claude, `, "defaultMode": "readOnly"`, ""), "> /ws/a.txt"},
		{"claude", with(claude, "", `, "hooks": {"PreToolUse": [{"matcher": "*"}]}`), "> /ws/a.txt"},
		{"claude", with(claude, "", `, "sandbox": {"filesystem": {"denyRead": "x"}}`), "< /ws/a.txt"},
		{"opencode", with(open, `, "tools": {"bash": false}`), "$ git status"},
		{"opencode", with(open, `, "tools": {"write": false}`), "> /ws/a.txt"},
		{"opencode", with(open, `, "tools": {"edit": false}`), "> /ws/a.txt"},
		{"opencode", with(open, `, "tools": {"patch": false}`), "> /ws/a.txt"},
		{"opencode", with(open, `, "tools": {"read": false}`), "< /ws/a.txt"},
		{"opencode", with(open, `, "tools": {"*": false}`), "$ git status"},
		{"opencode", with(open, `, "tools": {"bash": "no"}`), "$ git status"},
		{"opencode", with(open, `, "agent": {"build": {"permission": {"bash": {"git status*": "deny"}}}}`), "$ git status"},
		{"opencode", with(open, `, "agent": {"build": {"permission": {"bash": {"*": "deny"}}}}`), "$ git status"},
		{"opencode", with(open, `, "agent": {"build": {"permission": {"bash": "ask"}}}`), "$ git status"},
		{"opencode", with(open, `, "agent": {"build": {"permission": {"edit": "deny"}}}`), "> /ws/a.txt"},
		{"opencode", with(open, `, "agent": {"build": {"permission": "deny"}}`), "> /ws/a.txt"},
		{"opencode", with(open, `, "agent": {"build": {"permission": {"*": "deny"}}}`), "> /ws/a.txt"},
		{"opencode", with(open, `, "agent": {"build": {"tools": {"bash": false}}}`), "$ git status"},
		{"opencode", with(open, `, "mode": {"plan": {"tools": {"write": false}}}`), "> /ws/a.txt"},
		{"opencode", `{"permission": {"bash": {"git *": "allow"}, "*": "deny"}}`, "$ git status"},
		{"opencode", `{"permission": {"bash": {"git *": "allow"}, "b*": "ask"}}`, "$ git status"},
		{"opencode", `{"permission": {"bash": {"git *": "allow", "git status": 7}}}`, "$ git status"},
		{"gemini", gemini + "[[rule]]\ntoolName = \"mcp_docs_search\"\ndecision = \"deny\"\npriority = 9", "mcp:docs:search"},
		{"gemini", gemini + "[[rule]]\ntoolName = \"*\"\ncommandPrefix = \"git\"\ndecision = \"deny\"\npriority = 9", "$ git status"},
		{"gemini", gemini + "[[rule]]\ntoolName = \"run_shell_command\"\nargsPattern = \"git\"\ndecision = \"deny\"\npriority = 9", "$ git status"},
		{"gemini", gemini + "[[rule]]\ntoolName = \"run_shell_command\"\ndecision = \"deny\"\npriority = 9\nmodes = [\"plan\"]", "$ git status"},
		{"gemini", gemini + "[[rule]]\ndecision = \"deny\"\npriority = 9", "mcp:docs:search"},
		{"gemini", gemini + "[[rule]]\nmcpName = \"*\"\ndecision = \"deny\"\npriority = 9", "mcp:docs:search"},
		{"gemini", gemini + "[[safety_checker]]\ntoolName = \"*\"", "$ git status"},
		{"vscode", with(code, `, "chat.tools.terminal.enableAutoApprove": false`), "$ git status"},
		{"vscode", with(code, `, "chat.tools.terminal.blockDetectedFileWrites": "all"`), "$ git status"},
		{"vscode", with(code, `, "chat.tools.eligibleForAutoApproval": {"fetch": false}`), "GET docs.example.com"},
		{"vscode", with(code, `, "chat.agent.sandbox": true`), "$ git status"},
		{"zed", with(zed, `, "profiles": {"write": {"tools": {"terminal": false}}}`, ""), "$ git status"},
		{"zed", with(zed, `, "profiles": {"write": {"tools": {"edit_file": false}}}`, ""), "> /ws/a.txt"},
		{"zed", with(zed, `, "profiles": {"write": {"context_servers": {"github": {"tools": {"get_issue": false}}}}}`, ""), "mcp:github:get_issue"},
		{"zed", with(zed, "", `, "context_servers": {"github": {"enabled": false}}`), "mcp:github:get_issue"},
		{"zed", strings.Replace(with(zed, "", ""), `"edit_file": {`, `"edit_file": {"always_deny": "x", `, 1), "> /ws/a.txt"},
		{"zed", strings.Replace(with(zed, "", ""), `"terminal": {`, `"terminal": {"always_deny": "x", `, 1), "$ git status"},
		{"capsule", "tools:\n  fs.read: {allow_paths: ['**'], max_size_bytes: lots}", "< /ws/a.txt"},
		{"capsule", "global_timeout_seconds: soon\ntools:\n  fs.read: {allow_paths: ['**'], allow_hidden: true}", "< /ws/a.txt"},
	} {
		res, err := translate.Translate(tt.agent, "settings", []byte(tt.source))
		if err != nil {
			t.Errorf("%s: %v\n%s", tt.agent, err, tt.source)
			continue
		}
		if allows(t, res.Policy)[tt.refused] {
			t.Errorf("%s: %q is allowed by\n%s\nfrom\n%s", tt.agent, tt.refused, res.Policy, tt.source)
		}
	}
}

// Nothing is lost for settings without a refusal: what they allow stays allowed.
func TestOrdinarySettingsStayAllowed(t *testing.T) {
	for _, tt := range []struct{ agent, source, allowed string }{
		{"codex", "model = \"gpt\"\nsandbox_mode = \"workspace-write\"\napproval_policy = \"on-request\"\n[tui]\nnotifications = true\n[features]\nunified_exec = true\n[projects.\"/ws\"]\ntrust_level = \"trusted\"\n" +
			"[model_providers.x]\nbase_url = \"y\"\n[mcp_servers.mail]\ncommand = \"x\"\nargs = [\"a\"]\nenabled = true\ndefault_tools_approval_mode = \"approve\"\n[mcp_servers.mail.env]\nA = \"b\"\n", "$ git status;> /ws/a.txt;mcp:mail:send"},
		{"claude", `{"$schema": "x", "model": "opus", "env": {"A": "b"}, "permissions": {"allow": ["Bash(git *)", "Edit", "mcp__mail"], "deny": ["WebSearch", "Read(.env)"]}, "hooks": {"PostToolUse": [{"matcher": "Edit"}]},` +
			`"statusLine": {"type": "command"}, "enabledMcpjsonServers": ["mail"], "sandbox": {"enabled": true}, "includeCoAuthoredBy": false}`, "$ git status;> /ws/a.txt;mcp:mail:send;< /ws/a.txt"},
		{"opencode", `{"$schema": "x", "model": "a/b", "theme": "x", "provider": {"a": {}}, "permission": {"*": "ask", "edit": "allow", "read": "allow", "bash": {"*": "ask", "git *": "allow"}, "mail_*": "deny"},` +
			`"tools": {"bash": true, "todowrite": false}, "agent": {"docs": {"model": "a/b", "permission": {"webfetch": "deny"}}}, "mcp": {"mail": {"type": "local", "command": ["x"], "enabled": true}}}`, "$ git status;> /ws/a.txt;< /ws/a.txt"},
		{"vscode", `{"editor.tabSize": 2, "chat.editor.fontSize": 12, "chat.agent.maxRequests": 20, "chat.tools.terminal.autoApprove": {"git": true}}`, "$ git status"},
		{"zed", `{"theme": "x", "agent": {"default_model": {"provider": "x"}, "default_profile": "write", "tool_permissions": {"tools": {"edit_file": {"default": "allow"}}}}, "context_servers": {"x": {"command": "y"}}}`, "> /ws/a.txt"},
	} {
		res, err := translate.Translate(tt.agent, "settings", []byte(tt.source))
		if err != nil {
			t.Fatal(err)
		}
		got := allows(t, res.Policy)
		for s := range strings.SplitSeq(tt.allowed, ";") {
			if !got[s] {
				t.Errorf("%s: %q is not allowed by\n%s%v", tt.agent, s, res.Policy, res.Dropped)
			}
		}
	}
}

// Random servers of Codex and switches of OpenCode, each with a model of what the source allows.
func TestSwitchesAgainstAModel(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the cases must be the same each time
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	allowed := 0
	for range 300 {
		mode, toolMode := pick("approve", "approve", "approve", "prompt", "auto", ""), pick("", "", "approve", "prompt", "auto", "x")
		on, toolOn, only, off := pick("", "true", "false"), pick("", "true", "false"), pick("", `"send"`, `"read_x"`), pick("", "", `"send"`)
		src := "sandbox_mode = \"read-only\"\n[mcp_servers.mail]\n"
		add := func(format, v string) {
			if v != "" {
				src += fmt.Sprintf(format+"\n", v)
			}
		}
		add("default_tools_approval_mode = %q", mode)
		add("enabled = %s", on)
		add("enabled_tools = [%s]", only)
		add("disabled_tools = [%s]", off)
		src += "[mcp_servers.mail.tools.send]\n"
		add("approval_mode = %q", toolMode)
		add("enabled = %s", toolOn)
		res, err := translate.Translate("codex", "config.toml", []byte(src))
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		may := (toolMode == "approve" || toolMode == "" && mode == "approve") && on != "false" && toolOn != "false" && off == "" && only != `"read_x"`
		got := allows(t, res.Policy)["mcp:mail:send"]
		if got && !may {
			t.Fatalf("the tool is allowed by\n%s\nfrom\n%s", res.Policy, src)
		}
		if got {
			allowed++
		}
		bash, agent, git := pick("true", "false"), pick("allow", "ask", "deny"), pick("allow", "ask", "deny")
		src = fmt.Sprintf(`{"tools": {"bash": %s}, "permission": {"bash": {"git *": %q}}, "agent": {"a": {"permission": {"bash": %s}}}}`, bash, git,
			pick(fmt.Sprintf("%q", agent), fmt.Sprintf(`{"git *": %q}`, agent), fmt.Sprintf(`{"*": %q}`, agent)))
		if res, err = translate.Translate("opencode", "opencode.json", []byte(src)); err != nil {
			t.Fatal(err)
		}
		got = allows(t, res.Policy)["$ git status"]
		if may := bash == "true" && git == "allow" && agent == "allow"; got != may {
			t.Fatalf("git status: allowed %v, the source says %v\n%s\n%s", got, may, src, res.Policy)
		}
	}
	if allowed < 20 {
		t.Errorf("only %d servers were allowed: the property was hardly tested", allowed)
	}
}
