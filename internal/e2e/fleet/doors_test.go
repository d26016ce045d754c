package fleet_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/logins"
	"github.com/remitrun/remit/internal/service/people/oidctest"
)

// visitor is a client whose requests a load balancer sends to any node.
type visitor interface {
	visit(a, b *node) // begins at a, goes on at b
	stay(b *node)     // goes on after a was killed
}

// TestNodesShareTheirDoors: what begins at one node goes on at another, also after the first one
// was killed.
func TestNodesShareTheirDoors(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	f.burst = burst
	idp := f.people()
	a, b := f.start(), f.start()
	ann := &person{f: f, idp: idp, name: "ann", cookies: map[string]*http.Cookie{}}
	visitors := []visitor{ann, &waiting{person: *ann.like("bob")}, &program{by: ann}, &counted{idp: idp}, &mcpClient{}}
	for _, v := range visitors {
		v.visit(a, b)
	}
	a.kill()
	for _, v := range visitors {
		v.stay(b)
	}
	verified(t, f)
}

// public is the address of the nodes, as browsers know it.
const public = "https://" + publicHost

// people adds an issuer, and a role for its people, to the settings of nodes.
func (f *fleet) people() *oidctest.Provider {
	f.Helper()
	idp := oidctest.New("ui", "")
	f.Cleanup(idp.Close)
	file := filepath.Join(f.dir, "home", "config.yaml")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, fmt.Appendf(text, `people:
  issuers:
    company: {url: %q, audiences: [remit], client_id: ui, redirect_url: %q}
  roles:
    developer: {policy: developer.yaml}
  bindings:
    - {issuer: company, claims: {groups: developers}, role: developer}
`, idp.URL, public+"/ui/signed-in"), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(f.dir, "home", "developer.yaml"), []byte("version: 1\nname: developer\nrest: inherit\napi: {allow: [runs.read, approvals.read, parts.read, grants.*]}\n"), 0o600)
	}
	if err != nil {
		f.Fatal(err)
	}
	return idp
}

// person is somebody with a browser, who signs in at the issuer.
type person struct {
	f       *fleet
	idp     *oidctest.Provider
	name    string
	cookies map[string]*http.Cookie
}

// like makes another person.
func (p *person) like(name string) *person {
	return &person{f: p.f, idp: p.idp, name: name, cookies: map[string]*http.Cookie{}}
}

// claims are those of the person's tokens. The issuer has just asked the person.
func (p *person) claims() map[string]any {
	return map[string]any{"sub": p.name, "groups": []string{"developers"}, "auth_time": time.Now().Unix()}
}

// browse makes a request of the browser, which follows no redirects.
func (p *person) browse(n *node, method, path string, form url.Values) (status int, to, page string) {
	p.f.Helper()
	r, err := http.NewRequestWithContext(p.f.Context(), method, n.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.f.Fatal(err)
	}
	r.Host = publicHost
	r.Header.Set("Origin", public)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for _, c := range p.cookies {
		r.AddCookie(c)
	}
	res := p.f.fetch(r)
	for _, c := range res.cookies {
		p.cookies[c.Name] = c
		if c.MaxAge < 0 {
			delete(p.cookies, c.Name)
		}
	}
	return res.status, res.header.Get("Location"), res.text
}

// leave begins a sign-in at a node, and gives the path to which the issuer leads back.
func (p *person) leave(n *node) (back string) {
	p.f.Helper()
	status, to, page := p.browse(n, "GET", "/ui/sign-in/company?again", nil)
	if status != 303 || !strings.HasPrefix(to, p.idp.URL+"/") {
		p.f.Fatalf("a sign-in begins: %d %q %s", status, to, page)
	}
	p.idp.SignsIn(p.claims())
	r, err := http.NewRequestWithContext(p.f.Context(), "GET", to, http.NoBody)
	if err != nil {
		p.f.Fatal(err)
	}
	to = p.f.fetch(r).header.Get("Location")
	back, ok := strings.CutPrefix(to, public)
	if !ok {
		p.f.Fatalf("the issuer leads to %q", to)
	}
	return back
}

// wants checks the status of a page at a node.
func (p *person) wants(want int, n *node, path string) {
	p.f.Helper()
	if status, _, page := p.browse(n, "GET", path, nil); status != want {
		p.f.Errorf("%s at %s: %d, want %d: %s", path, n.url, status, want, page)
	}
}

// visit signs in at both nodes: the answer of the issuer counts once.
func (p *person) visit(a, b *node) {
	back := p.leave(a)
	attempt := p.cookies
	p.cookies = map[string]*http.Cookie{}
	p.wants(401, b, back) // a browser that did not begin it
	p.cookies = attempt
	again := p.like(p.name)
	for name, c := range attempt {
		again.cookies[name] = c
	}
	p.wants(200, b, back)
	again.wants(401, a, back)
	p.stay(a)
	p.stay(b)
}

func (p *person) stay(b *node) { p.wants(200, b, "/ui/runs") }

// waiting is a person who is at the issuer when the node dies.
type waiting struct {
	person

	back string
}

func (w *waiting) visit(a, _ *node) { w.back = w.leave(a) }

func (w *waiting) stay(b *node) {
	w.wants(401, b, "/ui/runs")
	w.wants(200, b, w.back)
	w.wants(200, b, "/ui/runs")
}

// program signs in as a person confirms it at another node.
type program struct {
	by *person

	device, code string // of the login that waits
}

