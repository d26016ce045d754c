package network_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allowing makes a permit under a policy whose network section allows the
// entries; those after "deny" are denied, and the last lines may be settings.
func allowing(t *testing.T, network string) permit.Permit {
	t.Helper()
	src := "version: 1\nname: test\nnetwork:\n" + network
	p, err := policy.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	chain := policy.Chain{r}
	return permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits()})
}

func allow(rules ...string) string {
	var b strings.Builder
	b.WriteString("  allow:\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "    - %q\n", r)
	}
	return b.String()
}

// world is a resolver and a dialler without a way out: names have the answers
// that a test gives them in turn, and every connection goes to one test server.
type world struct {
	answers map[string][][]netip.Addr
	server  string

	mu     sync.Mutex
	dialed []string
	looked []string
}

func (w *world) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, host)
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	list := w.answers[host]
	if len(list) == 0 {
		return nil, fault.New(fault.NotFound, "no %s", host)
	}
	if len(list) > 1 {
		w.answers[host] = list[1:]
	}
	return list[0], nil
}

func (w *world) dial(ctx context.Context, to netip.AddrPort, guard func(string) error) (net.Conn, error) {
	if err := guard(to.String()); err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.dialed = append(w.dialed, to.String())
	w.mu.Unlock()
	if to.Addr() == netip.MustParseAddr("2606:4700::dead") {
		return nil, errors.New("no route")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", w.server)
}

func (w *world) client(p permit.Permit) *network.Client {
	c := network.NewClient(p)
	c.Transport.SetLookup(w.lookup)
	c.Transport.SetDial(w.dial)
	return c
}

func addrs(list ...string) [][]netip.Addr {
	out := make([][]netip.Addr, len(list))
	for i, s := range list {
		for f := range strings.FieldsSeq(s) {
			out[i] = append(out[i], netip.MustParseAddr(f))
		}
	}
	return out
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func body(t *testing.T, r *network.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRequestIsTheDecidedOne(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %s", r.Method, r.Host, r.RequestURI)
	})
	p := allowing(t, allow(s.URL+"/a/**"))
	resp, err := network.NewClient(p).Do(t.Context(), network.Request{Method: "put", URL: s.URL + "/x/%2e%2e/a/%41?q=%2f#frag"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := body(t, resp), "PUT "+strings.TrimPrefix(s.URL, "http://")+" /a/%41?q=%2f"; got != want {
		t.Errorf("the server saw %q, want %q", got, want)
	}
	notes, _ := p.Happened()
	if len(notes) != 1 || notes[0].Effect != tool.NetworkHTTP || notes[0].On != "PUT "+s.URL+"/a/A" {
		t.Errorf("noted %+v", notes)
	}
}

// Nothing here may be dialled, nor looked up.
func TestRefusedBeforeAnything(t *testing.T) {
	urls := strings.Fields(`http://[::ffff:127.0.0.1]/ http://[::ffff:7f00:1]/ http://0x7f.1/ http://2130706433/ http://017700000001/ http://127.1/
		http://0.0.0.0/ http://[::]/ http://[fe80::1%25lo]/ http://localhost./ http://localhost/ http://[64:ff9b::7f00:1]/ http://[2002:7f00:1::]/
		http://１２７.0.0.1/ http://allowed@127.0.0.1/ http://127.0.0.1/ http://[::1]/ http://169.254.169.254/latest/meta-data/ http://[fd00:ec2::254]/
		file:///etc/passwd gopher://127.0.0.1/ http://allowed.test.evil.test/ http://evil-allowed.test/ http://allowed.test:81/ https://allowed.test/ http://allowed.test\@127.0.0.1/`)
	for _, u := range urls {
		w := &world{}
		p := allowing(t, allow("http://allowed.test"))
		if resp, err := w.client(p).Do(t.Context(), network.Request{URL: u}); err == nil {
			t.Errorf("%s answered %s", u, resp.Status)
		}
		if len(w.dialed)+len(w.looked) > 0 {
			t.Errorf("%s: looked up %q, dialled %q", u, w.looked, w.dialed)
		}
	}
}

// A wildcard reaches no special address, under whatever name or notation.
func TestWildcardReachesNothingPrivate(t *testing.T) {
	private := strings.Fields(`127.0.0.1 10.1.2.3 169.254.169.254 100.64.0.1 192.168.1.1 0.0.0.0 ::1 :: fd00:ec2::254 fe80::1 fe80::1%lo
		::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1:: 2001:0:808:808::80ff:fffe 255.255.255.255 224.0.0.1`)
	for _, a := range private {
		for _, answer := range []string{a, "8.8.8.8 " + a, a + " 8.8.8.8"} {
			w := &world{answers: map[string][][]netip.Addr{"name.test": addrs(answer)}}
			_, err := w.client(allowing(t, allow("http://*"))).Do(t.Context(), network.Request{URL: "http://name.test/"})
			if !errors.Is(err, fault.HandleRefused) || len(w.dialed) > 0 {
				t.Errorf("answer %q: %v, dialled %q", answer, err, w.dialed)
			}
		}
	}
}

func TestRebindingIsNotFollowed(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{"name.test": addrs("93.184.216.34", "127.0.0.1")}}
	c := w.client(allowing(t, allow("http://name.test")))
	resp, err := c.Do(t.Context(), network.Request{URL: "http://name.test/"})
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	if !slices.Equal(w.dialed, []string{"93.184.216.34:80"}) || len(w.looked) != 1 {
		t.Errorf("dialled %q after looking up %q", w.dialed, w.looked)
	}
	if _, err := c.Do(t.Context(), network.Request{URL: "http://name.test/"}); !errors.Is(err, fault.HandleRefused) || len(w.dialed) != 1 {
		t.Errorf("second answer: %v, dialled %q", err, w.dialed)
	}
}

func TestDialGuardRefusesOtherAddresses(t *testing.T) {
	c := network.NewClient(allowing(t, allow("http://name.test")))
	c.Transport.SetLookup((&world{answers: map[string][][]netip.Addr{"name.test": addrs("8.8.8.8")}}).lookup)
	c.Transport.SetDial(func(_ context.Context, _ netip.AddrPort, guard func(string) error) (net.Conn, error) {
		for _, a := range []string{"127.0.0.1:80", "8.8.8.8:81", "8.8.4.4:80", "junk"} {
			if guard(a) == nil {
				t.Errorf("%s passed the guard", a)
			}
		}
		return nil, guard("127.0.0.1:80")
	})
	if _, err := c.Do(t.Context(), network.Request{URL: "http://name.test/"}); !errors.Is(err, fault.HandleRefused) {
		t.Error(err)
	}
}

func TestNextAddressIsTried(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) {})
	w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{"name.test": addrs("2606:4700::dead 2606:4700::beef 93.184.216.34")}}
	resp, err := w.client(allowing(t, allow("http://name.test"))).Do(t.Context(), network.Request{URL: "http://name.test/"})
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
	if want := []string{"[2606:4700::dead]:80", "93.184.216.34:80"}; !slices.Equal(w.dialed, want) {
		t.Errorf("dialled %q, want %q: the families take turns", w.dialed, want)
	}
}

