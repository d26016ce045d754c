package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/cli"
)

// TestImportAsksForInputs: each input is asked for once, and a password is kept out of mcp.json and
// off the screen.
func TestImportAsksForInputs(t *testing.T) {
	r := newRemit(t)
	file := filepath.Join(r.dir, "mcp.json")
	must(t, os.WriteFile(file, []byte(`{"inputs": [{"type": "promptString", "id": "pass", "password": true}, {"type": "promptString", "id": "host"}],
		"servers": {"a": {"command": "x", "args": ["--host=${input:host}"], "env": {"VALUE": "${input:pass}"}}, "b": {"command": "${input:host}"}}}`), 0o600))
	mine, theirs := openTerminal(t)
	_, err := mine.WriteString("one.example\ncorrect-horse\n") // what the terminal keeps until it is read
	must(t, err)
	var out, prompts strings.Builder
	if status := r.main(cli.Streams{In: theirs, Out: &out, Err: &prompts}, "mcp", "import", file); status != 0 {
		t.Fatalf("status %d: %s%s", status, &out, &prompts)
	}
	must(t, theirs.Close())
	must(t, mine.Close())
	if strings.Count(prompts.String(), "value of host:") != 1 || strings.Count(prompts.String(), "value of pass (not shown):") != 1 {
		t.Errorf("asked: %q", prompts.String())
	}
	kept, err := os.ReadFile(filepath.Join(r.home, "mcp.json"))
	must(t, err)
	if !strings.Contains(string(kept), "--host=one.example") || !strings.Contains(string(kept), "mcp-env-a-value") || strings.Contains(string(kept)+prompts.String()+out.String(), "correct-horse") {
		t.Errorf("kept: %s", kept)
	}
}
