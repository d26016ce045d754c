package uitest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/runs"
)

// authorityPages are the names of the pages about runs' changes and authority.
var authorityPages = []string{"changesets", "changes", "grant", "grant-new", "tools", "tool", "policies", "flows", "flow", "event", "refusals"}

// held has an agent write files that wait for a person, and gives the run's ID; "": changes
// cannot be held here.
func (s *service) held(calls ...call) string {
	s.t.Helper()
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := s.app.Runs.Begin(context.Background(), runs.Request{Name: "tidy", Workspace: dir, Policy: filepath.Join(s.dir, "policy.yaml"), Changeset: true})
	if err != nil {
		s.t.Log("changes cannot be held here: ", err)
		return ""
	}
	for _, c := range calls {
		if o, err := r.Call(context.Background(), runner.Call{Tool: tool.ID(c.tool), Args: c.args}); err != nil || o.Err != nil {
			s.t.Fatal(err, o.Err)
		}
	}
	if err := r.End(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	return r.Result().ID.String()
}

// furnishedAuthority adds the pages about changes and authority. A browser must be signed in.
func furnishedAuthority(s *service, pages map[string]string) {
	s.t.Helper()
	if id := s.held(write("out/notes.md", "# Notes\n\nThe second edition.\n"), write("out/list.txt", "one\ntwo\n"), call{"fs.delete", map[string]any{"path": "out/build.log"}}); id != "" {
		pages["changesets"], pages["changes"], pages["changes-discard"] = "/changes", "/changes/"+id, "/changes/"+id+"?ask=discard"
	}
	pages["tools"], pages["tool"], pages["policies"], pages["event"], pages["refusals"] = "/tools", "/tools/fs.write", "/policies", "/audit/3", "/audit/refusals"
	pages["flows"], pages["flow"] = "/flows", "/flows?from=files+**&to=files.write+**"
	of, err := s.app.Grants.List(context.Background(), store.GrantFilter{})
	if err != nil || len(of) < 2 {
		s.t.Fatal(of, err)
	}
	pages["grant"] = "/grants/" + of[0].Record.ID.String()
	pages["grant-revoke"], pages["grant-new"] = pages["grant"]+"?ask=revoke", "/grants/new"
}

// TestAuthorityByFormsAlone decides without scripts, with names that do harm where they become markup.
func TestAuthorityByFormsAlone(t *testing.T) {
	s, b := newService(t), newTab(t)
	name := `out/"><img src=x onerror="window.hacked=1"> ` + "\u202egnp.txt"
	run1 := s.held(write(name, evil+"\n"), write("out/b.txt", "b\n"))
	b.script(false)
	s.signIn(b)
	if run1 == "" {
		t.Skip("changes cannot be held here")
	}
	b.open(s.url + "/changes/" + run1)
	run(b, chromedp.Click(`button[value="apply"]`))
	run(b, chromedp.WaitReady(".s-applied"))
	if got, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || string(got) != evil+"\n" {
		t.Errorf("the workspace has %q, %v", got, err)
	}
	run(b, chromedp.Click(`button[value="undo"]`))
	run(b, chromedp.WaitReady(".note"))
	if _, err := os.Stat(filepath.Join(s.dir, "out/b.txt")); err == nil {
		t.Error("it was not undone")
	}

	b.open(s.url + "/policies")
	run(b, chromedp.Click(`button[value="check"]`))
	run(b, chromedp.WaitReady(".note"))
	b.open(s.url + "/tools/time.now")
	run(b, chromedp.Click(`button[value="call"]`))
	run(b, chromedp.WaitReady("#try ~ .card, .card .s-completed"))
	b.open(s.url + "/audit")
	run(b, chromedp.Click(`.links button`))
	run(b, chromedp.WaitReady(".verified.s-completed"))

	b.open(s.url + "/grants")
	run(b, chromedp.Click(`[data-row] a`)) // the newest: this browser's
	run(b, chromedp.WaitReady(".links"))
	run(b, chromedp.Click(`a[href$="ask=revoke"]`))
	run(b, chromedp.WaitReady("form.answer"))
	run(b, chromedp.Click(`button[value="revoke"]`))
	run(b, chromedp.WaitReady(".outside")) // a revoked device is signed out
}

// TestAStaleConfirmationChangesNothing has grants below one that were not there when it was shown.
func TestAStaleConfirmationChangesNothing(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.signIn(b)
	b.watch()
	of, err := s.app.Grants.List(t.Context(), store.GrantFilter{})
	if err != nil || len(of) < 2 {
		t.Fatal(of, err)
	}
	root := of[len(of)-1].Record.ID.String()
	b.open(s.url + "/grants/" + root + "?ask=pause")
	s.signIn(b.more()) // another browser: one grant more
	run(b, chromedp.SendKeys("#reason", "lunch"))
	run(b, chromedp.KeyEvent("\r"))
	run(b, chromedp.WaitReady(".alert"))
	if text := run(b, chromedp.Text(".alert")); !contains(text, "differ from the ones shown") {
		t.Errorf("the page says %q", text)
	}
	if of, err = s.app.Grants.List(t.Context(), store.GrantFilter{}); err != nil || of[len(of)-1].Record.Standing != store.Active {
		t.Errorf("the grant is %v, %v", of[len(of)-1].Record.Standing, err)
	}
	b.silent()
}

// Queued runs are cancelled, and the queue is paused and resumed, by forms alone.
func TestTheQueueByFormsAlone(t *testing.T) {
	s, b := newService(t), newTab(t)
	const markup = "<img src=x onerror=window.hacked=1>"
	id := s.queued("name: \""+markup+"\"\nsteps:\n  - {tool: time.now}\n", queue.Options{Delay: time.Hour})
	b.script(false)
	s.signIn(b)
	b.open(s.url + "/queue")
	run(b, chromedp.Click(`.tools form button`))
	run(b, chromedp.WaitReady(`.soft b`))
	if text := run(b, chromedp.Text("main")); !strings.Contains(text, "The queue is paused") || !strings.Contains(text, markup) {
		t.Errorf("the page says %q", text)
	}
	run(b, chromedp.Click(`tr button`))
	run(b, chromedp.WaitReady(`.empty`))
	b.open(s.url + "/queue?state=ended")
	if text := run(b, chromedp.Text("main")); !strings.Contains(text, "cancelled") {
		t.Errorf("the page says %q", text)
	}
	if q, err := s.app.Queue.Find(t.Context(), id); err != nil || q.Status != "cancelled" {
		t.Errorf("%+v, %v", q, err)
	}
	if waits, err := s.app.Queue.State(t.Context()); err != nil || !waits.Paused {
		t.Errorf("%+v, %v", waits, err)
	}
}
