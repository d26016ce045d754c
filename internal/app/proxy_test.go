package app_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/logins"
)

// TestStrangersAtOneAddressLockNobodyOut: all clients have one address, as behind a proxy without
// --proxy. 1,000 bad attempts leave sign-ins under way, the logins of programs and the API.
func TestStrangersAtOneAddressLockNobodyOut(t *testing.T) {
	s := newTeam(t)
	s.stop()
	s.start(func(q *app.ServeRequest) { q.Hosts, q.Limits.Refused = []string{"127.0.0.1"}, 0 }) // the default
	token := s.token
	s.idp.SignsIn(map[string]any{"sub": "ann", "groups": []string{"developers"}})
	ann, stranger := &browser{s: s.service}, &browser{s: s.service}
	back := s.away(ann, "/ui/sign-in/company")
	device, _ := s.asksToLogIn(nil)
	own, err := url.Parse(s.away(stranger, "/ui/sign-in/company"))
	if err != nil {
		t.Fatal(err)
	}
	guess := own.Query()
	guess.Set("code", "guess")
	bad := []func() int{
		func() int { res, _ := (&browser{s: s.service}).do(http.MethodGet, back, nil); return res.StatusCode }, // another's answer, no cookie
		func() int { res, _ := stranger.do(http.MethodGet, back, nil); return res.StatusCode },                 // with the cookie of another sign-in
		func() int {
			res, _ := stranger.do(http.MethodGet, own.Path+"?"+guess.Encode(), nil)
			return res.StatusCode
		},
		func() int { status, _ := s.ask(http.MethodGet, "/v1/agents", "guess", ""); return status },
		func() int { status, _ := s.polls("guess"); return status },
	}
	for range 200 {
		for i, attempt := range bad {
			if status := attempt(); status != 400 && status != 401 && status != 429 {
				t.Fatalf("bad attempt %d is answered with %d", i, status)
			}
		}
	}
	if res, text := ann.do(http.MethodGet, back, nil); res.StatusCode != http.StatusOK {
		t.Errorf("the sign-in of a person ends with %d %.300s", res.StatusCode, text)
	} else {
		ann.session(res)
	}
	if status, got := s.polls(device); status != 400 || got["error"] != string(logins.Pending) {
		t.Errorf("a program that waits: %d %v", status, got)
	}
	s.asksToLogIn(nil)
	if status, got := s.ask(http.MethodGet, "/v1/agents", token, ""); status != http.StatusOK {
		t.Errorf("a request under a grant: %d %v", status, got)
	}
}

// TestForwardedAddressesCountFromProxiesAlone: each forwarded address has limits of its own if the
// peer is one of --proxy; else the header does not count.
func TestForwardedAddressesCountFromProxiesAlone(t *testing.T) {
	for proxies, want := range map[string]int{"127.0.0.1/32": http.StatusOK, "10.0.0.0/8": http.StatusTooManyRequests} {
		s := newService(t, func(q *app.ServeRequest) { q.Limits.Proxies = []netip.Prefix{netip.MustParsePrefix(proxies)} })
		begin := func(client string) int {
			status, _, _ := s.raw(http.MethodPost, logins.AuthorizePath, "", "client_id=x", "Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", client)
			return status
		}
		for range 5 {
			if status := begin("192.0.2.1"); status != http.StatusOK {
				t.Fatalf("%s: a login is answered with %d", proxies, status)
			}
		}
		if status := begin("192.0.2.1"); status != http.StatusTooManyRequests {
			t.Errorf("%s: one login too many of an address is answered with %d", proxies, status)
		}
		if status := begin("192.0.2.2"); status != want {
			t.Errorf("%s: the login of another address is answered with %d, want %d", proxies, status, want)
		}
	}
}
