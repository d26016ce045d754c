// Package grants issues, narrows, delegates, verifies and revokes grants, and keeps the keys that
// sign them. Start at [Grants.Issue]; a run's authority comes from [Grants.Under].
package grants

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// Tools finds the tools that a grant pins.
type Tools interface {
	Lookup(id tool.ID) (runner.Entry, error)
}

// Grants are the grants of one ledger; New makes one. It must be closed.
type Grants struct {
	// Tools are the tools that can be pinned; set before grants are issued.
	Tools Tools
	// Roles gives the policy of a person's present role, which bounds the person's grants
	// besides their own policies. Without a role it is an error. Set before grants are used;
	// nil: all grants of an identity provider's people are refused.
	Roles func(p *ledger.Person) (*policy.Policy, error)

	home     *home.Home
	policies *policies.Policies
	serving  atomic.Pointer[policy.Policy] // of remit serve, as the service began; nil: it serves nothing
	verifies atomic.Pointer[verifier]      // nil: not needed yet

	mu   sync.Mutex
	auth *Authority // nil: not needed yet
}

// New makes the grants of a ledger, which is opened when it is first needed.
func New(h *home.Home, p *policies.Policies) *Grants {
	return &Grants{home: h, policies: p}
}

// ReadToken gives the token that text is or, as @FILE, that a file holds.
func ReadToken(text string) (string, error) {
	file, ok := strings.CutPrefix(text, "@")
	if !ok {
		return strings.TrimSpace(text), nil
	}
	b, err := wholefile.Read(filepath.Clean(file), token.MaxSize+1024)
	if err != nil {
		return "", fault.Wrap(fault.GrantInvalid, err, "the file %q with the token cannot be read: %v", file, wholefile.Cause(err)).
			WithHint("name a file that remit grant issue wrote, as @FILE")
	}
	return strings.TrimSpace(string(b)), nil
}

// defaultLife is how long a grant lasts where nothing else is said.
const defaultLife = 24 * time.Hour

// Terms are the terms with which a grant is issued, narrowed or handed on.
type Terms struct {
	Policies  []string // files
	Read      []string // not nil: of files these alone may be read; paths as the workspace has them
	Write     []string // not nil: of files these alone may be written
	Workspace string   // where policies are looked for; absolute
	Bind      bool     // the grant is for that workspace alone
	Holder    string   // "": the person, or who holds it already
	HolderKey string   // base64 of a public key; "": any holder of the token
	Expires   time.Duration
	NotBefore time.Time
	Budgets   grant.Budgets
	Pins      []tool.ID        // with the digests that they have now
	To        []string         // patterns of holders that it may be handed on to; nil: as the policies say
	Sealed    bool             // nothing can be appended
	Note      string           // for people, kept in the ledger
	KeyFile   string           // of the present holder, to hand on a grant that is bound to a key
	Parsed    []*policy.Policy // besides Policies
	Person    *ledger.Person   // of a root grant: the holder, named by an identity provider; nil: the operator's word
}

// Token is a grant as text, and its contents.
type Token struct {
	Text   string
	Claims *token.Content
	Moot   []string // added terms that narrow nothing, in words
}

// Issue makes a root grant of policies, of the workspace's where none is named, and
// records it.
func (s *Grants) Issue(ctx context.Context, t Terms) (Token, error) {
	ps, err := s.grantPolicies(t)
	if err != nil {
		return Token{}, err
	}
	b, err := s.block(t, ps)
	if err != nil {
		return Token{}, err
	}
	if b.Holder == "" {
		b.Holder = "user:" + s.home.User
	}
	if b.Expires.IsZero() {
		b.Expires = b.Issued.Add(defaultLife)
	}
	auth, _, err := s.Open(ctx)
	if err != nil {
		return Token{}, err
	}
	key, keys, err := s.signingKey()
	if err != nil {
		return Token{}, err
	}
	trust, err := keys.trust()
	if err != nil {
		return Token{}, err
	}
	id, err := home.NewID()
	if err != nil {
		return Token{}, err
	}
	text, err := token.Issue(token.Root{Ledger: trust.Ledger, ID: id, Block: b}, key, rand.Reader)
	if err != nil {
		return Token{}, err
	}
	if t.Sealed {
		if text, err = token.Seal(text); err != nil {
			return Token{}, err
		}
	}
	claims, err := token.Authentic(text, trust, time.Now())
	if err != nil {
		return Token{}, err
	}
	if _, err := claims.Content().Bind(s.home.Env(t.Workspace)); err != nil {
		return Token{}, err // it could never be used
	}
	return Token{Text: text, Claims: claims.Content()}, auth.IssueTo(ctx, claims, t.Note, t.Person)
}

