package webui_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/webui"
	"github.com/remitrun/remit/internal/service/devices"
	"github.com/remitrun/remit/internal/service/logins"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	host    = "remit-test.localhost"
	cookie  = "the cookie of this browser"
	tokenIs = "Bearer the token of this browser"
)

var now = time.Date(2026, 11, 21, 12, 5, 0, 0, time.UTC)

// browsers is one signed-in browser.
type browsers struct {
	out       []string
	confirmed time.Time
	revoked   bool
}

// Usable implements webui.Gate.
func (b *browsers) Usable(_ context.Context, token string) error {
	if b.revoked || token != b.device().Token {
		return fault.New(fault.GrantRevoked, "the grant was revoked")
	}
	return nil
}

// guarded are devices with the gate of their grants.
type guarded interface {
	webui.Devices
	webui.Gate
}

func (b *browsers) device() devices.Device {
	return devices.Device{
		ID: "019a1fe7-0b1c-7a52-9e55-000000000001", Holder: "user:ann", Label: "Chrome on Linux", Since: now.Add(-time.Hour), Seen: now, Confirmed: b.confirmed, Until: now.Add(6 * 24 * time.Hour),
		Token: strings.TrimPrefix(tokenIs, "Bearer "),
	}
}

func (b *browsers) SignIn(_ context.Context, code, _ string) (string, devices.Device, error) {
	if code != "right" {
		return "", devices.Device{}, fault.New(fault.GrantInvalid, "this sign-in link was used already, or is older than a minute").WithHint("run remit ui again")
	}
	return cookie, b.device(), nil
}

func (b *browsers) Admit(context.Context, string, time.Time, string) (string, devices.Device, error) {
	return cookie, b.device(), nil
}

func (b *browsers) Enter(_ context.Context, c string) (devices.Device, error) {
	if c != cookie {
		return devices.Device{}, fault.New(fault.GrantInvalid, "this browser is not signed in").WithHint("run remit ui")
	}
	return b.device(), nil
}

func (b *browsers) List(context.Context) ([]devices.Device, error) {
	other := b.device()
	other.ID, other.Label, other.Seen = "019a1fe7-0b1c-7a52-9e55-000000000002", "Firefox on Android", now.Add(-3*time.Hour)
	of := other
	of.ID, of.Holder = "019a1fe7-0b1c-7a52-9e55-000000000003", "user:bob"
	return []devices.Device{b.device(), other, of}, nil
}

func (b *browsers) Confirm(_ context.Context, id, code string) error {
	if code != "right" || id != b.device().ID {
		return fault.New(fault.GrantInvalid, "this sign-in link was used already, or is older than a minute").WithHint("run remit ui again")
	}
	b.confirmed = now
	return nil
}

func (b *browsers) Prove(challenge, address string) string { return challenge + " at " + address }

func (b *browsers) SignOut(_ context.Context, id string) error {
	b.out = append(b.out, id)
	return nil
}

