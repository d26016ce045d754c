package uitest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/remitrun/remit/internal/record/store"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// hostOf gives the address that a service listens on.
func hostOf(t *testing.T, ui string) string {
	t.Helper()
	u, err := url.Parse(ui)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", u.Port())
}

// server is another server on this machine, as an agent can start one.
type server struct {
	url, body string

	mu      sync.Mutex
	cookies []string
	hosts   []string // that each cookie was sent to
}

func newServer(t *testing.T, body string) *server {
	t.Helper()
	s := &server{body: body}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	for _, c := range r.Header["Cookie"] {
		s.cookies, s.hosts = append(s.cookies, c), append(s.hosts, r.Host)
	}
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/html")
	_, _ = io.WriteString(w, "<!doctype html><title>another</title><main>another server</main>"+s.body)
}

func (s *server) got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cookies
}

// sentTo lists the cookies that were sent to a host.
func (s *server) sentTo(host string) (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range s.cookies {
		if s.hosts[i] == host {
			out = append(out, c)
		}
	}
	return out
}

func TestNoOtherPortGetsTheCookie(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.signIn(b)
	other := newServer(t, "")
	u, err := url.Parse(other.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "remit.localhost", "another.localhost"} {
		b.open("http://" + net.JoinHostPort(host, u.Port()) + "/ui/")
	}
	if got := other.got(); len(got) != 0 {
		t.Errorf("another server received %q", got)
	}
	b.open(s.url + "/")
	run(b, chromedp.WaitReady("nav"))
}

// take answers at the addresses of a stopped service, until the test calls stop.
func (s *server) take(t *testing.T, address string) (stop func()) {
	t.Helper()
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: patience}
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port)) //nolint:noctx // the server closes it
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = srv.Serve(l) }() // until it is closed
	}
	stop = sync.OnceFunc(func() { _ = srv.Close() }) // nothing waits for its answers
	t.Cleanup(stop)
	return stop
}

// TestASquatterGetsNothingThatCounts stops the service under an open page. Another process
// takes its port, and the page sends it the cookie. That counts for nothing from then on, and
// the cookie of the next start is not sent.
func TestASquatterGetsNothingThatCounts(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.signIn(b)
	b.until(`document.body.dataset.live === "on"`)
	address, old := hostOf(t, s.url), s.url
	s.stop()
	other := &server{}
	leave := other.take(t, address)
	b.open(old + "/")
	stolen := other.got()
	if len(stolen) == 0 || !contains(stolen[0], "remit-ui=") {
		t.Fatalf("the squatter received %q: the test shows nothing", stolen)
	}
	leave()
	s.start(address)
	for _, ui := range []string{old, s.url} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/ui/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = strings.TrimSuffix(strings.TrimPrefix(ui, "http://"), "/ui")
		r.Header.Set("Cookie", stolen[0])
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
			t.Errorf("with the stolen cookie, %s has status %d", ui, res.StatusCode)
		}
	}
	s.signIn(b)
	s.stop()
	other.take(t, address)
	b.open(old + "/") // a bookmark, while the squatter is back; the page before may still ask its own host
	for _, c := range other.sentTo(strings.TrimSuffix(strings.TrimPrefix(old, "http://"), "/ui")) {
		if c != stolen[0] {
			t.Errorf("the squatter received %q", c)
		}
	}
}

func TestNoPageFramesTheUI(t *testing.T) {
	s, b := newService(t), newTab(t)
	s.signIn(b)
	other := newServer(t, `<iframe src="`+s.url+`/" id="frame"></iframe>`)
	run(b, chromedp.Navigate(other.url))
	tree := run(b, func(ctx context.Context, _ *chromedp.Target) (page.GetFrameTreeResult, error) {
		return chromedp.Call(ctx, page.GetFrameTree, cdp.Empty{})
	})
	for _, f := range tree.FrameTree.ChildFrames {
		if !strings.HasPrefix(f.Frame.URL, "chrome-error:") {
			t.Errorf("the frame shows %s", f.Frame.URL)
		}
	}
}

func TestNoOtherSiteAnswers(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.question(write("src/a.go", "package a\n"))
	s.signIn(b)
	other := newServer(t, `<form method="post" action="`+s.url+`/approvals/`+id+`"><input name="answer" value="once"><input name="digest" value="`+s.state(id).Digest+`"><button>Win</button></form>`)
	b.open(other.url)
	run(b, chromedp.Click("button"))
	b.until(`location.pathname.startsWith("/ui/") && document.querySelector(".outside .alert")`)
	if q := s.state(id); q.State != store.Waiting {
		t.Errorf("another site answered: %s", q.State)
	}
	// A link of another site shows the page after one more click, and answers nothing.
	link := newServer(t, `<a href="`+s.url+`/approvals/`+id+`?answer=once">look</a>`)
	b.open(link.url)
	get[chromedp.Void](b, `document.querySelector("a").click()`)
	b.until(`document.querySelector(".outside")`)
	run(b, chromedp.Click("main p a"))
	b.until(`document.getElementById("card")`)
	if q := s.state(id); q.State != store.Waiting {
		t.Errorf("a link answered: %s", q.State)
	}
}

