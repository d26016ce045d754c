package hook_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/hook"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The inputs were captured from the agents themselves.
func TestCapturedEvents(t *testing.T) {
	for file, want := range map[string]struct {
		agent  string
		phase  hook.Phase
		id     string
		dir    string
		output bool
	}{
		"claude.pretool.sample.json":         {"claude", hook.Before, "toolu_01", "/home/ann/project", false},
		"claude.posttool.sample.json":        {"claude", hook.After, "toolu_01", "/home/ann/project", true},
		"codex.pretool.sample.json":          {"codex", hook.Before, "call1", "/home/ann/project", false},
		"codex.posttool.sample.json":         {"codex", hook.After, "call1", "/home/ann/project", true},
		"copilot.pretool.sample.json":        {"copilot", hook.Before, "", "/home/ann/project3", false},
		"copilot.pretool.pascal.sample.json": {"copilot", hook.Before, "", "/home/ann/project3", false},
		"copilot.posttool.sample.json":       {"copilot", hook.After, "", "/home/ann/project3", true},
		"gemini.pretool.sample.json":         {"gemini", hook.Before, "", "/home/ann/project4", false},
		"gemini.posttool.sample.json":        {"gemini", hook.After, "", "/home/ann/project4", true},
	} {
		e, err := hook.Parse(want.agent, read(t, file))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		calls := []hook.Call{{Tool: "shell.run", Args: tool.Args{"script": "echo ran > /home/ann/marker", "cwd": want.dir}}}
		if diff := cmp.Diff(calls, e.Calls); diff != "" {
			t.Errorf("%s: the calls differ (-want +got):\n%s", file, diff)
		}
		if e.Phase != want.phase || e.ID != want.id || e.Dir != want.dir || len(e.Session) != 36 || (e.Output != nil) != want.output || e.Refusal != "" || e.Internal {
			t.Errorf("%s: %+v", file, e)
		}
	}
}

func before(name, input string) string {
	return `{"session_id":"s","cwd":"/w","hook_event_name":"PreToolUse","permission_mode":"default","tool_name":"` + name + `","tool_input":` + input + `,"tool_use_id":"u","new_field":[{}]}`
}

