// Package extension reads extensions: the manifest, the slash commands and the archive. It
// turns the permissions of an extension into the policy that bounds it. It is pure: it
// takes bytes and opens nothing. Start at [Read], then [Package.Bounds].
//
// An extension is a folder, or a zip archive of one:
//
//	manifest.json its identity, and the permissions that it requires
//	manifest.json.sig        optional: an Ed25519 signature of the manifest
//	commands/commands.yaml   its slash commands, and what they run
//	docs/USAGE.md            for people
//	bin/, wasm/              programs and modules
//	install/plan.yaml        optional: a plan that runs when it is installed,
//	install/policy.yaml      and the policy that it runs under
//
// The files of an installed extension never change. Its programs write to the folder work
// beside them.
package extension

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Permission is something that an extension may need of the world.
type Permission string

// The permissions. Each opens sections of the policy, see [Package.Bounds].
const (
	Exec       Permission = "exec"             // to start programs
	Network    Permission = "network"          // to reach the network
	ReadFiles  Permission = "filesystem.read"  // to read files besides its own folder's
	WriteFiles Permission = "filesystem.write" // to write files; in its own folder only
	Browser    Permission = "browser"          // to have pages opened
	LLM        Permission = "llm"              // to ask models
	Database   Permission = "database"         // to use databases
)

// Permissions are all of them, each with its explanation for people.
var Permissions = []struct {
	Name  Permission
	Means string
}{
	{Exec, "start the programs that its commands name, confined"},
	{Network, "reach the hosts that the policy's network section allows"},
	{ReadFiles, "read the files that the policy's files.read allows"},
	{WriteFiles, "write files in its own work folder, as the policy's files.write allows"},
	{Browser, "open the pages that the policy's network section allows"},
	{LLM, "ask the models that the policy's models section allows"},
	{Database, "use databases with what its other permissions reach"},
}

// Manifest is manifest.json.
type Manifest struct {
	ID          string
	Name        string
	Version     string // as semver.org has it
	Description string
	Author      string
	License     string
	Permissions []Permission
	Platforms   []string          // "linux", "linux/arm64"; empty: all
	MinRemit    string            // the first version of Remit that it works with; "": any
	Checksums   map[string]string // SHA-256 of every other file, in hexadecimal; nil: it has none
	Signer      ed25519.PublicKey // whose signature the manifest has; nil: nobody's
}

// Has reports whether the extension requires a permission.
func (m *Manifest) Has(p Permission) bool { return slices.Contains(m.Permissions, p) }

// SignerText is the signer as manifests have it, "" if there is none.
func (m *Manifest) SignerText() string {
	if m.Signer == nil {
		return ""
	}
	return signerPrefix + base64.StdEncoding.EncodeToString(m.Signer)
}

const signerPrefix = "ed25519:"

// ParseSigner reads a public key as manifests have it: "ed25519:" and Base64.
func ParseSigner(s string) (ed25519.PublicKey, error) {
	rest, ok := strings.CutPrefix(s, signerPrefix)
	key, err := base64.StdEncoding.Strict().DecodeString(rest)
	if !ok || err != nil || len(key) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%q is not a valid public key; expected ed25519: and 32 bytes in Base64", clip.Text(s, 60))
	}
	return key, nil
}

// The forms of names. IDs are lower-case words, so that a folder is named by one on
// every system; versions are those of semver.org.
var (
	idForm       = regex.Lazy(`^[a-z][a-z0-9]*([._-][a-z0-9]+)*$`)
	versionForm  = regex.Lazy(`^(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})\.(0|[1-9]\d{0,8})(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?$`)
	platformForm = regex.Lazy(`^(linux|darwin|windows|freebsd)(/(amd64|arm64))?$`)
	hashForm     = regex.Lazy(`^[0-9a-f]{64}$`)
)

const maxID = 40

// CheckID reports the fault in an extension's ID, nil if there is none.
func CheckID(id string) error {
	if len(id) > maxID || !idForm.MatchString(id) {
		return fmt.Errorf("%q is not a valid ID; expected up to %d lower-case letters and digits, separated by single dots, dashes or underscores", clip.Text(id, 60), maxID)
	}
	return nil
}

// reader reads the documents of extensions.
type reader struct{ *document.Reader }

func newReader(file, noun string) *reader {
	return &reader{document.NewReader(file, document.Options{Code: fault.ExtensionInvalid, Noun: noun})}
}

// ParseManifest reads a manifest, which errors call file. All that is wrong with
// it is told at once, as a fault.List of ExtensionInvalid with line and field.
func ParseManifest(file string, src []byte) (Manifest, error) {
	r, m := newReader(file, "manifest"), Manifest{}
	if n := r.ReadJSON(src); n != nil {
		r.manifest(n, &m)
	}
	return m, r.Err()
}

func (r *reader) manifest(n *document.Node, m *Manifest) {
	r.Mapping(n, "", document.Fields{
		"id":                   r.String(&m.ID, CheckID),
		"name":                 r.Prose(&m.Name, 100),
		"version":              r.String(&m.Version, checkVersion),
		"description":          r.Prose(&m.Description, 2000),
		"author":               r.Prose(&m.Author, 200),
		"license":              r.Prose(&m.License, 200),
		"permissions_required": r.List(20, func(n *document.Node, f string) { r.permission(n, f, m) }),
		"platforms": r.List(20, func(n *document.Node, f string) {
			if s, ok := r.Text(n, f); ok && !platformForm.MatchString(s) {
				r.Fail(n, f, "%q is not a valid platform", clip.Text(s, 60)).Hint = "write linux, darwin, windows or freebsd, with /amd64 or /arm64 if it matters"
			} else if ok {
				m.Platforms = append(m.Platforms, s)
			}
		}),
		"min_remit_version": r.String(&m.MinRemit, checkVersion),
		"checksums":         func(n *document.Node, f string) { r.checksums(n, f, m) },
		"signer": func(n *document.Node, f string) {
			s, ok := r.Text(n, f)
			if !ok {
				return
			}
			key, err := ParseSigner(s)
			if err != nil {
				r.Fail(n, f, "%v", err)
			}
			m.Signer = key
		},
	}, "id", "name", "version", "description", "author", "license", "permissions_required")
	if m.Signer != nil && m.Checksums == nil {
		r.Fail(n, "checksums", "is missing: a signed manifest must have the checksum of every file")
	}
}

