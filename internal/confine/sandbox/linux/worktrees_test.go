//go:build linux && (amd64 || arm64)

package linux_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// newTreeWorld makes a repository of the person's, and a linked worktree of it that is the workspace.
func newTreeWorld(t *testing.T) leadWorld {
	t.Helper()
	needGit(t)
	w := newWorld(t, allWritable)
	main, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.RemoveAll(filepath.Join(w.dir, "out")))
	p := person{t, t.TempDir()}
	p.sh(main, "git init -q -b other . && echo secret > private && git add . && git commit -q -m f && git rm -q private && echo x > f && git add f && git commit -q -m f && git worktree add -q -b main "+w.dir+" && echo secret > private")
	w.allow(allWritable)
	return leadWorld{world: w, person: p, mark: filepath.Join(main, "ran"), repository: main}
}

const gitNames = "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.test GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.test GIT_EDITOR=true; set -e; "

// Git works in a linked worktree that is the workspace, although the repository's own folder is outside of it.
func TestGitWorksInALinkedWorktree(t *testing.T) {
	racetest.Skip(t, oneByOne)
	for i, name := range slices.Sorted(maps.Keys(gitWorks)) {
		script := gitWorks[name]
		if os.Getenv("REMIT_SOAK") == "" && i%6 != 1 || strings.Contains(script, ".git/") {
			continue // in a linked worktree .git is a file
		}
		t.Run(name, func(t *testing.T) {
			w := newTreeWorld(t)
			for _, p := range gitPerson {
				if p[0] != "" && strings.Contains(script, p[0]) {
					w.person.sh(w.world.dir, p[1])
				}
			}
			w.person.sh(w.world.dir, "printf '/up.git/\n/has/\n/mod/\n/old/\n' > $(git rev-parse --git-common-dir)/info/exclude")
			if out := w.sh(gitNames + script); out.ExitCode != 0 {
				t.Errorf("exit status %d\n%s\n%s", out.ExitCode, out.Stderr.Data, out.Refusals)
			}
		})
	}
	w := newTreeWorld(t)
	out := w.sh(gitNames + "git status && echo y > y && git add y && git commit -q -m y && git branch b && git log -1 && git stash list && echo z >> y && git stash -q && git stash pop -q && git fetch -q . main:c && git checkout -q y && git rebase -q HEAD~1 && git worktree list && git fsck")
	if said := w.person.sh(w.repository, "git log --format=%s main -1; git branch --list b c; git branch --show-current; git status --porcelain"); out.ExitCode != 0 || said != "y\n  b\n  c\nother\n?? private\n" {
		t.Errorf("exit status %d\n%s\n%s\nthe main worktree: %s", out.ExitCode, out.Stderr.Data, out.Refusals, said)
	}
}

// From a linked worktree a command reaches nothing of the main worktree, and makes no settings or programs of the
// repository that both share, in each way of writing.
func TestALinkedWorktreeOpensOnlyTheRepository(t *testing.T) {
	racetest.Skip(t, oneByOne)
	ways := []string{"cat stage/F > T", "cp stage/F T", "cp stage/F x && mv x T", "ln stage/F T", "ln -s $PWD/stage/F T", "cat stage/F >> T", "mkdir -p T && cp stage/F T/pre-commit", "mv T gone"}
	names := strings.Fields("config config.worktree hooks/post-checkout hooks/pre-commit hooks info/attributes commondir modules/x/config worktrees/NAME/config.worktree worktrees/NAME/commondir worktrees/NAME/gitdir worktrees/NAME " +
		"worktrees/NAME/rebase-merge/git-rebase-todo worktrees/new/config ../f ../private ../new ../../" + "beside")
	w := newTreeWorld(t)
	own := filepath.Base(filepath.Dir(w.person.sh(w.world.dir, "git rev-parse --git-path gitdir")))
	before := w.person.sh(w.repository, "cat .git/config f private; ls .git/hooks . ..")
	var script strings.Builder
	script.WriteString("mkdir stage; printf '[core]\\n\\tfsmonitor = touch " + w.mark + "\\n#!/bin/sh\\ntouch " + w.mark + "\\nexec touch " + w.mark + "\\n* filter=x\\n' > stage/F; chmod +x stage/F\n")
	for _, name := range names {
		for _, way := range ways {
			script.WriteString("(" + strings.ReplaceAll(way, "T", "'"+w.repository+"/.git/"+strings.ReplaceAll(name, "NAME", own)+"'") + ") 2>/dev/null\n")
		}
	}
	script.WriteString("cat " + w.repository + "/private " + w.repository + "/f")
	out := w.sh(script.String())
	if strings.Contains(string(out.Stdout.Data), "secret") {
		t.Errorf("the command reads the main worktree: %s", out.Stdout.Data)
	}
	if after := w.person.sh(w.repository, "cat .git/config f private; ls .git/hooks . .."); after != before {
		t.Errorf("the command changed the main worktree:\n%s\nbefore:\n%s", after, before)
	}
	if said := w.works() + w.person.sh(w.world.dir, works); w.ran() {
		t.Errorf("a program of the command was run\n%s", said)
	}
}

