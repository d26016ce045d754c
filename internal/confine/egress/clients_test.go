package egress_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/egress"
)

// program runs a real program with the proxy's variables and nothing else that
// points anywhere.
func program(t *testing.T, b *box, dir string, more []string, argv ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0"}, more...)
	env := b.Env(b.port)
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// trust writes a bundle as a sandbox gets it.
func trust(t *testing.T) (path string, fill func(parts ...[]byte)) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ca.pem")
	return path, func(parts ...[]byte) {
		if err := os.WriteFile(path, slices.Concat(parts...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// TestRealPrograms sends real programs through the proxy: each reaches what is
// allowed, by plain HTTP, through a tunnel and inspected, and nothing else.
func TestRealPrograms(t *testing.T) {
	plain, secure := newCanary(t, false, nil), newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{80: plain.at(), 443: secure.at()}}
	const python = `
import sys, urllib.request, urllib.error
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except urllib.error.HTTPError as e:
    print("HTTP", e.code, e.headers.get("Remit-Denied"))
except Exception as e:
    print("failed", e)
`
	const requests = `
import sys, requests
try:
    r = requests.get(sys.argv[1], timeout=10)
    print(r.status_code, r.text)
except Exception as e:
    print("failed", e)
`
	programs := map[string]func(url string) []string{
		"curl":           func(u string) []string { return []string{need(t, "curl"), "-sS", "--max-time", "10", u} },
		"curl by SOCKS5": nil, // below
		"urllib":         func(u string) []string { return []string{need(t, "python3"), "-c", python, u} },
		"requests":       func(u string) []string { return []string{need(t, "python3"), "-c", requests, u} },
	}
	for _, mode := range []struct{ name, section string }{
		{"tunnel", `{allow: ["GET http://example.com/ok/**", example.com]}`},
		{"inspected", `{inspect: true, allow: ["GET http://example.com/ok/**", "GET https://example.com/ok/**"]}`},
	} {
		for name, argv := range programs {
			t.Run(mode.name+"/"+name, func(t *testing.T) {
				path, fill := trust(t)
				b := serve(t, w, egress.Options{Permit: allowing(t, mode.section), RootCAs: pool(t, secure), TrustFile: path})
				fill(pemOf(secure.Certificate()), b.CA())
				if argv == nil {
					argv = func(u string) []string {
						return []string{need(t, "curl"), "-sS", "--max-time", "10", "--proxy", b.Env(b.port)["ALL_PROXY"], u}
					}
				}
				dir := t.TempDir()
				env := []string{"SSL_CERT_FILE=" + path, "CURL_CA_BUNDLE=" + path, "REQUESTS_CA_BUNDLE=" + path, "PYENV_ROOT=" + os.Getenv("PYENV_ROOT")}
				if name == "requests" {
					if out, err := program(t, b, dir, env, need(t, "python3"), "-c", "import requests"); err != nil {
						t.Skipf("requests is not installed: %s", out)
					}
				}
				for _, u := range []string{"http://example.com/ok/a", "https://example.com/ok/a"} {
					if out, err := program(t, b, dir, env, argv(u)...); err != nil || !strings.Contains(out, "hello from example.com") {
						t.Errorf("%s: %v %s", u, err, out)
					}
				}
				before := len(plain.requests()) + len(secure.requests())
				for _, u := range []string{"http://example.com/no", "http://evil.test/ok/a", "https://evil.test/ok/a"} {
					if out, _ := program(t, b, dir, env, argv(u)...); strings.Contains(out, "hello") {
						t.Errorf("%s: %s", u, out)
					}
				}
				if mode.name == "inspected" {
					if out, _ := program(t, b, dir, env, argv("https://example.com/no")...); strings.Contains(out, "hello") {
						t.Errorf("https /no: %s", out)
					}
				}
				if after := len(plain.requests()) + len(secure.requests()); after != before {
					t.Errorf("%d requests that were not allowed arrived", after-before)
				}
			})
		}
	}
}

func TestNode(t *testing.T) {
	node := need(t, "node")
	secure := newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{443: secure.at()}}
	path, fill := trust(t)
	b := serve(t, w, egress.Options{Permit: allowing(t, `{inspect: true, allow: ["GET https://example.com/ok"]}`), RootCAs: pool(t, secure), TrustFile: path})
	fill(pemOf(secure.Certificate()), b.CA())
	// Older ones do not read the variables, so the tunnel is asked for by hand;
	// the trust comes from NODE_EXTRA_CA_CERTS.
	const script = `
const http = require('http'), tls = require('tls');
const u = new URL(process.env.HTTPS_PROXY);
const auth = 'Basic ' + Buffer.from(u.username + ':' + u.password).toString('base64');
http.request({host: u.hostname, port: u.port, method: 'CONNECT', path: 'example.com:443', headers: {Host: 'example.com:443', 'Proxy-Authorization': auth}})
  .on('connect', (res, socket) => {
    const c = tls.connect({socket, servername: 'example.com'}, () => c.write('GET ' + process.argv[1] + ' HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n'));
    c.on('data', d => process.stdout.write(d)).on('error', e => console.log('failed', e.message));
  }).on('error', e => console.log('failed', e.message)).end();
`
	if out, err := program(t, b, t.TempDir(), nil, node, "-e", script, "/ok"); err != nil || !strings.Contains(out, "hello from example.com") {
		t.Errorf("%v %s", err, out)
	}
	if out, _ := program(t, b, t.TempDir(), nil, node, "-e", script, "/no"); !strings.Contains(out, "403 Forbidden") {
		t.Errorf("%s", out)
	}
}

func TestGit(t *testing.T) {
	git := need(t, "git")
	exe, err := exec.Command(git, "--exec-path").Output()
	backend := filepath.Join(strings.TrimSpace(string(exe)), "git-http-backend")
	if _, serr := os.Stat(backend); err != nil || serr != nil {
		t.Skip("git-http-backend is not installed")
	}
	root := t.TempDir()
	work := filepath.Join(root, "work")
	for _, argv := range [][]string{
		{"init", "-q", work}, {"-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "first"},
		{"clone", "-q", "--bare", work, filepath.Join(root, "repo.git")},
	} {
		cmd := exec.Command(git, argv...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root, "PATH=" + os.Getenv("PATH")}}
	plain, secure := newCanaryOf(t, false, handler), newCanaryOf(t, true, handler)
	w := &world{servers: map[uint16]string{80: plain.at(), 443: secure.at()}}
	path, fill := trust(t)
	for name, section := range map[string]string{
		"tunnel":    `{allow: ["GET,POST http://example.com/repo.git/**", example.com]}`,
		"inspected": `{inspect: true, allow: ["GET,POST http://example.com/repo.git/**", "GET,POST https://example.com/repo.git/**"]}`,
	} {
		b := serve(t, w, egress.Options{Permit: allowing(t, section), RootCAs: pool(t, secure), TrustFile: path})
		fill(pemOf(secure.Certificate()), b.CA())
		dir := t.TempDir()
		for i, u := range []string{"http://example.com/repo.git", "https://example.com/repo.git"} {
			if out, err := program(t, b, dir, []string{"GIT_SSL_CAINFO=" + path}, git, "clone", "-q", u, filepath.Join(dir, string(rune('a'+i)))); err != nil {
				t.Errorf("%s: clone of %s: %v %s", name, u, err, out)
			}
		}
		if out, err := program(t, b, dir, nil, git, "clone", "-q", "http://example.com/other.git", filepath.Join(dir, "x")); err == nil || !strings.Contains(out, "403") {
			t.Errorf("%s: %v %s", name, err, out)
		}
	}
}

// newCanaryOf serves a handler as it is.
func newCanaryOf(t *testing.T, secure bool, h http.Handler) *canary {
	t.Helper()
	c := newCanary(t, secure, nil)
	c.Config.Handler = h
	return c
}
