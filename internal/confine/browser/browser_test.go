package browser_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/browser"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// browsers are those of all tests, as each takes half a second to start.
var browsers *browser.Browsers

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	state, err := os.MkdirTemp("", "remit-browser-")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(state) }()
	trust(filepath.Join(state, "roots.pem"))
	box := linux.New(linux.Config{Getenv: os.LookupEnv, State: state})
	browsers = browser.New(box, nil)
	status := m.Run()
	_ = browsers.Close()
	_ = box.Close()
	if left, err := filepath.Glob(filepath.Join(state, "boxes", "*")); err != nil || len(left) > 0 {
		fmt.Printf("folders of browsers are left: %v, %v\n", left, err)
		return 1
	}
	return status
}

// trust has this process trust the certificate of httptest's servers.
func trust(file string) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, roots, 0o600); err != nil {
		panic(err)
	}
	if err := os.Setenv("SSL_CERT_FILE", file); err != nil {
		panic(err)
	}
}

// world is a web server, and a policy that allows it.
type world struct {
	t      testing.TB
	url    string
	mux    *http.ServeMux
	policy string
	folder string        // the workspace
	whole  policy.Chain  // of calls whose policy is one that labels of data narrowed
	permit permit.Permit // of the last call
}

func newWorld(t testing.TB) *world {
	t.Helper()
	if _, err := os.Stat("/usr/lib/chromium/chromium"); err != nil {
		t.Skip("Chromium is not installed")
	}
	w := &world{t: t, mux: http.NewServeMux(), folder: t.TempDir()}
	server := httptest.NewServer(w.mux)
	t.Cleanup(server.Close)
	w.url = server.URL
	w.policy = fmt.Sprintf("network: {allow: [%q]}\n", w.url)
	return w
}

// page serves a page.
func (w *world) page(path, html string) {
	w.mux.HandleFunc(path, func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(rw, html)
	})
}

// newPermit makes the permit of one call.
func (w *world) newPermit(scope string) permit.Permit {
	w.t.Helper()
	pol, err := policy.Parse("policy.yaml", []byte("version: 1\nname: p\n"+w.policy))
	if err != nil {
		w.t.Fatal(err)
	}
	path := []string{"/usr/local/bin", "/usr/bin", "/bin"}
	rules, err := pol.Bind(policy.Env{Workspace: w.folder, Path: path})
	if err != nil {
		w.t.Fatal(err)
	}
	chain := policy.Chain{rules}
	w.permit = permit.Mint(permit.Terms{Chain: chain, Env: tool.Env{Path: path}, Whole: w.whole, Limits: chain.Limits(), Scope: scope})
	return w.permit
}

type do func(ctx context.Context, p *browser.Page) error

// call does something in the browser of a scope, as one call.
func (w *world) call(scope string, what do) ([]sandbox.Connection, error) {
	w.t.Helper()
	p := w.newPermit(scope)
	defer p.End()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	return browsers.Use(ctx, p, true, func(page *browser.Page) error { return what(ctx, page) })
}

// look does something in an open page that reaches no network meanwhile.
func (w *world) look(scope string, what do) {
	w.t.Helper()
	p := w.newPermit(scope)
	defer p.End()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := browsers.Look(ctx, p, func(page *browser.Page) error { return what(ctx, page) }); err != nil {
		w.t.Fatal(err)
	}
}

// open opens a page and returns its snapshot.
func (w *world) open(scope, url string, then ...do) (text string, asked []sandbox.Connection, err error) {
	w.t.Helper()
	asked, err = w.call(scope, func(ctx context.Context, p *browser.Page) error {
		if err := p.Open(ctx, url); err != nil {
			return err
		}
		for _, do := range then {
			if err := do(ctx, p); err != nil {
				return err
			}
		}
		text, _, err = p.Snapshot(ctx)
		return err
	})
	return text, asked, err
}

// must is open of a page that can be opened.
func (w *world) must(url string, then ...do) (string, []sandbox.Connection) {
	w.t.Helper()
	text, asked, err := w.open("page", w.url+url, then...)
	if err != nil {
		w.t.Fatal(err)
	}
	return text, asked
}

// refOf finds the reference of an element in a snapshot.
func refOf(t testing.TB, snapshot, role, name string) int {
	t.Helper()
	for line := range strings.Lines(snapshot) {
		var ref int
		line = strings.TrimSpace(line)
		if _, err := fmt.Sscanf(line, role+" e%d", &ref); err == nil && strings.Contains(line, name) {
			return ref
		}
	}
	t.Fatalf("no %s %q is in the snapshot:\n%s", role, name, snapshot)
	return 0
}

const shop = `<title>Shop</title><h1>Orders</h1><p>You have <b>3</b> orders.</p>
<form action="/sent"><label>Email <input name=email></label><label>Day <input type=date name=day></label>
<label>Size <select name=size><option value=s>Small<option value=l>Large</select></label><input type=file name=doc aria-label=Document onchange="this.files[0].text().then(t => document.title = this.files[0].name + ': ' + t)">
<button>Send</button><button disabled>Off</button></form><div style="position:fixed;bottom:0"><a href="/next">Next</a></div>`

