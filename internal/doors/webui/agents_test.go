package webui_test

import (
	"net/url"
	"strings"
	"testing"
)

func TestFormsOfAgents(t *testing.T) {
	const agent, path = "/v1/agents/" + agentID, "/ui/agents/" + agentID
	const made = `{"id":"` + agentID + `"}`
	const all = `{"capabilities":["current_time",{"ref":"web_fetch","config":{"max_bytes":1000}},{"ref":"mcp","config":{"servers":["files"]}}]}`
	swapped := strings.Replace(all, `"current_time",{"ref":"web_fetch","config":{"max_bytes":1000}}`, `{"ref":"web_fetch","config":{"max_bytes":1000}},"current_time"`, 1)
	for name, c := range map[string]struct {
		to   string
		form url.Values
		sent string
		next string // "": the page says why not
	}{
		"create":            {"/ui/agents/new", url.Values{"name": {" A "}, "system_prompt": {"a\r\nb"}, "steps": {"7"}}, `POST /v1/agents {"limits":{"steps":7},"model":"","name":"A","policy":"","system_prompt":"a\nb"}`, path},
		"create, bad limit": {"/ui/agents/new", url.Values{"name": {"A"}, "steps": {"<many>"}}, "", ""},
		"save":              {path, url.Values{"do": {"save"}, "version": {"3"}, "name": {"A"}}, "PATCH " + agent + ` {"limits":{},"model":"","name":"A","policy":"","system_prompt":""}`, path},
		"without a version": {path, url.Values{"do": {"save"}, "name": {"A"}}, "", ""},
		"up":                {path, url.Values{"do": {"up"}, "version": {"3"}, "ref": {"web_fetch"}}, "PATCH " + agent + " " + swapped, path + "#capabilities"},
		"down":              {path, url.Values{"do": {"down"}, "version": {"3"}, "ref": {"current_time"}}, "PATCH " + agent + " " + swapped, path + "#capabilities"},
		"up, the first":     {path, url.Values{"do": {"up"}, "version": {"3"}, "ref": {"current_time"}}, "PATCH " + agent + " " + all, path + "#capabilities"},
		"remove":            {path, url.Values{"do": {"remove"}, "version": {"3"}, "ref": {"mcp"}}, "PATCH " + agent + ` {"capabilities":["current_time",{"ref":"web_fetch","config":{"max_bytes":1000}}]}`, path + "#capabilities"},
		"remove another":    {path, url.Values{"do": {"remove"}, "version": {"3"}, "ref": {"mine"}}, "", ""},
		"add":               {path, url.Values{"do": {"add"}, "version": {"3"}, "ref": {"mine"}}, "PATCH " + agent + " " + strings.Replace(all, "]}}]", `]}},"mine"]`, 1), path + "#capabilities"},
		"add, to configure": {path, url.Values{"do": {"add"}, "version": {"3"}, "ref": {"mcp"}}, "", path + "/capabilities/mcp?add=1"},
		"delete":            {path, url.Values{"do": {"delete"}}, "DELETE " + agent + " ", "/ui/agents"},
		"an unknown word":   {path, url.Values{"do": {"rename"}, "version": {"3"}}, "", ""},
		"configure":         {path + "/capabilities/web_fetch", url.Values{"version": {"3"}, "config.max_bytes": {" 5 "}, "config.strict": {"true"}, "config.as": {"text"}, "config.headers": {`{"a": 1}`}, "config.rename": {"web_fetch = get\r\n"}}, "PATCH " + agent + " " + strings.Replace(all, `{"max_bytes":1000}`, `{"as":"text","headers":{"a":1},"max_bytes":5,"rename":{"web_fetch":"get"},"strict":true}`, 1), path + "#capabilities"},
		"configure lines":   {path + "/capabilities/mcp", url.Values{"version": {"3"}, "config.servers": {"a\r\n\r\n b \r\n"}}, "PATCH " + agent + " " + strings.Replace(all, `["files"]`, `["a","b"]`, 1), path + "#capabilities"},
		"configure nothing": {path + "/capabilities/web_fetch", url.Values{"version": {"3"}}, "PATCH " + agent + " " + strings.Replace(all, `{"ref":"web_fetch","config":{"max_bytes":1000}}`, `"web_fetch"`, 1), path + "#capabilities"},
		"no number":         {path + "/capabilities/web_fetch", url.Values{"version": {"3"}, "config.max_bytes": {"<5.5>"}}, "", ""},
		"no JSON":           {path + "/capabilities/web_fetch", url.Values{"version": {"3"}, "config.headers": {"{"}}, "", ""},
		"no names":          {path + "/capabilities/web_fetch", url.Values{"version": {"3"}, "config.rename": {"web_fetch"}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, a, _ := newServer(t)
			a.done = map[string]string{"/v1/agents": made, agent: made}
			w := ask(s, c.to, c.form)
			if got := strings.Join(a.sent, "\n"); got != c.sent {
				t.Errorf("sent %s\nwant %s", got, c.sent)
			}
			if strings.HasPrefix(c.sent, "PATCH") && a.match != `"v3"` {
				t.Errorf("If-Match is %q", a.match)
			}
			if next := w.Header().Get("Location"); next != c.next {
				t.Errorf("status %d, goes on with %q, want %q", w.Code, next, c.next)
			}
			if body := w.Body.String(); c.next == "" && (w.Code < 400 || !strings.Contains(body, `role="alert"`)) {
				t.Errorf("status %d without a reason: %s", w.Code, body)
			}
			if typed := c.form.Get("config.max_bytes") + c.form.Get("steps"); strings.HasPrefix(typed, "<") && !strings.Contains(w.Body.String(), `value="&lt;`) {
				t.Error("what was typed is lost")
			}
		})
	}
}

