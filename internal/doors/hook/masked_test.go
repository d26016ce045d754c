package hook_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/doors/hook"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// aKey is put together here, so that no scanner takes it for real.
func aKey() string { return "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a" }

const mark = "[redacted:github-pat]"

// afterwards are how each agent tells of a tool call that it has made, with the tool's name, input and output.
var afterwards = map[string]func(tool, input, output string) string{
	"claude": func(tool, input, output string) string {
		return snakeReport("PostToolUse", tool, input, "tool_response", output)
	},
	"codex": func(tool, input, output string) string {
		return snakeReport("PostToolUse", tool, input, "tool_response", output)
	},
	"gemini": func(tool, input, output string) string {
		return snakeReport("AfterTool", tool, input, "tool_response", output)
	},
	"copilot": func(tool, input, output string) string {
		return fmt.Sprintf(`{"sessionId":"s","cwd":"/w","toolName":%q,"toolArgs":%s,"toolResult":%s}`, tool, input, output)
	},
	"copilot pascal": func(tool, input, output string) string {
		return snakeReport("PostToolUse", tool, input, "tool_result", output)
	},
	"cursor": func(tool, input, output string) string {
		return fmt.Sprintf(`{"conversation_id":"s","cwd":"/w","hook_event_name":"postToolUse","tool_name":%q,"tool_input":%s,"tool_output":%s}`, tool, input, output)
	},
	"generic": func(tool, input, output string) string {
		return fmt.Sprintf(`{"event":"after","session":"s","cwd":"/w","tool":%q,"args":%s,"output":%s}`, tool, input, output)
	},
}

func snakeReport(event, tool, input, field, output string) string {
	return strings.TrimSuffix(snake(event, tool, input), "}") + fmt.Sprintf(`,%q:%s}`, field, output)
}

