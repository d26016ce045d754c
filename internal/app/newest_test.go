package app_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

// node is a second service of the same ledger.
func (s *team) node() *service {
	s.t.Helper()
	other := &service{t: s.t, homeDir: s.homeDir, dir: s.dir, policy: s.policy}
	other.start(func(q *app.ServeRequest) { q.Hosts = []string{"127.0.0.1"} })
	return other
}

// said is a token that was issued at a second and gives a role.
type said struct {
	at    int
	group string
}

// judged is what a service has to answer, by a model of the rule: the newest token that was
// presented decides, and two of the same second with different roles make both void.
type judged struct {
	newest said
	any    bool
	torn   bool
}

func (j *judged) want(t said) int {
	status := map[string]int{"developers": 200, "readers": 200, "visitors": 403}[t.group]
	switch {
	case !j.any || t.at > j.newest.at:
		*j = judged{newest: t, any: true}
		return status
	case !j.torn && t.group == j.newest.group:
		return status
	case t.at == j.newest.at:
		j.torn = true
	}
	if status == 403 {
		return status
	}
	return 401
}

// TestAnOlderTokenGivesNoOtherRole presents tokens of a person in any order, to two nodes.
func TestAnOlderTokenGivesNoOtherRole(t *testing.T) {
	s := newTeam(t)
	nodes := []*service{s.service, s.node()}
	began := time.Now().Add(-time.Minute).Truncate(time.Second)
	groups := []string{"developers", "readers", "visitors"}
	runs := 24
	if os.Getenv("REMIT_SOAK") != "" {
		runs = 1000
	}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the sequences are the same each time
	for n := range runs {
		var model judged
		var story []said
		for i := range 7 {
			one := said{r.IntN(4), groups[r.IntN(len(groups))]}
			s.idp.Now = func() time.Time { return began.Add(time.Duration(one.at) * time.Second) }
			token := s.idp.Sign(s.idp.Claims("remit", map[string]any{ // another node knows a revocation within a second, so no token is presented twice
				"sub": fmt.Sprint("person", n), "groups": []string{one.group}, "jti": fmt.Sprint(i)}))
			story = append(story, one)
			want := model.want(one)
			if status, got := nodes[r.IntN(2)].ask(http.MethodGet, "/v1/runs", token, ""); status != want {
				t.Fatalf("after %v: %d %v, want %d", story, status, got, want)
			}
		}
	}
}

// TestALesserRoleIsNotUndone: what was obtained under the greater role ends, also after a restart,
// and an older token that was never presented brings nothing back.
func TestALesserRoleIsNotUndone(t *testing.T) {
	s := newTeam(t)
	at := func(d time.Duration) { s.idp.Now = func() time.Time { return time.Now().Add(d) } }
	at(-20 * time.Second)
	sign := func(jti string) string {
		return s.idp.Sign(s.idp.Claims("remit", map[string]any{"sub": "ann", "groups": []string{"developers"}, "jti": jti}))
	}
	first, second, third := sign("1"), sign("2"), sign("3")
	write := func(token string) int {
		status, _ := s.call(token, "fs.write", `{"path": "out/a.txt", "content": "1"}`)
		return status
	}
	if status := write(first); status != 200 {
		t.Fatalf("the greater role: %d", status)
	}
	_, g := s.ask("POST", "/v1/grants", first, `{"expires_in":20000}`)
	derived, _ := g["token"].(string)
	at(-10 * time.Second)
	less := s.person("ann", "readers")
	if status, _ := s.ask("GET", "/v1/runs", less, ""); status != 200 {
		t.Fatalf("the lesser role: %d", status)
	}
	check := func(when string) {
		t.Helper()
		for name, token := range map[string]string{"the presented token": first, "one that was never presented": second, "a derived grant": derived} {
			if status := write(token); status != 401 {
				t.Errorf("%s, %s: %d", when, name, status)
			}
		}
		if status, _ := s.ask("GET", "/v1/runs", less, ""); status != 200 {
			t.Errorf("%s, the lesser role: %d", when, status)
		}
	}
	check("at once")
	s.stop()
	s.begin()
	check("after a restart")
	if status := write(third); status != 401 {
		t.Errorf("another token from before: %d", status)
	}
	at(-5 * time.Second)
	if status := write(s.person("ann", "developers")); status != 200 {
		t.Errorf("a newer token of the greater role: %d", status)
	}
}

// again is the first token of a person that counts after a revocation: of a clock that is a minute
// ahead, it is of the next second.
func (s *team) again(name, group string) (token string) {
	s.t.Helper()
	s.idp.Now = func() time.Time { return time.Now().Add(time.Minute) }
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		token = s.person(name, group)
		if status, _ := s.ask(http.MethodGet, "/v1/runs", token, ""); status == 200 {
			break
		}
	}
	return token
}

// TestARevocationOutlastsTheNextSignIn: tokens from before the operator's revocation stay void
// after the person has signed in again, also if the issuer's clock is ahead.
func TestARevocationOutlastsTheNextSignIn(t *testing.T) {
	s := newTeam(t)
	at := func(d time.Duration) { s.idp.Now = func() time.Time { return time.Now().Add(d) } }
	read := func(token string) int {
		status, _ := s.call(token, "fs.read", `{"path": "clock.yaml"}`)
		return status
	}
	at(20 * time.Second) // ahead
	before := s.person("ann", "developers")
	if status := read(before); status != 200 {
		t.Fatalf("%d", status)
	}
	_, list := s.ask(http.MethodGet, "/v1/grants?holder=user:company:ann", s.token, "")
	s.must(200, "POST", "/v1/grants/"+list["items"].([]any)[0].(map[string]any)["id"].(string)+"/revoke", `{}`)
	if status := read(before); status != 401 {
		t.Errorf("the token from before: %d", status)
	}
	for _, ahead := range []time.Duration{0, 21 * time.Second, 40 * time.Second, 58 * time.Second} { // never presented before
		at(ahead)
		if status := read(s.person("ann", "developers")); status != 401 {
			t.Errorf("a token that a clock %s ahead may have issued before: %d", ahead, status)
		}
	}
	if status := read(s.again("ann", "developers")); status != 200 {
		t.Errorf("the next sign-in: %d", status)
	}
	s.stop()
	s.begin()
	if status := read(before); status != 401 {
		t.Errorf("the token from before, after the next sign-in: %d", status)
	}
}

// TestATokenWithoutATimeIsRefused: which token is newer could not be said.
func TestATokenWithoutATimeIsRefused(t *testing.T) {
	s := newTeam(t)
	for _, iat := range []any{nil, "", "1795845600", -1, true, []any{1}, map[string]any{}} {
		claims := s.idp.Claims("remit", map[string]any{"sub": "ann", "groups": []string{"developers"}, "iat": iat})
		if iat == nil {
			delete(claims, "iat")
		}
		if status, got := s.ask("GET", "/v1/runs", s.idp.Sign(claims), ""); status != 401 {
			t.Errorf("iat %v: %d %v", iat, status, got)
		}
	}
}
