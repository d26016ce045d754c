//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/files"
)

const allWritable = `
version: 1
name: test
files:
  read:  {allow: ["**"]}
  write: {allow: ["**"]}
commands:
  allow: ["**"]
`

// harmful is a repository's configuration that has git status run a program,
// which makes the file MARK.
const harmful = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch MARK; false\"\n"

// plants are files that make git status in a folder run a program.
var plants = map[string]struct {
	repository bool // the workspace is a repository already
	files      map[string]string
	look       string // where the person runs git status
	not        bool   // an ordinary git status runs nothing there, whoever wrote it
}{
	"a repository":                       {files: repository(".git/", harmful), look: "."},
	"a repository in a subfolder":        {files: repository("sub/.git/", harmful), look: "sub"},
	"a repository in a subfolder of one": {repository: true, files: repository("sub/.git/", harmful), look: "sub"},
	"a file .git":                        {files: with(repository("x/", harmful), ".git", "gitdir: x\n"), look: "."},
	"a file .git in a subfolder":         {repository: true, files: with(repository("x/", harmful), "sub/.git", "gitdir: ../x\n"), look: "sub"},
	"a file .git to a folder in .git":    {repository: true, files: with(repository(".git/x/", harmful), "sub/.git", "gitdir: ../.git/x\n"), look: "sub"},
	"a worktree": {repository: true, look: "sub", files: with(repository("y/", harmful), "sub/.git", "gitdir: ../.git/worktrees/s\n",
		".git/worktrees/s/commondir", "../../../y\n", ".git/worktrees/s/HEAD", "ref: refs/heads/main\n", ".git/worktrees/s/gitdir", "../../../sub/.git\n")},
	"another common folder":                   {repository: true, files: with(repository("x/", harmful), ".git/commondir", "../x\n"), look: "."},
	"a common folder of a new repository":     {files: with(repository("x/", harmful), ".git/HEAD", "ref: refs/heads/main\n", ".git/commondir", "../x\n"), look: "."},
	"a bare repository":                       {files: repository("b/", harmful+"\tbare = false\n\tworktree = ..\n"), look: "b"},
	"a bare repository in a subfolder of one": {repository: true, files: repository("b/", harmful+"\tbare = false\n\tworktree = ..\n"), look: "b"},
	"the workspace as a bare repository":      {files: repository("", harmful+"\tbare = false\n\tworktree = .\n"), look: "."},
	"a submodule": {repository: true, look: ".", files: with(repository(".git/modules/s/", harmful+"\tworktree = ../../../s\n"),
		"s/.git", "gitdir: ../.git/modules/s\n", ".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ./s\n"), not: true},
	"in a submodule": {repository: true, look: "s", files: with(repository(".git/modules/s/", harmful+"\tworktree = ../../../s\n"),
		"s/.git", "gitdir: ../.git/modules/s\n")},
	"the configuration":                     {repository: true, files: map[string]string{".git/config": harmful}, look: "."},
	"a configuration that includes another": {files: with(repository(".git/", "[include]\n\tpath = ../c\n"), "c", harmful), look: "."},
	"a configuration of the worktree": {files: with(repository(".git/", "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n"),
		".git/config.worktree", harmful), look: "."},
	"a configuration in one line": {files: repository(".git/", "[core] fsmonitor = \"touch MARK; false\"\n"), look: "."},
}

// repository is the least that Git takes for one, in a folder.
func repository(in, config string) map[string]string {
	return map[string]string{in + "HEAD": "ref: refs/heads/main\n", in + "config": config, in + "objects/info/x": "", in + "refs/heads/x": ""}
}

func with(files map[string]string, more ...string) map[string]string {
	for i := 0; i < len(more); i += 2 {
		files[more[i]] = more[i+1]
	}
	return files
}

// status is git status as the person runs it; it tells whether a program was run.
func status(t *testing.T, dir, mark string) bool {
	t.Helper()
	cmd := exec.Command("git", "status")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1")
	_ = cmd.Run() // what counts is what it ran
	_, err := os.Stat(mark)
	return err == nil
}

func needGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
}

// plantings write a plant's files in the ways that an agent has, and return
// whatever was refused.
var plantings = map[string]func(w *world, plant map[string]string) error{
	"file tools": func(w *world, plant map[string]string) error {
		var refused error
		for name, text := range plant {
			if _, err := files.New(w.p).Write(name, []byte(text), files.WriteOptions{Mode: files.Replace, Parents: true}); err != nil && !errors.Is(err, fault.HandleRefused) {
				w.t.Errorf("%s: %v", name, err)
			} else if err != nil {
				refused = err
			}
		}
		return refused
	},
	"a command": func(w *world, plant map[string]string) error {
		w.sh(script(plant))
		return nil
	},
	"commands, one for each file": func(w *world, plant map[string]string) error {
		for name, text := range plant {
			w.sh(script(map[string]string{name: text}))
		}
		return nil
	},
}

