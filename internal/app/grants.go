package app

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// GrantLife is how long a grant lasts where nothing else is said.
const GrantLife = 24 * time.Hour

// GrantTerms is what a grant is issued, narrowed or handed on with.
type GrantTerms struct {
	Policies  []string // files
	Read      []string // not nil: of files these alone may be read; paths as the workspace has them
	Write     []string // not nil: of files these alone may be written
	Workspace string   // where policies are looked for; absolute
	Bind      bool     // the grant is for that workspace alone
	Holder    string   // "": the person, or who holds it already
	HolderKey string   // base64 of a public key; "": whoever has the token
	Expires   time.Duration
	NotBefore time.Time
	Budgets   grant.Budgets
	Pins      []tool.ID // with the digests that they have now
	To        []string  // patterns of holders that it may be handed on to; nil: as the policies say
	Sealed    bool      // nothing can be appended
	Note      string    // for people, kept in the ledger
	KeyFile   string    // of who holds it now, to hand on a grant that is bound to a key
	parsed    []*policy.Policy
}

// Token is a grant as text, and what it says.
type Token struct {
	Text   string
	Claims *token.Content
	Moot   []string // what was added and narrows nothing, in words
}

// IssueGrant makes a root grant of policies and records it.
func (a *App) IssueGrant(ctx context.Context, t GrantTerms) (Token, error) {
	ps, err := a.grantPolicies(t)
	if err != nil {
		return Token{}, err
	}
	b, err := a.block(t, ps)
	if err != nil {
		return Token{}, err
	}
	return a.issueBlock(ctx, t, b)
}

// issueBlock makes a root grant of what terms came to.
func (a *App) issueBlock(ctx context.Context, t GrantTerms, b token.Block) (Token, error) {
	if b.Holder == "" {
		b.Holder = "user:" + a.Home.User
	}
	if b.Expires.IsZero() {
		b.Expires = b.Issued.Add(GrantLife)
	}
	auth, _, err := a.granted(ctx)
	if err != nil {
		return Token{}, err
	}
	key, keys, err := a.signingKey()
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
	if _, err := claims.Content().Bind(a.Home.Env(t.Workspace)); err != nil {
		return Token{}, err // it could never be used
	}
	return Token{Text: text, Claims: claims.Content()}, auth.Issue(ctx, claims, t.Note)
}

// grantPolicies reads the policies that a root grant is made of: the files that
// are named, or the workspace's, if it is trusted.
func (a *App) grantPolicies(t GrantTerms) ([]*policy.Policy, error) {
	if len(t.Policies) > 0 {
		return readPolicies(t.Policies)
	}
	p, hint, err := a.Policies.Root("", t.Workspace)
	if err == nil && hint != "" {
		err = fault.New(fault.PolicyMissing, "a grant needs a policy").WithHint("name one with -p FILE; %s", hint)
	}
	return []*policy.Policy{p}, err
}