func TestTools(t *testing.T) {
	gemini := func(name, input string) string {
		return strings.Replace(before(name, input), "PreToolUse", "BeforeTool", 1)
	}
	copilot := func(name, input string) string {
		return `{"sessionId":"s","cwd":"/w","toolName":"` + name + `","toolArgs":` + input + `}`
	}
	cursor := func(event, rest string) string {
		return `{"conversation_id":"s","hook_event_name":"` + event + `","workspace_roots":["/w"],` + rest + `}`
	}
	patch := `*** Begin Patch\n*** Add File: a.txt\n+one\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-old\n+new\n same\n*** Delete File: /x/d\n*** End Patch`
	patched := `[fs.write {"content":"one\n","path":"/w/a.txt"}] [fs.edit {"edits":[{"new":"new\nsame\n","old":"old\nsame\n"}],"path":"/w/b.txt"}] ` +
		`[fs.move {"from":"/w/b.txt","to":"/w/c.txt"}] [fs.delete {"path":"/x/d"}]`
	for _, c := range []struct{ agent, event, want string }{
		{"claude", before("Bash", `{"command":"ls"}`), `[shell.run {"cwd":"/w","script":"ls"}]`},
		{"claude", before("Read", `{"file_path":"a","offset":3}`), `[fs.read {"path":"/w/a"}]`},
		{"claude", before("Read", `{"file_path":"../a"}`), `[fs.read {"path":"/w/../a"}] [fs.read {"path":"/a"}]`},
		{"claude", before("Read", `{"file_path":"e\u0301"}`), "[fs.read {\"path\":\"/w/e\u0301\"}] [fs.read {\"path\":\"/w/\u00e9\"}]"},
		{"claude", before("Read", `{"file_path":"a","path":"a"}`), `[fs.read {"path":"/w/a"}]`},
		{"claude", before("Read", `{"file_path":"a","path":"b"}`), `error: the fields "file_path" and "path" differ, and only one of them can be meant`},
		{"claude", before("Read", `{"path":"b"}`), `error: the field "path" is not known; expected "file_path"`},
		{"claude", before("Bash", `{"command":"ls","cwd":"/x"}`), `refused: the tool "Bash" of claude takes no folder`},
		{"claude", before("Write", `{"file_path":"/a","content":"x"}`), `[fs.write {"content":"x","path":"/a"}]`},
		{"claude", before("Edit", `{"file_path":"a","old_string":"x","new_string":"y","replace_all":true}`), `[fs.edit {"edits":[{"all":true,"new":"y","old":"x"}],"path":"/w/a"}]`},
		{"claude", before("Edit", `{"file_path":"a","old_string":"","new_string":"y"}`), `[fs.write {"content":"y","path":"/w/a"}]`},
		{"claude", before("MultiEdit", `{"file_path":"a","edits":[{"old_string":"x","new_string":"y"},{"old_string":"p","new_string":"q"}]}`), `[fs.edit {"edits":[{"new":"y","old":"x"},{"new":"q","old":"p"}],"path":"/w/a"}]`},
		{"claude", before("NotebookEdit", `{"notebook_path":"n.ipynb","new_source":"1"}`), `[fs.write {"content":"1","path":"/w/n.ipynb"}]`},
		{"claude", before("Grep", `{"pattern":"x"}`), `[fs.grep {"path":"/w/.","pattern":"x"}] search /w/.`},
		{"claude", before("Grep", `{"pattern":"x","path":"src"}`), `[fs.grep {"path":"/w/src","pattern":"x"}] search /w/src`},
		{"claude", before("Glob", `{"pattern":"**/*.go"}`), `[fs.list {"path":"/w/."}]`},
		{"claude", before("Glob", `{"pattern":"/etc/*"}`), `[fs.list {"path":"/etc/"}]`},
		{"claude", before("Glob", `{"pattern":"../x/*","path":"/w/src"}`), `[fs.list {"path":"/w/src/../x/"}] [fs.list {"path":"/w/x"}]`},
		{"claude", before("Glob", `{"pattern":"src/**/*.{ts,tsx}"}`), `[fs.list {"path":"/w/src/"}]`},
		{"claude", before("Glob", `{"pattern":"*/../../*"}`), `refused: the pattern "*/../../*" leaves its folder`},
		{"claude", before("WebFetch", `{"url":"https://a.example/","prompt":"p"}`), `[http.get {"url":"https://a.example/"}]`},
		{"claude", before("mcp__gh__get_issue", `{"n":1}`), `[mcp:gh:get_issue {"n":1}]`},
		{"claude", before("mcp__gh__", `{"n":1}`), `[agent:claude:mcp__gh__ {"n":1}]`},
		{"claude", before("mcp__gh__né", `{"n":1}`), `refused: remit does not know the tool "mcp__gh__né" of claude, and no policy can name it`},
		{"claude", before("né", `{"n":1}`), `refused: remit does not know the tool "né" of claude, and no policy can name it`},
		{"claude", before("TodoWrite", `{}`), `internal`},
		{"claude", before("EnterWorktree", `{"name":"x"}`), `internal`},
		{"claude", before("ExitWorktree", `{"action":"keep"}`), `internal`},
		{"claude", before("CronCreate", `{"cron":"0 9 * * *","prompt":"p"}`), `internal`},
		{"claude", before("Monitor", `{"command":"tail -f log","description":"d"}`), `[shell.run {"cwd":"/w","script":"tail -f log"}]`},
		{"claude", before("Monitor", `{"ws":{"url":"wss://h.example/x"},"command":"true"}`), `refused: no policy can decide about a WebSocket of the tool Monitor; give it a command`},
		{"claude", before("Monitor", `{}`), `error: the field "command" is missing or empty`},
		{"claude", before("LSP", `{"operation":"hover","filePath":"a.go","line":1,"character":1}`), `[fs.read {"path":"/w/a.go"}]`},
		{"claude", before("PowerShell", `{"command":"git status"}`), `[shell.run {"cwd":"/w","script":"git status"}] [agent:claude:PowerShell {"command":"git status"}]`},
		{"claude", before("Artifact", `{"file_path":"../a","assets":[{"localFile":"b"}],"title":"/t"}`), `[fs.read {"path":"/w/b"}] [fs.read {"path":"/w/../a"}] [fs.read {"path":"/a"}] [fs.read? {"path":"/t"}] [agent:claude:Artifact {"assets":[{"localFile":"b"}],"file_path":"../a","title":"/t"}]`},
		{"claude", before("New", `{"text":"/etc/x","note":"/review the file","page":"HTTPS://a.example/x","about":"https://a.example is new","at":"file:///etc/y"}`), `[fs.read {"path":"/etc/y"}] [fs.read? {"path":"/review the file"}] [http.get? {"url":"https://a.example/x"}] [fs.read? {"path":"/etc/x"}] ` +
			`[agent:claude:New {"about":"https://a.example is new","at":"file:///etc/y","note":"/review the file","page":"HTTPS://a.example/x","text":"/etc/x"}]`},
		{"claude", before("New", `{"paths":["~/x"]}`), `[fs.read {"path":"~/x"}] [agent:claude:New {"paths":["~/x"]}]`},
		{"claude", before("New", `{"path":"C:\\x"}`), `[fs.read? {"path":"/w/C:\\x"}] [fs.read? {"path":"/w/C:/x"}] [agent:claude:New {"path":"C:\\x"}]`},
		{"claude", before("New", `{"path":"@scope/pkg"}`), `[fs.read? {"path":"/w/@scope/pkg"}] [fs.read? {"path":"/w/scope/pkg"}] [agent:claude:New {"path":"@scope/pkg"}]`},
		{"claude", before("New", `{"search":"file://","q":"/","z":"//"}`), `[fs.read? {"path":"/"}] [fs.read? {"path":"//"}] [agent:claude:New {"q":"/","search":"file://","z":"//"}]`},
		{"claude", before("New", `{"url":"a.example","uri":"x://y","href":"ws://b.example/c"}`), `[http.get {"url":"http://b.example/c"}] [fs.read? {"path":"/w/x://y"}] [http.get? {"url":"https://a.example"}] [agent:claude:New {"href":"ws://b.example/c","uri":"x://y","url":"a.example"}]`},
		{"claude", before("Workflow", `{"scriptPath":"/x/w.js"}`), `[fs.read {"path":"/x/w.js"}]`},
		{"claude", before("Workflow", `{"script":"x"}`), `internal`},
		{"claude", before("Workflow", `{"script_path":"/x/w.js","scriptPath":"y"}`), `error: the fields "scriptPath" and "script_path" differ, and only one of them can be meant`},
		{"claude", before("EnterWorktree", `{"path":"../other"}`), `[fs.read {"path":"/w/../other"}] [fs.read {"path":"/other"}]`},
		{"claude", before("EnterWorktree", `{"name":"a"}`), `internal`},
		{"claude", before("New", `{"command":"save"}`), `[shell.run {"cwd":"/w","script":"save"}] [agent:claude:New {"command":"save"}]`},
		{"claude", before("New", `{"command":"git","args":["push","a b"]}`), `[shell.run {"cwd":"/w","script":"git push 'a b'"}] [shell.run {"cwd":"/w","script":"git"}] [agent:claude:New {"args":["push","a b"],"command":"git"}]`},
		{"claude", before("New", `{"command":{"program":"sudo","args":["ls"]}}`), `[shell.run {"cwd":"/w","script":"sudo ls"}] [shell.run? {"cwd":"/w","script":"ls"}] [shell.run? {"cwd":"/w","script":"sudo"}] [agent:claude:New {"command":{"args":["ls"],"program":"sudo"}}]`},
		{"claude", before("ReadMcpResourceTool", `{"server":"gh","uri":"file:///x"}`), `[mcp:gh:resources.read {"server":"gh","uri":"file:///x"}]`},
		{"claude", before("WebSearch", `{"query":"q"}`), `[provider.search {"query":"q"}]`},
		{"gemini", gemini("google_web_search", `{"query":"q"}`), `[provider.search {"query":"q"}]`},
		{"claude", before("Read", `{"file_path":"~/.ssh/id"}`), `error: the path "~/.ssh/id" starts with ~, which agents expand differently`},
		{"claude", before("Read", `{"file_path":3}`), `error: the field "file_path" is not a string`},
		{"claude", before("Bash", `{}`), `error: the field "command" is missing or empty`},
		{"claude", before("Bash", `[]`), `error: the field "tool_input" is not an object`},
		{"codex", before("apply_patch", `{"command":"`+patch+`"}`), patched},
		{"codex", before("apply_patch", `{"command":"rm -rf"}`), `refused: the patch cannot be read: it does not stand between *** Begin Patch and *** End Patch`},
		{"codex", before("apply_patch", `{"command":"*** Begin Patch\n*** Add File: a\n*** Rename File: b\n*** End Patch"}`), `refused: the patch cannot be read: "*** Rename File: b" is not a valid line`},
		{"codex", before("apply_patch", `{"command":"*** Begin Patch\nx\n*** End Patch"}`), `refused: the patch cannot be read: "x" is not a valid line`},
		{"codex", before("apply_patch", `{"command":"*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n@@\n+added\n*** End Patch"}`), `[fs.write {"content":"added\n","path":"/w/a"}] [fs.edit {"edits":[{"new":"y\n","old":"x\n"}],"path":"/w/a"}]`},
		{"codex", before("apply_patch", `{"command":"*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** End Patch"}`), `[fs.move {"from":"/w/a","to":"/w/b"}]`},
		{"codex", before("Bash", `{"command":"cd x && apply_patch <<'EOF'\n*** Begin Patch"}`), `refused: Codex carries a patch in a shell command out by itself; use its tool apply_patch`},
		{"codex", before("Bash", `{"command":"rg apply_patch src"}`), `[shell.run {"cwd":"/w","script":"rg apply_patch src"}]`},
		{"codex", before("web_search", `{}`), `[agent:codex:web_search {}]`},
		{"copilot", copilot("view", `{"path":"a"}`), `[fs.read {"path":"/w/a"}]`},
		{"copilot", copilot("create", `"{\"path\":\"a\",\"file_text\":\"t\"}"`), `[fs.write {"content":"t","path":"/w/a"}]`},
		{"copilot", copilot("grep", `{"pattern":"x","paths":["a","../b"]}`), `[fs.grep {"path":"/w/a","pattern":"x"}] [fs.grep {"path":"/w/../b","pattern":"x"}] [fs.grep {"path":"/b","pattern":"x"}] search /w/a search /w/../b search /b`},
		{"copilot", copilot("rg", `{"pattern":"x","paths":"a"}`), `[fs.grep {"path":"/w/a","pattern":"x"}] search /w/a`},
		{"copilot", copilot("glob", `{"pattern":"*","paths":"/etc"}`), `[fs.list {"path":"/etc"}]`},
		{"copilot", copilot("glob", `{"pattern":"*","paths":[3]}`), `error: the field "paths" is not a path or a list of paths`},
		{"copilot", copilot("write_bash", `{}`), `[agent:copilot:write_bash {}]`},
		{"gemini", gemini("read_file", `{"file_path":"a"}`), `[fs.read {"path":"/w/a"}]`},
		{"gemini", gemini("run_shell_command", `{"command":"ls","dir_path":"src"}`), `[shell.run {"cwd":"/w/src","script":"ls"}]`},
		{"gemini", gemini("replace", `{"file_path":"a","old_string":"x","new_string":"y"}`), `[fs.edit {"edits":[{"new":"y","old":"x"}],"path":"/w/a"}]`},
		{"cursor", cursor("beforeShellExecution", `"command":"ls"`), `[shell.run {"cwd":"/w","script":"ls"}]`},
		{"cursor", cursor("beforeReadFile", `"file_path":"/a"`), `[fs.read {"path":"/a"}]`},
		{"cursor", cursor("preToolUse", `"tool_name":"Delete","tool_input":{"path":"a"}`), `[fs.delete {"path":"/w/a"}]`},
		{"cursor", cursor("preToolUse", `"tool_name":"Shell","tool_input":{"command":"ls","working_directory":"/x"}`), `[shell.run {"cwd":"/x","script":"ls"}]`},
		{"cursor", cursor("beforeMCPExecution", `"tool_name":"x"`), `refused: Cursor does not say which MCP server has the tool "x"`},
		{"generic", `{"event":"before","session":"s","tool":"time.now"}`, `[time.now {}]`},
		{"generic", `{"event":"during","session":"s","tool":"time.now"}`, `error: the event "during" is not valid; expected before, after or end`},
		{"generic", `{"event":"before","session":"","tool":"time.now"}`, `error: the session's ID "" is not valid; expected 1 to 200 visible characters`},
		{"generic", `{"event":"before","event":"after","session":"s","tool":"time.now"}`, `error: the event is not valid JSON`},
		{"claude", `[]`, `error: the event is not a JSON object`},
		{"claude", strings.Replace(before("Bash", `{"command":"ls"}`), "/w", "w", 1), `error: the folder "w" is not absolute`},
		{"nosuch", `{}`, `error: "nosuch" is not a known agent`},
	} {
		if got := describe(hook.Parse(c.agent, []byte(c.event))); got != c.want && !(strings.HasPrefix(c.want, "error: ") && strings.Contains(got, c.want[len("error: "):])) {
			t.Errorf("%s %s\n got %s\nwant %s", c.agent, c.event, got, c.want)
		}
	}
}

