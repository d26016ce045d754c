package logins_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/logins"
)

// clock is a time that tests set.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func (c *clock) after(d time.Duration) { c.at = c.at.Add(d) }

// newLogins are those of a process of a ledger.
func newLogins(t *testing.T, home string) *logins.Logins {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Options{Home: home, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return &logins.Logins{Store: func(context.Context) (store.Ephemera, error) { return st, nil }}
}

func begin(t *testing.T) (*logins.Logins, *clock, logins.Begun) {
	t.Helper()
	c := &clock{time.Unix(1_800_000_000, 0)}
	l := newLogins(t, t.TempDir())
	l.Now = c.now
	b, err := l.Begin(t.Context(), logins.Request{Client: "remit", Device: "ann@laptop", From: "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	return l, c, b
}

func give(w logins.Waiting) (logins.Given, error) {
	return logins.Given{Token: "token of " + w.Client}, nil
}

func wantRefusal(t *testing.T, l *logins.Logins, device, client string, want logins.Refusal) {
	t.Helper()
	got, err := l.Poll(t.Context(), device, client)
	if why := logins.Refusal(""); got.Token != "" || !errors.As(err, &why) || why != want {
		t.Errorf("the poll gives %v %v, want %s", got, err, want)
	}
}

func TestATokenIsGivenOnce(t *testing.T) {
	l, c, b := begin(t)
	if !regexp.MustCompile(`^[B-Z]{4}-[B-Z]{4}$`).MatchString(b.User) || len(b.Device) < 50 {
		t.Errorf("the codes are %q and %q", b.User, b.Device)
	}
	wantRefusal(t, l, b.Device, "remit", logins.Pending)
	c.after(5 * time.Second)
	typed := strings.ToLower(strings.ReplaceAll(b.User, "-", " "))
	w, err := l.Find(t.Context(), typed)
	if err != nil || w.Device != "ann@laptop" || w.From != "192.0.2.7" || w.Code != b.User {
		t.Fatalf("%+v, %v", w, err)
	}
	if err := l.Decide(t.Context(), typed, give); err != nil {
		t.Fatal(err)
	}
	if err := l.Decide(t.Context(), typed, give); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a second decision: %v", err)
	}
	wantRefusal(t, l, b.Device, "another", logins.Invalid)
	wantRefusal(t, l, b.User, "remit", logins.Invalid)
	if got, err := l.Poll(t.Context(), b.Device, "remit"); err != nil || got.Token != "token of remit" {
		t.Errorf("%v, %v", got, err)
	}
	c.after(time.Minute)
	wantRefusal(t, l, b.Device, "remit", logins.Invalid)
}

func TestProgramsThatAskTooOftenSlowDown(t *testing.T) {
	l, c, b := begin(t)
	wantRefusal(t, l, b.Device, "remit", logins.Pending)
	c.after(4 * time.Second)
	wantRefusal(t, l, b.Device, "remit", logins.SlowDown) // every 10 s from now on
	c.after(9 * time.Second)
	wantRefusal(t, l, b.Device, "remit", logins.SlowDown) // every 15 s
	c.after(15 * time.Second)
	wantRefusal(t, l, b.Device, "remit", logins.Pending)
}

func TestCodesExpire(t *testing.T) {
	l, c, b := begin(t)
	c.after(10 * time.Minute)
	if _, err := l.Find(t.Context(), b.User); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a code of 10 minutes ago: %v", err)
	}
	if err := l.Decide(t.Context(), b.User, give); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("deciding about it: %v", err)
	}
	wantRefusal(t, l, b.Device, "remit", logins.Expired)
	l, c, b = begin(t)
	if err := l.Decide(t.Context(), b.User, give); err != nil {
		t.Fatal(err)
	}
	c.after(10 * time.Minute)
	wantRefusal(t, l, b.Device, "remit", logins.Expired) // also what was given and not fetched
}

func TestARefusalIsTold(t *testing.T) {
	l, _, b := begin(t)
	if err := l.Decide(t.Context(), b.User, func(logins.Waiting) (logins.Given, error) { return logins.Given{}, fault.New(fault.Denied, "no") }); fault.CodeOf(err) != fault.Denied {
		t.Errorf("a grant that cannot be made: %v", err)
	}
	if err := l.Decide(t.Context(), b.User, nil); err != nil { // it waits still
		t.Fatal(err)
	}
	wantRefusal(t, l, b.Device, "remit", logins.Denied)
	wantRefusal(t, l, b.Device, "remit", logins.Invalid)
}

// TestProcessesShareLogins: what begins at one process is decided at another, and given by a
// third, once.
func TestProcessesShareLogins(t *testing.T) {
	home := t.TempDir()
	first, second, third := newLogins(t, home), newLogins(t, home), newLogins(t, home)
	b, err := first.Begin(t.Context(), logins.Request{Client: "remit", From: "192.0.2.7"})
	if err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, third, b.Device, "remit", logins.Pending)
	if err := second.Decide(t.Context(), b.User, give); err != nil {
		t.Fatal(err)
	}
	if err := first.Decide(t.Context(), b.User, nil); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("a second decision: %v", err)
	}
	var all sync.WaitGroup
	var given atomic.Int32
	for _, l := range []*logins.Logins{first, second} { // that it has not polled yet
		all.Go(func() {
			if got, err := l.Poll(t.Context(), b.Device, "remit"); err == nil && got.Token == "token of remit" {
				given.Add(1)
			}
		})
	}
	all.Wait()
	if given.Load() != 1 {
		t.Errorf("the token was given %d times", given.Load())
	}
}

