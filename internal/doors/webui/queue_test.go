package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestTheQueueIsChangedFromItsPage(t *testing.T) {
	for name, c := range map[string]struct {
		form   url.Values
		sent   string
		status int
	}{
		"pause":                  {url.Values{"do": {"pause"}}, "POST /v1/queue/pause ", 303},
		"resume":                 {url.Values{"do": {"resume"}}, "POST /v1/queue/resume ", 303},
		"cancel":                 {url.Values{"do": {"cancel"}, "run": {runID}}, "POST /v1/queue/" + runID + "/cancel ", 303},
		"cancel of another path": {url.Values{"do": {"cancel"}, "run": {"../grants/x/revoke?"}}, "", 400},
		"an unknown word":        {url.Values{"do": {"drop"}}, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			for _, path := range []string{"/v1/queue/pause", "/v1/queue/resume", "/v1/queue/" + runID + "/cancel"} {
				a.fail[path] = `{"status":200}`
			}
			w := ask(s, "/ui/queue", c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent {
				t.Errorf("got status %d after %q, want %d after %q: %s", w.Code, a.sent, c.status, c.sent, w.Body)
			}
		})
	}
	s, a, _ := newServer(t)
	a.fail["/v1/queue/"+runID+"/cancel"] = `{"status":409,"title":"Conflict","code":"E2010","detail":"the queued run is cancelled"}`
	if w := ask(s, "/ui/queue", url.Values{"do": {"cancel"}, "run": {runID}}); w.Code != 409 || !strings.Contains(w.Body.String(), "the queued run is cancelled") {
		t.Errorf("refused by the API: %d %s", w.Code, w.Body)
	}
}
