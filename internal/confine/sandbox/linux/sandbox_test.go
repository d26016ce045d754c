//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	finder "github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// world is a workspace, a permit for it and a box.
type world struct {
	home string // of the person; "": there is none
	t    testing.TB
	dir  string
	box  *linux.Box
	p    permit.Permit
	now  *atomic.Pointer[policy.Chain] // that of p

	replaced permit.CommandKeeper // keeps what commands change; nil: nothing is kept
}

const openPolicy = `
version: 1
name: test
files:
  read:  {allow: ["**"]}
  write: {allow: ["out/**"]}
commands:
  allow: ["**", "EXE **"]
  env: [CANARY_OK, EXTRA]
  timeout: 300s
`

// oneByOne is why a test of escapes need not run under the race detector.
const oneByOne = "the kernel confines, and one command runs after the other"

// tiers are the ways that a sandbox comes to a command: what one keeps in, each
// of them must.
var tiers = []tier{{"fresh", ""}, {"session", "sandbox: {tier: session}\n"}}

type tier struct{ name, policy string }

// everyTier runs a test in each tier, with a policy that asks for it.
func everyTier(t *testing.T, src string, test func(t *testing.T, src string)) {
	for _, tr := range tiers {
		t.Run(tr.name, func(t *testing.T) { test(t, src+tr.policy) })
	}
}

func newWorld(t testing.TB, src string) *world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.MkdirAll(filepath.Join(dir, "out"), 0o755))
	w := &world{t: t, dir: dir, box: linux.New(linux.Config{Getenv: os.LookupEnv})}
	box := w.box // the test may put another one in its place
	t.Cleanup(func() { must(t, box.Close()) })
	w.allow(src)
	return w
}

// allow replaces the policy, or the chain of them.
func (w *world) allow(sources ...string) {
	w.t.Helper()
	exe, err := os.Executable()
	must(w.t, err)
	env := policy.Env{Workspace: w.dir, Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}, Home: w.home}
	if t, ok := finder.LinkedWorktree(w.dir); ok {
		env.Repository = t.Common
	}
	var chain policy.Chain
	for _, src := range sources {
		pol, err := policy.Parse("test.yaml", []byte(strings.ReplaceAll(src, "EXE", exe)))
		must(w.t, err)
		rules, err := pol.Bind(env)
		must(w.t, err)
		chain = append(chain, rules)
	}
	if w.now == nil {
		w.now = new(atomic.Pointer[policy.Chain])
	}
	w.now.Store(&chain)
	w.p = permit.Mint(permit.Terms{Intent: permit.Intent{Run: "r", Call: 7}, Chain: chain, Limits: chain.Limits(), Env: tool.Env{Workspace: w.dir, Path: env.Path, Home: w.home}, Replaced: w.replaced})
}

func (w *world) file(name, content string) string {
	w.t.Helper()
	p := filepath.Join(w.dir, name)
	must(w.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(w.t, os.WriteFile(p, []byte(content), 0o644))
	return p
}

func (w *world) run(c sandbox.Command) (sandbox.Outcome, error) {
	w.t.Helper()
	if c.Dir == "" {
		c.Dir = w.dir
	}
	out, err := w.box.Run(context.Background(), w.p, c)
	if errors.Is(err, fault.SandboxMissing) {
		if os.Getenv("CI") == "true" {
			w.t.Fatalf("this machine cannot confine: %v", err)
		}
		w.t.Skipf("NOT TESTED: this machine cannot confine: %v", err)
	}
	return out, err
}

// sh runs a script in the sandbox's shell.
func (w *world) sh(script string) sandbox.Outcome {
	w.t.Helper()
	out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Timeout: time.Minute})
	if err != nil {
		w.t.Fatalf("sh -c %q: %v", script, err)
	}
	return out
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTrueRuns(t *testing.T) {
	w := newWorld(t, openPolicy)
	out, err := w.run(sandbox.Command{Argv: []string{"true"}})
	if err != nil || out.ExitCode != 0 || out.Signal != "" {
		t.Fatalf("got %+v, %v", out, err)
	}
}
