//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
)

// askingToo asks about some names that Git checks out.
const askingToo = allWritable + `
approvals: {expires: 1m}
`

var asksAbout = strings.Replace(askingToo, `write: {allow: ["**"]}`, `write: {allow: ["**"], ask: ["**/AGENTS.md", "**/.github/workflows/**"], deny: ["**/denied.md"]}`, 1)

// protectedNames returns names that no wildcard lets a command write, and names that a policy asks about.
func protectedNames() (names []string) {
	for _, n := range slices.Concat(policy.Sensitive(true), policy.SensitiveAlone(), []string{"AGENTS.md", ".github/workflows/ci.yml"}) {
		n = strings.ReplaceAll(n, "*", "x")
		if !strings.HasPrefix(n, ".git/") && !strings.HasPrefix(n, "~") && !strings.Contains(n, ".git/") && n != ".git" {
			names = append(names, n)
		}
	}
	return names
}

// A linked worktree in the workspace gets all files that the commit has, those with sensitive names too, and can be removed.
func TestAWorktreeInTheWorkspaceGetsAllFiles(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, asksAbout)
	p := person{t, t.TempDir()}
	p.sh(w.dir, "rm -rf out; git init -q -b main . && echo x > f && git add f && git commit -q -m one")
	var names []string
	for i, n := range protectedNames() {
		at := filepath.Join(w.dir, n)
		if os.MkdirAll(filepath.Dir(at), 0o755) != nil || os.WriteFile(at, fmt.Appendf(nil, "%s %d\n", n, i), 0o644) != nil {
			continue // another name is a folder of that name, or a file
		}
		names = append(names, n)
	}
	if len(names) < 100 {
		t.Fatalf("only %d names", len(names))
	}
	p.sh(w.dir, "git add -f . && git commit -q -m two")
	out := w.sh(gitNames + "git worktree add -q .trees/a -b a && test $(git -C .trees/a ls-files --deleted | wc -l) = 0 && echo y > .trees/a/g && git -C .trees/a add g && git -C .trees/a commit -q -m three")
	if out.ExitCode != 0 {
		t.Fatalf("exit status %d\n%s\n%s", out.ExitCode, out.Stderr.Data, out.Refusals)
	}
	for _, n := range names {
		was, _ := os.ReadFile(filepath.Join(w.dir, n))
		if is, err := os.ReadFile(filepath.Join(w.dir, ".trees/a", n)); err != nil || string(is) != string(was) {
			t.Errorf("%s: %q, %v", n, is, err)
		}
	}
	if said := p.sh(w.dir, "git -C .trees/a status --porcelain && git diff --stat main a"); !strings.Contains(said, "1 file changed") {
		t.Errorf("the worktree, and its commit: %s", said)
	}
	if out = w.sh(gitNames + "git worktree remove --force .trees/a && git branch -q -D a && test ! -e .trees/a"); out.ExitCode != 0 {
		t.Errorf("exit status %d\n%s\n%s", out.ExitCode, out.Stderr.Data, out.Refusals)
	}
}

// Whatever way a command writes to a sensitive name in a linked worktree, no content comes there that the workspace does not have.
func TestAWorktreeInTheWorkspaceGetsNothingElse(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, asksAbout)
	p := person{t, t.TempDir()}
	p.sh(w.dir, "rm -rf out; git init -q -b main . && mkdir -p .vscode .github/workflows sub && echo own > .npmrc && echo own > .vscode/tasks.json && echo own > AGENTS.md && echo own > .github/workflows/ci.yml && echo own > denied.md && echo own > .envrc && echo own > sub/.envrc && git add -f . && git commit -q -m one && git checkout -q -b evil && "+
		"for f in .npmrc .vscode/tasks.json AGENTS.md .github/workflows/ci.yml .envrc sub/.envrc; do echo evil > $f; done && git commit -q -a -m evil && git checkout -q main")
	names := strings.Fields(".npmrc .vscode/tasks.json AGENTS.md .github/workflows/ci.yml denied.md .envrc sub/.envrc .vscode/new.json new/.envrc .envrc/x")
	ways := []string{
		"cat evil > T", "cat evil >> T", "cp evil T", "cp evil x; mv x T", "ln evil T", "ln -s $PWD/evil T", "cp own T && cat evil >> T", "cp own T; cp own x; mv x T; ln T y; cat evil > y",
		"exec 3> T; cat own >&3; cat evil >&3; exec 3>&-", "exec 3<> T; cat own >&3; (sleep 0.2; cat evil >&3) & exec 3>&-; wait", "mkdir -p T; cp evil T/f", "mkfifo T", "dd if=/dev/zero of=T bs=70000 count=1",
		"cp own T; mv $(dirname T) moved; cat evil > moved/$(basename T); mv moved $(dirname T)",
	}
	var script strings.Builder
	script.WriteString(gitNames + "set +e; git worktree add -q tree -b tree; echo evil > evil; echo own > own\n")
	for _, n := range names {
		for _, way := range ways {
			script.WriteString("(" + strings.ReplaceAll(way, "T", "tree/"+n) + ") 2>/dev/null\n")
		}
		script.WriteString("git -C tree checkout -q -f evil 2>/dev/null; git -C tree checkout -q evil -- " + n + " 2>/dev/null; git -C tree checkout -q -f tree 2>/dev/null; rm -f x y\n")
	}
	script.WriteString("cp -r tree copy; mv tree other; cd other && cat ../evil > .npmrc")
	out := w.sh(script.String())
	for _, top := range []string{".", "tree", "copy", "other"} {
		for _, n := range names {
			if is, err := os.ReadFile(filepath.Join(w.dir, top, n)); err == nil && string(is) != "own\n" {
				t.Errorf("%s/%s: %q\n%s", top, n, is, out.Refusals)
			}
		}
	}
	if _, err := os.Stat(filepath.Join(w.dir, "copy/denied.md")); err == nil {
		t.Error("a file that an entry denies was made")
	}
	if len(out.Refusals) == 0 {
		t.Errorf("nothing was refused: %s", out.Stderr.Data)
	}
}

// A command cannot try out for long what a file holds that it may not read.
func TestGuessesAreCounted(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, allWritable)
	p := person{t, t.TempDir()}
	p.sh(w.dir, "git init -q -b main . && echo x > f && git add f && git commit -q -m one && echo PIN=40 > .env")
	w.sh(gitNames + "git worktree add -q tree -b tree; for i in $(seq 0 60); do (echo PIN=$i > tree/.env) 2>/dev/null; test ! -e tree/.env || break; done")
	if is, err := os.ReadFile(filepath.Join(w.dir, "tree/.env")); err == nil {
		t.Errorf("the command found out %q", is)
	}
}
