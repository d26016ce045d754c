package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wasmExample builds the module of examples/wasm into the workspace.
func (w *world) wasmExample() {
	w.t.Helper()
	c := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", filepath.Join(w.workspace, "text.wasm"), ".")
	c.Dir = "../../examples/wasm"
	c.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		w.t.Fatalf("the example cannot be built: %v\n%s", err, out)
	}
	b, err := os.ReadFile("../../examples/wasm/text.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	w.write("text.yaml", string(b))
}

const wasmPolicy = `version: 1
name: words
files:
  read: {allow: ["docs/**"], deny: ["docs/private/**"]}
  write: {allow: ["out/**"]}
commands: {env: [USER]}
tools: {allow: ["wasm:text:*"]}
`

// TestWASM runs the example's tools under policies, and replays a run when the
// module is no more.
func TestWASM(t *testing.T) {
	w := newWorld(t).durability("process")
	w.wasmExample()
	w.must(0, "wasm", "add", "text", "text.wasm")
	w.write("docs/a.md", "# One\ntext\n")
	w.write("docs/private/b.md", "# Two\n")
	w.write("other/c.md", "# Three\n")
	w.write("p.yaml", wasmPolicy)
	w.write("plan.yaml", `steps:
  - {id: count, tool: "wasm:text:count", args: {text: "one two\nthree\n"}}
  - {id: docs, tool: "wasm:text:headings", args: {folder: docs}, on_error: continue}
  - {id: one, tool: "wasm:text:headings", args: {folder: docs/a.md}}
  - {id: other, tool: "wasm:text:headings", args: {folder: other}, on_error: continue}
  - {id: out, tool: "wasm:text:headings", args: {folder: ../secret}, on_error: continue}
  - {id: index, tool: "wasm:text:index", args: {title: All}, on_error: continue}
`)
	w.beside("secret/x.md", "# CANARY\n")
	run := w.remit("run", "plan.yaml", "-p", "p.yaml", "--json")
	r := w.parse(run.out)
	outputs := make([]string, len(r.Steps))
	for i, s := range r.Steps {
		outputs[i] = s.Status + " " + string(s.Output)
		if s.Error != nil {
			outputs[i] += s.Error.Code + " " + s.Error.Message
		}
	}
	for i, want := range []string{
		`completed {"bytes":14,"lines":2,"words":3}`, "completed", `completed {"headings":["docs/a.md: One"]}`, "denied E1001", "denied E1001", "completed",
	} {
		if got := strings.Join(strings.Fields(outputs[i]), " "); !strings.HasPrefix(strings.ReplaceAll(got, ": ", ":"), strings.ReplaceAll(want, ": ", ":")) {
			t.Errorf("step %d: %s, want %s", i+1, got, want)
		}
	}
	if strings.Contains(run.out, "Two") || strings.Contains(run.out, "CANARY") {
		t.Errorf("what policy denies was read: %s", run.out)
	}
	b, err := os.ReadFile(filepath.Join(w.workspace, "out/index.md"))
	if err != nil || !strings.Contains(string(b), "docs/a.md: One") || !strings.Contains(string(b), "By ann") {
		t.Errorf("out/index.md holds %q, %v", b, err)
	}
	shown := w.must(0, "show", r.RunID, "--json")
	for _, want := range []string{`"on":"out/index.md"`, `"on":"docs/a.md"`} {
		if !strings.Contains(shown, want) {
			t.Errorf("the record does not say %s: %s", want, shown)
		}
	}
	w.replays(r.RunID)
	if err := os.RemoveAll(filepath.Join(w.home, "cache")); err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Glob(filepath.Join(w.home, "wasm", "*"))
	if err != nil || len(modules) != 2 {
		t.Fatalf("%v, %v", modules, err)
	}
	for _, m := range modules {
		if i, err := os.Stat(m); err == nil && i.Size() > 100_000 {
			if err := os.Remove(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.replays(r.RunID)
	if got := w.remit("run", "plan.yaml", "-p", "p.yaml"); !strings.Contains(got.out+got.err, "add it again") {
		t.Errorf("without the module: %s%s", got.out, got.err)
	}
}
