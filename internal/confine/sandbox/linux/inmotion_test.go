//go:build linux && (amd64 || arm64)

package linux_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// guardedPolicy protects files in each way that a mount can. The names that replacements give to what was protected are
// protected, too: a call that finds a file just before it is moved is decided by the name that the file has then.
const guardedPolicy = `
version: 1
name: guarded
files:
  read:  {allow: ["**"], deny: ["masked", "closed/**", "deep/in/masked", "**/*.old/**", "**/*.new/**"]}
  write: {allow: ["**"], deny: ["masked", "closed/**", "deep/in/masked", "fixed", "**/*.old/**", "**/*.new/**"]}
commands: {allow: ["**"], timeout: 300s}
`

// openedPolicy protects none of them.
const openedPolicy = `
version: 1
name: opened
files: {read: {allow: ["**"]}, write: {allow: ["**"]}, delete: {allow: ["**"]}}
commands: {allow: ["**"], timeout: 300s}
`

// protections are paths that a command tries to use, and the protected names that they lie under.
var protections = map[string]struct{ use, name string }{
	"mask of a file":            {"masked", "masked"},
	"mask of a file in folders": {"deep/in/masked", "deep/in/masked"},
	"read-only file":            {"fixed", "fixed"},
	"mask of a folder":          {"closed/secret", "closed"},
	"read-only configuration":   {".git/config", ".git/config"},
}

// prepareFiles makes the protected files.
func prepareFiles(w *world) {
	for _, name := range []string{"masked", "deep/in/masked", "fixed", "closed/secret", ".git/config", "plain"} {
		w.file(name, "[core]\n")
	}
	w.file(".git/HEAD", "ref: refs/heads/main\n")
	must(w.t, os.MkdirAll(filepath.Join(w.dir, ".git/objects"), 0o755))
	must(w.t, os.MkdirAll(filepath.Join(w.dir, ".git/refs"), 0o755))
}

// useLoop is a script that tries to use a path until out/stop is there. It writes to out/round after each
// round, and to out/leak when it got something that it must not have.
func useLoop(use string) string {
	read := `{ read -r x < USE; } 2>/dev/null && echo read >> out/leak`
	if use == "fixed" || use == ".git/config" {
		read = `cat USE >/dev/null 2>&1`
	}
	wrote := ""
	if use == ".git/config" { // the content decides, when the file is closed
		wrote = `grep -q PLANTED USE &&`
	}
	return strings.ReplaceAll(`
while ! [ -e out/stop ]; do
	`+read+`
	{ echo PLANTED >> USE; } 2>/dev/null && `+wrote+` echo wrote >> out/leak
	{ echo PLANTED > USE.x && mv -f USE.x USE; } 2>/dev/null && ! [ -e USE.x ] && [ "$(cat USE 2>&1)" = PLANTED ] && echo moved >> out/leak
	rm -f USE.x
	echo . >> out/round
done
true`, "USE", use)
}

// during does something on the host while a command runs that tries to use a path. Nothing of it may succeed.
func during(w *world, use string, c sandbox.Command, act func()) (sandbox.Outcome, error) {
	w.t.Helper()
	type end struct {
		out sandbox.Outcome
		err error
	}
	ended := make(chan end, 1)
	go func() {
		c.Argv, c.Shell, c.Dir, c.Timeout = []string{"/bin/sh", "-c", useLoop(use)}, true, w.dir, time.Minute
		out, err := w.box.Run(context.Background(), w.p, c)
		ended <- end{out, err}
	}()
	rounds := func() int64 {
		st, err := os.Stat(filepath.Join(w.dir, "out/round"))
		if err != nil {
			return 0
		}
		return st.Size()
	}
	pass := func(n int64) {
		for from := rounds(); len(ended) == 0 && rounds() < from+2*n; time.Sleep(time.Millisecond) {
		}
	}
	pass(2)
	if len(ended) == 0 {
		act()
		pass(3)
	}
	w.file("out/stop", "")
	e := <-ended
	if errors.Is(e.err, fault.SandboxMissing) {
		w.t.Skipf("NOT TESTED: this machine cannot confine: %v", e.err)
	}
	if b, err := os.ReadFile(filepath.Join(w.dir, "out", "leak")); err == nil {
		w.t.Errorf("the command used %s: %s", use, b)
	}
	if b, _ := os.ReadFile(filepath.Join(w.dir, use)); bytes.Contains(b, []byte("PLANTED")) { // or it is not there
		w.t.Errorf("the command wrote to %s: %q", use, b)
	}
	return e.out, e.err
}

