package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/logins"
)

// oauth posts a form to an endpoint of logins.
func (s *service) oauth(path string, form url.Values) (int, map[string]any) {
	s.t.Helper()
	status, _, b := s.raw(http.MethodPost, path, "", form.Encode(), "Content-Type", "application/x-www-form-urlencoded")
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		s.t.Fatalf("%s: %d %q", path, status, b)
	}
	return status, m
}

// asksToLogIn begins a login, and gives the program's code and that of its user.
func (s *service) asksToLogIn(more url.Values) (device, user string) {
	s.t.Helper()
	form := url.Values{"client_id": {"remit"}, "device_name": {"ann@laptop"}}
	for k, v := range more {
		form[k] = v
	}
	status, got := s.oauth(logins.AuthorizePath, form)
	device, _ = got["device_code"].(string)
	user, _ = got["user_code"].(string)
	if status != 200 || device == "" || user == "" || !strings.HasPrefix(got["verification_uri_complete"].(string), s.told.UI+"/login?code=") {
		s.t.Fatalf("%d %v", status, got)
	}
	return device, user
}

func (s *service) polls(device string) (int, map[string]any) {
	s.t.Helper()
	return s.oauth(logins.TokenPath, url.Values{"grant_type": {logins.GrantType}, "device_code": {device}, "client_id": {"remit"}})
}

// here signs somebody in at the issuer, who was asked just now.
func (s *team) here(name, group string) *browser {
	s.t.Helper()
	b := s.signIn(name, group)
	s.idp.SignsIn(map[string]any{"sub": name, "groups": []string{group}, "auth_time": time.Now().Unix()})
	res, _ := b.do(http.MethodGet, s.away(b, "/ui/sign-in/company?again"), nil)
	b.session(res)
	return b
}

func TestAPersonSignsAProgramIn(t *testing.T) {
	s := newTeam(t)
	ann := s.here("ann", "developers")
	device, user := s.asksToLogIn(url.Values{"policy": {"version: 1\nrest: inherit\napi: {allow: [runs.read, tools.invoke]}\n"}, "lasts": {"7200"}})
	res, page := ann.do(http.MethodGet, "/ui/login?code="+user, nil)
	for _, want := range []string{user, "ann@laptop", "127.0.0.1", "user:company:ann", "runs.read", `name="hours" inputmode="decimal" autocomplete="off" required value="2"`} {
		if res.StatusCode != 200 || !strings.Contains(page, want) {
			t.Errorf("the page lacks %q: %d", want, res.StatusCode)
		}
	}
	form := url.Values{"code": {user}, "do": {"allow"}, "hours": {"1"}, "policy": {"version: 1\nrest: inherit\napi: {allow: [runs.read]}\n"}}
	if res, page := ann.do(http.MethodPost, "/ui/login", form); res.StatusCode != 200 || !strings.Contains(page, "was signed in") {
		t.Fatalf("%d %s", res.StatusCode, page)
	}
	if res, _ := ann.do(http.MethodPost, "/ui/login", form); res.StatusCode != 404 {
		t.Errorf("confirming it again: %d", res.StatusCode)
	}
	status, got := s.polls(device)
	token, _ := got["access_token"].(string)
	if seconds, _ := got["expires_in"].(float64); status != 200 || got["token_type"] != "Bearer" || seconds < 3500 || seconds > 3600 {
		t.Fatalf("%d %v", status, got)
	}
	if status, got := s.polls(device); status != 400 || got["error"] != "invalid_grant" {
		t.Errorf("the token again: %d %v", status, got)
	}
	if status, got := s.ask("GET", "/v1/runs", token, ""); status != 200 {
		t.Errorf("what was confirmed: %d %v", status, got)
	}
	if status, _ := s.call(token, "fs.read", `{"path": "clock.yaml"}`); status != 403 {
		t.Errorf("what the program asked for and the person did not confirm: %d", status)
	}
	_, list := s.ask("GET", "/v1/grants", s.token, "")
	g := list["items"].([]any)[0].(map[string]any)
	if g["holder"] != "user:company:ann" || !strings.HasPrefix(g["note"].(string), "login of remit (ann@laptop) from 127.0.0.1") {
		t.Errorf("the record of the grant is %v", g)
	}
	s.must(200, "POST", "/v1/grants/"+g["parent_id"].(string)+"/revoke", `{}`)
	if status, _ := s.ask("GET", "/v1/runs", token, ""); status != 401 {
		t.Errorf("after the browser was signed out: %d", status)
	}
}

// TestALoginHasOnlyItsOwnWork: a program that a person signed in is no browser of the person.
func TestALoginHasOnlyItsOwnWork(t *testing.T) {
	s := newTeam(t)
	o := s.works(s.person("ann", "developers"))
	device, user := s.asksToLogIn(nil)
	if res, page := s.here("ann", "developers").do(http.MethodPost, "/ui/login", url.Values{"code": {user}, "do": {"allow"}, "hours": {"1"}}); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, page)
	}
	_, got := s.polls(device)
	s.wantSees("a program that was signed in", got["access_token"].(string), o, 404)
}

