package packages

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// MaxLock bounds a lock file, in bytes.
const MaxLock = 16 << 20

// maxLocked bounds the packages in a lock file.
const maxLocked = 5000

// Locked is one package in a lock file.
type Locked struct {
	Path      string // where it is installed; unique
	Name      string
	Version   string
	Integrity string // the hash of its archive; "" if it is part of the package above it
	Scripts   bool   // it has scripts that would run when it is installed
}

// Lock is a lock file that was checked.
type Lock struct {
	Digest   string // SHA-256 of the file, hexadecimal
	Packages []Locked
}

// Scripted gives the names of the packages with install scripts, sorted.
func (l *Lock) Scripted() []string {
	var out []string
	for _, p := range l.Packages {
		if p.Scripts {
			out = append(out, p.Name+"@"+p.Version)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Find gives the package at a path.
func (l *Lock) Find(at string) (Locked, bool) {
	i := slices.IndexFunc(l.Packages, func(p Locked) bool { return p.Path == at })
	if i < 0 {
		return Locked{}, false
	}
	return l.Packages[i], true
}

type npmLock struct {
	Version  int                      `json:"lockfileVersion"`
	Packages map[string]npmLockedItem `json:"packages"`
}

type npmLockedItem struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Resolved  any    `json:"resolved"`
	Integrity string `json:"integrity"`
	Link      bool   `json:"link"`
	InBundle  bool   `json:"inBundle"`
	Scripts   bool   `json:"hasInstallScript"`
}

// ReadNPMLock reads and checks a package-lock.json. Each package must come from one of these
// origins (scheme://host:port) and have a strong hash, or be part of another package.
// Links, files, repositories and other hosts are errors.
func ReadNPMLock(src []byte, origins []string) (*Lock, error) {
	if len(src) > MaxLock {
		return nil, badLock("it has more than %d MiB", MaxLock>>20)
	}
	var f npmLock
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "the lock file is not valid JSON")
	}
	if f.Version != 2 && f.Version != 3 {
		return nil, badLock("its version %d is not supported; expected 2 or 3", f.Version)
	}
	if len(f.Packages) > maxLocked {
		return nil, badLock("it has more than %d packages", maxLocked)
	}
	sum := sha256.Sum256(src)
	l := &Lock{Digest: hex.EncodeToString(sum[:])}
	for _, at := range slices.Sorted(maps.Keys(f.Packages)) {
		if at == "" {
			continue // the project that only names the package
		}
		one, err := checkLocked(at, f.Packages[at], origins)
		if err != nil {
			return nil, err
		}
		l.Packages = append(l.Packages, one)
	}
	for _, p := range l.Packages {
		if p.Integrity == "" && !insideAnother(l, p.Path) {
			return nil, badLock("the package %q is not part of a package with a hash", p.Path)
		}
	}
	return l, nil
}

func badLock(format string, args ...any) error {
	return fault.New(fault.ToolFailed, "the lock file was refused: "+format, args...)
}

