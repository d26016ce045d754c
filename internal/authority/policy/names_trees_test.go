package policy_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

// maxTreeFiles bounds the files of one tree that a test looks at.
const maxTreeFiles = 60_000

// goEnv returns a folder that the go command uses.
func goEnv(t *testing.T, name string) string {
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Skip("SKIPPED: needs the go command: ", err)
	}
	return strings.TrimSpace(string(out))
}

// TestNamesOfPublicFilesAreOrdinary: in trees of files that anyone can download, at most one file in 1,000 has a name that is
// sensitive for reading. Folders of test data are left out, since many of the files there are certificates and keys.
func TestNamesOfPublicFilesAreOrdinary(t *testing.T) {
	c := chain(t, files(`"**"`, ""))
	for name, dir := range map[string]string{
		"Go's own source": goEnv(t, "GOROOT"), "Go modules": goEnv(t, "GOMODCACHE"), "npm packages": "/usr/lib/node_modules", "Debian": "/usr/share",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := os.Stat(dir); err != nil {
				t.Skip("SKIPPED: this machine does not have the tree: ", err)
			}
			total := 0
			var found []string
			err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() && (p == filepath.Join(dir, "cache") || d.Name() == "testdata") {
					return fs.SkipDir
				}
				rel, _ := filepath.Rel(dir, p)
				if d.IsDir() {
					return nil
				}
				if total++; total > maxTreeFiles {
					return fs.SkipAll
				}
				if c.DecideAction(read(rel)).Effect != policy.Allow {
					found = append(found, rel)
				}
				return nil
			})
			t.Logf("%d of %d", len(found), total)
			if err != nil || len(found)*1000 > total {
				t.Errorf("%d of %d names are sensitive (%v): %q", len(found), total, err, found)
			}
		})
	}
}
