package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/egress"
)

var (
	someMethods = []string{"GET", "POST", "DELETE"}
	somePaths   = []string{"/", "/x", "/x/y", "/z"}
)

func entries(t *rapid.T, label string, most int) string {
	one := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "GET ", "POST,DELETE "}).Draw(t, "methods") +
			rapid.SampledFrom([]string{"", "https://", "http://"}).Draw(t, "scheme") +
			rapid.SampledFrom([]string{"example.com", "example.com", "*", "*.com", "b.test", "example.com:8080"}).Draw(t, "host") +
			rapid.SampledFrom([]string{"", "/", "/x", "/x/**", "/*"}).Draw(t, "path")
	})
	list := rapid.SliceOfN(one, 0, most).Draw(t, label)
	for i := range list {
		list[i] = fmt.Sprintf("%q", list[i])
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// TestTheProxyAndThePolicyAgree sends every request of a small world through the
// proxy, under random policies: what passes is exactly what the policies allow,
// in plain HTTP and inside inspected tunnels, and a tunnel that nobody looks into
// is open only where all that it can carry is allowed.
func TestTheProxyAndThePolicyAgree(t *testing.T) {
	plain, secure := newCanary(t, false, nil), newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{80: plain.at(), 443: secure.at()}}
	passed, stopped := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		links := make([]string, rapid.IntRange(1, 2).Draw(rt, "links"))
		for i := range links {
			links[i] = fmt.Sprintf("{allow: %s, ask: %s, deny: %s, inspect: %v}", entries(rt, "allow", 4), entries(rt, "ask", 1),
				entries(rt, "deny", 2), rapid.Bool().Draw(rt, "inspect"))
		}
		p := allowing(t, links...)
		allows := func(to tool.Target) bool {
			a := tool.Action{Kind: tool.Network, Target: to, Addrs: []netip.Addr{public}}
			ok := p.Chain().DecideAction(a).Effect == policy.Allow
			if ok {
				passed++
			} else {
				stopped++
			}
			return ok
		}
		b := serve(t, w, egress.Options{Permit: p, RootCAs: pool(t, secure)})
		defer b.Close()
		for _, m := range someMethods {
			for _, path := range somePaths {
				want := allows(tool.Target{Method: m, Scheme: "http", Host: "example.com", Port: 80, Path: path})
				reply := b.raw1(t, m+" http://example.com"+path+" HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n$AUTH\r\n")
				if got := strings.HasPrefix(reply, "HTTP/1.1 200"); got != want {
					rt.Fatalf("%s http://example.com%s: the policy says %v, the proxy %q", m, path, want, reply)
				}
			}
		}
		agreeInTunnel(t, rt, b, p.Chain(), allows)
	})
	if passed == 0 || stopped == 0 {
		t.Errorf("%d decisions to allow, %d others: the test shows little", passed, stopped)
	}
}

func agreeInTunnel(t *testing.T, rt *rapid.T, b *box, chain policy.Chain, allows func(tool.Target) bool) {
	whole := tool.Target{Scheme: "https", Host: "example.com", Port: 443}
	inspected := chain.Inspects(whole)
	for _, m := range someMethods {
		for _, path := range somePaths {
			to := whole
			to.Method, to.Path = m, path
			want := allows(to)
			if !inspected {
				want = allows(whole)
			}
			status := 0
			if c, _ := b.connect(t, "example.com:443"); c != nil {
				tc := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "example.com"}) //nolint:gosec // either certificate will do
				fmt.Fprintf(tc, "%s %s HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n", m, path)
				if resp, err := http.ReadResponse(bufio.NewReader(tc), nil); err == nil {
					status = resp.StatusCode
					resp.Body.Close()
				}
				c.Close()
			}
			if got := status == 200; got != want {
				rt.Fatalf("%s https://example.com%s (inspected: %v): the policy says %v, the proxy %d", m, path, inspected, want, status)
			}
			if status == 200 && !allows(to) {
				rt.Fatalf("%s https://example.com%s passed through a tunnel", m, path)
			}
		}
	}
}
