package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/packages"
)

// Package is the pinned package of a server: the files that were resolved and checked when the
// server was added. The server runs from exactly these files.
type Package struct {
	Kind    packages.Kind `json:"kind"`
	Name    string        `json:"name"`
	Asked   string        `json:"asked,omitempty"` // the version in the command; "": the newest
	Version string        `json:"version"`
	Program string        `json:"program"` // its file, relative to the installed files, or of Python MODULE:FUNCTION
	Args    []string      `json:"args"`    // of the program; of a bundle the whole command line
	Lock    string        `json:"lock"`    // SHA-256 of the lock file, hexadecimal
	Files   string        `json:"files"`   // SHA-256 over all installed files, hexadecimal
	Count   int           `json:"count"`   // packages in the lock file
	// Scripts are the packages whose install scripts were not run.
	Scripts []string `json:"scripts,omitempty"`

	folder string // where the files are
}

// pin is what the digests of the server's tools say of the package; "" without one.
func (p *Package) pin() string {
	if p == nil {
		return ""
	}
	return "lock sha256:" + p.Lock + " files sha256:" + p.Files
}

// Folder is where the files of the package are.
func (p *Package) Folder() string { return p.folder }

// command is the command line that starts the program.
func (p *Package) command() []string {
	switch p.Kind {
	case packages.Bundle:
		return slices.Clone(p.Args)
	case packages.PyPI:
		return append(pipCommand(p.folder, p.Program, p.Name), p.Args...)
	}
	return append([]string{"node", filepath.Join(p.folder, p.Program)}, p.Args...)
}

// Pinning says how a package is resolved and pinned.
type Pinning struct {
	Server string // the server's name
	// Step is told each step as it begins. Nil: it is not told.
	Step func(text string)
	// Confirm is asked whether to go on with a package that was resolved. Lock was is the
	// pinned one that it would replace, or nil.
	Confirm func(found *Package, was, now *packages.Lock) error
}

func (q *Pinning) step(format string, args ...any) {
	if q.Step != nil {
		q.Step(fmt.Sprintf(format, args...))
	}
}

// Bounds of the files of one package.
const (
	maxPackageBytes = 2 << 30
	maxPackageFiles = 200_000
	maxProgramJSON  = 1 << 20
)

var hexDigest = regex.Lazy(`^[0-9a-f]{64}$`)

// check reports the first error in a package as mcp.json has it.
func (p *Package) check() error {
	if p == nil {
		return nil
	}
	r := packages.Request{Kind: p.Kind, Name: p.Name, Version: p.Version}
	if err := r.Check(); err != nil {
		return err
	}
	if !hexDigest.MatchString(p.Lock) || !hexDigest.MatchString(p.Files) || !filepath.IsLocal(p.Program) || p.Kind == packages.Bundle && len(p.Args) == 0 || p.Kind == packages.PyPI && !packages.ValidEntryPoint(p.Program) {
		return fault.New(fault.Usage, "the pinned package %s is damaged", p.Name).WithHint("add the server again with --replace")
	}
	return nil
}

// packagesDir has the installed files of packages, one folder for each lock file. It is
// beside $REMIT_HOME, as no sandbox sees that.
func (m *Servers) packagesDir() string { return home.RealPath(m.Home.Dir) + "-packages" }

func (m *Servers) packageDir(lock string) string { return filepath.Join(m.packagesDir(), lock) }

// lockFile is where the lock file of a package is kept, below $REMIT_HOME.
func lockFile(lock string) string { return filepath.Join("packages", lock+".json") }

// lockOf reads the kept lock file of a pinned package.
func (m *Servers) lockOf(p *Package) (*packages.Lock, error) {
	src, err := wholefile.ReadRegular(filepath.Join(m.Home.Dir, lockFile(p.Lock)), packages.MaxLock)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the lock file of %s cannot be read: %v", p.Name, wholefile.Cause(err))
	}
	l, err := packages.DecodeLock(p.Kind, src)
	if err != nil {
		return nil, err
	}
	if l.Digest != p.Lock {
		return nil, fault.New(fault.StoreCorrupt, "the lock file of %s was changed", p.Name).WithHint("add the server again with --replace")
	}
	return l, nil
}

// Locked gives the packages of a pinned package's lock file.
func (m *Servers) Locked(p *Package) ([]packages.Locked, error) {
	l, err := m.lockOf(p)
	if err != nil {
		return nil, err
	}
	return l.Packages, nil
}

// Pin resolves a package, installs it without running its scripts, and keeps its files and its
// lock file. Both steps run in the sandbox, which reaches the package registry alone.
func (m *Servers) Pin(ctx context.Context, r *packages.Request, was *Package, q Pinning) (*Package, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	var old *packages.Lock
	if was != nil {
		var err error
		if old, err = m.lockOf(was); err != nil {
			return nil, err
		}
	}
	t, bound, err := m.packageRun(ctx, r, q)
	if err != nil {
		return nil, err
	}
	t.old = old
	q.step("resolving %s", r)
	if err := m.runHelper(ctx, bound, "mcp package "+q.Server, t, t.args()); err != nil {
		return nil, err
	}
	return t.found, nil
}