func readPolicies(files []string) ([]*policy.Policy, error) {
	out := make([]*policy.Policy, len(files))
	for i, f := range files {
		var err error
		if out[i], err = policies.Read(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// block is what terms say.
func (a *App) block(t GrantTerms, ps []*policy.Policy) (token.Block, error) {
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
		if b.HolderKey, err = ParsePublicKey(t.HolderKey); err != nil {
			return b, err
		}
	}
	for _, id := range t.Pins {
		e, err := a.catalog.Lookup(id)
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

// theseFiles is a policy that leaves of all files those that are named, and says
// nothing else.
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

// NarrowGrant appends to a token what narrows it. It needs no ledger.
func (a *App) NarrowGrant(text string, t GrantTerms) (Token, error) {
	ps, err := readPolicies(t.Policies)
	if err != nil {
		return Token{}, err
	}
	b, err := a.block(t, append(ps, t.parsed...))
	if err != nil {
		return Token{}, err
	}
	var key ed25519.PrivateKey
	was := text
	if t.KeyFile != "" {
		if key, err = ReadPrivateKey(t.KeyFile); err != nil {
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
	idle, err := moot(before, c, a.Home.Env(t.Workspace))
	return Token{text, c, idle}, err
}

// DelegateGrant hands a grant on to another holder, as far as the policies let
// its holder, and records that.
func (a *App) DelegateGrant(ctx context.Context, p Presented, t GrantTerms) (Token, error) {
	if t.Holder == "" {
		return Token{}, fault.New(fault.Usage, "to whom the grant is handed on is missing").WithHint("name the holder with --to, as agent:docs")
	}
	if _, err := a.present(ctx, p, t.Workspace); err != nil {
		return Token{}, err
	}
	t.KeyFile = p.KeyFile
	next, err := a.NarrowGrant(p.Token, t)
	if err != nil {
		return Token{}, err
	}
	auth, st, err := a.granted(ctx)
	if err != nil {
		return Token{}, err
	}
	claims, err := a.authentic(next.Text)
	if err != nil {
		return Token{}, err
	}
	if _, err := auth.Delegate(ctx, claims, a.Home.Env(t.Workspace), t.Note); err != nil {
		return Token{}, errors.Join(err, a.forged(ctx, st, err))
	}
	return next, nil
}

// GrantInfo is a grant as people are shown it.
type GrantInfo struct {
	Record   store.GrantRecord
	Standing store.Standing // with its ancestors'
	Of       uuid.UUID      // whose standing that is
	Expired  bool           // it or an ancestor
	Spent    []store.Meter
}

// Grants lists the grants that were issued or handed on here, newest first.
func (a *App) Grants(ctx context.Context, f store.GrantFilter) ([]GrantInfo, error) {
	_, st, err := a.granted(ctx)
	if err != nil {
		return nil, err
	}
	list, err := st.Grants(ctx, f)
	if err != nil {
		return nil, err
	}
	out := make([]GrantInfo, 0, len(list))
	for _, g := range list {
		i, err := info(ctx, st, g)
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

type grantStore interface {
	store.Grants
	store.Budgets
}

// info looks up what counts for a grant now.
func info(ctx context.Context, st grantStore, g store.GrantRecord) (GrantInfo, error) {
	i := GrantInfo{Record: g}
	var err error
	if i.Spent, err = st.Spent(ctx, g.ID); err != nil {
		return i, err
	}
	for up := g; ; {
		if up.Standing > i.Standing {
			i.Standing, i.Of = up.Standing, up.ID
		}
		i.Expired = i.Expired || !up.Expires.IsZero() && !time.Now().Before(up.Expires)
		if up.Parent == uuid.Nil {
			return i, nil
		}
		parent := up.Parent
		if up, err = st.Grant(ctx, parent.String()); errors.Is(err, fault.GrantUnknown) { // a block that nobody handed on
			bad, _, serr := st.Standing(ctx, []uuid.UUID{parent})
			if s := bad[parent]; s > i.Standing {
				i.Standing, i.Of = s, parent
			}
			return i, serr
		}
		if err != nil {
			return i, err
		}
	}
}

// Inspected is what can be told of a token or of a grant's ID.
type Inspected struct {
	Content *token.Content // nil: an ID was given
	Genuine error          // why the token is not one of this ledger; nil: it is, or an ID was given
	Lines   []token.Line
	Info    *GrantInfo // what the ledger has of it; nil: nothing
	Now     error      // why it cannot be used now; nil: it can
}

// InspectGrant tells what a token says, or what the ledger has of an ID.
func (a *App) InspectGrant(ctx context.Context, text string) (Inspected, error) {
	_, st, err := a.granted(ctx)
	if err != nil {
		return Inspected{}, err
	}
	var in Inspected
	id := text
	if IsToken(text) {
		if in.Content, err = token.Decode(text); err != nil {
			return in, err
		}
		in.Lines = token.Describe(in.Content, time.Now())
		id = in.Content.Leaf().String()
		if _, in.Genuine = a.authentic(text); in.Genuine != nil {
			return in, nil //nolint:nilerr // it is told with all the rest
		}
		in.Now = in.Content.At(time.Now())
	}
	g, err := st.Grant(ctx, id)
	if errors.Is(err, fault.GrantUnknown) && in.Content != nil {
		return in, a.unseen(ctx, st, &in)
	}
	if err != nil {
		return in, err
	}
	i, err := info(ctx, st, g)
	in.Info = &i
	if in.Now == nil {
		in.Now = usable(i)
	}
	return in, err
}

// unseen looks at the ancestors of a token whose last blocks the ledger has not
// seen: they were appended offline.
func (a *App) unseen(ctx context.Context, st store.Backend, in *Inspected) error {
	for _, l := range slices.Backward(in.Content.Links()) {
		bad, _, err := st.Standing(ctx, []uuid.UUID{l.Grant})
		if err != nil {
			return err
		}
		if s := bad[l.Grant]; s != store.Active && in.Now == nil {
			in.Now = usable(GrantInfo{Standing: s, Of: l.Grant})
		}
		g, err := st.Grant(ctx, l.Grant.String())
		if errors.Is(err, fault.GrantUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		i, err := info(ctx, st, g)
		in.Info = &i
		if in.Now == nil {
			in.Now = usable(i)
		}
		return err
	}
	in.Now = fault.New(fault.GrantUnknown, "the ledger has no record of it")
	return nil
}

func usable(i GrantInfo) error {
	switch {
	case i.Standing == store.Revoked:
		return fault.New(fault.GrantRevoked, "%s was revoked", i.Of)
	case i.Standing == store.Paused:
		return fault.New(fault.GrantPaused, "%s is paused", i.Of).WithHint("remit grant resume %s", grant.Short(i.Of))
	case i.Expired:
		return fault.New(fault.GrantExpired, "its time is over")
	}
	return nil
}

// IsToken reports whether text looks like a token and not like an ID.
func IsToken(text string) bool { return len(text) > 36 }

// SetGrant revokes, pauses or resumes a grant, named by its token, its ID or the
// beginning of that. A whole ID may be one that this ledger has never seen.
func (a *App) SetGrant(ctx context.Context, name string, to store.Standing, reason string) (uuid.UUID, error) {
	auth, st, err := a.granted(ctx)
	if err != nil {
		return uuid.Nil, err
	}
	id, err := uuid.Parse(name)
	switch {
	case err == nil:
	case IsToken(name):
		c, err := a.authentic(name)
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

// RotateUntil is when the last grant expires that was issued so far.
func (a *App) RotateUntil(ctx context.Context) (time.Time, error) {
	var last time.Time
	f := store.GrantFilter{Limit: 500}
	for {
		list, err := a.Grants(ctx, f)
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
