package repository_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/confine/repository"
)

// The index that Git itself writes, in each version, with names of all lengths.
func TestTracks(t *testing.T) {
	for _, version := range []string{"2", "3", "4"} {
		t.Run(version, func(t *testing.T) {
			dir := t.TempDir()
			git := func(args ...string) {
				t.Helper()
				c := exec.Command("git", append([]string{"-C", dir}, args...)...)
				c.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
				if out, err := c.CombinedOutput(); err != nil {
					t.Fatalf("git %q: %v\n%s", args, err, out)
				}
			}
			git("init", "-q")
			var names []string
			for i := range 40 {
				name := fmt.Sprintf("d%d/%0*d", i%3, i+1, i)
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
					t.Fatal(err)
				}
				names = append(names, name)
			}
			git("add", "-A")
			if version == "3" { // which Git writes only for such entries
				git("rm", "-q", "--cached", names[7])
				git("add", "-N", names[7])
				names = append(names[:7], names[8:]...)
			}
			git("update-index", "--index-version", version)
			if err := os.WriteFile(filepath.Join(dir, "other"), []byte("x"), 0o644); err != nil {
				t.Fatal(err)
			}
			for i, name := range names {
				if got := repository.Tracks(dir, name, []byte(name)); got != (version != "4") {
					t.Errorf("%s: %v", name, got)
				}
				if repository.Tracks(dir, name, []byte("x")) || repository.Tracks(dir, name, []byte(names[(i+1)%len(names)])) || repository.Tracks(dir, "other", []byte("x")) {
					t.Errorf("%s: other contents are tracked", name)
				}
			}
		})
	}
}

func FuzzTracks(f *testing.F) {
	f.Add([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, index []byte) {
		dir := t.TempDir()
		if err := os.MkdirAll(dir+"/.git", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/.git/index", index, 0o644); err != nil {
			t.Fatal(err)
		}
		repository.Tracks(dir, "a", nil)
	})
}
