package app_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/logins"
)

// haproxyConfig has a way to a service for each protocol in which HAProxy names its clients. It gets
// its sockets from the test.
const haproxyConfig = `
global
  maxconn 200
defaults
  mode tcp
  timeout connect 60s
  timeout client 60s
  timeout server 60s
frontend one
  bind fd@3
  default_backend one
backend one
  option httpchk GET /readyz
  server node %[1]s send-proxy check inter 20ms fall 1 rise 1
frontend two
  bind fd@4
  default_backend two
backend two
  option httpchk GET /readyz
  server node %[1]s send-proxy-v2 check inter 20ms fall 1 rise 1
frontend header
  mode http
  bind fd@5
  option forwardfor
  default_backend header
backend header
  mode http
  option httpchk GET /healthz
  server node %[2]s check inter 20ms fall 1 rise 1
frontend stats
  mode http
  bind fd@6
  stats enable
  stats uri /
`

// haproxy starts HAProxy before two services, and returns its addresses.
func haproxy(t *testing.T, announced, plain string) (ways map[string]string, stats string) {
	t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(haproxyConfig, announced, plain)), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "-db", "-f", file)
	ways = map[string]string{}
	for _, way := range []string{"one", "two", "header", "stats"} {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is given to HAProxy
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = l.Close(), f.Close() }() // HAProxy has them
		ways[way] = l.Addr().String()
		c.ExtraFiles = append(c.ExtraFiles, f)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	})
	stats = ways["stats"]
	delete(ways, "stats")
	return ways, stats
}

// checks returns how HAProxy's last health check of each backend ended.
func checks(t *testing.T, stats string) map[string]string {
	t.Helper()
	res, err := http.Get("http://" + stats + "/;csv") //nolint:noctx // the program is of this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	rows, err := csv.NewReader(res.Body).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, row := range rows[1:] {
		for i, name := range rows[0] {
			if name == "check_status" && row[1] == "node" {
				out[row[0]] = row[i]
			}
		}
	}
	return out
}

// TestBehindHAProxy: HAProxy names its clients by each of its protocols. Each client has limits of
// its own, whatever it says of itself, and HAProxy's health checks name no host.
func TestBehindHAProxy(t *testing.T) {
	behind := func(header bool) string {
		s := newService(t, func(q *app.ServeRequest) {
			q.Limits.Proxies, q.Limits.ProxyHeader, q.Hosts = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, header, []string{"127.0.0.1"}
		})
		return strings.TrimPrefix(s.url, "http://")
	}
	ways, stats := haproxy(t, behind(true), behind(false))
	network := 1
	for way, at := range ways {
		network++
		begin := func(client string) int {
			dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprintf("127.0.%d.%s", network, client))}, Timeout: time.Minute}
			h := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+logins.AuthorizePath, strings.NewReader("client_id=x"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Forwarded-For", "192.0.2.77")
			r.Header.Set("Forwarded", "for=192.0.2.78")
			res, err := h.Do(r)
			if err != nil {
				t.Fatal(way, err)
			}
			defer func() { _ = res.Body.Close() }()
			_, _ = io.Copy(io.Discard, res.Body) // its status counts
			return res.StatusCode
		}
		for range 5 {
			if status := begin("2"); status != http.StatusOK {
				t.Fatalf("%s: a login is answered with %d", way, status)
			}
		}
		if status := begin("2"); status != http.StatusTooManyRequests {
			t.Errorf("%s: one login too many of a client is answered with %d", way, status)
		}
		if status := begin("3"); status != http.StatusOK {
			t.Errorf("%s: the login of another client is answered with %d", way, status)
		}
	}
	for {
		got, waits := checks(t, stats), false
		for way, status := range got {
			if waits = waits || status == "" || strings.HasPrefix(status, "*") || status == "INI"; !waits && status != "L7OK" {
				t.Errorf("%s: the health check ends with %s", way, status)
			}
		}
		if !waits && len(got) == 3 {
			return
		}
	}
}
