package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// away follows a link to the issuer, and gives the address that it leads back to.
func (s *team) away(b *browser, path string) (back string) {
	s.t.Helper()
	res, text := b.do(http.MethodGet, path, nil)
	to := res.Header.Get("Location")
	if res.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, s.idp.URL+"/authorize?") {
		s.t.Fatalf("%s: %d %q %s", path, res.StatusCode, to, text)
	}
	for _, c := range res.Cookies() {
		if b.cookie = c; !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
			s.t.Errorf("the cookie is %v", c)
		}
	}
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, to, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	at, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = at.Body.Close()
	found, err := url.Parse(at.Header.Get("Location"))
	if err != nil || !strings.HasPrefix(at.Header.Get("Location"), s.told.UI+"/signed-in?") {
		s.t.Fatalf("the issuer leads to %q, %v", at.Header.Get("Location"), err)
	}
	return found.RequestURI()
}

// signIn signs somebody in at the issuer, in a browser of its own.
func (s *team) signIn(name string, groups ...string) *browser {
	s.t.Helper()
	s.idp.SignsIn(map[string]any{"sub": name, "email": name + "@company.example", "groups": groups})
	b := &browser{s: s.service}
	res, text := b.do(http.MethodGet, s.away(b, "/ui/sign-in/company"), nil)
	if res.StatusCode != http.StatusOK || !strings.Contains(text, `href="/ui/"`) {
		s.t.Fatalf("%d %s", res.StatusCode, text)
	}
	b.session(res)
	return b
}

// session takes the cookie of a session.
func (b *browser) session(res answer) {
	b.s.t.Helper()
	b.cookie = nil
	for _, c := range res.Cookies() {
		if c.Name == "remit-ui" && c.MaxAge > 0 {
			b.cookie = c
		}
	}
	if b.cookie == nil || !b.cookie.HttpOnly || b.cookie.SameSite != http.SameSiteStrictMode {
		b.s.t.Fatalf("the cookie is %v", b.cookie)
	}
}

func TestPeopleSignInAtTheirIssuer(t *testing.T) {
	s := newTeam(t)
	if res, text := (&browser{s: s.service}).do(http.MethodGet, "/ui/", nil); res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, `href="/ui/sign-in/company"`) {
		t.Errorf("a browser that is not signed in: %d %s", res.StatusCode, text)
	}
	ann := s.signIn("ann", "developers")
	for _, path := range []string{"/ui/", "/ui/approvals", "/ui/runs", "/ui/grants", "/ui/settings", "/ui/sessions", "/ui/tools"} {
		if res, text := ann.do(http.MethodGet, path, nil); res.StatusCode != http.StatusOK || !strings.Contains(text, "user:company:ann") {
			t.Errorf("%s: %d %.2000s", path, res.StatusCode, text)
		}
	}
	if res, _ := ann.do(http.MethodGet, "/ui/audit", nil); res.StatusCode != http.StatusForbidden {
		t.Errorf("what the role does not allow: %d", res.StatusCode)
	}
	cookie := ann.cookie
	_, text := ann.do(http.MethodGet, "/ui/settings", nil)
	_, id, _ := strings.Cut(text, `name="device" value="`)
	id, _, _ = strings.Cut(id, `"`)
	if res, _ := ann.do(http.MethodPost, "/ui/sign-out", url.Values{"device": {id}}); res.StatusCode != http.StatusSeeOther {
		t.Errorf("signing out: %d", res.StatusCode)
	}
	ann.cookie = cookie
	if res, _ := ann.do(http.MethodGet, "/ui/", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after signing out: %d", res.StatusCode)
	}
}

