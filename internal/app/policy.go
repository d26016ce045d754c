package app

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
)

// Hint tells what a person should know about the policy that was chosen.
type Hint string

const (
	hintNone Hint = "no policy: everything is denied (give one with -p FILE, or write remit.yaml in the workspace and trust it with: remit policy trust)"
	hintNew  Hint = "the workspace's remit.yaml is not trusted, so everything is denied (read it, then: remit policy trust)"
	hintDiff Hint = "the workspace's remit.yaml changed since it was trusted, so everything is denied (read it, then: remit policy trust)"
)

const (
	workspaceFile = "remit.yaml"
	trustFile     = "trusted.json"
	maxPolicySize = 1 << 20
)

// nothing is the policy where there is none. It says so of the tools, too: what
// needs no resource, as time.now, would else be allowed.
const nothing = "version: 1\nname: none\ntools: {allow: []}\n"

// Policies chooses the chain for a run: file if given, else the workspace's
// trusted remit.yaml, else one that denies everything; and the person's own
// outer bound wherever it exists.
func (a *App) Policies(file, workspace string) ([]*policy.Policy, Hint, error) {
	root, hint, err := a.rootPolicy(file, workspace)
	if err != nil {
		return nil, "", err
	}
	chain, err := a.bounded(root)
	return chain, hint, err
}

// bounded adds the person's own outer bound to a root policy.
func (a *App) bounded(root *policy.Policy) ([]*policy.Policy, error) {
	outer, err := a.outer()
	if err != nil {
		return nil, err
	}
	if outer == nil {
		return []*policy.Policy{root}, nil
	}
	return []*policy.Policy{root, outer}, nil
}

// outer is the person's own outer bound, or nil if there is none.
func (a *App) outer() (*policy.Policy, error) {
	file := filepath.Join(a.Home.Dir, "policy.yaml")
	src, err := wholefile.Read(file, maxPolicySize)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // said above
	case err != nil:
		return nil, fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	return policy.Parse(file, src)
}

func (a *App) rootPolicy(file, workspace string) (*policy.Policy, Hint, error) {
	if file != "" {
		p, err := ReadPolicy(file)
		return p, "", err
	}
	none, err := policy.Parse("(no policy)", []byte(nothing))
	if err != nil {
		return nil, "", err
	}
	ws := filepath.Join(workspace, workspaceFile)
	src, err := wholefile.ReadRegular(ws, maxPolicySize)
	if errors.Is(err, fs.ErrNotExist) {
		return none, hintNone, nil
	}
	if err != nil {
		return nil, "", fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: ws})
	}
	trusted, err := a.trusted()
	if err != nil {
		return nil, "", err
	}
	switch trusted[ws] {
	case runner.DigestOf(src).String():
		p, err := policy.Parse(ws, src)
		return p, "", err
	case "":
		return none, hintNew, nil
	}
	return none, hintDiff, nil
}

// ReadPolicy reads a policy file.
func ReadPolicy(file string) (*policy.Policy, error) {
	src, err := wholefile.Read(file, maxPolicySize)
	if err != nil {
		return nil, fault.Wrap(fault.PolicyInvalid, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: file}).
			WithHint("name a policy file with -p")
	}
	return policy.Parse(file, src)
}

// trusted maps the absolute paths of trusted workspace policies to digests.
func (a *App) trusted() (map[string]string, error) {
	m := map[string]string{}
	if err := a.Home.Read(trustFile, &m); err != nil {
		return nil, fault.Wrap(fault.PolicyInvalid, err, "the list of trusted policies cannot be read: %v", err).
			At(fault.Pos{File: filepath.Join(a.Home.Dir, trustFile)}).WithHint("remove it, and trust your policies again")
	}
	return m, nil
}

// setTrusted trusts a workspace policy of this digest, or none with "", and returns
// the digest trusted before.
func (a *App) setTrusted(file, digest string) (was string, err error) {
	err = a.Home.Locked("trusted.lock", func() error {
		m, err := a.trusted()
		if err != nil {
			return err
		}
		was = m[file]
		action := "policy.trust"
		if m[file] = digest; digest == "" {
			action = "policy.forget"
			delete(m, file)
		}
		if digest == was && was == "" { // there is nothing to forget
			return nil
		}
		return a.Home.Recorded(action, ledger.OperatorAction{Target: file, Digest: digest, Was: was}, func() error { return a.Home.Write(trustFile, m) })
	})
	return was, err
}

// Trust remembers the workspace's remit.yaml as it is now. It returns the policy and
// its digest, for the person to see. A file of another digest than the reviewed one is
// refused; "" accepts any.
func (a *App) Trust(workspace, reviewed string) (*policy.Policy, string, error) {
	ws := filepath.Join(workspace, workspaceFile)
	src, err := wholefile.ReadRegular(ws, maxPolicySize)
	if err != nil {
		return nil, "", fault.Wrap(fault.PolicyMissing, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: ws}).
			WithHint("write the policy first; remit policy schema helps an editor")
	}
	p, err := policy.Parse(ws, src)
	if err != nil {
		return nil, "", err
	}
	if _, _, err := a.grant([]*policy.Policy{p}, workspace); err != nil {
		return nil, "", err // it could never be used
	}
	digest := runner.DigestOf(src).String()
	if reviewed != "" && !sameDigest(reviewed, digest) {
		return nil, "", fault.New(fault.Conflict, "the policy has the digest %s, not the reviewed %.80q", digest, reviewed).At(fault.Pos{File: ws}).
			WithHint("read the file as it is now; remit policy check prints its digest")
	}
	_, err = a.setTrusted(ws, digest)
	return p, digest, err
}

// sameDigest compares a digest as a person gave it, with or without its prefix.
func sameDigest(given, digest string) bool {
	given = strings.ToLower(given)
	return given == digest || "sha256:"+given == digest
}

// Distrust forgets the workspace's remit.yaml. It reports whether it was trusted.
func (a *App) Distrust(workspace string) (bool, error) {
	was, err := a.setTrusted(filepath.Join(workspace, workspaceFile), "")
	return was != "", err
}

// volatile reports whether a run's record need only survive the end of the
// process: the strictest of what the policies say, or else the setting.
func (a *App) volatile(ps []*policy.Policy) bool {
	said := a.Home.Settings.Durability
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

// grant makes the root grant of a run from its policies, and their recorded form.
func (a *App) grant(ps []*policy.Policy, workspace string) (grant.Grant, []ledger.PolicySource, error) {
	id, err := home.NewID()
	if err != nil {
		return grant.Grant{}, nil, err
	}
	g, err := grant.Root(id, "user:"+a.Home.User, a.Home.Env(workspace), ps...)
	if err != nil {
		return grant.Grant{}, nil, err
	}
	var sources []ledger.PolicySource
	for _, p := range ps {
		sources = append(sources, ledger.PolicySource{Name: p.Name(), File: p.File(), Source: string(p.Source())})
	}
	return g, sources, nil
}
