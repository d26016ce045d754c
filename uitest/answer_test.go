package uitest

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// ready: the page is live, and answers are on.
const ready = `document.body.dataset.live === "on" && document.querySelector("form[data-answer]") && !document.querySelector("[aria-disabled=true]")`

// state gives the state of a question.
func (s *service) state(id string) store.Approval {
	s.t.Helper()
	q, _, err := s.app.Approvals.Find(context.Background(), id)
	if err != nil {
		s.t.Fatal(err)
	}
	return q
}

func TestAQuestionAppearsAndIsAnswered(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.signIn(b)
	b.watch()
	b.until(`document.body.dataset.live === "on"`)
	r := s.begin("release notes", true) // its call waits for the answer
	done := make(chan runner.Outcome, 1)
	go func() {
		o, _ := r.Call(context.Background(), runner.Call{Tool: "fs.write", Args: map[string]any{"path": "src/a.go", "content": "package a\n"}})
		done <- o // the zero outcome did not complete
	}()
	b.until(`document.title.startsWith("(1)") && document.querySelectorAll(".cards .card").length === 1`)
	run(b, chromedp.Click(".cards a"))
	b.until(ready)
	run(b, chromedp.Click(`button[value="once"]`))
	if o := <-done; o.Status != tool.Completed {
		t.Errorf("after the answer the call is %s: %v", o.Status, o.Err)
	}
	b.until(`document.querySelector("#card .pill").textContent.includes("approved and used")`)
	if err := r.End(context.Background()); err != nil {
		t.Error(err)
	}
	b.silent()
}

func TestTwoPeopleAtOneQuestion(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	s.signIn(b)
	b.open(s.url + "/approvals/" + id)
	b.until(ready)

	old := newTab(t) // another browser, whose page does not change
	s.signIn(old)
	old.script(false)
	old.open(s.url + "/approvals/" + id)

	run(b, chromedp.SendKeys("#reason", "not on a Friday"))
	run(b, chromedp.Click(`button[value="refuse"]`))
	b.until(`document.querySelector("#card .pill").textContent.includes("refused") && document.body.innerText.includes("not on a Friday")`)
	run(old, chromedp.Click(`button[value="once"]`))
	run(old, chromedp.WaitReady(".alert"))
	if text := run(old, chromedp.Text(".alert")); !contains(text, "is refused already") {
		t.Errorf("the second answer says %q", text)
	}
	if q := s.state(id); q.State != store.Refused || len(q.Votes) != 1 {
		t.Errorf("the question is %s with answers %v", q.State, q.Votes)
	}
}

func TestAChangedQuestionIsNotAnswered(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	s.signIn(b)
	b.open(s.url + "/approvals/" + id)
	b.until(ready)
	get[chromedp.Void](b, `document.querySelector("[name=digest]").value = "0".repeat(64)`)
	run(b, chromedp.Click(`button[value="once"]`))
	run(b, chromedp.WaitReady(".alert"))
	if text := run(b, chromedp.Text(".alert")); !contains(text, "is not the one that was shown") {
		t.Errorf("the page says %q", text)
	}
	if q := s.state(id); q.State != store.Waiting {
		t.Errorf("the question is %s", q.State)
	}
}

func TestACardThatMovesTakesNoAnswer(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	s.signIn(b)
	b.open(s.url + "/approvals/" + id)
	b.until(ready)
	off := get[string](b, `(() => {
		const line = document.createElement("p");
		line.textContent = "something above";
		document.getElementById("card").prepend(line);
		document.dispatchEvent(new Event("toggle"));
		const button = document.querySelector("button[value=once]");
		button.form.requestSubmit(button);
		return button.getAttribute("aria-disabled");
	})()`)
	if off != "true" {
		t.Errorf("after it moved, the button has aria-disabled=%q", off)
	}
	b.until(ready)
	if q := s.state(id); q.State != store.Waiting {
		t.Errorf("the question is %s", q.State)
	}
}

