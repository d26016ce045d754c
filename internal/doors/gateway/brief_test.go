package gateway_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/gateway"
)

const everything = `version: 1
name: all
files: {read: {allow: ["**"]}, write: {allow: ["**"]}}
network: {allow: ["https://example.com/**"]}
commands: {allow: ["**"]}
`

// guidance has the facts that a model must find in the list, as without them it takes a
// wrong next step.
var guidance = map[string][]string{
	"fs_delete":    {"link (not its target)", "recursive", "Cannot be undone", "nothing is deleted", "missing_ok"},
	"fs_edit":      {"exactly once", "unless all", "in order", "nothing is written", "if_sha256", `"required":["old","new"]`},
	"fs_grep":      {"RE2", "Binary files and links are skipped", "denied counts", "src/**/*.{js,ts}", `"maximum":2000`, "ignore_case", "context"},
	"fs_list":      {"Links are not followed", "denied counts", "recursive", "src/**/*.{js,ts}", `"maximum":10000`},
	"fs_move":      {"the new path itself", "overwrite", "never a folder", "make_parents"},
	"fs_read":      {"truncated", "offset = next_offset", "not UTF-8", "base64"},
	"fs_stat":      {"Links are followed", "permissions"},
	"fs_write":     {"Creates", "replaces", "append", "create fails if the file exists", "if_sha256", "make_parents"},
	"http_get":     {"400 or more is an answer", "content_base64", "truncated", "1 MiB"},
	"http_request": {"400 or more is an answer", "another origin", "at most one of body, body_base64 and json", "application/json"},
	"random_bytes": {"keys", `"maximum":65536`, "base64"},
	"shell_run":    {"argv", "bash script", "nothing is expanded", "sandbox", "must be allowed", "truncated", "failure with its output", "commands.env", "10s"},
	"time_now":     {"current time"},
}

// maxList is the bound of the list of Remit's own tools in bytes, without those for models
// and schemas.
const maxList = 9100

func TestTheListOfToolsIsShort(t *testing.T) {
	w := newWorld(t)
	res, err := w.client("2025-11-25", app.MCPRequest{Policy: w.policy(everything)}, nil).ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	size, seen := 0, map[string]bool{}
	for _, tl := range res.Tools {
		facts, ok := guidance[tl.Name]
		if !ok {
			continue
		}
		seen[tl.Name] = true
		all, err := json.Marshal(tl)
		if err != nil {
			t.Fatal(err)
		}
		size += len(strings.Replace(string(all), `"idempotentHint":false,`, "", 1)) + 1 // the SDK writes it, the gateway does not
		schema, err := json.Marshal(tl.InputSchema)
		if err != nil {
			t.Fatal(err)
		}
		for _, fact := range facts {
			if !strings.Contains(tl.Description+string(schema), fact) {
				t.Errorf("%s does not tell %q:\n%s\n%s", tl.Name, fact, tl.Description, schema)
			}
		}
	}
	if len(seen) != len(guidance) {
		t.Errorf("only %v are listed", slices.Sorted(maps.Keys(seen)))
	}
	if size > maxList {
		t.Errorf("the %d tools take %d bytes; the maximum is %d", len(seen), size, maxList)
	}
}

