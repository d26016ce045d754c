//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// TestAHomeIsKept: commands of one workspace and policy find what earlier ones left in their home, in each tier, and
// nobody else does.
func TestAHomeIsKept(t *testing.T) {
	state, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	kept := strings.Replace(openPolicy, "name: test\n", "name: test\nsandbox: {home: kept}\n", 1)
	w := newWorld(t, kept)
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: state})
	defer func() { must(t, w.box.Close()) }()
	run := func(src, script string) string {
		t.Helper()
		w.allow(src)
		out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true})
		must(t, err)
		return strings.TrimSpace(string(out.Stdout.Data) + string(out.Stderr.Data))
	}
	if got := run(kept, `echo $HOME; mkdir -p ~/.cache/x && echo one > ~/.cache/x/y; ln -s / ~/root; echo gone > /tmp/gone`); got != sandbox.HomeAt {
		t.Errorf("the first command: %s", got)
	}
	session := strings.Replace(kept, "home: kept", "home: kept, tier: session", 1)
	for range 3 {
		if got := run(session, "cat ~/.cache/x/y; cat /tmp/gone 2>/dev/null; echo more >> ~/log"); got != "one" {
			t.Errorf("a later command: %s", got)
		}
	}
	if got := run(kept, "wc -l < ~/log; rm -rf ~/log ~; ls -A ~; cat "+state+"/homes/*/log"); !strings.HasPrefix(got, "3\n") || strings.Contains(got, "more") {
		t.Errorf("the last command: %s", got)
	}
	run(kept, "echo two > ~/left")
	for name, src := range map[string]string{"another policy": strings.Replace(kept, "name: test", "name: other", 1), "an empty home": openPolicy} {
		if got := run(src, "cat ~/left; echo x > ~/mine"); strings.Contains(got, "two") {
			t.Errorf("%s: %s", name, got)
		}
	}
	w.dir = filepath.Join(w.dir, "out")
	if got := run(kept, "cat ~/left"); strings.Contains(got, "two") {
		t.Errorf("another workspace: %s", got)
	}
	homes, err := filepath.Glob(filepath.Join(state, "homes", "*"))
	must(t, err)
	if len(homes) != 3 {
		t.Errorf("%d homes: %v", len(homes), homes)
	}
	for _, dir := range homes {
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%v, %v", st, err)
		}
		if got := filepath.Base(dir); !strings.HasPrefix(got, "out-") { // this workspace's is the last
			continue
		}
		must(t, os.RemoveAll(dir))
		must(t, os.Symlink(t.TempDir(), dir))
	}
	if out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", "echo x > ~/y"}, Shell: true}); err == nil {
		t.Errorf("the home is a link: %+v", out)
	}
}
