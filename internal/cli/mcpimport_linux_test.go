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

// TestImportStoresHeaders: a header is kept in the secret store alone, is added to the server's requests by its
// policy, and is forgotten when a replacement does not have it.
func TestImportStoresHeaders(t *testing.T) {
	r := newRemit(t)
	file := filepath.Join(r.dir, "config.toml")
	var environ []string
	write := func(text string) { must(t, os.WriteFile(file, []byte(text), 0o600)) }
	run := func(status int, args ...string) string {
		t.Helper()
		var out, errs strings.Builder
		if got := r.mainWith(cli.Streams{Out: &out, Err: &errs}, environ, args...); got != status {
			t.Fatalf("%v: status %d: %s%s", args, got, &out, &errs)
		}
		return out.String() + errs.String()
	}
	write("[mcp_servers.far]\nurl = 'https://mcp.example.com/mcp'\nbearer_token_env_var = 'FAR_TOKEN'\nhttp_headers = { X-Org = 'acme-corporation' }\ntool_timeout_sec = 5\n")
	if out := run(2, "mcp", "import", file); !strings.Contains(out, `needs the input "FAR_TOKEN"`) {
		t.Error(out)
	}
	environ = []string{"FAR_TOKEN=hush-hush-hush"}
	if out := run(0, "mcp", "import", file, "--input-env", "FAR_TOKEN"); !strings.Contains(out, "not imported: tool_timeout_sec") || strings.Contains(out, "hush-hush") {
		t.Error(out)
	}
	kept, err := os.ReadFile(filepath.Join(r.home, "mcp.json"))
	must(t, err)
	if strings.Contains(string(kept), "hush-hush") || strings.Contains(string(kept), "acme-corporation") {
		t.Errorf("kept: %s", kept)
	}
	if out := run(0, "mcp", "show", "far"); !strings.Contains(out, `header: "Authorization", store: "mcp-header-far-authorization"`) {
		t.Error(out)
	}
	write("[mcp_servers.far]\nurl = 'https://mcp.example.com/mcp'\nhttp_headers = { X-Org = 'acme-corporation' }\n")
	run(0, "mcp", "import", file, "--replace")
	if out := run(0, "secret", "list"); strings.Contains(out, "authorization") || !strings.Contains(out, "mcp-header-far-x-org") {
		t.Errorf("after the replacement: %s", out)
	}
	run(0, "mcp", "remove", "far")
	if out := run(0, "secret", "list"); strings.Contains(out, "mcp-header") {
		t.Errorf("after the removal: %s", out)
	}
}

// TestAddServerJSON: an entry of a registry is a server of a default policy, whose secrets are stored.
func TestAddServerJSON(t *testing.T) {
	r := newRemit(t)
	file := filepath.Join(r.dir, "server.json")
	must(t, os.WriteFile(file, []byte(`{"name": "io.acme/far", "remotes": [{"type": "streamable-http", "url": "https://{zone}.example.com/mcp",
		"variables": {"zone": {"isRequired": true, "choices": ["eu", "us"]}}, "headers": [{"name": "X-Key", "isRequired": true, "isSecret": true}]}]}`), 0o600))

	add := func(more ...string) (int, string) {
		var out, errs strings.Builder
		status := r.mainWith(cli.Streams{Out: &out, Err: &errs}, []string{"KEY=hush-hush-hush"}, append([]string{"mcp", "add", "far", "--no-start", "--server-json", file}, more...)...)
		return status, out.String() + errs.String()
	}
	if status, out := add("--input-env", "X-Key=KEY"); status != 2 || !strings.Contains(out, `needs the input "zone"`) {
		t.Error(status, out)
	}
	if status, out := add("--input-env", "X-Key=KEY", "--input", "zone=mars"); status != 2 || !strings.Contains(out, "not a value of the input") {
		t.Error(status, out)
	}
	if status, out := add("--input-env", "X-Key=KEY", "--input", "zone=eu"); status != 0 || strings.Contains(out, "hush-hush") {
		t.Error(status, out)
	}
	kept, err := os.ReadFile(filepath.Join(r.home, "mcp.json"))
	must(t, err)
	if !strings.Contains(string(kept), "https://eu.example.com/mcp") || !strings.Contains(string(kept), "mcp-header-far-x-key") || strings.Contains(string(kept), "hush-hush") {
		t.Errorf("kept: %s", kept)
	}
}
