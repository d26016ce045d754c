package uitest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/remitrun/remit/internal/record/store"
)

// text gives the text of an element as it is now: the page may have replaced the one that the
// driver knows.
func (b *tab) text(selector string) string {
	b.t.Helper()
	return get[string](b, `document.querySelector("`+selector+`").innerText`)
}

// TestLookingAndTrying steps through calls, and asks what would be without changing anything.
func TestLookingAndTrying(t *testing.T) {
	s, b := newService(t), newTab(t)
	var calls []call
	for range 40 {
		calls = append(calls, call{"fs.read", map[string]any{"path": "src/main.go"}})
	}
	id := s.agent("many calls", calls...)
	agent := s.talker("Clock", "- {text: Noon., repeat: true}\n", "current_time")
	s.signIn(b)
	b.watch()

	t.Run("calls", func(t *testing.T) {
		b.open(s.url + "/runs/" + id + "/calls/20")
		b.until(`document.body.dataset.script === "on"`)
		run(b, chromedp.KeyEvent("j"))
		b.until(`location.pathname.endsWith("/calls/21") && document.body.dataset.script === "on"`)
		if at := get[string](b, `document.querySelector(".tree [aria-current]").innerText + document.querySelectorAll(".tree li").length`); !contains(at, "21") || !strings.HasSuffix(at, "25") {
			t.Errorf("the tree shows %q", at)
		}
		run(b, chromedp.KeyEvent("k"))
		b.until(`location.pathname.endsWith("/calls/20") && document.body.dataset.script === "on"`)
		b.view(320, "light")
		if rows, wide := get[int](b, `[...document.querySelectorAll(".tree li")].filter((e) => e.getClientRects().length).length`), get[int](b, `document.documentElement.scrollWidth`); rows != 3 || wide > 320 {
			t.Errorf("on 320 px the tree has %d rows, and the page %d px", rows, wide)
		}
		b.view(1280, "light")
	})
	t.Run("a policy", func(t *testing.T) {
		b.open(s.url + "/policies")
		b.until(`document.querySelector("#checked .s-completed")`) // as it was opened
		run(b, chromedp.SendKeys("#policy", "filse: {}\n"))
		b.until(`document.querySelector("#checked a[data-line]")`)
		if text := b.text("#checked"); !contains(text, "line 1, column 1") || !contains(text, "filse") {
			t.Errorf("it says %q", text)
		}
		get[chromedp.Void](b, `document.querySelector("#checked a[data-line]").click()`)
		if got := get[string](b, `((e) => document.activeElement === e && e.value.slice(e.selectionStart, e.selectionEnd))(document.getElementById("policy"))`); got != "filse: {}" {
			t.Errorf("%q is selected", got)
		}
		accessible(b, "a policy with an error")
		run(b, chromedp.KeyEvent(kb.Delete))
		b.until(`document.querySelector("#checked .s-completed")`)
	})
	t.Run("an agent", func(t *testing.T) {
		b.open(s.url + "/agents/" + agent)
		run(b, chromedp.SendKeys("[name=system_prompt]", "In verse. "))
		run(b, chromedp.Click(`button[value="preview"]`))
		b.until(`document.querySelector("#preview details[open] pre")`)
		if text := b.text("#preview"); !contains(text, "In verse. Answer briefly.") || !contains(text, "get_current_time") || !contains(text, "not saved") {
			t.Errorf("it says %q", text)
		}
		accessible(b, "a previewed agent")
		b.open(s.url + "/agents/" + agent)
		if text := get[string](b, `document.querySelector("[name=system_prompt]").value`); text != "Answer briefly." {
			t.Errorf("the preview saved %q", text)
		}
	})
	t.Run("a replay", func(t *testing.T) {
		b.open(s.url + "/runs/" + id)
		run(b, chromedp.Click(`form.do button`))
		b.until(`document.querySelector(".note .s-completed")`)
		accessible(b, "a replayed run")
		get[chromedp.Void](b, `document.querySelector(".note a").click()`)
		b.until(`document.body.innerText.includes("replay of") && document.querySelectorAll("tbody tr").length === 40`)
	})
	t.Run("a confirmation", func(t *testing.T) {
		s.forgetConfirmations()
		b.script(false)
		b.open(s.url + "/grants/new")
		run(b, chromedp.SendKeys("[name=note]", `<b>"mine"`))
		run(b, chromedp.Click("form.form button"))
		run(b, chromedp.WaitReady("[name=confirm-code]"))
		run(b, chromedp.SendKeys("[name=confirm-code]", "wrong"))
		run(b, chromedp.KeyEvent(kb.Enter))
		run(b, chromedp.WaitReady(".alert"))
		b.script(true) // axe-core needs it
		accessible(b, "a confirmation")
		b.script(false)
		link, err := s.app.UILink(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		run(b, chromedp.SendKeys("[name=confirm-code]", link))
		run(b, chromedp.KeyEvent(kb.Enter))
		run(b, chromedp.WaitReady(".token"))
		run(b, chromedp.Click(".token ~ p a"))
		run(b, chromedp.WaitReady("q"))
		if note := b.text("q"); note != `<b>"mine"` {
			t.Errorf("the note is %q", note)
		}
	})
	b.silent()
}

// forgetConfirmations lets it be long ago that the person confirmed to be at a browser.
func (s *service) forgetConfirmations() {
	s.t.Helper()
	var served struct{ Host string }
	b, err := os.ReadFile(filepath.Join(s.home, "ui", "service.json"))
	if err == nil {
		err = json.Unmarshal(b, &served)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	st, err := s.app.Grants.Ephemera(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	list, err := st.Ephemerals(s.t.Context(), "ui.browser", served.Host)
	if err != nil || len(list) == 0 {
		s.t.Fatalf("the browsers of %s: %v, %v", served.Host, list, err)
	}
	for _, e := range list {
		old := regexp.MustCompile(`("confirmed_at": *"20)\d\d`).ReplaceAll(e.Data, []byte("${1}01"))
		if string(old) == string(e.Data) {
			s.t.Fatalf("no browser was confirmed: %s", e.Data)
		}
		e.Data = old
		if ok, err := st.SaveEphemeral(s.t.Context(), e, store.EphemeralBounds{}); !ok || err != nil {
			s.t.Fatalf("saving a browser: %v, %v", ok, err)
		}
	}
}