var lockedVersion = regex.Lazy(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}$`)

// checkLocked checks one package of a lock file.
func checkLocked(at string, p npmLockedItem, origins []string) (Locked, error) {
	name, ok := installedName(at)
	switch {
	case !ok:
		return Locked{}, badLock("%q is not a place in node_modules", at)
	case p.Link:
		return Locked{}, badLock("the package %q is a link to a folder", at)
	case !lockedVersion.MatchString(p.Version):
		return Locked{}, badLock("the package %q has no valid version", at)
	}
	if p.Name != "" { // it is installed under another name
		if !npmName.MatchString(p.Name) || len(p.Name) > maxText {
			return Locked{}, badLock("the package at %q has no valid name", at)
		}
		name = p.Name
	}
	out := Locked{Path: at, Name: name, Version: p.Version, Integrity: p.Integrity, Scripts: p.Scripts}
	if p.InBundle {
		out.Integrity = ""
		if p.Resolved != nil && p.Resolved != false {
			return Locked{}, badLock("the package %q comes with another one and has a source of its own", at)
		}
		return out, nil
	}
	if !strongHash(p.Integrity) {
		return Locked{}, badLock("the package %q has no SHA-512 hash", at)
	}
	if p.Resolved == nil {
		return out, nil // it comes from the registry
	}
	from, ok := p.Resolved.(string)
	if !ok || !fromOrigin(from, origins) {
		return Locked{}, badLock("the package %q does not come from the registry but from %q", at, from)
	}
	return out, nil
}

// installedName gives the name of the package that is installed at a path below
// node_modules.
func installedName(at string) (string, bool) {
	rest, ok := strings.CutPrefix(at, "node_modules/")
	if !ok || len(at) > 4096 {
		return "", false
	}
	name := ""
	for part := range strings.SplitSeq(rest, "/node_modules/") {
		if len(part) > maxText || !npmName.MatchString(part) || strings.Contains(part, "..") || part == "node_modules" {
			return "", false
		}
		name = part
	}
	return name, true
}

func strongHash(integrity string) bool {
	strong := false
	for one := range strings.FieldsSeq(integrity) {
		kind, value, _ := strings.Cut(one, "-")
		if kind != "sha512" {
			continue
		}
		sum, err := base64.StdEncoding.DecodeString(value)
		if err != nil || len(sum) != 64 {
			return false
		}
		strong = true
	}
	return strong
}

func fromOrigin(from string, origins []string) bool {
	u, err := url.Parse(from)
	return err == nil && u.User == nil && u.Opaque == "" && slices.Contains(origins, u.Scheme+"://"+u.Host)
}

// insideAnother reports whether a package is installed inside one that has a hash.
func insideAnother(l *Lock, at string) bool {
	for {
		i := strings.LastIndex(at, "/node_modules/")
		if i < 0 {
			return false
		}
		at = at[:i]
		if p, ok := l.Find(at); ok && p.Integrity != "" {
			return true
		}
	}
}

// Change is one difference between two lock files.
type Change struct {
	Path string `json:"path"`
	Was  string `json:"was,omitempty"` // the version; "": it was not there
	Now  string `json:"now,omitempty"` // the version; "": it is gone
}

// Compare lists what changed from one lock file to another, sorted by path.
func Compare(was, now *Lock) []Change {
	all := map[string]*Change{}
	of := func(at string) *Change {
		if all[at] == nil {
			all[at] = &Change{Path: at}
		}
		return all[at]
	}
	hashes := map[string][2]string{}
	for _, p := range was.Packages {
		of(p.Path).Was, hashes[p.Path] = p.Version, [2]string{p.Integrity}
	}
	for _, p := range now.Packages {
		of(p.Path).Now, hashes[p.Path] = p.Version, [2]string{hashes[p.Path][0], p.Integrity}
	}
	var out []Change
	for _, at := range slices.Sorted(maps.Keys(all)) {
		c := all[at]
		if h := hashes[at]; c.Was == c.Now && h[0] == h[1] {
			continue
		}
		out = append(out, *c)
	}
	return out
}

// ReadProgram finds in the package.json of an installed package the file of its program: the
// one of that name, or the only one, or the one that is named like the package.
func ReadProgram(src []byte, want string) (string, error) {
	var f struct {
		Name string          `json:"name"`
		Bin  json.RawMessage `json:"bin"`
	}
	if err := json.NewDecoder(bytes.NewReader(src)).Decode(&f); err != nil {
		return "", fault.Wrap(fault.ToolFailed, err, "the package has no valid package.json")
	}
	short := f.Name[strings.LastIndexByte(f.Name, '/')+1:]
	bins := map[string]string{}
	var one string
	if json.Unmarshal(f.Bin, &one) == nil && one != "" {
		bins[short] = one
	} else if json.Unmarshal(f.Bin, &bins) != nil || len(bins) == 0 {
		return "", fault.New(fault.ToolFailed, "the package has no program").WithHint("name a package that is an MCP server")
	}
	return pickProgram(bins, want, short, "npx -p PACKAGE PROGRAM")
}

// DecodeLock reads a lock file that was checked before, wherever its packages come from.
func DecodeLock(kind Kind, src []byte) (*Lock, error) {
	if kind == PyPI || kind == Bundle {
		return decodeOwnLock(kind, src)
	}
	var f npmLock
	if err := json.Unmarshal(src, &f); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the lock file is not valid JSON")
	}
	sum := sha256.Sum256(src)
	l := &Lock{Digest: hex.EncodeToString(sum[:])}
	for _, at := range slices.Sorted(maps.Keys(f.Packages)) {
		if name, ok := installedName(at); ok {
			p := f.Packages[at]
			l.Packages = append(l.Packages, Locked{Path: at, Name: cmp.Or(p.Name, name), Version: p.Version, Integrity: p.Integrity, Scripts: p.Scripts})
		}
	}
	return l, nil
}
