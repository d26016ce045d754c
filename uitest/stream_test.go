package uitest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// slowModel is a service of models that gives the pieces of its answers one by one.
func slowModel(t *testing.T) (url string, say func(piece string)) {
	t.Helper()
	pieces, done := make(chan string), make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		send := func(choice string) {
			_, _ = io.WriteString(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[`+choice+`]}`+"\n\n")
			_ = http.NewResponseController(w).Flush()
		}
		send(`{"index":0,"delta":{"role":"assistant","content":""}}`)
		for {
			select {
			case piece := <-pieces:
				if piece == "" {
					send(`{"index":0,"delta":{},"finish_reason":"stop"}`)
					_, _ = io.WriteString(w, "data: [DONE]\n\n")
					return
				}
				send(`{"index":0,"delta":{"content":` + quoted(piece) + `}}`)
			case <-r.Context().Done():
				return
			case <-done:
				return
			}
		}
	}))
	t.Cleanup(func() { close(done); h.Close() }) // an answer may be under way
	return h.URL + "/v1", func(piece string) {
		select {
		case pieces <- piece:
		case <-time.After(patience):
			t.Fatal("nobody asks for an answer")
		}
	}
}

// untilSaid says a piece again and again until the page shows one: the pieces from before its stream follows the session are not shown.
func (b *tab) untilSaid(shown string, say func()) {
	b.t.Helper()
	for end := time.Now().Add(patience); !get[bool](b, shown); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("no piece is shown: %s\nthe page: %s", shown, b.describe())
		}
		say()
	}
}

// With no stream left, a browser asks for its page again and again, says so, and can answer.
func TestABrowserWithoutAStreamAnswers(t *testing.T) {
	s, first, b := newService(t), newTab(t), newTab(t)
	s.stop()
	s.streams = 1
	s.start("127.0.0.1:0")
	s.signIn(first)
	first.until(`document.body.dataset.live === "on"`) // it has the only stream
	s.signIn(b)
	b.until(`document.body.dataset.live === "polls" && document.getElementById("live-text").textContent.includes("every 2 s")`)
	id := s.question(write("src/a.go", "package a\n"))
	b.until(`document.querySelectorAll(".cards .card").length === 1`)
	b.open(s.url + "/approvals/" + id)
	b.until(`document.body.dataset.live === "polls" && document.querySelector("form[data-answer]") && !document.querySelector("[aria-disabled=true]")`)
	run(b, chromedp.Click(`button[value="once"]`))
	b.until(`document.querySelector("#card .pill").textContent.includes("approved")`)
}

func TestAnAnswerIsShownAsItComesIn(t *testing.T) {
	url, say := slowModel(t)
	s, b := newService(t, "models: {providers: {slow: {kind: openai, base_url: "+quoted(url)+"}}}\n"), newTab(t)
	var a made
	s.api("POST", "/v1/agents", map[string]any{"name": "Slow", "model": "slow/m"}, &a)
	id := s.session(a.ID, "Slow")
	s.signIn(b)
	b.watch()
	b.open(s.url + "/sessions/" + id)
	other := b.more() // the page with the stream need not be the one with the conversation
	other.open(s.url + "/sessions/" + id)
	b.until(`document.body.dataset.live === "on"`)
	run(b, chromedp.SendKeys("#content", "What time is it?"))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("h1 .pill").textContent === "working" && document.getElementById("m1") && document.body.dataset.live === "on"`)
	const draft = `document.getElementById("draft").textContent`
	// Pieces from before the stream follows the session are not shown: the message has them.
	say("It ")
	b.untilSaid(draft+` !== ""`, func() { say("is ") })
	say("<b>\u202e")
	b.until(draft + `.endsWith("<b>\\u202e")`)
	other.until(draft + `.endsWith("<b>\\u202e")`)
	run(b, chromedp.SendKeys("#content", "typed meanwhile"))
	say(" **noon**.")
	say("")
	for _, page := range []*tab{b, other} {
		page.until(`document.querySelector("#m2 strong") && document.querySelector("#m2 strong").textContent === "noon" && document.getElementById("draft").hidden && document.querySelector("h1 .pill").textContent === "idle"`)
	}
	if text := get[string](b, `document.getElementById("content").value`); text != "typed meanwhile" {
		t.Errorf("the message that was typed is %q", text)
	}
	b.silent()
}

func TestASubAgentIsLive(t *testing.T) {
	url, say := slowModel(t)
	s, b := newService(t, "models: {providers: {slow: {kind: openai, base_url: "+quoted(url)+"}}}\n"), newTab(t)
	s.api("POST", "/v1/agents", map[string]any{"name": "Slow", "model": "slow/m"}, nil)
	boss := s.talker("Boss", `- tool_calls: [{name: spawn_agent, args: {name: counter, agent: Slow, task: Count.}}]
- tool_calls: [{name: wait}]
- text: It has counted.
`, "subagents")
	id := s.session(boss, "Delegates")
	s.signIn(b)
	b.watch()
	b.open(s.url + "/sessions/" + id)
	b.until(`document.body.dataset.live === "on"`)
	run(b, chromedp.SendKeys("#content", "Have it counted."))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("details.child")`)
	get[chromedp.Void](b, `document.querySelector("details.child").open = true`) // a page keeps what was closed as it is
	const draft = `((e) => e ? e.textContent : "")(document.querySelector(".child [data-draft]"))`
	b.untilSaid(draft+`.endsWith("<i>two ")`, func() { say("<i>two ") })
	if !get[bool](b, `document.getElementById("draft").hidden`) {
		t.Error("the piece is shown as the parent's too")
	}
	loadAxe(b)
	for _, bad := range axe(b) {
		t.Error(bad)
	}
	say("")
	b.until(`document.querySelector(".child .by-assistant .text") && !document.querySelector(".child [data-draft]")`)
	b.until(`[...document.querySelectorAll(".by-assistant")].some((e) => e.innerText.includes("It has counted.")) && document.querySelector("h1 .pill").textContent === "idle"`)
	b.silent()
}