func TestOnlyAPersonWhoIsThereSignsAProgramIn(t *testing.T) {
	s := newTeam(t)
	device, user := s.asksToLogIn(nil)
	form := url.Values{"code": {user}, "do": {"allow"}, "hours": {"1"}}
	if res, _ := (&browser{s: s.service}).do(http.MethodPost, "/ui/login", form); res.StatusCode != 401 {
		t.Errorf("a browser that is not signed in: %d", res.StatusCode)
	}
	stale := s.signIn("ann", "developers")
	if res, page := stale.do(http.MethodPost, "/ui/login", form); res.StatusCode != 403 || !strings.Contains(page, "Confirm that it is you") {
		t.Errorf("a person who was not asked lately: %d", res.StatusCode)
	}
	for _, path := range []string{"/ui/login?code=" + user + "&do=allow&hours=1", "/ui/login?code=" + user} {
		if res, _ := stale.do(http.MethodGet, path, nil); res.StatusCode != 200 { // a link decides nothing
			t.Errorf("%s: %d", path, res.StatusCode)
		}
	}
	bob := s.here("bob", "reviewers")
	if res, page := bob.do(http.MethodPost, "/ui/login", form); res.StatusCode != 403 || strings.Contains(page, "was signed in") {
		t.Errorf("a role without grants.write: %d", res.StatusCode)
	}
	wide := url.Values{"code": {user}, "do": {"allow"}, "hours": {"0"}}
	if res, page := s.here("ann", "developers").do(http.MethodPost, "/ui/login", wide); res.StatusCode == 200 || strings.Contains(page, "was signed in") {
		t.Errorf("no time: %d", res.StatusCode)
	}
	if status, got := s.polls(device); status != 400 || got["error"] != "authorization_pending" {
		t.Errorf("after all that: %d %v", status, got)
	}
	if res, _ := stale.do(http.MethodPost, "/ui/login", url.Values{"code": {user}, "do": {"refuse"}}); res.StatusCode != 200 {
		t.Errorf("refusing: %d", res.StatusCode)
	}
	if status, got := s.polls(device); status != 400 || got["error"] != "slow_down" {
		t.Errorf("too early: %d %v", status, got)
	}
}

func TestTheEndpointsOfLoginsAreAsTheRFCSays(t *testing.T) {
	s := newService(t)
	origin := strings.TrimSuffix(s.told.UI, "/ui")
	_, meta := s.ask("GET", logins.MetadataPath, "", "")
	if meta["issuer"] != origin || meta["device_authorization_endpoint"] != origin+logins.AuthorizePath || meta["token_endpoint"] != origin+logins.TokenPath {
		t.Errorf("the metadata is %v", meta)
	}
	device, user := s.asksToLogIn(nil)
	for name, c := range map[string]struct {
		form url.Values
		want string
	}{
		"another kind":   {url.Values{"grant_type": {"password"}}, "unsupported_grant_type"},
		"no code":        {url.Values{"grant_type": {logins.GrantType}}, "invalid_grant"},
		"a user's code":  {url.Values{"grant_type": {logins.GrantType}, "device_code": {user}, "client_id": {"remit"}}, "invalid_grant"},
		"another client": {url.Values{"grant_type": {logins.GrantType}, "device_code": {device}, "client_id": {"x"}}, "invalid_grant"},
		"two codes":      {url.Values{"grant_type": {logins.GrantType}, "device_code": {device, device}}, "invalid_request"},
		"too much":       {url.Values{"grant_type": {strings.Repeat("x", 64<<10)}}, "invalid_request"},
	} {
		if status, got := s.oauth(logins.TokenPath, c.form); status != 400 || got["error"] != c.want {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	for name, form := range map[string]url.Values{"no client": {}, "a time that is none": {"client_id": {"x"}, "lasts": {"-1"}}, "a large policy": {"client_id": {"x"}, "policy": {strings.Repeat("x", 20<<10)}}} {
		if status, got := s.oauth(logins.AuthorizePath, form); status != 400 || got["error"] != "invalid_request" {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	if status, _, b := s.raw("POST", logins.AuthorizePath, "", "client_id=x", "Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example"); status != 403 {
		t.Errorf("a web page: %d %s", status, b)
	}
	if status, _, _ := s.raw("GET", logins.TokenPath, "", ""); status != 404 && status != 405 {
		t.Errorf("a GET: %d", status)
	}
	for range 4 { // one waits already
		s.asksToLogIn(nil)
	}
	if status, got := s.oauth(logins.AuthorizePath, url.Values{"client_id": {"x"}}); status != 429 {
		t.Errorf("too many: %d %v", status, got)
	}
}

// TestTheOperatorSignsAProgramIn on loopback, where no identity provider is needed, with the
// program's own half.
func TestTheOperatorSignsAProgramIn(t *testing.T) {
	s := newService(t)
	b := s.browser()
	q := logins.LogInRequest{URL: s.url, Request: logins.Request{Client: "remit"}, Show: func(code, _, _ string) {
		if res, page := b.do(http.MethodPost, "/ui/login", url.Values{"code": {code}, "do": {"allow"}, "hours": {"1"}}); res.StatusCode != 200 || !strings.Contains(page, "was signed in") {
			t.Errorf("%d %s", res.StatusCode, page)
		}
	}, Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
	got, err := logins.LogIn(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if status, list := s.ask("GET", "/v1/runs", got.Token, ""); status != 200 {
		t.Errorf("%d %v", status, list)
	}
}
