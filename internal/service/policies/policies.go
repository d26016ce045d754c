// Package policies chooses the policies that bound a run: a named file or the workspace's
// trusted remit.yaml, and the person's own outer bound. Start at [Policies.Chain].
package policies

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
)

// Policies finds policies for one $REMIT_HOME.
type Policies struct {
	Home *home.Home

	outer atomic.Pointer[policy.Policy] // the outer bound as it was last parsed
}

// ChainOf reads policy files that bound one another, and adds the person's own
// outer bound.
func (s *Policies) ChainOf(files []string) ([]*policy.Policy, error) {
	var ps []*policy.Policy
	for _, f := range files {
		p, err := Read(f)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	if len(ps) == 0 {
		return nil, fault.New(fault.Usage, "no policy is named")
	}
	outer, err := s.Bounded(ps[0])
	if err != nil {
		return nil, err
	}
	return append(ps, outer[1:]...), nil
}

// Hint tells what a person should know about the policy that was chosen.
type Hint string

// The hints where everything is denied.
const (
	HintNone Hint = "no policy: everything is denied (remit init writes one for a project; or give one with -p FILE)"
	hintNew  Hint = "the workspace's remit.yaml is not trusted, so everything is denied (read it, then: remit policy trust)"
	hintDiff Hint = "the workspace's remit.yaml changed since it was trusted, so everything is denied (read it, then: remit policy trust)"
)

const workspaceFile = "remit.yaml"

// MaxPolicySize bounds a policy file, in bytes.
const MaxPolicySize = 1 << 20

// denyAll is the policy where there is none. It denies the tools, too: a tool that needs no
// resource, as time.now, would else be allowed.
const denyAll = "version: 1\nname: " + policy.NoPolicyName + "\ntools: {allow: []}\n"

// Chain chooses the chain for a run: file if given, else the workspace's
// trusted remit.yaml, else one that denies everything; and the person's own
// outer bound wherever it exists.
func (s *Policies) Chain(file, workspace string) ([]*policy.Policy, Hint, error) {
	root, hint, err := s.Root(file, workspace)
	if err != nil {
		return nil, "", err
	}
	chain, err := s.Bounded(root)
	return chain, hint, err
}

// Bounded adds the person's own outer bound to a root policy.
func (s *Policies) Bounded(root *policy.Policy) ([]*policy.Policy, error) {
	outer, err := s.Outer()
	if err != nil {
		return nil, err
	}
	if outer == nil {
		return []*policy.Policy{root}, nil
	}
	return []*policy.Policy{root, outer}, nil
}

// Outer is the person's own outer bound, or nil if there is none.
func (s *Policies) Outer() (*policy.Policy, error) {
	file := filepath.Join(s.Home.Dir, "policy.yaml")
	src, err := wholefile.Read(file, MaxPolicySize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // said above
	case err != nil:
		return nil, fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	if known := s.outer.Load(); known != nil && known.Digest() == runner.DigestOf(src) && known.File() == file {
		return known, nil
	}
	p, err := policy.Parse(file, src)
	if err == nil {
		s.outer.Store(p)
	}
	return p, err
}

// Root chooses a run's first policy: file if given, else the workspace's trusted
// remit.yaml, else one that denies everything, with the hint that says so.
func (s *Policies) Root(file, workspace string) (*policy.Policy, Hint, error) {
	if file != "" {
		p, err := Read(file)
		return p, "", err
	}
	none, err := policy.Parse("(no policy)", []byte(denyAll))
	if err != nil {
		return nil, "", err
	}
	from, err := s.Holder(workspace)
	if err != nil {
		return nil, "", err
	}
	src, known, err := s.workspacePolicy(from)
	switch {
	case err != nil:
		return nil, "", err
	case src == nil:
		return none, HintNone, nil
	case known == runner.DigestOf(src).String():
		p, err := policy.Parse(filepath.Join(from, workspaceFile), src)
		return p, "", err
	case known == "":
		return none, hintNew, nil
	}
	return none, hintDiff, nil
}

// Missing returns why no policy of a workspace holds, so that everything is denied; "": one holds.
func (s *Policies) Missing(workspace string) string {
	_, hint, err := s.Root("", workspace)
	if err != nil {
		return fault.Message(err)
	}
	return string(hint)
}

// Project returns the nearest folder, from dir upwards, whose remit.yaml was trusted, or that has the policy of its
// repository's main worktree; without one, dir. The authority comes from the trust, not from the caller that names dir.
func (s *Policies) Project(dir string) (string, error) {
	list, err := s.trusted().List()
	if err != nil {
		return "", err
	}
	for _, decides := range []func(at string) bool{
		func(at string) bool { _, ok := home.Entry(list, filepath.Join(at, workspaceFile)); return ok },
		func(at string) bool { return holder(list, at) != at },
	} {
		for at, last := dir, ""; at != last; at, last = filepath.Dir(at), at {
			if decides(at) {
				return at, nil
			}
		}
	}
	return dir, nil
}

// Read reads a policy file.
func Read(file string) (*policy.Policy, error) {
	src, err := wholefile.Read(file, MaxPolicySize)
	if err != nil {
		return nil, fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file}).
			WithHint("%s", home.NearFile(file, "name an existing policy file"))
	}
	return policy.Parse(file, src)
}

