package settings_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/settings"
)

const peopleConfig = `people:
  issuers:
    company:
      url: https://login.example.com/realms/main
      audiences: [remit]
      client_id: remit-ui
      client_secret: secret:oidc
  roles:
    developer: {policy: roles/developer.yaml}
    reviewer: {policy: roles/reviewer.yaml, lasts: 1h, approves: [developer], admin: true}
  bindings:
    - {issuer: company, claims: {groups: [leads, sre], email_verified: true}, role: reviewer}
    - issuer: company
      claims: {/realm_access/roles: dev}
      role: developer
`

func TestPeople(t *testing.T) {
	got, err := settings.Read("config.yaml", []byte(peopleConfig))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.People{
		Issuers: []settings.Issuer{{Name: "company", URL: "https://login.example.com/realms/main", Audiences: []string{"remit"}, ClientID: "remit-ui", Secret: "secret:oidc",
			Algorithms: []string{"RS256", "ES256", "PS256", "EdDSA"}, Scopes: []string{"openid", "profile", "email"}, Display: "email"}},
		Roles: []settings.Role{{Name: "developer", Policy: "roles/developer.yaml", Lasts: 8 * time.Hour},
			{Name: "reviewer", Policy: "roles/reviewer.yaml", Lasts: time.Hour, Approves: []string{"developer"}, Admin: true}},
		Bindings: []settings.Binding{
			{Issuer: "company", Role: "reviewer", Claims: []settings.Claim{{Name: "groups", Values: []any{"leads", "sre"}}, {Name: "email_verified", Values: []any{true}}}},
			{Issuer: "company", Role: "developer", Claims: []settings.Claim{{Name: "/realm_access/roles", Values: []any{"dev"}}}}},
	}
	if !reflect.DeepEqual(got.People, want) {
		t.Errorf("got  %+v\nwant %+v", got.People, want)
	}
}

func TestWrongPeopleAreRefusedWithTheirPlace(t *testing.T) {
	for name, tt := range map[string]struct{ old, with, want string }{
		"no bindings":           {"  bindings:\n", "  binding:\n", `people.binding: unknown key "binding" (did you mean "bindings"?)`},
		"an unknown key":        {"audiences:", "audience:", `config.yaml:5:7: people.issuers.company.audience: unknown key "audience" (did you mean "audiences"?)`},
		"no TLS":                {"https://login.example.com", "http://login.example.com", "config.yaml:4:12: people.issuers.company.url: the address is neither https nor a loopback address"},
		"a query":               {"/realms/main", "/?realm=main", "people.issuers.company.url: must be a URL without user, query and fragment"},
		"a user":                {"https://login", "https://ann@login", "people.issuers.company.url: must be a URL without user"},
		"no algorithm":          {"audiences: [remit]", "algorithms: [none]", `people.issuers.company.algorithms[0]: "none" is not accepted; expected RS256`},
		"a shared key":          {"audiences: [remit]", "algorithms: [HS256]", `"HS256" is not accepted`},
		"no algorithms":         {"audiences: [remit]", "algorithms: []", "people.issuers.company.algorithms: is empty"},
		"a host with a path":    {"audiences: [remit]", "hosts: [a.example/b]", `people.issuers.company.hosts[0]: "a.example/b" is not a host`},
		"a host of wildcards":   {"audiences: [remit]", "hosts: ['*.example']", `"*.example" is not a host`},
		"scopes without openid": {"audiences: [remit]", "scopes: [email]", "people.issuers.company.scopes: must have openid"},
		"a secret itself":       {"secret:oidc", "hunter2", "people.issuers.company.client_secret: must be secret:NAME, not the value itself"},
		"an issuer's name":      {"    company:", "    My Company:", `config.yaml:3:5: people.issuers["My Company"]: "My Company" is not a valid name of an issuer`},
		"a role without policy": {"developer: {policy: roles/developer.yaml}", "developer: {}", `people.roles.developer.policy: the required key "policy" is missing`},
		"too long":              {"lasts: 1h", "lasts: 30d", "people.roles.reviewer.lasts: must be a time from 1m to 7d"},
		"an unknown approver":   {"approves: [developer]", "approves: [develper]", `config.yaml:10:67: people.roles.reviewer.approves[0]: no role has the name "develper"`},
		"an unknown role":       {"role: developer\n", "role: admin\n", `config.yaml:15:13: people.bindings[1].role: no role has the name "admin"`},
		"an unknown issuer":     {"- {issuer: company", "- {issuer: other", `people.bindings[0].issuer: no issuer has the name "other"`},
		"no claims":             {"{/realm_access/roles: dev}", "{}", "people.bindings[1].claims: is empty, which would hold for every account"},
		"no value":              {"/realm_access/roles: dev", "groups: []", "people.bindings[1].claims.groups: is empty, so that it could never hold"},
		"a number":              {"/realm_access/roles: dev", "level: 3", "people.bindings[1].claims.level: must be a string, true or false, or a list of them, not 3"},
		"a binding of nothing":  {"- {issuer: company, claims: {groups: [leads, sre], email_verified: true}, role: reviewer}", "- 3", "people.bindings[0]: must be a mapping"},
	} {
		t.Run(name, func(t *testing.T) {
			src := strings.Replace(peopleConfig, tt.old, tt.with, 1)
			if src == peopleConfig {
				t.Fatal("nothing was replaced")
			}
			if _, err := settings.Read("config.yaml", []byte(src)); !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	if _, err := settings.Read("config.yaml", []byte("people: {issuers: {}, roles: {}}")); err == nil || !strings.Contains(err.Error(), `people.bindings: the required key "bindings" is missing`) {
		t.Errorf("without bindings: %v", err)
	}
	useless := strings.NewReplacer("      audiences: [remit]\n", "", "      client_id: remit-ui\n", "").Replace(peopleConfig)
	if _, err := settings.Read("config.yaml", []byte(useless)); err == nil || !strings.Contains(err.Error(), "has neither audiences nor client_id") {
		t.Errorf("an issuer that is of no use: %v", err)
	}
	twice := strings.Replace(peopleConfig, "  roles:\n", "    other: {url: 'https://login.example.com/realms/main', audiences: [x]}\n  roles:\n", 1)
	if _, err := settings.Read("config.yaml", []byte(twice)); err == nil || !strings.Contains(err.Error(), "people.issuers.other: another issuer has the same url") {
		t.Errorf("an issuer twice: %v", err)
	}
}
