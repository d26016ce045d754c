package uitest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/remitrun/remit/internal/service/logins"
	"github.com/remitrun/remit/internal/service/queue"
)

// furnished is a service in which agents have worked, and its pages by name.
func furnished(t *testing.T) (*service, map[string]string) {
	t.Helper()
	s := newService(t)
	s.agent("build", call{"fs.list", map[string]any{"path": "."}}, write("out/build.log", "ok\n"))
	s.agent("tidy up", call{"fs.read", map[string]any{"path": "src/main.go"}}, call{"fs.read", map[string]any{"path": "missing.md"}})
	id := s.agent("release notes",
		call{"fs.list", map[string]any{"path": "src"}},
		call{"fs.read", map[string]any{"path": "src/main.go"}},
		write("out/notes.md", "# Notes\n\n"+strings.Repeat("A line of the notes.\n", 40)),
		write("/etc/passwd", "root::0:0::/:/bin/sh\n"),
		call{"fs.edit", map[string]any{"path": "src/main.go", "edits": []any{map[string]any{"old": "func main() {}\n", "new": "func main() {\n\tprintln(\"released\")\n}\n"}}}},
	)
	s.question(write("src/version.go", "package main\n\nconst version = \"1.4.0\"\n"))
	pages := map[string]string{
		"inbox": "/", "approvals": "/approvals", "runs": "/runs", "run-new": "/runs/new", "run": "/runs/" + id, "call": "/runs/" + id + "/calls/4", "settings": "/settings", "approval": "",
	}
	pages["grants"], pages["audit"] = "/grants", "/audit"
	s.queued("name: nightly report\nsteps:\n  - {tool: fs.list, args: {path: out}}\n  - {tool: fs.write, args: {path: out/report.txt, content: done}}\n", queue.Options{Priority: 3, Delay: 8 * time.Hour})
	s.queued("name: build\nsteps:\n  - {tool: fs.list, args: {path: src}}\n", queue.Options{Priority: 1, Delay: time.Hour})
	pages["queue"] = "/queue"
	furnishedChat(s, pages)
	list := s.waiting()
	pages["approval"] = "/approvals/" + list[len(list)-1].ID.String()
	return s, pages
}

// furnishedSchedules adds schedules, and a program that waits to be signed in.
func furnishedSchedules(s *service, pages map[string]string) {
	var nightly struct {
		ID string `json:"schedule_id"`
	}
	plan := "steps:\n  - {tool: fs.list, args: {path: out}}\n"
	s.api("POST", "/v1/schedules", map[string]any{"name": "nightly-report", "cron": "30 6 * * 1-5", "zone": "Europe/Berlin", "plan": plan}, &nightly)
	s.api("POST", "/v1/schedules", map[string]any{"name": "cleanup", "cron": "0 3 * * 0", "plan": plan}, nil)
	answer, err := http.PostForm("http://"+hostOf(s.t, s.url)+logins.AuthorizePath, url.Values{"client_id": {"remit"}, "device_name": {"ann@build-7"}, "lasts": {"28800"}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // it is read
	var begun struct {
		Code string `json:"user_code"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&begun); err != nil || begun.Code == "" {
		s.t.Fatalf("%s: %v", answer.Status, err)
	}
	pages["schedules"], pages["schedule"], pages["schedule-new"] = "/schedules", "/schedules/"+nightly.ID, "/schedules/new"
	pages["login"], pages["login-asks"] = "/login", "/login?code="+begun.Code
}

func noFocus(ctx context.Context, t *chromedp.Target) error {
	_, err := chromedp.EvaluateAsDevTools[chromedp.Void](`document.activeElement && document.activeElement.blur()`)(ctx, t)
	return err
}

// axe gives the rules that a page breaks, or may break. It cannot tell what is behind the text
// of a picture, which has the colour of all text.
func axe(b *tab) []string {
	b.t.Helper()
	return run(b, chromedp.EvaluateAsDevTools[[]string](`axe.run(document).then((r) => [...r.violations.map((x) => "breaks " + x.id + ": " + x.nodes[0].html), ...r.incomplete.filter((x) => !(x.id === "color-contrast" && x.nodes.every((n) => n.html.startsWith("<text") && getComputedStyle(document.querySelector(n.target[0])).fill === getComputedStyle(document.body).color))).map((x) => "may break " + x.id + ": " + x.nodes[0].html + " " + x.nodes[0].any.map((c) => c.message).join())])`,
		chromedp.EvalAwaitPromise))
}

// axeSource is the text of axe-core; "": it is not there.
var axeSource = sync.OnceValue(func() string {
	b, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		return ""
	}
	return string(b)
})

// loadAxe adds axe-core to the page. Without it, the test is skipped.
func loadAxe(b *tab) {
	b.t.Helper()
	if axeSource() == "" {
		if os.Getenv("CI") != "" {
			b.t.Fatal("axe-core is not there")
		}
		b.t.Skip("axe-core is not there; make test-deps installs it")
	}
	run(b, chromedp.EvaluateAsDevTools[chromedp.Void](axeSource()))
}

// accessible checks the page with all its details open, in both themes.
func accessible(b *tab, name string) {
	b.t.Helper()
	loadAxe(b)
	get[chromedp.Void](b, `document.querySelectorAll("details").forEach((d) => { d.open = true; })`)
	for _, theme := range []string{"light", "dark"} {
		b.view(1280, theme)
		for _, bad := range axe(b) {
			b.t.Errorf("%s, %s: %s", name, theme, bad)
		}
	}
}

func TestPagesAreAccessible(t *testing.T) {
	s, pages := furnished(t)
	b := newTab(t)
	s.signIn(b)
	furnishedAuthority(s, pages)
	furnishedSchedules(s, pages)
	pages["verified"], pages["error"], pages["all"] = pages["run"]+"?verify=1", "/runs/none", "/approvals?all=1"
	for name, p := range pages {
		b.view(1280, "light")
		b.open(s.url + p)
		b.until(`document.body.dataset.script === "on" && !document.querySelector("[aria-disabled=true]")`)
		accessible(b, name)
		// At 320 px, which is 1280 px at 400 %, nothing is cut off at the side, and targets are large enough.
		b.view(320, "light")
		if wide := get[int](b, `document.documentElement.scrollWidth`); wide > 320 {
			t.Errorf("%s is %d px wide on 320 px", name, wide)
		}
		small := get[[]string](b, `[...document.querySelectorAll("button, input:not([type=hidden]), nav a, .filters a, .pages a, summary")].filter((e) => e.getClientRects().length && (e.closest("label") || e).getBoundingClientRect().height < 24).map((e) => e.outerHTML)`)
		for _, e := range small {
			t.Errorf("%s: less than 24 px: %s", name, e)
		}
	}
	for _, p := range []string{"/sign-in?code=x", "/sign-in"} {
		out := newTab(t)
		out.open(s.url + p)
		loadAxe(out)
		for _, bad := range axe(out) {
			t.Errorf("%s: %s", p, bad)
		}
	}
}
