package grants

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// AdminFile is where the token of a service's operator is kept, below $REMIT_HOME.
const AdminFile = "keys/admin.token"

const (
	adminLife  = 365 * 24 * time.Hour
	adminRenew = 7 * 24 * time.Hour // before its end it is made anew
	adminNote  = "admin of remit serve"
)

// servePolicy is the admin's where no other is chosen: agents can be made, talk and use the things
// that their sessions own; nothing of this machine is open.
const servePolicy = `version: 1
name: remit-serve
api: {allow: ["*"]}
models: {allow: ["*"]}
delegate: {actions: [api, models, tools], to: ["*"], depth: 8}
`

// AdminTerms says how the operator's grant is made.
type AdminTerms struct {
	Policy    string // a file; "": the workspace's if trusted, else a built-in policy
	Workspace string // absolute
	NewToken  bool   // the token is made anew, and the old one revoked
}

// AdminGrant is the operator's grant of a service.
type AdminGrant struct {
	Token   string // if it is new: it is shown once; "": the one in File
	File    string // where it is kept
	Until   time.Time
	Holder  string
	Policy  *policy.Policy
	Why     string // where the policy comes from
	Hint    policies.Hint
	Replace bool // an older token was revoked
	Older   bool // the token was made under another policy, which still bounds it
}

// Admin gives the operator's grant: the one that is kept, if it can still be used,
// or a new one. A grant made under another policy stays, and the chosen policy bounds
// it too, and all grants that derive from it.
func (s *Grants) Admin(ctx context.Context, q AdminTerms) (AdminGrant, error) {
	out := AdminGrant{File: filepath.Join(s.home.Dir, AdminFile)}
	p, hint, why, err := s.adminPolicy(q)
	if err != nil {
		return out, err
	}
	out.Policy, out.Why, out.Hint = p, why, hint
	s.serving.Store(p)
	err = s.home.Locked("admin.lock", func() error { return s.keepAdmin(ctx, q, p, &out) })
	return out, err
}

// keepAdmin fills in the token that is kept, or keeps a new one.
func (s *Grants) keepAdmin(ctx context.Context, q AdminTerms, p *policy.Policy, out *AdminGrant) error {
	old, err := s.keptAdmin(ctx, q, out.File)
	if err != nil {
		return err
	}
	if old.Text != "" && !q.NewToken && lasting(old) {
		out.Until, out.Holder, out.Older = old.Claims.Expires(), old.Claims.Holder(), !underPolicy(old, p)
		return nil
	}
	if old.Text != "" && q.NewToken {
		if _, err := s.SetStanding(ctx, old.Claims.Leaf().String(), store.Revoked, "a new token of the admin takes its place"); err != nil {
			return err
		}
		out.Replace = true
	}
	made, err := s.Issue(ctx, Terms{Workspace: q.Workspace, Holder: home.Person(), Expires: adminLife, Note: adminNote, Parsed: []*policy.Policy{p}})
	if err != nil {
		return err
	}
	if err := s.home.WriteFile(AdminFile, []byte(made.Text+"\n")); err != nil {
		return err
	}
	out.Token, out.Until, out.Holder = made.Text, made.Claims.Expires(), made.Claims.Holder()
	return nil
}

// lasting reports whether a token of the admin's need not be made anew. One that expires
// soon is left to expire.
func lasting(t Token) bool {
	return t.Claims.Holder() == home.Person() && time.Until(t.Claims.Expires()) > adminRenew
}

// underPolicy reports whether a token was made under this policy alone.
func underPolicy(t Token, p *policy.Policy) bool {
	all, err := t.Claims.Policies()
	return err == nil && len(all) == 1 && len(all[0]) == 1 && all[0][0].Digest() == p.Digest()
}

// BoundToday gives the policies that bound a grant besides its own chain: of grants
// that derive from the admin's or a person's, the one that remit serve began with; and of
// a person's, that of the role that the person has now. A person without a role is an error.
func (s *Grants) BoundToday(ctx context.Context, g grant.Grant) ([]*policy.Policy, error) {
	chain, serving := g.Chain(), s.serving.Load()
	if !IsPerson(g.Nodes()[0].Holder) && (serving == nil || len(chain) > 0 && chain[0].Policy().Digest() == serving.Digest()) {
		return nil, nil // none does, or it bounds the grant already
	}
	_, st, err := s.Open(ctx)
	if err != nil {
		return nil, err
	}
	root, err := st.Grant(ctx, g.Nodes()[0].ID.String())
	if err != nil {
		return nil, err
	}
	var out []*policy.Policy
	if serving != nil && (root.Note == adminNote || root.Person != nil) {
		out = append(out, serving)
	}
	if root.Person != nil {
		role, err := s.roleOf(root.Person)
		if err != nil {
			return nil, err
		}
		out = append(out, role)
	}
	return slices.DeleteFunc(out, func(p *policy.Policy) bool { return bounds(chain, p) }), nil
}

