package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// PackageCache is a folder of the person with downloaded packages. The tools of a project only read it.
type PackageCache struct {
	Dir string // the folder
	Env string // NAME=value: has the tool look there
}

// CacheVariables adds the variables by which tools find the person's caches to an environment. It leaves out the
// caches that the policies do not let the command read. With a network, Go's usual proxies come after the cache.
func (p Profile) CacheVariables(chain policy.Chain, workspace, home string, getenv func(string) (string, bool), env []string) []string {
	if !p.Standard {
		return env
	}
	for _, c := range PackageCaches(workspace, home, getenv) {
		name, _, _ := strings.Cut(c.Env, "=")
		file := filepath.Join(c.Dir, AnyName)
		if p.Connects && name == "GOPROXY" {
			proxies := goProxies(p.Path, home, getenv)
			if proxies == "" {
				continue
			}
			c.Env += "," + proxies
		}
		given := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if !given && chain.DecideAction(tool.Action{Kind: tool.FileRead, Path: file, Real: file}).Effect == policy.Allow {
			env = append(env, c.Env)
		}
	}
	return env
}

// PackageCaches lists the person's caches for the tools that a project uses. getenv is the person's environment.
func PackageCaches(workspace, home string, getenv func(string) (string, bool)) (out []PackageCache) {
	if home == "" {
		return nil
	}
	uses := func(names ...string) bool {
		for _, n := range names {
			if _, err := os.Lstat(filepath.Join(workspace, n)); err == nil {
				return true
			}
		}
		return false
	}
	add := func(dir, env string) {
		if st, err := os.Stat(dir); err == nil && st.IsDir() && filepath.IsAbs(dir) {
			out = append(out, PackageCache{dir, env})
		}
	}
	if uses("go.mod", "go.work") {
		modules := filepath.Join(home, "go/pkg/mod")
		if path, ok := getenv("GOPATH"); ok && path != "" {
			modules = filepath.Join(filepath.SplitList(path)[0], "pkg/mod")
		}
		if own, ok := getenv("GOMODCACHE"); ok && own != "" {
			modules = own
		}
		dir := filepath.Join(modules, "cache/download")
		add(dir, "GOPROXY=file://"+dir) // https://go.dev/ref/mod#module-cache
	}
	if uses("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts") {
		dir := filepath.Join(home, ".gradle/caches")
		add(filepath.Join(dir, "modules-2"), "GRADLE_RO_DEP_CACHE="+dir)
	}
	if uses("pom.xml") {
		dir := filepath.Join(home, ".m2/repository")
		add(dir, "MAVEN_ARGS=-Dmaven.repo.local.tail="+dir) // Maven 3.9; earlier ones do not read it
	}
	return out
}

// goProxies is the person's setting of Go's module proxies, or Go's default (https://go.dev/doc/toolchain#config). It is "" if
// neither is known, or if it has a password.
func goProxies(path []string, home string, getenv func(string) (string, bool)) string {
	value, _ := getenv("GOPROXY")
	files := []string{filepath.Join(home, ".config/go/env")}
	for _, dir := range path {
		if program, err := filepath.EvalSymlinks(filepath.Join(dir, "go")); err == nil {
			files = append(files, filepath.Join(filepath.Dir(filepath.Dir(program)), "go.env"))
		}
	}
	for _, file := range files {
		if value != "" {
			break
		}
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "GOPROXY="); ok {
				value = v
			}
		}
	}
	if strings.Contains(value, "@") {
		return ""
	}
	return value
}