// evil is a text that does harm wherever it becomes markup, or can be mistaken.
const evil = `</pre></script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"><a href="javascript:window.hacked=1">x</a><form action="/ui/sign-out" method="post"><button>x</button></form>` + "\u202egnp.exe\u0007\x1b[2J"

func TestNoTextOfAnAgentBecomesMarkup(t *testing.T) {
	s, b := newService(t), newTab(t)
	id := s.agent(evil,
		call{"fs.read", map[string]any{"path": "missing " + strings.ReplaceAll(evil, "/", "")}},
		call{"no.tool" + evil, map[string]any{evil: evil}},
		write("/etc/"+strings.ReplaceAll(evil, "/", "")+"x", evil),
		write("src/a.go", evil+"\n"+strings.Repeat(evil+"\n", 40)),
		call{"fs.edit", map[string]any{"path": "src/main.go", "edits": []any{map[string]any{"old": "func main() {}\n", "new": evil}}}},
	)
	s.signIn(b)
	b.watch()
	paths := []string{"/", "/approvals?all=1", "/runs", "/runs?tool=" + url.QueryEscape(evil), "/runs/" + id + "?verify=1", "/settings", "/nothing/" + url.PathEscape(evil)}
	for _, q := range s.waiting() {
		paths = append(paths, "/approvals/"+q.ID.String())
	}
	for _, n := range []string{"1", "2", "3", "4", "5"} {
		paths = append(paths, "/runs/"+id+"/calls/"+n)
	}
	for _, p := range paths {
		b.open(s.url + p)
		b.until(`document.body.dataset.script === "on"`)
		if get[bool](b, `Boolean(window.hacked) || document.querySelectorAll("main img, main script, main a[href^=javascript], main form[action='/ui/sign-out'] button:not(.plain), main style, iframe").length > 0`) {
			t.Errorf("%s has markup of the agent", p)
		}
		if get[bool](b, `/[\u202a-\u202e\u2066-\u2069\u0007\u001b]/.test(document.body.innerText)`) {
			t.Errorf("%s has characters that are not shown", p)
		}
	}
	b.silent()
}

// TestRightToLeftLettersReorderNothing: letters of every script from right to left stand in the
// arguments of a question where they stand in the text, which has no control characters.
func TestRightToLeftLettersReorderNothing(t *testing.T) {
	s, b := newService(t), newTab(t)
	var lines []string
	for _, letters := range [][2]string{{"א", "ב"}, {"ا", "ب"}, {"ܐ", "ܒ"}, {"ߊ", "ߋ"}, {"𞤀", "𞤁"}} {
		lines = append(lines, "pay "+letters[0]+" 100 > 2500 "+letters[1]+" (a/b)")
	}
	text := strings.Join(lines, "\n")
	s.agent("reorder", write("src/א 100 2500 ב.txt", text), write("src/main.go", text))
	s.signIn(b)
	for _, q := range s.waiting() {
		b.open(s.url + "/approvals/" + q.ID.String())
		wrong := get[string](b, `(() => {
			let seen = 0, wrong = "";
			for (const box of document.querySelectorAll("main pre, main code, main .values dt")) {
				const nodes = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
				let left = -1, top = -1;
				for (let n; (n = nodes.nextNode());) {
					const text = n.data;
					for (let i = 0; i < text.length; i++) {
						if (/[\s\udc00-\udfff]/.test(text[i])) continue;
						const range = document.createRange();
						range.setStart(n, i);
						range.setEnd(n, i + (/[\ud800-\udbff]/.test(text[i]) ? 2 : 1));
						const at = range.getBoundingClientRect();
						if (at.width === 0) continue;
						if (/[\u0590-\u08ff]/.test(text[i])) seen++;
						if (Math.abs(at.top - top) < 8 && at.left < left) wrong ||= text;
						left = at.left;
						top = at.top;
					}
				}
			}
			return wrong || (seen ? "" : "no such letters");
		})()`)
		if wrong != "" {
			t.Errorf("the question about %s: %q is reordered", q.ID, wrong)
		}
	}
	if n := len(s.waiting()); n == 0 {
		t.Error("there is no question")
	}
}
