package people

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/settings"
)

const roles = `people:
  issuers:
    company: {url: "https://login.example", audiences: [remit]}
    partner: {url: "https://partner.example", audiences: [remit]}
  roles:
    lead: {policy: a.yaml}
    developer: {policy: b.yaml}
    owner: {policy: c.yaml}
  bindings:
    - {issuer: company, claims: {email: boss@company.example}, role: owner}
    - {issuer: company, claims: {groups: [leads, sre], active: true}, role: lead}
    - {issuer: company, claims: {/realm_access/roles: dev}, role: developer}
    - {issuer: company, claims: {"https://company.example/level": gold}, role: lead}
    - {issuer: company, claims: {/email: chief@company.example}, role: owner}
    - {issuer: company, claims: {/profile/email: chief@company.example}, role: owner}
`

func TestClaimsGiveARole(t *testing.T) {
	conf, err := settings.Read("config.yaml", []byte(roles))
	if err != nil {
		t.Fatal(err)
	}
	h := &home.Home{}
	h.Settings = conf
	p := New(h, nil, nil)
	for claims, want := range map[string]string{
		`{}`:                                                            "",
		`{"groups": ["leads"]}`:                                         "",
		`{"groups": "sre", "active": 1}`:                                "",
		`{"groups": "sre", "active": "true"}`:                           "",
		`{"groups": "sre", "active": true}`:                             "lead",
		`{"groups": ["x", "leads"], "active": true}`:                    "lead",
		`{"groups": ["Leads"], "active": true}`:                         "",
		`{"groups": ["leads "], "active": true}`:                        "",
		`{"groups": [["leads"]], "active": true}`:                       "",
		`{"groups": {"leads": true}, "active": true}`:                   "",
		`{"realm_access": {"roles": ["dev"]}}`:                          "developer",
		`{"realm_access.roles": ["dev"]}`:                               "",
		`{"realm_access": ["dev"]}`:                                     "",
		`{"https://company.example/level": "gold"}`:                     "lead",
		`{"email": "boss@company.example"}`:                             "",
		`{"email": "boss@company.example", "email_verified": "true"}`:   "",
		`{"email": "boss@company.example", "email_verified": true}`:     "owner",
		`{"groups": "sre", "active": true, "realm_access": {"x": "y"}}`: "lead",

		`{"email": "chief@company.example"}`:                                                              "",
		`{"email": "chief@company.example", "email_verified": false}`:                                     "",
		`{"email": "chief@company.example", "email_verified": true}`:                                      "owner",
		`{"profile": {"email": "chief@company.example"}}`:                                                 "",
		`{"profile": {"email": "chief@company.example"}, "email_verified": true}`:                         "",
		`{"profile": {"email": "chief@company.example", "email_verified": true}, "email": "x@y.example"}`: "owner",
	} {
		c := claimed{issuer: conf.People.Issuers[0], subject: "1", claims: map[string]any{}}
		if err := json.Unmarshal([]byte(claims), &c.claims); err != nil {
			t.Fatal(err)
		}
		who, role, err := p.person(c)
		if role.Name != want || (want == "") != errors.Is(err, fault.Denied) {
			t.Errorf("%s gives %q, %v; want %q", claims, role.Name, err, want)
		}
		// What was kept of the claims gives the same, also after a round through the ledger.
		b, err := json.Marshal(who)
		var kept ledger.Person
		if err == nil {
			err = json.Unmarshal(b, &kept)
		}
		if again, rerr := p.Role(&kept); err != nil || again.Name != want {
			t.Errorf("%s gives %q later, %v, %v", claims, again.Name, err, rerr)
		}
		c.issuer = conf.People.Issuers[1]
		if _, role, err := p.person(c); !errors.Is(err, fault.Denied) {
			t.Errorf("%s of another issuer gives %q, %v", claims, role.Name, err)
		}
	}
	// A new binding depends on a claim that was not kept at the sign-in.
	c := claimed{issuer: conf.People.Issuers[0], subject: "1", claims: map[string]any{"https://company.example/level": "gold"}}
	who, _, err := p.person(c)
	if err != nil {
		t.Fatal(err)
	}
	h.Settings.People.Bindings = append([]settings.Binding{{Issuer: "company", Role: "developer", Claims: []settings.Claim{{Name: "contractor", Values: []any{true}}}}}, conf.People.Bindings...)
	if _, err := p.Role(who); !errors.Is(err, fault.GrantInvalid) || !strings.Contains(err.Error(), "sign in again") {
		t.Errorf("got %v", err)
	}
	h.Settings.People.Bindings = conf.People.Bindings[:3]
	if role, err := p.Role(who); !errors.Is(err, fault.Denied) {
		t.Errorf("after the binding was removed: %q, %v", role.Name, err)
	}
	c.claims["groups"] = strings.Repeat("g", maxEvidence)
	if _, _, err := p.person(c); !errors.Is(err, fault.GrantTooLarge) {
		t.Errorf("too many groups: %v", err)
	}
}

func TestSubjectsAreNamesOfTheirOwn(t *testing.T) {
	long := strings.Repeat("a", 80)
	seen := map[string]string{}
	for _, subject := range []string{"248289761001", "auth0|5f7c", "auth0%7C5f7c", "ann@example.com", "a:b", "a b", "ä", "\u202eann", long, long + "b", long[:40] + "~" + "0123456789abcdef", "user:company:x", "../x", "*"} {
		got := claimed{issuer: settings.Issuer{Name: "company"}, subject: subject}.holder()
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q have the name %s", subject, other, got)
		}
		seen[got] = subject
		if rest, ok := strings.CutPrefix(got, "user:company:"); !ok || len(got) > 100 || strings.ContainsAny(rest, ":* /|\n") {
			t.Errorf("%q has the name %q", subject, got)
		}
	}
	if got := (claimed{issuer: settings.Issuer{Name: "company"}, subject: "auth0|5f7c"}).holder(); got != "user:company:auth0%7C5f7c" {
		t.Errorf("got %s", got)
	}
}
