package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/people/oidctest"
)

// team is a service whose people an identity provider knows.
type team struct {
	*service
	idp *oidctest.Provider
}

// teamConfig has the address of the issuer, and further bindings.
const teamConfig = `secrets: {keyring: false}
people:
  issuers:
    company: {url: %q, audiences: [remit], client_id: ui, client_secret: secret:oidc}
  roles:
    developer: {policy: roles/developer.yaml}
    reviewer: {policy: roles/reviewer.yaml, approves: [developer], lasts: 1h}
    reader: {policy: roles/reader.yaml}
  bindings:
    - {issuer: company, claims: {groups: reviewers}, role: reviewer}
    - {issuer: company, claims: {groups: readers}, role: reader}
%s`

const developers = "    - {issuer: company, claims: {groups: developers}, role: developer}\n"

var rolePolicies = map[string]string{
	"developer": "version: 1\nname: developer\nrest: inherit\nfiles:\n  read: {allow: [clock.yaml, secret.txt]}\n  write: {allow: [out/**], ask: [danger.txt]}\n" +
		"approvals: {approvers: 2, roles: [reviewer], session: false}\napi: {allow: [tools.*, runs.*, sessions.*, agents.*, grants.*, approvals.read]}\n",
	"reader":   "version: 1\nname: reader\nrest: inherit\ntools: {deny: [current_time.*]}\nfiles: {read: {allow: [clock.yaml]}}\napi: {allow: [runs.read, sessions.*, grants.*]}\n",
	"reviewer": "version: 1\nname: reviewer\nrest: inherit\nfiles: {}\napi: {allow: [approvals.*, runs.read]}\n",
}

const teamPolicy = `version: 1
name: node
api: {allow: ["*"]}
models: {allow: ["*"]}
files: {read: {allow: [clock.yaml, notes.txt]}, write: {allow: ["out/**", danger.txt]}}
delegate: {actions: [api, files.read, files.write, models, tools], to: ["*"], depth: 8}
`

func newTeam(t *testing.T) *team {
	t.Helper()
	idp := oidctest.New("ui", "hush-hush-hush")
	t.Cleanup(idp.Close)
	s := &service{t: t, homeDir: t.TempDir(), dir: t.TempDir()}
	out := &team{s, idp}
	s.policy = filepath.Join(s.dir, "serve.yaml")
	out.write(s.policy, teamPolicy)
	out.write(filepath.Join(s.dir, "clock.yaml"), script)
	for name, text := range rolePolicies {
		out.write(filepath.Join(s.homeDir, "roles", name+".yaml"), text)
	}
	out.bindings(developers)
	secret := s.beside()
	if _, err := secret.Secrets.Set("oidc", "hush-hush-hush"); err != nil {
		t.Fatal(err)
	}
	out.begin()
	return out
}

// begin starts the service, under a name that issuers can know.
func (s *team) begin() {
	s.t.Helper()
	s.start(func(q *app.ServeRequest) { q.Hosts = []string{"127.0.0.1"} })
}