// trust is the trust in one workspace policy.
type trust struct {
	file   string // absolute
	digest string // of the file, when it was trusted
}

// Key is the file.
func (t trust) Key() string { return t.file }

// trusted are the trusted workspace policies: a map of files to digests.
func (s *Policies) trusted() home.Collection[trust] {
	return home.Collection[trust]{
		Home: s.Home, File: "trusted.json", One: "trusted policy", Again: "trust your policies", Command: "remit policy", Damaged: fault.PolicyInvalid,
		Digest: func(t trust) string { return t.digest },
		Decode: func(src []byte) (list []trust, err error) {
			var files map[string]string
			err = json.Unmarshal(src, &files)
			for file, digest := range files {
				list = append(list, trust{file, digest})
			}
			return list, err
		},
		Encode: func(list []trust) any {
			files := map[string]string{}
			for _, t := range list {
				files[t.file] = t.digest
			}
			return files
		},
	}
}

// Trust remembers the workspace's remit.yaml as it is now. It returns the policy and
// its digest, for the person to see. A file of another digest than the reviewed one is
// refused; "" accepts any.
func (s *Policies) Trust(workspace, reviewed string) (*policy.Policy, string, error) {
	ws := filepath.Join(workspace, workspaceFile)
	src, err := wholefile.ReadRegular(ws, MaxPolicySize)
	if err != nil {
		return nil, "", fault.Wrap(fault.PolicyMissing, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: ws}).
			WithHint("write the policy first; remit policy schema helps an editor")
	}
	p, err := policy.Parse(ws, src)
	if err != nil {
		return nil, "", err
	}
	if _, _, err := s.Grant([]*policy.Policy{p}, workspace); err != nil {
		return nil, "", err // it could never be used
	}
	digest := runner.DigestOf(src).String()
	if reviewed != "" && !sameDigest(reviewed, digest) {
		return nil, "", fault.New(fault.Conflict, "the policy has the digest %s, not the reviewed %.80q", digest, reviewed).At(fault.Pos{File: ws}).
			WithHint("read the file as it is now; remit policy check prints its digest")
	}
	err = s.trusted().Change("trust", ws, func(list []trust) ([]trust, error) { return home.With(list, trust{ws, digest}), nil }, nil)
	return p, digest, err
}

