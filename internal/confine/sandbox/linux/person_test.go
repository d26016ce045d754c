//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCommitsHaveThePersonsName: Git has the person's name and habits inside, those of a repository win, and no secret
// of the person's settings is there.
func TestCommitsHaveThePersonsName(t *testing.T) {
	needGit(t)
	w := newWorld(t, standardPolicy)
	w.home = t.TempDir()
	must(t, os.WriteFile(filepath.Join(w.home, ".gitconfig"), []byte("[user]\n\tname = Ann Other\n\temail = ann@a.test\n[init]\n\tdefaultBranch = trunk\n[alias]\n\tone = log -1 --format=%an/%ae/%cn\n[http]\n\textraheader = SECRET\n"), 0o600))
	w.allow(standardPolicy)
	out := w.sh("git init -q r && cd r && git commit -q --allow-empty -m 1 && git one && git branch --show-current && git config user.email other@a.test && git commit -q --allow-empty -m 2 && git one && git config --global x.y z && git config x.y; git config --list | grep SECRET; cat /etc/gitconfig >/dev/null 2>&1; true")
	want := "Ann Other/ann@a.test/Ann Other\ntrunk\nAnn Other/other@a.test/Ann Other\nz"
	if got := strings.TrimSpace(string(out.Stdout.Data)); got != want {
		t.Errorf("got %q, want %q\n%s", got, want, out.Stderr.Data)
	}
}
