package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestChangesAreDecided(t *testing.T) {
	path, api := "/ui/changes/"+runID, "POST /v1/changes/"+runID
	all := []string{"src/main.go", "out/a"}
	for name, c := range map[string]struct {
		form   url.Values
		sent   string
		status int
	}{
		"apply all":             {url.Values{"do": {"apply"}, "digest": {"d1"}, "file": all, "path": all}, api + `/apply {"digest":"d1"}`, 303},
		"apply some":            {url.Values{"do": {"apply"}, "digest": {"d1"}, "file": all, "path": all[:1]}, api + `/apply {"digest":"d1","paths":["src/main.go"]}`, 303},
		"apply folders alone":   {url.Values{"do": {"apply"}, "digest": {"d1"}}, api + `/apply {"digest":"d1"}`, 303},
		"apply of a part":       {url.Values{"do": {"apply"}, "digest": {"d1"}, "file": all, "path": all, "more": {"3"}}, api + `/apply {"digest":"d1","paths":["src/main.go","out/a"]}`, 303},
		"apply none":            {url.Values{"do": {"apply"}, "digest": {"d1"}, "file": all}, "", 400},
		"apply what was unseen": {url.Values{"do": {"apply"}, "file": all, "path": all}, "", 400},
		"discard":               {url.Values{"do": {"discard"}}, api + "/discard ", 303},
		"undo":                  {url.Values{"do": {"undo"}}, api + "/undo {}", 200},
		"an unknown word":       {url.Values{"do": {"keep"}}, "", 400},
		"nothing":               {url.Values{}, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			for _, do := range []string{"apply", "discard", "undo"} {
				a.fail["/v1/changes/"+runID+"/"+do] = `{"status":200,"restored":[{"path":"a"}]}`
			}
			w := ask(s, path, c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent {
				t.Errorf("got status %d after %q, want %d after %q: %s", w.Code, a.sent, c.status, c.sent, w.Body)
			}
			if name == "undo" && !strings.Contains(w.Body.String(), "1 path restored") {
				t.Errorf("the page does not say what was done: %s", w.Body)
			}
		})
	}
	t.Run("refused by the API", func(t *testing.T) {
		s, a, _ := newServer(t)
		a.fail["/v1/changes/"+runID+"/apply"] = `{"status":409,"title":"Conflict","code":"E5004","detail":"the changes are not those that were shown"}`
		if w := ask(s, path, url.Values{"do": {"apply"}, "digest": {"old"}}); w.Code != 409 || !strings.Contains(w.Body.String(), "are not those that were shown") {
			t.Errorf("got status %d: %s", w.Code, w.Body)
		}
	})
	t.Run("by a link", func(t *testing.T) {
		s, a, _ := newServer(t)
		if w := ask(s, path+"?do=apply&digest=d1&ask=discard", nil); w.Code != 200 || len(a.sent) > 0 {
			t.Errorf("got status %d after %q", w.Code, a.sent)
		}
	})
}

func TestARunThatHeldNothing(t *testing.T) {
	s, a, _ := newServer(t)
	a.fail["/v1/changes/"+runID] = `{"status":404,"title":"Not Found","code":"E3001","detail":"the run has no changeset"}`
	if w := ask(s, "/ui/changes/"+runID, nil); w.Code != 200 || !strings.Contains(w.Body.String(), "The run held nothing") || !strings.Contains(w.Body.String(), `value="undo"`) {
		t.Errorf("got status %d: %s", w.Code, w.Body)
	}
	a.fail["/v1/changes/"+runID] = `{"status":409,"title":"Conflict","code":"E5004","detail":"the run goes on"}`
	if w := ask(s, "/ui/changes/"+runID, nil); w.Code != 200 || !strings.Contains(w.Body.String(), "the run goes on") {
		t.Errorf("a run that goes on has status %d: %s", w.Code, w.Body)
	}
	if w := ask(s, "/ui/changes/nothing", nil); w.Code != 404 {
		t.Errorf("an unknown run has status %d", w.Code)
	}
}
