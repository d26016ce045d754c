package e2e_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// needSandbox skips where this machine cannot confine a command.
func (w *world) needSandbox() {
	w.t.Helper()
	p := w.beside("sandbox.yaml", "version: 1\nname: any\nfiles: {read: {allow: ['**']}}\ncommands: {allow: ['**']}\n")
	r := w.remit("exec", "-p", p, "-w", w.workspace, "--", "true")
	switch {
	case r.status == 0:
	case runtime.GOOS == "linux" && (os.Getenv("CI") == "true" || !strings.Contains(r.err, "E2007")):
		w.t.Fatalf("no command can be confined: status %d\n%s", r.status, r.err)
	default:
		w.t.Skipf("NOT TESTED: no command can be confined: %s", r.err)
	}
}

// What a held command gets into the workspace, once its changes are applied, is
// what the policy allows to be written, names that were not there before
// included; and all of it that the command could write.
func TestWhatIsAppliedIsWhatThePolicyAllows(t *testing.T) {
	w := newWorld(t).durability("process")
	w.needSandbox()
	patterns := []string{"**", "*", "a/**", "b/*", "**/x", "*/x", "a/b/x", "**/*.k", ".env", "x", "new/**"}
	if applied, refused := w.applyHeld(t, heldPolicy("'**'", "'**/x'"), map[string]string{"y.k": "old"}); applied == 0 || refused == 0 {
		t.Errorf("%d names applied, %d refused; expected some of both", applied, refused)
	}
	rapid.Check(t, func(rt *rapid.T) {
		list := func(label string, most int) string {
			return "'" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(patterns), 1, most).Draw(rt, label), "', '") + "'"
		}
		was := map[string]string{}
		for i, n := range heldNames {
			if i%2 == 0 && rapid.Bool().Draw(rt, n) {
				was[n] = "old"
			}
		}
		w.applyHeld(rt, heldPolicy(list("write", 3), list("nowrite", 2)), was)
	})
}

// heldNames are the files that the command of applyHeld writes.
var heldNames = []string{"x", "y.k", ".env", "a/x", "a/b/x", "a/y.k", "b/x", "b/.env", "new/x", "new/y.k", ".git/hooks/pre-commit"}

func heldPolicy(write, deny string) string {
	return "version: 1\nname: drawn\nfiles:\n  read: {allow: ['**']}\n  write: {allow: [" + write + "], deny: [" + deny + "]}\ncommands: {allow: ['**']}\n"
}

// applyHeld lets a held command write heldNames in a workspace with some files, applies its
// changes, and compares each file with the policy's decision. It counts the changed names, and
// those that the policy refused.
func (w *world) applyHeld(t rapid.TB, src string, was map[string]string) (applied, refused int) {
	dir, err := os.MkdirTemp(filepath.Dir(w.workspace), "ws")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for n, content := range was {
		w.write(filepath.Join(dir, n), content)
	}
	script := "for n in " + strings.Join(heldNames, " ") + "; do mkdir -p $(dirname $n); printf + >>$n && echo did $n; done 2>/dev/null; true"
	p := w.beside("drawn.yaml", src)
	said := w.must(0, "exec", "-p", p, "-w", dir, "--changeset", "--", "sh", "-c", script)
	for _, n := range heldNames {
		if got, _ := os.ReadFile(filepath.Join(dir, n)); string(got) != was[n] {
			t.Fatalf("%s holds %q before anything is applied\n%s", n, got, src)
		}
	}
	id, _ := w.newestRun()
	if r := w.remit("changes", "apply", id); r.status != 0 && strings.Contains(said, "did ") && !strings.Contains(r.err, "nothing") && !strings.Contains(r.err, "refused") {
		t.Fatalf("apply: status %d\n%s%s\n%s", r.status, r.out, r.err, src)
	}
	chain := bind(w.t, src, dir)
	for _, n := range heldNames {
		at := filepath.Join(dir, n)
		allowed := chain.DecideAction(tool.Action{Kind: tool.FileWrite, Path: at, Real: at}).Effect == policy.Allow
		now, _ := os.ReadFile(at) // "" if it is not there
		did := strings.Contains(said, "did "+n+"\n")
		if changed := string(now) != was[n]; changed != (allowed && did) {
			t.Fatalf("%s holds %q, was %q: the policy allows %v, the command wrote %v\n%s", n, now, was[n], allowed, did, src)
		} else if changed {
			applied++
		} else if !allowed {
			refused++
		}
	}
	return applied, refused
}

