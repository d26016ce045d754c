package app_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// browser is an HTTP client with the cookie of a browser. Names under localhost are this
// machine, as browsers take them.
type browser struct {
	s      *service
	cookie *http.Cookie
	trusts *x509.CertPool // nil: the service has no certificate
}

// answer is an answer that has been read.
type answer struct {
	StatusCode int
	Header     http.Header
	cookies    []*http.Cookie
}

func (a answer) Cookies() []*http.Cookie { return a.cookies }

func (b *browser) do(method, path string, form url.Values) (answer, string) {
	b.s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res := b.send(ctx, method, path, form)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header, res.Cookies()}, string(text)
}

func (b *browser) send(ctx context.Context, method, path string, form url.Values) *http.Response {
	b.s.t.Helper()
	ui, err := url.Parse(b.s.told.UI)
	if err != nil {
		b.s.t.Fatal(err)
	}
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, b.s.url+path, body)
	if err != nil {
		b.s.t.Fatal(err)
	}
	r.Host = ui.Host
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", ui.Scheme+"://"+ui.Host)
	}
	if b.cookie != nil {
		r.AddCookie(b.cookie)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if b.trusts != nil {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: b.trusts, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true}
		client.Transport = transport
	}
	res, err := client.Do(r)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return res
}

// beside is another process with the same $REMIT_HOME, as remit ui is.
func (s *service) beside() *app.App { return apptest.New(s.t, s.homeDir, s.env...) }

// code makes a sign-in code.
func (s *service) code() string {
	s.t.Helper()
	link, err := s.beside().UILink(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	code, ok := strings.CutPrefix(link, s.told.UI+"/sign-in?code=")
	if !ok || len(code) < 43 {
		s.t.Fatalf("the link is %s", link)
	}
	return code
}

// browser signs a browser in.
func (s *service) browser() *browser {
	s.t.Helper()
	b := &browser{s: s}
	res, text := b.do("POST", "/ui/sign-in", url.Values{"code": {s.code()}})
	if res.StatusCode != 303 || len(res.Cookies()) != 1 {
		s.t.Fatalf("signing in: %d %s", res.StatusCode, text)
	}
	b.cookie = res.Cookies()[0]
	return b
}

func TestUISignIn(t *testing.T) {
	s := newService(t)
	if !regexp.MustCompile(`^http://remit-[a-z2-7]{26}\.localhost:\d+/ui$`).MatchString(s.told.UI) {
		t.Errorf("the web UI is at %s", s.told.UI)
	}
	b, code := &browser{s: s}, s.code()
	for range 3 { // looking at the link does not use it up
		if res, text := b.do("GET", "/ui/sign-in?code="+code, nil); res.StatusCode != 200 || len(res.Cookies()) != 0 || strings.Count(text, "<button") != 1 {
			t.Fatalf("the sign-in page: %d %s", res.StatusCode, text)
		}
	}
	if res, _ := b.do("GET", "/ui/", nil); res.StatusCode != 401 {
		t.Errorf("without a session /ui/ has status %d", res.StatusCode)
	}
	res, _ := b.do("POST", "/ui/sign-in", url.Values{"code": {code}})
	if res.StatusCode != 303 {
		t.Fatalf("signing in has status %d", res.StatusCode)
	}
	b.cookie = res.Cookies()[0]
	if res, text := b.do("GET", "/ui/", nil); res.StatusCode != 200 || !strings.Contains(text, "No call waits for approval") {
		t.Errorf("signed in: %d %s", res.StatusCode, text)
	}
	if res, _ := (&browser{s: s}).do("POST", "/ui/sign-in", url.Values{"code": {code}}); res.StatusCode != 401 || len(res.Cookies()) != 0 {
		t.Errorf("the code worked twice: %d", res.StatusCode)
	}
	var kept []byte
	for _, file := range []string{"remit.db", "remit.db-wal"} {
		b, err := os.ReadFile(filepath.Join(s.homeDir, file))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, b...)
	}
	if !bytes.Contains(kept, []byte("ui.browser")) {
		t.Error("the ledger's file has no browser")
	}
	for what, secret := range map[string]string{"the code": code, "the cookie": b.cookie.Value, "a token": "remit1_"} {
		if strings.Contains(string(kept), secret) {
			t.Errorf("%s is kept as it is", what)
		}
	}
}

