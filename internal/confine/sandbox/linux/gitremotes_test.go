//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// No command makes a person's push go elsewhere, or a fetch overwrite a branch, in any of the ways in which Git, a
// shell or a move writes settings. What it made itself it may change.
func TestCommandsLeadNoPushElsewhere(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "git remote add origin https://good.test/a; git config branch.main.remote origin; git config branch.main.merge refs/heads/main")
	file := filepath.Join(w.world.dir, ".git", "config")
	changes := []string{
		"remote.origin.url https://evil.test/a", "remote.origin.pushurl https://evil.test/a", "branch.main.remote evil",
		"remote.origin.fetch +refs/heads/*:refs/heads/*", "remote.new.fetch +refs/heads/*:refs/heads/*", "remote.origin.mirror true",
		"alias.st 'push evil'", "alias.st '!touch x'", "alias.br 'branch -D main'", "alias.lg 'log --output=f'", "alias.st 'diff --ext-diff'",
	}
	var b strings.Builder
	for _, change := range changes {
		b.WriteString("git config " + change + "; git config --add " + change + "\n" +
			"cp .git/config c; git config -f c " + change + "; mv c .git/config; cp .git/config c; git config -f c " + change + "; cat c > .git/config\n")
	}
	b.WriteString(`git remote set-url origin https://evil.test/b; git remote set-url --add origin https://evil.test/b
		git remote remove origin; git remote rename origin old; git remote add origin https://evil.test/c
		rm .git/config; rm -f .git/config; : > .git/config; mv .git/config k
		printf '[remote "origin"]\n\turl = https://evil.test/c\n' >> .git/config
		printf '[remote "origin"]\n\turl = https://evil.test/c\n' > .git/config
		mv .git g; rm -rf .git; git init -q; git remote add origin https://evil.test/d; true`)
	w.sh(b.String())
	got, err := os.ReadFile(file)
	_, remote, _ := strings.Cut(string(got), "[remote")
	if err != nil || !strings.HasPrefix(remote, " \"origin\"]\n\turl = https://good.test/a\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n") || strings.Count(remote, "\n[") != strings.Count(remote, "\n[branch") ||
		strings.Contains(remote, "evil") { // a branch may lose its remote
		t.Fatalf("the settings changed: %v\n%s", err, got)
	}

	w = newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "git remote add origin https://good.test/a")
	out := w.sh(`set -e; git remote add up https://up.test/a; git remote set-url up https://up.test/b; git remote rename up down
		git remote set-branches --add origin x; git config branch.new.remote down; git config branch.new.remote origin
		git config alias.st 'status -sb'; git config alias.lg 'log --oneline --graph --all'; git config alias.co checkout; git config --unset alias.st; git lg
		git init -q own; cd own; git remote add origin https://o.test/a; git remote set-url origin https://p.test/a; rm -rf .git`)
	if out.ExitCode != 0 {
		t.Errorf("exit status %d\n%s\n%v", out.ExitCode, out.Stderr.Data, out.Refusals)
	}
}