// wide is a permit under which everything may be done.
func (w *world) wide() permit.Permit {
	w.t.Helper()
	p, err := policy.Parse("wide.yaml", []byte(openedPolicy))
	must(w.t, err)
	env := policy.Env{Workspace: w.dir, Path: []string{"/usr/bin", "/bin"}}
	rules, err := p.Bind(env)
	must(w.t, err)
	return permit.Mint(permit.Terms{Chain: policy.Chain{rules}, Env: tool.Env{Workspace: w.dir, Path: env.Path}})
}

// replacements take the mount away from a name, or move it along. Each leaves a name that
// the command could use.
var replacements = map[string]func(w *world, at string){
	"renamed over": func(w *world, at string) {
		must(w.t, os.RemoveAll(at+".new"))
		copyTree(w.t, at, at+".new")
		if st, err := os.Stat(at); err == nil && st.IsDir() {
			must(w.t, os.RemoveAll(filepath.Join(at, "secret"))) // only an empty folder can be renamed over
		}
		must(w.t, unix.Rename(at+".new", at))
	},
	"removed": func(w *world, at string) { must(w.t, os.RemoveAll(at)) },
	"removed and made": func(w *world, at string) {
		copyTree(w.t, at, at+".new")
		must(w.t, os.RemoveAll(at))
		must(w.t, unix.Rename(at+".new", at))
	},
	"moved and made": func(w *world, at string) {
		must(w.t, os.Rename(at, at+".old"))
		copyTree(w.t, at+".old", at+".new")
		must(w.t, unix.Rename(at+".new", at)) // the command may have made a file there
	},
	"exchanged": func(w *world, at string) {
		copyTree(w.t, at, at+".new")
		must(w.t, unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, at+".new", unix.RENAME_EXCHANGE))
	},
	"moved with its folder": func(w *world, at string) {
		dir := filepath.Dir(at)
		if dir == w.dir {
			dir = at
		}
		must(w.t, os.Rename(dir, dir+".old"))
		_ = os.MkdirAll(dir, 0o755) // or a file's name
	},
	"replaced by another command": func(w *world, at string) {
		script := fmt.Sprintf("cp -r '%[1]s' '%[1]s.new' && rm -rf '%[1]s' && mv '%[1]s.new' '%[1]s'", at)
		if strings.Contains(at, "/.git/") { // that command may not either
			must(w.t, os.Rename(at, at+".old"))
			return
		}
		out, err := w.box.Run(context.Background(), w.wide(), sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Dir: w.dir})
		if err != nil || out.ExitCode != 0 {
			w.t.Fatalf("the other command: %v, %+v", err, out)
		}
	},
}

func copyTree(t testing.TB, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-r", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v: %s", err, out)
	}
}

// A protection holds whatever a program of the host does to the protected file, and the command goes on.
func TestAProtectionHoldsInMotion(t *testing.T) {
	t.Parallel()
	for _, tr := range append(tiers, tier{"pipes", ""}) {
		for kind, prot := range protections {
			for way, replace := range replacements {
				if tr.name != "fresh" && kind != "mask of a file" && way != "renamed over" {
					continue // the supervisor is the same
				}
				t.Run(tr.name+"/"+kind+"/"+way, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, guardedPolicy+tr.policy)
					prepareFiles(w)
					c := sandbox.Command{}
					if tr.name == "pipes" {
						c.Stdio, c.Long = pipes(t), true
					}
					out, err := during(w, prot.use, c, func() { replace(w, filepath.Join(w.dir, prot.name)) })
					if err != nil || out.ExitCode != 0 {
						t.Fatalf("err = %v, outcome %+v; want the command to end by itself", err, out)
					}
					if list, _ := w.p.Refused(); len(list) == 0 {
						t.Error("the permit does not say what was violated")
					}
				})
			}
		}
	}
}

// pipes are streams of a command that nobody uses.
func pipes(t *testing.T) *sandbox.Stdio {
	t.Helper()
	s := &sandbox.Stdio{}
	for i, f := range []**os.File{&s.In, &s.Out, &s.Err} {
		r, w, err := os.Pipe()
		must(t, err)
		t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // the command has closed its end
		if *f = w; i == 0 {
			*f = r
		}
	}
	return s
}

