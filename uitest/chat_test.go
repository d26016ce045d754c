package uitest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// api makes a request of the admin to the HTTP API, and reads the answer into out.
func (s *service) api(method, path string, in, out any) {
	s.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+hostOf(s.t, s.url)+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	token, err := os.ReadFile(filepath.Join(s.home, "keys", "admin.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	if answer.StatusCode >= 300 {
		var b bytes.Buffer
		_, _ = b.ReadFrom(answer.Body)
		s.t.Fatalf("%s %s: %s %s", method, path, answer.Status, b.String())
	}
	if out != nil {
		if err := json.NewDecoder(answer.Body).Decode(out); err != nil {
			s.t.Fatal(err)
		}
	}
}

// made is what the API made.
type made struct {
	ID string `json:"id"`
}

// talker makes an agent that gives answers from a script.
func (s *service) talker(name, script string, capabilities ...any) string {
	s.t.Helper()
	file := strings.ToLower(strings.Fields(name)[0]) + ".yaml"
	s.write(file, script)
	var a made
	s.api("POST", "/v1/agents", map[string]any{"name": name, "system_prompt": "Answer briefly.", "model": "scripted:" + file, "capabilities": capabilities}, &a)
	return a.ID
}

// session begins a session, with some messages of the person.
func (s *service) session(agent, title string, said ...string) string {
	s.t.Helper()
	var m made
	s.api("POST", "/v1/sessions", map[string]any{"agent_id": agent, "title": title}, &m)
	for _, text := range said {
		s.api("POST", "/v1/sessions/"+m.ID+"/messages", map[string]any{"content": text}, nil)
	}
	return m.ID
}

const releaseScript = `- text: "I look at the code first."
  tool_calls: [{name: fs_read, args: {path: src/main.go}}, {name: fs_read, args: {path: /etc/shadow}}]
- tool_calls: [{name: write_file, args: {path: /notes/release.md, content: "# Notes\n\nThe first release.\n"}}, {name: get_current_time, args: {timezone: Europe/Lisbon}}]
- text: |
    The notes are in **/notes/release.md**. What I found:

    | part | state |
    | --- | --- |
    | main | does nothing yet |
    | tests | none |

    1. Write a ` + "`main`" + ` that does something
    2. Add tests, as [the guide](https://go.dev/doc/tutorial/add-a-test) says:

    ` + "```go" + `
    func TestMain(t *testing.T) { run() }
    ` + "```" + `

    > /etc/shadow was refused, as it should be.
- text: "The version needs your approval."
  tool_calls: [{name: fs_write, args: {path: src/version.go, content: "package main\n\nconst version = \"1.4.0\"\n"}}]
- text: "src/version.go has the version **1.4.0** now."
`

// furnishedChat adds agents and conversations to a service, and their pages.
func furnishedChat(s *service, pages map[string]string) {
	s.t.Helper()
	a := s.talker("Release writer", releaseScript, "session_file_system", "current_time", "workspace")
	s.talker("Clock", "- {text: Noon., repeat: true}\n", "current_time")
	idle := s.session(a, "Notes of 1.4.0", "Write the release notes.")
	asks := s.session(a, "Version of 1.4.0", "Write the release notes.", "Set the version to 1.4.0.")
	pages["sessions"], pages["session-new"] = "/sessions", "/sessions/new?agent="+a
	pages["session"], pages["session-asks"] = "/sessions/"+idle, "/sessions/"+asks
	pages["files"], pages["file"] = pages["session"]+"/files", pages["session"]+"/files/notes/release.md"
	pages["agents"], pages["agent"], pages["agent-new"] = "/agents", "/agents/"+a, "/agents/new"
	pages["capabilities"], pages["capability"], pages["config"] = "/capabilities", "/capabilities/web_fetch", "/agents/"+a+"/capabilities/workspace"
	pages["command-help"] = pages["session"] + "?help=all"
}

func TestAConversation(t *testing.T) {
	s, b := newService(t), newTab(t)
	a := s.talker("Release writer", releaseScript, "session_file_system", "current_time", "workspace")
	s.signIn(b)
	b.watch()
	b.follow("gs", "/ui/sessions")
	b.open(s.url + "/sessions/new?agent=" + a)
	run(b, chromedp.SendKeys("[name=title]", "Notes"))
	run(b, chromedp.SendKeys("[name=content]", "Write the release notes."))
	run(b, chromedp.Click("button.yes"))
	b.until(`document.querySelectorAll(".by-assistant").length === 3 && document.querySelector("h1 .pill").textContent === "idle"`)
	if got := get[[]string](b, `[...document.querySelectorAll(".call .pill")].map((e) => e.textContent)`); strings.Join(got, " ") != "completed denied completed completed" {
		t.Errorf("the calls are %q", got)
	}
	if !get[bool](b, `document.querySelector(".text table") && document.querySelector(".text a[href='https://go.dev/doc/tutorial/add-a-test'][rel~=noopener]") && [...document.querySelectorAll(".call .made")].every((e) => e.textContent.length > 2)`) {
		t.Error("the answer has no table or link, or a call no decision")
	}

	// The next turn asks; the answer is given in the conversation, by keyboard.
	run(b, chromedp.SendKeys("#content", "Set the version to 1.4.0."))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(ready + ` && document.querySelector("#card button[value=once]")`)
	run(b, chromedp.Click(`button[value="once"]`))
	b.until(`document.body.innerText.includes("1.4.0 now") && document.querySelector("h1 .pill").textContent === "idle" && !document.getElementById("card")`)

	// A slash command, completed with keys.
	run(b, chromedp.SendKeys("#content", "/he"))
	b.until(`[...document.querySelectorAll("#completions:not([hidden]) code")].map((e) => e.textContent).join() === "/help"`) // not the list of a shorter line
	run(b, chromedp.KeyEvent(kb.ArrowDown))
	run(b, chromedp.KeyEvent(kb.Tab))
	b.until(`document.getElementById("content").value === "/help "`)
	run(b, chromedp.KeyEvent(kb.Escape))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("#command pre") && document.querySelector("#command pre").textContent.includes("/call")`)
	b.silent()
}
