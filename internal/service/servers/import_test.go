package servers_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/service/servers"
)

// realEntries are settings as they are found in people's files, of Claude, Codex, VS Code, Cursor, Zed,
// OpenCode, Gemini, Windsurf and Goose.
var realEntries = map[string][]any{
	"command": {"npx", "uvx", "/usr/local/bin/server", []any{"bunx", "server"}, ""},
	"args":    {[]any{"-y", "pkg", "/home/ann"}, []any{}, []any{"--root", "/"}},
	"env":     {map[string]any{"TOKEN": "0123456789abcdef"}, map[string]any{"A": "${input:token}"}, map[string]any{"P": "${workspaceFolder}"}},
	"url":     {"https://mcp.example.com/mcp", "http://127.0.0.1:1/mcp", "file:///etc/passwd"}, "serverUrl": {"https://mcp.example.com/sse"},
	"headers": {map[string]any{"Authorization": "Bearer 0123456789"}, map[string]any{"X": "${TOKEN}"}}, "http_headers": {map[string]any{"X-Key": "0123456789"}},
	"bearer_token_env_var": {"TOKEN", "BAD NAME"}, "env_vars": {[]any{"HOME", "TOKEN"}}, "env_keys": {[]any{"KEY"}}, "envFile": {"${workspaceFolder}/.env"},
	"cwd": {"/", "..", "/home/ann"}, "type": {"stdio", "http", "sse"}, "disabled": {true, false}, "enabled": {true, false},
	"alwaysAllow": {[]any{"*"}}, "autoApprove": {[]any{"delete"}}, "trust": {true}, "enabled_tools": {[]any{"read"}}, "disabled_tools": {[]any{"delete"}},
	"includeTools": {[]any{"a"}}, "excludeTools": {[]any{"b"}}, "tools": {[]any{"*"}, map[string]any{"delete": "allow"}}, "timeout": {600}, "startup_timeout_sec": {20},
	"roots": {[]any{"/"}}, "sandbox": {map[string]any{"network": true}}, "oauth": {map[string]any{"clientId": "x"}}, "policy": {"version: 1"}, "paths": {[]any{"/"}}, "asks": {[]any{"sampling"}},
	"default_tools_approval_mode": {"auto"}, "source": {"custom"}, "settings": {map[string]any{"a": 1}},
}

// TestImportsWidenNothing: whatever a file has, a server that is added has no rights but the default
// ones, runs the words that the file names, and each setting that is not used is named.
func TestImportsWidenNothing(t *testing.T) {
	const seed = 11
	r := rand.New(rand.NewPCG(seed, seed))
	names := []string{}
	for name := range realEntries {
		names = append(names, name)
	}
	slices.Sort(names)
	added := 0
	for n := range 3000 {
		entry := map[string]any{}
		for range 1 + r.IntN(6) {
			name := names[r.IntN(len(names))]
			entry[name] = realEntries[name][r.IntN(len(realEntries[name]))]
		}
		key := []string{"mcpServers", "servers", "context_servers", "mcp_servers", "extensions", "mcp"}[r.IntN(6)]
		src, err := json.Marshal(map[string]any{key: map[string]any{"one": entry}, "inputs": []any{map[string]any{"type": "promptString", "id": "token", "password": true}}})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "mcp.json")
		if err := os.WriteFile(file, src, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := servers.ReadClientFile(file)
		if err != nil || len(found) != 1 {
			t.Fatalf("%d: %v %s", n, err, src)
		}
		if i := found[0]; i.Err == nil {
			added++
			checkImported(t, i, entry, string(src))
		}
	}
	if added < 300 {
		t.Errorf("%d of 3000 servers could be added: the test shows little", added)
	}
}

func checkImported(t *testing.T, i servers.Imported, entry map[string]any, src string) {
	t.Helper()
	s := i.Server
	if s.Policy != "" || s.Folder != "" || len(s.Paths)+len(s.Asks)+len(s.Within)+len(s.Secrets)+len(s.Headers) != 0 || s.Package != nil || s.TokenURL != "" {
		t.Fatalf("%s: more than the default: %+v", src, s)
	}
	own := servers.Server{Name: s.Name, URL: s.URL, Env: s.Env}
	if s.URL == "" {
		own.Command = []string{"x"}
	}
	if s.DefaultPolicy() != own.DefaultPolicy() {
		t.Fatalf("%s: a policy of its own:\n%s", src, s.DefaultPolicy())
	}
	words := fmt.Sprint(entry["command"], entry["args"])
	for _, w := range s.Command {
		if !strings.Contains(words, w) {
			t.Fatalf("%s: it runs %q", src, s.Command)
		}
	}
	imported := []string{"command", "args", "env", "url", "serverUrl", "headers", "http_headers", "bearer_token_env_var", "env_vars", "type", "disabled", "enabled"}
	for name, v := range entry {
		named := slices.ContainsFunc(i.Dropped, func(what string) bool { return strings.HasPrefix(what, name+":") })
		if slices.Contains(imported, name) || named || fmt.Sprint(v) == "[]" || name == "cwd" && s.URL != "" {
			continue
		}
		t.Fatalf("%s: %s is dropped and not named: %q", src, name, i.Dropped)
	}
}