func describe(e *hook.Event, err error) string {
	switch {
	case err != nil:
		return "error: " + err.Error()
	case e.Refusal != "":
		return "refused: " + e.Refusal
	case e.Internal:
		return "internal"
	}
	var parts []string
	for _, c := range e.Calls {
		b, err := canon.Marshal(map[string]any(c.Args))
		if err != nil {
			return err.Error()
		}
		mark := map[bool]string{true: "?"}[c.Guess]
		parts = append(parts, "["+string(c.Tool)+mark+" "+string(b)+"]")
	}
	for _, dir := range e.Search {
		parts = append(parts, "search "+dir)
	}
	return strings.Join(parts, " ")
}

func TestAnswers(t *testing.T) {
	event := map[string]string{
		"claude": before("Bash", `{"command":"ls"}`), "codex": before("Bash", `{"command":"ls"}`),
		"copilot": `{"sessionId":"s","cwd":"/w","toolName":"bash","toolArgs":{"command":"ls"}}`,
		"gemini":  strings.Replace(before("run_shell_command", `{"command":"ls"}`), "PreToolUse", "BeforeTool", 1),
		"cursor":  `{"conversation_id":"s","hook_event_name":"beforeShellExecution","command":"ls"}`,
		"generic": `{"event":"before","session":"s","tool":"time.now"}`,
	}
	claude := func(effect string) string {
		return `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"` + effect + `","permissionDecisionReason":"why"}}`
	}
	for agent, want := range map[string][3]string{ // deny, ask, allow
		"claude":  {claude("deny"), claude("ask"), claude("allow")},
		"codex":   {claude("deny"), claude("deny"), ""}, // never ask, never a bare allow
		"copilot": {`{"permissionDecision":"deny","permissionDecisionReason":"why"}`, `{"permissionDecision":"ask","permissionDecisionReason":"why"}`, `{"permissionDecision":"allow","permissionDecisionReason":"why"}`},
		"gemini":  {`{"decision":"deny","reason":"why"}`, `{"decision":"deny","reason":"why"}`, ""},
		"cursor":  {`{"agent_message":"why","permission":"deny","user_message":"why"}`, `{"agent_message":"why","permission":"ask","user_message":"why"}`, `{"agent_message":"why","permission":"allow","user_message":"why"}`},
		"generic": {`{"decision":"deny","reason":"why"}`, `{"decision":"deny","reason":"why"}`, `{"decision":"allow","reason":"why"}`},
	} {
		e, err := hook.Parse(agent, []byte(event[agent]))
		if err != nil {
			t.Fatalf("%s: %v", agent, err)
		}
		for i, effect := range []policy.Effect{policy.Deny, policy.Ask, policy.Allow} {
			got, err := e.Answer(hook.Verdict{Effect: effect, Reason: "why"})
			if err != nil || strings.TrimSuffix(string(got), "\n") != want[i] {
				t.Errorf("%s %s: %s, %v; want %s", agent, effect, got, err, want[i])
			}
		}
		if got, err := e.Answer(hook.Verdict{}); err != nil || !strings.Contains(string(got), `"deny"`) {
			t.Errorf("%s: the zero verdict gives %s, %v", agent, got, err)
		}
	}
}