func (s *team) write(file, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// bindings sets the bindings after that of reviewers, for the next start.
func (s *team) bindings(text string) {
	s.write(filepath.Join(s.homeDir, "config.yaml"), fmt.Sprintf(teamConfig, s.idp.URL, text))
}

// token is one that the issuer has made for somebody of some groups.
func (s *team) person(name string, groups ...string) string {
	return s.idp.Sign(s.idp.Claims("remit", map[string]any{"sub": name, "email": name + "@company.example", "groups": groups}))
}

func (s *team) call(token, id, args string) (int, map[string]any) {
	s.t.Helper()
	return s.ask(http.MethodPost, "/v1/tools/"+id+"/invoke", token, `{"args": `+args+`}`)
}

func TestAPersonHasTheAuthorityOfTheRole(t *testing.T) {
	s := newTeam(t)
	ann, eve := s.person("ann", "developers", "others"), s.person("eve", "visitors")
	if status, got := s.call(ann, "fs.read", `{"path": "clock.yaml"}`); status != 200 || got["status"] != "completed" {
		t.Fatalf("what role and service allow: %d %v", status, got)
	}
	for path, why := range map[string]string{"notes.txt": "the service alone allows it", "secret.txt": "the role alone allows it"} {
		if status, got := s.call(ann, "fs.read", `{"path": "`+path+`"}`); status != 403 || got["code"] != "E1001" {
			t.Errorf("%s: %d %v", why, status, got)
		}
	}
	if status, got := s.ask(http.MethodGet, "/v1/audit", ann, ""); status != 403 {
		t.Errorf("an action of the API that the role does not have: %d %v", status, got)
	}
	if status, got := s.call(eve, "fs.read", `{"path": "clock.yaml"}`); status != 403 || !strings.Contains(got["detail"].(string), "give no role here") {
		t.Errorf("a person without a role: %d %v", status, got)
	}
	forged := s.idp.Forgeries(s.idp.Claims("remit", map[string]any{"sub": "ann", "groups": []string{"developers"}}))
	for name, text := range forged {
		if status, got := s.call(text, "fs.read", `{"path": "clock.yaml"}`); status != 401 {
			t.Errorf("a token %s: %d %v", name, status, got)
		}
	}
	// The record says who it was.
	_, runs := s.ask(http.MethodGet, "/v1/runs", s.token, "")
	first := runs["items"].([]any)[0].(map[string]any)
	if first["principal"] != "user:company:ann" {
		t.Errorf("the run is %v", first)
	}
	_, list := s.ask(http.MethodGet, "/v1/grants", s.token, "")
	g := list["items"].([]any)[0].(map[string]any)
	who, _ := g["person"].(map[string]any)
	if g["holder"] != "user:company:ann" || who["issuer"] != s.idp.URL || who["subject"] != "ann" || who["role"] != "developer" || who["name"] != "ann@company.example" {
		t.Errorf("the grant is %v", g)
	}
}

func TestARoleThatIsGoneAllowsNothing(t *testing.T) {
	s := newTeam(t)
	s.idp.Now = func() time.Time { return time.Now().Add(-10 * time.Second) }
	ann := s.person("ann", "developers")
	read := func(token string) (int, any) {
		status, got := s.call(token, "fs.read", `{"path": "clock.yaml"}`)
		return status, got["code"]
	}
	if status, code := read(ann); status != 200 {
		t.Fatalf("%d %v", status, code)
	}
	// A newer token that has another group ends what the older one gave.
	s.idp.Now = func() time.Time { return time.Now().Add(-5 * time.Second) }
	if status, code := read(s.person("ann", "visitors")); status != 403 || code != "E1001" {
		t.Errorf("without the group: %d %v", status, code)
	}
	if status, code := read(ann); status != 401 || code != "E6004" {
		t.Errorf("the older token, after the newer one: %d %v", status, code)
	}
	s.idp.Now = func() time.Time { return time.Now().Add(30 * time.Second) }
	again := s.person("ann", "developers")
	if status, code := read(again); status != 200 {
		t.Errorf("once the group is back: %d %v", status, code)
	}
	// What the settings no longer say is gone at the next start, for the same token too.
	s.stop()
	s.bindings("")
	s.begin()
	if status, code := read(again); status != 403 || code != "E1001" {
		t.Errorf("without the binding: %d %v", status, code)
	}
}

func TestTheOperatorEndsWhatAPersonHas(t *testing.T) {
	s := newTeam(t)
	s.idp.Now = func() time.Time { return time.Now().Add(-5 * time.Second) }
	ann := s.person("ann", "developers")
	if status, got := s.call(ann, "fs.read", `{"path": "clock.yaml"}`); status != 200 {
		t.Fatalf("%d %v", status, got)
	}
	_, list := s.ask(http.MethodGet, "/v1/grants", s.token, "")
	id := list["items"].([]any)[0].(map[string]any)["id"].(string)
	if status, got := s.ask(http.MethodPost, "/v1/grants/"+id+"/pause", s.token, `{}`); status >= 300 {
		t.Fatalf("%d %v", status, got)
	}
	other := s.person("ann", "developers")
	for _, token := range []string{ann, other} {
		if status, got := s.call(token, "fs.read", `{"path": "clock.yaml"}`); status != 401 || got["code"] != "E6005" {
			t.Errorf("while it is paused: %d %v", status, got)
		}
	}
	if status, got := s.ask(http.MethodPost, "/v1/grants/"+id+"/revoke", s.token, `{}`); status >= 300 {
		t.Fatalf("%d %v", status, got)
	}
	s.stop()
	s.begin() // the next process knows it too
	if status, got := s.call(other, "fs.read", `{"path": "clock.yaml"}`); status != 401 || got["code"] != "E6004" {
		t.Errorf("a token from before: %d %v", status, got)
	}
}