func TestSignInsAreForTheirBrowser(t *testing.T) {
	s := newTeam(t)
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}})
	refused := func(name string, b *browser, back string) {
		t.Helper()
		res, text := b.do(http.MethodGet, back, nil)
		if res.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %.300s", name, res.StatusCode, text)
		}
		for _, c := range res.Cookies() {
			if c.Name == "remit-ui" {
				t.Errorf("%s has a session", name)
			}
		}
	}
	ann, mallory := &browser{s: s.service}, &browser{s: s.service}
	back := s.away(ann, "/ui/sign-in/company")
	refused("a browser that began nothing", &browser{s: s.service}, back)
	s.away(mallory, "/ui/sign-in/company")
	refused("another browser's answer", mallory, back)
	other := s.away(mallory, "/ui/sign-in/company")
	first, _ := url.Parse(back)
	second, _ := url.Parse(other)
	mixed := second.Query()
	mixed.Set("code", first.Query().Get("code"))
	refused("a code of another sign-in, which has another nonce and verifier", mallory, second.Path+"?"+mixed.Encode())
	refused("an answer of another issuer", ann, back+"&iss=https://other.example")
	refused("two codes", ann, back+"&code=x")
	refused("an error", ann, strings.Replace(back, "code=", "error=", 1))
	fresh := s.away(ann, "/ui/sign-in/company")
	attempt := ann.cookie
	if res, text := ann.do(http.MethodGet, fresh, nil); res.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", res.StatusCode, text)
	}
	ann.cookie = attempt
	refused("the same answer again", ann, fresh)
	s.idp.SignsIn(map[string]any{"sub": "eve", "groups": []string{"visitors"}})
	eve := &browser{s: s.service}
	res, text := eve.do(http.MethodGet, s.away(eve, "/ui/sign-in/company"), nil)
	if res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "give no role here") {
		t.Errorf("a person without a role: %d %s", res.StatusCode, text)
	}
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}, "azp": "another-client"})
	refused("a token for another client", ann, s.away(ann, "/ui/sign-in/company"))
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}, "nonce": "another"})
	refused("a token of another sign-in", ann, s.away(ann, "/ui/sign-in/company"))
	s.idp.SignsIn(nil)
	refused("a person who said no", ann, s.away(ann, "/ui/sign-in/company"))
	if res, _ := ann.do(http.MethodGet, "/ui/sign-in/elsewhere", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("an unknown issuer: %d", res.StatusCode)
	}
}

func TestAPersonConfirmsAtTheIssuer(t *testing.T) {
	s := newTeam(t)
	b := s.signIn("ann", "developers")
	form := url.Values{"do": {"accept"}, "digest": {strings.Repeat("0", 64)}}
	res, text := b.do(http.MethodPost, "/ui/tools/fs.read", form)
	if res.StatusCode != http.StatusForbidden || !strings.Contains(text, `href="/ui/sign-in/company?again"`) || strings.Contains(text, "remit ui --print") {
		t.Errorf("a dangerous action: %d %s", res.StatusCode, text)
	}
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}, "auth_time": time.Now().Add(-time.Hour).Unix()})
	if res, text := b.do(http.MethodGet, s.away(b, "/ui/sign-in/company?again"), nil); res.StatusCode != http.StatusUnauthorized || !strings.Contains(text, "asked you again") {
		t.Errorf("an issuer that did not ask again: %d %s", res.StatusCode, text)
	}
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}, "auth_time": time.Now().Unix()})
	res, _ = b.do(http.MethodGet, s.away(b, "/ui/sign-in/company?again"), nil)
	b.session(res)
	if res, text := b.do(http.MethodPost, "/ui/tools/fs.read", form); strings.Contains(text, "Confirm that it is you") {
		t.Errorf("after the issuer asked again: %d %s", res.StatusCode, text)
	}
}

// TestForgedCookiesOfSignInsReachNobody: what a browser makes up is refused before the issuer
// is asked.
func TestForgedCookiesOfSignInsReachNobody(t *testing.T) {
	s := newTeam(t)
	for _, value := range []string{"", "e30", "bm9uc2Vuc2U", strings.Repeat("A", 5000)} {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		b := &browser{s: s.service, cookie: &http.Cookie{Name: "remit-ui-sign-in", Value: value}}
		res := b.send(ctx, http.MethodGet, "/ui/signed-in?code=x&state=", nil)
		text, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		stop()
		if res.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "no sign-in under way") {
			t.Errorf("%.20q: %d %s", value, res.StatusCode, text)
		}
	}
}

