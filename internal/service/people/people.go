// Package people knows the people who use a service, by what their identity providers
// (OpenID Connect) say of them. A verified token's claims give a person a role, and the role a
// grant of its own: the service's policy, narrowed by the role's. Start at [People.Exchange].
//
// A person's abilities are looked up at each use: the claims that the role came from are kept with
// the grant, and are judged again by the present settings.
package people

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/settings"
)

const (
	maxEvidence = 16 << 10 // bytes of the claims that roles depend on
	maxName     = 100      // bytes of a person's name
	maxSubject  = 255      // bytes, as OpenID Connect bounds it
	maxAdmitted = 10_000   // people whose grants are kept in memory
)

// People are those whom the settings give roles. It is safe for concurrent use.
type People struct {
	Now func() time.Time // nil: time.Now

	workspace string // that the grants' policies are checked with; absolute
	redirect  string // where issuers send browsers back to; "": the service has no lasting address

	home    *home.Home
	grants  *grants.Grants
	secret  func(name string) (string, bool)
	issuers []*issuer

	mu       sync.Mutex
	admitted map[string]admitted // by holder
}

// admitted is a grant that was issued to a person by this process.
type admitted struct {
	id    uuid.UUID
	under [sha256.Size]byte // role, claims and policies that it was issued for
	token string
	until time.Time
}

// New makes the people of a home's settings. Secret finds a stored secret.
func New(h *home.Home, gs *grants.Grants, secret func(name string) (string, bool)) *People {
	p := &People{home: h, grants: gs, secret: secret, admitted: map[string]admitted{}}
	for _, conf := range h.Settings.People.Issuers {
		p.issuers = append(p.issuers, newIssuer(conf, p.now))
	}
	return p
}

func (p *People) now() time.Time {
	if p.Now != nil {
		return p.Now()
	}
	return time.Now()
}

// claimed holds the claims of a verified token about a person.
type claimed struct {
	issuer  settings.Issuer
	subject string
	claims  map[string]any
	issued  time.Time
	expires time.Time
}

// holder is a person's name in grants and records, as "user:company:248289761001". A subject with
// characters that identifiers do not have is escaped; a long one ends in its hash.
func (c claimed) holder() string {
	var b strings.Builder
	for _, x := range []byte(c.subject) {
		if x >= 'a' && x <= 'z' || x >= 'A' && x <= 'Z' || x >= '0' && x <= '9' || strings.IndexByte("-._@", x) >= 0 {
			b.WriteByte(x)
		} else {
			fmt.Fprintf(&b, "%%%02X", x)
		}
	}
	name := b.String()
	if len(name) > 60 {
		sum := sha256.Sum256([]byte(c.subject))
		name = name[:40] + "~" + hex.EncodeToString(sum[:8])
	}
	return "user:" + c.issuer.Name + ":" + name
}

// person is a person as the ledger keeps it, with the role that the claims give.
func (p *People) person(c claimed) (*ledger.Person, settings.Role, error) {
	out := &ledger.Person{Issuer: c.issuer.URL, Subject: c.subject, Claims: map[string]any{}, Said: c.issued.UTC()}
	if name, ok := c.claims[c.issuer.Display].(string); ok {
		out.Name = clip.Text(strings.TrimSpace(redact.Show(name)), maxName)
	}
	for _, b := range p.home.Settings.People.Bindings {
		if b.Issuer != c.issuer.Name {
			continue
		}
		for _, one := range b.Claims {
			out.Claims[one.Name] = claimOf(c.claims, one.Name)
			if flag := verifiedBy(one.Name); flag != "" {
				out.Claims[flag] = claimOf(c.claims, flag)
			}
		}
	}
	b, err := json.Marshal(out.Claims)
	if err != nil {
		return nil, settings.Role{}, fault.Wrap(fault.Internal, err, "claims cannot be encoded")
	}
	if len(b) > maxEvidence {
		return nil, settings.Role{}, fault.New(fault.GrantTooLarge, "the claims that roles depend on have more than %d bytes", maxEvidence).
			WithHint("have the issuer put fewer groups into the token")
	}
	role, err := p.Role(out)
	out.Role = role.Name
	return out, role, err
}