// packageRun prepares the call that gets a package, and the policy that bounds it.
func (m *Servers) packageRun(ctx context.Context, r *packages.Request, q Pinning) (*packageRun, string, error) {
	read, hint := m.npmRegistries, npmHint
	if r.Kind == packages.PyPI {
		read, hint = m.pipRegistries, pipHint
	}
	reg, err := read(ctx, q.Server)
	if err != nil {
		return nil, "", err
	}
	t := &packageRun{servers: m, hint: hint, manager: npm{reg, r}, request: r, logins: reg.Logins, question: reg.Question(), ca: reg.ca, pinning: q}
	if r.Kind == packages.PyPI {
		t.manager = pip{reg, r}
	}
	return t, reg.policy(q.Server), nil
}

// verify checks that the installed files are the pinned ones.
func (m *Servers) verify(p *Package) error {
	again := "install them again: remit mcp upgrade NAME --to " + p.Version
	if p.Kind == packages.Bundle {
		again = "add the bundle again with --replace"
	}
	sum, err := sumFiles(p.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return fault.New(fault.ToolFailed, "the files of the package %s are missing", p.Name).WithHint("%s", again)
	}
	if err != nil {
		return fault.Wrap(fault.ToolFailed, err, "the files of the package %s cannot be checked: %v", p.Name, wholefile.Cause(err))
	}
	if sum != p.Files {
		return fault.New(fault.StoreCorrupt, "the files of the package %s were changed since they were pinned", p.Name).WithHint("%s", again)
	}
	return nil
}

// keepPackage moves installed files and their lock file to where they stay.
func (m *Servers) keepPackage(f *sandbox.Folder, installed string, lock []byte, p *Package) error {
	return m.Home.Locked("packages.lock", func() error { return m.moveFiles(filepath.Join(f.Path(), installed), lock, p) })
}

// moveFiles moves the installed files. The caller holds the lock of the packages.
func (m *Servers) moveFiles(from string, lock []byte, p *Package) error {
	fail := func(err error) error {
		return fault.Wrap(fault.ToolFailed, err, "the files of %s cannot be kept: %v", p.Name, wholefile.Cause(err))
	}
	to := m.packageDir(p.Lock)
	if err := os.MkdirAll(m.packagesDir(), 0o700); err != nil {
		return fail(err)
	}
	old, err := filepath.Glob(filepath.Join(m.packagesDir(), ".new-*")) // of processes that died: the lock is held
	for _, dir := range old {
		err = errors.Join(err, walk.Remove(dir))
	}
	if err != nil {
		return fail(err)
	}
	next, err := os.MkdirTemp(m.packagesDir(), ".new-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = walk.Remove(next) }() // it is empty, or was moved
	if err := os.Rename(from, filepath.Join(next, filepath.Base(from))); err != nil {
		return fail(err)
	}
	if p.Files, err = sumFiles(next); err != nil {
		return fail(err)
	}
	if there, err := sumFiles(to); err != nil || there != p.Files {
		if err := errors.Join(walk.Remove(to), os.Rename(next, to)); err != nil {
			return fail(err)
		}
	}
	p.folder = to
	return m.Home.WriteFile(lockFile(p.Lock), lock)
}

// Upgrade pins another version of a server's package, "" for the version that its command names,
// and replaces the pinned one. It returns the server and whether anything changed.
func (m *Servers) Upgrade(ctx context.Context, name, version string, q Pinning) (Server, bool, error) {
	s, err := m.Find(name)
	if err != nil {
		return s, false, err
	}
	was := s.Package
	if was == nil {
		return s, false, fault.New(fault.Usage, "the MCP server %q does not run a pinned package", name).WithHint("its program is not managed by Remit")
	}
	r, err := packages.ParseCommand(s.Command)
	if err != nil || r == nil {
		return s, false, errors.Join(err, fault.New(fault.Usage, "the command of the MCP server %q is not of npx or uvx", name))
	}
	if version != "" {
		r.Version = version
	}
	q.Server = name
	if s.Package, err = m.Pin(ctx, r, was, q); err != nil {
		return s, false, err
	}
	return s, s.Package.Lock != was.Lock, m.Add(s, true)
}

// readPaths gives the policy p with the files that the server's package needs.
func (s Server) readPaths(p *policy.Policy) (*policy.Policy, error) {
	if s.Package == nil {
		return p, nil
	}
	return p.Widened(policy.Wide{Hold: p.Holds(), Read: []string{glob.Escape(s.Package.folder) + "/**"}})
}

// PathArguments gives the arguments of a package's program with those that name existing
// folders made absolute, and these folders. They are looked up as npx would: from the
// current folder.
func PathArguments(args []string) (absolute, folders []string, err error) {
	absolute = slices.Clone(args)
	for i, word := range absolute {
		if word == "" || strings.HasPrefix(word, "-") {
			continue
		}
		if st, err := os.Stat(word); err != nil || !st.IsDir() {
			continue
		}
		dir, err := home.Workspace(word)
		if err != nil {
			return nil, nil, err
		}
		absolute[i] = dir
		if !slices.Contains(folders, dir) {
			folders = append(folders, dir)
		}
	}
	return absolute, folders, nil
}

// packageJSON is the project that npm resolves the package for.
func packageJSON() []byte {
	b, err := json.Marshal(map[string]any{"name": "remit-mcp-server", "private": true})
	if err != nil {
		panic(err) // of constants
	}
	return append(b, '\n')
}
