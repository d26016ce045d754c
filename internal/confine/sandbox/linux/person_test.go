//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// TestCommitsHaveThePersonsName: Git has the person's name and habits inside, those of a repository win, and no secret
// of the person's settings is there.
func TestCommitsHaveThePersonsName(t *testing.T) {
	needGit(t)
	w := newWorld(t, standardPolicy)
	w.home = t.TempDir()
	must(t, os.WriteFile(filepath.Join(w.home, ".gitconfig"), []byte("[user]\n\tname = Ann Other\n\temail = ann@a.test\n[init]\n\tdefaultBranch = trunk\n[alias]\n\tone = log -1 --format=%an/%ae/%cn\n[http]\n\textraheader = SECRET\n"), 0o600))
	w.allow(standardPolicy)
	for _, c := range []struct{ script, want string }{
		{"git config --global --list", "user.name=Ann Other\nuser.email=ann@a.test\ninit.defaultbranch=trunk\nalias.one=log -1 --format=%an/%ae/%cn"},
		{"git config --global user.name; grep -c SECRET ~/.gitconfig", "Ann Other\n0"},
		{"git config --global user.name Inside && git config user.name", "Inside"},
	} {
		if out := w.sh(c.script); strings.TrimSpace(string(out.Stdout.Data)) != c.want {
			t.Errorf("%s: got %q, want %q\n%s", c.script, out.Stdout.Data, c.want, out.Stderr.Data)
		}
	}
	out := w.sh("git init -q r && cd r && git commit -q --allow-empty -m 1 && git one && git branch --show-current && git config user.email other@a.test && git commit -q --allow-empty -m 2 && git one && git config --global x.y z && git config x.y; git config --list | grep SECRET; cat /etc/gitconfig >/dev/null 2>&1; true")
	want := "Ann Other/ann@a.test/Ann Other\ntrunk\nAnn Other/other@a.test/Ann Other\nz"
	if got := strings.TrimSpace(string(out.Stdout.Data)); got != want {
		t.Errorf("got %q, want %q\n%s", got, want, out.Stderr.Data)
	}
}

// TestAKeptHomeHasThePersonsSettings: they follow the person's, unless a command changed them, and a link in the home leads
// nothing astray.
func TestAKeptHomeHasThePersonsSettings(t *testing.T) {
	needGit(t)
	state, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	kept := strings.Replace(standardPolicy, "name: test\n", "name: test\nsandbox: {home: kept}\n", 1)
	w := newWorld(t, kept)
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: state})
	defer func() { must(t, w.box.Close()) }()
	w.home = t.TempDir()
	person := func(name string) {
		must(t, os.WriteFile(filepath.Join(w.home, ".gitconfig"), []byte("[user]\n\tname = "+name+"\n"), 0o600))
		w.allow(kept)
	}
	canary := filepath.Join(w.home, "canary")
	must(t, os.WriteFile(canary, []byte("untouched"), 0o644))
	for _, step := range []struct{ name, script, want string }{
		{"Ann", "git config --global user.name", "Ann"},
		{"Bea", "git config --global user.name", "Bea"},
		{"Bea", "git config --global user.name Inside; git config --global user.name", "Inside"},
		{"Cem", "git config --global user.name", "Inside"},
		{"Cem", "rm ~/.gitconfig; mkfifo ~/.gitconfig; echo made", "made"},
		{"Cem", "test -p ~/.gitconfig && rm ~/.gitconfig; ln -s " + canary + " ~/.gitconfig; echo made", "made"},
		{"Cem", "test -h ~/.gitconfig && rm ~/.gitconfig; echo gone", "gone"},
		{"Cem", "git config --global user.name", "Cem"},
	} {
		person(step.name)
		if out := w.sh(step.script); strings.TrimSpace(string(out.Stdout.Data)) != step.want {
			t.Errorf("%s, %s: got %q, want %q\n%s", step.name, step.script, out.Stdout.Data, step.want, out.Stderr.Data)
		}
	}
	if b, err := os.ReadFile(canary); err != nil || string(b) != "untouched" {
		t.Errorf("behind the link: %q, %v", b, err)
	}
}
