package policy_test

import (
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// A sensitive name in a package is ordinary, unless it is of a repository; everywhere else it is sensitive. The
// generator does not know how the table is built: it places each name beside, in and below folders of packages.
func TestSensitiveNamesInPackages(t *testing.T) {
	c := chain(t, files(`"**", "/**"`, ""))
	odd := chain(t, files(`"**", "/**"`, `"**/*.pem"`))
	parts := []string{"a", "src", "node_modules", "site-packages", ".venv", "Node_Modules", "node_modules.", "ｎode_modules", "vendor"}
	rapid.Check(t, func(t *rapid.T) {
		write := rapid.Bool().Draw(t, "write")
		name := rapid.SampledFrom(append(policy.Sensitive(write), ".env.local", "x.pem")).Draw(t, "name")
		name = strings.ReplaceAll(name, "*", "x")
		on := append([]string{}, rapid.SliceOfN(rapid.SampledFrom(parts), 0, 4).Draw(t, "on the way")...)
		base := rapid.SampledFrom([]string{"/ws", "/elsewhere", "/ws/../node_modules/p"}).Draw(t, "base")
		full := path.Join(base, path.Join(on...), name)
		a := tool.Action{Kind: tool.FileRead, Path: full, Real: full}
		if write {
			a.Kind = tool.FileWrite
		}
		first, _, _ := strings.Cut(name, "/")
		inPackage := base == "/ws" && !strings.Contains(full, "ｎ") && !strings.Contains(full, "./") && !slices.Contains([]string{".git", ".hg", ".jj", ".sl"}, first) &&
			slices.ContainsFunc(on[:max(len(on)-1, 0)], func(p string) bool { return slices.Contains(policy.PackageFolders(), p) })
		if got := c.DecideAction(a).Effect; (got == policy.Allow) != inPackage {
			t.Fatalf("%s is %v, in a package: %v", a, got, inPackage)
		}
		if d := odd.DecideAction(a); strings.HasSuffix(name, ".pem") && d.Effect != policy.Deny {
			t.Fatalf("%s is %v against an entry of deny", a, d.Effect)
		}
	})
}

// A name that begins outside of a package is sensitive in it too, and a link is judged by its target.
func TestPackagesHideNothing(t *testing.T) {
	tests := map[string]struct {
		path, real string
		want       policy.Effect
	}{
		"a package":                           {"node_modules/p/.travis.yml", "", policy.Allow},
		"a certificate":                       {".venv/lib/python3.13/site-packages/certifi/cacert.pem", "", policy.Allow},
		"a scoped package":                    {"node_modules/@s/p/.github/workflows/ci.yml", "", policy.Allow},
		"a package of a package":              {"node_modules/p/node_modules/q/.npmrc", "", policy.Allow},
		"the folder of packages itself":       {"node_modules/.npmrc", "", policy.Deny},
		"in a sensitive folder":               {".ssh/node_modules/p/x", "", policy.Deny},
		"a hook":                              {"node_modules/p/.git/hooks/pre-commit", "", policy.Deny},
		"a repository":                        {"node_modules/p/.git", "", policy.Deny},
		"an index":                            {"node_modules/p/.git/index", "", policy.Allow},
		"a link to the workspace":             {"node_modules/p/.mcp.json", "/ws/.mcp.json", policy.Deny},
		"a link into a package":               {"p/.mcp.json", "/ws/node_modules/p/.mcp.json", policy.Deny},
		"another case":                        {"NODE_MODULES/p/.mcp.json", "", policy.Deny},
		"a name that begins before a package": {".config/node_modules/p/.env", "", policy.Allow},
		"outside of the workspace":            {"/opt/node_modules/p/.mcp.json", "", policy.Deny},
	}
	for name, tc := range tests {
		a := write(tc.path)
		a.Real = tc.real
		if d := chain(t, files(`"**", "/**"`, "")).DecideAction(a); d.Effect != tc.want {
			t.Errorf("%s: %s is %v (%s), want %v", name, a, d.Effect, d.Reason, tc.want)
		}
	}
	// A workspace in a folder of packages is a project like any other.
	p, err := policy.Parse("p", []byte("version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/ws/node_modules/p"})
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]policy.Effect{"src/.mcp.json": policy.Deny, "node_modules/q/.mcp.json": policy.Allow} {
		if d := (policy.Chain{r}).DecideAction(tool.Action{Kind: tool.FileWrite, Path: "/ws/node_modules/p/" + at}); d.Effect != want {
			t.Errorf("in a workspace that is a package, %s is %v, want %v", at, d.Effect, want)
		}
	}
}