// Role is the role that a person has now: that of the first binding whose claims all hold. A person
// without one is fault.Denied; a person with too few known claims must sign in again.
func (p *People) Role(who *ledger.Person) (settings.Role, error) {
	s := p.home.Settings.People
	at := slices.IndexFunc(s.Issuers, func(i settings.Issuer) bool { return i.URL == who.Issuer })
	if at < 0 {
		return settings.Role{}, fault.New(fault.GrantInvalid, "the issuer %q is not one of this service", clip.Text(who.Issuer, 200))
	}
	for _, b := range s.Bindings {
		if b.Issuer != s.Issuers[at].Name {
			continue
		}
		holds, err := satisfied(b, who.Claims)
		if err != nil {
			return settings.Role{}, err
		}
		if holds {
			i := slices.IndexFunc(s.Roles, func(r settings.Role) bool { return r.Name == b.Role })
			if i < 0 {
				return settings.Role{}, fault.New(fault.Internal, "the role %q is gone", b.Role)
			}
			return s.Roles[i], nil
		}
	}
	return settings.Role{}, fault.New(fault.Denied, "the issuer's claims about this person give no role here").
		ForOperator("people.bindings in config.yaml says which claims give which role")
}

// satisfied reports whether all claims of a binding hold.
func satisfied(b settings.Binding, have map[string]any) (bool, error) {
	for _, c := range b.Claims {
		value, known := have[c.Name]
		if !known {
			return false, fault.New(fault.GrantInvalid, "the roles depend on further claims since this person signed in").WithHint("sign in again")
		}
		if flag := verifiedBy(c.Name); flag != "" && have[flag] != true {
			return false, nil // anybody can write any address
		}
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		if !slices.ContainsFunc(list, func(v any) bool { return scalar(v) && slices.Contains(c.Values, v) }) {
			return false, nil
		}
	}
	return true, nil
}

// verifiedBy names the claim that says whether an address was verified, for a claim with one: it
// is beside it, also where the address is named by a JSON pointer. Other claims have "".
func verifiedBy(name string) string {
	if name == "email" || strings.HasPrefix(name, "/") && strings.HasSuffix(name, "/email") {
		return name + "_verified"
	}
	return ""
}

// scalar reports whether a value can be compared with those of a binding.
func scalar(v any) bool {
	switch v.(type) {
	case string, bool:
		return true
	}
	return false
}

// claimOf is a claim by its name, or by a JSON pointer (RFC 6901); nil: there is none.
func claimOf(claims map[string]any, name string) any {
	if !strings.HasPrefix(name, "/") {
		return claims[name]
	}
	var at any = claims
	for part := range strings.SplitSeq(name[1:], "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
	}
	return at
}

// Policy is what bounds the people of a role.
func (p *People) Policy(role settings.Role) (*policy.Policy, error) {
	file := role.Policy
	if !filepath.IsAbs(file) {
		file = filepath.Join(p.home.Dir, file)
	}
	return policies.Read(file)
}

// Serve prepares a service for a workspace. The policies of all roles must be readable. The
// web UI's address is "" if it is another one at each start: no issuer could know it.
func (p *People) Serve(workspace, ui string) error {
	if p.workspace = workspace; ui != "" {
		p.redirect = ui + CallbackPath
	}
	for _, role := range p.home.Settings.People.Roles {
		if _, err := p.Policy(role); err != nil {
			return err
		}
	}
	return nil
}

// Bound implements [grants.Grants.Roles].
func (p *People) Bound(who *ledger.Person) (*policy.Policy, error) {
	role, err := p.Role(who)
	if err != nil {
		return nil, err
	}
	return p.Policy(role)
}

