package settings

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// People are the users of a service: the claims of an issuer's tokens give a person a role, and
// the role lists the person's actions and decisions.
type People struct {
	Issuers  []Issuer
	Roles    []Role
	Bindings []Binding // the first one that holds for a person gives the role
}

// Issuer is an identity provider (OpenID Connect) whose tokens are accepted.
type Issuer struct {
	Name       string
	URL        string   // the iss of its tokens; its metadata is found below it
	Hosts      []string // further hosts that its metadata may name, as www.googleapis.com
	Audiences  []string // one of them must be in the aud of a token that an API client presents; nil: it can present none
	Algorithms []string // of signatures
	ClientID   string   // of Remit, for the sign-in to the web UI; "": nobody signs in so
	Secret     string   // of that client, "secret:NAME"; "": it has none
	Redirect   string   // where it sends browsers back to, if not where the web UI is served; "": there
	Scopes     []string // that the sign-in asks for
	Display    string   // the claim that people know each other by
}

// Role lists the actions and decisions that people with it may take.
type Role struct {
	Name     string
	Policy   string        // a file, relative to the settings' folder, that narrows the service's policy
	Lasts    time.Duration // of the person's grant
	Approves []string      // roles whose questions it may answer; "*": everyone's
	Admin    bool          // it may approve what admins approve
}

// Answers reports whether the role may answer questions about calls of the people of a role; "" is
// for people without one.
func (r Role) Answers(role string) bool {
	return slices.ContainsFunc(r.Approves, func(name string) bool { return name == "*" || name == role })
}

// Binding gives a role to the people of an issuer for whom all claims hold.
type Binding struct {
	Issuer string
	Claims []Claim
	Role   string
}

// Claim holds if the claim is one of the values, or is a list that has one of them.
type Claim struct {
	Name   string // or, beginning with /, a JSON pointer (RFC 6901)
	Values []any  // strings and booleans
}

// SigningAlgorithms are the algorithms that can be allowed for an issuer's signatures. All are
// asymmetric: a program that can check a signature must not be able to make one.
var SigningAlgorithms = []string{"RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA"}

const (
	maxIssuers   = 16
	maxBindings  = 1000
	maxValues    = 200
	maxGrantLife = 7 * 24 * time.Hour
	defaultLife  = 8 * time.Hour
)

var personName = regex.Lazy(`^[a-z][a-z0-9_-]{0,29}$`)

// people reads the section people.
func (r *reader) people(n *document.Node, path string, into *People) {
	before := r.Problems()
	if !r.Mapping(n, path, document.Fields{
		"issuers": func(n *document.Node, path string) {
			r.named(n, path, "issuer", maxIssuers, func(k, v *document.Node, path string) { into.Issuers = append(into.Issuers, r.issuer(k, v, path)) })
		},
		"roles": func(n *document.Node, path string) {
			r.named(n, path, "role", maxBindings, func(k, v *document.Node, path string) { into.Roles = append(into.Roles, r.role(k, v, path)) })
		},
		"bindings": r.List(maxBindings, func(n *document.Node, path string) { into.Bindings = append(into.Bindings, r.binding(n, path)) }),
	}) {
		return
	}
	for _, key := range []string{"issuers", "roles", "bindings"} {
		if r.Problems() == before && n.Lookup(key) == nil {
			r.Fail(n, document.Join(path, key), "the required key %q is missing", key)
		}
	}
	r.checkPeople(n, path, into)
}

// named reads a mapping whose keys are short names.
func (r *reader) named(n *document.Node, path, what string, most int, read func(k, v *document.Node, path string)) {
	count := 0
	r.Each(n, path, func(k, v *document.Node, path string) {
		switch count++; {
		case !personName.MatchString(k.Text):
			r.Fail(k, path, "%q is not a valid name of an %s", clip.Text(k.Text, 60), what).Hint = "use up to 30 lower-case letters, digits, _ and -, a letter first"
		case count > most:
			r.Fail(k, path, "more than %d of them", most)
		default:
			read(k, v, path)
		}
	})
}

func (r *reader) issuer(k, v *document.Node, path string) Issuer {
	i := Issuer{Name: k.Text, Algorithms: []string{"RS256", "ES256", "PS256", "EdDSA"}, Scopes: []string{"openid", "profile", "email"}, Display: "email"}
	r.Mapping(v, path, document.Fields{
		"url":       r.issuerURL(&i.URL),
		"hosts":     r.Strings(&i.Hosts, maxIssuers, checkHost),
		"audiences": r.Strings(&i.Audiences, maxIssuers, notBlank),
		"algorithms": r.Strings(&i.Algorithms, len(SigningAlgorithms), func(s string) error {
			if !slices.Contains(SigningAlgorithms, s) {
				return fmt.Errorf("%q is not accepted; expected %s", clip.Text(s, 20), strings.Join(SigningAlgorithms, ", "))
			}
			return nil
		}),
		"client_id":     r.String(&i.ClientID, notBlank),
		"client_secret": func(n *document.Node, path string) { i.Secret = r.stored(n, path) },
		"redirect_url":  r.issuerURL(&i.Redirect),
		"scopes":        r.Strings(&i.Scopes, maxIssuers, notBlank),
		"display":       r.String(&i.Display, notBlank),
	}, "url")
	switch {
	case v.Kind != document.Mapping:
	case i.ClientID == "" && len(i.Audiences) == 0:
		r.Fail(v, path, "has neither audiences nor client_id, so nobody could use it").Hint = "audiences is for tokens that API clients present, client_id for the sign-in to the web UI"
	case len(i.Algorithms) == 0:
		r.Fail(v, path+".algorithms", "is empty, so that no token could be accepted")
	case !slices.Contains(i.Scopes, "openid"):
		r.Fail(v, path+".scopes", "must have openid")
	}
	return i
}

