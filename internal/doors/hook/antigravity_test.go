package hook_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/hook"
)

func TestAntigravityTools(t *testing.T) {
	for call, want := range map[[2]string]string{
		{"run_command", `{"CommandLine":"ls","Cwd":"/w/src","WaitMsBeforeAsync":5,"BypassSandbox":true}`}: `[shell.run {"cwd":"/w/src","script":"ls"}]`,
		{"run_command", `{"Cwd":"/w"}`}:                                                                                                                       `error: E9001 the field "CommandLine" is missing or empty`,
		{"view_file", `{"AbsolutePath":"/w/../a","StartLine":1}`}:                                                                                             `[fs.read {"path":"/w/../a"}] [fs.read {"path":"/a"}]`,
		{"write_to_file", `{"TargetFile":"/a","CodeContent":"x","Overwrite":true}`}:                                                                           `[fs.write {"content":"x","path":"/a"}]`,
		{"replace_file_content", `{"TargetFile":"/a","TargetContent":"x","ReplacementContent":"y","AllowMultiple":true,"StartLine":1}`}:                       `[fs.edit {"edits":[{"all":true,"new":"y","old":"x"}],"path":"/a"}]`,
		{"multi_replace_file_content", `{"TargetFile":"/a","ReplacementChunks":[{"TargetContent":"x","ReplacementContent":"y"},{"ReplacementContent":"z"}]}`}: `[fs.write {"content":"z","path":"/a"}] [fs.edit {"edits":[{"new":"y","old":"x"}],"path":"/a"}]`,
		{"grep_search", `{"SearchPath":"/w/src","Query":"x"}`}:                                                                                                `[fs.grep {"path":"/w/src","pattern":"x"}] search /w/src`,
		{"find_by_name", `{"SearchDirectory":"/w","Pattern":"../*"}`}:                                                                                         `[fs.list {"path":"/w/../"}] [fs.list {"path":"/"}]`,
		{"read_url_content", `{"Url":"https://a.example/"}`}:                                                                                                  `[http.get {"url":"https://a.example/"}]`,
		{"search_web", `{"query":"q"}`}:                                                                                                                       `[provider.search {"query":"q"}]`,
		{"call_mcp_tool", `{"ServerName":"gh","ToolName":"get_issue","Arguments":{"n":1}}`}:                                                                   `[mcp:gh:get_issue {"n":1}]`,
		{"read_resource", `{"ServerName":"gh","Uri":"file:///x"}`}:                                                                                            `[mcp:gh:resources.read {"ServerName":"gh","Uri":"file:///x"}]`,
		{"mcp_a_b_c", `{}`}:                                     `[mcp:a:b_c {}] [mcp:a_b:c {}]`,
		{"ask_question", `{}`}:                                  `internal`,
		{"browser_open", `{"Url":"https://a.example/"}`}:        `[http.get {"url":"https://a.example/"}] [agent:antigravity:browser_open {"Url":"https://a.example/"}]`,
		{"send_command_input", `{"CommandId":"1","Input":"x"}`}: `[shell.run? {"cwd":"/w","script":"1"}] [agent:antigravity:send_command_input {"CommandId":"1","Input":"x"}]`,
	} {
		if got := describe(hook.Parse("antigravity", []byte(events["antigravity"]("", call[0], call[1])))); got != want {
			t.Errorf("%s\n got %s\nwant %s", call, got, want)
		}
	}
}

