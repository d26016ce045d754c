package hook_test

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/doors/hook"
)

// events are how each agent tells of a tool call, with the tool's name and input.
var events = map[string]func(name, tool, input string) string{
	"claude": snake, "codex": snake, "gemini": snake,
	"copilot": func(_, tool, input string) string {
		return fmt.Sprintf(`{"sessionId":"s","cwd":"/w","toolName":%q,"toolArgs":%s}`, tool, input)
	},
	"copilot pascal": snake,
	"antigravity": func(_, tool, input string) string {
		return fmt.Sprintf(`{"conversationId":"s","stepIdx":1,"workspacePaths":["/w"],"toolCall":{"name":%q,"args":%s}}`, tool, input)
	},
	"cursor": func(name, tool, input string) string {
		return fmt.Sprintf(`{"conversation_id":"s","cwd":"/w","hook_event_name":%q,"tool_name":%q,"tool_input":%s}`, name, tool, input)
	},
}

func snake(name, tool, input string) string {
	return fmt.Sprintf(`{"session_id":"s","cwd":"/w","hook_event_name":%q,"tool_name":%q,"tool_input":%s,"tool_use_id":"u"}`, name, tool, input)
}

// asks are the events with which the agents ask.
var asks = map[string]string{"claude": "PreToolUse", "codex": "PreToolUse", "gemini": "BeforeTool", "copilot": "", "copilot pascal": "PreToolUse", "cursor": "preToolUse", "antigravity": ""}

// fileTools are the tools that take a path, the name that each has for it, and its other arguments.
var fileTools = map[string][][3]string{
	"claude": {
		{"Read", "file_path"}, {"Write", "file_path", `"content":"x"`}, {"Edit", "file_path", `"old_string":"a","new_string":"b"`}, {"NotebookEdit", "notebook_path", `"new_source":"x"`},
		{"MultiEdit", "file_path", `"edits":[{"old_string":"a","new_string":"b"}]`}, {"Grep", "path", `"pattern":"x"`}, {"Glob", "path", `"pattern":"*"`}, {"LS", "path"},
	},
	"codex":          {{"view_image", "path"}},
	"copilot":        {{"view", "path"}, {"create", "path", `"file_text":"x"`}, {"edit", "path", `"old_str":"a","new_str":"b"`}, {"grep", "paths", `"pattern":"x"`}, {"rg", "paths", `"pattern":"x"`}, {"glob", "paths", `"pattern":"*"`}},
	"copilot pascal": {{"Read", "file_path"}, {"Write", "file_path", `"content":"x"`}, {"view", "path"}},
	"gemini": {
		{"read_file", "file_path"}, {"write_file", "file_path", `"content":"x"`}, {"replace", "file_path", `"old_string":"a","new_string":"b"`}, {"list_directory", "dir_path"}, {"glob", "dir_path", `"pattern":"*"`},
		{"grep_search", "dir_path", `"pattern":"x"`},
	},
	"antigravity": {
		{"view_file", "AbsolutePath"}, {"view_code_item", "File"}, {"write_to_file", "TargetFile", `"CodeContent":"x"`}, {"replace_file_content", "TargetFile", `"TargetContent":"a","ReplacementContent":"b"`},
		{"multi_replace_file_content", "TargetFile", `"ReplacementChunks":[{"TargetContent":"a","ReplacementContent":"b"}]`}, {"list_dir", "DirectoryPath"}, {"grep_search", "SearchPath", `"Query":"x"`},
		{"find_by_name", "SearchDirectory", `"Pattern":"*"`},
	},
	"cursor": {{"Read", "path"}, {"Write", "path", `"content":"x"`}, {"Delete", "path"}, {"Grep", "path", `"pattern":"x"`}},
}

// pathNames are the names that agents have for a path.
var pathNames = []string{"file_path", "path", "paths", "absolute_path", "notebook_path", "dir_path", "filePath", "FilePath", "File_Path", "PATH", "file-path", "filename", "file", "target_file", "uri", "filePaths", "notebooK_path", "directory"}

// decides reports whether an event is refused, or has a call on a file that a policy can deny.
func decides(agent, event, file string) bool {
	agent, _, _ = strings.Cut(agent, " ")
	e, err := hook.Parse(agent, []byte(event))
	if err != nil || e.Refusal != "" {
		return true
	}
	return slices.ContainsFunc(e.Calls, func(c hook.Call) bool {
		b, err := canon.Marshal(map[string]any(c.Args))
		p, _ := c.Args["path"].(string)
		return err == nil && (path.Clean(p) == path.Join("/w", file) || strings.Contains(string(b), `"script":"cat `+file))
	})
}

