//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// A command under write: ["**"] fills and removes packages, and hides nothing in them.
func TestCommandsAndPackages(t *testing.T) {
	racetest.Skip(t, oneByOne)
	const fill = "mkdir -p node_modules/p/.github/workflows && cd node_modules/p && for f in .travis.yml .gitattributes key.pem .env.example .github/workflows/ci.yml .npmrc; do echo x > $f || exit 1; done; cd ../.."
	tests := map[string]struct {
		script string
		works  bool
	}{
		"fill":                          {fill, true},
		"fill and read":                 {fill + " && cat node_modules/p/key.pem", true},
		"fill and remove":               {fill + " && rm -rf node_modules", true},
		"a package under another name":  {fill + " && mv node_modules/p node_modules/.p-1 && mv node_modules/.p-1 node_modules/q", true},
		"a copy of plain files":         {"mkdir -p node_modules/p && cp plain node_modules/p/ && mv plain node_modules/p/x", true},
		"a secret into a package":       {"mkdir -p node_modules/p && mv .env node_modules/p/", false},
		"a folder with a secret":        {"mkdir -p node_modules/p && mv app node_modules/p/", false},
		"a folder around a secret":      {"mkdir node_modules && mv app node_modules/ && cat node_modules/app/.env", false},
		"a secret by a hard link":       {"mkdir -p node_modules/p && ln .env node_modules/p/x", false},
		"a secret through a link":       {"ln -s . node_modules && cat node_modules/app/.env", false},
		"a folder that becomes one":     {"mkdir x && mv app x/ && mv x node_modules && cat node_modules/app/.env", false},
		"a name out of a package":       {fill + " && mv node_modules/p/.travis.yml .", false},
		"a package out of its folder":   {fill + " && mv node_modules/p p", false},
		"the folder under another name": {fill + " && mv node_modules old", false},
		"written through a link":        {"ln -s . node_modules; mkdir sub; echo x > node_modules/sub/.mcp.json", false},
		"another case":                  {"mkdir -p Node_Modules/p && echo x > Node_Modules/p/.mcp.json", false},
		"a hook in a package":           {"mkdir -p node_modules/p/.git/hooks && echo x > node_modules/p/.git/hooks/pre-commit", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, allWritable)
			for _, f := range []string{"plain", ".env", "app/.env", "app/src/a.go"} {
				w.file(f, "x")
			}
			if out := w.sh(tc.script); (out.ExitCode == 0) != tc.works {
				t.Errorf("exit status %d, want success: %v\n%s\n%q", out.ExitCode, tc.works, out.Stderr.Data, out.Notes)
			}
			for _, f := range []string{".mcp.json", "sub/.mcp.json", ".travis.yml", "p/.travis.yml", "old/p/.travis.yml", "src/p/.travis.yml"} {
				if _, err := os.Lstat(filepath.Join(w.dir, f)); err == nil {
					t.Errorf("%s was made", f)
				}
			}
		})
	}
}