// Create writes source as the remit.yaml of a workspace that has none, and trusts it. Git leaves it alone.
func (s *Policies) Create(workspace, source string) error {
	file := filepath.Join(workspace, workspaceFile)
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return fault.Wrap(fault.Usage, err, "%s cannot be written: %v", file, wholefile.Cause(err))
	}
	defer root.Close()
	fail := func(err error) error {
		return fault.Wrap(fault.Usage, err, "%s cannot be written: %v", file, wholefile.Cause(err))
	}
	const temp = ".remit-new-" + workspaceFile // the file is there whole, or not at all
	if err := root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	f, err := root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fail(err)
	}
	_, err = f.WriteString(source)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = root.Link(temp, workspaceFile) // it replaces no file
	}
	if err = errors.Join(err, root.Remove(temp)); err != nil {
		return fail(err)
	}
	if _, _, err = s.Trust(workspace, runner.DigestOf([]byte(source)).String()); err != nil {
		return err
	}
	return repository.Exclude(workspace, []string{file})
}

// Replace changes a policy file from the content of a digest to another one. If that content
// was trusted as a workspace's policy, the new one is.
func (s *Policies) Replace(file, digest string, text []byte) error {
	st, err := os.Stat(file)
	if err == nil {
		err = wholefile.Replace(file, text)
	}
	if err == nil {
		err = os.Chmod(file, st.Mode().Perm())
	}
	if err != nil {
		return fault.Wrap(fault.PolicyInvalid, err, "the policy cannot be written: %v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	list, err := s.trusted().List()
	if known, ok := home.Entry(list, file); err != nil || !ok || known.digest != digest {
		return err
	}
	now := trust{file, runner.DigestOf(text).String()}
	return s.trusted().Change("trust", file, func(list []trust) ([]trust, error) { return home.With(list, now), nil }, nil)
}

// Own gives the content of the workspace's remit.yaml and whether it is trusted; nil: there
// is none.
func (s *Policies) Own(workspace string) (source []byte, trusted bool, err error) {
	src, known, err := s.workspacePolicy(workspace)
	return src, src != nil && known == runner.DigestOf(src).String(), err
}

// workspacePolicy gives the content of the workspace's remit.yaml, nil if there is none, and the digest
// that was trusted.
func (s *Policies) workspacePolicy(workspace string) (source []byte, trusted string, err error) {
	file := filepath.Join(workspace, workspaceFile)
	src, err := wholefile.ReadRegular(file, MaxPolicySize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	list, err := s.trusted().List()
	known, _ := home.Entry(list, file)
	return src, known.digest, err
}

// sameDigest compares a digest as a person gave it, with or without its prefix.
func sameDigest(given, digest string) bool {
	given = strings.ToLower(given)
	return given == digest || "sha256:"+given == digest
}

// Distrust forgets the workspace's remit.yaml. It reports whether it was trusted.
func (s *Policies) Distrust(workspace string) (bool, error) {
	ws := filepath.Join(workspace, workspaceFile)
	list, err := s.trusted().List()
	if _, known := home.Entry(list, ws); err != nil || !known {
		return false, err
	}
	return true, s.trusted().Change("forget", ws, func(list []trust) ([]trust, error) { return home.Without(list, ws), nil }, nil)
}

// Volatile reports whether a run's record need only survive the end of the
// process: the strictest of what the policies say, or else the setting.
func (s *Policies) Volatile(ps []*policy.Policy) bool {
	said := s.Home.Settings.Durability
	for _, p := range ps {
		switch p.Durability() {
		case "power":
			return false
		case "process":
			said = "process"
		}
	}
	return said == "process"
}

// Grant makes the root grant of a run from its policies, and their recorded form.
func (s *Policies) Grant(ps []*policy.Policy, workspace string) (grant.Grant, []ledger.PolicySource, error) {
	id, err := home.NewID()
	if err != nil {
		return grant.Grant{}, nil, err
	}
	g, err := grant.Root(id, "user:"+s.Home.User, s.Home.Env(workspace), ps...)
	if err != nil {
		return grant.Grant{}, nil, err
	}
	var sources []ledger.PolicySource
	for _, p := range ps {
		sources = append(sources, ledger.PolicySource{Name: p.Name(), File: p.File(), Source: string(p.Source())})
	}
	return g, sources, nil
}
