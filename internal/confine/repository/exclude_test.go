package repository_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/confine/repository"
)

// Git adds no excluded file, whatever its name and wherever the repository is.
func TestExclude(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT TESTED: there is no git")
	}
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	git := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.test"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	main := filepath.Join(base, "main")
	git(base, "init", "-q", main)
	git(main, "commit", "-q", "--allow-empty", "-m", "1")
	git(main, "worktree", "add", "-q", filepath.Join(base, "tree"))
	for _, dir := range []string{main, filepath.Join(main, "sub"), filepath.Join(base, "tree", "a b")} {
		names := []string{"remit.yaml", ".claude/settings.local.json", "#a", "!b", "*x", "q?", "[z]", "with space ", `back\slash`}
		var files []string
		for _, n := range append(names, "plain") {
			f := filepath.Join(dir, n)
			if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(f, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			files = append(files, f)
		}
		files[len(files)-1] = filepath.Join(base, "outside")
		for range 2 {
			if err := repository.Exclude(dir, files); err != nil {
				t.Fatal(err)
			}
		}
		git(dir, "add", "-A", ".")
		if got := strings.Fields(git(dir, "diff", "--cached", "--name-only", "--relative")); len(got) != 1 || got[0] != "plain" {
			t.Errorf("in %s Git adds %q", dir, got)
		}
		git(dir, "commit", "-q", "-m", "plain")
	}
	if b, err := os.ReadFile(filepath.Join(main, ".git/info/exclude")); err != nil || strings.Count(string(b), "/remit.yaml\n") != 3 {
		t.Errorf("%s%v", b, err)
	}
	if err := repository.Exclude(base, []string{filepath.Join(base, "x")}); err != nil {
		t.Errorf("without a repository: %v", err)
	}
}
