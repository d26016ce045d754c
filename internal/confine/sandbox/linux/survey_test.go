//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// A survey that reaches its bound marks what it left out, in few folders.
func TestASurveyIsBounded(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	const folders, below = 5, 10
	for i := range folders {
		for j := range below {
			must(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i), fmt.Sprint(j), "deep"), 0o755))
		}
	}
	var count func(n *sandbox.Node) (skipped, open int)
	count = func(n *sandbox.Node) (skipped, open int) {
		switch {
		case n.Skipped && (n.Complete || len(n.Children) > 0):
			t.Errorf("%s is skipped and listed", n.Path)
		case n.Skipped:
			return 1, 0
		case !n.Complete:
			t.Errorf("%s is not complete, and not marked", n.Path)
		}
		for _, child := range n.Children {
			s, o := count(child)
			skipped, open = skipped+s, open+o
		}
		return skipped, open + 1
	}
	all := 1 + folders + 2*folders*below
	for _, tc := range []struct{ names, most, skipped, open int }{
		{all, 1000, 0, all},
		{folders + folders*below, 1000, folders * below, 1 + folders}, // nothing of the third level
		{folders + folders*below, folders, folders, 1},                // too many to leave out one by one
		{folders, 1000, folders, 1},
		{folders, 1, 1, 0},
		{0, 1000, 1, 0},
	} {
		nodes := linux.SurveyUpTo(tc.names, tc.most, dir)
		if len(nodes) != 1 {
			t.Fatalf("%d roots", len(nodes))
		}
		if skipped, open := count(nodes[0]); skipped != tc.skipped || open != tc.open {
			t.Errorf("up to %d names and %d skipped: %d folders are skipped and %d listed, want %d and %d", tc.names, tc.most, skipped, open, tc.skipped, tc.open)
		}
	}
}

// All files may be readable: the sandbox's own folders stay its own, the system
// stays whole, and what was too much to look at is said.
func TestAllowedThingsOfTheWholeMachine(t *testing.T) {
	for _, in := range []string{"", "/var/tmp"} {
		w := newWorld(t, openPolicy)
		if in != "" {
			dir, err := os.MkdirTemp(in, "remit-test-")
			must(t, err)
			t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
			must(t, os.Chmod(dir, 0o755))
			w.dir, err = filepath.EvalSymlinks(dir)
			must(t, err)
		}
		w.file("plain", "plain")
		w.file(".env", "secret")
		must(t, os.MkdirAll(filepath.Join(w.dir, "out"), 0o755))
		w.allow(strings.Replace(openPolicy, `["**"]`, `["/**"]`, 1))
		const script = `cat plain && echo -new > out/new && cat out/new && echo -tmp > $TMPDIR/x && cat /tmp/x && test -r /etc/hostname -a -d /var/lib && cat .env`
		var out sandbox.Outcome
		var err error
		for range 10 { // other programs' files come and go
			if out, err = w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true}); err == nil || !strings.Contains(err.Error(), "files may have changed meanwhile") {
				break
			}
		}
		must(t, err)
		if got := string(out.Stdout.Data); got != "plain-new\n-tmp\n" {
			t.Errorf("in %s: got %q, %s\n%s", w.dir, got, out.Stderr.Data, strings.Join(out.Notes, "\n"))
		}
	}
}
