package uitest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabTo moves the focus with the Tab key until an expression on the focused element is true.
func (b *tab) tabTo(expression string) {
	b.t.Helper()
	for range 80 {
		if get[bool](b, `Boolean(((e) => `+expression+`)(document.activeElement))`) {
			return
		}
		run(b, chromedp.KeyEvent(kb.Tab))
	}
	b.t.Fatalf("Tab never comes to %s\nthe page: %s", expression, b.describe())
}

func TestAnAgentIsMadeAndChanged(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.write("clock.yaml", "- {text: Noon., repeat: true}\n")
	s.signIn(b)
	b.watch()

	// By keyboard alone: a new agent with a capability.
	b.follow("gn", "/ui/agents")
	b.tabTo(`e.getAttribute("href") === "/ui/agents/new"`)
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`location.pathname === "/ui/agents/new" && document.body.dataset.script === "on"`)
	b.tabTo(`e.name === "name"`)
	run(b, chromedp.KeyEvent("Clock"))
	b.tabTo(`e.name === "model"`)
	run(b, chromedp.KeyEvent("scripted:clock.yaml"))
	b.tabTo(`e.tagName === "BUTTON"`)
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("h1").textContent.includes("Clock") && document.getElementById("ref")`)
	path := get[string](b, `location.pathname`)
	b.tabTo(`e.id === "ref"`)
	run(b, chromedp.KeyEvent("Web F"))
	b.tabTo(`e.value === "add"`)
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelectorAll("#capabilities ~ .scroll tbody tr").length === 1 && document.body.innerText.includes("web_fetch")`)

	// A configuration that is not valid is refused beside what was typed; a valid one is set.
	b.open(s.url + path[len("/ui"):] + "/capabilities/web_fetch")
	run(b, chromedp.SendKeys(`[name="config.max_bytes"]`, "0"))
	run(b, chromedp.Click(".form button"))
	b.until(`document.querySelector(".alert") && document.querySelector("[name='config.max_bytes']").value === "0"`)
	run(b, chromedp.SendKeys(`[name="config.max_bytes"]`, "9"))
	get[chromedp.Void](b, `document.querySelector("[name='config.max_bytes']").value = "9000"`)
	run(b, chromedp.Click(".form button"))
	b.until(`document.querySelector("tbody code") && document.body.innerText.includes('{"max_bytes":9000}')`)

	// Two people at one agent, one of them without scripts: the second sees what differs.
	old := newTab(t)
	old.script(false)
	s.signIn(old)
	run(old, chromedp.Navigate(s.url+path[len("/ui"):]))
	run(old, chromedp.WaitReady("h1"))
	run(b, chromedp.SendKeys("[name=system_prompt]", "Answer in one word."))
	run(b, chromedp.Click(`button[value="save"]`))
	b.until(`document.body.innerText.includes("version 4")`)
	run(old, chromedp.SendKeys("[name=system_prompt]", "Answer at length."))
	run(old, chromedp.Click(`button[value="save"]`))
	run(old, chromedp.WaitReady("#conflict"))
	if text := run(old, chromedp.Text("main")); !contains(text, "- Answer in one word.") || !contains(text, "+ Answer at length.") || !contains(text, "Save mine over version 4") {
		t.Errorf("the page says %q", text)
	}
	run(old, chromedp.Click(`button[value="save"]`))
	run(old, chromedp.WaitReady("main:not(:has(#conflict)) h1"))
	b.open(s.url + path[len("/ui"):])
	b.until(`document.body.innerText.includes("version 5") && document.querySelector("[name=system_prompt]").value === "Answer at length."`)
	b.silent()
}
