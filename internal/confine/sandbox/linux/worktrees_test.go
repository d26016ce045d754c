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
