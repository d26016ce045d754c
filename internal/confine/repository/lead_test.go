package repository

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func put(t testing.TB, p, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLead(t *testing.T) {
	tests := map[string]struct {
		config string
		files  string // that are there
		leads  string // and what is led to
		free   string
	}{
		"nothing":                 {"[user]\n\tname = tools/x\n[remote \"o\"]\n\turl = ../o\n[alias]\n\tx = !tools/x\n[core]\n\texcludesFile = tools/x\n", "", "", "tools/x ../o/x .githooks/pre-commit"},
		"hooks":                   {"[core]\n\thooksPath = tools/h\n", "", "tools/h tools/h/pre-commit tools/h/lib/x", "tools tools/hx tools/x"},
		"hooks in the folder":     {"[core]\n\thooksPath = .\n", "", "pre-commit post-checkout", "x src/pre-commit hooks/pre-commit"},
		"hooks in the one around": {"[core]\n\thooksPath = ..\n", "", "../pre-commit", "pre-commit ../x"},
		"Husky":                   {"[core]\n\thooksPath = h/_\n", "", "h/pre-commit h/_/pre-commit", "x"},
		"a command":               {"[filter \"f\"]\n\tclean = python3 clean.py --in=lib/a.py %f ./b\n", "clean.py lib/x", "clean.py lib/a.py b", "python3 lib/x f"},
		"a command of a folder":   {"[core]\n\tfsmonitor = ./lib\n", "lib/x", "", "lib/x"},
		"a relative include":      {"[include]\n\tpath = ../c\n", "", "c", ".git/c"},
		"attributes":              {"[core]\n\tattributesFile = a/b\n", "", "a/b", "a/c"},
		"a template":              {"[init]\n\ttemplateDir = t\n", "", "t/hooks/pre-commit", "u"},
		"one that is not valid":   {"[include]\n\tpath = .\n[core]\n\thooksPath =\n", "", "", "x"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			top, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(top, "r")
			put(t, dir+"/.git/config", tc.config)
			for _, f := range strings.Fields(tc.files) {
				put(t, filepath.Join(dir, f), "")
			}
			f := New("", top)
			for _, p := range strings.Fields(tc.leads) {
				if f.Lead(filepath.Join(dir, p)) == "" {
					t.Errorf("%s is led to by nothing", p)
				}
			}
			for _, p := range strings.Fields(tc.free) {
				if l := f.Lead(filepath.Join(dir, p)); l != "" {
					t.Errorf("%s is led to by %s", p, l)
				}
			}
		})
	}
}

// Links in a folder of hooks lead as well.
func TestLinkedHooks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir+"/.git/hooks/x.sample", "")
	if err := os.Symlink("../../tools/check", dir+"/.git/hooks/pre-push"); err != nil {
		t.Fatal(err)
	}
	if f := New("", ""); f.Lead(dir+"/tools/check") == "" || f.Lead(dir+"/tools/other") != "" {
		t.Error("a link of a hook is not followed")
	}
}

// BenchmarkLead measures what a decision about a path in a usual repository costs.
func BenchmarkLead(b *testing.B) {
	dir, home := b.TempDir(), b.TempDir()
	put(b, dir+"/.git/config", "[core]\n\trepositoryformatversion = 0\n[remote \"o\"]\n\turl = x\n")
	put(b, dir+"/.git/hooks/x.sample", "")
	put(b, home+"/.gitconfig", "[user]\n\tname = x\n[core]\n\teditor = vim\n[filter \"lfs\"]\n\tclean = git-lfs clean -- %f\n")
	time.Sleep(sameTime) // until they are kept
	f := New(home, dir)
	for b.Loop() {
		f.Lead(dir + "/a/b/c/d.go")
	}
}