// TestCookiesBehindAProxyAreSecure: the settings give the web UI an https address, so every cookie
// is for encrypted connections alone, and a cookie of the other name signs nobody in.
func TestCookiesBehindAProxyAreSecure(t *testing.T) {
	s := newTeam(t)
	s.stop()
	config := strings.Replace(teamConfig, "client_secret: secret:oidc", `client_secret: secret:oidc, redirect_url: "HTTPS://127.0.0.1/ui/signed-in"`, 1)
	s.write(filepath.Join(s.homeDir, "config.yaml"), fmt.Sprintf(config, s.idp.URL, developers))
	s.begin()
	check := func(what string, res answer, prefixed bool) *http.Cookie {
		t.Helper()
		cookies := res.Cookies()
		if len(cookies) == 0 {
			t.Fatalf("%s: %d without a cookie", what, res.StatusCode)
		}
		for _, c := range cookies {
			if !c.Secure || !c.HttpOnly || prefixed && (!strings.HasPrefix(c.Name, "__Host-") || c.Path != "/" || c.Domain != "") {
				t.Errorf("%s: the cookie is %s", what, c)
			}
		}
		return cookies[0]
	}
	b := &browser{s: s.service}
	res, _ := b.do(http.MethodGet, "/ui/sign-in/company", nil)
	check("a sign-in under way", res, true)
	res, _ = b.do(http.MethodPost, "/ui/sign-in", url.Values{"code": {s.code()}})
	b.cookie = check("a session", res, true)
	if res, _ := b.do(http.MethodGet, "/ui/", nil); res.StatusCode != http.StatusOK {
		t.Errorf("the session is answered with %d", res.StatusCode)
	}
	res, _ = b.do(http.MethodPost, "/ui/settings/theme", url.Values{"theme": {"dark"}})
	check("a preference", res, false)
	old := &browser{s: s.service, cookie: &http.Cookie{Name: "remit-ui", Value: b.cookie.Value}}
	if res, _ := old.do(http.MethodGet, "/ui/", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a cookie of an unencrypted session is answered with %d", res.StatusCode)
	}
}

// TestAnIssuerThatNamesItselfMustDoSo: where the issuer's metadata says that answers name the
// issuer, one without its name may be another's.
func TestAnIssuerThatNamesItselfMustDoSo(t *testing.T) {
	s := newTeam(t)
	s.idp.Change(map[string]any{"authorization_response_iss_parameter_supported": true})
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}})
	for more, want := range map[string]int{"": 401, "&iss=": 401, "&iss=https://other.example": 401, "&iss=" + url.QueryEscape(s.idp.URL): 200} {
		b := &browser{s: s.service}
		if res, text := b.do(http.MethodGet, s.away(b, "/ui/sign-in/company")+more, nil); res.StatusCode != want {
			t.Errorf("with %q: %d %.200s", more, res.StatusCode, text)
		}
	}
}

// TestNobodyTakesTheSignInsAndStreamsOfOthers: behind one address, many sign-ins that begin and many
// streams of one browser leave those of others.
func TestNobodyTakesTheSignInsAndStreamsOfOthers(t *testing.T) {
	s := newTeam(t)
	for range 100 {
		(&browser{s: s.service}).do(http.MethodGet, "/ui/sign-in/nobody", nil)
	}
	ann, bob := s.signIn("ann", "developers"), s.signIn("bob", "developers")
	for range 70 {
		defer func(res *http.Response) { _ = res.Body.Close() }(ann.send(t.Context(), http.MethodGet, "/ui/events", nil)) //nolint:bodyclose // the deferred call closes it
	}
	res := bob.send(t.Context(), http.MethodGet, "/ui/events", nil)
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the stream of another person has the status %d", res.StatusCode)
	}
}