// A command neither removes a worktree that it does not see, nor has the repository name another folder for it, nor one
// that the command could not fill.
func TestWorktreesElsewhereStay(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	const name = "sh -c 'echo TO > .git/worktrees/N/gitdir'; echo TO > g; cp g .git/worktrees/N/gitdir; mv g .git/worktrees/N/gitdir; cat f"
	for what, script := range map[string]string{
		"prune":                "git worktree prune --expire now",
		"gc":                   "git -c gc.worktreePruneExpire=now gc -q",
		"remove":               "git worktree remove --force ELSE",
		"removed by hand":      "rm -rf .git/worktrees/*",
		"moved":                "mv .git/worktrees/tree x; mv .git/worktrees x; mv .git/worktrees/tree .git/worktrees/y",
		"the workspace for it": strings.NewReplacer("N", "tree", "TO", "$PWD/sub/.git").Replace("mkdir sub; " + name),
		"another for it":       strings.NewReplacer("N", "tree", "TO", "BESIDE/.git").Replace(name),
		"a new one":            strings.NewReplacer("N", "evil", "TO", "BESIDE/.git").Replace("mkdir -p .git/worktrees/evil; " + name),
		"a new one, relative":  strings.NewReplacer("N", "evil", "TO", "RELATIVE/.git").Replace("mkdir -p .git/worktrees/evil; " + name),
		"a new one, by a link": strings.NewReplacer("N", "evil", "TO", "$PWD/l/.git").Replace("ln -s BESIDE l; mkdir -p .git/worktrees/evil; " + name),
		"a new one, two lines": strings.NewReplacer("N", "evil", "TO", "BESIDE/.git").Replace("mkdir -p .git/worktrees/evil; printf '%s\\n/.git\\n' BESIDE > .git/worktrees/evil/gitdir; " + name),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newLeadWorld(t, lead{}, ".", "", "none", false)
			base, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			relative, err := filepath.Rel(filepath.Join(w.world.dir, ".git/worktrees/evil"), base+"/beside")
			must(t, err)
			w.person.sh(w.world.dir, "git worktree add -q "+base+"/tree && mkdir "+base+"/beside")
			out := w.sh(gitNames + "set +e; " + strings.NewReplacer("ELSE", base+"/tree", "BESIDE", base+"/beside", "RELATIVE", relative).Replace(script))
			if b, err := os.ReadFile(filepath.Join(w.world.dir, ".git/worktrees/tree/gitdir")); err != nil || string(b) != base+"/tree/.git\n" {
				t.Errorf("the repository names the worktree by %q, %v\n%s", b, err, out.Stderr.Data)
			}
			if b, err := os.ReadFile(filepath.Join(w.world.dir, ".git/worktrees/evil/gitdir")); err == nil {
				t.Errorf("the repository names %q for a worktree", b)
			}
			if said := w.person.sh(base+"/tree", "git status --porcelain --branch"); said != "## tree\n" {
				t.Errorf("in the worktree: %s", said)
			}
			if len(out.Refusals) == 0 {
				t.Errorf("nothing was refused: %s", out.Stderr.Data)
			}
		})
	}
}
