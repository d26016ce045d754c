//go:build linux && (amd64 || arm64)

package linux_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// Files belong to others in a sandbox than outside of it. Git does not take them for changed, so it works in a project
// with tracked files that commands may not read.
func TestGitWorksBesideTrackedFilesThatCannotBeRead(t *testing.T) {
	racetest.Skip(t, oneByOne)
	for _, name := range []string{".npmrc", "sub/.env", "keys/id_rsa"} {
		t.Run(name, func(t *testing.T) {
			w := newLeadWorld(t, lead{}, ".", "", "none", false)
			w.person.sh(w.world.dir, "mkdir -p "+filepath.Dir(name)+" && echo private > "+name+" && echo x > f && touch -d @1700000000 "+name+
				" f && git add -A -f && git commit -q -m tracked && git branch side HEAD~1; git status")
			out := w.sh(gitNames + `test -z "$(git status --porcelain)"; git diff --exit-code; echo y >> f; git stash -q; git stash pop -q; git add -A; git commit -q -m y; git rebase -q HEAD~1; git log -1 --format=%s`)
			if out.ExitCode != 0 || strings.TrimSpace(string(out.Stdout.Data)) != "y" || len(out.Refusals) > 0 {
				t.Errorf("exit status %d\n%s%s\n%v", out.ExitCode, out.Stdout.Data, out.Stderr.Data, out.Refusals)
			}
		})
	}
}
