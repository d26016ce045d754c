package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestToolsAreTried(t *testing.T) {
	const path, api = "/ui/tools/mcp:files%2Fread", "POST /v1/tools/mcp:files/read"
	for name, c := range map[string]struct {
		form   url.Values
		sent   string
		status int
		says   string
	}{
		"accept":             {url.Values{"do": {"accept"}, "digest": {"sha256:ab"}}, api + `/accept {"digest":"sha256:ab"}`, 303, ""},
		"explain":            {url.Values{"do": {"explain"}, "args": {`{"path":"a"}`}}, `POST /v1/policies/explain {"args":{"path":"a"},"tool":"mcp:files/read"}`, 200, "no entry matches"},
		"call":               {url.Values{"do": {"call"}, "args": {`{"n":12345678901234567890}`}}, api + `/invoke {"args":{"n":12345678901234567890}}`, 200, "the &lt;output&gt;"},
		"no JSON":            {url.Values{"do": {"call"}, "args": {`path: <a>`}}, "", 400, "path: &lt;a&gt;"},
		"no object":          {url.Values{"do": {"call"}, "args": {"null"}}, "", 400, "are not a JSON object"},
		"something after it": {url.Values{"do": {"call"}, "args": {"{} {}"}}, "", 400, "are not a JSON object"},
		"an unknown word":    {url.Values{"do": {"remove"}}, "", 400, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.fail["/v1/tools/mcp:files/read/accept"] = `{"status":200}`
			a.fail["/v1/policies/explain"] = `{"status":200,"effect":"deny","rule":"default","reason":"no entry matches"}`
			a.done = map[string]string{"/v1/tools/mcp:files/read/invoke": `{"run_id":"` + runID + `","call":1,"status":"completed","output":{"text":"the <output>"}}`}
			w := ask(s, path, c.form)
			if w.Code != c.status || strings.Join(a.sent, "\n") != c.sent || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got status %d after %q, want %d after %q: %s", w.Code, a.sent, c.status, c.sent, w.Body)
			}
		})
	}
}

func TestPoliciesAreAsked(t *testing.T) {
	const policy = "version: 1\nname: <p>\n"
	for name, c := range map[string]struct {
		form url.Values
		sent string
		says string
	}{
		"check":   {url.Values{"do": {"check"}}, `POST /v1/policies/check {"policy":"version: 1\nname: \u003cp\u003e\n"}`, "line 2 is &lt;wrong&gt;"},
		"explain": {url.Values{"do": {"explain"}, "tool": {" fs.read "}, "args": {"{}"}}, `POST /v1/policies/explain {"args":{},"policy":"version: 1\nname: \u003cp\u003e\n","tool":"fs.read"}`, "no entry matches"},
		"judge":   {url.Values{"do": {"judge"}, "run": {runID}}, `POST /v1/policies/dry-run {"policy":"version: 1\nname: \u003cp\u003e\n","run_id":"` + runID + `"}`, "1 decision would change"},
		"learn":   {url.Values{"do": {"learn"}, "run": {runID}}, `POST /v1/policies/learn {"run_ids":["` + runID + `"]}`, "name: learned"},
		"nothing": {url.Values{"do": {"learn"}}, "", "a policy is learned from runs"},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.fail["/v1/policies/check"] = `{"status":200,"ok":false,"errors":[{"field":"policy","message":"line 2 is <wrong>"}]}`
			a.fail["/v1/policies/explain"] = `{"status":200,"effect":"deny","rule":"default","reason":"no entry matches"}`
			a.fail["/v1/policies/dry-run"] = `{"status":200,"run_id":"` + runID + `","judged":3,"changed":[{"call":2,"tool":"fs.write","was":"allow","is":"deny","rule":"default"}]}`
			a.fail["/v1/policies/learn"] = `{"status":200,"policy":"version: 1\nname: learned\n","widened":[],"calls":1}`
			c.form.Set("policy", strings.ReplaceAll(policy, "\n", "\r\n"))
			w := ask(s, "/ui/policies", c.form)
			if strings.Join(a.sent, "\n") != c.sent || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("got status %d after %q, want %q: %s", w.Code, a.sent, c.sent, w.Body)
			}
		})
	}
}

func TestTheRecordIsVerifiedAndExported(t *testing.T) {
	s, a, _ := newServer(t)
	a.fail["/v1/audit/verify"] = `{"status":200,"ok":false,"events":9,"problems":[{"table":"events","key":"3","message":"<changed>"}]}`
	if w := ask(s, "/ui/audit", url.Values{}); w.Code != 200 || !strings.Contains(w.Body.String(), "The record was changed") || !strings.Contains(w.Body.String(), "&lt;changed&gt;") {
		t.Errorf("got status %d: %s", w.Code, w.Body)
	}
	delete(a.fail, "/v1/audit/verify")
	a.fail["/v1/audit"] = `{"status":200,"items":[{"seq":2,"event":"run_started"},{"seq":1,"event":"<x>"}]}`
	w := ask(s, "/ui/audit/export?denied=1&cursor=abc", nil)
	if got := w.Header().Get("Content-Disposition"); !strings.HasPrefix(got, "attachment;") || strings.Count(w.Body.String(), "\n") != 2 {
		t.Errorf("the export is %q: %s", got, w.Body)
	}
}
