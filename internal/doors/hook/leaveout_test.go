package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/doors/hook"
)

// A search of Claude Code leaves names out by further patterns, unless it is for one of them.
func TestSearchesLeaveNamesOut(t *testing.T) {
	many := strings.Fields(strings.Repeat("x ", 51))
	tests := map[string]struct {
		agent, event string
		names        []string
		want         string // the pattern; "": it cannot be told
	}{
		"all":                {"claude", before("Grep", `{"pattern":"x"}`), []string{".env"}, "!**/.env"},
		"some files":         {"claude", before("Grep", `{"pattern":"x","glob":"*.js"}`), []string{".env", "id_rsa"}, "*.js !**/.env !**/id_rsa"},
		"the file itself":    {"claude", before("Grep", `{"pattern":"x","glob":".env"}`), []string{".env"}, ""},
		"files of that end":  {"claude", before("Grep", `{"pattern":"x","glob":"**/*.env*"}`), []string{".env"}, ""},
		"a name with blanks": {"claude", before("Grep", `{"pattern":"x"}`), []string{"a b.pem"}, ""},
		"a name with signs":  {"claude", before("Grep", `{"pattern":"x"}`), []string{"a*.pem"}, ""},
		"many names":         {"claude", before("Grep", `{"pattern":"x"}`), many, ""},
		"an odd pattern":     {"claude", before("Grep", `{"pattern":"x","glob":7}`), []string{".env"}, ""},
		"another agent":      {"gemini", `{"hook_event_name":"BeforeTool","session_id":"s","cwd":"/w","tool_name":"search_file_content","tool_input":{"pattern":"x"}}`, []string{".env"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e, err := hook.Parse(tt.agent, []byte(tt.event))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.LeaveOut(tt.names); got != (tt.want != "") {
				t.Fatalf("left out: %v", got)
			}
			for _, effect := range []policy.Effect{policy.Allow, policy.Ask, policy.Deny} {
				b, err := e.Answer(hook.Verdict{Effect: effect, Reason: "r"})
				if err != nil {
					t.Fatal(err)
				}
				var out struct {
					HookSpecificOutput struct {
						UpdatedInput *struct{ Pattern, Glob string }
					}
				}
				if err := json.Unmarshal(b, &out); err != nil && len(b) > 0 { // Gemini gets no answer that allows
					t.Fatal(err)
				}
				in := out.HookSpecificOutput.UpdatedInput
				if changed := tt.want != "" && effect != policy.Deny; changed != (in != nil) || changed && (in.Glob != tt.want || in.Pattern != "x" || !strings.Contains(string(b), "left out")) {
					t.Errorf("%v: %s", effect, b)
				}
			}
		})
	}
}

// An event is the same with a byte order mark, and one of Cursor's is read as such by the hook of Claude Code, whose settings Cursor
// reads, too.
func TestEventsOfOtherWriters(t *testing.T) {
	const cursors = `{"conversation_id":"c","hook_event_name":"preToolUse","workspace_roots":["/w"],"cwd":"","tool_name":"Shell","tool_input":{"command":"ls","cwd":""},"tool_use_id":"t"}`
	for name, tt := range map[string]struct{ agent, event, as, answer string }{
		"a byte order mark":  {"claude", "\ufeff" + before("Bash", `{"command":"ls"}`), "claude", "hookSpecificOutput"},
		"Cursor's":           {"claude", cursors, "cursor", `"permission":"allow"`},
		"Cursor's, marked":   {"claude", "\ufeff" + cursors, "cursor", `"permission":"allow"`},
		"Cursor's own hook":  {"cursor", cursors, "cursor", `"permission":"allow"`},
		"Claude's with more": {"claude", strings.Replace(before("Bash", `{"command":"ls"}`), "{", `{"workspace_roots":["/x"],`, 1), "claude", "hookSpecificOutput"},
	} {
		e, err := hook.Parse(tt.agent, []byte(tt.event))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, err := e.Answer(hook.Verdict{Effect: policy.Allow, Reason: "r"})
		if err != nil || e.Agent != tt.as || len(e.Calls) != 1 || e.Calls[0].Tool != "shell.run" || !strings.Contains(string(b), tt.answer) {
			t.Errorf("%s: %v, agent %s, calls %v, answer %s", name, err, e.Agent, e.Calls, b)
		}
	}
}