// oauth posts a form to an endpoint of logins.
func (p *program) oauth(n *node, path string, form url.Values) map[string]any {
	p.by.f.Helper()
	form.Set("client_id", "tool")
	_, got := n.request("POST", path, form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	return got
}

// begin begins a login at a node.
func (p *program) begin(n *node) {
	p.by.f.Helper()
	got := p.oauth(n, logins.AuthorizePath, url.Values{})
	p.device, _ = got["device_code"].(string)
	p.code, _ = got["user_code"].(string)
	if link, _ := got["verification_uri_complete"].(string); p.device == "" || !strings.HasPrefix(link, public+"/ui/login?code=") {
		p.by.f.Fatalf("a login begins with %v", got)
	}
}

// poll asks a node for the token, and gives the error instead.
func (p *program) poll(n *node) (token, refused string) {
	p.by.f.Helper()
	got := p.oauth(n, logins.TokenPath, url.Values{"grant_type": {logins.GrantType}, "device_code": {p.device}})
	token, _ = got["access_token"].(string)
	refused, _ = got["error"].(string)
	return token, refused
}

// confirm is what the person does.
func (p *program) confirm(n *node) {
	p.by.f.Helper()
	form := url.Values{"code": {p.code}, "do": {"allow"}, "hours": {"1"}}
	if status, _, page := p.by.browse(n, "POST", "/ui/login", form); status != 200 || !strings.Contains(page, "was signed in") {
		p.by.f.Fatalf("a person confirms: %d %s", status, page)
	}
}

func (p *program) visit(a, b *node) {
	p.begin(a)
	if _, refused := p.poll(a); refused != string(logins.Pending) {
		p.by.f.Errorf("before the person confirms: %q", refused)
	}
	p.confirm(a)
	token, refused := p.poll(b)
	for _, n := range []*node{a, b} {
		if status, m := n.ask("GET", "/v1/runs", "", token); status != 200 {
			p.by.f.Errorf("the token of the login: %d %v, %q", status, m, refused)
		}
		if _, refused := p.poll(n); refused != string(logins.Invalid) {
			p.by.f.Errorf("the token once more: %q", refused)
		}
	}
	p.begin(a)
}

func (p *program) stay(b *node) {
	p.confirm(b)
	token, refused := p.poll(b)
	if status, m := b.ask("GET", "/v1/runs", "", token); status != 200 {
		p.by.f.Errorf("a login that began at a node that died: %d %v, %q", status, m, refused)
	}
}

// burst is how many requests of a grant nodes take at once. The next one comes a quarter of an
// hour later.
const burst = 60

// counted makes as many requests as all nodes together take.
type counted struct {
	idp   *oidctest.Provider
	token string
}

func (c *counted) visit(a, b *node) {
	c.token = c.idp.Sign(c.idp.Claims("remit", map[string]any{"sub": "carol", "groups": []string{"developers"}}))
	for i := range burst {
		n := []*node{a, b}[i%2]
		if status, m := n.ask("GET", "/v1/runs", "", c.token); status != 200 {
			n.f.Fatalf("request %d: %d %v", i, status, m)
		}
	}
	c.stay(a)
	c.stay(b)
}

func (c *counted) stay(b *node) {
	if status, m := b.ask("GET", "/v1/runs", "", c.token); status != 429 {
		b.f.Errorf("a request more than all nodes take: %d %v", status, m)
	}
}

// TestASignOutEndsStreamsAtOtherNodes: a person signs out at one node. The event stream of the same
// browser at another node ends, and that of another browser stays.
func TestASignOutEndsStreamsAtOtherNodes(t *testing.T) {
	t.Parallel()
	f := newFleet(t, twoActs)
	idp := f.people()
	a, b := f.start(), f.start()
	ann, bob := &person{f: f, idp: idp, name: "ann", cookies: map[string]*http.Cookie{}}, &person{f: f, idp: idp, name: "bob", cookies: map[string]*http.Cookie{}}
	for _, p := range []*person{ann, bob} {
		p.wants(200, a, p.leave(a))
	}
	gone, stays := ann.stream(b), bob.stream(b)
	_, _, page := ann.browse(a, "GET", "/ui/settings", nil)
	device := regexp.MustCompile(`name="?device"? value="?([^" >]+)`).FindStringSubmatch(page)
	if device == nil {
		t.Fatalf("the settings name no browser: %s", page)
	}
	if status, to, page := ann.browse(a, "POST", "/ui/sign-out", url.Values{"device": {device[1]}}); status != 303 || to != "/ui/" {
		t.Fatalf("signing out: %d %q %s", status, to, page)
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the stream of the person who signed out stays open")
	}
	select {
	case <-stays:
		t.Error("the stream of another person ended")
	default:
	}
	ann.wants(401, b, "/ui/runs")
	bob.stay(b)
}

// stream opens the browser's event stream at a node. The channel is closed when the stream ends.
func (p *person) stream(n *node) <-chan struct{} {
	p.f.Helper()
	r, err := http.NewRequestWithContext(p.f.Context(), "GET", n.url+"/ui/events", http.NoBody)
	if err != nil {
		p.f.Fatal(err)
	}
	r.Host = publicHost
	for _, c := range p.cookies {
		r.AddCookie(c)
	}
	res, err := http.DefaultClient.Do(r) //nolint:bodyclose // the goroutine closes it
	if err != nil || res.StatusCode != http.StatusOK {
		p.f.Fatalf("the event stream: %v, %v", res, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, res.Body) // it ends with the node at the latest
		_ = res.Body.Close()
	}()
	return ended
}
