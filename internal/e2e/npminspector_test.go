package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// inspector is the MCP Inspector's command line, which uses one server behind the
// gateway. It gives what the Inspector prints.
func (w *world) inspector(server, policy string, args ...string) string {
	w.t.Helper()
	bin, modules := node(w.t)
	env := map[string]string{}
	for _, v := range w.environ() {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	config, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"remit": map[string]any{
		"command": binary, "args": []string{"mcp", "serve", "--server", server, "-p", policy, "-w", w.workspace}, "env": env,
	}}})
	if err != nil {
		w.t.Error(err)
	}
	file := filepath.Join(filepath.Dir(w.workspace), "inspector-"+server+".json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		w.t.Error(err)
	}
	ctx, stop := context.WithTimeout(w.t.Context(), 2*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, bin, append([]string{filepath.Join(modules, "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js"),
		"--cli", "--config", file, "--server", "remit"}, args...)...)
	cmd.Dir, cmd.Env = filepath.Dir(w.workspace), append(os.Environ(), "HOME="+filepath.Dir(w.workspace), "MCP_INSPECTOR_SECRET_STORE=memory", "NO_COLOR=1")
	cmd.WaitDelay = 10 * time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && ctx.Err() != nil {
		w.t.Errorf("the Inspector hangs at %v\n%s%s", args, out.String(), errs.String())
	}
	return out.String() + errs.String()
}

// TestTheInspectorUsesRealServers has another client, of the protocol's own makers,
// use four servers of theirs through the gateway, each confined.
func TestTheInspectorUsesRealServers(t *testing.T) {
	node(t)
	w := newWorld(t).durability("process")
	w.npmServer("everything", "server-everything")
	files := w.npmServer("files", "server-filesystem", "/")
	memory := w.npmServer("memory", "server-memory")
	w.npmServer("thinking", "server-sequential-thinking")
	w.write(filepath.Join(files, "open.txt"), "what is open")
	secret := w.write("secret.txt", "what nobody may see")
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools:\n  allow: ['mcp:**']\n  deny: ['mcp:everything:get-env']\n")
	entity := `entities=[{"name":"Remit","entityType":"gateway","observations":["it asks first"]}]`
	type use struct {
		server string
		args   []string
		want   string
	}
	uses := map[string][]use{}
	for _, c := range []use{
		{"everything", []string{"--method", "tools/list"}, `"get-sum"`},
		{"everything", []string{"--method", "tools/call", "--tool-name", "get-sum", "--tool-arg", "a=2", "b=3"}, "5"},
		{"everything", []string{"--method", "tools/call", "--tool-name", "get-env"}, "tool_not_found"},
		{"everything", []string{"--method", "resources/list"}, `"uri"`},
		{"everything", []string{"--method", "prompts/get", "--prompt-name", "simple-prompt"}, `"messages"`},
		{"files", []string{"--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", "path=" + filepath.Join(files, "open.txt")}, "what is open"},
		{"files", []string{"--method", "tools/call", "--tool-name", "read_text_file", "--tool-arg", "path=" + secret}, "E2003"},
		{"memory", []string{"--method", "tools/call", "--tool-name", "create_entities", "--tool-arg", entity}, "it asks first"},
		{"memory", []string{"--method", "tools/call", "--tool-name", "read_graph"}, "it asks first"},
		{"thinking", []string{"--method", "tools/call", "--tool-name", "sequentialthinking", "--tool-arg",
			"thought=one step", "nextThoughtNeeded=false", "thoughtNumber=1", "totalThoughts=1"}, "thoughtHistoryLength"},
	} {
		uses[c.server] = append(uses[c.server], c)
	}
	var each sync.WaitGroup
	for _, list := range uses {
		each.Go(func() {
			for _, c := range list {
				if got := w.inspector(c.server, policy, c.args...); !strings.Contains(got, c.want) || strings.Contains(got, "what nobody may see") {
					t.Errorf("%s %v: no %s in\n%s", c.server, c.args, c.want, tail(got, 2000))
				}
			}
		})
	}
	each.Wait()
	// What it remembers is in its own folder, and nowhere else.
	if found, err := filepath.Glob(filepath.Join(memory, "*.json*")); err != nil || len(found) == 0 {
		t.Errorf("the memory server keeps nothing in its folder: %v", err)
	}
	w.must(0, "verify")
}
