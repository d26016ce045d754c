package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestFormsOfSessions(t *testing.T) {
	const session, path = "/v1/sessions/" + sessionID, "/ui/sessions/" + sessionID
	const made = `{"id":"` + sessionID + `"}`
	for name, c := range map[string]struct {
		to   string
		form url.Values
		done map[string]string
		fail string // the answer to a message or command; "": done has it
		sent string
		next string // "": the page says why not
	}{
		"say":                    {path, url.Values{"do": {"say"}, "content": {"a\r\nb "}}, map[string]string{session + "/messages": made}, "", "POST " + session + `/messages {"content":"a\nb"}`, path + "#end"},
		"say nothing":            {path, url.Values{"do": {"say"}, "content": {" \r\n"}}, nil, "", "", ""},
		"say it too late":        {path, url.Values{"do": {"say"}, "content": {"<late>"}}, nil, `{"status":409,"detail":"a turn is under way"}`, "POST " + session + `/messages {"content":"\u003clate\u003e"}`, ""},
		"pause":                  {path, url.Values{"do": {"pause"}}, map[string]string{session + "/pause": made}, "", "POST " + session + "/pause ", path},
		"resume":                 {path, url.Values{"do": {"resume"}}, map[string]string{session + "/resume": made}, "", "POST " + session + "/resume ", path},
		"cancel":                 {path, url.Values{"do": {"cancel"}}, map[string]string{session + "/cancel": made}, "", "POST " + session + "/cancel ", path},
		"replay while it works":  {path, url.Values{"do": {"replay"}}, nil, "", "POST " + session + "/replay ", ""},
		"fork":                   {path, url.Values{"do": {"fork"}, "up_to": {"4"}}, map[string]string{session + "/fork": made}, "", "POST " + session + `/fork {"up_to":4}`, path},
		"fork up to a word":      {path, url.Values{"do": {"fork"}, "up_to": {"four"}}, nil, "", "", ""},
		"end":                    {path, url.Values{"do": {"end"}}, map[string]string{session: made}, "", "DELETE " + session + " ", "/ui/sessions"},
		"an unknown word":        {path, url.Values{"do": {"delete"}}, nil, "", "", ""},
		"help":                   {path, url.Values{"do": {"say"}, "content": {"/git help"}}, map[string]string{"/v1/commands": `{"help":"x","topic":"git"}`}, "", `POST /v1/commands {"line":"/git help","session_id":"` + sessionID + `"}`, path + "?help=git#command"},
		"a command":              {path, url.Values{"do": {"say"}, "content": {"/call time.now"}}, map[string]string{"/v1/commands": `{"call":{"run_id":"` + runID + `"}}`}, "", `POST /v1/commands {"line":"/call time.now","session_id":"` + sessionID + `"}`, path + "?command=" + runID + "#command"},
		"a refused command":      {path, url.Values{"do": {"say"}, "content": {"/call x.y"}}, nil, `{"status":409,"detail":"denied","run_id":"` + runID + `"}`, `POST /v1/commands {"line":"/call x.y","session_id":"` + sessionID + `"}`, path + "?command=" + runID + "#command"},
		"start":                  {"/ui/sessions/new", url.Values{"agent": {agentID}, "title": {" T "}}, map[string]string{"/v1/sessions": made}, "", `POST /v1/sessions {"agent_id":"` + agentID + `","title":"T"}`, path},
		"start without an agent": {"/ui/sessions/new", url.Values{"title": {"T"}}, nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.done = c.done
			if c.fail != "" {
				a.done = map[string]string{session + "/messages": c.fail, "/v1/commands": c.fail}
			}
			w := ask(s, c.to, c.form)
			if got := strings.Join(a.sent, "\n"); got != c.sent {
				t.Errorf("sent %q, want %q", got, c.sent)
			}
			if next := w.Header().Get("Location"); next != c.next {
				t.Errorf("status %d, goes on with %q, want %q", w.Code, next, c.next)
			}
			if c.next != "" {
				return
			}
			if w.Code < 400 || !strings.Contains(w.Body.String(), `role="alert"`) {
				t.Errorf("status %d without a reason: %s", w.Code, w.Body)
			}
			if typed := c.form.Get("content"); typed == "<late>" && !strings.Contains(w.Body.String(), "&lt;late&gt;</textarea>") {
				t.Error("what was typed is lost")
			}
		})
	}
}

func TestAnAnswerInAConversationGoesBackToIt(t *testing.T) {
	for session, next := range map[string]string{sessionID: "/ui/sessions/" + sessionID + "#end", "//evil.test": "/ui/approvals/" + questionID, "": "/ui/approvals/" + questionID} {
		s, a, _ := newServer(t)
		a.done = map[string]string{"/v1/approvals/" + questionID + "/approve": `{"status":200}`}
		w := ask(s, "/ui/approvals/"+questionID, url.Values{"answer": {"once"}, "digest": {"d0c5"}, "session": {session}})
		if got := w.Header().Get("Location"); got != next {
			t.Errorf("from %q it goes on with %q, want %q", session, got, next)
		}
	}
}

func TestFilesAreDownloaded(t *testing.T) {
	s, _, _ := newServer(t)
	w := ask(s, "/ui/sessions/"+sessionID+"/files/notes/a.md?download=1", nil)
	if h := w.Header(); w.Code != 200 || h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Disposition") != "attachment; filename*=UTF-8''a.md" {
		t.Errorf("status %d, headers %v", w.Code, h)
	}
}

func TestCompletions(t *testing.T) {
	s, _, _ := newServer(t)
	w := ask(s, "/ui/commands?line=%2Fhe", nil)
	if w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), `"text":"/help"`) || strings.Contains(w.Body.String(), "<b>") {
		t.Errorf("%v %s", w.Header(), w.Body)
	}
}
