package uitest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// say adds messages to a session, as if they had been said.
func (s *service) say(session string, count int, text func(n int) model.Message) {
	s.t.Helper()
	st, err := s.app.Store(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	list := make([]store.MessageRecord, count)
	for i := range list {
		doc, err := json.Marshal(text(i + 1))
		if err != nil {
			s.t.Fatal(err)
		}
		list[i].Doc = doc
	}
	if _, err := st.AddMessages(context.Background(), uuid.MustParse(session), 0, list...); err != nil {
		s.t.Fatal(err)
	}
}

func TestConversationsOfAllKinds(t *testing.T) {
	s, b := newService(t), newTab(t)
	clock := s.talker("Clock", "- {text: Noon., repeat: true}\n", "current_time")
	asker := s.talker("Release writer", "- tool_calls: [{name: fs_write, args: {path: src/a.go, content: a}}]\n- {text: Done., repeat: true}\n", "workspace")
	s.signIn(b)
	b.watch()

	t.Run("10,000 messages", func(t *testing.T) {
		id := s.session(clock, "Long")
		s.say(id, 10_000, func(n int) model.Message {
			return model.Message{Role: []model.Role{model.Assistant, model.User}[n%2], Text: fmt.Sprintf("message %d", n)}
		})
		b.open(s.url + "/sessions/" + id)
		b.until(`document.querySelectorAll(".message[id^=m]").length === 50 && document.getElementById("m10000")`)
		run(b, chromedp.Click(`a[rel=prev]`))
		b.until(`document.querySelectorAll(".message[id^=m]").length === 50 && document.getElementById("m9950") && document.querySelector("a[rel=next]")`)
	})
	t.Run("the answer that comes in", func(t *testing.T) {
		id := s.session(clock, "Draft", "What time is it?")
		b.open(s.url + "/sessions/" + id)
		b.until(`document.body.dataset.live === "on"`)
		// Text that comes after a message that the page does not show yet is not shown.
		get[chromedp.Void](b, `(() => { const c = new BroadcastChannel("remit-ui"); for (const [after, text] of [[2, "It is <b>"], [2, "late"], [3, "later"], [2, "It is <b>"], [2, "late"]]) c.postMessage({ kind: "text", session: "`+id+`", after, text }); c.postMessage({ kind: "text", session: "other", after: 2, text: "no" }); })()`)
		b.until(`!document.getElementById("draft").hidden && document.getElementById("draft").textContent === "It is <b>late"`)
	})
	t.Run("markup and control characters", func(t *testing.T) {
		id := s.session(clock, "Evil")
		s.say(id, 3, func(n int) model.Message {
			m := model.Message{Role: []model.Role{model.User, model.Assistant, model.ToolRole}[n-1], Text: evil + "\n\n[x](javascript:window.hacked=1) ![y](https://evil.test/y.png)\n\n# heading\n" + evil}
			if n == 2 {
				m.Calls = []model.Call{{ID: "c", Name: strings.ReplaceAll(evil, "\x1b", ""), Args: json.RawMessage(`{"path":` + quoted(evil) + `}`)}}
			}
			if n == 3 {
				m.CallID = "c"
			}
			return m
		})
		evilAgent := s.talker(`<img src=x onerror=alert(1)>"'`, "- {text: x, repeat: true}\n")
		s.session(evilAgent, `</title><script>window.hacked=1</script>`)
		for _, path := range []string{"/sessions/" + id, "/sessions", "/sessions/new", "/sessions/" + id + "?command=x&help=" + "%3Cimg%3E"} {
			b.open(s.url + path)
			b.until(`document.body.dataset.script === "on"`)
			if get[bool](b, `Boolean(window.hacked) || document.querySelectorAll("main img, main script, main a[href^=javascript], main form[action='/ui/sign-out'], main style, iframe, .text h1").length > 0`) {
				t.Errorf("%s has markup of the agent", path)
			}
			if get[bool](b, `/[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(document.body.innerText)`) {
				t.Errorf("%s has characters that are not shown", path)
			}
		}
	})
	t.Run("without scripts, two people at one question", func(t *testing.T) {
		old := newTab(t)
		old.script(false)
		s.signIn(old)
		run(old, chromedp.Navigate(s.url+"/sessions/new?agent="+asker))
		run(old, chromedp.SendKeys("[name=content]", "Write it."))
		run(old, chromedp.Click("button.yes"))
		run(old, chromedp.WaitReady("#end"))
		b.open(s.url + "/")
		b.until(`document.querySelector(".cards .card")`)
		q := s.waiting()[0].ID.String()
		run(old, chromedp.Reload())
		run(old, chromedp.WaitReady("#card"))
		b.open(s.url + "/approvals/" + q)
		b.until(ready)
		run(b, chromedp.Click(`button[value="refuse"]`))
		b.until(`document.querySelector("#card .pill").textContent.includes("refused")`)
		run(old, chromedp.Click(`#card button[value="once"]`))
		run(old, chromedp.WaitReady(".alert"))
		if text := run(old, chromedp.Text(".alert")); !contains(text, "is refused already") {
			t.Errorf("the second answer says %q", text)
		}
		if state := s.state(q).State; state != store.Refused {
			t.Errorf("the question is %s", state)
		}
	})
	t.Run("replay", func(t *testing.T) {
		id := s.session(clock, "Again", "What time is it?", "And now?")
		b.open(s.url + "/sessions/" + id)
		b.until(`document.querySelectorAll(".by-assistant").length === 2`)
		run(b, chromedp.Click(`details.more summary`))
		run(b, chromedp.Click(`button[value="replay"]`))
		b.until(`document.querySelector("p.note.good")`)
		if text := get[string](b, `document.querySelector("p.note.good").textContent`); !contains(text, "4 messages and 2 calls in 1 run are the same") {
			t.Errorf("the replay says %q", text)
		}
	})
	t.Run("a lost connection sends nothing", func(t *testing.T) {
		id := s.session(clock, "Offline")
		b.open(s.url + "/sessions/" + id)
		b.until(`document.body.dataset.live === "on"`)
		run(b, chromedp.SendKeys("#content", "typed"))
		s.stop()
		b.until(`document.querySelector("button[value=say]").getAttribute("aria-disabled") === "true"`)
		get[chromedp.Void](b, `document.querySelector("button[value=say]").click()`)
		if text := get[string](b, `document.getElementById("content").value`); text != "typed" {
			t.Errorf("the message that was typed is %q", text)
		}
	})
	b.silentBut("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "Failed to load resource")
}

func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		return `""`
	}
	return string(b)
}
