package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestARunIsReplayed(t *testing.T) {
	const path = "/v1/runs/" + runID + "/replay"
	for name, c := range map[string]struct {
		answer string
		status int
		says   []string
	}{
		"the same": {`{"run_id":"` + agentID + `","status":"completed","ok":true,"calls":3}`, 200, []string{"Replayed without a difference", "3 calls", "/ui/runs/" + agentID}},
		"a call that differs": {`{"run_id":"` + agentID + `","status":"failed","ok":false,"calls":2,"mismatch":{"index":2,"what":"decision","was":"deny by <default>","is":"allow"}}`,
			200, []string{"/ui/runs/" + runID + `/calls/2">call 2</a>: decision`, "deny by &lt;default&gt;"}},
		"a run that differs as a whole": {`{"run_id":"` + agentID + `","ok":false,"mismatch":{"index":0,"what":"number of calls","was":"3","is":"2"}}`, 200, []string{"The replay differs: number of calls"}},
		"not possible":                  {`{"status":409,"title":"Conflict","code":"E5004","detail":"run x has not ended"}`, 409, []string{"run x has not ended", "release notes"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.done = map[string]string{path: c.answer}
			w := ask(s, "/ui/runs/"+runID, url.Values{})
			if w.Code != c.status || strings.Join(a.sent, "") != "POST "+path+" " {
				t.Errorf("got status %d after %q", w.Code, a.sent)
			}
			for _, text := range c.says {
				if !strings.Contains(w.Body.String(), text) {
					t.Errorf("the page does not say %q: %s", text, w.Body)
				}
			}
		})
	}
}

func TestFindingsHaveTheirPlace(t *testing.T) {
	s, a, _ := newServer(t)
	a.done = map[string]string{"/v1/policies/check": `{"ok":false,"errors":[{"field":"2:3 files.<x>","message":"is unknown"},{"field":"9 name","message":"past the end"},{"field":"","message":"as a whole"}]}`}
	body := ask(s, "/ui/policies", url.Values{"do": {"check"}, "policy": {"version: 1\r\n  <b>: {}\r\n"}}).Body.String()
	for _, text := range []string{
		`data-line="2" data-column="3">line 2, column 3</a> <code>files.&lt;x&gt;</code>`, `<span class="soft">  </span><mark>&lt;b&gt;: {}</mark>`,
		`data-line="9" data-column="0">line 9</a> <code>name</code>`, "as a whole",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("the page does not say %q: %s", text, body)
		}
	}
}
