package agentlogins_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/agentlogins"
)

// person is one with logins, and an issuer that renews them.
type person struct {
	*agentlogins.Logins

	t         *testing.T
	home, dir string
	renewals  atomic.Int32
	answer    func(w http.ResponseWriter, refresh string) // nil: the issuer renews
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newPerson(t *testing.T) *person {
	t.Helper()
	p := &person{t: t, home: t.TempDir(), dir: t.TempDir()}
	p.Logins = p.process()
	return p
}

// process is another one that has the same logins.
func (p *person) process() *agentlogins.Logins {
	p.t.Helper()
	l := agentlogins.New(p.home, p.dir)
	l.At(func() time.Time { return began })
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := p.renewals.Add(1)
		var q map[string]string
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q["grant_type"] != "refresh_token" || q["client_id"] == "" {
			p.t.Errorf("the request is %v, %v", q, err)
		}
		if p.answer != nil {
			p.answer(w, q["refresh_token"])
			return
		}
		fmt.Fprintf(w, `{"access_token": %q, "refresh_token": "next-%d", "id_token": "a.b.new", "expires_in": 3600}`, token(began.Add(time.Hour))+fmt.Sprint(n), n)
	}))
	p.t.Cleanup(issuer.Close)
	for _, agent := range []string{"claude", "codex"} {
		l.Renewing(agent, issuer.URL)
	}
	return l
}

// token is a JSON Web Token that ends at a time.
func token(ends time.Time) string {
	return "eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, ends.Unix())) + ".sig"
}

// logIn writes a login of the person's.
func (p *person) logIn(agent string, ends time.Time) {
	p.t.Helper()
	text := fmt.Sprintf(`{"claudeAiOauth": {"accessToken": "REAL-%s", "refreshToken": "REAL-refresh", "expiresAt": %d, "scopes": ["a"], "later": 1}, "mcpOAuth": {"x": "REAL"}}`, token(ends), ends.UnixMilli())
	if agent == "codex" {
		text = fmt.Sprintf(`{"auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": {"access_token": %q, "refresh_token": "REAL-refresh", "id_token": "e30.e30.REAL", "account_id": "acc"}, "last_refresh": "2026-01-01T00:00:00Z"}`, token(ends))
	}
	p.put(agent, text)
}

func (p *person) file(agent string) string { return filepath.Join(p.home, agentlogins.File(agent)) }

