//go:build linux && (amd64 || arm64)

package linux

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
)

// TestFoldersAboveTheWorkspaceDoNotCount: in a project that lies below a package manager's folder, what a command changes
// is kept.
func TestFoldersAboveTheWorkspaceDoNotCount(t *testing.T) {
	for _, above := range slices.Concat(policy.PackageFolders(), policy.RepositoryFolders()) {
		t.Run(above, func(t *testing.T) {
			d := &decider{again: []string{above}, top: "/home/u/" + above + "/ws"}
			for p, want := range map[string]string{
				"/a": "", "/" + above + "/a": d.top + "/" + above, "/d/" + above: d.top + "/d/" + above, "": "", "/d" + above + "/a": "",
			} {
				if got := d.madeAgain(d.top + p); got != want {
					t.Errorf("%s: %q, want %q", p, got, want)
				}
			}
			if got, want := d.madeAgain("/home/u/"+above+"/beside/a"), "/home/u/"+above; got != want {
				t.Errorf("beside: %q, want %q", got, want)
			}
		})
	}
}