func (r *reader) permission(n *document.Node, f string, m *Manifest) {
	s, ok := r.Text(n, f)
	p := Permission(s)
	switch {
	case !ok:
	case m.Has(p):
		r.Fail(n, f, "%s is listed twice", p)
	default:
		names := make([]string, len(Permissions))
		for i, known := range Permissions {
			if names[i] = string(known.Name); known.Name == p {
				m.Permissions = append(m.Permissions, p)
				return
			}
		}
		r.Fail(n, f, "%q is not a permission", clip.Text(s, 60)).Hint = "there are " + strings.Join(names, ", ")
	}
}

func (r *reader) checksums(n *document.Node, f string, m *Manifest) {
	m.Checksums = map[string]string{}
	r.Each(n, f, func(k, v *document.Node, f string) {
		s, ok := r.Text(v, f)
		switch {
		case !ok:
		case !hashForm.MatchString(s):
			r.Fail(v, f, "must be a SHA-256 hash in lower-case hexadecimal")
		case CheckName(k.Text) != "" || k.Text == ManifestFile || k.Text == SignatureFile:
			r.Fail(k, f, "%q is not another file of the extension", clip.Text(k.Text, 60))
		default:
			m.Checksums[k.Text] = s
		}
	})
}

func checkVersion(s string) error {
	if len(s) > 100 || !versionForm.MatchString(s) {
		return fmt.Errorf("%q is not a valid version, such as 1.2.0", clip.Text(s, 60))
	}
	return nil
}

// Compare says whether a version is before another (-1), the same (0) or after it
// (1), as semver.org orders them. It reports false where one of them is none.
func Compare(a, b string) (int, bool) {
	x, y := versionForm.FindStringSubmatch(a), versionForm.FindStringSubmatch(b)
	if x == nil || y == nil {
		return 0, false
	}
	for i := 1; i <= 3; i++ {
		if c := compareNumbers(x[i], y[i]); c != 0 {
			return c, true
		}
	}
	switch {
	case x[4] == y[4]:
		return 0, true
	case x[4] == "":
		return 1, true
	case y[4] == "":
		return -1, true
	}
	return slices.CompareFunc(strings.Split(x[4], "."), strings.Split(y[4], "."), compareParts), true
}

func compareNumbers(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// compareParts orders two parts of what follows the dash: numbers before words.
func compareParts(a, b string) int {
	_, aerr := strconv.ParseUint(a, 10, 64)
	_, berr := strconv.ParseUint(b, 10, 64)
	switch {
	case aerr == nil && berr == nil:
		return compareNumbers(strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0"))
	case aerr == nil:
		return -1
	case berr == nil:
		return 1
	}
	return strings.Compare(a, b)
}

// Runs says why the extension cannot be used with this version of Remit on this
// system, nil if it can. A version that is none, as of a build from source, is
// taken to be newer than all.
func (m *Manifest) Runs(remit, system, arch string) error {
	if len(m.Platforms) > 0 && !slices.ContainsFunc(m.Platforms, func(p string) bool { return p == system || p == path.Join(system, arch) }) {
		return fault.New(fault.ExtensionInvalid, "%s works on %s, and this is %s/%s", m.ID, strings.Join(m.Platforms, ", "), system, arch)
	}
	if c, known := Compare(remit, m.MinRemit); known && c < 0 {
		return fault.New(fault.ExtensionInvalid, "%s needs Remit %s, and this is %s", m.ID, m.MinRemit, remit).WithHint("update Remit")
	}
	return nil
}

// checkSigned checks the manifest's signature.
func (m *Manifest) checkSigned(manifest, signature []byte, there bool) error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.ExtensionChecksum, format, args...).At(fault.Pos{File: SignatureFile})
	}
	switch sig, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(string(signature))); {
	case m.Signer == nil && there:
		return bad("the manifest has a signature but no signer")
	case m.Signer == nil:
		return nil
	case !there:
		return bad("the manifest has a signer but no signature")
	case err != nil || !ed25519.Verify(m.Signer, manifest, sig):
		return bad("the signature does not match the manifest and its signer")
	}
	return nil
}

// checkSums checks that the manifest's checksums are those of all other files.
func (m *Manifest) checkSums(files []File) error {
	if m.Checksums == nil {
		return nil
	}
	bad := func(format string, args ...any) error { return fault.New(fault.ExtensionChecksum, format, args...) }
	left := len(m.Checksums)
	for _, f := range files {
		if f.Name == ManifestFile || f.Name == SignatureFile {
			continue
		}
		want, ok := m.Checksums[f.Name]
		sum := f.Sum()
		switch {
		case !ok:
			return bad("%q is not among the manifest's checksums", f.Name)
		case hex.EncodeToString(sum[:]) != want:
			return bad("%q does not match its checksum in the manifest", f.Name)
		}
		left--
	}
	if left > 0 {
		return bad("%d files that have a checksum in the manifest are missing", left)
	}
	return nil
}
