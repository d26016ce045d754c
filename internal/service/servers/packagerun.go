package servers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
	"github.com/remitrun/remit/internal/tools/packages"
)

// mcpPackageID is what the record calls the tool that resolves and installs a package.
const mcpPackageID = tool.ID("mcp.package")

// registries are the package registries of the person, checked.
type registries struct {
	packages.Registries
	origins []string
	entries []string // of network.allow
	ca      []byte   // certificates to trust; nil: the system's
}

// npmRegistries reads the person's own configuration of npm. A project's is not read, as
// others can write to it.
func (m *Servers) npmRegistries(ctx context.Context, server string) (*registries, error) {
	r := &registries{}
	lookup := m.Home.Lookup
	if lookup == nil {
		lookup = func(string) (string, bool) { return "", false }
	}
	variable := func(name string) string {
		for _, n := range []string{name, strings.ToUpper(name)} {
			if v, ok := lookup(n); ok && v != "" {
				return v
			}
		}
		return ""
	}
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
	return r, r.check(ctx)
}

// check checks the registries, and looks up which addresses they have.
func (r *registries) check(ctx context.Context) (err error) {
	if r.origins, err = r.Check(); err != nil {
		return err
	}
	if r.CAFile != "" {
		if r.ca, err = wholefile.ReadRegular(r.CAFile, 4<<20); err != nil {
			return fault.Wrap(fault.Usage, err, "the cafile %q of your npm configuration cannot be read: %v", r.CAFile, wholefile.Cause(err))
		}
	}
	for _, origin := range r.origins {
		entry, err := registryEntry(ctx, origin)
		if err != nil {
			return err
		}
		r.entries = append(r.entries, entry)
	}
	return nil
}

// registryEntry is the entry of network.allow for a registry. The person's configuration
// names the host, so one with TLS may have a private address.
func registryEntry(ctx context.Context, origin string) (string, error) {
	to, err := target.Parse("", origin)
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the package registry in your configuration cannot be used: %s", fault.Message(err))
	}
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" {
		return fmt.Sprintf("%q", origin), err
	}
	addrs, err := network.Resolve(ctx, to.Host)
	if err != nil {
		return "", fault.Wrap(fault.ToolFailed, err, "the package registry %s cannot be found", to.Host).WithHint("check the network, and npm config get registry")
	}
	var private []string
	for _, a := range addrs {
		if !target.Public(a) && !a.IsLinkLocalUnicast() && !a.IsMulticast() && !a.IsUnspecified() {
			private = append(private, fmt.Sprintf("%q", a.Unmap()))
		}
	}
	if len(private) == 0 {
		return fmt.Sprintf("%q", origin), nil
	}
	return fmt.Sprintf("{url: %q, addresses: [%s]}", origin, strings.Join(private, ", ")), nil
}

// policy bounds the sandbox in which packages are resolved: its private folder and the
// registries.
func (r *registries) policy(server string) string {
	return fmt.Sprintf("version: 1\nname: %q\nnetwork:\n  allow: [%s]\n  total_bytes: 2GiB\ncommands: {timeout: 15m, memory: 4GiB}\n",
		"mcp package "+server, strings.Join(r.entries, ", "))
}

// options are npm's, so that nothing but these registries is used and no script runs.
func (r *registries) options() []string {
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
	t := &packageRun{servers: m, ask: []string{"npm", "config", "get", "registry", noUserConfig, noGlobalConfig}}
	none := fmt.Sprintf("version: 1\nname: %q\ncommands: {timeout: 2m}\n", "mcp package "+server)
	if err := m.runHelper(ctx, none, "mcp package "+server, t, t.args()); err != nil {
		return "", err
	}
	return strings.TrimSpace(t.answer), nil
}

// packageRun is the call that resolves and installs a package.
type packageRun struct {
	servers *Servers
	ask     []string // a question to the package manager, in place of the rest
	answer  string

	request    *packages.Request
	registries *registries
	old        *packages.Lock
	pinning    Pinning
	found      *Package
}