// Claude Code answers its own questions in these modes, so the user would not be asked.
func TestClaudeIsNotAskedWithoutItsUser(t *testing.T) {
	for mode, asks := range map[string]bool{"default": true, "acceptEdits": true, "plan": true, "auto": true, "bypassPermissions": false, "dontAsk": false, "": false} {
		e, err := hook.Parse("claude", []byte(strings.Replace(before("Bash", `{"command":"ls"}`), `"default"`, `"`+mode+`"`, 1)))
		if err != nil || e.Asks != asks {
			t.Errorf("%s: asks %v, %v", mode, e.Asks, err)
		}
	}
}

// Whatever an agent sends, an event is refused, has nothing to decide, or names calls that
// the catalog's tools can be asked for; and each answer is one JSON object or nothing.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		agent, _, _ := strings.Cut(filepath.Base(file), ".")
		f.Add(agent, b)
	}
	f.Add("codex", []byte(before("apply_patch", `{"command":"*** Begin Patch\n*** Update File: b\n@@\n-o\n*** End Patch"}`)))
	f.Add("generic", []byte(`{"event":"before","session":"s","tool":"time.now","asks":true}`))
	f.Fuzz(func(t *testing.T, agent string, src []byte) {
		e, err := hook.Parse(agent, src)
		if err != nil {
			return
		}
		if e.Phase == hook.Invalid || e.Phase == hook.Before && !e.Internal && e.Refusal == "" && len(e.Calls) == 0 {
			t.Fatalf("%+v", e)
		}
		for _, c := range e.Calls {
			if _, err := tool.ParseID(string(c.Tool)); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		for _, effect := range []policy.Effect{policy.Deny, policy.Ask, policy.Allow} {
			out, err := e.Answer(hook.Verdict{Effect: effect, Reason: "why"})
			if err != nil {
				t.Fatal(err)
			}
			if e.Phase == hook.Before && !e.Internal && effect == policy.Deny && !strings.Contains(string(out), `"deny"`) {
				t.Fatalf("a denial prints %q", out)
			}
			var one map[string]any
			if dec := json.NewDecoder(strings.NewReader(string(out))); len(out) > 0 && (dec.Decode(&one) != nil || dec.More()) {
				t.Fatalf("the answer is %q", out)
			}
		}
	})
}