// TestOnePersonDecides: of many who confirm one code at once, one makes a grant.
func TestOnePersonDecides(t *testing.T) {
	l, _, b := begin(t)
	var all sync.WaitGroup
	var made sync.Map
	for i := range 20 {
		all.Go(func() {
			_ = l.Decide(t.Context(), b.User, func(logins.Waiting) (logins.Given, error) { // all but one find nothing
				made.Store(i, true)
				return logins.Given{Token: fmt.Sprint(i)}, nil
			})
		})
	}
	all.Wait()
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	if got, err := l.Poll(t.Context(), b.Device, "remit"); n != 1 || err != nil || got.Token == "" {
		t.Errorf("%d grants, %v %v", n, got, err)
	}
}

func TestRequestsAreBounded(t *testing.T) {
	home := t.TempDir()
	l, c := newLogins(t, home), &clock{time.Now()}
	l.Now = c.now
	ask := func(from string) error {
		_, err := l.Begin(t.Context(), logins.Request{Client: "x", From: from})
		return err
	}
	for range 5 {
		if err := ask("192.0.2.7"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask("192.0.2.7"); fault.CodeOf(err) != fault.LimitReached {
		t.Errorf("the sixth of one address: %v", err)
	}
	for i := range 195 {
		if err := ask(fmt.Sprint("192.0.3.", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask("192.0.4.1"); fault.CodeOf(err) != fault.LimitReached {
		t.Errorf("one more than may wait: %v", err)
	}
	other := newLogins(t, home)
	if _, err := other.Begin(t.Context(), logins.Request{Client: "x", From: "192.0.4.1"}); fault.CodeOf(err) != fault.LimitReached {
		t.Errorf("one more at another process: %v", err)
	}
	for name, q := range map[string]logins.Request{"no program": {}, "a large policy": {Client: "x", Policy: strings.Repeat("a", 20<<10)}, "a negative time": {Client: "x", Lasts: -1}} {
		if _, err := newLogins(t, t.TempDir()).Begin(t.Context(), q); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%s: %v", name, err)
		}
	}
	b, err := newLogins(t, t.TempDir()).Begin(t.Context(), logins.Request{Client: "evil\x1b[2J\u202e" + strings.Repeat("x", 500), From: "a"})
	if err != nil || b.User == "" {
		t.Error(err)
	}
}

// service answers the two endpoints of a service; token gives the answers to polls in turn.
func service(t *testing.T, begun string, token ...string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == logins.AuthorizePath:
			_, _ = w.Write([]byte(begun))
		case len(token) == 0:
			t.Error("a poll too many")
		default:
			switch {
			case strings.Contains(token[0], "slow_down"):
				w.WriteHeader(http.StatusTooManyRequests) // as the limit on an address answers
			case strings.Contains(token[0], "error"):
				w.WriteHeader(http.StatusBadRequest)
			}
			_, _ = w.Write([]byte(token[0]))
			token = token[1:]
		}
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

const usual = `{"device_code":"d","user_code":"BCDF-GHJK","verification_uri":"http://x/ui/login","expires_in":600,"interval":5}`

func TestAProgramWaitsAsTheServiceSays(t *testing.T) {
	var waited []time.Duration
	q := logins.LogInRequest{Request: logins.Request{Client: "remit"}, Show: func(string, string, string) {},
		Wait: func(_ context.Context, d time.Duration) error { waited = append(waited, d); return nil }}
	q.URL = service(t, usual, `{"error":"authorization_pending"}`, `{"error":"slow_down"}`, `{"access_token":"tok","token_type":"Bearer","expires_in":60}`)
	got, err := logins.LogIn(t.Context(), q)
	if err != nil || got.Token != "tok" || got.Until.IsZero() {
		t.Errorf("%v, %v", got, err)
	}
	if fmt.Sprint(waited) != "[5s 5s 10s]" {
		t.Errorf("it waited %v", waited)
	}
	for _, code := range []string{"access_denied", "expired_token", "invalid_grant", "anything else"} {
		q.URL = service(t, usual, `{"error":"`+code+`"}`)
		if _, err := logins.LogIn(t.Context(), q); err == nil {
			t.Errorf("%s gave a token", code)
		}
	}
	for _, begun := range []string{`{}`, `null`, `[`, `{"device_code":"d","user_code":"u","expires_in":1e99}`, `{"device_code":"d","user_code":"u","expires_in":600,"interval":-1}`} {
		q.URL = service(t, begun)
		if _, err := logins.LogIn(t.Context(), q); err == nil {
			t.Errorf("%s gave a token", begun)
		}
	}
	q.URL = service(t, usual, `{"token_type":"Bearer"}`)
	if _, err := logins.LogIn(t.Context(), q); err == nil {
		t.Error("an empty token counts")
	}
}

// TestNothingIsSentElsewhere: neither to a plain address nor where a service redirects to.
func TestNothingIsSentElsewhere(t *testing.T) {
	for _, address := range []string{"http://remit.example", "ftp://remit.example", "remit.example", "https://u:p@remit.example", "https://remit.example/x", "https://remit.example?a=b", "http://127.0.0.1.evil.example", ""} {
		if _, err := logins.Origin(address); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v", address, err)
		}
	}
	for _, address := range []string{"https://remit.example/", "http://127.0.0.1:1", "http://[::1]:1", "http://remit-x.localhost:1"} {
		if _, err := logins.Origin(address); err != nil {
			t.Errorf("%q: %v", address, err)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it followed") }))
	t.Cleanup(other.Close)
	srv := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	t.Cleanup(srv.Close)
	if _, err := logins.LogIn(t.Context(), logins.LogInRequest{URL: srv.URL, Show: func(string, string, string) {}}); err == nil {
		t.Error("a redirect gave a token")
	}
}