func TestFormsAreFilledInAndSent(t *testing.T) {
	w := newWorld(t)
	w.page("/{$}", shop)
	w.mux.HandleFunc("/sent", func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(rw, "<p>got %s, %s and %s", r.FormValue("email"), r.FormValue("size"), r.FormValue("day"))
	})
	text, asked := w.must("/")
	for _, want := range []string{`heading "Orders" level=1`, `text "orders."`, `"Off" disabled`} {
		if !strings.Contains(text, want) {
			t.Errorf("the snapshot lacks %q:\n%s", want, text)
		}
	}
	if len(asked) == 0 || asked[0].Target() != "GET "+w.url+"/" || asked[0].Refused() {
		t.Errorf("the connections are %v", asked)
	}
	if notes, _ := w.permit.Happened(); len(notes) == 0 || notes[len(notes)-1].Effect != tool.NetworkHTTP {
		t.Errorf("the record has %v", notes)
	}
	last := text
	_, err := w.call("page", func(ctx context.Context, p *browser.Page) error {
		for _, step := range []error{
			p.Fill(ctx, refOf(t, text, "textbox", "Email"), "ada@example.com", false),
			p.Fill(ctx, refOf(t, text, "date", "Day"), "2026-01-02", false),
			p.Select(ctx, refOf(t, text, "combobox", "Size"), []string{"Large"}),
			p.Upload(ctx, refOf(t, text, "button", "Document"), []browser.File{{Name: "note.txt", Content: []byte("hello")}}),
			p.Click(ctx, refOf(t, text, "button", "Send")),
		} {
			if step != nil {
				return step
			}
		}
		var err error
		last, _, err = p.Snapshot(ctx)
		return err
	})
	if err != nil || !strings.Contains(last, `"got ada@example.com, l and 2026-01-02"`) {
		t.Errorf("got %v:\n%s", err, last)
	}
	_, err = w.call("page", func(ctx context.Context, p *browser.Page) error { return p.Click(ctx, refOf(t, text, "link", "Next")) })
	if err == nil || !strings.Contains(err.Error(), "has no element") {
		t.Errorf("a reference of the document before: %v", err)
	}
}

func TestAFileIsGivenToThePage(t *testing.T) {
	w := newWorld(t)
	w.page("/{$}", shop)
	text, _ := w.must("/")
	_, err := w.call("page", func(ctx context.Context, p *browser.Page) error {
		if err := p.Upload(ctx, refOf(t, text, "button", "Document"), []browser.File{{Name: "note.txt", Content: []byte("hello")}}); err != nil {
			return err
		}
		for {
			at, err := p.Where(ctx)
			if err != nil || at.Title == "note.txt: hello" {
				return err
			}
		}
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatCannotBeDone(t *testing.T) {
	w := newWorld(t)
	w.page("/{$}", shop+`<button id=under style="position:absolute;top:400px;left:0">Under</button><div id=over style="position:absolute;top:390px;left:0;width:300px;height:200px">x</div>`)
	text, _ := w.must("/")
	for name, tt := range map[string]struct {
		do   do
		want string
	}{
		"what another element covers": {func(ctx context.Context, p *browser.Page) error {
			return p.Click(ctx, refOf(t, text, "button", "Under"))
		}, "div#over"},
		"an option that is not there": {func(ctx context.Context, p *browser.Page) error {
			return p.Select(ctx, refOf(t, text, "combobox", "Size"), []string{"Huge"})
		}, `has no option "Huge"`},
		"text for a button": {func(ctx context.Context, p *browser.Page) error {
			return p.Upload(ctx, refOf(t, text, "button", "Send"), nil)
		}, "does not take files"},
		"text for a file": {func(ctx context.Context, p *browser.Page) error {
			return p.Fill(ctx, refOf(t, text, "button", "Document"), "x", false)
		}, "takes files"},
		"an unknown reference":  {func(ctx context.Context, p *browser.Page) error { return p.Click(ctx, 99_999) }, "no element e99999"},
		"text that never comes": {func(ctx context.Context, p *browser.Page) error { return p.Wait(ctx, "never", time.Millisecond) }, "did not show"},
		"a file that is not one": {func(ctx context.Context, p *browser.Page) error {
			_, err := p.Save(ctx, 1, func() error { return nil })
			return err
		}, "offered no file"},
	} {
		if _, err := w.call("page", tt.do); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
}

func TestPicturesAndDocuments(t *testing.T) {
	w := newWorld(t)
	w.page("/{$}", shop+strings.Repeat("<p>more", 100))
	w.must("/")
	w.look("page", func(ctx context.Context, p *browser.Page) error {
		part, err := p.Screenshot(ctx, false)
		if err != nil || !strings.HasPrefix(string(part), "\x89PNG") {
			t.Errorf("the screenshot begins with %.8q: %v", part, err)
		}
		whole, err := p.Screenshot(ctx, true)
		if err != nil || len(whole) <= len(part) {
			t.Errorf("the whole page has %d bytes, its beginning %d: %v", len(whole), len(part), err)
		}
		pdf, err := p.PDF(ctx)
		if err != nil || !strings.HasPrefix(string(pdf), "%PDF-") {
			t.Errorf("the document begins with %.8q: %v", pdf, err)
		}
		text, cut, err := p.Text(ctx, 20)
		if err != nil || !cut || !strings.HasPrefix(text, "Orders") {
			t.Errorf("the text is %q, %v: %v", text, cut, err)
		}
		return nil
	})
}