func TestAChangedAgentIsShownAsADifference(t *testing.T) {
	s, a, _ := newServer(t)
	a.done = map[string]string{"/v1/agents/" + agentID: `{"status":412,"title":"Precondition Failed","code":"E8016","detail":"the agent is at version 3, not 2"}`}
	w := ask(s, "/ui/agents/"+agentID, url.Values{"do": {"save"}, "version": {"2"}, "name": {"Release writer"}, "model": {"scripted:release.yaml"}, "system_prompt": {"Answer <long>."}, "policy": {"version: 1\r\nrest: inherit\r\n"}, "steps": {"20"}})
	body := w.Body.String()
	for _, want := range []string{"the agent is at version 3, not 2", `<span class="line del">- Answer briefly.`, `<span class="line add">&#43; Answer &lt;long&gt;.`, `name="version" value="3"`, "Save mine over version 3", "Answer &lt;long&gt;.</textarea>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if w.Code != 412 || strings.Count(body, "<h3>") != 1 || a.match != `"v2"` {
		t.Errorf("status %d, If-Match %q, %d fields differ", w.Code, a.match, strings.Count(body, "<h3>"))
	}
}

func TestAnAgentIsPreviewed(t *testing.T) {
	const answer = `{"version":0,"system_prompt":"Whole <prompt>","tools":[{"name":"read_file","id":"session.read_file","capability":"files","risk":"low"}]}`
	form := url.Values{"do": {"preview"}, "name": {"Mine"}, "system_prompt": {"Be <brief>."}, "version": {"3"}, "steps": {"7"}}
	for path, sent := range map[string]string{
		"/ui/agents/new":        `POST /v1/agents/effective {"limits":{"steps":7},"model":"","name":"Mine","policy":"","system_prompt":"Be \u003cbrief\u003e."}`,
		"/ui/agents/" + agentID: `POST /v1/agents/effective {"capabilities":[`,
	} {
		s, a, _ := newServer(t)
		a.done = map[string]string{"/v1/agents/effective": answer}
		w := ask(s, path, form)
		body := w.Body.String()
		if w.Code != 200 || len(a.sent) != 1 || !strings.HasPrefix(a.sent[0], sent) {
			t.Errorf("%s: status %d after %q", path, w.Code, a.sent)
		}
		for _, text := range []string{"It is not saved", "Whole &lt;prompt&gt;", "read_file", "Be &lt;brief&gt;."} {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q: %s", path, text, body)
			}
		}
		a.done["/v1/agents/effective"] = `{"status":422,"detail":"the policy is <not> valid","errors":[{"field":"1:2 policy","message":"x"}]}`
		if w := ask(s, path, form); w.Code != 422 || !strings.Contains(w.Body.String(), "is &lt;not&gt; valid") || strings.Contains(w.Body.String(), "It is not saved") || !strings.Contains(w.Body.String(), "Be &lt;brief&gt;.") {
			t.Errorf("%s, not valid: status %d: %s", path, w.Code, w.Body)
		}
	}
}
