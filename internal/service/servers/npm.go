package servers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/packages"
)

// npm is the package manager of Node, set up for one package.
type npm struct {
	*registries
	request *packages.Request
}

func (n npm) files() map[string][]byte { return map[string][]byte{"package.json": packageJSON()} }

func (n npm) resolve() []string {
	return slices.Concat([]string{"npm", "install", "--package-lock-only"}, n.npmOptions(), []string{"--", n.request.String()})
}

func (n npm) install() [][]string {
	return [][]string{slices.Concat([]string{"npm", "ci"}, n.npmOptions())}
}

func (npm) installed() string { return "node_modules" }

func (n npm) lock(f *sandbox.Folder) ([]byte, *packages.Lock, string, error) {
	src, err := f.Read("package-lock.json")
	if err != nil {
		return nil, nil, "", err
	}
	lock, err := packages.ReadNPMLock(src, n.origins)
	if err != nil {
		return nil, nil, "", err
	}
	one, ok := lock.Find("node_modules/" + n.request.Name)
	if !ok || one.Name != n.request.Name {
		return nil, nil, "", fault.New(fault.ToolFailed, "the lock file does not have the package %s", n.request.Name)
	}
	return src, lock, one.Version, nil
}

// program finds the program, once the lock file was seen to be unchanged.
func (n npm) program(_ context.Context, f *sandbox.Folder, lock []byte) (string, error) {
	name := n.request.Name
	if again, err := f.Read("package-lock.json"); err != nil || string(again) != string(lock) {
		return "", fault.Wrap(fault.ToolFailed, err, "the lock file of %s changed while it was installed", name)
	}
	src, err := f.Read("node_modules/" + name + "/package.json")
	if err != nil {
		return "", err
	}
	if len(src) > maxProgramJSON {
		return "", fault.New(fault.ToolFailed, "the package.json of %s has more than %d MiB", name, maxProgramJSON>>20)
	}
	file, err := packages.ReadProgram(src, n.request.Program)
	if err != nil {
		return "", err
	}
	at := filepath.Join("node_modules", name, filepath.Clean(file))
	if !filepath.IsLocal(filepath.Clean(file)) || !strings.HasPrefix(at, "node_modules"+string(filepath.Separator)) {
		return "", fault.New(fault.ToolFailed, "the program %q of %s is outside the package", file, name)
	}
	_, err = f.Read(filepath.ToSlash(at))
	return at, err
}

// npmRegistries gives the registries of npm, checked.
func (m *Servers) npmRegistries(ctx context.Context, server string) (*registries, error) {
	r, err := m.npmSettings(ctx, server)
	if err != nil {
		return nil, err
	}
	return r, r.check(ctx)
}

// npmSettings reads the person's own configuration of npm. A project's is not read, as
// others can write to it.
func (m *Servers) npmSettings(ctx context.Context, server string) (*registries, error) {
	r := &registries{}
	r.Kind = packages.NPM
	variable := func(name string) string { return cmp.Or(m.variable(name), m.variable(strings.ToUpper(name))) }
	lookup := func(name string) (string, bool) { v := m.variable(name); return v, v != "" }
	r.Set("registry", variable("npm_config_registry"))
	r.Set("cafile", variable("npm_config_cafile"))
	own := cmp.Or(variable("npm_config_userconfig"), filepath.Join(m.Home.UserHome, ".npmrc"))
	for _, file := range []string{own, cmp.Or(variable("npm_config_globalconfig"), "/usr/etc/npmrc"), "/usr/local/etc/npmrc", "/etc/npmrc"} {
		if src, err := wholefile.ReadRegular(file, 1<<20); err == nil && filepath.IsAbs(file) {
			r.ReadNPMRC(src, lookup)
		}
	}
	if r.Main == "" {
		var err error
		if r.Main, err = m.npmDefault(ctx, server); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// npmOptions are npm's, so that nothing but these registries is used and no script runs.
func (r *registries) npmOptions() []string {
	out := []string{
		"--ignore-scripts", "--save-exact", "--no-audit", "--no-fund", "--no-update-notifier", "--no-progress", "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=2000", "--lockfile-version=3",
		"--install-links=false", "--omit-lockfile-registry-resolved=false", noUserConfig, noGlobalConfig,
		"--cache=" + sandbox.FolderAt + "/.cache", "--logs-max=0", "--registry=" + r.Main,
	}
	for _, scope := range slices.Sorted(maps.Keys(r.Scopes)) {
		out = append(out, "--"+scope+":registry="+r.Scopes[scope])
	}
	if r.ca != nil {
		out = append(out, "--cafile="+sandbox.FolderAt+"/"+caFile)
	}
	return out
}

const caFile = ".ca.pem"

// Files that do not exist: npm reads no configuration but its options.
const (
	noUserConfig   = "--userconfig=" + sandbox.FolderAt + "/.user"
	noGlobalConfig = "--globalconfig=" + sandbox.FolderAt + "/.global"
)

// npmDefault asks npm, without any network, which registry it uses by default.
func (m *Servers) npmDefault(ctx context.Context, server string) (string, error) {
	answer, err := m.askPackages(ctx, server, npmHint, []string{"npm", "config", "get", "registry", noUserConfig, noGlobalConfig}, "")
	return strings.TrimSpace(answer), err
}

// askPackages asks a package manager a question, confined and without any network. folder
// is where it may be besides the system's folders, "" for nowhere.
func (m *Servers) askPackages(ctx context.Context, server, hint string, argv []string, folder string) (string, error) {
	t := &packageRun{servers: m, hint: hint, ask: argv}
	where := ""
	if folder != "" {
		where = fmt.Sprintf(", path: [%q]", folder)
	}
	none := fmt.Sprintf("version: 1\nname: %q\ncommands: {timeout: 2m%s}\n", "mcp package "+server, where)
	err := m.runHelper(ctx, none, "mcp package "+server, t, t.args())
	return t.answer, err
}