func (t *packageRun) Spec() *tool.Spec {
	return &tool.Spec{
		ID: mcpPackageID, Title: "Get the package of an MCP server", Version: "1", Source: "builtin", Risk: tool.Medium,
		Description: "Resolves and installs the package of an MCP server, in a sandbox that reaches the package registry alone.",
		Input: []byte(`{"type": "object", "additionalProperties": false, "required": ["commands"],
			"properties": {"commands": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}}`),
		Output:  []byte(`{"type": "object"}`),
		Effects: tool.EffectSet(tool.SystemExec, tool.NetworkHTTP, tool.NetworkSocket),
	}
}

// commands are the command lines that the call runs.
func (t *packageRun) commands() [][]string {
	if t.ask != nil {
		return [][]string{t.ask}
	}
	o := t.registries.options()
	return [][]string{
		slices.Concat([]string{"npm", "install", "--package-lock-only"}, o, []string{"--", t.request.String()}),
		slices.Concat([]string{"npm", "ci"}, o),
	}
}

func (t *packageRun) args() tool.Args {
	var list []any
	for _, argv := range t.commands() {
		var words []any
		for _, w := range argv {
			words = append(words, w)
		}
		list = append(list, words)
	}
	return tool.Args{"commands": list}
}

func packageAction(argv []string) tool.Action {
	return tool.Action{Kind: tool.Command, Argv: argv, Dir: sandbox.FolderAt, Typed: true}
}

func (t *packageRun) Prepare(tool.Env, tool.Args) (permit.Prepared, error) {
	var out permit.Prepared
	for _, argv := range t.commands() {
		out.Actions = append(out.Actions, packageAction(argv))
	}
	out.Run = t.run
	return out, nil
}

func (t *packageRun) run(ctx context.Context, p permit.Permit) (res tool.Result, err error) {
	f, err := t.servers.Box.NewFolder(p, maxPackageBytes, maxPackageFiles)
	if err != nil {
		return res, err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if t.ask != nil {
		t.answer, err = t.command(ctx, p, f, t.ask)
		return res, err
	}
	if err := f.Put("package.json", packageJSON()); err != nil {
		return res, err
	}
	if t.registries.ca != nil {
		if err := f.Put(caFile, t.registries.ca); err != nil {
			return res, err
		}
	}
	commands := t.commands()
	if _, err := t.command(ctx, p, f, commands[0]); err != nil {
		return res, err
	}
	src, err := f.Read("package-lock.json")
	if err != nil {
		return res, err
	}
	if err := t.resolved(src); err != nil {
		return res, err
	}
	t.pinning.step("installing %s@%s with %d packages, without their scripts", t.found.Name, t.found.Version, t.found.Count)
	if _, err := t.command(ctx, p, f, commands[1]); err != nil {
		return res, err
	}
	if again, err := f.Read("package-lock.json"); err != nil || string(again) != string(src) {
		return res, fault.Wrap(fault.ToolFailed, err, "the lock file of %s changed while it was installed", t.found.Name)
	}
	if err := t.servers.keepPackage(f, src, t.found); err != nil {
		return res, err
	}
	return tool.Result{Output: map[string]any{"package": t.found.Name, "version": t.found.Version, "lock": t.found.Lock, "files": t.found.Files}}, nil
}

// resolved checks what the package manager resolved, and asks whether to install it.
func (t *packageRun) resolved(src []byte) error {
	lock, err := packages.ReadNPMLock(src, t.registries.origins)
	if err != nil {
		return err
	}
	one, ok := lock.Find("node_modules/" + t.request.Name)
	if !ok || one.Name != t.request.Name {
		return fault.New(fault.ToolFailed, "the lock file does not have the package %s", t.request.Name)
	}
	t.found = &Package{
		Kind: t.request.Kind, Name: t.request.Name, Asked: t.request.Version, Version: one.Version, Args: append([]string{}, t.request.Args...),
		Lock: lock.Digest, Count: len(lock.Packages), Scripts: lock.Scripted(), want: t.request.Program,
	}
	return t.pinning.Confirm(t.found, t.old, lock)
}

// command runs the package manager in the folder. It returns what it wrote.
func (t *packageRun) command(ctx context.Context, p permit.Permit, f *sandbox.Folder, argv []string) (string, error) {
	out, err := t.servers.Box.Run(ctx, p, sandbox.Command{Argv: argv, Dir: sandbox.FolderAt, Folder: f, Typed: true, Long: true})
	if err != nil {
		return "", fault.Wrap(fault.CodeOf(err), err, "%s cannot be run: %s", argv[0], fault.Message(err)).
			WithHint("npx packages need node and npm in /usr/local/bin or /usr/bin")
	}
	if shelltool.Failure(out) == nil {
		return string(out.Stdout.Data), nil
	}
	why := fault.New(fault.ToolFailed, "the package could not be resolved: %s", npmReason(out))
	if t.registries != nil && t.registries.Logins {
		return "", why.WithHint("the registry may need a login: Remit does not pass on the credentials of your npm configuration")
	}
	return "", why.WithHint("check the name and the version, and npm config get registry")
}

// npmReason is what the package manager said, in one line.
func npmReason(out sandbox.Outcome) string {
	for _, c := range out.Connections {
		if c.Refused() {
			return clip.Text("it asks for "+c.Target()+", which is not your package registry", 300)
		}
	}
	var lines []string
	for line := range strings.Lines(string(out.Stderr.Data)) {
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "npm error"))
		if line != "" && !strings.HasPrefix(line, "A complete log") && len(lines) < 3 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return fault.Message(out.Failure("npm", "the time limit"))
	}
	return clip.Text(strings.Join(lines, "; "), 300)
}

