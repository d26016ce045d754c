// Package packages reads how MCP servers are published and started as packages: the command
// lines of launchers (npx, uvx), the lock files that pin a package with all that it needs,
// the configuration that names a person's registry, and the entries of MCP registries.
// It is pure: it reads text that others wrote, all of it untrusted. Start at [ParseCommand].
package packages

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Kind is a kind of package registry.
type Kind string

// The kinds of registries whose packages can be pinned.
const (
	NPM  Kind = "npm"
	PyPI Kind = "pypi"
)

// Request names a package and the arguments of its program.
type Request struct {
	Kind    Kind
	Name    string
	Version string   // a version, a range or a tag; "": the newest
	Program string   // which program of the package; "": its main one
	Args    []string // of the program
}

// String is the package as its launcher names it.
func (r *Request) String() string {
	if r.Version == "" {
		return r.Name
	}
	return r.Name + "@" + r.Version
}

// Requirement is the package as its package manager reads it.
func (r *Request) Requirement() string {
	if r.Kind == PyPI && r.Version != "" {
		return r.Name + "==" + r.Version
	}
	return r.String()
}

var (
	npmName     = regex.Lazy(`^(@[A-Za-z0-9~][A-Za-z0-9._~-]*/)?[A-Za-z0-9~][A-Za-z0-9._~-]*$`)
	npmVersion  = regex.Lazy(`^[\^~]?[0-9A-Za-z][0-9A-Za-z.+_-]*$`)
	pypiName    = regex.Lazy(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._-]+\])?$`)
	pypiVersion = regex.Lazy(`^[0-9A-Za-z][0-9A-Za-z.!+_-]*$`)
	program     = regex.Lazy(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`)
)

// maxText bounds a name or version, in bytes.
const maxText = 214

// Check reports the first error in a request. What passes cannot be taken for an option, a
// path or a URL.
func (r *Request) Check() error {
	name, version := npmName, npmVersion
	if r.Kind == PyPI {
		name, version = pypiName, pypiVersion
	}
	if r.Kind == Bundle {
		name, version = bundleName, pypiVersion
	}
	switch {
	case r.Kind != NPM && r.Kind != PyPI && r.Kind != Bundle:
		return fault.New(fault.Usage, "%q packages are not supported; expected npm or pypi", string(r.Kind))
	case len(r.Name) > maxText || !name.MatchString(r.Name) || slices.Contains(strings.Split(r.Name, "/"), ".."):
		return fault.New(fault.Usage, "%q is not a valid package name", r.Name).WithHint("only packages of a registry can be added, not paths, URLs or repositories")
	case r.Version != "" && (len(r.Version) > maxText || !version.MatchString(r.Version)):
		return fault.New(fault.Usage, "%q is not a valid version of the package %s", r.Version, r.Name).WithHint("write a version, as %s@1.2.3", r.Name)
	case r.Program != "" && (len(r.Program) > maxText || !program.MatchString(r.Program)):
		return fault.New(fault.Usage, "%q is not a valid program name", r.Program)
	}
	return nil
}

// ParseCommand reads a command line of npx or uvx. It returns nil if the command is of
// another program. Options that change where packages come from are errors.
func ParseCommand(argv []string) (*Request, error) {
	if len(argv) == 0 {
		return nil, nil //nolint:nilnil // see the comment
	}
	var r *Request
	var err error
	switch path.Base(argv[0]) {
	case "npx":
		r, err = parseNpx(argv[1:])
	case "uvx":
		r, err = parseUvx(argv[1:])
	default:
		return nil, nil //nolint:nilnil // see the comment
	}
	if err != nil {
		return nil, err
	}
	return r, r.Check()
}

func parseNpx(args []string) (*Request, error) {
	r := &Request{Kind: NPM}
	spec, rest, err := launcherOptions("npx", args, []string{"-y", "--yes", "-q", "--quiet"}, []string{"-p", "--package"})
	if err != nil {
		return nil, err
	}
	if spec != "" {
		if len(rest) == 0 {
			return nil, missing("npx")
		}
		r.Program, r.Args = rest[0], rest[1:]
	} else {
		if len(rest) == 0 {
			return nil, missing("npx")
		}
		spec, r.Args = rest[0], rest[1:]
	}
	r.Name, r.Version = cutVersion(spec, "@")
	return r, nil
}

func parseUvx(args []string) (*Request, error) {
	r := &Request{Kind: PyPI}
	spec, rest, err := launcherOptions("uvx", args, []string{"-q", "--quiet", "--isolated"}, []string{"--from"})
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return nil, missing("uvx")
	}
	if spec != "" {
		r.Program = rest[0]
	} else {
		spec = rest[0]
	}
	r.Args = rest[1:]
	if name, version, ok := strings.Cut(spec, "=="); ok {
		r.Name, r.Version = name, version
	} else {
		r.Name, r.Version = cutVersion(spec, "@")
	}
	if r.Version == "latest" {
		r.Version = ""
	}
	return r, nil
}

func missing(launcher string) error {
	return fault.New(fault.Usage, "the package is missing after %s", launcher)
}

// launcherOptions reads the options before the package: flags without a value, and one
// option with a value. It returns that value, and the words after the options.
func launcherOptions(launcher string, args, flags, valued []string) (value string, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		word := args[i]
		name, v, joined := strings.Cut(word, "=")
		switch {
		case word == "--":
			return value, args[i+1:], nil
		case !strings.HasPrefix(word, "-"):
			return value, args[i:], nil
		case slices.Contains(flags, word):
		case slices.Contains(valued, name) && value != "":
			return "", nil, fault.New(fault.Usage, "%s names two packages; one is supported", launcher)
		case slices.Contains(valued, name) && joined:
			value = v
		case slices.Contains(valued, word) && i+1 < len(args):
			i++
			value = args[i]
		default:
			return "", nil, fault.New(fault.Usage, "the %s option %q is not supported", launcher, name).
				WithHint("the registry comes from your own configuration; leave the option out")
		}
	}
	return value, nil, nil
}

// cutVersion cuts NAME@VERSION, where a name may begin with @.
func cutVersion(spec, sep string) (name, version string) {
	if i := strings.LastIndex(spec, sep); i > 0 {
		return spec[:i], spec[i+1:]
	}
	return spec, ""
}
