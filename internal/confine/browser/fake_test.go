package browser_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/browser"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// fake is a browser that was taken over: it speaks the protocol, and answers as a test says.
type fake struct {
	t *testing.T
	// answer gives the result of a command. It may send messages of its own first.
	answer func(method string, send func(message string)) string
	// deaf, where it is not nil, is closed when the browser was told to load a page, which it
	// does not answer. It reads nothing any more.
	deaf chan struct{}
	// large, where it is not nil, may write the result of a command, in pieces.
	large func(method string, write func(string)) bool

	// ends are the signals that end the first browsers when they are started.
	ends []string

	folder  string // the workspace
	mu      sync.Mutex
	started int
}

func (f *fake) NewFolder(permit.Permit, int64, int) (*sandbox.Folder, error) {
	return sandbox.OpenFolder(f.t.TempDir(), io.NopCloser(nil), 1<<20, 100)
}

func (f *fake) Run(ctx context.Context, _ permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	f.mu.Lock()
	f.started++
	n := f.started
	f.mu.Unlock()
	stopped := context.AfterFunc(ctx, func() { _ = c.Stdio.In.Close() })
	defer stopped()
	defer func() { _, _, _ = c.Stdio.In.Close(), c.Stdio.Out.Close(), c.Stdio.Err.Close() }()
	if n <= len(f.ends) {
		return sandbox.Outcome{ExitCode: -1, Signal: f.ends[n-1]}, nil
	}
	send := func(message string) { _, _ = io.WriteString(c.Stdio.Out, message+"\x00") }
	for r := bufio.NewReader(c.Stdio.In); ; {
		b, err := r.ReadBytes(0)
		if err != nil {
			return sandbox.Outcome{}, nil
		}
		var m struct {
			ID      int
			Session string `json:"sessionId"`
			Method  string
		}
		if err := json.Unmarshal(b[:len(b)-1], &m); err != nil {
			f.t.Error(err)
			return sandbox.Outcome{}, nil
		}
		if m.Method == "Page.navigate" && f.deaf != nil {
			close(f.deaf)
			<-ctx.Done()
			return sandbox.Outcome{}, nil
		}
		if f.large != nil {
			begun := false
			write := func(piece string) {
				if !begun {
					begun, piece = true, `{"id":`+strconv.Itoa(m.ID)+`,`+piece
				}
				_, _ = io.WriteString(c.Stdio.Out, piece)
			}
			if f.large(m.Method, write) {
				send("}")
				continue
			}
		}
		result := ""
		if f.answer != nil {
			result = f.answer(m.Method, send)
		}
		if result == "" {
			result = f.usual(m.Method, m.Session, send)
		}
		send(`{"id":` + strconv.Itoa(m.ID) + `,"result":` + result + `}`)
	}
}

// usual is what a browser answers that does nothing bad.
func (f *fake) usual(method, session string, send func(string)) string {
	switch {
	case method == "Target.setAutoAttach" && session == "":
		send(`{"method":"Target.attachedToTarget","params":{"sessionId":"S","targetInfo":{"targetId":"T","type":"page"}}}`)
	case method == "Page.getFrameTree":
		return `{"frameTree":{"frame":{"id":"F","url":"about:blank"}}}`
	case method == "Page.createIsolatedWorld":
		return `{"executionContextId":1}`
	case method == "Runtime.evaluate":
		return `{"result":{"objectId":"document"}}`
	case method == "Runtime.callFunctionOn":
		return `{"result":{"value":true}}`
	}
	return `{}`
}

// open makes the handle of fake browsers.
func (f *fake) open() *browser.Browsers {
	b := browser.New(f, nil)
	f.folder = f.t.TempDir()
	f.t.Cleanup(func() { _ = b.Close() })
	return b
}

// mint makes the permit of one call under a policy, which names its holder as well.
func (f *fake) mint(scope, name string) permit.Permit {
	f.t.Helper()
	holder, _, _ := strings.Cut(name, " ")
	pol, err := policy.Parse("policy.yaml", []byte("version: 1\nname: "+strings.TrimPrefix(name, holder+" ")+"\n"))
	if err != nil {
		f.t.Fatal(err)
	}
	rules, err := pol.Bind(policy.Env{Workspace: f.folder})
	if err != nil {
		f.t.Fatal(err)
	}
	p := permit.Mint(permit.Terms{Chain: policy.Chain{rules}, Scope: scope, Holder: holder})
	f.t.Cleanup(p.End)
	return p
}

// use does something in the page of a fake browser, in a call that ends after a minute.
func (f *fake) use(b *browser.Browsers, scope string, what do) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	_, err := b.Use(ctx, f.mint(scope, "ann wide"), true, func(p *browser.Page) error { return what(ctx, p) })
	return err
}