// issuerURL makes a field of an issuer's identifier. It is compared as it is written.
func (r *reader) issuerURL(into *string) document.Field {
	return func(n *document.Node, path string) {
		text, ok := r.Text(n, path)
		if !ok {
			return
		}
		*into = text
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
			r.Fail(n, path, "must be a URL without user, query and fragment, as https://login.example.com")
		case CheckWebhookURL(text) != nil:
			r.Fail(n, path, "%s", fault.Message(CheckWebhookURL(text))).Hint = "use https; plain http is for an issuer on this machine"
		}
	}
}

func checkHost(s string) error {
	if u, err := url.Parse("https://" + s + "/"); err != nil || u.Host != s || u.Hostname() == "" || strings.ContainsAny(s, "*@/") {
		return fmt.Errorf("%q is not a host; expected a name as www.googleapis.com", clip.Text(s, 60))
	}
	return nil
}

func notBlank(s string) error {
	if strings.TrimSpace(s) == "" || len(s) > 500 {
		return fmt.Errorf("must have 1 to 500 bytes")
	}
	return nil
}

func (r *reader) role(k, v *document.Node, path string) Role {
	role := Role{Name: k.Text, Lasts: defaultLife}
	r.Mapping(v, path, document.Fields{
		"policy":   r.String(&role.Policy, notBlank),
		"lasts":    r.Duration(&role.Lasts),
		"approves": r.Strings(&role.Approves, maxBindings),
		"admin":    r.Bool(&role.Admin),
	}, "policy")
	if at := v.Lookup("lasts"); at != nil && (role.Lasts < time.Minute || role.Lasts > maxGrantLife) {
		r.Fail(at, path+".lasts", "must be a time from 1m to 7d")
	}
	return role
}

func (r *reader) binding(n *document.Node, path string) Binding {
	var b Binding
	ok := r.Mapping(n, path, document.Fields{
		"issuer": r.String(&b.Issuer),
		"role":   r.String(&b.Role),
		"claims": func(n *document.Node, path string) {
			r.Each(n, path, func(k, v *document.Node, path string) { b.Claims = append(b.Claims, r.claim(k, v, path)) })
		},
	}, "issuer", "claims", "role")
	if at := n.Lookup("claims"); ok && at != nil && len(b.Claims) == 0 {
		r.Fail(at, path+".claims", "is empty, which would hold for every account there").Hint = "name a claim, as groups, or hd for all of a Google organization"
	}
	return b
}

func (r *reader) claim(k, v *document.Node, path string) Claim {
	c := Claim{Name: k.Text}
	one := func(n *document.Node, path string) {
		switch n.Kind {
		case document.String, document.Bool:
			c.Values = append(c.Values, n.Value())
		default:
			r.Expected(n, path, "a string, true or false, or a list of them")
		}
	}
	switch {
	case v.Kind != document.List:
		one(v, path)
	case len(v.Items) == 0:
		r.Fail(v, path, "is empty, so that it could never hold")
	default:
		r.List(maxValues, one)(v, path)
	}
	return c
}

// checkPeople checks the names that refer to others.
func (r *reader) checkPeople(n *document.Node, path string, p *People) {
	known := func(role string) bool {
		return slices.ContainsFunc(p.Roles, func(x Role) bool { return x.Name == role })
	}
	for _, role := range p.Roles {
		if role.Approves == nil {
			continue
		}
		for j, item := range n.Lookup("roles").Lookup(role.Name).Lookup("approves").Items {
			if item.Kind == document.String && item.Text != "*" && !known(item.Text) {
				r.Fail(item, fmt.Sprintf("%s.roles.%s.approves[%d]", path, role.Name, j), "no role has the name %q", clip.Text(item.Text, 60)).
					Hint = "expected the name of a role, or \"*\" for questions of everyone"
			}
		}
	}
	list := n.Lookup("bindings")
	for i, b := range p.Bindings {
		at := fmt.Sprintf("%s.bindings[%d]", path, i)
		if x := list.Items[i].Lookup("role"); x != nil && !known(b.Role) {
			r.Fail(x, at+".role", "no role has the name %q", clip.Text(b.Role, 60))
		}
		if x := list.Items[i].Lookup("issuer"); x != nil && !slices.ContainsFunc(p.Issuers, func(x Issuer) bool { return x.Name == b.Issuer }) {
			r.Fail(x, at+".issuer", "no issuer has the name %q", clip.Text(b.Issuer, 60))
		}
	}
	for i, one := range p.Issuers {
		if slices.ContainsFunc(p.Issuers[:i], func(x Issuer) bool { return x.URL == one.URL }) {
			r.Fail(n.Lookup("issuers").Lookup(one.Name), path+".issuers."+one.Name, "another issuer has the same url")
		}
	}
}