// What a model must learn from a result: of each field whether it is shown.
func TestResultsTellWhatMatters(t *testing.T) {
	cut := map[string]any{"truncated": true, "bytes_total": 9, "bytes_returned": 2, "next_offset": 2}
	whole := map[string]any{"truncated": false, "bytes_total": 2, "bytes_returned": 2}
	tests := map[string]struct {
		tool    string
		out     map[string]any
		kept    []string
		leftOut []string
	}{
		"a command": {"shell.run", map[string]any{"exit_code": 0, "stdout": "hi", "stderr": "", "stdout_info": whole, "stderr_info": whole,
			"duration_ms": 3, "cpu_ms": 1, "peak_memory_bytes": 5, "sandbox": "fresh", "limits": map[string]any{"memory": "cgroup"}, "sandbox_notes": []any{"coarse"}},
			[]string{"exit_code", "stdout"}, []string{"stderr", "stdout_info", "stderr_info", "duration_ms", "cpu_ms", "peak_memory_bytes", "sandbox", "limits", "sandbox_notes"}},
		"a command that failed": {"shell.run", map[string]any{"exit_code": 1, "stdout": "", "stderr": "no", "sandbox_notes": []any{"hidden"}, "connections": []any{"x"}},
			[]string{"exit_code", "stderr", "sandbox_notes", "connections"}, []string{"stdout"}},
		"a command that was stopped": {"shell.run", map[string]any{"exit_code": -1, "signal": "killed", "timed_out": true, "limit": "memory", "isolation": "none", "stdout_info": cut, "stdout": "hi"},
			[]string{"exit_code", "signal", "timed_out", "limit", "isolation", "stdout_info", "stdout"}, nil},
		"a file": {"fs.read", map[string]any{"content": "x", "path": "a", "sha256": "0", "mode": "-", "encoding": "text", "truncated": false, "bytes_total": 1, "bytes_returned": 1},
			[]string{"content", "path", "sha256"}, []string{"mode", "encoding", "truncated", "bytes_total", "bytes_returned"}},
		"a part of a file": {"fs.read", map[string]any{"content": "eA==", "encoding": "base64", "truncated": true, "bytes_total": 9, "next_offset": 1},
			[]string{"content", "encoding", "truncated", "bytes_total", "next_offset"}, nil},
		"matches": {"fs.grep", map[string]any{"matches": []any{}, "truncated": false, "files_searched": 0, "files_binary": 0, "files_cut": 0, "files_failed": 0, "denied": 0},
			[]string{"matches", "files_searched"}, []string{"truncated", "files_binary", "files_cut", "files_failed", "denied"}},
		"matches with gaps": {"fs.grep", map[string]any{"matches": []any{}, "truncated": true, "files_binary": 1, "files_cut": 1, "files_failed": 1, "denied": 1},
			[]string{"matches", "truncated", "files_binary", "files_cut", "files_failed", "denied"}, nil},
		"a page": {"http.get", map[string]any{"status": 404, "status_text": "Not Found", "content": "x", "encoding": "utf-8", "truncated": true, "bytes_total": 9, "next_offset": 1, "redirects": []any{}, "headers": map[string]any{}},
			[]string{"status", "content", "truncated", "bytes_total", "next_offset", "headers"}, []string{"status_text", "encoding", "redirects"}},
		"another tool": {"mcp:x:read", map[string]any{"duration_ms": 0, "truncated": false}, []string{"duration_ms", "truncated"}, nil},
	}
	for name, tt := range tests {
		before := maps.Clone(tt.out)
		short := gateway.BriefOutput(tool.ID(tt.tool), tt.out)
		for _, field := range tt.kept {
			if _, ok := short[field]; !ok {
				t.Errorf("%s: %s is missing in %v", name, field, short)
			}
		}
		for _, field := range tt.leftOut {
			if v, ok := short[field]; ok {
				t.Errorf("%s: %s is shown: %v", name, field, v)
			}
		}
		if !maps.EqualFunc(before, tt.out, func(a, b any) bool { x, _ := json.Marshal(a); y, _ := json.Marshal(b); return string(x) == string(y) }) {
			t.Errorf("%s: the output itself was changed", name)
		}
	}
}

func TestTheAnswerOfACommandIsShort(t *testing.T) {
	w := newWorld(t)
	res := call(t, w.client("2025-11-25", app.MCPRequest{Policy: w.policy(everything)}, nil), "shell_run", map[string]any{"argv": []string{"echo", "hi"}})
	if res.IsError {
		t.Skipf("commands cannot be confined here: %s", text(res))
	}
	answer, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 100, "result": res})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer) > 300 {
		t.Errorf("the answer has %d bytes; the maximum is 300: %s", len(answer), answer)
	}
	for _, fact := range []string{`"stdout":"hi\n"`, `"exit_code":0`, `"rule":"commands.allow[0]`, `"run":"`, `"index":1`} {
		if !strings.Contains(string(answer), fact) {
			t.Errorf("%s is missing: %s", fact, answer)
		}
	}
	var same map[string]any
	if err := json.Unmarshal([]byte(res.Content[0].(*mcp.TextContent).Text), &same); err != nil || same["stdout"] != "hi\n" {
		t.Errorf("the text is %s", text(res))
	}
}