// net/http reads the variables once in a process, so this counts in a child of
// TestSurroundings.
func TestProxyVariablesAreIgnored(t *testing.T) {
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.RequestURI != "/" {
			t.Errorf("asked as a proxy: %s", r.RequestURI)
		}
	})
	w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{"name.test": addrs("8.8.8.8")}}
	resp, err := w.client(allowing(t, allow("http://name.test"))).Do(t.Context(), network.Request{URL: "http://name.test/"})
	if err != nil {
		t.Fatal(err)
	}
	body(t, resp)
}

func TestTLSChecksTheName(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s %d", r.TLS.ServerName, r.Host, r.ProtoMajor)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = nil
	s.StartTLS()
	defer s.Close()
	get := func(host string) (*network.Response, error) {
		w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{host: addrs("8.8.8.8")}}
		c := w.client(allowing(t, allow("*")))
		c.Transport.SetRoots(s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
		return c.Do(t.Context(), network.Request{URL: "https://" + host + "/"})
	}
	resp, err := get("example.com")
	if err != nil {
		t.Fatal(err)
	}
	if got := body(t, resp); got != "example.com example.com 2" {
		t.Errorf("the server saw %q", got)
	}
	if _, err := get("other.test"); !errors.Is(err, fault.ToolFailed) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a certificate for another name gave %v", err)
	}
}

