package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// TestToolsFindThePersonsCaches: of a project's tools, where the policy lets the cache be read, and no network is there.
func TestToolsFindThePersonsCaches(t *testing.T) {
	home, ws := t.TempDir(), t.TempDir()
	for _, dir := range []string{"go/pkg/mod/cache/download", ".gradle/caches/modules-2", ".m2/repository", "other/cache/download", "path/pkg/mod/cache/download"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	makes := func(names string) {
		t.Helper()
		for _, n := range strings.Fields("go.mod go.work pom.xml build.gradle.kts") {
			_ = os.Remove(filepath.Join(ws, n)) // it may not be there
		}
		for _, n := range strings.Fields(names) {
			if err := os.WriteFile(filepath.Join(ws, n), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	goroot := t.TempDir()
	if err := errors.Join(os.Mkdir(goroot+"/bin", 0o755), os.WriteFile(goroot+"/bin/go", nil, 0o755), os.WriteFile(goroot+"/go.env", []byte("# x\nGOPROXY=https://default.test\n"), 0o600)); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	const all = "files: {read: {allow: ['**', '~/**']}}\n"
	modules := "GOPROXY=file://" + home + "/go/pkg/mod/cache/download"
	for name, tc := range map[string]struct {
		files, policy, env string
		profile            sandbox.Profile
		want               []string
	}{
		"Go":               {"go.mod", all, "", sandbox.Profile{Standard: true}, []string{modules}},
		"a workspace":      {"go.work", all, "", sandbox.Profile{Standard: true}, []string{modules}},
		"all of them":      {"go.mod pom.xml build.gradle.kts", all, "", sandbox.Profile{Standard: true}, []string{modules, "GRADLE_RO_DEP_CACHE=" + home + "/.gradle/caches", "MAVEN_ARGS=-Dmaven.repo.local.tail=" + home + "/.m2/repository"}},
		"none":             {"", all, "", sandbox.Profile{Standard: true}, nil},
		"a network":        {"go.mod pom.xml", all, "GOPROXY=https://proxy.test,direct", sandbox.Profile{Standard: true, Connects: true}, []string{modules + ",https://proxy.test,direct", "MAVEN_ARGS=-Dmaven.repo.local.tail=" + home + "/.m2/repository"}},
		"a default":        {"go.mod", all, "", sandbox.Profile{Standard: true, Connects: true, Path: []string{"/nowhere", goroot + "/bin"}}, []string{modules + ",https://default.test"}},
		"no default":       {"go.mod", all, "", sandbox.Profile{Standard: true, Connects: true, Path: []string{"/nowhere"}}, nil},
		"a password":       {"go.mod", all, "GOPROXY=https://a:b@proxy.test", sandbox.Profile{Standard: true, Connects: true}, nil},
		"a minimal system": {"go.mod", all, "", sandbox.Profile{}, nil},
		"not readable":     {"go.mod", "files: {read: {allow: ['**']}}\n", "", sandbox.Profile{Standard: true}, nil},
		"readable":         {"go.mod pom.xml", "files: {read: {allow: ['~/go/pkg/mod/cache/download/**']}}\n", "", sandbox.Profile{Standard: true}, []string{modules}},
		"another folder":   {"go.mod", all, "GOMODCACHE=" + home + "/other", sandbox.Profile{Standard: true}, []string{"GOPROXY=file://" + home + "/other/cache/download"}},
		"another path":     {"go.mod", all, "GOPATH=" + home + "/path:/x", sandbox.Profile{Standard: true}, []string{"GOPROXY=file://" + home + "/path/pkg/mod/cache/download"}},
		"no such folder":   {"go.mod", all, "GOPATH=/nowhere", sandbox.Profile{Standard: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			makes(tc.files)
			p, err := policy.Parse("p.yaml", []byte("version: 1\n"+tc.policy))
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Bind(policy.Env{Workspace: ws, Home: home})
			if err != nil {
				t.Fatal(err)
			}
			getenv := func(name string) (string, bool) { return strings.CutPrefix(tc.env, name+"=") }
			if got := tc.profile.CacheVariables(policy.Chain{r}, ws, home, getenv, nil); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			given := []string{"GOPROXY=x", "GRADLE_RO_DEP_CACHE=x", "MAVEN_ARGS=x"}
			if got := tc.profile.CacheVariables(policy.Chain{r}, ws, home, getenv, given); !slices.Equal(got, given) {
				t.Errorf("a variable was replaced: %q", got)
			}
		})
	}
	if got := sandbox.PackageCaches(ws, "", os.LookupEnv); got != nil {
		t.Errorf("without a home folder: %v", got)
	}
}
