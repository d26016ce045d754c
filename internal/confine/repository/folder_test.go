package repository

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Each folder without a .git that Git takes for a repository is one for this package, too. Git takes most of the others that
// this package finds.
func TestIsARepositoryAsForGit(t *testing.T) {
	needGit(t)
	top := t.TempDir()
	if out, err := exec.Command("git", "init", "-q", "--bare", top+"/other").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n, git, here := 0, 0, 0
	for _, head := range []string{"", "ref: refs/heads/main\n", "ref:refs/x", "0123456789012345678901234567890123456789\n", "x", "link", "folder"} {
		for _, objects := range []string{"", "folder", "file", "program", "link"} {
			for _, refs := range []string{"", "folder", "program"} {
				for _, common := range []string{"", "../other\n"} {
					dir := filepath.Join(top, fmt.Sprint(n))
					n++
					place(t, dir+"/HEAD", head)
					place(t, dir+"/objects", objects)
					place(t, dir+"/refs", refs)
					place(t, dir+"/commondir", common)
					cmd := exec.Command("git", "-C", dir, "-c", "safe.bareRepository=all", "rev-parse", "--git-dir")
					cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+top, "GIT_CONFIG_NOSYSTEM=1", "HOME="+top)
					takes := cmd.Run() == nil
					if takes {
						git++
					}
					if Is(dir, nil) {
						here++
					} else if takes {
						t.Errorf("Git takes a folder with HEAD %q, objects %q, refs %q, commondir %q", head, objects, refs, common)
					}
					whole := objects == "folder" && refs == "folder" && common == "" && head != "" && head != "x" && head != "folder"
					if whole && !takes {
						t.Errorf("Git does not take a whole repository with HEAD %q", head)
					}
					if last := dir + "/objects"; objects != "" && Is(dir, nil) && common == "" {
						if err := os.RemoveAll(last); err != nil {
							t.Fatal(err)
						}
						if Is(dir, nil) || !Completes(last, nil) || Completes(dir+"/object", nil) {
							t.Errorf("objects does not complete a repository with HEAD %q", head)
						}
					}
				}
			}
		}
	}
	if git == 0 || here == n {
		t.Errorf("of %d folders Git takes %d, and %d are repositories here", n, git, here)
	}
}

func place(t *testing.T, p, what string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		t.Fatal(err)
	}
	var err error
	switch what {
	case "":
	case "folder":
		err = os.Mkdir(p, 0o755)
	case "link":
		err = os.Symlink("refs/heads/x", p)
	case "program":
		err = os.WriteFile(p, nil, 0o755)
	default:
		err = os.WriteFile(p, []byte(what), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