func (p *person) put(agent, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.file(agent)), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(p.file(agent), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// A login is renewed shortly before it ends, by one of all that need it, and its file keeps all else.
func TestALoginIsRenewedOnce(t *testing.T) {
	for _, agent := range []string{"claude", "codex"} {
		for left, renewals := range map[time.Duration]int32{time.Hour: 0, time.Minute: 1, -time.Hour: 1} {
			p := newPerson(t)
			p.logIn(agent, began.Add(left))
			var all sync.WaitGroup
			for _, l := range []*agentlogins.Logins{p.Logins, p.process(), p.process()} {
				for range 10 {
					all.Go(func() {
						if got, ok := l.Token(agent); !ok || got == "" {
							t.Errorf("%s, %v left: no login", agent, left)
						}
					})
				}
			}
			all.Wait()
			if got := p.renewals.Load(); got != renewals {
				t.Errorf("%s, %v left: %d renewals", agent, left, got)
			}
			b, err := os.ReadFile(p.file(agent))
			st, serr := os.Stat(p.file(agent))
			if err != nil || serr != nil || st.Mode().Perm() != 0o600 || agent == "claude" && (!strings.Contains(string(b), `"mcpOAuth"`) || !strings.Contains(string(b), `"later"`)) || agent == "codex" && !strings.Contains(string(b), `"acc"`) {
				t.Errorf("%s: %v, %s", agent, err, b)
			}
			if renewals > 0 && (strings.Contains(string(b), "REAL-refresh") || !strings.Contains(string(b), "next-1")) {
				t.Errorf("%s: the login for the next renewal is lost: %s", agent, b)
			}
			before := string(b)
			if got, ok := p.Token(agent); !ok || !strings.Contains(before, got) || p.renewals.Load() != renewals {
				t.Errorf("%s: %q, %v", agent, got, ok)
			}
		}
	}
}

// Without a renewal a login is used to its end, and the issuer is not asked all the time. A login that the agent itself renewed
// meanwhile counts.
func TestRenewalsThatFail(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter, refresh string){
		"an error": func(w http.ResponseWriter, _ string) {
			http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
		},
		"no token": func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, `{}`) },
		"no JSON":  func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, `<html>`) },
		"a redirect": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", "/x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
		"much": func(w http.ResponseWriter, _ string) {
			_, _ = io.WriteString(w, `{"access_token": "`+strings.Repeat("x", 2<<20))
		},
		"a cut": func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"access_token": "x"`)
		},
	}
	for name, answer := range answers {
		p := newPerson(t)
		p.answer = answer
		p.logIn("claude", began.Add(time.Minute))
		for range 5 {
			if got, ok := p.Token("claude"); !ok || !strings.HasPrefix(got, "REAL-") {
				t.Errorf("%s: %q, %v", name, got, ok)
			}
		}
		if got := p.renewals.Load(); got != 1 {
			t.Errorf("%s: the issuer was asked %d times", name, got)
		}
		p.At(func() time.Time { return began.Add(2 * time.Minute) })
		if got, ok := p.Token("claude"); ok {
			t.Errorf("%s: a login that has ended: %q", name, got)
		}
	}
	p := newPerson(t)
	p.logIn("claude", began.Add(-time.Minute))
	p.answer = func(w http.ResponseWriter, _ string) { // before the renewal ends
		p.logIn("claude", began.Add(time.Hour))
		http.Error(w, "used", http.StatusBadRequest)
	}
	if got, ok := p.Token("claude"); !ok || got != "REAL-"+token(began.Add(time.Hour)) {
		t.Errorf("the agent's renewal does not count: %q, %v", got, ok)
	}
}

// A login is not lost, whatever the issuer says of its time.
func TestTimesOfRenewedLogins(t *testing.T) {
	for _, text := range []string{`28800.0`, `"28800"`, `null`, `-1`, `1e300`, `"soon"`, `{}`, `0`} {
		p := newPerson(t)
		p.logIn("claude", began)
		p.answer = func(w http.ResponseWriter, _ string) {
			_, _ = io.WriteString(w, `{"access_token": "renewed", "refresh_token": "next", "expires_in": `+text+`}`)
		}
		got, ok := p.Token("claude")
		b, err := os.ReadFile(p.file("claude"))
		if !ok || got != "renewed" || err != nil || !strings.Contains(string(b), `"next"`) {
			t.Errorf("%s: %q, %v, %v %s", text, got, ok, err, b)
		}
		if _, ok := p.Token("claude"); !ok || p.renewals.Load() != 1 {
			t.Errorf("%s: it is renewed again", text)
		}
	}
}

// A person who logs out, or in again, while Remit renews the login stays so.
func TestALoginThatChangesDuringARenewal(t *testing.T) {
	p := newPerson(t)
	p.logIn("claude", began)
	p.answer = func(w http.ResponseWriter, _ string) {
		_ = os.Remove(p.file("claude"))
		_, _ = io.WriteString(w, `{"access_token": "renewed"}`)
	}
	if got, ok := p.Token("claude"); ok {
		t.Errorf("logged out: %q", got)
	}
	if _, err := os.Stat(p.file("claude")); err == nil {
		t.Error("the login is back")
	}
	p = newPerson(t)
	p.logIn("claude", began)
	p.answer = func(w http.ResponseWriter, _ string) {
		p.logIn("claude", began.Add(2*time.Hour))
		_, _ = io.WriteString(w, `{"access_token": "renewed", "refresh_token": "other"}`)
	}
	if got, ok := p.Token("claude"); !ok || got != "REAL-"+token(began.Add(2*time.Hour)) {
		t.Errorf("%q, %v", got, ok)
	}
	if b, err := os.ReadFile(p.file("claude")); err != nil || strings.Contains(string(b), "renewed") {
		t.Errorf("%v %s", err, b)
	}
}

// What the agent writes to the file while Remit renews the login stays.
func TestAnOtherChangeOfTheFileStays(t *testing.T) {
	p := newPerson(t)
	p.logIn("claude", began)
	p.answer = func(w http.ResponseWriter, _ string) {
		b, err := os.ReadFile(p.file("claude"))
		if err != nil {
			t.Error(err)
		}
		p.put("claude", strings.Replace(string(b), `"mcpOAuth": {`, `"mcpOAuth": {"new": 1, `, 1))
		_, _ = io.WriteString(w, `{"access_token": "renewed", "expires_in": 600}`)
	}
	if got, ok := p.Token("claude"); !ok || got != "renewed" {
		t.Errorf("%q, %v", got, ok)
	}
	if b, err := os.ReadFile(p.file("claude")); err != nil || !strings.Contains(string(b), `"new": 1`) || !strings.Contains(string(b), `"REAL-refresh"`) || !strings.Contains(string(b), `"renewed"`) {
		t.Errorf("%v %s", err, b)
	}
	if list, err := os.ReadDir(filepath.Dir(p.file("claude"))); err != nil || len(list) != 1 {
		t.Errorf("%v %v", list, err)
	}
}

// Whatever the file of a login has, nothing of it but names for the agent to show is in the placeholder.
func TestPlaceholdersHaveNoSecret(t *testing.T) {
	for agent, texts := range map[string][]string{
		"claude": {"", "{}", "null", "[]", "REAL", `{"claudeAiOauth": null}`, `{"claudeAiOauth": []}`, `{"claudeAiOauth": {"accessToken": 5}}`, `{"claudeAiOauth": {"accessToken": ""}}`,
			"\xef\xbb\xbf" + `{"claudeAiOauth": {"accessToken": "REAL", "other": "REAL", "subscriptionType": "max"}, "mcpOAuth": {"x": "REAL"}, "auth_mode": "x"}`, `{"claudeAiOauth": {"accessToken": "REAL", "expiresAt": "soon"}}`},
		"codex": {"{}", `{"tokens": {"access_token": ""}}`, `{"OPENAI_API_KEY": "REAL"}`, `{"OPENAI_API_KEY": "REAL", "tokens": null, "auth_mode": "apikey"}`,
			`{"tokens": {"access_token": "REAL.REAL.REAL", "refresh_token": "REAL", "id_token": "eyJhIjoxfQ.eyJhIjoxfQ.REAL", "account_id": "acc", "other": "REAL"}}`, `{"tokens": {"access_token": "REAL", "id_token": "REAL"}}`},
	} {
		for _, text := range texts {
			p := newPerson(t)
			p.put(agent, text)
			in, err := p.Placeholder(agent)
			ok := err == nil
			got, also := p.Token(agent)
			if ok != also || ok != strings.Contains(text, `"REAL`) || also && !strings.HasPrefix(got, "REAL") {
				t.Errorf("%s: a placeholder %v, a login %v: %q", text, ok, also, got)
			}
			if strings.Contains(string(in.Content), "REAL") || ok && (!strings.Contains(string(in.Content), in.Token) || !agentlogins.IsPlaceholder(agent, in.Content) || in.File != agentlogins.File(agent)) {
				t.Errorf("%s: %+v %s", text, in, in.Content)
			}
			if in.Key != (agent == "codex" && strings.Contains(text, "OPENAI_API_KEY")) {
				t.Errorf("%s: key %v", text, in.Key)
			}
		}
		if _, err := newPerson(t).Placeholder(agent); !errors.Is(err, fault.NotFound) {
			t.Errorf("%s: without a file, there is a login", agent)
		}
	}
	p := newPerson(t)
	p.logIn("codex", began.Add(time.Hour))
	if in, err := p.Placeholder("codex"); err != nil || !strings.Contains(string(in.Content), `"acc"`) || strings.Contains(string(in.Content), "REAL") || !strings.Contains(string(in.Content), `"last_refresh": "2100-`) {
		t.Errorf("%v %s", err, in.Content)
	}
	if _, err := p.Placeholder("nobody"); !errors.Is(err, fault.NotFound) || agentlogins.IsPlaceholder("codex", []byte("{}")) {
		t.Error("an unknown agent has a login")
	}
}

