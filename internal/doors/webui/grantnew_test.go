package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestGrantsAreMade(t *testing.T) {
	answer := `{"status":201,"token":"the new token","id":"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b66","holder":"agent:docs"}`
	for name, c := range map[string]struct {
		form   url.Values
		sent   string
		status int
		says   string
	}{
		"narrower": {url.Values{"holder": {" agent:docs "}, "policy": {"version: 1\r\nrest: inherit\r\n"}, "hours": {"1.5"}, "calls": {"10"}, "dollars": {"0.25"}, "sealed": {"1"}},
			`POST /v1/grants {"holder":"agent:docs","policies":["version: 1\nrest: inherit\n"],"expires_in":5400,"calls":10,"money":250000,"sealed":true}`, 200, "the new token"},
		"with nothing filled in":   {url.Values{"policy": {" \r\n"}}, "POST /v1/grants {}", 200, "the new token"},
		"a number that is none":    {url.Values{"calls": {"many"}, "note": {"kept <text>"}}, "", 400, "kept &lt;text&gt;"},
		"no calls":                 {url.Values{"calls": {"0"}}, "", 400, "is not a valid number of calls"},
		"half a call":              {url.Values{"calls": {"1.5"}}, "", 400, "is not a valid number of calls"},
		"an endless number":        {url.Values{"hours": {"Inf"}}, "", 400, "is not a valid number of hours"},
		"something like a number":  {url.Values{"tokens": {"NaN"}}, "", 400, "is not a valid number of tokens"},
		"less than the least cent": {url.Values{"dollars": {"0.0000001"}}, "", 400, "is not a valid number of dollars"},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.fail["/v1/grants"] = answer
			w := ask(s, "/ui/grants/new", c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got status %d after %q, want %d after %q: %s", w.Code, a.sent, c.status, c.sent, w.Body)
			}
			if !strings.Contains(w.Body.String(), ` data-still="on"`) {
				t.Error("a change would replace the page, and what it shows once")
			}
		})
	}
	t.Run("refused by the API", func(t *testing.T) {
		s, a, _ := newServer(t)
		a.fail["/v1/grants"] = `{"status":403,"title":"Forbidden","code":"E6006","detail":"the grant cannot be handed on"}`
		w := ask(s, "/ui/grants/new", url.Values{"holder": {"agent:docs"}})
		if w.Code != 403 || !strings.Contains(w.Body.String(), "the grant cannot be handed on") || !strings.Contains(w.Body.String(), `value="agent:docs"`) {
			t.Errorf("got status %d: %s", w.Code, w.Body)
		}
	})
}
