package uitest

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// press moves the focus to an element with the Tab key, and presses Enter.
func (b *tab) press(expression string) {
	b.t.Helper()
	b.tabTo(expression)
	run(b, chromedp.KeyEvent(kb.Enter))
}

// TestTasksByKeyboardAlone has the tasks of the pages that no other test does by keyboard.
func TestTasksByKeyboardAlone(t *testing.T) {
	s, b := newService(t), newTab(t)
	a := s.talker("Clock", "- {text: Noon., repeat: true}\n", "current_time")
	s.agent("build", write("out/build.log", "ok\n"), write("/etc/passwd", "x"))
	held := s.held(write("out/a.txt", "a\n"))
	s.signIn(b)
	b.watch()
	follow := func(keys, path string) {
		t.Helper()
		b.until(`document.body.dataset.script === "on"`)
		b.follow(keys, path)
	}
	there := func(path string) {
		t.Helper()
		b.until(`location.pathname === "` + path + `" && document.body.dataset.live === "on"`)
	}

	follow("gr", "/ui/runs")
	b.press(`e.getAttribute("href") === "/ui/runs/new"`)
	there("/ui/runs/new")
	b.press(`e.textContent === "Start the run"`)
	b.until(`document.querySelector("h1 .s-completed") && document.querySelector("tbody a").textContent === "time.now"`)

	follow("gg", "/ui/grants")
	b.press(`e.getAttribute("href") === "/ui/grants/new"`)
	there("/ui/grants/new")
	b.tabTo(`e.name === "calls"`)
	run(b, chromedp.KeyEvent("5"))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector(".token")`)
	b.press(`e.textContent === "Look at the grant"`)
	b.until(`document.querySelector("a[href$='ask=pause']") && document.body.dataset.script === "on"`)
	b.press(`e.textContent === "Pause…"`)
	b.until(`document.querySelector("button[value=pause]") && document.body.dataset.script === "on"`)
	b.press(`e.value === "pause"`)
	b.until(`document.querySelector("h1 .s-paused")`)

	follow("gt", "/ui/tools")
	run(b, chromedp.KeyEvent("/"))
	b.until(`document.activeElement.matches("[data-search]")`)
	if get[string](b, `document.activeElement.value`) != "" { // the driver types the key, also where the page took it
		run(b, chromedp.KeyEvent(kb.Backspace))
	}
	run(b, chromedp.KeyEvent("time.now"))
	run(b, chromedp.KeyEvent(kb.Enter))
	b.until(`location.search.includes("time.now") && document.body.dataset.script === "on"`)
	run(b, chromedp.KeyEvent("j"))
	run(b, chromedp.KeyEvent(kb.Enter))
	there("/ui/tools/time.now")
	b.press(`e.value === "call"`)
	b.until(`document.querySelector(".card .s-completed")`)

	follow("gp", "/ui/policies")
	b.tabTo(`e.name === "tool"`)
	run(b, chromedp.KeyEvent("time.now"))
	b.press(`e.value === "explain"`)
	b.until(`document.querySelector(".card[role=status] .s-completed")`)

	follow("ga", "/ui/audit")
	b.tabTo(`e.name === "denied"`)
	run(b, chromedp.KeyEvent(" "))
	b.press(`e.textContent === "Show"`)
	b.until(`location.search.includes("denied=1") && document.querySelectorAll("tbody tr").length === 1`)
	b.press(`e.textContent === "Verify the whole record"`)
	b.until(`document.querySelector(".verified.s-completed")`)

	follow("ge", "/ui/settings")
	b.tabTo(`e.name === "theme"`)
	run(b, chromedp.KeyEvent(kb.ArrowDown))
	run(b, chromedp.KeyEvent(kb.ArrowDown))
	b.press(`e.textContent === "Save colours"`)
	b.until(`document.documentElement.dataset.theme === "dark"`)

	follow("gs", "/ui/sessions")
	b.press(`e.getAttribute("href") === "/ui/sessions/new"`)
	there("/ui/sessions/new")
	b.tabTo(`e.name === "agent"`)
	run(b, chromedp.KeyEvent("Clock"))
	b.tabTo(`e.name === "content"`)
	run(b, chromedp.KeyEvent("What time is it?"))
	b.press(`e.tagName === "BUTTON"`)
	b.until(`document.body.innerText.includes("Noon.")`)
	b.press(`e.textContent === "Files"`)
	b.until(`location.pathname.endsWith("/files")`)

	b.open(s.url + "/capabilities")
	b.press(`e.getAttribute("href") === "/ui/capabilities/current_time"`)
	there("/ui/capabilities/current_time")
	b.open(s.url + "/agents/" + a)
	b.press(`e.value === "remove"`)
	b.until(`document.querySelector("#capabilities ~ .empty")`)

	if held == "" {
		t.Log("changes cannot be held here")
		return
	}
	b.open(s.url + "/changes/" + held)
	b.until(`document.body.dataset.live === "on" && !document.querySelector("[aria-disabled=true]")`)
	b.press(`e.value === "apply"`)
	b.until(`document.querySelector(".s-applied")`)
	b.silent()
}