// Exchanged is what counts in the place of a token of an issuer.
type Exchanged struct {
	Token string    // of the person's grant
	Until time.Time // from when on the issuer's token does not count
	Key   string    // thumbprint of the key that the issuer's token is bound to; "": to none
}

// Exchange verifies a token of an issuer that an API client presents, and gives the token of
// the person's grant in its place.
func (p *People) Exchange(ctx context.Context, text string) (Exchanged, error) {
	c, err := p.verify(ctx, text, func(i settings.Issuer) []string { return i.Audiences })
	if err != nil {
		return Exchanged{}, err
	}
	out := Exchanged{Until: c.expires.Add(skew)}
	if out.Key, err = confirmation(c.claims); err != nil {
		return Exchanged{}, err
	}
	out.Token, err = p.admit(ctx, c)
	return out, err
}

// confirmation gives the thumbprint of the key that a token is bound to (RFC 9449, section 6).
// A token that is bound in another way, such as to a certificate, cannot be checked here.
func confirmation(claims map[string]any) (string, error) {
	cnf, bound := claims["cnf"]
	if !bound {
		return "", nil
	}
	how, _ := cnf.(map[string]any)
	if key, ok := how["jkt"].(string); ok && len(how) == 1 && key != "" {
		return key, nil
	}
	return "", fault.New(fault.GrantHolder, "the token is bound to its holder in a way that is not supported here").
		WithHint("have the issuer bind it by DPoP alone (cnf.jkt), or not at all")
}

// admit gives the token of the grant of a person: the one of before, while nothing changed. A
// person whose role changed loses the grants issued under the former role.
func (p *People) admit(ctx context.Context, c claimed) (string, error) {
	who, role, err := p.person(c)
	if err != nil && fault.CodeOf(err) != fault.Denied {
		return "", err
	}
	if rerr := p.current(ctx, c, who, role); rerr != nil || err != nil {
		return "", cmp.Or(err, rerr)
	}
	bound, err := p.Policy(role)
	if err != nil {
		return "", err
	}
	serving := p.grants.Serving()
	if serving == nil {
		return "", fault.New(fault.Internal, "only a service admits people")
	}
	evidence, err := json.Marshal(who.Claims)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "claims cannot be encoded")
	}
	a, b := serving.Digest(), bound.Digest()
	under := sha256.Sum256(bytes.Join([][]byte{[]byte(role.Name), evidence, a[:], b[:]}, []byte{0}))
	p.mu.Lock()
	defer p.mu.Unlock()
	now, holder := p.now(), c.holder()
	if have, ok := p.admitted[holder]; ok && have.under == under && now.Before(have.until) {
		if stopped, err := p.stopped(ctx, have.id); err != nil || !stopped {
			return have.token, err
		}
	}
	note := clip.Text(fmt.Sprintf("%s of %s, role %s", cmp.Or(who.Name, redact.Show(who.Subject)), who.Issuer, role.Name), 400)
	made, err := p.grants.Issue(ctx, grants.Terms{Workspace: p.workspace, Holder: holder, Expires: role.Lasts, Note: note, Parsed: []*policy.Policy{serving, bound}, Person: who})
	if err != nil {
		return "", err
	}
	if err := p.current(ctx, c, who, role); err != nil { // another process may have seen a newer token meanwhile
		return "", cmp.Or(p.end(ctx, who, []uuid.UUID{made.Claims.Leaf()}, "a newer token of the person gives another role"), err)
	}
	if len(p.admitted) >= maxAdmitted {
		clear(p.admitted) // the next request of each issues another grant
	}
	p.admitted[holder] = admitted{made.Claims.Leaf(), under, made.Text, made.Claims.Expires().Add(-time.Minute)}
	return made.Text, nil
}

