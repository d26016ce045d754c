//go:build linux && (amd64 || arm64)

package linux_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// In a linked worktree the settings are those of the repository outside, and those of the worktree alone.
func TestALinkedWorktreeLeadsNoPushElsewhere(t *testing.T) {
	racetest.Skip(t, oneByOne)
	w := newTreeWorld(t)
	w.person.sh(w.repository, "git remote add origin https://good.test/a; git config extensions.worktreeConfig true")
	for range 2 { // the second command finds what the first one left
		w.sh(`C=$(git rev-parse --git-common-dir); git remote set-url origin https://evil.test/a; git config --worktree remote.origin.pushurl https://evil.test/a
			rm -f $C/config; printf '[core]\n\trepositoryformatversion = 0\n[remote "origin"]\n\turl = https://evil.test/a\n' > $C/config; git remote add origin https://evil.test/a; true`)
	}
	for _, dir := range []string{w.repository, w.world.dir} {
		if got := w.person.sh(dir, "git remote -v"); got != "origin\thttps://good.test/a (fetch)\norigin\thttps://good.test/a (push)\n" {
			t.Errorf("%s: %s", dir, got)
		}
	}
}

// What Git reads gets its content from the file that is moved there, which the command must be able to read.
func TestNoUnreadableFileIsMovedToAName(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, strings.Replace(allWritable, `read:  {allow: ["**"]}`, `read:  {allow: ["**"], deny: ["private/**"]}`, 1))
	w.file("private/list.txt", "# canary\n")
	for _, to := range []string{".gitattributes", ".gitmodules", "in/.gitattributes"} {
		if out := w.sh("mkdir -p in; mv private/list.txt " + to + "; cat " + to); strings.Contains(string(out.Stdout.Data), "canary") {
			t.Errorf("%s shows a file that may not be read", to)
		}
	}
	w.file("open.txt", "# canary\n")
	if out := w.sh("mv open.txt .gitattributes; cat .gitattributes"); !strings.Contains(string(out.Stdout.Data), "canary") {
		t.Errorf("a file that may be read was not moved: %s", out.Stderr.Data)
	}
}

// Git removes folders that have become empty; those that rules name stay.
func TestEmptyFoldersOfSensitiveNamesAreRemoved(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, strings.Replace(allWritable, `write: {allow: ["**"]}`, `write: {allow: ["**"], ask: ["**/.vscode/**"], deny: ["**/denied/**"]}`, 1))
	person{t, t.TempDir()}.sh(w.dir, "git init -q .; echo x > f; git add f; git commit -qm one; mkdir -p .claude; echo y > f")
	if out := w.sh("git stash -qu"); out.ExitCode != 0 {
		t.Errorf("%s\n%v", out.Stderr.Data, out.Refusals)
	}
	person{t, t.TempDir()}.sh(w.dir, "mkdir -p in/.cursor .vscode/none in/denied full/.claude; echo x > full/.claude/x")
	w.sh("rmdir in/.cursor; rmdir .vscode/none; rmdir in/denied; rm -r full/.claude")
	if got := (person{t, t.TempDir()}).sh(w.dir, "ls -d .claude in/.cursor .vscode/none in/denied full/.claude 2>/dev/null; true"); got != ".vscode/none\nfull/.claude\nin/denied\n" {
		t.Errorf("%q", got)
	}
}

// No command makes a person's push go elsewhere, or a fetch overwrite a branch, in any of the ways in which Git, a
// shell or a move writes settings. What it made itself it may change.
func TestCommandsLeadNoPushElsewhere(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newLeadWorld(t, lead{}, ".", "", "none", false)
	w.person.sh(w.world.dir, "git remote add origin https://good.test/a; git config branch.main.remote origin; git config branch.side.pushRemote mine; git config remote.pushDefault mine; git remote add mine https://mine.test/a; git config branch.main.merge refs/heads/main")
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
	b.WriteString(`git config extensions.worktreeConfig true; git config --worktree remote.origin.pushurl https://evil.test/a; git config --worktree branch.main.remote evil
		git config --unset remote.origin.pushurl; git config --unset branch.side.pushRemote; git config --unset remote.pushDefault; git config push.autoSetupRemote true
		git remote set-url origin https://evil.test/b; git remote set-url --add origin https://evil.test/b
		git remote remove origin; git remote rename origin old; git remote add origin https://evil.test/c
		rm .git/config; rm -f .git/config; : > .git/config; mv .git/config k
		printf '[remote "origin"]\n\turl = https://evil.test/c\n' >> .git/config
		printf '[remote "origin"]\n\turl = https://evil.test/c\n' > .git/config
		mv .git g; rm -rf .git; git init -q; git remote add origin https://evil.test/d; true`)
	w.sh(b.String())
	got := w.person.sh(w.world.dir, "git config --local -l; git config --worktree -l")
	for _, line := range strings.Fields("remote.origin.url=https://good.test/a remote.origin.fetch=+refs/heads/*:refs/remotes/origin/* remote.pushdefault=mine branch.side.pushremote=mine remote.mine.url=https://mine.test/a") {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%s is gone", line)
		}
	}
	for _, part := range strings.Fields("evil mirror alias. :refs/heads autosetupremote pushurl new.") { // a branch may lose its remote
		if strings.Contains(got, part) {
			t.Errorf("%s was set", part)
		}
	}
	if t.Failed() {
		t.Log(got)
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