// An event of Antigravity does not say what it is about. Whatever of its fields are missing or of another type, and whichever
// hook gets it: with a tool call it is decided or refused, and without one it passes only as an event that is known.
func TestAntigravityEvents(t *testing.T) {
	values := []any{nil, "", "x", 1, true, []any{}, []any{1}, map[string]any{}, map[string]any{"name": "run_command"}, map[string]any{"name": 1}}
	rapid.Check(t, func(t *rapid.T) {
		m := map[string]any{"conversationId": "c", "stepIdx": 1, "workspacePaths": []any{"/w"}, "toolCall": map[string]any{"name": "run_command", "args": map[string]any{"CommandLine": "cat .env"}}}
		for range rapid.IntRange(0, 3).Draw(t, "changes") {
			name := rapid.SampledFrom(append(slices.Sorted(maps.Keys(m)), "error", "fullyIdle", "invocationNum", "transcriptPath")).Draw(t, "field")
			if v := rapid.SampledFrom(append(values, "gone")).Draw(t, "value"); v == "gone" {
				delete(m, name)
			} else {
				m[name] = v
			}
		}
		src, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		agent := rapid.SampledFrom([]string{"antigravity", "gemini", "claude"}).Draw(t, "agent")
		name := ""
		if agent == "antigravity" {
			name = rapid.SampledFrom([]string{"", "PreToolUse"}).Draw(t, "event")
		}
		e, err := hook.ParseNamed(agent, name, src)
		if err != nil {
			if _, ours := m["conversationId"]; ours && !strings.Contains(string(hook.Blocked(agent, name, src, false, "why")), `"deny"`) {
				t.Fatalf("%s: the refusal of %s is not in the agent's form", agent, src)
			}
			return
		}
		_, tells := m["error"]
		_, call := m["toolCall"].(map[string]any)
		switch {
		case e.Phase == hook.Before && (e.Refusal != "" || slices.ContainsFunc(e.Calls, func(c hook.Call) bool { return c.Args["script"] == "cat .env" })):
		case call, name != "":
			t.Fatalf("%s: %s passes as %+v", agent, src, e)
		case e.Phase == hook.After && tells, e.Phase == hook.Other && (m["fullyIdle"] != nil || m["invocationNum"] != nil):
		default:
			t.Fatalf("%s: %s passes as %+v", agent, src, e)
		}
	})
}

func TestAntigravityAnswers(t *testing.T) {
	ask, report := events["antigravity"]("", "run_command", `{"CommandLine":"ls"}`), strings.Replace(events["antigravity"]("", "run_command", `{"CommandLine":"ls"}`), `{"conv`, `{"error":"no","conv`, 1)
	for effect, want := range map[policy.Effect]string{policy.Deny: `{"decision":"deny","reason":"why"}`, policy.Ask: `{"decision":"deny","reason":"why"}`, policy.Allow: `{"decision":"allow","reason":"why"}`} {
		e, err := hook.ParseNamed("antigravity", "PreToolUse", []byte(ask))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Answer(hook.Verdict{Effect: effect, Reason: "why"}); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%s: %s, %v", effect, got, err)
		}
	}
	for _, src := range []string{report, `{"conversationId":"c","stepIdx":1,"toolCall":null,"error":"no"}`} {
		e, err := hook.ParseNamed("antigravity", "PostToolUse", []byte(src))
		if err != nil || e.Phase != hook.After || e.Failed != "no" || e.ID != "step-1" {
			t.Fatalf("%+v, %v", e, err)
		}
		if got, err := e.Answer(hook.Verdict{}); err != nil || string(got) != "{}\n" {
			t.Errorf("the answer to a report is %q, %v", got, err)
		}
	}
	if got := hook.Blocked("antigravity", "PostToolUse", nil, false, "why"); string(got) != "{}\n" {
		t.Errorf("a report that fails is answered with %q", got)
	}
	for _, agent := range []string{"claude", "codex", "copilot", "cursor", "gemini", "generic"} {
		if got := hook.Blocked(agent, "", []byte(events["claude"]("PreToolUse", "Bash", "{}")), false, "why"); got != nil {
			t.Errorf("%s: an error prints %q", agent, got)
		}
		if _, err := hook.ParseNamed(agent, "PreToolUse", []byte(ask)); err == nil {
			t.Errorf("%s: the name of an event counts twice", agent)
		}
	}
}

// Gemini CLI's settings can be carried over to Antigravity, and the other way round.
func TestGeminisEventInAntigravitysHook(t *testing.T) {
	e, err := hook.Parse("antigravity", []byte(snake("BeforeTool", "read_file", `{"file_path":".env"}`)))
	if err != nil || e.Agent != "gemini" || len(e.Calls) != 1 || e.Calls[0].Tool != tool.ID("fs.read") {
		t.Fatalf("%+v, %v", e, err)
	}
}
