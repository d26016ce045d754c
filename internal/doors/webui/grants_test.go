package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

const grantID = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b66"

func TestGrantPagesShowHostileText(t *testing.T) {
	s, _, _ := newServer(t)
	for _, path := range []string{"/ui/grants", "/ui/grants/" + grantID, "/ui/grants/" + grantID + "?ask=revoke"} {
		text := ask(s, path, nil).Body.String()
		if strings.Contains(text, "<img") || strings.ContainsAny(text, "\u202e\x1b") || !strings.Contains(text, "&lt;img") || !strings.Contains(text, `\u202e`) {
			t.Errorf("%s does not show an agent's text as text", path)
		}
	}
}

func TestGrantsAreChanged(t *testing.T) {
	path, api := "/ui/grants/"+grantID, "POST /v1/grants/"+grantID
	for name, c := range map[string]struct {
		form   url.Values
		sent   string
		status int
	}{
		"revoke":                    {url.Values{"do": {"revoke"}, "shown": {"1/2"}, "reason": {"done"}}, api + `/revoke {"reason":"done"}`, 303},
		"pause":                     {url.Values{"do": {"pause"}, "shown": {"1/2"}}, api + "/pause {}", 303},
		"resume":                    {url.Values{"do": {"resume"}}, api + "/resume {}", 303},
		"revoke others than shown":  {url.Values{"do": {"revoke"}, "shown": {"0/0"}}, "", 409},
		"revoke without being told": {url.Values{"do": {"revoke"}}, "", 409},
		"an unknown word":           {url.Values{"do": {"widen"}, "shown": {"1/2"}}, "", 400},
		"nothing":                   {url.Values{}, "", 400},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			for _, do := range []string{"revoke", "pause", "resume"} {
				a.fail["/v1/grants/"+grantID+"/"+do] = `{"status":200}`
			}
			w := ask(s, path, c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent {
				t.Errorf("got status %d after %q, want %d after %q", w.Code, a.sent, c.status, c.sent)
			}
			if c.status == 303 && w.Header().Get("Location") != path {
				t.Errorf("it goes on with %q", w.Header().Get("Location"))
			}
		})
	}
	t.Run("refused by the API", func(t *testing.T) {
		s, a, _ := newServer(t)
		a.fail["/v1/grants/"+grantID+"/resume"] = `{"status":403,"title":"Forbidden","code":"E4001","detail":"a grant cannot be resumed by its own holder"}`
		w := ask(s, path, url.Values{"do": {"resume"}})
		if w.Code != 403 || !strings.Contains(w.Body.String(), "a grant cannot be resumed by its own holder") || !strings.Contains(w.Body.String(), "Below it") {
			t.Errorf("got status %d: %s", w.Code, w.Body)
		}
	})
	t.Run("by a link", func(t *testing.T) {
		s, a, _ := newServer(t)
		if w := ask(s, path+"?do=revoke&shown=1/2", nil); w.Code != 200 || len(a.sent) > 0 {
			t.Errorf("got status %d after %q", w.Code, a.sent)
		}
		if w := ask(s, path+"?ask=widen", nil); w.Code != 400 {
			t.Errorf("an unknown question has status %d", w.Code)
		}
	})
}

func TestGrantsHaveNothing(t *testing.T) {
	s, a, _ := newServer(t)
	a.fail["/v1/grants"] = `{"status":200,"items":[]}`
	if w := ask(s, "/ui/grants", nil); !strings.Contains(w.Body.String(), "remit grant issue") {
		t.Errorf("an empty list says %s", w.Body)
	}
	if w := ask(s, "/ui/grants/nothing", nil); w.Code != 404 {
		t.Errorf("an unknown grant has status %d", w.Code)
	}
}
