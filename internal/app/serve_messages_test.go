package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// queueMessage queues a message to a session, and gives the queued run.
func (s *service) queueMessage(token, session, text, terms string) map[string]any {
	s.t.Helper()
	status, m := s.ask("POST", "/v1/sessions/"+session+"/messages", token, fmt.Sprintf(`{"content":%q,"queue":{%s}}`, text, terms))
	if status != http.StatusAccepted {
		s.t.Fatalf("a queued message: %d %v", status, m)
	}
	return m["queued"].(map[string]any)
}

// contents are the texts of a session's messages of a role.
func (s *service) contents(session, role string) (out []string) {
	s.t.Helper()
	for _, one := range s.must(200, "GET", "/v1/sessions/"+session+"/messages?limit=100", "")["items"].([]any) {
		if m := one.(map[string]any); m["role"] == role {
			out = append(out, m["content"].(string))
		}
	}
	return out
}

// Queued messages of a session are carried out one after the other, each as a run of its own.
func TestMessagesAreQueued(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time"]`)
	s.must(200, "POST", "/v1/queue/pause", "")
	first := s.queueMessage(s.token, id, "one", `"unique":"k"`)
	if first["status"] != "waiting" || first["session_id"] != id {
		t.Errorf("it is %v", first)
	}
	if again := s.queueMessage(s.token, id, "one more", `"unique":"k"`); again["run_id"] != first["run_id"] {
		t.Errorf("a second one with the key is %v", again)
	}
	last := s.queueMessage(s.token, id, "three", `"priority":4`)
	urgent := s.queueMessage(s.token, id, "two", `"priority":1`)
	if got := s.contents(id, "user"); len(got) != 0 {
		t.Errorf("before their turn there are the messages %q", got)
	}
	s.stop() // what waits outlives the service
	s.start()
	s.must(200, "POST", "/v1/queue/resume", "")
	for _, one := range []map[string]any{first, last, urgent} {
		run := s.queuedAs(one["run_id"].(string), "completed")
		if r := s.must(200, "GET", "/v1/runs/"+run["run_id"].(string), ""); r["status"] != "completed" {
			t.Errorf("its run is %v", r)
		}
	}
	if got := fmt.Sprint(s.contents(id, "user")); got != "[two one three]" {
		t.Errorf("the messages are %s", got)
	}
	if got := s.contents(id, "assistant"); len(got) < 3 {
		t.Errorf("the answers are %q", got)
	}
}

// Who may not write to a session queues nothing for it, and the grant is looked at again when
// it is the message's turn.
func TestAuthorityOfQueuedMessages(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time"]`)
	other, _ := s.narrow("version: 1\nname: o\napi: {allow: [sessions.write, sessions.read, runs.read]}\nmodels: {allow: ['*']}\n")
	body := `{"content":"hi","queue":{}}`
	if status, m := s.ask("POST", "/v1/sessions/"+id+"/messages", other, body); status != 404 {
		t.Errorf("to another's session: %d %v", status, m)
	}
	for name, bad := range map[string]string{"no text": `{"content":" ","queue":{}}`, "a priority": `{"content":"x","queue":{"priority":9}}`,
		"a limit of a tool": `{"content":"x","queue":{"limits":[{"key":"tool:fs.read","most":1}]}}`} {
		if status, m := s.ask("POST", "/v1/sessions/"+id+"/messages", s.token, bad); status != 422 && status != 400 {
			t.Errorf("%s: %d %v", name, status, m)
		}
	}
	s.must(200, "POST", "/v1/queue/pause", "")
	token, grant := s.narrow("version: 1\nname: n\napi: {allow: ['*']}\nmodels: {allow: ['*']}\nfiles: {read: {allow: [clock.yaml]}}\n")
	own := s.session(token, `["current_time"]`)
	lost := s.queueMessage(token, own, "hi", "")
	gone := s.queueMessage(s.token, id, "hi", "")
	s.must(200, "POST", "/v1/grants/"+grant+"/revoke", `{}`)
	s.must(204, "DELETE", "/v1/sessions/"+id, "")
	s.must(200, "POST", "/v1/queue/resume", "")
	if r := s.queuedAs(lost["run_id"].(string), "refused"); r["code"] != "E6004" {
		t.Errorf("under a revoked grant it is %v", r)
	}
	s.queuedAs(gone["run_id"].(string), "refused")
	if got := s.contents(own, "user"); len(got) != 0 {
		t.Errorf("it said %q", got)
	}
}

// Whether messages may be sent at all is decided again when it is the message's turn.
func TestAQueuedMessageIsDecidedAgain(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time"]`)
	s.must(200, "POST", "/v1/queue/pause", "")
	queued := s.queueMessage(s.token, id, "hi", "")
	bound := "version: 1\nname: outer\nrest: inherit\napi: {allow: ['*'], deny: [sessions.write]}\n"
	if err := os.WriteFile(filepath.Join(s.homeDir, "policy.yaml"), []byte(bound), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must(200, "POST", "/v1/queue/resume", "")
	if r := s.queuedAs(queued["run_id"].(string), "refused"); r["code"] != "E1001" {
		t.Errorf("it is %v", r)
	}
	if got := s.contents(id, "user"); len(got) != 0 {
		t.Errorf("it said %q", got)
	}
}

// A schedule sends an agent its message each time.
func TestASchedulesMessage(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time"]`)
	body := fmt.Sprintf(`{"name":"daily","cron":"30 6 * * *","session_id":%q,"content":"good morning"}`, id)
	c := s.must(201, "POST", "/v1/schedules", body)
	if c["session_id"] != id {
		t.Errorf("it is %v", c)
	}
	for range 2 {
		run := s.must(200, "POST", "/v1/schedules/"+c["schedule_id"].(string)+"/run", "{}")
		if r := s.queuedAs(run["run_id"].(string), "completed"); r["session_id"] != id || r["schedule_id"] != c["schedule_id"] {
			t.Errorf("its run is %v", r)
		}
	}
	if got := fmt.Sprint(s.contents(id, "user")); got != "[good morning good morning]" {
		t.Errorf("the messages are %s", got)
	}
	reader, _ := s.narrow("version: 1\nname: r\napi: {allow: [tools.invoke, sessions.read]}\nmodels: {allow: ['*']}\n")
	if status, m := s.ask("POST", "/v1/schedules", reader, body); status != 403 {
		t.Errorf("without sessions.write: %d %v", status, m)
	}
	for _, bad := range []string{`"session_id":"` + id + `"`, `"content":"x"`, `"content":"x","session_id":"` + id + `","plan":"steps: []"`} {
		if status, m := s.ask("POST", "/v1/schedules", s.token, `{"name":"other","cron":"30 6 * * *",`+bad+`}`); status < 400 || status >= 500 {
			t.Errorf("%s: %d %v", bad, status, m)
		}
	}
}
