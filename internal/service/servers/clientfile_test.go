package servers_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/servers"
)

// readText reads a file of this name and text, and gives one line for each server.
func readText(t *testing.T, name, text string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := servers.ReadClientFile(file)
	var lines []string
	for _, i := range found {
		if i.Err != nil {
			lines = append(lines, i.Label+": "+fault.Message(i.Err))
			continue
		}
		values := map[string]string{}
		for _, in := range i.Inputs {
			values[in.ID] = "<" + in.ID + ">"
		}
		i.Fill(values)
		line := i.Server.Name + " = " + strings.Join(i.Server.Command, " ") + i.Server.URL
		for _, name := range slices.Sorted(maps.Keys(i.Server.Env)) {
			line += fmt.Sprintf("[%s=%s]", name, i.Server.Env[name])
		}
		for _, name := range slices.Sorted(maps.Keys(i.Headers)) {
			line += fmt.Sprintf("{%s: %s}", name, i.Headers[name])
		}
		for _, what := range i.Dropped {
			line += " -" + what
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), err
}

// TestReadClientFile: the servers of each client's format, and a reason for each that is left out.
func TestReadClientFile(t *testing.T) {
	for _, c := range []struct{ client, file, text, want string }{
		{"Codex", "config.toml", `
model = "gpt-5"
[mcp_servers.docs]
command = "docs-mcp"
args = ["--fast", "a b"]
env = { MODE = "x" }
startup_timeout_sec = 20
[mcp_servers.far]
url = "https://mcp.example.com/mcp"
[mcp_servers.off]
command = "x"
enabled = false
[mcp_servers.bearer]
url = "https://mcp.example.com/mcp"
bearer_token_env_var = "TOKEN"
[mcp_servers.outer]
command = "x"
env_vars = ["TOKEN"]
[mcp_servers.typed]
command = "x"
args = ["a", 1]
`, `bearer = https://mcp.example.com/mcp{Authorization: Bearer <TOKEN>}
docs = docs-mcp --fast a b[MODE=x] -startup_timeout_sec: not used
far = https://mcp.example.com/mcp
off: it is switched off in that client
outer = x[TOKEN=<TOKEN>]
typed: its args[1] is not text`},
		{"Goose", "config.yaml", `
GOOSE_MODE: approve
extensions:
  developer: {type: builtin, name: developer, enabled: true, timeout: 300}
  fetch: {type: stdio, cmd: fetch-mcp, args: [-v], envs: {A: b}, env_keys: [], enabled: true}
  keyed: {type: stdio, cmd: x, env_keys: [TOKEN], enabled: true}
  far: {type: streamable_http, uri: "https://mcp.example.com/mcp", headers: {}, enabled: true}
  off: {type: stdio, cmd: x, enabled: false}
`, `developer: it has neither a command nor a URL
far = https://mcp.example.com/mcp
fetch = fetch-mcp -v[A=b]
keyed: it takes variables from that client's keyring: store them with remit secret set and name them in a policy
off: it is switched off in that client`},
		{"Continue", "one.yml", `
name: mine
mcpServers:
  - {name: My Files, command: files-mcp, args: [a]}
  - {name: kept, command: x, env: {KEY: "${{ secrets.KEY }}"}}
  - {command: x}
  - text
`, `my-files = files-mcp a
kept: it has the placeholder ${{ secrets.KEY }, which only that client fills in
server[2]: it has no name
server[3]: it is not a table of settings`},
		{"OpenCode", "opencode.json", `{"mcp": {
  "files": {"type": "local", "command": ["files-mcp", "a b"], "environment": {"A": "b"}, "enabled": true},
  "far": {"type": "remote", "url": "https://mcp.example.com/mcp"},
  "filled": {"type": "local", "command": ["x"], "environment": {"A": "{env:HOME}"}},
  "off": {"type": "local", "command": ["x"], "enabled": false}, // a comment
}}`, `far = https://mcp.example.com/mcp
files = files-mcp a b[A=b]
filled: it has the placeholder {env:HOME}, which only that client fills in
off: it is switched off in that client`},
		{"VS Code", "mcp.json", `{"inputs": [
  {"type": "promptString", "id": "token", "password": true}, {"type": "promptString", "id": "host"}, {"type": "command", "id": "run"},
  {"type": "promptString", "id": "twice"}, {"type": "promptString", "id": "twice", "password": true}
], "servers": {
  "asks": {"command": "x", "args": ["--host=${input:host}"], "env": {"A": "${input:token}", "B": "${input:host}"}},
  "argument": {"command": "x", "args": ["${input:token}"]}, "run": {"command": "${input:run}"}, "twice": {"command": "x", "env": {"A": "${input:twice}"}},
  "mixed": {"command": "x", "args": ["${input:host}", "${workspaceFolder}"]}
}}`, `argument: its command or URL needs the secret input "token"; a secret can only be a variable or a header
asks = x --host=<host>[A=<token>][B=<host>]
mixed: it has the placeholder ${workspaceFolder}, which only that client fills in
run: it needs the input "run", which is not defined in the file as a promptString or pickString
twice: it needs the input "twice", which is not defined in the file as a promptString or pickString`},
		{"Claude", ".mcp.json", `{"mcpServers": {
  "far": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer hush-hush", "X-Org": "acme-corp"}, "timeout": 5},
  "plain": {"type": "http", "url": "http://127.0.0.1:8000/mcp", "headers": {"Authorization": "Bearer hush-hush"}},
  "filled": {"type": "http", "url": "https://mcp.example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
  "here": {"command": "x", "cwd": "/srv", "alwaysAllow": ["delete"]}
}}`, `far = https://mcp.example.com/mcp{Authorization: Bearer hush-hush}{X-Org: acme-corp} -timeout: not used
filled: it has the placeholder ${TOKEN}, which only that client fills in
here = x -alwaysAllow: a policy says which tools callers may use -cwd: the server starts in a folder of its own, unless --cwd is given
plain: it sends headers, which may be secret, and its URL is not https`},
		{"VS Code, picked", "mcp.json", `{"inputs": [
  {"type": "pickString", "id": "zone", "options": ["eu", {"label": "US", "value": "us"}], "default": "eu"}, {"type": "promptString", "id": "token", "password": true},
  {"type": "pickString", "id": "none"}
], "servers": {
  "a": {"command": "x", "args": ["${input:zone}"]}, "b": {"url": "https://a.test/", "headers": {"Authorization": "Bearer ${input:token}"}}, "c": {"command": "${input:none}"}
}}`, `a = x <zone>
b = https://a.test/{Authorization: Bearer <token>}
c: it needs the input "none", which is not defined in the file as a promptString or pickString`},
		{"wrong types", "mcp.json", `{"mcpServers": {
  "command": {"command": {"path": "x"}}, "env": {"command": "x", "env": ["A=b"]}, "number": {"command": "x", "env": {"PORT": 8080}},
  "url": {"url": 7}, "text": "x", "Case": {"COMMAND": "x"}, "A b": {"command": "x"}, "a.b": {"command": "y"}, "\u001b[31m": {"command": "x"}
}}`, `31m = x
A b: more than one server of the file would be named "a-b"
Case: it has neither a command nor a URL
a.b: more than one server of the file would be named "a-b"
command: its command is not text or a list of texts
env: its env is not a table of variables
number: the value of its variable PORT is not text
text: it is not a table of settings
url: its url is not text`},
	} {
		if got, err := readText(t, c.file, c.text); err != nil || got != c.want {
			t.Errorf("%s: %v\n%s\nexpected\n%s", c.client, err, got, c.want)
		}
	}
}

// TestHostileClientFiles: such a file is refused with one error, in a bounded time.
func TestHostileClientFiles(t *testing.T) {
	for _, c := range []struct{ file, text, want string }{
		{"a.toml", "[mcp_servers.a]\ncommand = 'x'\n[mcp_servers.a]\ncommand = 'y'", "not valid TOML"},
		{"a.toml", "[" + strings.Repeat("a.", 1<<18) + "a]\nb = 1", "more than 256 dots"},
		{"a.toml", "a = " + strings.Repeat("[", 1<<18), "not valid TOML"},
		{"a.toml", "\"\x1b[31m\" = 1", "not valid TOML"},
		{"a.toml", "", "no MCP servers were found"},
		{"a.yaml", "mcpServers: {a: {command: x}, a: {command: y}}", "is given twice"},
		{"a.yaml", "mcpServers: &a [*a]", "anchors and aliases are not allowed"},
		{"a.yaml", "- a", "expected keys at its top"},
		{"a.json", `{"mcpServers": {"a": {"command": "x", "command": "y"}}}`, "occurs twice"},
		{"a.json", strings.Repeat("[", 1<<18), "deep"},
		{"a.json", `{"mcpServers": "x"}`, "no MCP servers were found"},
		{"a.json", "{}" + strings.Repeat(" ", 1<<20), "larger"},
	} {
		_, err := readText(t, c.file, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") || len(err.Error()) > 400 {
			t.Errorf("%.40s: %.400v", c.text, err)
		}
	}
}
