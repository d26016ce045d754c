//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// Git in a command runs no program that the repository around it names.
func TestGitInsideRunsNoProgramOfARepository(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	const commit = "git -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m one"
	tests := map[string]struct{ config, hook, command string }{
		"a monitor":          {"[core]\n\tfsmonitor = \"touch ran; false\"\n", "", "git status"},
		"a hook":             {"", "#!/bin/sh\ntouch ran\n", commit},
		"another hooks path": {"[core]\n\thooksPath = hooks\n", "#!/bin/sh\ntouch ran\n", commit},
		"ssh":                {"[core]\n\tsshCommand = touch ran;\n", "", "git fetch ssh://127.0.0.1/x"},
		"a signing program":  {"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = ./sign\n", "#!/bin/sh\ntouch ran\n", commit},
		"a transport":        {"[protocol \"ext\"]\n\tallow = always\n[remote \"o\"]\n\turl = ext::touch ran\n", "", "git fetch o"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for _, own := range []bool{false, true} {
				src := strings.Replace(standardPolicy, "  timeout: 5m\n", "  timeout: 5m\n  env: [GIT_CONFIG_COUNT]\n", 1)
				if !own {
					src = standardPolicy
				}
				w := newWorld(t, src)
				begin(t, w.dir, true)
				config, err := os.ReadFile(filepath.Join(w.dir, ".git/config"))
				must(t, err)
				w.file(".git/config", string(config)+tc.config)
				for _, at := range []string{".git/hooks/pre-commit", "hooks/pre-commit", "sign"} {
					must(t, os.Chmod(w.file(at, tc.hook), 0o755))
				}
				w.sh(tc.command + "; true")
				if _, err := os.Stat(filepath.Join(w.dir, "ran")); (err == nil) != own {
					t.Errorf("the policy sets its own configuration: %v; a program was run: %v", own, err == nil)
				}
			}
		})
	}
}

// A folder that looks like a repository and has no .git is none for Git in a command.
func TestGitInsideTakesNoBareRepository(t *testing.T) {
	needGit(t)
	w := newWorld(t, standardPolicy)
	for name, text := range repository("b/", "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch ../ran; false\"\n\tworktree = ..\n") {
		w.file(name, text)
	}
	if out := w.sh("cd b && git status"); !strings.Contains(string(out.Stderr.Data), "safe.bareRepository") {
		t.Errorf("git status said %q", out.Stderr.Data)
	}
}