// current refuses a token that the operator or a newer token has made void. Grants of the person
// under another role than that of the newest token are revoked.
func (p *People) current(ctx context.Context, c claimed, who *ledger.Person, role settings.Role) error {
	revoked, err := p.revoked(ctx, c)
	if err != nil {
		return err
	}
	torn, err := p.advance(ctx, who, role, revoked)
	if torn {
		return cmp.Or(p.retire(ctx, c, who, ""), err)
	}
	if err != nil {
		return err
	}
	return p.retire(ctx, c, who, role.Name)
}

// revoked gives when grants of a person were revoked. A person whose last grant is paused is
// refused, also after its end.
func (p *People) revoked(ctx context.Context, c claimed) (at []time.Time, err error) {
	first := true
	err = p.roots(ctx, c, func(g store.GrantRecord) (more bool, err error) {
		switch {
		case g.Standing == store.Revoked:
			at = append(at, g.Since)
		case g.Standing == store.Paused && first:
			return false, fault.New(fault.GrantPaused, "the grant of this person is paused").ForOperator("remit grant resume %s", g.ID)
		}
		first = false
		return true, nil
	})
	return at, err
}

// stopped reports whether a grant is revoked.
func (p *People) stopped(ctx context.Context, id uuid.UUID) (bool, error) {
	_, st, err := p.grants.Open(ctx)
	if err != nil {
		return true, err
	}
	g, err := st.Grant(ctx, id.String())
	return g.Standing == store.Revoked, err
}

// retire revokes the grants that a person has under other roles by tokens that are not newer.
func (p *People) retire(ctx context.Context, c claimed, who *ledger.Person, role string) error {
	var void []uuid.UUID
	var was string
	err := p.roots(ctx, c, func(g store.GrantRecord) (more bool, err error) {
		if g.Standing != store.Revoked && g.Person.Role != role && !g.Person.Said.After(c.issued) && p.now().Before(g.Expires) {
			void, was = append(void, g.ID), g.Person.Role
		}
		return true, nil
	})
	if err != nil || len(void) == 0 {
		return err
	}
	return p.end(ctx, who, void, "the issuer no longer says what gave the role "+was)
}

// end revokes grants that a newer token has made void. The time is remembered: when the operator
// revokes a grant, all tokens from before are void.
func (p *People) end(ctx context.Context, who *ledger.Person, ids []uuid.UUID, why string) error {
	auth, _, err := p.grants.Open(ctx)
	if err != nil {
		return err
	}
	at := p.now().UTC().Truncate(time.Microsecond)
	err = p.remember(ctx, who, func(n *newest) error {
		n.Retired = append(n.Retired, at)
		n.Retired = n.Retired[max(0, len(n.Retired)-maxRetired):]
		return nil
	})
	for _, id := range ids {
		if err == nil {
			err = auth.SetStanding(ctx, store.StandingChange{Grant: id, To: store.Revoked, By: "remit", Reason: why, At: at})
		}
	}
	return err
}

// roots visits the grants that were issued to a person, newest first.
func (p *People) roots(ctx context.Context, c claimed, visit func(store.GrantRecord) (more bool, err error)) error {
	_, st, err := p.grants.Open(ctx)
	if err != nil {
		return err
	}
	f := store.GrantFilter{Holder: c.holder(), Limit: 100}
	for {
		list, err := st.Grants(ctx, f)
		if err != nil || len(list) == 0 {
			return err
		}
		for _, g := range list {
			if f.Before = g.Seq; g.Person == nil || g.Person.Issuer != c.issuer.URL || g.Person.Subject != c.subject {
				continue
			}
			if more, err := visit(g); err != nil || !more {
				return err
			}
		}
		if p.now().Sub(list[len(list)-1].Issued) > maxRoleLife {
			return nil
		}
	}
}

// maxRoleLife is the longest that a role's grants last, as the settings bound it.
const maxRoleLife = 8 * 24 * time.Hour
