// Package people knows the people who use a service, by what their identity providers
// (OpenID Connect) say of them. A verified token's claims give a person a role, and the role a
// grant of its own: the service's policy, narrowed by the role's. Start at [People.Exchange].
//
// What a person may do is looked up at each use: the claims that the role came from are kept
// with the grant, and are judged again by the settings as they are then.
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

// claimed is what a verified token says of a person.
type claimed struct {
	issuer  settings.Issuer
	subject string
	claims  map[string]any
	issued  time.Time
	expires time.Time
}

// holder is a person's name in grants and records, as "user:company:248289761001". A subject
// with other characters than those of identifiers is escaped; a long one ends in its hash.
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
			if one.Name == "email" {
				out.Claims["email_verified"] = claimOf(c.claims, "email_verified")
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

// Role is the role that a person has now: that of the first binding whose claims all hold. A
// person without one is fault.Denied; one of whom too little is known must sign in again.
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
		if c.Name == "email" && have["email_verified"] != true {
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

// admit gives the token of the grant of a person: the one of before, while nothing changed.
// A person whose role changed loses what was issued under the one before.
func (p *People) admit(ctx context.Context, c claimed) (string, error) {
	who, role, err := p.person(c)
	if err != nil {
		if fault.CodeOf(err) == fault.Denied {
			if rerr := p.retire(ctx, c, ""); rerr != nil {
				return "", rerr
			}
		}
		return "", err
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
	renew, err := p.barred(ctx, c)
	if err != nil {
		return "", err
	}
	if have, ok := p.admitted[holder]; ok && !renew && have.under == under && now.Before(have.until) {
		return have.token, nil
	}
	if err := p.retire(ctx, c, role.Name); err != nil {
		return "", err
	}
	note := clip.Text(fmt.Sprintf("%s of %s, role %s", cmp.Or(who.Name, redact.Show(who.Subject)), who.Issuer, role.Name), 400)
	made, err := p.grants.Issue(ctx, grants.Terms{Workspace: p.workspace, Holder: holder, Expires: role.Lasts, Note: note, Parsed: []*policy.Policy{serving, bound}, Person: who})
	if err != nil {
		return "", err
	}
	if len(p.admitted) >= maxAdmitted {
		clear(p.admitted) // the next request of each issues another grant
	}
	p.admitted[holder] = admitted{under, made.Text, made.Claims.Expires().Add(-time.Minute)}
	return made.Text, nil
}

// barred refuses a person whose last grant was revoked after the issuer's token was made, or
// is paused: a person's old tokens do not undo what the operator did. renew: a newer token
// needs another grant.
func (p *People) barred(ctx context.Context, c claimed) (renew bool, err error) {
	err = p.roots(ctx, c, func(g store.GrantRecord) (more bool, err error) {
		switch {
		case g.Standing == store.Revoked && !c.issued.After(g.Since):
			return false, fault.New(fault.GrantRevoked, "the grant of this person was revoked at %s", g.Since.UTC().Format(time.RFC3339)).WithHint("sign in again at the issuer")
		case g.Standing == store.Paused:
			return false, fault.New(fault.GrantPaused, "the grant of this person is paused").ForOperator("remit grant resume %s", g.ID)
		}
		renew = g.Standing == store.Revoked
		return false, nil
	})
	return renew, err
}

// retire revokes the grants that a person has under other roles, if a newer token says so.
func (p *People) retire(ctx context.Context, c claimed, role string) error {
	auth, _, err := p.grants.Open(ctx)
	if err != nil {
		return err
	}
	return p.roots(ctx, c, func(g store.GrantRecord) (more bool, err error) {
		if g.Standing == store.Revoked || g.Person.Role == role || !c.issued.After(g.Person.Said) {
			return true, nil
		}
		why := "the issuer no longer says what gave the role " + g.Person.Role
		return true, auth.SetStanding(ctx, store.StandingChange{Grant: g.ID, To: store.Revoked, By: "remit", Reason: why, At: p.now()})
	})
}

// roots visits the grants that were issued to a person and could still be used, newest first.
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
			if f.Before = g.Seq; g.Person == nil || g.Person.Issuer != c.issuer.URL || g.Person.Subject != c.subject || !p.now().Before(g.Expires) {
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
