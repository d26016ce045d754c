package webui_test

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestLabelsAreCleared(t *testing.T) {
	const api = "/v1/labels/clear"
	form := url.Values{"path": {"/home/ann/<b>"}}
	for name, c := range map[string]struct {
		form   url.Values
		answer string
		status int
		sent   string
		says   string
	}{
		"cleared":            {form, `{"labels":1}`, 303, `POST ` + api + ` {"path":"/home/ann/\u003cb\u003e"}`, ""},
		"refused by the API": {form, `{"status":404,"title":"Not Found","code":"E2009","detail":"no labels are recorded for \"<b>\""}`, 404, `POST ` + api + ` {"path":"/home/ann/\u003cb\u003e"}`, "&lt;b&gt;"},
		"of nothing":         {url.Values{}, "", 400, "", "does not name a file"},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.done = map[string]string{api: c.answer}
			w := ask(s, "/ui/labels", c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent || !strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "<b>\"") {
				t.Errorf("status %d, sent %q: %s", w.Code, a.sent, w.Body)
			}
		})
	}
	t.Run("not confirmed lately", func(t *testing.T) {
		s, a, b := newServer(t)
		b.confirmed = now.Add(-24 * time.Hour)
		if w := ask(s, "/ui/labels", form); w.Code != 403 || len(a.sent) > 0 || !strings.Contains(w.Body.String(), "To clear the labels") {
			t.Errorf("status %d, sent %q: %s", w.Code, a.sent, w.Body)
		}
	})
	t.Run("by a link", func(t *testing.T) {
		s, a, _ := newServer(t)
		if w := ask(s, "/ui/labels?clear=%2Fa&path=%2Fa", nil); w.Code != 200 || len(a.sent) > 0 {
			t.Errorf("status %d, sent %q", w.Code, a.sent)
		}
	})
}
