package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// npmServer adds a server that npm installed (see make test-deps), confined: it
// may read its own code and a folder, write that folder, and reach nothing.
func (w *world) npmServer(name, pkg string, args ...string) (folder string) {
	w.t.Helper()
	modules, err := filepath.Abs("testdata/npm/node_modules")
	if err != nil {
		w.t.Fatal(err)
	}
	main := filepath.Join(modules, "@modelcontextprotocol", pkg, "dist", "index.js")
	if _, err := os.Stat(main); err != nil {
		missing(w.t, "%s is not installed; make test-deps installs it where npm is", pkg)
	}
	if !w.confines() {
		missing(w.t, "this machine cannot confine")
	}
	folder = filepath.Join(filepath.Dir(w.workspace), name)
	w.mkdir(folder)
	policy := w.beside(name+".yaml", fmt.Sprintf("version: 1\nname: %s\nfiles:\n  read: {allow: [\"**\", %q]}\n  write: {allow: [\"**\"]}\ncommands: {env: [MEMORY_FILE_PATH]}\n", name, modules+"/**"))
	w.must(0, append([]string{"mcp", "add", name, "-p", policy, "-w", folder, "--env", "MEMORY_FILE_PATH=" + filepath.Join(folder, "memory.json"), "--", "node", main}, args...)...)
	return folder
}

// TestServerEverything uses the protocol's own test server through the gateway.
func TestServerEverything(t *testing.T) {
	w := newWorld(t).durability("process")
	w.npmServer("everything", "server-everything")
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools:\n  allow: ['mcp:everything:*']\n  deny: ['mcp:everything:get-env']\n")
	var steps atomic.Int32
	cs := w.mcpClientWith("", &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, _ *mcp.ProgressNotificationClientRequest) { steps.Add(1) },
	}, "-p", policy)
	defer func() { _ = cs.Close() }()
	if got, ok := say(t, cs, "mcp__everything__get-sum", map[string]any{"a": 2, "b": 3}); !ok || !strings.Contains(got, "5") {
		t.Errorf("get-sum: %s", got)
	}
	if got, ok := say(t, cs, "mcp__everything__get-sum", map[string]any{"a": "two"}); ok || !strings.Contains(got, "E2002") {
		t.Errorf("get-sum of words: %s", got)
	}
	if got, ok := say(t, cs, "mcp__everything__get-env", nil); ok || !strings.Contains(got, "E1001") {
		t.Errorf("get-env: %s", got)
	}
	res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp__everything__get-structured-content", Arguments: map[string]any{"location": "Chicago"}})
	if out, _ := res.StructuredContent.(map[string]any); err != nil || out["conditions"] == nil {
		t.Errorf("structured content: %+v, %v", res, err)
	}
	res, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "mcp__everything__get-tiny-image"})
	image := false
	for _, c := range res.Content {
		i, ok := c.(*mcp.ImageContent)
		image = image || ok && i.MIMEType == "image/png" && len(i.Data) > 100
	}
	if err != nil || !image {
		t.Errorf("no image came through: %+v, %v", res, err)
	}
	long := &mcp.CallToolParams{Name: "mcp__everything__trigger-long-running-operation", Arguments: map[string]any{"duration": 1, "steps": 4}}
	long.SetProgressToken("long")
	if res, err := cs.CallTool(t.Context(), long); err != nil || res.IsError || steps.Load() == 0 {
		t.Errorf("%d steps were told: %+v, %v", steps.Load(), res, err)
	}
}

// TestServerFilesystem has two guards before the files: the server's sandbox, and
// the caller's rules for files, which `within` applies to the server's arguments.
func TestServerFilesystem(t *testing.T) {
	w := newWorld(t).durability("process")
	folder := w.npmServer("files", "server-filesystem", "/")
	secret := w.write("secret.txt", "the secret")
	w.write(filepath.Join(folder, "open.txt"), "open")
	w.write(filepath.Join(folder, "private/p.txt"), "private")
	policy := w.beside("policy.yaml", fmt.Sprintf(`version: 1
name: p
files: {read: {allow: [%q], deny: ["**/private/**"]}}
tools:
  allow:
    - tool: "mcp:files:read_text_file"
      args: {path: {within: files.read}}
`, folder+"/**"))
	cs := w.mcpClientWith("", nil, "-p", policy)
	defer func() { _ = cs.Close() }()
	listed(t, cs, "mcp__files__read_text_file")
	list, err := cs.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) == 0 {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if strings.HasPrefix(tool.Name, "mcp__files__") && tool.Name != "mcp__files__read_text_file" {
			t.Errorf("%s is listed", tool.Name)
		}
	}
	for path, want := range map[string]struct {
		ok   bool
		says string
	}{
		filepath.Join(folder, "open.txt"):      {true, "open"},
		filepath.Join(folder, "private/p.txt"): {false, "E1001"},
		secret:                                 {false, "E1001"},
		"/etc/passwd":                          {false, "E1001"},
		"open.txt":                             {false, "E1001"}, // relative to what the server takes
		folder + "/../work/secret.txt":         {false, "E1001"},
	} {
		if got, ok := say(t, cs, "mcp__files__read_text_file", map[string]any{"path": path}); ok != want.ok || !strings.Contains(got, want.says) {
			t.Errorf("%s: %s", path, got)
		}
	}
	// Without the caller's rules the sandbox is left, and it holds: the server, told
	// that it may read everything, finds its own folder and no more.
	loose := w.beside("loose.yaml", "version: 1\nname: loose\ntools: {allow: ['mcp:files:*']}\n")
	other := w.mcpClientWith("", nil, "-p", loose)
	defer func() { _ = other.Close() }()
	if got, ok := say(t, other, "mcp__files__read_text_file", map[string]any{"path": secret}); ok {
		t.Errorf("the sandbox let the server read %s", got)
	}
	if got, ok := say(t, other, "mcp__files__write_file", map[string]any{"path": filepath.Join(folder, "new.txt"), "content": "new"}); !ok {
		t.Error(got)
	}
	if got, ok := say(t, other, "mcp__files__write_file", map[string]any{"path": filepath.Join(w.workspace, "new.txt"), "content": "new"}); ok {
		t.Errorf("the sandbox let the server write: %s", got)
	}
	if _, err := os.Stat(filepath.Join(w.workspace, "new.txt")); err == nil {
		t.Error("a file was written outside")
	}
}