// The calls of an event are on the agent's own files only if all of its files are.
func TestOwnFiles(t *testing.T) {
	of := func(path string, write bool) tool.ID {
		switch {
		case !strings.HasPrefix(path, "/own/"):
			return ""
		case write:
			return tool.AgentWrite
		}
		return tool.AgentRead
	}
	for event, want := range map[string]string{
		before("Read", `{"file_path":"/own/a"}`):                                   `[agent.read {"path":"/own/a"}]`,
		before("Write", `{"file_path":"/own/a","content":"x"}`):                    `[agent.write {"content":"x","path":"/own/a"}]`,
		before("Edit", `{"file_path":"/own/a","old_string":"a","new_string":"b"}`): `[agent.write {"edits":[{"new":"b","old":"a"}],"path":"/own/a"}]`,
		before("Grep", `{"pattern":"x","path":"/own/a"}`):                          `[agent.read {"path":"/own/a","pattern":"x"}]`,
		before("Read", `{"file_path":"/own/../a"}`):                                `[fs.read {"path":"/own/../a"}] [fs.read {"path":"/a"}]`,
		before("Grep", `{"pattern":"x"}`):                                          `[fs.grep {"path":"/w/.","pattern":"x"}] search /w/.`,
		before("New", `{"path":"/own/a"}`):                                         `[agent.read {"path":"/own/a"}] [agent:claude:New {"path":"/own/a"}]`,
		before("Bash", `{"command":"cat /own/a"}`):                                 `[shell.run {"cwd":"/w","script":"cat /own/a"}]`,
		before("WebFetch", `{"url":"https://a.example/","prompt":"/own/"}`):        `[http.get {"url":"https://a.example/"}]`,
	} {
		e, err := hook.Parse("claude", []byte(event))
		if err != nil {
			t.Fatal(err)
		}
		e.OwnFiles(of)
		if got := describe(e, nil); got != want {
			t.Errorf("%s is decided as %s, want %s", event, got, want)
		}
	}
}
