package extension

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Package is an extension, read and checked.
type Package struct {
	Manifest Manifest
	Commands []Command
	Files    []File // sorted by name
	Digest   tool.Digest

	byName map[string]bool // programs of its own that are called by their bare names
}

// Read checks the files of an extension, and that they fit together. Errors name
// files by where they are below folder.
func Read(folder string, files []File) (*Package, error) {
	p := &Package{Files: slices.Clone(files)}
	slices.SortFunc(p.Files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	var entries Entries
	for _, f := range p.Files {
		if err := entries.File(f.Name, int64(len(f.Data))); err != nil {
			return nil, err
		}
	}
	at := func(name string) string { return path.Join(folder, name) }
	manifest, ok := p.file(ManifestFile)
	if !ok {
		return nil, fault.New(fault.ExtensionInvalid, "not an extension: %s is missing", ManifestFile).At(fault.Pos{File: folder})
	}
	var err error
	if p.Manifest, err = ParseManifest(at(ManifestFile), manifest); err != nil {
		return nil, err
	}
	sig, signed := p.file(SignatureFile)
	if err = p.Manifest.checkSigned(manifest, sig, signed); err != nil {
		return nil, err
	}
	if err = p.Manifest.checkSums(p.Files); err != nil {
		return nil, err
	}
	if src, ok := p.file(CommandsFile); ok {
		if p.Commands, err = ParseCommands(at(CommandsFile), src); err != nil {
			return nil, err
		}
	}
	if err = p.check(at(CommandsFile)); err != nil {
		return nil, err
	}
	p.Digest = digest(p.Files)
	return p, nil
}

// digest is of all files, by name and content.
func digest(files []File) tool.Digest {
	h := sha256.New()
	for _, f := range files {
		sum := f.Sum()
		fmt.Fprintf(h, "%d:%s,%x,", len(f.Name), f.Name, sum)
	}
	var d tool.Digest
	h.Sum(d[:0])
	return d
}

func (p *Package) file(name string) ([]byte, bool) {
	i, ok := slices.BinarySearchFunc(p.Files, name, func(f File, name string) int { return strings.Compare(f.Name, name) })
	if !ok {
		return nil, false
	}
	return p.Files[i].Data, true
}

// Usage is docs/USAGE.md, "" if there is none.
func (p *Package) Usage() string {
	b, _ := p.file(UsageFile)
	return string(b)
}

// Install returns the plan that runs when the extension is installed, and the policy
// that it runs under; nil if there is none.
func (p *Package) Install() (plan, under []byte) {
	plan, _ = p.file(PlanFile)
	under, _ = p.file(PolicyFile)
	return plan, under
}

// needed is the permission that a kind of runner takes.
var needed = map[RunnerKind]Permission{RunExec: Exec, RunAPI: Network, RunMCP: Network, RunAnalyze: LLM}

// check finds the parts of the commands that do not fit the manifest, or the files.
func (p *Package) check(file string) error {
	var errs fault.List
	for _, c := range p.Commands {
		for _, a := range c.Actions {
			bad := func(hint, format string, args ...any) {
				e := fault.New(fault.ExtensionInvalid, format, args...).At(fault.Pos{File: file, Line: a.Line}).In("/" + c.Name + " " + a.ID)
				e.Hint = hint
				errs = append(errs, e)
			}
			if perm, ok := needed[a.Runner.Kind]; ok && !p.Manifest.Has(perm) {
				bad("add it to permissions_required", "its runner %s needs the permission %s, which the manifest does not require", a.Runner.Text, perm)
			}
			if _, there := p.file("wasm/" + a.Runner.Name + ".wasm"); a.Runner.Kind == RunWASM && !there {
				bad("", "the module wasm/%s.wasm is missing", a.Runner.Name)
			}
			if id := ToolID(p.Manifest.ID, c.Name, a.ID); len(id) > 200 {
				bad("", "the name of its tool has %d bytes; the limit is 200", len(id))
			}
		}
	}
	plan, under := p.Install()
	if (plan == nil) != (under == nil) {
		errs = append(errs, fault.New(fault.ExtensionInvalid, "install/plan.yaml and install/policy.yaml come together: a plan runs under the policy beside it"))
	}
	if len(p.Commands) == 0 {
		errs = append(errs, fault.New(fault.ExtensionInvalid, "it has no slash commands").At(fault.Pos{File: file}))
	}
	return errs.Err()
}

// Name has the extension's own programs called by their bare names, except where a command of the
// trusted PATH has the name, because a policy's entry of that name means the command. A program
// with a taken name is called by its path.
func (p *Package) Name(taken func(name string) bool) {
	p.byName = map[string]bool{}
	for _, f := range p.Files {
		if name, ok := strings.CutPrefix(f.Name, "bin/"); ok && !strings.Contains(name, "/") {
			p.byName[name] = !taken(name)
		}
	}
}

// Program returns the command that an exec action starts: a program of the
// extension's own, which go first, by its name or its absolute path below root (see
// Name), or the name of one on the trusted PATH.
func (p *Package) Program(a *Action, root string) string {
	if _, own := p.file("bin/" + a.Runner.Name); own && !p.byName[a.Runner.Name] {
		return path.Join(root, "bin", a.Runner.Name)
	}
	return a.Runner.Name
}

// Programs is the folder in which the program of an action is found by its name,
// where the extension is installed in root; "": it is not one of the extension's, or
// is called by its path.
func (p *Package) Programs(a *Action, root string) string {
	if !p.byName[a.Runner.Name] {
		return ""
	}
	return path.Join(root, "bin")
}

// Module is the file of a wasm action's module.
func (p *Package) Module(a *Action) []byte {
	b, _ := p.file("wasm/" + a.Runner.Name + ".wasm")
	return b
}

// Version is the version of an action's tool: every change to the effect of a call changes it, and
// so voids the pinned version.
func (p *Package) Version(c *Command, a *Action) string {
	h := sha256.New()
	enc := json.NewEncoder(h)
	program, _ := p.file("bin/" + a.Runner.Name)
	one := *a
	one.Line = 0
	for _, part := range []any{p.Manifest.Permissions, c.Name, one, sha256.Sum256(program), sha256.Sum256(p.Module(a))} {
		if err := enc.Encode(part); err != nil {
			return p.Manifest.Version // names and numbers: it cannot fail
		}
	}
	return p.Manifest.Version + "+" + hex.EncodeToString(h.Sum(nil)[:16])
}

// Work is the extension's work folder where it is installed in root.
func Work(root string) string { return path.Join(root, WorkFolder) }

// Bounds is the policy that bounds the calls of the extension, where it is installed in the folder
// root (absolute, without links), besides the caller's own policies: everything that the extension
// did not declare is closed; it may start only programs that its commands name; and it may write to
// its work folder alone.
func (p *Package) Bounds(root string) (*policy.Policy, error) {
	work := glob.Escape(Work(root))
	own := []string{work, work + "/**"}
	none := map[string]any{"allow": []string{}}
	files := map[string]any{"write": none}
	if p.Manifest.Has(WriteFiles) {
		files["write"] = map[string]any{"allow": own}
	}
	if !p.Manifest.Has(ReadFiles) {
		files["read"] = map[string]any{"allow": own}
	}
	doc := map[string]any{"version": 1, "name": "extension " + p.Manifest.ID, "rest": "inherit", "files": files,
		"commands": map[string]any{"allow": p.starts(root)}}
	if !p.Manifest.Has(Network) && !p.Manifest.Has(Browser) {
		doc["network"] = none
	}
	return p.bounds(doc)
}

// AnalysisBounds is the policy that bounds the analyses of the extension: calls of
// Remit's own tools, which open nothing for the extension but a model.
func (p *Package) AnalysisBounds() (*policy.Policy, error) {
	return p.bounds(map[string]any{"version": 1, "name": "extension " + p.Manifest.ID, "rest": "inherit"})
}

func (p *Package) bounds(doc map[string]any) (*policy.Policy, error) {
	if !p.Manifest.Has(LLM) {
		doc["models"] = map[string]any{"allow": []string{}}
	}
	src, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the bounds of %s cannot be written", p.Manifest.ID)
	}
	return policy.Parse(boundsOf+p.Manifest.ID+")", src)
}

