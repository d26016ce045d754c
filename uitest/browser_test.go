// Package uitest tests the web UI in a browser: Debian's Chromium, over the service as it is.
package uitest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/service/home"
)

// patience bounds every wait for the browser.
const patience = 30 * time.Second

// browserContext starts Chromium once for all tests.
var browserContext = sync.OnceValues(func() (context.Context, error) {
	program := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if file, err := exec.LookPath(name); err == nil {
			program = file
			break
		}
	}
	if program == "" {
		return nil, exec.ErrNotFound
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(program))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	stop = append(stop, cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	stop = append(stop, cancel)
	return ctx, chromedp.Do(ctx)
})

var stop []context.CancelFunc

func TestMain(m *testing.M) {
	code := m.Run()
	for i := len(stop) - 1; i >= 0; i-- {
		stop[i]()
	}
	os.Exit(code)
}

// tab is a page of a browser. Each test has cookies of its own.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu   sync.Mutex
	said []string // errors and violations of the pages, once they are watched
}

// newTab opens a page in a browser profile of its own.
func newTab(t *testing.T) *tab {
	t.Helper()
	parent, err := browserContext()
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("Chromium is not there: ", err)
		}
		t.Skip("Chromium is not there: ", err)
	}
	ctx, cancel := chromedp.NewContext(parent, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return &tab{t: t, ctx: ctx}
}

// more opens another page of the same profile.
func (b *tab) more() *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return &tab{t: b.t, ctx: ctx}
}

// run carries out an action, and fails the test where it fails.
func run[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	if err := chromedp.Do(b.ctx); err != nil { // the page opens without a time limit
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	for moved(err) && ctx.Err() == nil {
		v, err = chromedp.Run(ctx, a)
	}
	if err != nil {
		b.t.Helper()
		b.t.Fatalf("%v\nthe page: %s", err, b.describe())
	}
	return v
}

// moved reports whether a page was left, or an element of it was removed, before an action could use it: nothing
// was done. The browser has several sentences for that, with one code.
func moved(err error) bool {
	var said *cdproto.Error
	return errors.As(err, &said) && said.Code == -32000
}

func (b *tab) describe() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.EvaluateAsDevTools[string](`location.href + "\n" + document.body.innerText.slice(0, 2000)`))
	if err != nil {
		return err.Error()
	}
	return text
}

// open goes to an address, and waits for its script where it has one.
func (b *tab) open(url string) {
	b.t.Helper()
	run(b, chromedp.Navigate(url))
	run(b, chromedp.WaitReady("main"))
}

// until waits until an expression is true, over as many pages as it takes.
func (b *tab) until(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		is, err := chromedp.Run(ctx, chromedp.EvaluateAsDevTools[bool]("Boolean("+expression+")"))
		if is && err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err // between two pages there is nothing to ask
		}
		select {
		case <-ctx.Done():
			b.t.Fatalf("never became true: %s (%v)\nthe page: %s", expression, last, b.describe())
		case <-tick.C:
		}
	}
}

// follow types two keys that lead to a page, again and again: on a busy machine the second
// one may come after the page has forgotten the first.
func (b *tab) follow(keys, path string) {
	b.t.Helper()
	there := "location.pathname === " + strconv.Quote(path) + ` && document.body.dataset.script === "on"`
	for range 10 {
		run(b, chromedp.KeyEvent(keys))
		for range 100 {
			if is, err := chromedp.Run(b.ctx, chromedp.EvaluateAsDevTools[bool](there)); is && err == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	b.until(there)
}

// get evaluates an expression.
func get[T any](b *tab, expression string) T {
	b.t.Helper()
	return run(b, chromedp.EvaluateAsDevTools[T](expression))
}

// view sets the size and the colours of the page.
func (b *tab) view(width int64, theme string) {
	b.t.Helper()
	run(b, chromedp.EmulateViewport(width, 800))
	run(b, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		}})
		return err
	}))
}

// script switches scripts of pages on or off.
func (b *tab) script(on bool) {
	b.t.Helper()
	run(b, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on})
		return err
	}))
}

// watch collects the errors of pages, among them violations of the content security policy.
func (b *tab) watch() {
	b.t.Helper()
	run(b, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
		return err
	}))
	add := func(text string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.said = append(b.said, text)
	}
	if err := chromedp.Listen(b.ctx, func(ev any) {
		switch e := ev.(type) {
		case *log.EventEntryAdded:
			add(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			add(e.ExceptionDetails.Text)
		}
	}); err != nil {
		b.t.Fatal(err)
	}
}

// silent fails the test where a page had an error. A refused request is none.
func (b *tab) silent() { b.t.Helper(); b.silentBut("with a status of 4") }

// silentBut is silent, but for errors with one of some texts.
func (b *tab) silentBut(expected ...string) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range b.said {
		if !slices.ContainsFunc(expected, func(part string) bool { return strings.Contains(text, part) }) {
			b.t.Errorf("the page said: %s", text)
		}
	}
}

// service is remit serve in this process, with what agents have done.
type service struct {
	streams   int // open at once; 0: the default
	t         *testing.T
	app       *app.App
	home, dir string
	url       string // of the web UI
	stop      func()
}

// servePolicy lets agents write in out, and asks for src.
const servePolicy = `version: 1
name: docs-writer
files:
  read: {allow: ["**"]}
  write:
    allow: ["out/**"]
    ask: ["src/**"]
approvals: {session: true}
`

const adminPolicy = `version: 1
name: admin
api: {allow: ["*"]}
models: {allow: ["scripted:*", "slow/*"], tokens: 1000000}
tools: {allow: ["*"]}
files:
  read: {allow: ["**"]}
  write: {allow: ["out/**"], ask: ["src/**"]}
agents: {spawn: 4, depth: 2}
delegate: {actions: [api, models, tools, files.read, files.write], to: ["*"], depth: 8}
`

// newService starts a service on a free port, with the settings in config.
func newService(t *testing.T, config ...string) *service {
	t.Helper()
	top, err := os.MkdirTemp("", "remit-") // a short name, for the pictures
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(top) }) // else the system does
	s := &service{t: t, home: t.TempDir(), dir: filepath.Join(top, "project")}
	s.write("policy.yaml", servePolicy)
	s.write("admin.yaml", adminPolicy)
	s.write("src/main.go", "package main\n\nfunc main() {}\n")
	s.write("out/keep", "")
	if err := os.WriteFile(filepath.Join(s.home, "config.yaml"), []byte(strings.Join(config, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	s.app = apptest.New(t, s.home)
	s.start("127.0.0.1:0")
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *service) start(listen string) {
	s.t.Helper()
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	ready, failed := make(chan app.Served, 1), make(chan error, 1)
	q := app.ServeRequest{Listen: listen, Workspace: dir, Policy: filepath.Join(s.dir, "admin.yaml"), Ready: func(v app.Served) { ready <- v }}
	q.Limits.Drain, q.Limits.Streams = time.Second, s.streams
	ctx, cancel := context.WithCancel(context.Background())
	go func() { failed <- s.app.Serve(ctx, q) }()
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-failed; err != nil {
			s.t.Error(err)
		}
	})
	select {
	case v := <-ready:
		s.url = v.UI
	case err := <-failed:
		failed <- err
		s.t.Fatal(err)
	}
}

func (s *service) write(name, text string) {
	s.t.Helper()
	file := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// signIn signs a browser in, as a person does.
func (s *service) signIn(b *tab) {
	s.t.Helper()
	link, err := s.app.UILink(b.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	b.open(link)
	run(b, chromedp.Click("button"))
	run(b, chromedp.WaitReady("nav"))
}
