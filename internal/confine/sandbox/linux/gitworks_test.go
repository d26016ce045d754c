//go:build linux && (amd64 || arm64)

package linux_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// gitWorks are scripts of Git that name no program, in a repository of the person with a commit, a clone of it in up.git
// and a file f.
var gitWorks = map[string]string{
	"init":             "git init -q sub && git -C sub add -A && git -C sub commit -q --allow-empty -m 1",
	"init here":        "mkdir d && cd d && git init && echo x > HEADER && git add . && git commit -q -m 1",
	"clone":            "git clone -q . c && git -C c commit -q --allow-empty -m 2 && git -C c push -q origin HEAD:refs/heads/new",
	"clone of another": "git clone -q up.git c && git -C c log -1 >/dev/null",
	"copies":           "git clone -q . c && cp -a c d && cp -r c e && mkdir t && tar cf - c | tar xf - -C t && for r in d e t/c; do git -C $r status --porcelain && git -C $r fetch -q && diff c/.git/config $r/.git/config; done",
	"remove a clone":   "git clone -q . c && rm -rf c",
	"stash":            "echo y >> f && echo u > untracked && git stash -u && git stash pop && git diff --quiet untracked",
	"rebase":           "git checkout -q -b a && echo a > a && git add a && git commit -q -m a && git checkout -q main && echo b > b && git add b && git commit -q -m b && git rebase main a",
	"interactive":      "echo a > a && git add a && git commit -q -m a && GIT_SEQUENCE_EDITOR=true git rebase -i HEAD~1",
	"merge":            "git checkout -q -b a && echo a > a && git add a && git commit -q -m a && git checkout -q main && git merge --no-ff -m m a && git branch -d a",
	"cherry-pick":      "git checkout -q -b a && echo a > a && git add a && git commit -q -m a && git checkout -q main && git cherry-pick a",
	"config user":      "git config user.name me && git config user.email a@b.test && git config --unset user.name",
	"remote":           "git remote add o https://x.test/a && git remote set-url o https://y.test/a && git remote rename o p && git remote remove p",
	"push and track":   "git remote add o ./up.git && git fetch -q o && git push -q -u o HEAD:refs/heads/x && git branch --unset-upstream && git branch -u o/x",
	"pull":             "git remote add o ./up.git && git pull -q --rebase o main && git pull -q --no-rebase o main",
	"branches":         "git switch -q -c a && git branch b && git branch -m b c && git branch -D c && git checkout -q --track -b t main",
	"tags":             "git tag v1 && git tag -a v2 -m two && git tag -d v1",
	"gc":               "git gc -q && git repack -adq && git fsck",
	"pack refs":        "git pack-refs --all && git reflog expire --all && git prune",
	"in a submodule":   "cd has/s && echo x > x && git add x && git commit -q -m x && git switch -q -c n && git fetch -q",
	"in a worktree":    "cd old && echo x > x && git add x && git commit -q -m x && git switch -q -c n && git stash list && git rebase HEAD~1",
	"worktree":         "git worktree add -q w && cd w && echo x > x && git add x && git commit -q -m x && cd .. && git worktree list && git worktree remove w && git worktree prune && test ! -e w",
	"worktree beside":  "mkdir t && git worktree add -q -b n t/w && git -C t/w commit -q --allow-empty -m 2 && rm -rf t && git worktree prune && git branch -D n",
	"add a submodule":  "git -c protocol.file.allow=always submodule --quiet add ./up.git s && git commit -q -m s && git -C s log -1 && git submodule status",
	"get a submodule":  "cd mod && git -c protocol.file.allow=always submodule --quiet update --init && git -C s log -1 && git submodule status",
	"attributes":       "printf '* text=auto eol=lf\n*.png binary\n*.bin filter=lfs diff=lfs merge=lfs -text\n' > .gitattributes && git add . && git commit -q -m at && git clone -q . c && test -s c/.gitattributes && git -C c status --porcelain | wc -l | grep -qx 0 && git checkout -q -b o HEAD~1 && test ! -e .gitattributes && git checkout -q main && test -s .gitattributes",
	"separate":         "mkdir .git/modules && git init -q --separate-git-dir .git/modules/z z && git -C z commit -q --allow-empty -m 1",
	"sparse":           "git sparse-checkout set --cone d && git sparse-checkout disable",
	"ignored files":    "mkdir -p .git/info && echo '*.o' >> .git/info/exclude && echo x > .gitignore && git add .gitignore && git commit -q -m i",
	"notes":            "git notes add -m n && git notes show",
	"bisect":           "git commit -q --allow-empty -m 2 && git commit -q --allow-empty -m 3 && git bisect start HEAD HEAD~2 && git bisect good && git bisect reset",
	"am":               "echo a > a && git add a && git commit -q -m a && git format-patch -1 -q && git reset -q --hard HEAD~1 && git am -q 0001-a.patch",
	"apply":            "echo y >> f && git diff > p && git checkout -q f && git apply p",
	"clean":            "mkdir x && echo x > x/y && git clean -fdq",
	"files named HEAD": "mkdir t && echo x > t/HEAD && echo y > HEAD && mv HEAD t/head && rm t/HEAD && mkdir -p t/HEAD",
}

// gitPerson makes what scripts of gitWorks need, by a word in them.
var gitPerson = [][2]string{
	{"", "git init -q -b main . && echo x > f && git add f && git commit -q -m f"},
	{"up.git", "git clone -q --bare . up.git"},
	{"has", "git clone -q --bare . up.git; git init -q -b main has && git -C has commit -q --allow-empty -m 1 && git -C has -c protocol.file.allow=always submodule --quiet add ../up.git s && git -C has commit -q -m s"},
	{"mod", "git clone -q --bare . up.git; git init -q -b main has && git -C has commit -q --allow-empty -m 1 && git -C has -c protocol.file.allow=always submodule --quiet add ../up.git s && git -C has commit -q -m s && git clone -q has mod"},
	{"old", "git worktree add -q old"},
	{"", "printf '/up.git/\n/has/\n/mod/\n/old/\n' > .git/info/exclude"},
}

// Git works in a command under write: ["**"], as long as nothing in it names a program.
func TestGitWorksInside(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	for i, name := range slices.Sorted(maps.Keys(gitWorks)) {
		if os.Getenv("REMIT_SOAK") == "" && i%6 != 0 {
			continue
		}
		script := gitWorks[name]
		t.Run(name, func(t *testing.T) {
			w := newLeadWorld(t, lead{}, ".", "", "none", false)
			w.person.sh(w.world.dir, "rm -rf .git")
			for _, p := range gitPerson {
				if strings.Contains(script, p[0]) {
					w.person.sh(w.world.dir, p[1])
				}
			}
			out := w.sh("WS=$(basename $(pwd)); export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.test GIT_EDITOR=true; set -e; " + script)
			if out.ExitCode != 0 {
				t.Errorf("exit status %d\n%s\n%s", out.ExitCode, out.Stderr.Data, out.Refusals)
			}
		})
	}
}