// Of several names of an argument, no one knows which the agent uses: the denied file is among
// the calls, or the event is refused.
func TestNamesOfArguments(t *testing.T) {
	for agent, tools := range fileTools {
		for _, one := range tools {
			tool, name, rest := one[0], one[1], one[2]
			event := func(parts ...string) string {
				return events[agent](asks[agent], tool, "{"+strings.Join(slices.DeleteFunc(append(parts, rest), func(s string) bool { return s == "" }), ",")+"}")
			}
			field := func(name, value string) string { return fmt.Sprintf("%q:%s", name, value) }
			if got := event(field(name, `"ok"`)); decides(agent, got, ".env") || !decides(agent, got, "ok") {
				t.Errorf("%s: honest work is refused: %s", agent, got)
			}
			for _, value := range []string{`".env"`, `[".env"]`, `{"path":".env"}`, `"./.env"`, `"x/../.env"`} {
				for _, other := range pathNames {
					for _, known := range []string{name, "path", "file_path", "absolute_path", "FilePath"} {
						if known == other {
							continue // tried below
						}
						for _, got := range []string{event(field(known, `"ok"`), field(other, value)), event(field(other, value), field(known, `"ok"`)), event(field(known, `""`), field(other, value))} {
							if !decides(agent, got, ".env") {
								t.Errorf("%s: the file is not decided: %s", agent, got)
							}
						}
					}
				}
				if got := event(field(name, `"ok"`), field(name, value)); !decides(agent, got, ".env") {
					t.Errorf("%s: a duplicate key passes: %s", agent, got)
				}
			}
		}
	}
}

// The same holds for the other arguments: a script, its folder, a URL, a pattern, a patch.
func TestNamesOfOtherArguments(t *testing.T) {
	for _, c := range []struct{ agent, tool, honest, added string }{
		{"claude", "Bash", `"command":"ls"`, `"cmd":"cat .env"`},
		{"claude", "Bash", `"command":"ls"`, `"Command":"cat .env"`},
		{"claude", "Bash", `"command":"ls"`, `"script":"cat .env"`},
		{"claude", "Bash", `"command":"ls"`, `"workdir":"/etc"`},
		{"codex", "Bash", `"command":"ls"`, `"cmd":"cat .env"`},
		{"codex", "Bash", `"command":"ls"`, `"workdir":"/etc"`},
		{"codex", "apply_patch", `"command":"*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"`, `"input":"*** Begin Patch\n*** Delete File: .env\n*** End Patch"`},
		{"copilot", "apply_patch", `"input":"*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"`, `"patch":"*** Begin Patch\n*** Delete File: .env\n*** End Patch"`},
		{"copilot", "bash", `"command":"ls"`, `"commandLine":"cat .env"`},
		{"copilot", "bash", `"command":"ls"`, `"cwd":"/etc"`},
		{"gemini", "run_shell_command", `"command":"ls","dir_path":"src"`, `"directory":"/etc"`},
		{"gemini", "run_shell_command", `"command":"ls"`, `"cmd":"cat .env"`},
		{"cursor", "Shell", `"command":"ls","working_directory":"/w/src"`, `"cwd":"/etc"`},
		{"antigravity", "run_command", `"CommandLine":"ls"`, `"command":"cat .env"`},
		{"antigravity", "run_command", `"CommandLine":"ls","Cwd":"/w"`, `"WorkingDirectory":"/etc"`},
		{"antigravity", "read_url_content", `"Url":"https://a.example/"`, `"url":"https://evil.example/"`},
		{"antigravity", "write_to_file", `"TargetFile":"a","CodeContent":"x"`, `"Content":"z"`},
		{"claude", "WebFetch", `"url":"https://a.example/"`, `"URL":"https://evil.example/"`},
		{"claude", "WebFetch", `"url":"https://a.example/"`, `"uri":"https://evil.example/"`},
		{"claude", "Edit", `"file_path":"a","old_string":"x","new_string":"y"`, `"new_str":"z"`},
		{"claude", "Edit", `"file_path":"a","old_string":"x","new_string":"y"`, `"Old_String":"z"`},
		{"claude", "Write", `"file_path":"a","content":"x"`, `"file_text":"z"`},
	} {
		if got := events[c.agent](asks[c.agent], c.tool, "{"+c.honest+"}"); strings.HasPrefix(describe(hook.Parse(c.agent, []byte(got))), "error") {
			t.Errorf("honest work is refused: %s", got)
		}
		for _, input := range []string{"{" + c.honest + "," + c.added + "}", "{" + c.added + "," + c.honest + "}"} {
			got := describe(hook.Parse(c.agent, []byte(events[c.agent](asks[c.agent], c.tool, input))))
			if !strings.HasPrefix(got, "error") && !strings.HasPrefix(got, "refused") {
				t.Errorf("%s %s passes as %s", c.agent, input, got)
			}
		}
	}
}

