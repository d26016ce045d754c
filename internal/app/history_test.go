package app_test

import (
	"net/http"
	"testing"
)

// historyOf reads the history of a question for the holder of a token.
func (s *team) historyOf(token, id string) (asked float64, covers any) {
	s.t.Helper()
	status, got := s.ask(http.MethodGet, "/v1/approvals/"+id+"/history", token, "")
	if status != http.StatusOK {
		s.t.Fatalf("%d %v", status, got)
	}
	return got["target"].(map[string]any)["asked"].(float64), got["covers"]
}

// A person's history has only what that person may see: nobody learns from it what others did.
func TestHistoryHasOnlyWhatItsReaderSees(t *testing.T) {
	s := newTeam(t)
	ann, dan, bob := s.person("ann", "developers"), s.person("dan", "developers"), s.person("bob", "reviewers")
	refuse := func(id string) {
		t.Helper()
		if status, got := s.ask(http.MethodPost, "/v1/approvals/"+id+"/deny", bob, ""); status != http.StatusOK {
			t.Fatalf("%d %v", status, got)
		}
	}
	refuse(s.asks(ann))
	if status, _ := s.call(dan, "fs.write", `{"path": "danger.txt", "content": "boom"}`); status != 403 {
		t.Fatal(status)
	}
	_, list := s.ask(http.MethodGet, "/v1/approvals", s.token, "")
	refuse(list["items"].([]any)[0].(map[string]any)["id"].(string))
	id := s.asks(ann)
	for name, tt := range map[string]struct {
		token string
		want  float64
	}{"the operator": {s.token, 2}, "who reviews both": {bob, 2}, "who asked one of them": {ann, 1}} {
		if got, _ := s.historyOf(tt.token, id); got != tt.want {
			t.Errorf("%s sees %v earlier questions, want %v", name, got, tt.want)
		}
	}
	if status, _ := s.ask(http.MethodGet, "/v1/approvals/"+id+"/history", dan, ""); status != http.StatusNotFound {
		t.Errorf("the history of a question of somebody else: %d", status)
	}
}