// What ordinary programs and Remit itself do beside a command ends nothing.
func TestACommandStaysWhereItsProtectionDoes(t *testing.T) {
	t.Parallel()
	acts := map[string]func(w *world){
		"nothing": func(*world) {},
		"files written in place": func(w *world) {
			for _, prot := range protections {
				must(w.t, os.WriteFile(filepath.Join(w.dir, prot.use), []byte("[user]\n"), 0o644))
			}
		},
		"other files replaced": func(w *world) {
			w.file("new", "new")
			must(w.t, os.Rename(filepath.Join(w.dir, "new"), filepath.Join(w.dir, "plain")))
			must(w.t, os.Remove(filepath.Join(w.dir, "plain")))
			must(w.t, os.Rename(filepath.Join(w.dir, "closed/secret"), filepath.Join(w.dir, "closed/other")))
		},
		"the folder moved and back": func(w *world) {
			must(w.t, os.Rename(w.dir, w.dir+".moved"))
			must(w.t, os.Rename(w.dir+".moved", w.dir))
		},
		"written by Remit's tools": func(w *world) {
			f := files.New(w.wide())
			for _, name := range []string{"masked", "fixed", "deep/in/masked"} {
				_, err := f.Write(name, []byte("new content"), files.WriteOptions{Mode: files.Replace})
				must(w.t, err)
				if b, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || string(b) != "new content" {
					w.t.Errorf("%s has %q, %v", name, b, err)
				}
			}
			w.file("other", "other")
			w.file("other", "other")
			must(w.t, f.Remove("masked"))
			must(w.t, f.Rename(context.Background(), "other", "fixed", true, false))
			must(w.t, f.Rename(context.Background(), "deep", "deep2", false, false))
		},
	}
	everyTier(t, guardedPolicy, func(t *testing.T, src string) {
		for name, act := range acts {
			for kind, prot := range protections {
				if name != "nothing" && kind != "mask of a file" && kind != "read-only configuration" {
					continue
				}
				t.Run(name+"/"+kind, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, src)
					prepareFiles(w)
					out, err := during(w, prot.use, sandbox.Command{}, func() { act(w) })
					if err != nil || out.ExitCode != 0 {
						t.Errorf("err = %v, exit code %d; want the command to end by itself", err, out.ExitCode)
					}
				})
			}
		}
	})
}

// A person's Git works beside a command, also where it rewrites the configuration.
func TestAPersonsGitBesideACommand(t *testing.T) {
	t.Parallel()
	git := func(w *world, args ...string) {
		w.t.Helper()
		c := exec.Command("git", args...)
		c.Dir = w.dir
		c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := c.CombinedOutput(); err != nil {
			w.t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	for name, c := range map[string]struct {
		do [][]string
	}{
		"status, commit, branches": {do: [][]string{{"status"}, {"add", "a"}, {"commit", "-qm", "two"}, {"checkout", "-qb", "other"}, {"commit", "-q", "--allow-empty", "-m", "three"},
			{"checkout", "-q", "-"}, {"merge", "-q", "other"}, {"tag", "v1"}, {"stash", "list"}, {"reset", "-q", "--hard", "HEAD~1"}, {"gc", "-q"}, {"push", "-q", "up", "HEAD"}, {"fetch", "-q", "up"}}},
		"push -u": {do: [][]string{{"push", "-q", "-u", "up", "HEAD"}}},
		"config":  {do: [][]string{{"config", "user.name", "somebody"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, openedPolicy)
			bare := t.TempDir()
			git(w, "init", "-q", "--bare", bare)
			git(w, "init", "-q")
			w.file("a", "1")
			git(w, "add", "a")
			git(w, "commit", "-qm", "one")
			git(w, "remote", "add", "up", bare)
			w.file("a", "2")
			_, err := during(w, ".git/config", sandbox.Command{}, func() {
				for _, args := range c.do {
					git(w, args...)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(w.dir, ".git/config")); err != nil || strings.Contains(string(b), "PLANTED") {
				t.Errorf(".git/config has what the command wrote: %.300q, %v", b, err)
			}
			git(w, "status")
		})
	}
}