// runHelper makes one call in a run of its own, under a policy of its own.
func (m *Servers) runHelper(ctx context.Context, bound, name string, t permit.Tool, args tool.Args) error {
	root, err := policy.Parse("("+name+")", []byte(bound))
	if err != nil {
		return err
	}
	c, err := catalog.New(t)
	if err != nil {
		return err
	}
	folder := m.packagesDir()
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the folder of packages cannot be made: %v", wholefile.Cause(err))
	}
	b, runCtx, begun, err := m.Runs.Start(ctx, runs.Request{
		Root: root, Workspace: home.RealPath(folder), Asker: runs.Typed{By: home.Person(), Where: "remit mcp add"},
	}, runner.Info{Name: name, Total: 1})
	if err != nil {
		return err
	}
	b.Runner.Catalog = c
	o := b.Runner.Execute(runCtx, b.Run, runner.Call{Tool: t.Spec().ID, Args: args, Long: true})
	if _, err := b.Finish(runCtx, begun, o.Status, o.Fatal); err != nil {
		return err
	}
	return o.Err
}

// sumFiles computes the SHA-256 over all files below a folder: their names, whether they can
// be executed, and their content. A link must stay in the folder.
func sumFiles(folder string) (string, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }() // nothing was written
	h := sha256.New()
	count := 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if count++; err != nil || count > maxPackageFiles {
			return cmp.Or(err, error(fault.New(fault.LimitReached, "it has more than %d files", maxPackageFiles)))
		}
		switch {
		case d.IsDir():
			return nil
		case d.Type()&fs.ModeSymlink != 0:
			to, err := root.Readlink(name)
			if err == nil && !filepath.IsLocal(filepath.Join(filepath.Dir(name), to)) || filepath.IsAbs(to) {
				return fault.New(fault.ToolFailed, "%q is a link out of the package", name)
			}
			fmt.Fprintf(h, "l %d:%s %d:%s\n", len(name), name, len(to), to)
			return err
		case !d.Type().IsRegular():
			return fault.New(fault.ToolFailed, "%q is not a regular file", name)
		}
		return sumFile(h, root, name)
	})
	return hex.EncodeToString(h.Sum(nil)), err
}

func sumFile(h io.Writer, root *os.Root, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // nothing was written
	st, err := f.Stat()
	if err != nil {
		return err
	}
	fmt.Fprintf(h, "f %d:%s %t %d\n", len(name), name, st.Mode()&0o111 != 0, st.Size())
	_, err = io.Copy(h, io.LimitReader(f, st.Size()))
	return err
}