func TestEndedPermit(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", 1<<16)) })
	p := allowing(t, allow(s.URL))
	c := network.NewClient(p)
	resp, err := c.Do(t.Context(), network.Request{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	p.End()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("reading on after the end gave %v", err)
	}
	if _, err := c.Do(t.Context(), network.Request{URL: s.URL}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("a request after the end gave %v", err)
	}
	for _, c := range []*network.Client{{}, {Transport: &network.Transport{}}, network.NewClient(permit.Permit{})} {
		if _, err := c.Do(t.Context(), network.Request{URL: s.URL}); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("a client without a permit gave %v", err)
		}
	}
}

func TestRoundTripperRefusesAnotherHostOrFraming(t *testing.T) {
	p := allowing(t, allow("http://name.test"))
	for name, change := range map[string]func(*http.Request){
		"another host":    func(r *http.Request) { r.Host = "evil.test" },
		"method override": func(r *http.Request) { r.Header.Set("X-HTTP-Method-Override", "DELETE") },
		"override with _": func(r *http.Request) { r.Header["X_Http_Method_Override"] = []string{"DELETE"} },
		"proxy":           func(r *http.Request) { r.Header.Set("Proxy-Authorization", "x") },
		"upgrade":         func(r *http.Request) { r.Header.Set("Upgrade", "h2c") },
	} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "http://name.test/", nil)
		if err != nil {
			t.Fatal(err)
		}
		change(req)
		if _, err := network.NewTransport(p).RoundTrip(req); !errors.Is(err, fault.HandleRefused) { //nolint:bodyclose // there is no body
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResolve(t *testing.T) {
	for host, want := range map[string]string{"10.0.0.1": "[10.0.0.1]", "::1": "[::1]", "::ffff:10.0.0.1": "[10.0.0.1]", "localhost": "[127.0.0.1 ::1]"} {
		if got, err := network.Resolve(t.Context(), host); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%s is %v, %v; want %s", host, got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := network.Resolve(ctx, "name.invalid"); err == nil {
		t.Errorf("name.invalid is %v", got)
	}
}

// Neither of Go's resolvers nor proxy variables make a difference: the tests
// concerned run again under each.
func TestSurroundings(t *testing.T) {
	const child = "REMIT_NETWORK_TEST_CHILD"
	if os.Getenv(child) != "" {
		t.Skip("already in a child")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, resolver := range []string{"go", "cgo"} {
		cmd := exec.CommandContext(t.Context(), self, "-test.run", "Resolve$|Private|Rebinding|DecidedOne|Proxy", "-test.count=1")
		cmd.Env = append(os.Environ(), child+"=1", "GODEBUG=netdns="+resolver)
		for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
			cmd.Env = append(cmd.Env, name+"=http://127.0.0.1:9")
		}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("netdns=%s: %v\n%s", resolver, err, out)
		}
	}
}

func TestRoundTripperSendsTheCanonicalRequest(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Method, " ", r.Host, " ", r.RequestURI) })
	w := &world{server: s.Listener.Addr().String(), answers: map[string][][]netip.Addr{"name.test": addrs("8.8.8.8")}}
	req, err := http.NewRequestWithContext(t.Context(), "get", "http://NAME.test.:80/x/%2e%2e/a", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.client(allowing(t, allow("GET http://name.test/a"))).Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if got := body(t, &network.Response{Response: resp}); got != "GET name.test /a" {
		t.Errorf("the server saw %q", got)
	}
}