// api answers requests from the files in testdata/api.
type api struct {
	t    *testing.T
	sent []string // method, path and body of requests that change something
	fail map[string]string

	match string // the If-Match of the last one

	done map[string]string // answers to requests that change something, by path
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if got := r.Header.Get("Authorization"); got != tokenIs {
		a.t.Errorf("%s %s presents %q", r.Method, r.URL, got)
	}
	if r.Method != http.MethodGet {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		a.sent = append(a.sent, r.Method+" "+r.URL.Path+" "+b.String())
	}
	if text, ok := a.done[r.URL.Path]; ok && r.Method != http.MethodGet {
		var p struct {
			Status any `json:"status"`
		}
		_ = json.Unmarshal([]byte(text), &p)
		if n, ok := p.Status.(float64); ok {
			w.WriteHeader(int(n))
		}
		a.match = r.Header.Get("If-Match")
		_, _ = w.Write([]byte(text))
		return
	}
	if text, ok := a.fail[r.URL.Path]; ok {
		var p struct {
			Status int `json:"status"`
		}
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			a.t.Error(err)
		}
		w.WriteHeader(p.Status)
		_, _ = w.Write([]byte(text))
		return
	}
	name := strings.NewReplacer("/", "_", ":", "-").Replace(strings.TrimPrefix(r.URL.Path, "/v1/"))
	if name == "sessions" && r.URL.Query().Get("parent_id") != "" {
		name = "children"
	}
	if name == "approvals" && r.URL.Query().Get("interrupted") != "" {
		name = "approvals_interrupted"
	}
	if q := r.URL.Query(); name == "runs" && (q.Get("failed") != "" || q.Get("status") != "") {
		name = "none"
	}
	if parent := r.URL.Query().Get("parent_id"); name == "grants" && parent != "" {
		if name = "grants_below_" + parent; !exists(filepath.Join("testdata", "api", name+".json")) {
			name = "none"
		}
	}
	b, err := os.ReadFile(filepath.Join("testdata", "api", name+".json"))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"status":404,"title":"Not Found","code":"E3001","detail":"nothing has this ID"}`))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// oneLogin has a program that waits, and says of itself what it likes.
type oneLogin struct{}

func (oneLogin) Find(_ context.Context, code string) (logins.Waiting, error) {
	if code != "BCDF-GHJK" {
		return logins.Waiting{}, fault.New(fault.NotFound, "no program waits with this code")
	}
	q := logins.Request{Client: "<b>remit</b>", Device: "ann@laptop\u202e", Policy: "version: 1\n# </textarea>\n", Lasts: 2 * time.Hour, From: "192.0.2.7"}
	return logins.Waiting{Request: q, Code: code, Since: now.Add(-time.Minute)}, nil
}

func (l oneLogin) Decide(ctx context.Context, code string, grant func(logins.Waiting) (logins.Given, error)) error {
	w, err := l.Find(ctx, code)
	if err == nil && grant != nil {
		_, err = grant(w)
	}
	return err
}

func newServer(t *testing.T) (*webui.Server, *api, *browsers) {
	t.Helper()
	b := &browsers{confirmed: now.Add(-time.Minute)}
	s, a := serverOf(t, b)
	return s, a, b
}

func serverOf(t *testing.T, d guarded) (*webui.Server, *api) {
	t.Helper()
	a := &api{t: t, fail: map[string]string{}}
	s, err := webui.New(webui.Options{API: a, Devices: d, Gate: d, Logins: oneLogin{}, Host: host, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// ask makes a request of the signed-in browser; form is nil for GET.
func ask(s http.Handler, path string, form url.Values, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "http://"+host+":8642"+path, nil)
	if form != nil {
		r = httptest.NewRequest(http.MethodPost, "http://"+host+":8642"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	r.AddCookie(&http.Cookie{Name: "remit-ui", Value: cookie})
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

const (
	questionID = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"
	runID      = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b55"
	sessionID  = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b77"
	scheduleID = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2c11"
	agentID    = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b88"
)

func TestPages(t *testing.T) {
	s, _, _ := newServer(t)
	for name, path := range map[string]string{
		"inbox": "/ui/", "approvals": "/ui/approvals", "approval": "/ui/approvals/" + questionID, "proposal": "/ui/approvals/019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b45", "runs": "/ui/runs?state=denied&tool=fs.write", "run-new": "/ui/runs/new", "run": "/ui/runs/" + runID + "?verify=1",
		"call": "/ui/runs/" + runID + "/calls/2", "settings": "/ui/settings", "grants": "/ui/grants", "grant-new": "/ui/grants/new", "grant": "/ui/grants/" + grantID, "grant-revoke": "/ui/grants/" + grantID + "?ask=revoke", "audit": "/ui/audit?event=run_started&denied=1", "queue": "/ui/queue", "schedules": "/ui/schedules", "schedule": "/ui/schedules/" + scheduleID, "schedule-new": "/ui/schedules/new", "changesets": "/ui/changes", "changes": "/ui/changes/" + runID, "changes-discard": "/ui/changes/" + runID + "?ask=discard", "problem": "/ui/approvals/nothing",
		"tools": "/ui/tools?q=e&risk=critical", "tool": "/ui/tools/mcp:files%2Fread", "policies": "/ui/policies?run=" + runID, "flows": "/ui/flows", "labels": "/ui/labels?label=web", "labels-clear": "/ui/labels?clear=/home/ann/%3Cb%3E", "event": "/ui/audit/39", "refusals": "/ui/audit/refusals",
		"sessions": "/ui/sessions?state=waiting&agent=" + agentID, "session-new": "/ui/sessions/new?agent=" + agentID, "session": "/ui/sessions/" + sessionID + "?command=" + runID,
		"agents": "/ui/agents", "agent-new": "/ui/agents/new", "agent": "/ui/agents/" + agentID, "config": "/ui/agents/" + agentID + "/capabilities/web_fetch",
		"login": "/ui/login?code=BCDF-GHJK", "login-code": "/ui/login?code=nope", "capabilities": "/ui/capabilities", "capability": "/ui/capabilities/web_fetch",
		"session-help": "/ui/sessions/" + sessionID + "?help=all", "files": "/ui/sessions/" + sessionID + "/files", "file": "/ui/sessions/" + sessionID + "/files/notes/a.md",
	} {
		t.Run(name, func(t *testing.T) {
			w := ask(s, path, nil)
			golden(t, name+".html", w.Body.Bytes())
			var zipped bytes.Buffer
			z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
			_, _ = z.Write(w.Body.Bytes())
			_ = z.Close()
			if zipped.Len() > 30<<10 {
				t.Errorf("the page has %d bytes when compressed, over 30 KB", zipped.Len())
			}
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from what is served (-update rewrites it):\n%s", file, got)
	}
}

func TestEveryAnswerHasThePolicy(t *testing.T) {
	s, a, _ := newServer(t)
	a.fail["/v1/runs"] = `{"status":503,"title":"Service Unavailable","code":"E7001","detail":"the service cannot do this now"}`
	foreign := func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }
	out := func(r *http.Request) { r.Header.Del("Cookie") }
	for _, c := range []struct {
		name   string
		answer *httptest.ResponseRecorder
		status int
	}{
		{"a page", ask(s, "/ui/", nil), 503},
		{"approvals", ask(s, "/ui/approvals", nil), 200},
		{"an asset", ask(s, "/ui/static/app.css", nil), 200},
		{"a missing asset", ask(s, "/ui/static/none.js", nil), 404},
		{"the icon", ask(s, "/ui/icon.svg?n=3", nil), 200},
		{"the path without a slash", ask(s, "/ui", nil), 303},
		{"an unknown page", ask(s, "/ui/nothing", nil), 404},
		{"signed out", ask(s, "/ui/", nil, out), 401},
		{"signed out, an unknown page", ask(s, "/ui/nothing", nil, out), 401},
		{"signed out, events", ask(s, "/ui/events", nil, out), 401},
		{"the sign-in page", ask(s, "/ui/sign-in?code=right", nil, out), 200},
		{"another host", ask(s, "/ui/", nil, func(r *http.Request) { r.Host = "127.0.0.1:8642" }), 403},
		{"a foreign form", ask(s, "/ui/sign-in", url.Values{"code": {"right"}}, foreign), 403},
		{"a refused API request", ask(s, "/ui/runs", nil), 503},
		{"a method that is not served", ask(s, "/ui/runs", url.Values{}), 404},
		{"a form that is too large", ask(s, "/ui/approvals/"+questionID, url.Values{"reason": {strings.Repeat("x", 300<<10)}}), 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.answer.Header()
			if c.answer.Code != c.status {
				t.Errorf("got status %d, want %d", c.answer.Code, c.status)
			}
			for name, want := range map[string]string{
				"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
				"Cache-Control": "no-store", "X-Frame-Options": "DENY",
			} {
				if got := h.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			csp := h.Get("Content-Security-Policy")
			for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
				if !strings.Contains(csp, part) {
					t.Errorf("the content security policy lacks %s: %s", part, csp)
				}
			}
			if strings.Contains(csp, "unsafe") {
				t.Errorf("the content security policy is weak: %s", csp)
			}
		})
	}
}

func TestNoPageHasInlineScriptOrStyle(t *testing.T) {
	list, err := filepath.Glob("templates/*.html")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, file := range list {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ToLower(string(b))
		for _, bad := range []string{"<style", " style=", "javascript:", " onclick", " onload", " onerror", " onsubmit", "<iframe", "<base", "http-equiv"} {
			if strings.Contains(text, bad) {
				t.Errorf("%s has %q", file, bad)
			}
		}
		if n := strings.Count(text, "<script"); n != strings.Count(text, "<script src=\"/ui/static/") {
			t.Errorf("%s has a script that is not a file of its own", file)
		}
	}
}

// TestScriptsAreThese holds the vendored script to the published one, and all of them to
// their bound.
func TestScriptsAreThese(t *testing.T) {
	b, err := os.ReadFile("static/idiomorph.js")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	const published = "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96" // dist/idiomorph.min.js of version 0.8.0
	if got := hex.EncodeToString(sum[:]); got != published {
		t.Errorf("static/idiomorph.js has the digest %s, not that of version 0.8.0", got)
	}
	if _, err := os.Stat("static/idiomorph.LICENSE"); err != nil {
		t.Error(err)
	}
	own, err := os.ReadFile("static/app.js")
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	_, _ = z.Write(append(b, own...))
	_ = z.Close()
	if zipped.Len() > 12<<10 {
		t.Errorf("the scripts have %d bytes when compressed, over 12 KB", zipped.Len())
	}
	for _, bad := range []string{"eval(", "new Function", "innerHTML", "outerHTML =", "insertAdjacentHTML", "document.write", "localStorage", "createPolicy"} {
		if bytes.Contains(own, []byte(bad)) {
			t.Errorf("app.js has %q", bad)
		}
	}
}

func TestAnswers(t *testing.T) {
	const digest = "d0c5"
	path := "/ui/approvals/" + questionID
	for name, c := range map[string]struct {
		form   url.Values
		sent   string
		status int
	}{
		"refuse":                {url.Values{"answer": {"refuse"}, "digest": {digest}, "reason": {"not on a Friday"}}, "POST /v1/approvals/" + questionID + `/deny {"digest":"d0c5","reason":"not on a Friday"}`, 303},
		"allow this call":       {url.Values{"answer": {"once"}, "digest": {digest}}, "POST /v1/approvals/" + questionID + `/approve {"digest":"d0c5"}`, 303},
		"allow matching calls":  {url.Values{"answer": {"matching"}, "digest": {digest}}, "POST /v1/approvals/" + questionID + `/approve {"digest":"d0c5","session":true}`, 303},
		"without a digest":      {url.Values{"answer": {"once"}}, "", 400},
		"without an answer":     {url.Values{"digest": {digest}}, "", 400},
		"with an unknown word":  {url.Values{"answer": {"all"}, "digest": {digest}}, "", 400},
		"with nothing whatever": {url.Values{}, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.fail["/v1/approvals/"+questionID+"/deny"], a.fail["/v1/approvals/"+questionID+"/approve"] = `{"status":200}`, `{"status":200}`
			w := ask(s, path, c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent {
				t.Errorf("got status %d after %q, want %d after %q", w.Code, a.sent, c.status, c.sent)
			}
			if c.status == 303 && w.Header().Get("Location") != path {
				t.Errorf("it goes on with %q", w.Header().Get("Location"))
			}
		})
	}
	t.Run("an answer that does not count", func(t *testing.T) {
		s, a, _ := newServer(t)
		a.fail["/v1/approvals/"+questionID+"/approve"] = `{"status":409,"title":"Conflict","code":"E4006","detail":"the question is not the one that was shown","hint":"read the question again"}`
		w := ask(s, path, url.Values{"answer": {"once"}, "digest": {"old"}, "reason": {"typed <text>"}})
		for _, want := range []string{"the question is not the one that was shown", "E4006", `value="typed &lt;text&gt;"`} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("the page does not say %q", want)
			}
		}
		if w.Code != 409 {
			t.Errorf("got status %d, want 409", w.Code)
		}
	})
}

func TestGetChangesNothing(t *testing.T) {
	s, a, b := newServer(t)
	for _, path := range []string{"/ui/approvals/" + questionID + "?answer=once&digest=d0c5", "/ui/sign-out?device=019a1fe7-0b1c-7a52-9e55-000000000001", "/ui/sign-in?code=right"} {
		ask(s, path, nil)
	}
	if len(a.sent) > 0 || len(b.out) > 0 {
		t.Errorf("reading pages sent %q and signed out %q", a.sent, b.out)
	}
}

func TestSigningInAndOut(t *testing.T) {
	s, _, b := newServer(t)
	if w := ask(s, "/ui/sign-in", url.Values{"code": {"wrong"}}); w.Code != 401 || len(w.Result().Cookies()) != 0 {
		t.Errorf("a wrong code got status %d and cookies %v", w.Code, w.Result().Cookies())
	}
	w := ask(s, "/ui/sign-in", url.Values{"code": {"right"}})
	got := w.Result().Cookies()
	if w.Code != 303 || len(got) != 1 {
		t.Fatalf("signing in got status %d and cookies %v", w.Code, got)
	}
	if c := got[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/ui" || c.Domain != "" || c.MaxAge <= 0 || c.MaxAge > 7*24*3600 {
		t.Errorf("the cookie is %+v", c)
	}
	if w := ask(s, "/ui/sign-out", url.Values{"device": {"019a1fe7-0b1c-7a52-9e55-000000000003"}}); w.Code != 404 || len(b.out) != 0 {
		t.Errorf("signing somebody else out got status %d and signed out %q", w.Code, b.out)
	}
	w = ask(s, "/ui/sign-out", url.Values{"device": {b.device().ID}})
	if w.Code != 303 || len(b.out) != 1 || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out got status %d and signed out %q", w.Code, b.out)
	}
}

func TestAGrantThatEndedSignsOut(t *testing.T) {
	s, a, _ := newServer(t)
	a.fail["/v1/approvals"] = `{"status":401,"title":"Unauthorized","code":"E6003","detail":"the grant was revoked"}`
	w := ask(s, "/ui/approvals", nil)
	if w.Code != 401 || !strings.Contains(w.Body.String(), "the grant was revoked") || strings.Contains(w.Body.String(), "<nav") {
		t.Errorf("got status %d: %s", w.Code, w.Body)
	}
}

func TestALinkOfAnotherSiteCanGoOn(t *testing.T) {
	s, _, _ := newServer(t)
	w := ask(s, "/ui/approvals/"+questionID, nil, func(r *http.Request) {
		r.Header.Del("Cookie") // as browsers do, for a strict cookie
		r.Header.Set("Sec-Fetch-Site", "cross-site")
	})
	if want := `<a href="/ui/approvals/` + questionID + `">`; w.Code != 401 || !strings.Contains(w.Body.String(), want) {
		t.Errorf("got status %d, and no %s: %s", w.Code, want, w.Body)
	}
}

func TestTheCookieNeedsEncryptionUnderTLS(t *testing.T) {
	s, err := webui.New(webui.Options{API: &api{t: t}, Devices: &browsers{}, Gate: &browsers{}, Host: host, TLS: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	c := ask(s, "/ui/sign-in", url.Values{"code": {"right"}}).Result().Cookies()[0]
	if !c.Secure || c.Name != "__Host-remit-ui" || c.Path != "/" || c.Domain != "" {
		t.Errorf("the cookie is %+v", c)
	}
}

func TestAProofIsOfTheAddressThatWasAsked(t *testing.T) {
	s, _, _ := newServer(t)
	at := func(r *http.Request) {
		r.Header.Del("Cookie")
		*r = *r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv6loopback, Port: 8642}))
	}
	if w := ask(s, "/ui/proof?challenge=abc", nil, at); w.Code != 200 || w.Body.String() != "abc at [::1]:8642" {
		t.Errorf("got status %d: %s", w.Code, w.Body)
	}
	for _, path := range []string{"/ui/proof", "/ui/proof?challenge=" + strings.Repeat("x", 200)} {
		if w := ask(s, path, nil, at); w.Code != 400 {
			t.Errorf("%.40s has status %d", path, w.Code)
		}
	}
}

func TestAnIncompleteServerIsRefused(t *testing.T) {
	if s, err := webui.New(webui.Options{}); err == nil {
		t.Errorf("the zero options made %v", s)
	}
}
