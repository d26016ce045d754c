package browser

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/browser"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// pages are the tools and a web site.
type pages struct {
	t      *testing.T
	tools  map[tool.ID]permit.Tool
	url    string
	dir    string // the workspace
	policy string
}

func newPages(t *testing.T) *pages {
	t.Helper()
	if _, err := os.Stat("/usr/lib/chromium/chromium"); err != nil {
		t.Skip("Chromium is not installed")
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(rw, `<title>Shop</title><h1>Orders</h1><a href="/file">Get</a><input type=file aria-label=Document onchange="document.body.append('given ' + this.files[0].name)">`)
	})
	var asked atomic.Int32
	mux.HandleFunc("/file", func(rw http.ResponseWriter, _ *http.Request) {
		names := []string{"../../x", "/x", ".bashrc", "x", `..\\x`}
		rw.Header().Set("Content-Disposition", `attachment; filename="`+names[int(asked.Add(1))%len(names)]+`"`)
		_, _ = fmt.Fprint(rw, "content")
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	box := linux.New(linux.Config{Getenv: os.LookupEnv, State: t.TempDir()})
	b := browser.New(box, nil)
	t.Cleanup(func() { _ = b.Close(); _ = box.Close() })
	p := &pages{t: t, tools: map[tool.ID]permit.Tool{}, url: server.URL, dir: t.TempDir()}
	for _, tl := range Tools(b) {
		p.tools[tl.Spec().ID] = tl
	}
	p.policy = fmt.Sprintf("version: 1\nnetwork: {allow: [%q]}\nfiles: {read: {allow: ['in/**']}, write: {allow: ['out/**']}}\n", server.URL)
	return p
}

// run makes one call of the run "r".
func (p *pages) run(name tool.ID, args tool.Args) (map[string]any, error) {
	p.t.Helper()
	pol, err := policy.Parse("policy.yaml", []byte(p.policy))
	if err != nil {
		p.t.Fatal(err)
	}
	rules, err := pol.Bind(policy.Env{Workspace: p.dir, Path: []string{"/usr/bin", "/bin"}})
	if err != nil {
		p.t.Fatal(err)
	}
	chain := policy.Chain{rules}
	pm := permit.Mint(permit.Terms{Chain: chain, Env: tool.Env{Workspace: p.dir}, Limits: chain.Limits(), Scope: "r"})
	defer pm.End()
	res, err := permittest.Run(p.t.Context(), p.tools[name], pm, args)
	return res.Output, err
}

func TestContract(t *testing.T) {
	p := newPages(t)
	for _, tl := range p.tools {
		permittest.CheckSpec(t, tl.Spec())
	}
	permittest.Tool(t, p.tools["browser.open"], permittest.World{Policy: p.policy}, tool.Args{"url": p.url + "/"})
}

func TestOnlyTheWebCanBeOpened(t *testing.T) {
	for _, url := range []string{"file:///etc/passwd", "view-source:http://a.test", "chrome://version", "devtools://x", "javascript:alert(1)", "about:blank", "data:text/html,x", "tcp://a.test:1", "ftp://a.test/", "//a.test", "a.test", ""} {
		actions, err := permittest.Actions(Tools(nil)[0], tool.Env{}, tool.Args{"url": url})
		if err != nil || len(actions) != 1 || actions[0].Unknown == "" {
			t.Errorf("%q: %+v, %v", url, actions, err)
		}
	}
}

func TestCalls(t *testing.T) {
	p := newPages(t)
	if _, err := p.run("browser.text", nil); err == nil || !strings.Contains(err.Error(), "no page is open") {
		t.Errorf("without a page: %v", err)
	}
	out, err := p.run("browser.open", tool.Args{"url": p.url + "/"})
	if err != nil || out["title"] != "Shop" || out["status"] != 200 || !strings.Contains(out["snapshot"].(string), `link e1 "Get"`) || len(out["connections"].([]any)) == 0 {
		t.Fatalf("open: %v, %v", out, err)
	}
	if out, err = p.run("browser.text", nil); err != nil || !strings.HasPrefix(out["text"].(string), "Orders") || out["connections"] != nil {
		t.Errorf("text: %v, %v", out, err)
	}
	if out, err = p.run("browser.screenshot", tool.Args{"path": "out/page.png"}); err != nil {
		t.Errorf("screenshot: %v", err)
	}
	file, _ := os.ReadFile(p.dir + "/out/page.png")
	if content, err := base64.StdEncoding.DecodeString(out["content_base64"].(string)); err != nil || string(content) != string(file) || !strings.HasPrefix(string(file), "\x89PNG") {
		t.Errorf("the picture begins with %.8q, its file with %.8q: %v", content, file, err)
	}
	if out, err = p.run("browser.click", tool.Args{"ref": "e1"}); err != nil || out["saved"] != nil {
		t.Errorf("a download without a place: %v, %v", out, err)
	}
	if out, err = p.run("browser.click", tool.Args{"ref": "e1", "save_to": "out/x"}); err != nil || out["saved"].([]any)[0].(map[string]any)["path"] != "out/x" {
		t.Errorf("a download: %v, %v", out, err)
	}
	if saved, err := os.ReadFile(p.dir + "/out/x"); string(saved) != "content" {
		t.Errorf("the file holds %q: %v", saved, err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.Symlink(outside, p.dir+"/out/link"), os.Symlink(p.dir+"/out/x", p.dir+"/out/inside")); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"a file that is there": "out/x", "a folder that may not be written": "x", "a link to nothing": "out/link", "a link to a file": "out/inside",
		"a path above": "out/../../x", "an absolute path": outside} {
		if _, err = p.run("browser.click", tool.Args{"ref": "e1", "save_to": to}); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if saved, err := os.ReadFile(p.dir + "/out/x"); string(saved) != "content" {
		t.Errorf("afterwards the file holds %q: %v", saved, err)
	}
	for _, at := range []string{outside, p.dir + "/x", p.dir + "/.bashrc", p.dir + "/out/.bashrc"} { // the names are the page's
		if _, err := os.Lstat(at); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", at, err)
		}
	}
	if out, err = p.run("browser.close", nil); err != nil || out["closed"] != true {
		t.Errorf("close: %v, %v", out, err)
	}
}

func TestFilesAreGivenUnderThePolicy(t *testing.T) {
	p := newPages(t)
	for _, name := range []string{"in/note.txt", "secret.txt"} {
		if err := os.MkdirAll(p.dir+"/in", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p.dir+"/"+name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.run("browser.open", tool.Args{"url": p.url + "/"}); err != nil {
		t.Fatal(err)
	}
	if out, err := p.run("browser.fill", tool.Args{"ref": "e2", "files": []any{"secret.txt"}}); err == nil {
		t.Errorf("a file that may not be read was given to the page: %v", out)
	}
	if out, err := p.run("browser.fill", tool.Args{"ref": "e2", "files": []any{"in/note.txt"}}); err != nil || !strings.Contains(out["snapshot"].(string), "given note.txt") {
		t.Errorf("got %v, %v", out, err)
	}
	actions, err := permittest.Actions(p.tools["browser.fill"], tool.Env{Workspace: p.dir}, tool.Args{"ref": "e2", "files": []any{"in/note.txt"}, "save_to": "out/y", "save_more": []any{"out/z"}})
	if err != nil || len(actions) != 3 || actions[0].Kind != tool.FileRead || actions[1].Kind != tool.FileWrite || actions[2].Kind != tool.FileWrite {
		t.Errorf("the actions are %v, %v", actions, err)
	}
}