// A tool that is not known is decided by the files that its arguments name, however deep they are, and by its own name.
func TestFilesOfUnknownTools(t *testing.T) {
	nested := []string{`%s`, `{"a":[0,%s,null]}`, `{"items":[{"x":true,"y":%s}]}`, `{"z":{"description":"d","q":%s}}`}
	for agent, event := range events {
		for _, name := range append(slices.Clip(pathNames), "fileName", "output_file", "inputPath") {
			for _, value := range []string{`".env"`, `["ok",".env"]`, `"/w/.env"`, `"file:///w/.env"`, `"./.env"`, `"x/../.env"`, `[[".env"]]`, `{"path":".env"}`} {
				for _, form := range nested {
					input := fmt.Sprintf(form, fmt.Sprintf("{%q:%s}", name, value))
					got := event(asks[agent], "SomethingNew", input)
					if !decides(agent, got, ".env") {
						t.Fatalf("%s: the file is not decided: %s", agent, got)
					}
					if told := describe(hook.Parse(strings.Fields(agent)[0], []byte(got))); strings.Contains(told, "[") && !strings.Contains(told, ":SomethingNew ") {
						t.Fatalf("%s: the tool is not decided: %s", agent, told)
					}
				}
			}
		}
	}
}

// eventNames are names of events of all agents, and others.
var eventNames = []string{
	"PreToolUse", "PostToolUse", "PostToolUseFailure", "PostToolBatch", "PermissionRequest", "SessionStart", "SessionEnd", "Stop", "SubagentStart", "UserPromptSubmit", "Notification", "PreCompact",
	"preToolUse", "postToolUse", "postToolUseFailure", "beforeShellExecution", "afterShellExecution", "beforeMCPExecution", "beforeReadFile", "afterFileEdit", "beforeTabFileRead", "beforeSubmitPrompt", "sessionStart",
	"sessionEnd", "stop", "BeforeTool", "AfterTool", "BeforeModel", "pretooluse", "PRETOOLUSE", "pre_tool_use", "PreToolUse ", "", "before", "after", "end", "nothing",
}

// reports are the events after a call, whose calls are recorded and not decided.
var reports = map[string][]string{
	"claude": {"PostToolUse", "PostToolUseFailure"}, "codex": {"PostToolUse"}, "copilot": {"PostToolUse"}, "gemini": {"AfterTool"}, "cursor": {"postToolUse", "postToolUseFailure", "afterShellExecution"}, "antigravity": {"AfterTool"},
}

// No event that carries a tool call passes undecided, whatever its name and whichever agent's
// form it has.
func TestEventsWithATool(t *testing.T) {
	for _, agent := range hook.Agents() {
		for form, event := range events {
			for _, name := range eventNames {
				for _, call := range [][2]string{
					{"Bash", `{"command":"cat .env"}`}, {"Shell", `{"command":"cat .env"}`}, {"bash", `{"command":"cat .env"}`}, {"run_shell_command", `{"command":"cat .env"}`},
					{"Read", `{"file_path":".env"}`}, {"view", `{"path":".env"}`}, {"read_file", `{"file_path":".env"}`}, {"unknown", `{"file_path":".env"}`},
				} {
					got := event(name, call[0], call[1])
					if slices.Contains(reports[agent], name) && strings.Contains(got, "hook_event_name") {
						continue
					}
					if !decides(agent, got, ".env") {
						t.Errorf("%s, in the form of %s: nothing is decided of %s", agent, form, got)
					}
				}
			}
		}
	}
	for _, event := range []string{
		`{"conversation_id":"s","cwd":"/w","hook_event_name":"beforeShellExecution","command":"cat .env"}`, `{"conversation_id":"s","cwd":"/w","hook_event_name":"beforeReadFile","file_path":"/w/.env"}`,
		`{"conversation_id":"s","cwd":"/w","hook_event_name":"beforeTabFileRead","file_path":"/w/.env"}`, `{"event":"before","session":"s","cwd":"/w","tool":"fs.read","args":{"path":"/w/.env"}}`,
		`{"sessionId":"s","cwd":"/w","tool_name":"view","toolArgs":{"path":".env"}}`, `{"sessionId":"s","cwd":"/w","toolCall":{"name":"view","args":{"path":".env"}}}`,
	} {
		for _, agent := range hook.Agents() {
			if !decides(agent, event, ".env") {
				t.Errorf("%s: nothing is decided of %s", agent, event)
			}
		}
	}
}

// Events without a tool call pass.
func TestEventsWithoutATool(t *testing.T) {
	for agent, names := range map[string][]string{
		"claude": {"SessionStart", "UserPromptSubmit", "Stop", "Notification", "SessionEnd"}, "codex": {"SessionStart", "Stop", "SessionEnd"}, "gemini": {"SessionStart", "BeforeModel", "SessionEnd"},
		"cursor": {"sessionStart", "stop", "beforeSubmitPrompt", "sessionEnd"}, "copilot": {"SessionStart", "SessionEnd"},
	} {
		for _, name := range names {
			event, err := json.Marshal(map[string]any{"session_id": "s", "conversation_id": "s", "cwd": "/w", "hook_event_name": name, "prompt": "x", "reason": "other", "model": "m"})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := hook.Parse(agent, event); err != nil {
				t.Errorf("%s %s: %v", agent, name, err)
			}
		}
	}
}
