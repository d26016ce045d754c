//go:build linux && (amd64 || arm64)

package linux_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// Git writes to what links in a repository's own folder lead to, as to its settings or to a file of the person's. No command
// makes one, nor one in the place of a folder that core.worktree names.
func TestCommandsMakeNoLinkThatGitWritesThrough(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "git worktree add -q old; git init -q --bare .git/modules/s && git -C .git/modules/s config core.worktree ../../../a/s && git -C .git/modules/s config core.bare false")
	names := strings.Fields("a a/s")
	for _, dir := range strings.Fields(".git .git/worktrees/old .git/modules/s .git/modules/m/n .git/new") {
		for _, name := range strings.Fields("COMMIT_EDITMSG MERGE_MSG FETCH_HEAD index logs/HEAD logs/refs/heads/tabcdef refs/heads/x any/tabcdef/x") {
			names = append(names, dir+"/"+name)
		}
	}
	ways := []string{"ln -s \"$T\" $N", "ln -s \"$T\" l; mv -T l $N", "mkdir -p e/$B; ln -s \"$T\" e/$B/l; mv e/$B $N.d; mv $N.d/l $N"}
	script := "printf '[core]\\n\\tfsmonitor = touch " + w.mark + "\\n' > .git/SQUASH_MSG; echo y >> f; T=$PWD/.git/config\n"
	for _, name := range names {
		script += "N=" + name + "; B=${N##*/}; mkdir -p $(dirname $N); rm -rf $N\n"
		for _, way := range ways {
			script += way + "; test -L $N && echo $N is a link; rm -rf e l\n"
		}
	}
	out := w.sh("PATH=/usr/bin:/bin; " + script + "true")
	if len(out.Stdout.Data) > 0 {
		t.Errorf("%s", out.Stdout.Data)
	}
	w.person.sh(w.world.dir, "GIT_EDITOR=true git commit -qam x")
	if w.works(); w.ran() {
		t.Error("a program of the command was run")
	}
	if out := w.sh("mkdir -p .git/modules/p && git init -q n && git init -q --separate-git-dir .git/modules/p/q p/q && ! grep -r symlinks n/.git/config .git/modules/p/q/config && ln f .git/x"); out.ExitCode != 0 {
		t.Errorf("git init: exit status %d\n%s\n%s\n%s", out.ExitCode, out.Stdout.Data, out.Stderr.Data, out.Refusals)
	}
}
