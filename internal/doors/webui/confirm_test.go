package webui_test

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

func TestDangerousActionsNeedAConfirmation(t *testing.T) {
	const question = "/v1/approvals/" + questionID
	critical, err := os.ReadFile("testdata/api/approvals_" + questionID + ".json")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path string
		form url.Values
		sent string // once it is confirmed
	}{
		"accept a tool": {"/ui/tools/mcp:files%2Fread", url.Values{"do": {"accept"}, "digest": {"sha256:<a>"}}, `POST /v1/tools/mcp:files/read/accept {"digest":"sha256:\u003ca\u003e"}`},
		"make a grant":  {"/ui/grants/new", url.Values{"note": {"<a>"}}, `POST /v1/grants {"note":"\u003ca\u003e"}`},
		"approve a call of critical risk": {"/ui/approvals/" + questionID, url.Values{"answer": {"once"}, "digest": {"<a>"}},
			"POST " + question + `/approve {"digest":"\u003ca\u003e"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, b := newServer(t)
			a.done = map[string]string{"/v1/tools/mcp:files/read/accept": "{}", "/v1/grants": "{}", question + "/approve": "{}"}
			a.fail[question] = strings.NewReplacer(`"risk": "high"`, `"risk": "critical"`, "{\n  \"id\"", "{\n  \"status\": 200, \"id\"").Replace(string(critical))
			b.confirmed = now.Add(-time.Hour)
			for _, code := range []string{"", "wrong"} {
				c.form.Set("confirm-code", code)
				w := ask(s, c.path, c.form)
				if body := w.Body.String(); w.Code != 403 || len(a.sent) > 0 || !strings.Contains(body, "Confirm that it is you") || !strings.Contains(body, "&lt;a&gt;\">") || strings.Contains(body, code+"\">") && code != "" {
					t.Errorf("with the code %q: status %d after %q: %s", code, w.Code, a.sent, body)
				}
			}
			c.form.Set("confirm-code", "right")
			if w := ask(s, c.path, c.form); w.Code >= 400 || strings.Join(a.sent, "\n") != c.sent {
				t.Errorf("with the right code: status %d after %q, want %q: %s", w.Code, a.sent, c.sent, w.Body)
			}
		})
	}
	t.Run("not a refusal", func(t *testing.T) {
		s, a, b := newServer(t)
		a.done = map[string]string{question + "/deny": "{}"}
		b.confirmed = time.Time{}
		if w := ask(s, "/ui/approvals/"+questionID, url.Values{"answer": {"refuse"}, "digest": {"d"}}); w.Code != 303 || len(a.sent) != 1 {
			t.Errorf("got status %d after %q", w.Code, a.sent)
		}
	})
}
