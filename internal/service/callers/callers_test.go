package callers_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/grants"
)

// service is a gate with a clock that the test sets.
type service struct {
	t    *testing.T
	app  *app.App
	gate *callers.Gate
	ws   string
	now  time.Time
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{t: t, app: apptest.New(t, t.TempDir()), ws: t.TempDir(), now: time.Now()}
	var err error
	if s.gate, err = callers.Open(t.Context(), s.app.Home, s.app.Policies, s.app.Grants, s.ws); err != nil {
		t.Fatal(err)
	}
	s.gate.Now = func() time.Time { return s.now }
	return s
}

func (s *service) issue(src string) grants.Token {
	s.t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\ndelegate: {actions: [files.read, api, tools], to: ['agent:*'], depth: 1}\n"+src))
	if err != nil {
		s.t.Fatal(err)
	}
	tok, err := s.app.Grants.Issue(s.t.Context(), grants.Terms{Parsed: []*policy.Policy{p}, Workspace: s.ws, Holder: "user:bob"})
	if err != nil {
		s.t.Fatal(err)
	}
	return tok
}

func (s *service) set(tok grants.Token, to store.Standing) {
	s.t.Helper()
	if _, err := s.app.Grants.SetStanding(s.t.Context(), tok.Claims.Leaf().String(), to, "test"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) enter(text string) (*callers.Caller, fault.Code) {
	s.t.Helper()
	c, err := s.gate.Enter(s.t.Context(), callers.Credential{Token: text})
	if err != nil {
		return nil, fault.CodeOf(err)
	}
	return c, 0
}

// violations counts the refused tokens that the ledger has.
func (s *service) violations() (n int) {
	s.t.Helper()
	st, err := s.app.Store(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for e, err := range st.Events(s.t.Context(), 0) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Event.Kind == ledger.Violation {
			n++
		}
	}
	return n
}

func TestACallerIsWhoTheTokenSays(t *testing.T) {
	s := newService(t)
	root := s.issue("api: {allow: ['*'], ask: ['grants.write'], deny: ['audit.read']}\ntools: {allow: ['*']}\nfiles: {read: {allow: ['**']}}\n")
	c, code := s.enter(root.Text)
	if code != 0 {
		t.Fatal(code)
	}
	id := root.Claims.Leaf().String()
	if c.Name != "user:bob" || c.Person != "user:bob" || c.Leaf != id || c.Root != id || c.Token != root.Text || !c.Tools {
		t.Errorf("the caller is %+v", c)
	}
	for action, want := range map[string]fault.Code{"runs.read": 0, "grants.write": fault.NeedsApproval, "audit.read": fault.Denied} {
		err := c.May(action)
		if want == 0 && err != nil || want != 0 && !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", action, err, want)
		}
	}

	handed, err := s.app.Grants.Delegate(t.Context(), grants.Presented{Token: root.Text}, grants.Terms{Holder: "agent:docs", Workspace: s.ws})
	if err != nil {
		t.Fatal(err)
	}
	c, code = s.enter(handed.Text)
	if code != 0 {
		t.Fatal(code)
	}
	if c.Name != "agent:docs" || c.Person != "user:bob" || c.Root != id || c.Leaf == id {
		t.Errorf("the caller under the handed-on grant is %+v", c)
	}
	want := []string{id, c.Leaf}
	if got, err := s.gate.OfGrant(t.Context(), c.Leaf); err != nil || !slices.Equal(got, want) {
		t.Errorf("the grant derives from %v, %v; want %v", got, err, want)
	}
	fresh, err := callers.Open(t.Context(), s.app.Home, s.app.Policies, s.app.Grants, s.ws)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fresh.OfGrant(t.Context(), c.Leaf); err != nil || !slices.Equal(got, want) {
		t.Errorf("by the ledger, the grant derives from %v, %v; want %v", got, err, want)
	}
}

// A verified token is not verified again for a while, but a revoked grant is refused at once.
func TestARevokedGrantIsRefusedAtOnce(t *testing.T) {
	s := newService(t)
	tok := s.issue("api: {allow: ['*']}\n")
	for step, want := range []fault.Code{0, fault.GrantPaused, 0, fault.GrantRevoked} {
		switch step {
		case 1:
			s.set(tok, store.Paused)
		case 2:
			s.set(tok, store.Active)
		case 3:
			s.set(tok, store.Revoked)
		}
		if _, code := s.enter(tok.Text); code != want {
			t.Errorf("step %d: %v, want %v", step, code, want)
		}
	}
	s.now = s.now.Add(time.Hour) // it is verified again, and refused then as well
	if _, code := s.enter(tok.Text); code != fault.GrantRevoked {
		t.Errorf("an hour later: %v", code)
	}
}

// What a token may do is read again after 30 seconds, as the person's own policy may have
// changed.
// TestACallerEndsWithItsToken: a grant that stands for an identity provider's token lasts longer
// than this, but who presented the token is let in no longer.
func TestACallerEndsWithItsToken(t *testing.T) {
	s := newService(t)
	c, _ := s.enter(s.issue("").Text)
	c.Until, c.Lent = s.now.Add(time.Minute), true
	now, err := s.gate.Check(t.Context(), c)
	if err != nil || !now.Until.Equal(c.Until) || !now.Lent || now.Leaf != c.Leaf {
		t.Errorf("before its end: %+v, %v", now, err)
	}
	s.now = c.Until
	if _, err := s.gate.Check(t.Context(), c); fault.CodeOf(err) != fault.GrantExpired {
		t.Errorf("at its end: %v", err)
	}
}

func TestATokenIsVerifiedAgainAfterAWhile(t *testing.T) {
	s := newService(t)
	tok := s.issue("api: {allow: ['*']}\n")
	first, code := s.enter(tok.Text)
	if code != 0 {
		t.Fatal(code)
	}
	s.now = s.now.Add(29 * time.Second)
	if again, _ := s.enter(tok.Text); again != first {
		t.Error("the token was verified again within 30 seconds")
	}
	s.now = s.now.Add(2 * time.Second)
	if again, _ := s.enter(tok.Text); again == first {
		t.Error("the token was not verified again after 31 seconds")
	}
}

// A token that anybody could have made writes nothing into the ledger, and one of this
// ledger at most one event a second.
func TestRefusedTokensDoNotFillTheLedger(t *testing.T) {
	s := newService(t)
	tok := s.issue("api: {allow: ['*']}\n")
	s.set(tok, store.Revoked)
	forged := tok.Text[:len(tok.Text)-8] + strings.Repeat("A", 8)
	for _, text := range []string{"", "nonsense", forged, strings.Repeat("x", 1<<20)} {
		s.now = s.now.Add(time.Minute)
		if _, code := s.enter(text); !code.OfGrant() {
			t.Errorf("%.20q: %v", text, code)
		}
	}
	if n := s.violations(); n != 0 {
		t.Errorf("tokens that are not of this ledger made %d events", n)
	}
	s.now = s.now.Add(time.Minute)
	for range 20 {
		if _, code := s.enter(tok.Text); code != fault.GrantRevoked {
			t.Fatal(code)
		}
	}
	if n := s.violations(); n != 1 {
		t.Errorf("20 refusals in a second made %d events, want 1", n)
	}
	s.now = s.now.Add(time.Second)
	s.enter(tok.Text)
	if n := s.violations(); n != 2 {
		t.Errorf("a refusal a second later: %d events, want 2", n)
	}
}