// IsPerson reports whether a holder's name is one of the form that [Grants.Issue] is given for
// people whom identity providers know, user:ISSUER:SUBJECT. Accounts of this machine have no
// colon in their names.
func IsPerson(holder string) bool {
	name, ok := strings.CutPrefix(holder, "user:")
	return ok && strings.Contains(name, ":")
}

// bounds reports whether a policy is in a chain already.
func bounds(c policy.Chain, p *policy.Policy) bool {
	return slices.ContainsFunc(c, func(r *policy.Rules) bool { return r.Policy().Digest() == p.Digest() })
}

// NoRoles is the error for people of identity providers where no settings give them roles.
func NoRoles() error {
	return fault.New(fault.Denied, "no role is given to people of identity providers here")
}

func (s *Grants) roleOf(p *ledger.Person) (*policy.Policy, error) {
	if s.Roles == nil {
		return nil, NoRoles()
	}
	return s.Roles(p)
}

// Serving is the policy that remit serve began with; nil: it serves nothing.
func (s *Grants) Serving() *policy.Policy { return s.serving.Load() }

// keptAdmin reads the token that is kept; the zero Token where there is none that can
// be used. One that others can read is not used again.
func (s *Grants) keptAdmin(ctx context.Context, q AdminTerms, file string) (Token, error) {
	st, err := os.Lstat(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Token{}, nil
	}
	if err != nil {
		return Token{}, fault.Wrap(fault.StoreReadOnly, err, "the admin's token cannot be read: %v", wholefile.Cause(err)).At(fault.Pos{File: file})
	}
	text, err := ReadToken("@" + file)
	if err != nil || !st.Mode().IsRegular() {
		return Token{}, fault.Wrap(fault.GrantInvalid, err, "the admin's token cannot be read").At(fault.Pos{File: file}).WithHint("remove the file: a new one is made")
	}
	c, err := s.Authentic(text)
	if err != nil {
		return Token{}, nil //nolint:nilerr // not one of this ledger, or of a key that is gone
	}
	kept := Token{Text: text, Claims: c.Content()}
	if st.Mode().Perm()&0o077 != 0 { // somebody else may have it
		_, err := s.SetStanding(ctx, c.Leaf().String(), store.Revoked, "others could read the admin's token")
		return Token{}, err
	}
	auth, _, err := s.Open(ctx)
	if err != nil {
		return Token{}, err
	}
	if _, err := auth.Restore(ctx, c, s.home.Env(q.Workspace)); err != nil {
		if code := fault.CodeOf(err); code.OfGrant() || code == fault.GrantUnknown {
			return Token{}, nil // revoked, paused, expired: a new one is made
		}
		return Token{}, err
	}
	return kept, nil
}

// adminPolicy chooses the policy of the admin's grant. A policy without an api section bounds calls
// but not the operator's requests to the service: it is given the section.
func (s *Grants) adminPolicy(q AdminTerms) (p *policy.Policy, hint policies.Hint, why string, err error) {
	p, hint, err = s.policies.Root(q.Policy, q.Workspace)
	if err != nil {
		return nil, "", "", err
	}
	switch {
	case hint != "":
		if hint == policies.HintNone {
			hint = ""
		}
		p, err = policy.Parse("(built in)", []byte(servePolicy))
		return p, hint, "built in: no policy was named", err
	case p.Inherits():
		return nil, "", "", fault.New(fault.PolicyInvalid, "a root policy must not have rest: inherit").At(fault.Pos{File: p.File()})
	case p.Mentions("api"):
		return p, "", p.File(), nil
	}
	with, err := withAPI(p)
	return with, "", p.File() + ", and all of the API, of which it says nothing", err
}

const allAPI = "api: {allow: [\"*\"]}\n"

// withAPI adds the section to a policy's text, where its other lines stay where they
// are if they can.
func withAPI(p *policy.Policy) (*policy.Policy, error) {
	for _, text := range []string{strings.TrimRight(string(p.Source()), "\n") + "\n" + allAPI, string(p.Print()) + allAPI} {
		if with, err := policy.Parse(p.File(), []byte(text)); err == nil && with.Mentions("api") && len(with.Entries()) == len(p.Entries())+1 {
			return with, nil
		}
	}
	return nil, fault.New(fault.PolicyInvalid, "the policy says nothing of the API, and nothing could be added to it").At(fault.Pos{File: p.File()}).
		WithHint("add to it: %s", strings.TrimSpace(allAPI))
}