// TestMaskedAnswers: each agent that can replace an output is told so in its own form, which was tried with the real agents.
func TestMaskedAnswers(t *testing.T) {
	note := func(subject string) string {
		return "remit: masked keys in the output of " + subject + " (rules: github-pat); do not write the markers into files"
	}
	quote := func(s string) string {
		b, err := canon.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	claude := func(subject, output string) string {
		return `{"hookSpecificOutput":{"additionalContext":` + quote(note(subject)) + `,"hookEventName":"PostToolUse","updatedToolOutput":` + output + `}}`
	}
	read := `"Read" of "/w/a.js"`
	for _, c := range []struct{ agent, tool, input, output, want string }{
		{"claude", "Read", `{"file_path":"a.js"}`, `{"file":{"content":"x\n<KEY>\n","filePath":"/w/a.js","numLines":2},"type":"text"}`, claude(read, `{"file":{"content":"x\n`+mark+`\n","filePath":"/w/a.js","numLines":2},"type":"text"}`)},
		{"claude", "mcp__gh__get", `{"path":"a"}`, `[{"text":"<KEY>","type":"text"},{"text":"b","type":"text"}]`, claude(`"mcp__gh__get"`, `[{"text":"`+mark+`","type":"text"},{"text":"b","type":"text"}]`)},
		{"claude", "mcp__gh__get", `{}`, `"{\"a\":\"<KEY>\"}"`, claude(`"mcp__gh__get"`, `"{\"a\":\"`+mark+`\"}"`)},
		{"claude", "WebFetch", `{"url":"https://a.example/"}`, `{"result":"<KEY>"}`, claude(`"WebFetch" of "https://a.example/"`, `{"result":"`+mark+`"}`)},
		{"claude", "TaskOutput", `{}`, `"<KEY>"`, claude(`"TaskOutput"`, `"`+mark+`"`)},
		{"claude", "Read", `{"file_path":"a.js"}`, `{"file":{"content":"x"}}`, ""},
		{"claude", "Read", `{"file_path":"a.js"}`, `null`, ""},
		{"codex", "Bash", `{"command":"cat a"}`, `"x\n<KEY>"`, `{"decision":"block","reason":` + quote(note(`"Bash"`)+"\nx\n"+mark) + `}`},
		{"codex", "mcp__gh__get", `{}`, `{"content":[{"text":"<KEY>"}]}`, `{"decision":"block","reason":` + quote(note(`"mcp__gh__get"`)+"\n"+`{"content":[{"text":"`+mark+`"}]}`) + `}`},
		{"gemini", "read_file", `{"file_path":"a.js"}`, `{"llmContent":"<KEY>","returnDisplay":"<KEY>"}`, `{"decision":"deny","reason":` + quote(note(`"read_file" of "/w/a.js"`)+"\n"+mark) + `}`},
		{"gemini", "read_file", `{"file_path":"a.js"}`, `{"llmContent":[{"text":"a"},{"text":"<KEY>"}]}`, `{"decision":"deny","reason":` + quote(note(`"read_file" of "/w/a.js"`)+"\na\n"+mark) + `}`},
		{"copilot", "view", `{"path":"a.js"}`, `{"resultType":"success","textResultForLlm":"<KEY>"}`, `{"additionalContext":` + quote(note(`"view" of "/w/a.js"`)) + `,"modifiedResult":{"resultType":"success","textResultForLlm":"` + mark + `"}}`},
		{"copilot pascal", "Read", `{"file_path":"a.js"}`, `{"result_type":"success","text_result_for_llm":"<KEY>"}`, `{"additionalContext":` + quote(note(read)) + `,"modifiedResult":{"resultType":"success","textResultForLlm":"` + mark + `"}}`},
		{"cursor", "Read", `{"file_path":"a.js"}`, `{"content":"<KEY>"}`, ""}, // it cannot be told so
		{"generic", "fs.read", `{"path":"/w/a.js"}`, `{"text":"<KEY>"}`, `{"note":` + quote(note(`"fs.read" of "/w/a.js"`)) + `,"output":{"text":"` + mark + `"}}`},
	} {
		agent, _, _ := strings.Cut(c.agent, " ")
		event := afterwards[c.agent](c.tool, c.input, strings.ReplaceAll(c.output, "<KEY>", aKey()))
		e, err := hook.Parse(agent, []byte(event))
		if err != nil || e.Phase != hook.After {
			t.Errorf("%s: %+v, %v", event, e, err)
			continue
		}
		m := e.MaskKeys()
		if c.want == "" || m == nil {
			if c.want != "" || m != nil {
				t.Errorf("%s: %+v, want %q", event, m, c.want)
			}
			continue
		}
		got, err := m.Answer("")
		if err != nil || string(got) != c.want+"\n" {
			t.Errorf("%s\n got %s, %v\nwant %s", event, got, err, c.want)
		}
		if out, err := json.Marshal(e.Output); err != nil || !strings.Contains(string(out), aKey()) {
			t.Errorf("the record would get %s, %v", out, err)
		}
		if got, err = m.Answer("no disk"); err != nil || !strings.Contains(string(got), "the call was not recorded: no disk") {
			t.Errorf("with an error: %s, %v", got, err)
		}
	}
}

// A failure has no output that Claude Code replaces.
func TestAFailureIsNotMasked(t *testing.T) {
	e, err := hook.Parse("claude", []byte(snakeReport("PostToolUseFailure", "Read", `{"file_path":"a"}`, "error", `"`+aKey()+`"`)))
	if err != nil || e.Failed == "" || e.MaskKeys() != nil {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestReportsThatAreNotStrictJSON: a report is masked also if its JSON is not strict, and withheld if it is not whole.
func TestReportsThatAreNotStrictJSON(t *testing.T) {
	deep := func(n int) string { return strings.Repeat(`{"a":[`, n) + `"` + aKey() + ` "` + strings.Repeat(`]}`, n) }
	for name, output := range map[string]string{
		"half a pair":     `{"file":{"content":"` + aKey() + ` \ud83d"},"type":"text"}`,
		"not UTF-8":       `{"file":{"content":"` + aKey() + " \xff" + `"},"type":"text"}`,
		"a control":       `{"file":{"content":"` + aKey() + " \x01" + `"},"type":"text"}`,
		"equal keys":      `{"file":{"content":"` + aKey() + `","content":"` + aKey() + ` x"},"type":"text"}`,
		"deep":            deep(101),
		"very deep":       deep(100_000),
		"many values":     `{"a":[` + strings.Repeat("1,", 200_000) + `"` + aKey() + `"]}`,
		"cut":             `{"file":{"content":"` + aKey() + ` long`,
		"not JSON":        `{"file":{"content":"` + aKey() + `",}`,
		"larger":          `{"file":{"content":"` + aKey() + strings.Repeat(" x", hookwire.MaxEvent/2) + `"}}`,
		"larger by marks": `{"file":{"content":"` + strings.Repeat(shortKey()+" ", hookwire.MaxEvent/22) + `"},"type":"text"}`,
		"a wrong path":    `{"file":{"content":"` + aKey() + `"},"type":"text"}`,
	} {
		for agent, report := range afterwards {
			if agent != "claude" && len(output) > hookwire.MaxEvent/2 {
				continue // it takes long
			}
			input := `{"file_path":"/w/a.js","path":"/w/a.js"}`
			if name == "a wrong path" {
				input = `{"file_path":"~/a.js","path":"~/a.js"}`
			}
			tool := map[string]string{"gemini": "read_file", "copilot": "view", "codex": "view_image", "generic": "fs.read"}[agent]
			if tool == "" {
				tool = "Read"
			}
			known, _, _ := strings.Cut(agent, " ")
			e, err := hook.Parse(known, []byte(report(tool, input, output)))
			lenient := slices.Contains([]string{"half a pair", "not UTF-8", "a control", "equal keys", "deep", "very deep", "larger by marks"}, name)
			if e == nil || e.Phase != hook.After || lenient && err != nil {
				t.Fatalf("%s, %s: %+v, %v", agent, name, e, err)
			}
			m := e.MaskKeys()
			if agent == "cursor" {
				if m != nil {
					t.Errorf("%s: %s: %+v", agent, name, m)
				}
				continue
			}
			if m == nil {
				t.Fatalf("%s, %s: nothing is masked", agent, name)
			}
			got, err := m.Answer("")
			if err != nil || !json.Valid(got) || len(got) > hookwire.MaxOut || bytes.Contains(got, []byte(aKey())) || bytes.Contains(got, []byte(shortKey())) {
				t.Errorf("%s, %s: %.300s, %v", agent, name, got, err)
			}
			if says := bytes.Contains(got, []byte("withheld the output of")); says != slices.Contains([]string{"cut", "not JSON", "larger", "larger by marks"}, name) {
				t.Errorf("%s, %s: %.300s", agent, name, got)
			}
		}
	}
}

// shortKey is shorter than its marker.
func shortKey() string { return "AKI" + "A4HQX7ZD2MN5RWT3K" }

// TestACallIsNeverTakenForAReport: what a model writes into a call does not make it a report, which passes.
func TestACallIsNeverTakenForAReport(t *testing.T) {
	for _, src := range []string{
		snake("PreToolUse", "Read", `{"file_path":"/w/\ud83d","hook_event_name":"PostToolUse","tool_response":"x"}`),
		snake("PreToolUse", "Read", `{"file_path":"/w/a"},"hook_event_name":"PostToolUse","tool_response":"x\ud83d"`),
		snake("PreToolUse", "Read", `{"file_path":"/w/a"}},{"hook_event_name":"PostToolUse"`),
		snake("PreToolUse", "Read", `{"file_path":"/w/a","file_path":"/w/b"}`),
	} {
		if e, err := hook.Parse("claude", []byte(src)); err == nil || e != nil {
			t.Errorf("%s: %+v, %v", src, e, err)
		}
	}
}

// TestMaskedNumbersKeepTheirForm: of a masked output only texts change, and a withheld one keeps its form.
func TestMaskedNumbersKeepTheirForm(t *testing.T) {
	const numbers = `"n":[1.10,-0,1e5,12345678901234567890,0.1E-7]`
	event := afterwards["claude"]("Read", `{"file_path":"a.js"}`, `{"a":"`+aKey()+`",`+numbers+`,"type":"text","<&>":"a text of 20 bytes"}`)
	e, err := hook.Parse("claude", []byte(event))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.MaskKeys().Answer(""); err != nil || !bytes.Contains(got, []byte(`"updatedToolOutput":{"<&>":"a text of 20 bytes","a":"`+mark+`",`+numbers+`,"type":"text"}`)) {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := e.Withhold("it is late").Answer("no disk"); err != nil || !bytes.Contains(got, []byte(`"updatedToolOutput":{"<&>":"[withheld]","a":"[withheld]",`+numbers+`,"type":"text"}`)) ||
		!bytes.Contains(got, []byte(": it is late; the call was not recorded: no disk")) {
		t.Errorf("%s, %v", got, err)
	}
}