func bind(t *testing.T, src, dir string) policy.Chain {
	t.Helper()
	p, err := policy.Parse("drawn.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	return policy.Chain{r}
}

// Remit is killed while a command of a held run writes: nothing of the command
// goes on, nothing is in the workspace, and the next one runs.
func TestKillNineOfAHeldCommand(t *testing.T) {
	w := newWorld(t).durability("process")
	w.needSandbox()
	p := w.beside("policy.yaml", "version: 1\nname: any\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['**']}\n")
	w.write("old", "old")
	times := 6
	if soak() {
		times = 30
	}
	for i := range times {
		token := fmt.Sprintf("3%d.%d", os.Getpid(), i)
		c := w.start("exec", "-p", p, "-w", w.workspace, "--changeset", "--", "sh", "-c",
			"(setsid sleep "+token+" &); i=0; while :; do echo $i >f$i; echo new >>old; i=$((i+1)); done")
		killAfter(t, c, time.Duration(rand.Int64N(int64(120*time.Millisecond))))
		for end := time.Now().Add(time.Minute); running(t, token); time.Sleep(2 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("a process of the command goes on")
			}
		}
		if entries, err := os.ReadDir(w.workspace); err != nil || len(entries) != 1 {
			t.Fatalf("in the workspace: %v, %v", entries, err)
		}
		if b, err := os.ReadFile(filepath.Join(w.workspace, "old")); err != nil || string(b) != "old" {
			t.Fatalf("a file holds %q, %v", b, err)
		}
		w.must(0, "exec", "-p", p, "-w", w.workspace, "--", "true")
	}
	held, err := filepath.Glob(filepath.Join(w.home, "changes", "*"))
	if err != nil {
		t.Fatal(err)
	}
	var unbegun []string
	for _, dir := range held {
		r := w.remit("changes", "discard", filepath.Base(dir))
		left, err := os.ReadDir(filepath.Join(dir, "upper"))
		switch {
		case r.status == 0 && errors.Is(err, fs.ErrNotExist):
		case strings.Contains(r.err, "E5006") && len(left) == 0: // killed before its run was recorded, or before it was all made
			unbegun = append(unbegun, dir)
		default:
			t.Errorf("%s: status %d %s, left %v, %v", dir, r.status, r.err, left, err)
		}
	}
	w.must(0, "verify")
	w.clearsAway(unbegun)
}

// clearsAway makes changesets old that no run was begun for; then the next day
// removes them.
func (w *world) clearsAway(unbegun []string) {
	w.t.Helper()
	for _, dir := range unbegun {
		state := filepath.Join(dir, "state.json")
		b, err := os.ReadFile(state)
		if errors.Is(err, fs.ErrNotExist) { // killed while it was made
			err = os.Chtimes(dir, time.Unix(1700000000, 0), time.Unix(1700000000, 0))
		} else if err == nil {
			b = regexp.MustCompile(`"begun": ?\d+`).ReplaceAll(b, []byte(`"begun":1700000000000000000`))
			err = os.WriteFile(state, b, 0o600)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
	_ = os.Remove(filepath.Join(w.home, "undo", "swept")) // there may have been no sweep
	w.must(0, "exec", "-p", filepath.Join(filepath.Dir(w.workspace), "policy.yaml"), "-w", w.workspace, "--", "true")
	for _, dir := range unbegun {
		if _, err := os.Lstat(dir); err == nil {
			w.t.Errorf("%s is left", dir)
		}
	}
	w.t.Logf("%d had no run", len(unbegun))
}

// running says whether a process has the token among its arguments.
func running(t *testing.T, token string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), token) {
			return true
		}
	}
	return false
}