func TestUINeedsItsOwnName(t *testing.T) {
	s := newService(t)
	b := s.browser()
	status, head, text := s.raw("GET", "/ui/", "", "", "Cookie", b.cookie.String())
	if status != 403 || strings.Contains(string(text), "remit-") || !strings.Contains(head.Get("Content-Security-Policy"), "trusted-types") {
		t.Errorf("under 127.0.0.1, with the cookie: %d %s", status, text)
	}
}

func TestUIWithoutAService(t *testing.T) {
	a := apptest.New(t, t.TempDir())
	if link, err := a.UILink(t.Context()); fault.CodeOf(err) != fault.NotFound || link != "" {
		t.Errorf("got %q, %v", link, err)
	}
	s := newService(t)
	s.stop()
	if link, err := s.beside().UILink(t.Context()); fault.CodeOf(err) != fault.NotFound || link != "" {
		t.Errorf("after the service ended: %q, %v", link, err)
	}
}

// squat answers at the addresses of a stopped service, as another process of this machine can.
func squat(t *testing.T, s *service, answer http.HandlerFunc) {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port)) //nolint:noctx // it is closed below
		if err != nil {
			t.Fatal(err)
		}
		squatter := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer, ReadHeaderTimeout: time.Minute}}
		squatter.Start()
		t.Cleanup(squatter.Close)
	}
}

// TestUIGivesNoCodeToASquatter kills the service, so that it cannot say that it ended.
func TestUIGivesNoCodeToASquatter(t *testing.T) {
	s := newService(t)
	file := filepath.Join(s.homeDir, "ui", "service.json")
	says, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if err := os.WriteFile(file, says, 0o600); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int64
	squat(t, s, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, r.URL.Query().Get("challenge"))
	})
	if link, err := s.beside().UILink(t.Context()); fault.CodeOf(err) != fault.Denied || link != "" {
		t.Errorf("with a squatter: %q, %v", link, err)
	}
	if asked.Load() == 0 {
		t.Error("the squatter was not asked")
	}
	_, st, err := s.beside().Grants.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var told struct{ Host string }
	if err := json.Unmarshal(says, &told); err != nil || told.Host == "" {
		t.Fatalf("%s: %v", says, err)
	}
	if codes, err := st.Ephemerals(t.Context(), "ui.code", told.Host); err != nil || len(codes) > 0 {
		t.Errorf("there is a code: %v, %v", codes, err)
	}
}

// TestUITakesNoRelayedProof has another process at one address of localhost, which passes
// what it is asked on to the service at another one.
func TestUITakesNoRelayedProof(t *testing.T) {
	s := newService(t)
	file := filepath.Join(s.homeDir, "ui", "service.json")
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := http.NewRequestWithContext(r.Context(), r.Method, s.url+r.URL.RequestURI(), http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		q.Host = strings.TrimSuffix(strings.TrimPrefix(s.told.UI, "http://"), "/ui")
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(w, res.Body); err != nil || res.StatusCode != 200 {
			t.Error(res.Status, err)
		}
	}))
	defer relay.Close()
	says, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	port := func(address string) string { return address[strings.LastIndex(address, ":")+1:] }
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(says), ":"+port(s.url), ":"+port(relay.URL))), 0o600); err != nil {
		t.Fatal(err)
	}
	if link, err := s.beside().UILink(t.Context()); fault.CodeOf(err) != fault.Denied || link != "" {
		t.Errorf("with a relay: %q, %v", link, err)
	}
}

func TestUISessionsEndWithTheService(t *testing.T) {
	s := newService(t)
	b := s.browser()
	old := s.told.UI
	s.stop()
	s.start()
	if s.told.UI == old {
		t.Errorf("the web UI is at %s again", old)
	}
	if res, _ := b.do("GET", "/ui/", nil); res.StatusCode != 401 {
		t.Errorf("the cookie of the last start has status %d", res.StatusCode)
	}
}

func TestUISessionsOutliveTheServiceUnderTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	named := func(q *app.ServeRequest) { q.Cert, q.Key, q.Hosts = cert, key, []string{"remit.test"} }
	s := newService(t, named)
	b := &browser{s: s, trusts: pool}
	res, text := b.do("POST", "/ui/sign-in", url.Values{"code": {s.code()}})
	if res.StatusCode != 303 || len(res.Cookies()) != 1 || !res.Cookies()[0].Secure {
		t.Fatalf("signing in: %d %s", res.StatusCode, text)
	}
	b.cookie = res.Cookies()[0]
	s.stop()
	s.start(named)
	if res, text := b.do("GET", "/ui/", nil); res.StatusCode != 200 {
		t.Errorf("after a restart: %d %s", res.StatusCode, text)
	}
}

// ask puts a question with a call of an agent.
func (s *service) askPerson() store.Approval {
	s.t.Helper()
	a := s.beside()
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	policy := filepath.Join(s.dir, "ask.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nname: ask\nfiles: {write: {ask: [\"**\"]}}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	r, err := a.Runs.Begin(s.t.Context(), runs.Request{Name: "writer", Workspace: dir, Policy: policy})
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := r.Call(s.t.Context(), runner.Call{Tool: "fs.write", Args: map[string]any{"path": "a.txt", "content": "x"}}); err != nil {
		s.t.Fatal(err)
	}
	if err := r.End(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	list, err := a.Approvals.List(s.t.Context(), store.QuestionFilter{State: store.Waiting})
	if err != nil || len(list) != 1 {
		s.t.Fatal(list, err)
	}
	return list[0]
}

func TestUIAnswersAsThePerson(t *testing.T) {
	s := newService(t)
	b, q := s.browser(), s.askPerson()
	path := "/ui/approvals/" + q.ID.String()
	if _, text := b.do("GET", path, nil); !strings.Contains(text, `name="digest" value="`+q.Digest+`"`) || q.Digest == "" {
		t.Errorf("the card has not the question's digest %q: %s", q.Digest, text)
	}
	if res, text := b.do("POST", path, url.Values{"answer": {"once"}, "digest": {strings.Repeat("0", 64)}}); res.StatusCode != 409 || !strings.Contains(text, "is not the one that was shown") {
		t.Errorf("an answer to another question: %d %s", res.StatusCode, text)
	}
	if res, text := b.do("POST", path, url.Values{"answer": {"once"}, "digest": {q.Digest}}); res.StatusCode != 303 {
		t.Fatalf("an answer: %d %s", res.StatusCode, text)
	}
	if res, text := b.do("POST", path, url.Values{"answer": {"once"}, "digest": {q.Digest}}); res.StatusCode < 400 || !strings.Contains(text, "approved already") {
		t.Errorf("a second answer: %d %s", res.StatusCode, text)
	}
	got, _, err := s.beside().Approvals.Find(t.Context(), q.ID.String())
	if err != nil || got.State != store.Approved || len(got.Votes) != 1 {
		t.Fatal(got, err)
	}
	if v := got.Votes[0]; v.By != home.Person() || v.Where != "web ui" || v.Grant.String() == "" {
		t.Errorf("the answer is recorded as %+v", v)
	}
}

// TestOnlyDevicesAnswerUnderNarrowedGrants holds that a grant which a person narrowed for an
// agent cannot answer in the person's name, as a browser of the person can.
func TestOnlyDevicesAnswerUnderNarrowedGrants(t *testing.T) {
	s := newService(t)
	q := s.askPerson()
	token, _ := s.narrow("version: 1\nname: all\nrest: inherit\n", `,"note":"web UI: Chrome on Linux"`)
	if status, m := s.ask("POST", "/v1/approvals/"+q.ID.String()+"/approve", token, "{}"); status != 403 {
		t.Errorf("a narrowed grant answered: %d %v", status, m)
	}
}

func TestUIMakesANarrowerGrant(t *testing.T) {
	s := newService(t)
	b := s.browser()
	res, text := b.do("POST", "/ui/grants/new", url.Values{"policy": {"version: 1\nrest: inherit\n"}, "calls": {"5"}})
	token := regexp.MustCompile(`remit1_[^<]+`).FindString(text)
	made := regexp.MustCompile(`/ui/grants/([0-9a-f-]{36})`).FindStringSubmatch(text)
	if res.StatusCode != 200 || token == "" || len(made) != 2 {
		t.Fatalf("making a grant: %d %s", res.StatusCode, text)
	}
	status, below := s.ask("POST", "/v1/grants", token, `{"policies":["version: 1\nrest: inherit\n"]}`)
	if status != 201 {
		t.Fatal(status, below)
	}
	list := s.must(200, "GET", "/v1/grants?parent_id="+made[1], "")["items"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["id"] != below["id"] {
		t.Errorf("below %s are %v, want %v", made[1], list, below["id"])
	}
	if status, m := s.ask("GET", "/v1/grants?parent_id=nothing", s.token, ""); status != 422 && status != 400 {
		t.Errorf("a parent that is not an ID: %d %v", status, m)
	}
}

func TestUIRevokesAGrantWithThoseBelowIt(t *testing.T) {
	s := newService(t)
	b := s.browser()
	const all = "version: 1\nrest: inherit\n"
	token, id := s.narrow(all)
	status, below := s.ask("POST", "/v1/grants", token, `{"policies":["version: 1\nrest: inherit\n"]}`)
	if status != 201 {
		t.Fatal(status, below)
	}
	path := "/ui/grants/" + id
	if _, text := b.do("GET", path+"?ask=revoke", nil); !strings.Contains(text, "<b>1 grant below it</b>") || !strings.Contains(text, `name="shown" value="1/1"`) {
		t.Errorf("it is not said what ends too: %s", text)
	}
	if res, text := b.do("POST", path, url.Values{"do": {"revoke"}, "shown": {"0/0"}}); res.StatusCode != 409 {
		t.Errorf("revoking with less shown: %d %s", res.StatusCode, text)
	}
	if res, text := b.do("POST", path, url.Values{"do": {"revoke"}, "shown": {"1/1"}, "reason": {"done"}}); res.StatusCode != 303 {
		t.Fatalf("revoking: %d %s", res.StatusCode, text)
	}
	if _, text := b.do("GET", "/ui/grants/"+below["id"].(string), nil); !strings.Contains(text, "s-revoked") {
		t.Errorf("the grant below is not revoked: %s", text)
	}
	if status, m := s.ask("GET", "/v1/grants", token, ""); status != 401 {
		t.Errorf("the revoked grant: %d %v", status, m)
	}
}

func TestUISigningOutEndsStreams(t *testing.T) {
	s := newService(t)
	for name, end := range map[string]func(b *browser, id string){
		"sign out": func(b *browser, id string) { b.do("POST", "/ui/sign-out", url.Values{"device": {id}}) },
		"revoke the grant": func(b *browser, id string) {
			if _, err := s.beside().Grants.SetStanding(t.Context(), id, store.Revoked, "lost"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := s.browser()
			_, text := b.do("GET", "/ui/settings", nil)
			at := regexp.MustCompile(`this one</span></td><td><code title="([0-9a-f-]{36})"`).FindStringSubmatch(text)
			if at == nil {
				t.Fatalf("the settings do not list this browser: %s", text)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			res := b.send(ctx, "GET", "/ui/events", nil)
			defer func() { _ = res.Body.Close() }()
			if res.StatusCode != 200 || !strings.Contains(res.Header.Get("Content-Security-Policy"), "trusted-types") {
				t.Fatalf("events: %d %v", res.StatusCode, res.Header)
			}
			end(b, at[1])
			if _, err := io.Copy(io.Discard, res.Body); err != nil {
				t.Errorf("the stream: %v", err)
			}
			if res, _ := b.do("GET", "/ui/", nil); res.StatusCode != 401 {
				t.Errorf("afterwards /ui/ has status %d", res.StatusCode)
			}
		})
	}
}

func TestUITellsWhatChanged(t *testing.T) {
	s := newService(t)
	b := s.browser()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, text := b.do("GET", "/ui/", nil)
	seq := regexp.MustCompile(`data-seq="(\d+)"`).FindStringSubmatch(text)
	if seq == nil {
		t.Fatalf("the page does not say what it shows: %s", text)
	}
	s.askPerson() // before the stream is open: it begins where the page ends
	res := b.send(ctx, "GET", "/ui/events?after="+seq[1], nil)
	defer func() { _ = res.Body.Close() }()
	var told []string
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			told = append(told, data)
			if strings.Contains(data, `"approvals"`) {
				return
			}
		}
	}
	t.Errorf("the browser was told %q", told)
}