// snapshotOf is the snapshot of a browser that answers with these nodes.
func snapshotOf(t *testing.T, nodes string) (text string, cut bool, err error) {
	t.Helper()
	f := &fake{t: t, answer: func(method string, _ func(string)) string {
		if method == "Accessibility.getFullAXTree" {
			return `{"nodes":[` + nodes + `]}`
		}
		return ""
	}}
	err = f.use(f.open(), "s", func(ctx context.Context, p *browser.Page) (err error) {
		text, cut, err = p.Snapshot(ctx)
		return err
	})
	return text, cut, err
}

func TestSnapshotsOfHostileTreesAreBounded(t *testing.T) {
	racetest.Skip(t, "one goroutine computes")
	chain := func(n int, ignored string) string {
		var out strings.Builder
		out.WriteString(`{"nodeId":"0","ignored":` + ignored + `,"childIds":["1"]}`)
		for i := 1; i < n; i++ {
			at := strconv.Itoa(i)
			out.WriteString(`,{"nodeId":"` + at + `","parentId":"x","ignored":` + ignored + `,"childIds":["` + strconv.Itoa(i+1) + `"]}`)
		}
		return out.String()
	}
	heading := `{"nodeId":"a","role":{"value":"heading"},"name":{"value":"Top"},"childIds":[]}`
	for name, tt := range map[string]struct {
		nodes, want string
		cut         bool
	}{
		"a deep chain of ignored nodes":  {heading + "," + chain(100_000, "true"), "heading \"Top\"\n", true},
		"a deep chain of nameless nodes": {heading + "," + chain(100_000, "false"), "heading \"Top\"\n", true},
		"many nodes":                     {heading + strings.Repeat(`,{}`, 1_000_000), "heading \"Top\"\n", true},
		"a node that is its own child":   {`{"nodeId":"a","role":{"value":"heading"},"name":{"value":"Top"},"childIds":["a","a"]}`, "heading \"Top\"\n", false},
		"text named by many": {heading + `,{"nodeId":"r","childIds":["t"` + strings.Repeat(`,"t"`, 1_000_000) + `]},{"nodeId":"t","parentId":"r","role":{"value":"StaticText"},"name":{"value":"x"}}`,
			"heading \"Top\"\ntext \"x\"\n", false},
		"long names around many texts": {`{"nodeId":"a","role":{"value":"link"},"name":{"value":"` + strings.Repeat("ab", 2_000_000) + `"},"childIds":["t"]},` +
			`{"nodeId":"t","parentId":"a","role":{"value":"StaticText"},"name":{"value":"` + strings.Repeat("ab", 1_000_000) + `"}}`,
			"link \"" + strings.Repeat("ab", 150) + "…\"\n", false},
	} {
		text, cut, err := snapshotOf(t, tt.nodes)
		if err != nil || text != tt.want || cut != tt.cut {
			t.Errorf("%s: the snapshot is %.200q, cut %v: %v; want %.200q, %v", name, text, cut, err, tt.want, tt.cut)
		}
	}
}

func TestABrowserThatReadsNothingHoldsNothingUp(t *testing.T) {
	for name, end := range map[string]func(b *browser.Browsers, cancel func()){
		"the session ends": func(b *browser.Browsers, _ func()) { b.End("s") },
		"Remit ends":       func(b *browser.Browsers, _ func()) { _ = b.Close() },
		"the call ends":    func(_ *browser.Browsers, cancel func()) { cancel() },
	} {
		f := &fake{t: t, deaf: make(chan struct{})}
		b := f.open()
		ctx, cancel := context.WithCancel(t.Context())
		pm := f.mint("s", "ann wide")
		done, stuck := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := b.Use(ctx, pm, true, func(p *browser.Page) error {
				first, stop := context.WithCancel(ctx)
				defer stop()
				go func() { <-f.deaf; stop() }()
				_ = p.Open(first, "http://a.example/") // never answered
				close(stuck)
				return p.Open(ctx, "http://a.example/"+strings.Repeat("a", 1<<20)) // more than a pipe holds
			})
			done <- err
		}()
		<-stuck
		end(b, cancel)
		if err := <-done; err == nil {
			t.Errorf("%s: the call succeeded", name)
		}
		cancel()
	}
}