// grantPolicies reads the policies that a root grant is made of: the files that
// are named, or the workspace's, if it is trusted.
func (s *Grants) grantPolicies(t Terms) ([]*policy.Policy, error) {
	if len(t.Policies)+len(t.Parsed) > 0 {
		return t.policies()
	}
	p, hint, err := s.policies.Root("", t.Workspace)
	if err == nil && hint != "" {
		err = fault.New(fault.PolicyMissing, "a grant needs a policy").WithHint("name one with -p FILE; %s", hint)
	}
	return []*policy.Policy{p}, err
}

// policies are the terms' own.
func (t Terms) policies() ([]*policy.Policy, error) {
	var out []*policy.Policy
	for _, f := range t.Policies {
		p, err := policies.Read(f)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return append(out, t.Parsed...), nil
}

// block is what terms say.
func (s *Grants) block(t Terms, ps []*policy.Policy) (token.Block, error) {
	if err := t.Budgets.Check(); err != nil {
		return token.Block{}, err
	}
	if t.Read != nil || t.Write != nil {
		p, err := theseFiles(t.Read, t.Write)
		if err != nil {
			return token.Block{}, err
		}
		ps = append(ps, p)
	}
	b := token.Block{
		Holder: t.Holder, Issued: time.Now().UTC().Truncate(time.Millisecond), NotBefore: t.NotBefore, Budgets: t.Budgets, Delegate: t.To,
	}
	for _, p := range ps {
		b.Policies = append(b.Policies, token.PolicyOf(p))
	}
	if t.Expires != 0 {
		b.Expires = b.Issued.Add(t.Expires)
	}
	if t.Bind {
		b.Workspace = t.Workspace
	}
	var err error
	if t.HolderKey != "" {
		if b.HolderKey, err = parsePublicKey(t.HolderKey); err != nil {
			return b, err
		}
	}
	for _, id := range t.Pins {
		e, err := s.Tools.Lookup(id)
		if err != nil {
			return b, err
		}
		if b.Pins == nil {
			b.Pins = map[tool.ID]tool.Digest{}
		}
		b.Pins[id] = e.Digest
	}
	return b, nil
}

// theseFiles is a policy that allows, of all files, only the named ones, and decides nothing else.
func theseFiles(read, write []string) (*policy.Policy, error) {
	list := func(names []string) string {
		out := make([]string, len(names))
		for i, n := range names {
			b, err := json.Marshal(glob.Escape(filepath.ToSlash(filepath.Clean(n))))
			if err != nil {
				return ""
			}
			out[i] = string(b)
		}
		return strings.Join(out, ", ")
	}
	src := fmt.Sprintf("version: 1\nname: these-files\nrest: inherit\nfiles:\n  read: {allow: [%s]}\n  write: {allow: [%s]}\n", list(read), list(write))
	return policy.Parse("these-files.yaml", []byte(src))
}

// Narrow appends to a token what narrows it. It needs no ledger.
func (s *Grants) Narrow(text string, t Terms) (Token, error) {
	ps, err := t.policies()
	if err != nil {
		return Token{}, err
	}
	b, err := s.block(t, ps)
	if err != nil {
		return Token{}, err
	}
	var key ed25519.PrivateKey
	was := text
	if t.KeyFile != "" {
		if key, err = readPrivateKey(t.KeyFile); err != nil {
			return Token{}, err
		}
		text, err = token.HandOn(text, b, key, rand.Reader)
	} else {
		text, err = token.Append(text, b, rand.Reader)
	}
	if err == nil && t.Sealed {
		text, err = token.Seal(text)
	}
	if err != nil {
		return Token{}, err
	}
	before, err := token.Decode(was)
	if err != nil {
		return Token{}, err
	}
	c, err := token.Decode(text)
	if err != nil {
		return Token{}, err
	}
	idle, err := moot(before, c, s.home.Env(t.Workspace))
	return Token{text, c, idle}, err
}

// NarrowKept is NarrowGrant, and records the new grant, so that it can be found and revoked before
// it is ever used.
func (s *Grants) NarrowKept(ctx context.Context, text string, t Terms) (Token, error) {
	next, err := s.Narrow(text, t)
	if err != nil {
		return Token{}, err
	}
	claims, err := s.Authentic(next.Text)
	if err != nil {
		return Token{}, err
	}
	auth, st, err := s.Open(ctx)
	if err != nil {
		return Token{}, err
	}
	if _, err := auth.Keep(ctx, claims, s.home.Env(t.Workspace), t.Note); err != nil {
		if ferr := s.Refused(ctx, st, err); ferr != nil {
			err = JoinErrors(err, ferr)
		}
		return Token{}, err
	}
	return next, nil
}

// Device narrows a person's grant for one of the person's devices, and records it as that.
func (s *Grants) Device(ctx context.Context, text, device string, t Terms) (Token, error) {
	next, err := s.Narrow(text, t)
	if err != nil {
		return Token{}, err
	}
	claims, err := s.Authentic(next.Text)
	if err != nil {
		return Token{}, err
	}
	auth, _, err := s.Open(ctx)
	if err != nil {
		return Token{}, err
	}
	_, err = auth.KeepDevice(ctx, claims, s.home.Env(t.Workspace), device)
	return next, err
}

// Delegate hands a grant on to another holder, as far as the policies let
// its holder, and records that.
func (s *Grants) Delegate(ctx context.Context, p Presented, t Terms) (Token, error) {
	if t.Holder == "" {
		return Token{}, fault.New(fault.Usage, "the new holder of the grant is missing").WithHint("name the holder with --to, as agent:docs")
	}
	auth, st, err := s.Open(ctx)
	if err != nil {
		return Token{}, err
	}
	if _, err := s.present(ctx, st, p, t.Workspace); err != nil {
		return Token{}, err
	}
	t.KeyFile = p.KeyFile
	next, err := s.Narrow(p.Token, t)
	if err != nil {
		return Token{}, err
	}
	claims, err := s.Authentic(next.Text)
	if err != nil {
		return Token{}, err
	}
	if _, err := auth.Delegate(ctx, claims, s.home.Env(t.Workspace), t.Note); err != nil {
		return Token{}, errors.Join(err, s.Refused(ctx, st, err))
	}
	return next, nil
}

// isToken reports whether text looks like a token and not like an ID.
func isToken(text string) bool { return len(text) > 36 }

// SetStanding revokes, pauses or resumes a grant, named by its token, its ID or the
// beginning of that. A whole ID may be one that this ledger has never seen.
func (s *Grants) SetStanding(ctx context.Context, name string, to store.Standing, reason string) (uuid.UUID, error) {
	auth, st, err := s.Open(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.Parse(name)
	switch {
	case err == nil:
	case isToken(name):
		c, err := s.Authentic(name)
		if err != nil {
			return uuid.Nil, err
		}
		id = c.Leaf()
	default:
		g, err := st.Grant(ctx, name)
		if err != nil {
			return uuid.Nil, err
		}
		id = g.ID
	}
	return id, auth.SetStanding(ctx, store.StandingChange{Grant: id, To: to, By: home.Person(), Reason: reason, At: time.Now()})
}

// AcceptRestored accepts all grants from before the last restore of the ledger.
func (s *Grants) AcceptRestored(ctx context.Context, reason string) error {
	auth, _, err := s.Open(ctx)
	if err != nil {
		return err
	}
	return auth.SetStanding(ctx, store.StandingChange{Grant: store.RestoreMark, To: store.Active, By: home.Person(), Reason: reason, At: time.Now()})
}

// LastExpiry is when the last grant expires that was issued so far.
func (s *Grants) LastExpiry(ctx context.Context) (time.Time, error) {
	var last time.Time
	f := store.GrantFilter{Limit: 500}
	for {
		list, err := s.List(ctx, f)
		if err != nil || len(list) == 0 {
			return last, err
		}
		for _, g := range list {
			f.Before = g.Record.Seq
			if g.Record.Expires.After(last) {
				last = g.Record.Expires
			}
		}
	}
}