// A login whose file is a link, as those who keep their settings in a repository have it, is renewed behind the link.
func TestALoginBehindALink(t *testing.T) {
	p := newPerson(t)
	p.logIn("claude", began)
	real := filepath.Join(p.home, "kept.json")
	if err := os.Rename(p.file("claude"), real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, p.file("claude")); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Token("claude"); !ok {
		t.Error("no login")
	}
	if to, err := os.Readlink(p.file("claude")); err != nil || to != real {
		t.Errorf("%q, %v", to, err)
	}
}

// A renewed login whose file cannot be replaced, as one that is mounted, is written in place; one that cannot be written at all is
// used while this process runs.
func TestALoginThatCannotBeSaved(t *testing.T) {
	p := newPerson(t)
	p.logIn("claude", began)
	p.answer = func(w http.ResponseWriter, refresh string) {
		if err := os.RemoveAll(p.file("claude")); err != nil { // a folder in its place can neither be read nor replaced
			t.Error(err)
		}
		if err := os.MkdirAll(filepath.Join(p.file("claude"), "x"), 0o700); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, `{"access_token": "renewed", "refresh_token": "next"}`)
	}
	if got, ok := p.Token("claude"); !ok || got != "renewed" {
		t.Errorf("%q, %v", got, ok)
	}
}
