//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const netPolicy = openPolicy + `network: {allow: ["http://service.test"]}
`

// proxy answers every request itself and says what it was asked.
type proxy struct {
	server http.Server
	asked  atomic.Int64
	name   string
	ca     []byte
	closed chan struct{}
}

func newProxy(name string) *proxy {
	p := &proxy{name: name, closed: make(chan struct{})}
	p.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.asked.Add(1)
		fmt.Fprintf(w, "%s answers for %s", p.name, r.URL)
	})
	return p
}

func (p *proxy) Serve(l net.Listener) error             { return p.server.Serve(l) }
func (p *proxy) ServeSocket(string, net.Listener) error { return nil }
func (p *proxy) CA() []byte                             { return p.ca }
func (p *proxy) Close()                                 { close(p.closed); _ = p.server.Close() }
func (p *proxy) Env(port int) map[string]string {
	return map[string]string{"HTTP_PROXY": fmt.Sprintf("http://127.0.0.1:%d", port), "CANARY_OK": "the proxy's", "SSL_CERT_FILE": sandbox.TrustFile}
}
func (p *proxy) Connections() []sandbox.Connection {
	var out []sandbox.Connection
	for range p.asked.Load() {
		out = append(out, sandbox.Connection{Method: "GET", Protocol: "http", Host: "service.test", Port: 80, Path: "/", Effect: policy.Allow})
	}
	return out
}

// netWorld is a world whose commands have a way out.
func netWorld(t *testing.T, src string, made func() *proxy) *world {
	t.Helper()
	w := newWorld(t, src)
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, Egress: func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) { return made(), nil }})
	t.Cleanup(func() { must(t, w.box.Close()) })
	return w
}

func TestTheProxyIsTheWayOut(t *testing.T) {
	p := newProxy("proxy")
	p.ca = []byte("-----BEGIN CERTIFICATE-----\n")
	w := netWorld(t, netPolicy, func() *proxy { return p })
	exe, err := os.Executable()
	must(t, err)
	t.Setenv("CANARY_OK", "the host's")
	out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "fetch", "http://service.test/x"}, Timeout: time.Minute})
	must(t, err)
	if got := string(out.Stdout.Data); !strings.Contains(got, "proxy answers for http://service.test/x") {
		t.Errorf("got %q, %s", got, out.Stderr.Data)
	}
	if len(out.Connections) != 1 || out.Connections[0].Refused() {
		t.Errorf("connections: %+v", out.Connections)
	}
	select {
	case <-p.closed:
	default:
		t.Error("the proxy lives on after the command")
	}
	q := newProxy("next")
	q.ca = p.ca
	w2 := netWorld(t, netPolicy, func() *proxy { return q })
	if out := w2.sh("cat $SSL_CERT_FILE | grep -c BEGIN; echo $CANARY_OK"); out.ExitCode != 0 || !strings.Contains(string(out.Stdout.Data), "the proxy's") {
		t.Errorf("the certificates: %q %s", out.Stdout.Data, out.Stderr.Data)
	}
}

// A command whose policy allows no connection reaches nothing, and what it tries is
// refused and recorded by the same proxy.
func TestWithoutNetworkRulesEveryConnectionIsRefusedAndKnown(t *testing.T) {
	tests := map[string]struct{ policy, reason string }{
		"no network section": {openPolicy, "the policy has no section network"},
		"nothing allowed":    {openPolicy + "network: {deny: [\"evil.test\"]}\n", "network.allow is empty"},
		"a session":          {sessionPolicy, "the policy has no section network"},
	}
	exe, err := os.Executable()
	must(t, err)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var made *egress.Proxy
			w := newWorld(t, tt.policy)
			w.box = linux.New(linux.Config{Egress: func(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
				made = egress.New(egress.Options{Permit: p})
				return realProxy{made}, nil
			}})
			t.Cleanup(func() { must(t, w.box.Close()) })
			out, err := w.run(sandbox.Command{Argv: []string{exe, "probe", "fetch", "http://service.test/x"}, Timeout: time.Minute})
			must(t, err)
			if got := string(out.Stdout.Data); !strings.Contains(got, tt.reason) {
				t.Errorf("the command got %q %s", got, out.Stderr.Data)
			}
			if r := made.Connections(); len(r) != 1 || !r[0].Refused() || r[0].Host != "service.test" || !strings.Contains(r[0].Reason, tt.reason) {
				t.Errorf("the report is %+v", r)
			}
			if refused, more := w.p.Refused(); len(refused) != 1 || more != 0 || !strings.Contains(refused[0].Reason, tt.reason) {
				t.Errorf("the record has %+v and %d more", refused, more)
			}
		})
	}
}

func TestTheWayOutLeadsNowhereElse(t *testing.T) { everyTier(t, netPolicy, testTheWayOut) }

func testTheWayOut(t *testing.T, src string) {
	p := newProxy("proxy")
	host, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, host.Close()) }()
	abstract, err := net.Listen("unix", "@remit-net-canary")
	must(t, err)
	defer func() { must(t, abstract.Close()) }()
	exe, err := os.Executable()
	must(t, err)
	tests := map[string][]string{
		"the host's loopback":               {"dial", host.Addr().String()},
		"the host's abstract socket":        {"unix", "@remit-net-canary"},
		"an outside address":                {"dial", "192.0.2.1:443"},
		"a datagram":                        {"datagram", "192.0.2.1:53"},
		"the proxy's own port, bound again": {"listen", "127.0.0.1:61080"},
		"descriptors":                       {"fds"},
	}
	for name, probe := range tests {
		t.Run(name, func(t *testing.T) {
			p = newProxy("proxy")
			w := netWorld(t, src, func() *proxy { return p })
			out, err := w.run(sandbox.Command{Argv: append([]string{exe, "probe"}, probe...), Timeout: time.Minute})
			must(t, err)
			if got := string(out.Stdout.Data); !strings.HasPrefix(got, "REFUSED") {
				t.Errorf("got %q %s", got, out.Stderr.Data)
			}
		})
	}
}

// A command that has a way out reaches nothing of the host's by any other one.
func TestAWayOutIsTheOnlyOne(t *testing.T) {
	racetest.Skip(t, oneByOne)
	everyTier(t, denyingPolicy+wayOut, testTheOnlyWayOut)
}

const wayOut = "network: {allow: [\"http://service.test\"]}\n"

func testTheOnlyWayOut(t *testing.T, src string) {
	h := newHost(t, src)
	box := linux.New(linux.Config{Getenv: os.LookupEnv, Egress: func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) { return newProxy("proxy"), nil }})
	defer func() { must(t, box.Close()) }()
	h.w.box = box
	h.w.allow(strings.Replace(src, "CANARY_OK, ", "", 1)) // which the proxy sets
	list := []attempt{
		{no: 62, name: "datagram on the loopback", probe: []string{"datagram", h.ears["udp"].addr}, blind: true, harms: true}, // it goes to the sandbox's own
		{no: 62, name: "listener on the loopback", probe: []string{"dial", h.ears["tcp"].addr}, harms: true},
		{no: 55, name: "abstract socket", probe: []string{"unix", h.ears["abstract"].addr}, harms: true},
		{no: 56, name: "socket in the workspace", probe: []string{"unix", h.ears["socket"].addr}, harms: true},
		{no: 62, name: "raw socket", probe: []string{"raw"}, control: inside},
		{no: 61, name: "other families", probe: []string{"families"}},
	}
	if e := h.ears["tcp6"]; e != nil {
		list = append(list, attempt{no: 62, name: "listener on the loopback of version 6", probe: []string{"dial", e.addr}, harms: true})
	}
	h.attempts(list, tierOf(src), tierOf(src) == "fresh")
}

func TestEachSandboxHasItsOwnProxy(t *testing.T) { everyTier(t, netPolicy, testOwnProxy) }

func testOwnProxy(t *testing.T, src string) {
	var made atomic.Int64
	w := netWorld(t, src, func() *proxy { return newProxy(fmt.Sprintf("proxy-%d", made.Add(1))) })
	w.sh("true")
	exe, err := os.Executable()
	must(t, err)
	errs := make(chan error, 8)
	names := make(chan string, cap(errs))
	for range cap(errs) {
		go func() {
			out, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{exe, "probe", "fetch", "http://service.test/"}, Dir: w.dir})
			who, _, ok := strings.Cut(string(out.Stdout.Data), " ")
			if err == nil && !ok {
				err = errors.New(string(out.Stdout.Data))
			}
			names <- who
			errs <- err
		}()
	}
	seen := map[string]bool{}
	for range cap(errs) {
		must(t, <-errs)
		seen[<-names] = true
	}
	if len(seen) != cap(errs) {
		t.Errorf("%d proxies answered %d sandboxes", len(seen), cap(errs))
	}
}

func TestAProxyThatCannotBeMadeRunsNothing(t *testing.T) {
	w := newWorld(t, netPolicy)
	w.sh("true")
	w.box = linux.New(linux.Config{Egress: func(permit.Permit, sandbox.Command) (sandbox.Proxy, error) { return nil, errors.New("no proxy") }})
	t.Cleanup(func() { must(t, w.box.Close()) })
	_, err := w.box.Run(context.Background(), w.p, sandbox.Command{Argv: []string{"touch", "out/ran"}, Dir: w.dir})
	if _, serr := os.Stat(filepath.Join(w.dir, "out/ran")); err == nil || serr == nil {
		t.Errorf("got %v, and the command ran: %v", err, serr == nil)
	}
}
