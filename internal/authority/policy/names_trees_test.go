package policy_test

import (
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

// maxTreeFiles bounds the files of a tree that a test looks at.
const maxTreeFiles = 60_000

// TestNamesOfPublicFilesAreOrdinary: of Go's own files, at most one in 1,000 has a name that is sensitive for reading. Folders
// of test data are left out, since many of the files there are certificates and keys.
func TestNamesOfPublicFilesAreOrdinary(t *testing.T) {
	c := chain(t, files(`"**"`, ""))
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("SKIPPED: needs the go command: ", err)
	}
	dir, total := strings.TrimSpace(string(out)), 0
	var found []string
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "testdata" {
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
	if err != nil || len(found)*1000 > total {
		t.Errorf("%d of %d names are sensitive (%v): %q", len(found), total, err, found)
	}
}
