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
			w := ask(s, "/ui/runs/"+runID, url.Values{"do": {"replay"}})
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

func TestAPlanIsRun(t *testing.T) {
	s, a, _ := newServer(t)
	form := url.Values{"plan": {"steps:\r\n  - {tool: <t>}\r\n"}, "inputs": {`{"n": 12345678901234567890}`}, "changeset": {"1"}}
	for name, c := range map[string]struct{ inputs, answer, sent, says string }{
		"started":           {form.Get("inputs"), `{"run_id":"` + runID + `"}`, `POST /v1/runs {"plan":"steps:\n  - {tool: \u003ct\u003e}\n","inputs":{"n":12345678901234567890},"changeset":true}`, ""},
		"inputs not valid":  {"[1]", "", "", "are not a JSON object"},
		"inputs are null":   {"null", "", "", "are not a JSON object"},
		"a plan not valid":  {"", `{"status":422,"detail":"the tool is <unknown>","errors":[{"field":"2:5 steps[0]","message":"x"}]}`, `POST /v1/runs {"plan":"steps:\n  - {tool: \u003ct\u003e}\n","changeset":true}`, "is &lt;unknown&gt;"},
		"signed out before": {"", `{"status":401,"detail":"the grant was revoked"}`, `POST /v1/runs {"plan":"steps:\n  - {tool: \u003ct\u003e}\n","changeset":true}`, "the grant was revoked"},
	} {
		t.Run(name, func(t *testing.T) {
			a.sent, a.done = nil, map[string]string{"/v1/runs": c.answer}
			form.Set("inputs", c.inputs)
			w := ask(s, "/ui/runs/new", form)
			if strings.Join(a.sent, "\n") != c.sent || !strings.Contains(w.Body.String(), c.says) || (c.says == "") != (w.Header().Get("Location") == "/ui/runs/"+runID) {
				t.Errorf("got status %d after %q, want %q: %s", w.Code, a.sent, c.sent, w.Body)
			}
		})
	}
}

func TestARunIsCancelled(t *testing.T) {
	const path = "/v1/runs/" + runID + "/cancel"
	s, a, _ := newServer(t)
	a.done = map[string]string{path: `{"run_id":"` + runID + `"}`}
	if w := ask(s, "/ui/runs/"+runID, url.Values{"do": {"cancel"}}); w.Code != 303 || strings.Join(a.sent, "") != "POST "+path+" " {
		t.Errorf("got status %d after %q", w.Code, a.sent)
	}
	a.done[path] = `{"status":409,"detail":"the service does <not> carry it out"}`
	if w := ask(s, "/ui/runs/"+runID, url.Values{"do": {"cancel"}}); w.Code != 409 || !strings.Contains(w.Body.String(), "does &lt;not&gt; carry it out") {
		t.Errorf("got status %d: %s", w.Code, w.Body)
	}
}

func TestPicturesAreServedAsNothingElse(t *testing.T) {
	s, _, _ := newServer(t)
	w := ask(s, "/ui/runs/"+runID+"/calls/2/pictures/1", nil)
	for name, want := range map[string]string{"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if w.Code != 200 || w.Body.String() != "PNG" {
		t.Errorf("got %d, %q", w.Code, w.Body)
	}
	if w := ask(s, "/ui/runs/"+runID+"/calls/2/pictures/7", nil); w.Code != 404 || w.Header().Get("Content-Type") == "image/png" {
		t.Errorf("a picture that is not there: %d, %s", w.Code, w.Header().Get("Content-Type"))
	}
}
