package app_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// asks has ann make a call that people must approve, and gives the question's ID.
func (s *team) asks(token string) string {
	s.t.Helper()
	status, got := s.call(token, "fs.write", `{"path": "danger.txt", "content": "boom"}`)
	if status != 403 || got["code"] != "E1002" {
		s.t.Fatalf("%d %v", status, got)
	}
	_, list := s.ask(http.MethodGet, "/v1/approvals", s.token, "")
	q := list["items"].([]any)[0].(map[string]any)
	if q["person"] != "user:company:ann" || q["person_role"] != "developer" || q["needs"] != 2.0 || q["roles"].([]any)[0] != "reviewer" {
		s.t.Errorf("the question is %v", q)
	}
	return q["id"].(string)
}

func (s *team) approve(token, id string) (int, map[string]any) {
	s.t.Helper()
	return s.ask(http.MethodPost, "/v1/approvals/"+id+"/approve", token, "")
}

func TestTwoPeopleOfARoleMustAgree(t *testing.T) {
	s := newTeam(t)
	ann, bob, cat := s.person("ann", "developers"), s.person("bob", "reviewers"), s.person("cat", "reviewers")
	id := s.asks(ann)
	refused := func(name, token string, want int) {
		t.Helper()
		if status, got := s.approve(token, id); status != want {
			t.Errorf("%s: %d %v", name, status, got)
		}
	}
	refused("the person whose call it is", ann, 403)
	refused("the operator, who has no role", s.token, 403)
	refused("a person without a role", s.person("eve", "visitors"), 403)
	refused("another developer", s.person("dan", "developers"), 403)
	// Who made the call does not count, in whichever role.
	s.idp.Now = func() time.Time { return time.Now().Add(30 * time.Second) }
	refused("the same person, who reviews now", s.person("ann", "reviewers"), 403)
	s.idp.Now = time.Now
	if status, got := s.approve(bob, id); status != 200 || got["state"] != "waiting" {
		t.Fatalf("the first: %d %v", status, got)
	}
	refused("the same person again", bob, 409)
	refused("the same person with another token", s.person("bob", "reviewers", "x"), 409)
	browser := s.signIn("bob", "reviewers")
	if res, text := browser.do(http.MethodGet, "/ui/approvals/"+id, nil); res.StatusCode != http.StatusOK || !strings.Contains(text, "user:company:bob") || strings.Contains(text, `name="answer"`) {
		t.Errorf("the question in the same person's browser: %d %s", res.StatusCode, text)
	}
	_, q := s.ask(http.MethodGet, "/v1/approvals/"+id, bob, "")
	if res, _ := browser.do(http.MethodPost, "/ui/approvals/"+id, url.Values{"answer": {"once"}, "digest": {q["digest"].(string)}}); res.StatusCode != http.StatusConflict {
		t.Errorf("the same person in a browser: %d", res.StatusCode)
	}
	status, got := s.approve(cat, id)
	if status != 200 || got["state"] != "approved" {
		t.Fatalf("the second: %d %v", status, got)
	}
	votes := got["votes"].([]any)
	first := votes[0].(map[string]any)
	if len(votes) != 2 || first["by"] != "user:company:bob" || first["role"] != "reviewer" {
		t.Errorf("the votes are %v", votes)
	}
}

func TestAnApprovalOfARoleThatIsGoneDoesNotCount(t *testing.T) {
	s := newTeam(t)
	s.idp.Now = func() time.Time { return time.Now().Add(-30 * time.Second) }
	id := s.asks(s.person("ann", "developers"))
	if status, got := s.approve(s.person("bob", "reviewers"), id); status != 200 {
		t.Fatalf("%d %v", status, got)
	}
	// The issuer takes bob out of the group before the decision.
	s.idp.Now = time.Now
	if status, got := s.call(s.person("bob", "visitors"), "fs.read", `{"path": "clock.yaml"}`); status != 403 {
		t.Fatalf("%d %v", status, got)
	}
	if status, got := s.approve(s.person("cat", "reviewers"), id); status != 200 || got["state"] != "waiting" {
		t.Errorf("the second, after the first is no reviewer any more: %d %v", status, got)
	}
	if status, got := s.approve(s.person("dee", "reviewers"), id); status != 200 || got["state"] != "approved" {
		t.Errorf("the third: %d %v", status, got)
	}
}
