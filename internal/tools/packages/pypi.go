package packages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// pypiLock is the lock file that Remit writes of what pip resolved, and of a bundle.
type pypiLock struct {
	Kind     Kind             `json:"kind"`
	Packages []pypiLockedItem `json:"packages"`
}

type pypiLockedItem struct {
	Name    string `json:"name"` // normalized
	Version string `json:"version"`
	File    string `json:"file,omitempty"` // the wheel
	SHA256  string `json:"sha256"`         // hexadecimal
}

// pipReport is pip's report of the packages that it would install.
type pipReport struct {
	Version string `json:"version"`
	Install []struct {
		Download struct {
			URL     string `json:"url"`
			Archive *struct {
				Hashes map[string]string `json:"hashes"`
			} `json:"archive_info"`
		} `json:"download_info"`
		Direct   bool `json:"is_direct"`
		Metadata struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"metadata"`
	} `json:"install"`
}

var sha256Digest = regex.Lazy(`^[0-9a-f]{64}$`)

// LockPipReport makes a lock file of pip's installation report. Each package must be a wheel
// that comes from one of these origins (scheme://host:port) and has a SHA-256 hash.
// Source distributions, links, files, repositories and other hosts are errors.
func LockPipReport(src []byte, origins []string) ([]byte, error) {
	if len(src) > MaxLock {
		return nil, badLock("pip's report has more than %d MiB", MaxLock>>20)
	}
	var f pipReport
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "pip's report is not valid JSON")
	}
	if major, _, _ := strings.Cut(f.Version, "."); major != "1" && major != "0" {
		return nil, badLock("the version %q of pip's report is not supported", f.Version)
	}
	if len(f.Install) > maxLocked {
		return nil, badLock("it has more than %d packages", maxLocked)
	}
	items := map[string]pypiLockedItem{}
	for _, one := range f.Install {
		it := pypiLockedItem{Name: NormalizePyPI(one.Metadata.Name), Version: one.Metadata.Version}
		_, twice := items[it.Name]
		switch {
		case !pypiName.MatchString(it.Name) || len(it.Name) > maxText || twice:
			return nil, badLock("a package has no valid name, or one that another has")
		case !pypiVersion.MatchString(it.Version) || len(it.Version) > maxText:
			return nil, badLock("the package %q has no valid version", it.Name)
		case one.Direct || one.Download.Archive == nil || !fromOrigin(one.Download.URL, origins):
			return nil, badLock("the package %q does not come from the registry but from %q", it.Name, one.Download.URL)
		}
		it.SHA256 = one.Download.Archive.Hashes["sha256"]
		if !sha256Digest.MatchString(it.SHA256) {
			return nil, badLock("the package %q has no SHA-256 hash", it.Name)
		}
		u, err := url.Parse(one.Download.URL)
		if err != nil {
			return nil, err
		}
		if it.File = path.Base(u.Path); !wheelName.MatchString(it.File) {
			return nil, badLock("%q of the package %q is not a wheel", it.File, it.Name)
		}
		items[it.Name] = it
	}
	l := pypiLock{Kind: PyPI}
	for _, name := range slices.Sorted(maps.Keys(items)) {
		l.Packages = append(l.Packages, items[name])
	}
	out, err := json.MarshalIndent(l, "", "  ")
	return append(out, '\n'), err
}

var wheelName = regex.Lazy(`^[A-Za-z0-9][A-Za-z0-9._+!~-]*\.whl$`)

// decodeOwnLock reads a lock file that LockPipReport or LockBundle made.
func decodeOwnLock(kind Kind, src []byte) (*Lock, error) {
	var f pypiLock
	if err := json.Unmarshal(src, &f); err != nil || f.Kind != kind {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the lock file is not valid JSON")
	}
	sum := sha256.Sum256(src)
	l := &Lock{Digest: hex.EncodeToString(sum[:])}
	for _, p := range f.Packages {
		l.Packages = append(l.Packages, Locked{Path: p.Name, Name: p.Name, Version: p.Version, Integrity: "sha256-" + p.SHA256})
	}
	return l, nil
}

// Requirements lists the packages of a Python lock file as pip reads them: each with its
// version and its hash.
func (l *Lock) Requirements() string {
	var out strings.Builder
	for _, p := range l.Packages {
		fmt.Fprintf(&out, "%s==%s --hash=sha256:%s\n", p.Name, p.Version, strings.TrimPrefix(p.Integrity, "sha256-"))
	}
	return out.String()
}

// NormalizePyPI gives the name under which a Python package is known, without extras.
func NormalizePyPI(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return separators.ReplaceAllString(strings.ToLower(name), "-")
}

var (
	separators = regex.Lazy(`[-_.]+`)
	entryPoint = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// ValidEntryPoint reports whether a program of a Python package is MODULE:FUNCTION.
func ValidEntryPoint(s string) bool { return len(s) <= maxText && entryPoint.MatchString(s) }

// ReadEntryPoints finds in the entry_points.txt of an installed package the function of its
// program, as MODULE:FUNCTION: the one of that name, or the only one, or the one that is
// named like the package.
func ReadEntryPoints(src []byte, pkg, want string) (string, error) {
	bins, inside := map[string]string{}, false
	for line := range strings.Lines(string(src)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			inside = line == "[console_scripts]"
			continue
		}
		name, to, ok := strings.Cut(line, "=")
		if !inside || !ok || strings.HasPrefix(line, "#") {
			continue
		}
		to, _, _ = strings.Cut(to, "[") // extras that it needs
		if name, to = strings.TrimSpace(name), strings.TrimSpace(to); program.MatchString(name) && ValidEntryPoint(to) {
			bins[name] = to
		}
	}
	short := ""
	for name := range bins {
		if NormalizePyPI(name) == NormalizePyPI(pkg) {
			short = name
		}
	}
	return pickProgram(bins, want, short, "uvx --from PACKAGE PROGRAM")
}

// pickProgram picks a program by its name: want, else the only one, else the package's main.
func pickProgram(bins map[string]string, want, main, usage string) (string, error) {
	names := slices.Sorted(maps.Keys(bins))
	file, ok := bins[main]
	switch {
	case len(bins) == 0:
		return "", fault.New(fault.ToolFailed, "the package has no program").WithHint("name a package that is an MCP server")
	case want != "":
		if file, ok = bins[want]; !ok {
			return "", fault.New(fault.Usage, "the package has no program %q", want).WithHint("its programs: %s", strings.Join(names, ", "))
		}
		return file, nil
	case len(names) == 1:
		return bins[names[0]], nil
	case ok:
		return file, nil
	}
	return "", fault.New(fault.Usage, "the package has %d programs", len(names)).WithHint("name one: %s; its programs: %s", usage, strings.Join(names, ", "))
}
