package e2e_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// in runs a command in a folder of the workspace, and gives what it prints. It must succeed.
func (w *world) in(folder string, env []string, command ...string) string {
	w.t.Helper()
	c := exec.CommandContext(context.Background(), command[0], command[1:]...)
	c.Dir, c.Env = filepath.Join(w.workspace, folder), env
	out, err := c.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// What remit ext new and remit tool new write works as their README says, without a change.
func TestBegunToolsWork(t *testing.T) {
	w := newWorld(t).durability("process")
	goEnv := append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath")

	w.must(0, "ext", "new", "word_count")
	if out := w.in("word_count", w.environ(), binary, "policy", "test", "policy_test.yaml"); !strings.Contains(out, "5 cases, 0 failed") {
		t.Errorf("the policy's tests say %s", out)
	}
	w.in("word_count", w.environ(), binary, "ext", "install", "extension", "--yes")
	if out := w.in("word_count", w.environ(), binary, "slash", "/word_count count policy.yaml", "-p", "policy.yaml"); strings.TrimSpace(out) != "17" {
		t.Errorf("the command says %q", out)
	}
	w.in("word_count", w.environ(), binary, "run", "plan.yaml", "-p", "policy.yaml")

	w.must(0, "tool", "new", "module", "--wasm", "--dir", "deep/er")
	w.in("deep/er", goEnv, "go", "test", ".")
	w.in("deep/er", append(goEnv, "GOOS=wasip1", "GOARCH=wasm"), "go", "build", "-o", "module.wasm", ".")
	w.in("deep/er", w.environ(), binary, "wasm", "add", "module", "module.wasm")
	w.in("deep/er", w.environ(), binary, "run", "plan.yaml", "-p", "policy.yaml")

	w.must(0, "tool", "new", "harbour", "--go")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	w.in("harbour", goEnv, "go", "work", "init", ".", root) // in place of go mod tidy: the module is the one that is tested
	w.in("harbour", goEnv, "go", "test", ".")
}
