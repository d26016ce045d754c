package servers

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/packages"
)

// pip is the package manager of Python, set up for one package.
type pip struct {
	*registries
	request *packages.Request
}

func (pip) files() map[string][]byte { return nil }

// python begins every command line: without the variables and the folders of anybody.
var python = []string{"python3", "-I"}

// pipInstall begins the command lines of pip: of wheels alone, so that no package's code runs.
func (p pip) pipInstall(more ...string) []string {
	out := append(python[:len(python):len(python)], "-m", "pip", "install", "--isolated", "--only-binary=:all:", "--no-input", "--no-cache-dir",
		"--disable-pip-version-check", "--root-user-action=ignore", "--retries=1", "--quiet", "--index-url="+p.Main)
	for _, extra := range p.Extra {
		out = append(out, "--extra-index-url="+extra)
	}
	if p.ca != nil {
		out = append(out, "--cert="+sandbox.FolderAt+"/"+caFile)
	}
	return append(out, more...)
}

const (
	pipReport       = "report.json"
	pipRequirements = "requirements.txt"
	pipSite         = "site"
)

func (p pip) resolve() []string {
	return p.pipInstall("--dry-run", "--ignore-installed", "--report="+pipReport, "--", p.request.Requirement())
}

func (p pip) install() [][]string {
	return [][]string{
		p.pipInstall("--require-hashes", "--no-deps", "--no-compile", "--target="+pipSite, "--requirement="+pipRequirements),
		append(python[:len(python):len(python)], "-c", compileSite, pipSite),
	}
}

// compileSite compiles modules, so that each start need not. Unlike what pip compiles, the result holds
// no times. Modules that do not compile are left as they are.
const compileSite = `import compileall, py_compile, sys
compileall.compile_dir(sys.argv[1], quiet=2, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)`

func (pip) installed() string { return pipSite }

func (p pip) lock(f *sandbox.Folder) ([]byte, *packages.Lock, string, error) {
	report, err := f.Read(pipReport)
	if err != nil {
		return nil, nil, "", err
	}
	src, err := packages.LockPipReport(report, p.origins)
	if err != nil {
		return nil, nil, "", err
	}
	lock, err := packages.DecodeLock(packages.PyPI, src)
	if err != nil {
		return nil, nil, "", err
	}
	one, ok := lock.Find(packages.NormalizePyPI(p.request.Name))
	if !ok {
		return nil, nil, "", fault.New(fault.ToolFailed, "pip did not resolve the package %s", p.request.Name)
	}
	return src, lock, one.Version, f.Put(pipRequirements, []byte(lock.Requirements()))
}

// program finds the function that the package's program calls.
func (p pip) program(ctx context.Context, f *sandbox.Folder, _ []byte) (string, error) {
	list, err := f.Files(ctx)
	if err != nil {
		return "", err
	}
	name := packages.NormalizePyPI(p.request.Name)
	for _, one := range list {
		info := path.Dir(one.Path)
		own, _, isInfo := strings.Cut(path.Base(info), "-")
		if path.Base(one.Path) != "entry_points.txt" || path.Dir(info) != pipSite || !isInfo || !strings.HasSuffix(info, ".dist-info") ||
			packages.NormalizePyPI(own) != name || one.Size > maxProgramJSON {
			continue
		}
		src, err := f.Read(one.Path)
		if err != nil {
			return "", err
		}
		return packages.ReadEntryPoints(src, name, p.request.Program)
	}
	return "", fault.New(fault.ToolFailed, "the package %s has no program", name).WithHint("name a package that is an MCP server")
}

// pipStart starts a function of the pinned packages and of Python's own library, and of nothing else.
const pipStart = `import importlib, sys
site, entry, name = sys.argv[1:4]
sys.path.insert(0, site)
sys.argv[:4] = [name]
module, _, path = entry.partition(":")
run = importlib.import_module(module)
for part in path.split("."):
    run = getattr(run, part)
sys.exit(run())`

// pipCommand is the command line that starts the program of a Python package.
func pipCommand(folder, entry, name string) []string {
	return []string{"python3", "-I", "-S", "-B", "-c", pipStart, filepath.Join(folder, pipSite), entry, name}
}

// pipRegistries gives the registries of uv and pip, checked.
func (m *Servers) pipRegistries(ctx context.Context, server string) (*registries, error) {
	r, err := m.pipSettings(ctx, server)
	if err != nil {
		return nil, err
	}
	return r, r.check(ctx)
}

// pipSettings reads the person's own configuration of uv and pip.
func (m *Servers) pipSettings(ctx context.Context, server string) (*registries, error) {
	r := &registries{}
	r.Kind = packages.PyPI
	r.SetPip("index-url", cmp.Or(m.variable("UV_DEFAULT_INDEX"), m.variable("UV_INDEX_URL"), m.variable("PIP_INDEX_URL")))
	for _, name := range []string{"UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"} {
		r.SetPip("extra-index-url", m.variable(name))
	}
	r.SetPip("cert", cmp.Or(m.variable("PIP_CERT"), m.variable("SSL_CERT_FILE")))
	config := cmp.Or(m.variable("XDG_CONFIG_HOME"), filepath.Join(m.Home.UserHome, ".config"))
	for _, file := range []string{filepath.Join(config, "uv", "uv.toml"), "/etc/uv/uv.toml"} {
		if src, ok := ownFile(file); ok {
			r.ReadUVConfig(src)
		}
	}
	if named := m.variable("PIP_CONFIG_FILE"); named != os.DevNull {
		for _, file := range []string{named, filepath.Join(config, "pip", "pip.conf"), filepath.Join(m.Home.UserHome, ".pip", "pip.conf"), "/etc/xdg/pip/pip.conf", "/etc/pip.conf"} {
			if src, ok := ownFile(file); ok {
				r.ReadPipConf(src)
			}
		}
	}
	if r.Main == "" {
		if err := m.pipDefault(ctx, server, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// ownFile reads a small configuration file.
func ownFile(file string) ([]byte, bool) {
	if !filepath.IsAbs(file) {
		return nil, false
	}
	src, err := wholefile.ReadRegular(file, 1<<20)
	return src, err == nil
}

// pipDefault asks pip, without any network, which index it uses by default, and where that has its
// files.
func (m *Servers) pipDefault(ctx context.Context, server string, r *registries) error {
	answer, err := m.askPackages(ctx, server, pipHint, append(python[:len(python):len(python)], "-c",
		"from pip._internal.models.index import PyPI; print(PyPI.simple_url, PyPI.file_storage_domain)"), "")
	if err != nil {
		return err
	}
	index, files, ok := strings.Cut(strings.TrimSpace(answer), " ")
	if !ok {
		return fault.New(fault.ToolFailed, "pip does not say which index it uses").WithHint("set index-url in your pip.conf")
	}
	r.Main, r.files = index, []string{"https://" + files}
	return nil
}

const (
	npmHint = "npx packages need node and npm in /usr/local/bin or /usr/bin"
	pipHint = "uvx packages need python3 with pip (22.2 or newer) in /usr/local/bin or /usr/bin"
)