func TestALostConnectionTakesNoAnswer(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	s.signIn(b)
	b.open(s.url + "/approvals/" + id)
	b.until(ready)
	address := hostOf(t, s.url)
	s.stop()
	b.until(`!document.getElementById("live").hidden && document.getElementById("live").innerText.includes("not live since") && document.querySelector("button[value=once]").getAttribute("aria-disabled") === "true"`)
	s.start(address) // under another name: the page cannot become live again
	s.signIn(b)
	b.open(s.url + "/approvals/" + id)
	b.until(ready + ` && document.getElementById("live").hidden`)
	run(b, chromedp.Click(`button[value="once"]`))
	b.until(`document.querySelector("#card .pill").textContent.includes("approved")`)
}

func TestOnePageOfABrowserHasTheStream(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.signIn(b)
	b.until(`document.body.dataset.live === "on"`)
	second := b.more()
	second.open(s.url + "/runs")
	second.until(`document.body.dataset.live === "on"`)
	s.agent("seen by both", call{"fs.list", map[string]any{"path": "."}})
	second.until(`document.body.innerText.includes("seen by both")`)
	held := run(second, chromedp.EvaluateAsDevTools[int](`navigator.locks.query().then((q) => q.held.length)`, chromedp.EvalAwaitPromise))
	if held != 1 {
		t.Errorf("%d pages have an event stream", held)
	}
}

func TestByKeyboardAlone(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	s.signIn(b)
	b.until(`document.body.dataset.script === "on"`)
	b.follow("gr", "/ui/runs")
	run(b, chromedp.KeyEvent("/"))
	b.until(`document.activeElement.id === "tool"`)
	if get[string](b, `document.activeElement.value`) != "" { // the driver types the key, also where the page took it
		run(b, chromedp.KeyEvent(kb.Backspace))
	}
	run(b, chromedp.KeyEvent("fs.write"))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`location.search.includes("tool=fs.write") && document.body.dataset.script === "on"`)
	run(b, chromedp.KeyEvent("?"))
	b.until(`document.getElementById("help").open`)
	run(b, chromedp.KeyEvent(kb.Escape))
	b.until(`!document.getElementById("help").open`)
	b.follow("gi", "/ui/")
	run(b, chromedp.KeyEvent("j"))
	b.until(`document.activeElement.closest(".card")`)
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(ready)
	for range 40 {
		if get[bool](b, `document.activeElement.value === "once"`) {
			break
		}
		run(b, chromedp.KeyEvent(kb.Tab))
	}
	b.until(ready)
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("#card .pill").textContent.includes("approved")`)
	if q := s.state(id); q.State != store.Approved {
		t.Errorf("the question is %s", q.State)
	}
}

func TestWithoutScripts(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	b.script(false)
	s.signIn(b)
	run(b, chromedp.Click(".cards a"))
	run(b, chromedp.WaitReady("#card"))
	run(b, chromedp.Click(`button[value="matching"]`))
	run(b, chromedp.WaitReady(".votes"))
	if q := s.state(id); q.State != store.Approved || q.Session == nil {
		t.Errorf("the question is %s", q.State)
	}
	run(b, chromedp.Navigate(s.url+"/settings"))
	run(b, chromedp.Click(`input[value="dark"]`))
	run(b, chromedp.Click(`form[action="/ui/settings/theme"] button`))
	run(b, chromedp.WaitReady(`html[data-theme="dark"]`))
	run(b, chromedp.Click(`form[action="/ui/sign-out"] button`))
	run(b, chromedp.WaitReady(".outside"))
}

func TestThePathOfTheRedirectFile(t *testing.T) {
	s, b := newService(t), newTab(t)
	link, err := s.app.UILink(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	file, err := s.app.UIRedirect(link)
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(file) != filepath.Join(s.home, "ui") {
		t.Errorf("the file is %s", file)
	}
	run(b, chromedp.Navigate("file://"+file))
	run(b, chromedp.WaitReady("input[name=code]"))
	run(b, chromedp.Click("button"))
	run(b, chromedp.WaitReady("nav"))
}