// boundsOf begins what stands for a file's name in the policy that Bounds gives. No other policy
// that bounds single calls has such a name.
const boundsOf = "(extension "

// OfBounds returns the extension whose bounds a policy is, by what stands for its file.
func OfBounds(file string) (id string, ok bool) {
	id, ok = strings.CutPrefix(file, boundsOf)
	if !ok {
		return "", false
	}
	return strings.CutSuffix(id, ")")
}

// starts are patterns of the commands that the extension may start: those that its
// actions name; any, where that is shell.run's to say.
func (p *Package) starts(root string) []string {
	out := []string{}
	if !p.Manifest.Has(Exec) {
		return out
	}
	for _, c := range p.Commands {
		for i := range c.Actions {
			a := &c.Actions[i]
			if a.Runner.Tool() == "shell.run" {
				return []string{"**"}
			}
			if name := commandWord(p.Program(a, root)) + " **"; a.Runner.Kind == RunExec && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// commandWord is a word of a command pattern that means just that word.
func commandWord(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune(" '\"\\*", c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Tools are the IDs of the extension's own tools.
func (p *Package) Tools() []tool.ID {
	var out []tool.ID
	for _, c := range p.Commands {
		for _, a := range c.Actions {
			if a.Runner.Own() {
				out = append(out, ToolID(p.Manifest.ID, c.Name, a.ID))
			}
		}
	}
	return out
}
