//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

const askPolicy = `
version: 1
name: test
files:
  read:  {allow: ["**"]}
  write: {allow: ["**"], deny: [fixed.sh]}
commands:
  ask: ["**"]
  timeout: 300s
`

// contentsOf tells the files of a command that an approval is bound to.
func contentsOf(t *testing.T, w *world, argv ...string) []string {
	t.Helper()
	actions := []tool.Action{{Kind: tool.Command, Argv: argv, Dir: w.dir, Exe: "/usr/bin/dash"}}
	must(t, w.box.Contents(t.Context(), nil, w.dir, w.p.Chain(), actions))
	out := []string{}
	for _, c := range actions[0].Contents {
		rel, err := filepath.Rel(w.dir, c.Path)
		must(t, err)
		kind, _, _ := strings.Cut(c.State, ":")
		out = append(out, rel+" "+kind)
	}
	return out
}

func TestWhatAnApprovalIsBoundTo(t *testing.T) {
	w := newWorld(t, askPolicy)
	w.file("deploy.sh", "true")
	w.file("fixed.sh", "true")
	w.file("dir/x", "x")
	must(t, os.Symlink("deploy.sh", filepath.Join(w.dir, "link")))
	w.file("dir/deploy.sh", "false")
	w.file("dir/sub/x", "x")
	must(t, os.Symlink("dir/sub", filepath.Join(w.dir, "deep")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(w.dir, "away")))
	large, err := os.Create(filepath.Join(w.dir, "large"))
	must(t, errors.Join(err, large.Truncate(40<<20), large.Close()))
	for _, tc := range []struct{ argv, want []string }{
		{[]string{"sh", "deploy.sh"}, []string{"deploy.sh sha256"}},
		{[]string{"/bin/sh", "./deploy.sh", "deploy.sh"}, []string{"deploy.sh sha256"}},
		{[]string{"/bin/sh", "link"}, []string{"deploy.sh sha256"}},
		{[]string{"/bin/x", "--file=dir/../deploy.sh", "-v", "--"}, []string{"deploy.sh sha256"}},
		{[]string{"/bin/x", "-fdeploy.sh", "if=fixed.sh", "--", "-v"}, []string{"deploy.sh sha256", "if=fixed.sh absent", "-v absent"}},
		{[]string{"/bin/sh", "deep/../deploy.sh"}, []string{"dir/deploy.sh sha256"}},
		{[]string{"/bin/sh", "fixed.sh", "/etc/passwd", "dir"}, []string{}},
		{[]string{"/bin/sh", "away"}, []string{"../../../etc/passwd linked"}},
		{[]string{"/bin/sh", "gone.sh"}, []string{"gone.sh absent"}},
		{[]string{"/bin/sh", "large"}, []string{"large version"}},
		{[]string{"/bin/sh", "a\x00b", strings.Repeat("x", 5000)}, []string{}},
	} {
		got := contentsOf(t, w, tc.argv...)
		for i, g := range got { // the test's folder is anywhere
			if strings.HasSuffix(g, "etc/passwd linked") {
				got[i] = "../../../etc/passwd linked"
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q is bound to %q, want %q", tc.argv, got, tc.want)
		}
	}
}

// heldFolder is a folder that stands for the workspace of a run whose writes are held.
type heldFolder struct {
	permit.Held
	dir string
}

func (h heldFolder) Enter(context.Context) (root int, leave func(), err error) {
	root, err = unix.Open(h.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	return root, func() { _ = unix.Close(root) }, err
}

// Of a run whose writes are held, an approval is for the held content.
func TestAnApprovalIsBoundToHeldContent(t *testing.T) {
	w, h := newWorld(t, askPolicy), newWorld(t, askPolicy)
	w.file("deploy.sh", "shown")
	h.file("deploy.sh", "held")
	h.file("dir/x", "x")
	must(t, os.Symlink("../deploy.sh", filepath.Join(h.dir, "dir/link")))
	must(t, os.Symlink(filepath.Join(w.dir, "dir"), filepath.Join(h.dir, "there")))
	held := tool.Content{Path: filepath.Join(w.dir, "deploy.sh"), State: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("held")))}
	for _, name := range []string{"deploy.sh", "dir/link", "there/link", "there/../deploy.sh"} {
		actions := []tool.Action{{Kind: tool.Command, Argv: []string{"/bin/sh", name}, Dir: w.dir, Exe: "/usr/bin/dash"}}
		must(t, w.box.Contents(t.Context(), heldFolder{dir: h.dir}, w.dir, w.p.Chain(), actions))
		if got := actions[0].Contents; !slices.Equal(got, []tool.Content{held}) {
			t.Errorf("%s is bound to %+v, want %+v", name, got, held)
		}
	}
}

// A script that changes after it was approved does not run.
func TestAnApprovedScriptThatChangedDoesNotRun(t *testing.T) {
	w := newWorld(t, askPolicy)
	w.file("deploy.sh", "echo shown")
	env := tool.Env{Workspace: w.dir, Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}}
	exe, names, err := sandbox.Lookup(nil, env.Path, "sh", w.dir)
	must(t, err)
	actions := []tool.Action{{Kind: tool.Command, Argv: []string{"sh", "deploy.sh"}, Dir: w.dir, Exe: exe, Names: names}}
	must(t, w.box.Contents(t.Context(), nil, w.dir, w.p.Chain(), actions))
	w.p = permit.Mint(permit.Terms{Chain: w.p.Chain(), Limits: w.p.Limits(), Env: env, Approved: actions})
	c := sandbox.Command{Argv: []string{"sh", "deploy.sh"}, Starts: []tool.Action{{Kind: tool.Command, Argv: []string{"sh", "deploy.sh"}, Dir: w.dir}}}
	if out, err := w.run(c); err != nil || string(out.Stdout.Data) != "shown\n" {
		t.Fatalf("as it was approved: %q, %v", out.Stdout.Data, err)
	}
	w.file("deploy.sh", "echo other")
	if out, err := w.run(c); !errors.Is(err, fault.HandleRefused) || len(out.Stdout.Data) > 0 {
		t.Errorf("changed: %q, %v", out.Stdout.Data, err)
	}
}