func TestWhatABrowserSaysOfItselfIsClipped(t *testing.T) {
	long := strings.Repeat("a", 1000)
	f := &fake{t: t, answer: func(method string, send func(string)) string {
		if method == "Page.navigate" {
			for _, event := range []string{
				`{"method":"Page.frameNavigated","sessionId":"S","params":{"frame":{"id":"F","url":"http://a.example/` + long + long + long + `"}}}`,
				`{"method":"Page.frameNavigated","sessionId":"S","params":{"frame":{"id":"` + long + `","url":"http://forged.example/"}}}`,
				`{"method":"Browser.downloadWillBegin","params":{"guid":"` + long + `","url":"http://a.example/x"}}`,
				`{"method":"Runtime.bindingCalled","sessionId":"S","params":{"payload":"` + strings.Repeat(long, 1100) + `"}}`,
				`{"method":"Runtime.bindingCalled","sessionId":"S","params":{"payload":"http://b.example/"}}`,
			} {
				send(event)
			}
			return `{"errorText":"net::\u001b[31mFORGED"}`
		}
		return ""
	}}
	err := f.use(f.open(), "s", func(ctx context.Context, p *browser.Page) error {
		err := p.Open(ctx, "http://a.example/")
		if err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("the browser's words are in the error as they are: %v", err)
		}
		told := p.Told()
		if len(told.Downloads) != 0 || len(told.Popups) != 1 || told.Popups[0] != "http://b.example/" {
			t.Errorf("kept of long events: %d downloads, popups %.100q", len(told.Downloads), told.Popups)
		}
		at, err := p.Where(ctx)
		if !strings.HasPrefix(at.URL, "http://a.example/aaa") {
			t.Errorf("the page is %.100q", at.URL)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// has reports whether a browser is open for a permit.
func has(t *testing.T, b *browser.Browsers, p permit.Permit) bool {
	t.Helper()
	return b.Look(t.Context(), p, func(*browser.Page) error { return nil }) == nil
}

func nothing(context.Context, *browser.Page) error { return nil }

func TestAnotherAuthorityHasAnotherBrowser(t *testing.T) {
	f := &fake{t: t}
	b := f.open()
	if err := f.use(b, "s", nothing); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"bob wide", "ann narrow"} {
		if has(t, b, f.mint("s", other)) {
			t.Errorf("%s has the browser of ann wide", other)
		}
		if b.EndOwn(f.mint("s", other)) {
			t.Errorf("%s ends the browser of ann wide", other)
		}
	}
	if !has(t, b, f.mint("s", "ann wide")) {
		t.Error("a later call of the same authority has no browser")
	}
	if !b.End("s") || has(t, b, f.mint("s", "ann wide")) {
		t.Error("the session's end leaves its browser")
	}
}

func TestTheBrowserThatIsIdleLongestGivesWay(t *testing.T) {
	f := &fake{t: t}
	b := f.open()
	for i := range browser.Most {
		if err := f.use(b, strconv.Itoa(i), nothing); err != nil {
			t.Fatal(err)
		}
	}
	err := f.use(b, "0", func(context.Context, *browser.Page) error { return f.use(b, "new", nothing) })
	if err != nil {
		t.Fatal(err)
	}
	for scope, want := range map[string]bool{"0": true, "1": false, "2": true, "new": true} {
		if has(t, b, f.mint(scope, "ann wide")) != want {
			t.Errorf("browser %s is open: %v, want %v", scope, !want, want)
		}
	}
}

func TestACallThatEndsWhileItWaitsLeavesNoBrowserBehind(t *testing.T) {
	f := &fake{t: t}
	b := f.open()
	ctx, cancel := context.WithCancel(t.Context())
	entered, done := make(chan struct{}), make(chan error, 1)
	err := f.use(b, "s", func(context.Context, *browser.Page) error {
		p := f.mint("s", "ann wide")
		go func() {
			close(entered)
			done <- b.Look(ctx, p, func(*browser.Page) error { return nil })
		}()
		<-entered
		cancel()
		<-done
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range browser.Most { // it can give way, as it counts as idle
		if err := f.use(b, strconv.Itoa(i), nothing); err != nil {
			t.Fatal(err)
		}
	}
}

// A browser that crashes before it has a page is started again, three times at most. One that
// was ended by something else is not.
func TestACrashAtTheStart(t *testing.T) {
	for name, tc := range map[string]struct {
		ends    []string
		started int
		want    string // of the error; "": none
	}{
		"once":      {[]string{"SIGSEGV"}, 2, ""},
		"thrice":    {[]string{"SIGSEGV", "SIGSEGV", "SIGSEGV"}, 4, ""},
		"each time": {[]string{"SIGSEGV", "SIGSEGV", "SIGSEGV", "SIGSEGV"}, 4, "SIGSEGV"},
		"killed":    {[]string{"SIGKILL"}, 1, "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{t: t, ends: tc.ends}
			err := f.use(f.open(), "run", func(context.Context, *browser.Page) error { return nil })
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) || f.started != tc.started {
				t.Errorf("after %d starts: %v", f.started, err)
			}
		})
	}
}
