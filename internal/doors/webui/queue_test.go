package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestASchedulesPageChangesIt(t *testing.T) {
	path := "/v1/schedules/" + scheduleID
	for name, c := range map[string]struct {
		page   string
		form   url.Values
		sent   string
		status int
	}{
		"pause":   {"/" + scheduleID, url.Values{"do": {"pause"}}, "PATCH " + path + ` {"paused":true}`, 303},
		"resume":  {"/" + scheduleID, url.Values{"do": {"resume"}}, "PATCH " + path + ` {"paused":false}`, 303},
		"times":   {"/" + scheduleID, url.Values{"do": {"change"}, "cron": {"0 4 * * *"}, "zone": {"UTC"}}, "PATCH " + path + ` {"cron":"0 4 * * *","zone":"UTC"}`, 303},
		"run now": {"/" + scheduleID, url.Values{"do": {"run"}}, "POST " + path + "/run ", 303},
		"remove":  {"/" + scheduleID, url.Values{"do": {"remove"}}, "DELETE " + path + " ", 303},
		"add": {"/new", url.Values{"name": {"n"}, "cron": {"0 4 * * *"}, "plan": {"steps: []\r\n"}},
			`POST /v1/schedules {"name":"n","cron":"0 4 * * *","plan":"steps: []\n"}`, 303},
		"an unknown word": {"/" + scheduleID, url.Values{"do": {"drop"}}, "", 400},
		"not an ID":       {"/..%2Fqueue", url.Values{"do": {"run"}}, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			for _, p := range []string{"/v1/schedules", path, path + "/run"} {
				a.fail[p] = `{"status":200}`
			}
			w := ask(s, "/ui/schedules"+c.page, c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent {
				t.Errorf("got status %d after %q, want %d after %q: %s", w.Code, a.sent, c.status, c.sent, w.Body)
			}
		})
	}
	s, a, _ := newServer(t)
	a.fail[path+"/run"] = `{"status":409,"title":"Conflict","code":"E2010","detail":"the schedule is paused"}`
	if w := ask(s, "/ui/schedules/"+scheduleID, url.Values{"do": {"run"}}); w.Code != 409 || !strings.Contains(w.Body.String(), "the schedule is paused") {
		t.Errorf("refused by the API: %d %s", w.Code, w.Body)
	}
}

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
