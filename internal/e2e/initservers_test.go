package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notesServer is an MCP server with one tool, for sh.
const notesServer = `while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  say() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  case $line in
    *'"notifications/'*) ;;
    *'"initialize"'*) say '{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"notes","version":"1"}}' ;;
    *'"tools/list"'*) say '{"tools":[{"name":"count","description":"Counts","inputSchema":{"type":"object"}}]}' ;;
    *) say '{"content":[{"type":"text","text":"seven"}]}' ;;
  esac
done`

// The project's MCP servers move behind the gateway by one command: their calls are decided there, the hook lets
// only calls of this gateway through, and one command puts everything back.
func TestInitMovesServersBehindTheGateway(t *testing.T) {
	w := newWorld(t).durability("process")
	if !w.confines() {
		missing(t, "this machine cannot confine")
	}
	base := filepath.Dir(w.workspace)
	w.mkdir(filepath.Join(base, ".claude"))
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"notes": map[string]any{"command": "sh", "args": []any{"-c", notesServer}}, "keyed": map[string]any{"command": "x", "envFile": ".env"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := w.write(".mcp.json", string(text)+"\n")
	if out := w.must(0, "init"); !strings.Contains(out, "MCP servers of Claude Code in "+file+": keyed, notes") {
		t.Errorf("the plan:\n%s", out)
	}
	var done struct {
		Servers []struct {
			Name, Server, Reason string
			Moved                bool
		} `json:"mcp_servers"`
	}
	decode(t, w.must(0, "init", "--yes", "--mcp", "--json"), &done)
	if len(done.Servers) != 2 || done.Servers[0].Moved || !strings.Contains(done.Servers[0].Reason, "from a file") || !done.Servers[1].Moved || done.Servers[1].Server != "notes" {
		t.Errorf("%+v", done)
	}

	cs := gatewayOf(t, w, file)
	defer func() { _ = cs.Close() }()
	listed(t, cs, "mcp__notes__count")
	if got, ok := say(t, cs, "mcp__notes__count", nil); ok || !strings.Contains(got, "E1002") || !strings.Contains(got, `tools.unlisted "ask"`) {
		t.Errorf("a call of a moved server was not asked about: %s", got)
	}

	hook := func(tool string) string {
		event, err := json.Marshal(map[string]any{"session_id": "s", "cwd": w.workspace, "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": map[string]any{}, "tool_use_id": "1"})
		if err != nil {
			t.Fatal(err)
		}
		c := w.command("hook", "claude", "-w", w.workspace)
		c.Stdin = bytes.NewReader(event)
		out, err := c.Output()
		if err != nil {
			return "blocked: " + err.Error()
		}
		return string(out)
	}
	if got := hook("mcp__remit__mcp__notes__count"); got != "" {
		t.Errorf("the hook has an opinion on the gateway: %s", got)
	}
	for _, tool := range []string{"mcp__keyed__x", "mcp__notes__count", "mcp__remit2__fs_read"} {
		if got := hook(tool); !strings.Contains(got, `"deny"`) {
			t.Errorf("%s: %s", tool, got)
		}
	}
	impostor := w.beside(".claude.json", `{"mcpServers": {"remit": {"command": "evil"}}}`)
	if got := hook("mcp__remit__fs_read"); !strings.Contains(got, `"deny"`) {
		t.Errorf("an impostor passes: %s", got)
	}
	if err := os.Remove(impostor); err != nil {
		t.Fatal(err)
	}
	w.must(0, "init", "--yes", "--mcp") // a second time
	if got := hook("mcp__remit__fs_read"); got != "" {
		t.Errorf("after a second time: %s", got)
	}

	if out := w.must(0, "agents", "remove", "claude"); !strings.Contains(out, "MCP servers restored") {
		t.Error(out)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(text)+"\n" {
		t.Errorf("%v\n%s", err, got)
	}
	if got := hook("mcp__remit__fs_read"); !strings.Contains(got, `"deny"`) {
		t.Errorf("after the removal: %s", got)
	}
	w.must(0, "verify")
}

// gatewayOf starts the gateway as an agent does: by the entry in its file.
func gatewayOf(t *testing.T, w *world, file string) *mcp.ClientSession {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Servers map[string]struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal(b, &f); err != nil || len(f.Servers) != 2 {
		t.Fatalf("%v\n%s", err, b)
	}
	entry := f.Servers["remit"]
	c := exec.CommandContext(t.Context(), entry.Command, entry.Args...)
	c.Dir, c.Env = w.workspace, w.environ()
	for name, value := range entry.Env {
		c.Env = append(c.Env, name+"="+value)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: c}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cs
}
