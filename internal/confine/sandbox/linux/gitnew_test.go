//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// names are sensitive, or asked about; one is denied.
const newNames = ".github/workflows/ci.yml .vscode/tasks.json .travis.yml .npmrc .husky/pre-commit .mcp.json CLAUDE.md"

// newRepositoryWorld is a repository with such files. With policies that open new repositories, a command of a run that has
// just begun can check it out elsewhere.
func newRepositoryWorld(t *testing.T, setting string) (*world, func(string) string) {
	t.Helper()
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, `version: 1
name: test
files:
  read: {allow: ["**"]}
  write: {allow: ["**"], ask: ["**/.github/workflows/**", "**/.vscode/**", "**/.travis.yml", "**/CLAUDE.md"], deny: ["**/denied/**"]}
commands: {allow: ["**"], memory: 1GiB}
sandbox: {`+setting+`}
`)
	person := person{t, t.TempDir()}
	person.sh(w.dir, "git init -q .; mkdir sub; for f in "+newNames+" sub/.travis.yml; do mkdir -p $(dirname $f); echo old > $f; done; git add -fA; git commit -qm one; mkdir -p theirs/in; git init -q theirs; git init -q theirs/in; echo old > theirs/.travis.yml")
	time.Sleep(20 * time.Millisecond) // the clock of file systems is coarser
	w.p = permit.Mint(permit.Terms{Chain: w.p.Chain(), Limits: w.p.Limits(), Began: time.Now(), Env: tool.Env{Workspace: w.dir, Path: w.p.Env().Path, Home: person.home}})
	time.Sleep(20 * time.Millisecond)
	return w, func(script string) string { return person.sh(w.dir, script) }
}

// Git removes folders that have become empty; rules are another matter.
func TestEmptyFoldersOfSensitiveNamesAreRemoved(t *testing.T) {
	w, person := newRepositoryWorld(t, "new_repositories: strict")
	person("mkdir .claude in in/.cursor .vscode/none denied; mkdir -p in/denied; echo x > x; echo y >> CLAUDE.md")
	if out := w.sh("git stash -qu"); out.ExitCode == 0 { // CLAUDE.md is asked about
		t.Error("git stash changed CLAUDE.md")
	}
	w.sh("rmdir .claude in/.cursor; rmdir .vscode/none; rmdir in/denied; rmdir .git/hooks .husky; rm -r .husky")
	if got := person("ls -d .claude in/.cursor .vscode/none in/denied .husky 2>/dev/null; true"); got != ".husky\n.vscode/none\nin/denied\n" {
		t.Errorf("%q", got)
	}
}

func TestNewRepositoriesAreCheckedOutWhole(t *testing.T) {
	w, person := newRepositoryWorld(t, "new_repositories: open")
	out := w.sh(`set -e; git clone -q . clone; git worktree add -q tree; git -C clone status --porcelain; git init -q made; mkdir made/.vscode; echo x > made/.vscode/a
		cd clone; echo new >> .travis.yml; git checkout -q -b other; git -c user.name=a -c user.email=a@b commit -qam new; git checkout -q -; git checkout -q other; cd ..
		mv clone moved; git worktree remove -f tree; rm -rf made`)
	if out.ExitCode != 0 {
		t.Errorf("exit status %d\n%s\n%v", out.ExitCode, out.Stderr.Data, out.Refusals)
	}
	if got := person("cd moved; ls " + newNames + " | wc -l; cat .travis.yml | tr '\\n' ' '; cd ..; ls -d tree made 2>/dev/null; git status --porcelain"); got != "7\nold new ?? moved/\n?? theirs/\n" {
		t.Errorf("%q", got)
	}
	if out := w.sh("rm -rf moved"); out.ExitCode != 0 {
		t.Errorf("exit status %d\n%s\n%v", out.ExitCode, out.Stderr.Data, out.Refusals)
	}
}

// By repositories of its own, a command changes no file with such a name that was there, and gives none to another folder.
func TestNewRepositoriesOpenNothingElse(t *testing.T) {
	for _, setting := range []string{"new_repositories: open", "new_repositories: strict"} {
		t.Run(setting, func(t *testing.T) {
			w, person := newRepositoryWorld(t, setting)
			_ = os.WriteFile(filepath.Join(w.dir, "try.py"), []byte(tryMoves), 0o644)
			if _, err := exec.LookPath("python3"); err != nil {
				t.Fatal(err)
			}
			w.sh("git init -q new; git init -q sub/n; python3 try.py; rm -rf new/.git sub/n/.git; python3 try.py; git init -q sub; git init -q .vscode; git init -q .github; python3 try.py; true")
			evil := person("grep -rl evil . | grep -v try.py | sort")
			for _, file := range strings.Fields(evil) {
				if !strings.HasPrefix(file, "./new/") && !strings.HasPrefix(file, "./sub/n/") && !strings.HasPrefix(file, "./fresh/") || setting != "new_repositories: open" || strings.Contains(file, "denied") || strings.Contains(file, "/.git/") {
					t.Errorf("%s was written", file)
				}
			}
			if setting == "new_repositories: open" && !strings.Contains(evil, "./new/.vscode/tasks.json") {
				t.Errorf("nothing was tried: %s", evil)
			}
		})
	}
}

// tryMoves has a command write to new repositories, and bring what it wrote to other places.
const tryMoves = `
import os, shutil
names = "` + newNames + ` denied/x".split()
def t(f, *a):
    try: f(*a)
    except Exception: pass
def write(p):
    t(os.makedirs, os.path.dirname(p) or ".", 0o755, True)
    with open(p, "w") as f: f.write("evil")
for repo in "new", "sub/n", "sub", "theirs", "theirs/in", ".vscode", ".github", "fresh":
    t(os.mkdir, repo)
    for n in names: t(write, repo + "/" + n)
    for n in "config", "hooks/post-checkout": t(write, repo + "/.git/" + n)
for n in names:
    top = n.split("/")[0]
    for source in "new/", "sub/n/":
        for to in "", "fresh/", "sub/":
            t(os.rename, to + top, "aside"); t(os.rename, "aside", to + top)
            t(os.rename, source + top, to + top); t(os.rename, to + top, source + top)
            t(os.symlink, source + top, to + top)
            t(os.link, source + n, to + n)
            t(shutil.copytree, source + top, to + top, dirs_exist_ok=True)
            t(os.rename, source + n, to + n)
            t(os.rename, source[:-1], to + top); t(os.rename, to + top, source[:-1])
t(os.rename, "new", "sub/.github"); t(os.rename, "new/.github", "fresh/.github")
t(os.rename, "theirs", "new/theirs"); t(write, "new/theirs/.travis.yml"); t(os.rename, "new/theirs", "theirs")
t(os.rename, "sub", "new/sub"); t(write, "new/sub/.travis.yml"); t(os.rename, "new/sub", "sub")
`