func script(plant map[string]string) string {
	var b strings.Builder
	for name, text := range plant {
		fmt.Fprintf(&b, "mkdir -p '%s'; printf '%%s' '%s' > '%s'\n", filepath.Dir(name), strings.ReplaceAll(text, "'", `'\''`), name)
	}
	return b.String() + "true"
}

func marked(plant map[string]string, mark string) map[string]string {
	out := map[string]string{}
	for name, text := range plant {
		out[name] = strings.ReplaceAll(text, "MARK", mark)
	}
	return out
}

// Whatever an agent writes into a workspace of which a policy lets it write
// everything, Git on this machine runs no program of it.
func TestGitOutsideRunsNothingThatAnAgentWrote(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	for name, p := range plants {
		t.Run(name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), "ran")
			control := t.TempDir()
			begin(t, control, p.repository)
			for f, text := range marked(p.files, mark) {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(control, f)), 0o755))
				must(t, os.WriteFile(filepath.Join(control, f), []byte(text), 0o644))
			}
			if ran := status(t, filepath.Join(control, p.look), mark); ran == p.not {
				t.Fatalf("without Remit, git status ran a program: %v, want %v: the test shows nothing", ran, !p.not)
			}
			for way, plant := range plantings {
				t.Run(way, func(t *testing.T) {
					mark := filepath.Join(t.TempDir(), "ran")
					w := newWorld(t, allWritable)
					w.sh("true") // skips where nothing can be confined
					begin(t, w.dir, p.repository)
					_ = plant(w, marked(p.files, mark)) // the refusals are the policy's own tests'
					looks := []string{p.look, "."}
					entries, err := os.ReadDir(w.dir)
					must(t, err)
					for _, e := range entries { // also what was renamed
						if e.IsDir() {
							looks = append(looks, e.Name())
						}
					}
					for _, look := range looks {
						if status(t, filepath.Join(w.dir, look), mark) {
							t.Errorf("git status in %q ran a program", look)
						}
					}
				})
			}
		})
	}
}

// begin makes the person's own repository.
func begin(t *testing.T, dir string, repository bool) {
	t.Helper()
	if !repository {
		return
	}
	out, err := exec.Command("git", "-C", dir, "-c", "init.defaultBranch=main", "init", "-q", "--template=").CombinedOutput()
	if err != nil {
		t.Fatalf("git init: %v\n%s", err, out)
	}
}

// What git itself makes in a command stays, and a repository that was there
// keeps its configuration. What names programs is refused, and the call says so.
func TestRepositoriesThatCommandsMake(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	const id = "git config user.name a && git config user.email a@b.test"
	tests := map[string]struct {
		script string
		keeps  []string
		note   string
	}{
		"git init":             {"git init -q . && " + id + " && git commit -q --allow-empty -m one", []string{".git/HEAD", ".git/config"}, ""},
		"git clone":            {"git init -q a && cd a && " + id + " && git commit -q --allow-empty -m one && cd .. && git clone -q a b", []string{"a/.git/HEAD", "b/.git/config"}, ""},
		"a hook":               {"git init -q . && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit", []string{".git/HEAD"}, `.git/hooks/pre-commit`},
		"an alias":             {"git init -q . && git config alias.st '!x'", []string{".git/HEAD"}, `.git/config`},
		"a transport":          {"git init -q . && git config remote.origin.url 'ext::sh -c x'", []string{".git/HEAD"}, `.git/config`},
		"a link":               {"git init -q a && ln -s a/.git .git", []string{"a/.git/HEAD"}, `.git`},
		"a file of that name":  {"echo x > HEAD", []string{"HEAD"}, ""},
		"no repository at all": {"mkdir -p HEAD/x .github; echo x > HEAD/x/y; echo > git", []string{"HEAD/x/y"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, standardPolicy)
			out := w.sh(tc.script)
			if (out.ExitCode == 0) != (tc.note == "") {
				t.Fatalf("%+v\n%s", out, out.Stderr.Data)
			}
			for _, k := range tc.keeps {
				if _, err := os.Stat(filepath.Join(w.dir, k)); err != nil {
					t.Error(err)
				}
			}
			said := fmt.Sprint(out.Refusals)
			if said == "[]" != (tc.note == "") || !strings.Contains(said, tc.note) {
				t.Errorf("refused %s, want %q", said, tc.note)
			}
		})
	}
}

// A policy that spells the names lets commands make what they want.
func TestRepositoriesThatThePolicyAllows(t *testing.T) {
	racetest.Skip(t, oneByOne)
	needGit(t)
	w := newWorld(t, strings.Replace(standardPolicy, `write: {allow: ["**"]}`, `write: {allow: ["**", "**/.git", "**/.git/config", "**/.git/hooks/**"]}`, 1))
	out := w.sh("git init -q . && git config alias.st '!x' && mkdir -p .git/hooks && echo x > .git/hooks/pre-commit")
	if _, err := os.Stat(filepath.Join(w.dir, ".git/hooks/pre-commit")); err != nil || out.ExitCode != 0 {
		t.Errorf("%v, %+v", err, out)
	}
}
