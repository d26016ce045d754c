package servers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
	"github.com/remitrun/remit/internal/tools/packages"
)

// mcpPackageID is what the record calls the tool that resolves and installs a package.
const mcpPackageID = tool.ID("mcp.package")

// packageRun is the call that resolves and installs a package.
type packageRun struct {
	servers *Servers
	ask     []string // a question to the package manager, in place of the rest
	answer  string

	hint     string  // the needs of the package manager
	manager  manager // nil for a question
	request  *packages.Request
	question string // the command that tells which registry is configured
	logins   bool   // the registry may need a login
	ca       []byte
	old      *packages.Lock
	pinning  Pinning
	found    *Package
}

// manager is a package manager that was set up for one package.
type manager interface {
	files() map[string][]byte // that it needs in its folder
	resolve() []string
	install() [][]string // once lock was called
	installed() string   // the folder that it installs into

	// lock returns the lock file of the resolved packages, checked, and the version of the package.
	lock(f *sandbox.Folder) (src []byte, lock *packages.Lock, version string, err error)
	// program finds the program in the installed files.
	program(ctx context.Context, f *sandbox.Folder, lock []byte) (string, error)
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
	return append([][]string{t.manager.resolve()}, t.manager.install()...)
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
	files := t.manager.files()
	if t.ca != nil {
		if files == nil {
			files = map[string][]byte{}
		}
		files[caFile] = t.ca
	}
	for name, content := range files {
		if err := f.Put(name, content); err != nil {
			return res, err
		}
	}
	if err := t.get(ctx, p, f); err != nil {
		return res, err
	}
	return tool.Result{Output: map[string]any{"package": t.found.Name, "version": t.found.Version, "lock": t.found.Lock, "files": t.found.Files}}, nil
}

// get resolves the package, asks whether to install it, installs it and keeps it.
func (t *packageRun) get(ctx context.Context, p permit.Permit, f *sandbox.Folder) error {
	if _, err := t.command(ctx, p, f, t.manager.resolve()); err != nil {
		return err
	}
	src, lock, version, err := t.manager.lock(f)
	if err != nil {
		return err
	}
	t.found = &Package{
		Kind: t.request.Kind, Name: t.request.Name, Asked: t.request.Version, Version: version, Args: append([]string{}, t.request.Args...),
		Lock: lock.Digest, Count: len(lock.Packages), Scripts: lock.Scripted(),
	}
	if err := t.pinning.Confirm(t.found, t.old, lock); err != nil {
		return err
	}
	t.pinning.step("installing %s@%s with %d packages, without their scripts", t.found.Name, t.found.Version, t.found.Count)
	for _, argv := range t.manager.install() {
		if _, err := t.command(ctx, p, f, argv); err != nil {
			return err
		}
	}
	if t.found.Program, err = t.manager.program(ctx, f, src); err != nil {
		return err
	}
	return t.servers.keepPackage(f, t.manager.installed(), src, t.found)
}

// command runs the package manager in the folder. It returns what it wrote.
func (t *packageRun) command(ctx context.Context, p permit.Permit, f *sandbox.Folder, argv []string) (string, error) {
	out, err := t.servers.Box.Run(ctx, p, sandbox.Command{
		Argv: argv, Dir: sandbox.FolderAt, Folder: f, Env: t.env(), Typed: true, Long: true,
	})
	if err != nil {
		return "", fault.Wrap(fault.CodeOf(err), err, "%s cannot be run: %s", argv[0], fault.Message(err)).
			WithHint("%s", t.hint)
	}
	if shelltool.Failure(out) == nil {
		return string(out.Stdout.Data), nil
	}
	why := fault.New(fault.ToolFailed, "the package could not be resolved: %s", managerReason(argv[0], out))
	switch {
	case t.manager == nil:
		return "", why.WithHint("%s", t.hint)
	case t.logins:
		return "", why.WithHint("the registry may need a login: Remit does not pass on the credentials of your configuration")
	}
	if t.request.Kind == packages.PyPI {
		return "", why.WithHint("check the name, the version and %s; only packages with wheels can be added", t.question)
	}
	return "", why.WithHint("check the name and the version, and %s", t.question)
}

// env keeps pip from reading any configuration file.
func (t *packageRun) env() map[string]string {
	if t.request == nil || t.request.Kind != packages.PyPI {
		return nil
	}
	return map[string]string{"PIP_CONFIG_FILE": os.DevNull}
}

// managerReason is the package manager's own message, in one line.
func managerReason(program string, out sandbox.Outcome) string {
	for _, c := range out.Connections {
		if c.Refused() {
			return clip.Text("it asks for "+c.Target()+", which is not your package registry", 300)
		}
	}
	var lines []string
	for line := range strings.Lines(string(out.Stderr.Data)) {
		line = strings.TrimSpace(line)
		line = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(line, "npm error"), "ERROR:"))
		if line != "" && !strings.HasPrefix(line, "WARNING:") && !strings.HasPrefix(line, "A complete log") && len(lines) < 3 {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return fault.Message(out.Failure(program, "the time limit"))
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
