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
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// TestTheSandboxesFoldersAroundAWorkspaceStay: a workspace below /tmp is mounted in folders of the sandbox's own, which the
// policy does not decide about. Under another path, nothing in the workspace would have the name that a rule protects.
func TestTheSandboxesFoldersAroundAWorkspaceStay(t *testing.T) {
	racetest.Skip(t, oneByOne)
	src := strings.Replace(openPolicy, `"out/**"`, `"**"`, 1)
	kept := src + "sandbox: {home: kept}\n"
	for name, src := range map[string]string{"an empty home": src, "a kept home": kept} {
		if src == kept && os.Getenv("REMIT_SOAK") == "" {
			continue
		}
		t.Run(name, func(t *testing.T) { testFoldersOfTheSandbox(t, src) })
	}
}

func testFoldersOfTheSandbox(t *testing.T, src string) {
	w := newWorld(t, src)
	if !sandbox.Within(w.dir, "/tmp") {
		t.Skipf("NOT TESTED: the temporary folder is %s", w.dir)
	}
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: t.TempDir()})
	defer func() { must(t, w.box.Close()) }()
	w.file(".env", "TOKEN")
	w.file(".git/hooks/x", "true")
	soak := os.Getenv("REMIT_SOAK") != ""
	for depth, dir := 0, w.dir; dir != "/tmp"; depth, dir = depth+1, filepath.Dir(dir) {
		moves := map[string]string{
			"renamed":           "mv DIR /tmp/away",
			"renamed in place":  "mv DIR DIR.away; mkdir -p /tmp/away; mv DIR.away /tmp/away",
			"exchanged":         "mkdir /tmp/away; perl -e 'syscall(316, -100, $ARGV[0], -100, $ARGV[1], 2)' DIR /tmp/away", // renameat2 with RENAME_EXCHANGE
			"exchanged for":     "mkdir /tmp/away; perl -e 'syscall(316, -100, $ARGV[1], -100, $ARGV[0], 2)' DIR /tmp/away",
			"replaced":          "mkdir /tmp/away; perl -e 'rename $ARGV[1], $ARGV[0]' DIR /tmp/away",
			"removed":           "rmdir DIR",
			"removed from afar": "cd /; rmdir DIR",
			"in a moved folder": "cd " + filepath.Dir(dir) + "; mv " + filepath.Base(dir) + " away; cd away",
			"into the home":     "mv DIR ~/away",
		}
		for i, name := range slices.Sorted(maps.Keys(moves)) {
			if !soak && (i+depth)%2 == 1 {
				continue // each folder gets every second move, and its parent the others
			}
			script := strings.ReplaceAll(moves[name], "DIR", dir) + `
for d in . /tmp /tmp/away ~; do
	find $d -name .env -exec cat {} ';'
	find $d -path '*/.git/hooks/x' -exec sh -c 'echo evil > {}' ';'
done
cat .env; echo evil > .git/hooks/x`
			out := w.sh(script)
			if got := string(out.Stdout.Data); strings.Contains(got, "TOKEN") {
				t.Errorf("%s %s: the command reads %q", dir, name, got)
			}
			if b, err := os.ReadFile(filepath.Join(w.dir, ".git/hooks/x")); err != nil || string(b) != "true" {
				t.Errorf("%s %s: the hook is %q, %v", dir, name, b, err)
				w.file(".git/hooks/x", "true")
			}
		}
	}
	if out := w.sh("mkdir -p /tmp/a/b && mv /tmp/a /tmp/c && mv /tmp/c/b ~/b && rmdir /tmp/c ~/b && mkdir d && mv d e && rmdir e"); out.ExitCode != 0 {
		t.Errorf("folders without the workspace: %s", out.Stderr.Data)
	}
}
