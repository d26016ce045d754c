//go:build linux && (amd64 || arm64)

package linux_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// Files that a person's other programs follow are named, in each way of making them, if they are there in the end.
func TestFollowedFilesOfACommand(t *testing.T) {
	racetest.Skip(t, oneByOne)
	for script, want := range map[string]string{
		"echo x > .goosehints; mkdir a; echo x > a/AGENTS.md":                    ".goosehints a/AGENTS.md",
		"echo x > n; mv n .cursorrules":                                          ".cursorrules",
		"echo x > n; ln n GEMINI.md; ln -s n CLAUDE.md":                          "CLAUDE.md GEMINI.md",
		"mkdir -p n/m; echo x > n/m/x; mv n/m/x n/m/QWEN.md; mv n o":             "o/m/QWEN.md",
		"mkdir .clinerules; echo x > .clinerules/a.md":                           ".clinerules/a.md",
		"echo x > .windsurfrules; rm .windsurfrules":                             "",
		"mkdir -p node_modules/p; echo x > node_modules/p/AGENTS.md; echo x > y": "",
		"echo '*.a text' > .gitattributes":                                       ".gitattributes",
		"test ! -e AGENTS.md":                                                    "",
	} {
		w := newWorld(t, allWritable)
		out := w.sh(script)
		if out.ExitCode != 0 {
			t.Fatalf("%s: %s", script, out.Stderr.Data)
		}
		var names []string
		for _, p := range out.Followed {
			rel, err := filepath.Rel(w.dir, p)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, rel)
		}
		if got := strings.Join(slices.Compact(names), " "); got != want || out.Unfollowed {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}
