package policy_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// A refused connection names the real reason, and the hint is an edit that works.
func TestARefusedConnectionNamesItsReason(t *testing.T) {
	tests := map[string]struct {
		policies []string
		to       string // a URL, or tcp://host:port
		addr     string
		reason   string
		hint     string // "": none
	}{
		"no section": {[]string{"commands: {allow: [\"curl **\"]}"}, "https://example.com", "", "the policy has no section network, so nothing matches https://example.com",
			`network: {allow: ["https://example.com"]} would allow it`},
		"an empty section": {[]string{"network: {deny: [a.test]}"}, "https://example.com", "", "network.allow is empty, so nothing matches https://example.com",
			`network.allow: ["https://example.com"] would allow it`},
		"another host": {[]string{`network: {allow: [api.example.com]}`}, "https://example.com", "", "no entry of network.allow matches https://example.com",
			`network.allow: ["https://example.com"] would allow it`},
		"another port": {[]string{`network: {allow: [example.com]}`}, "https://example.com:8443", "",
			`matches https://example.com:8443: network.allow[0] "example.com" is for https on port 443`, `network.allow: ["https://example.com:8443"] would allow it`},
		"another scheme": {[]string{`network: {allow: [example.com]}`}, "http://example.com", "",
			`matches http://example.com: network.allow[0] "example.com" is for https on port 443`, `network.allow: ["http://example.com"] would allow it`},
		"a tunnel": {[]string{`network: {allow: [example.com]}`}, "tcp://example.com:22", "", `"example.com" is for https on port 443`,
			`network.allow: ["https://example.com:22"] would allow TLS to it, network.allow: ["tcp://example.com:22"] anything`},
		"a tunnel to the port of TLS": {[]string{`network: {allow: [a.test]}`}, "tcp://b.test:443", "", `no entry of network.allow matches tcp://b.test:443`,
			`network.allow: ["https://b.test"] would allow TLS to it`},
		"a private address": {[]string{`network: {allow: ["http://*"]}`}, "http://10.1.2.3", "",
			"10.1.2.3 is not a public address, so an entry must name it", `network.allow: ["http://10.1.2.3"] would allow it`},
		"a name of a private address": {[]string{`network: {allow: ["http://intern.test:8080"]}`}, "http://intern.test:8080", "10.1.2.3",
			"the host has the address 10.1.2.3, which is not public, and no entry names that address",
			`only an entry that names the address allows it: {url: "http://intern.test:8080", addresses: ["10.1.2.3"]}`},
		"denied":                  {[]string{`network: {allow: ["*"], deny: [example.com]}`}, "https://example.com", "", `denied by network.deny[0] "example.com"`, ""},
		"denied, and not allowed": {[]string{`network: {allow: [a.test], deny: [example.com]}`}, "https://example.com", "", `denied by network.deny[0] "example.com"`, ""},
		"a grant's descent": {[]string{`network: {allow: [a.test]}`, `network: {allow: [a.test]}`}, "https://example.com", "", "no entry of network.allow matches",
			`network.allow: ["https://example.com"] would allow it, in each policy of the grant`},
		"a path that reads as a pattern": {[]string{`network: {allow: [a.test]}`}, "GET https://example.com/**", "", "no entry of network.allow matches", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := chain(t, tt.policies...)
			a := tool.Action{Kind: tool.Network, Target: to(t, tt.to)}
			if tt.addr != "" {
				a.Addrs = []netip.Addr{netip.MustParseAddr(tt.addr)}
			}
			if d := c.DecideAction(a); !strings.Contains(d.Reason, tt.reason) {
				t.Errorf("the reason is %q, want %q", d.Reason, tt.reason)
			}
			if got := c.NetworkHint(a); got != tt.hint {
				t.Errorf("the hint is %q, want %q", got, tt.hint)
			}
		})
	}
	allowed := chain(t, `network: {allow: [example.com]}`)
	if got := allowed.NetworkHint(tool.Action{Kind: tool.Network, Target: to(t, "https://example.com")}); got != "" {
		t.Errorf("an allowed connection has the hint %q", got)
	}
}

func to(t *testing.T, text string) tool.Target {
	t.Helper()
	if hostPort, ok := strings.CutPrefix(text, "tcp://"); ok {
		tg, err := target.ParseTCP(hostPort)
		if err != nil {
			t.Fatal(err)
		}
		return tg
	}
	method, url, ok := strings.Cut(text, " ")
	if !ok {
		method, url = "", text
	}
	tg, err := target.Parse(cmp.Or(method, "GET"), url)
	if err != nil {
		t.Fatal(err)
	}
	if method == "" {
		tg.Method, tg.Path = "", ""
	}
	return tg
}

// An entry can name addresses that its own host may have; no other entry gets them.
func TestAnEntryNamesAddressesThatAreNotPublic(t *testing.T) {
	named := `network: {allow: [{url: "https://intern.test", addresses: ["10.1.2.3"]}, other.test], deny: ["https://denied.test"]}`
	tests := map[string]struct {
		policies []string
		to, addr string
		want     policy.Effect
	}{
		"the named address":             {[]string{named}, "https://intern.test", "10.1.2.3", policy.Allow},
		"the same address in IPv6 form": {[]string{named}, "https://intern.test", "::ffff:10.1.2.3", policy.Allow},
		"a public address":              {[]string{named}, "https://intern.test", "93.184.216.34", policy.Allow},
		"another private address":       {[]string{named}, "https://intern.test", "10.1.2.4", policy.Deny},
		"the metadata service":          {[]string{named}, "https://intern.test", "169.254.169.254", policy.Deny},
		"another host":                  {[]string{named}, "https://other.test", "10.1.2.3", policy.Deny},
		"another port":                  {[]string{named}, "https://intern.test:8443", "10.1.2.3", policy.Deny},
		"a link that does not name it":  {[]string{named, "network: {allow: [intern.test]}"}, "https://intern.test", "10.1.2.3", policy.Deny},
		"a link that inherits":          {[]string{named, "rest: inherit"}, "https://intern.test", "10.1.2.3", policy.Allow},
		"a denied range":                {[]string{strings.Replace(named, `"https://denied.test"`, `"10.0.0.0/8"`, 1)}, "https://intern.test", "10.1.2.3", policy.Deny},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := tool.Action{Kind: tool.Network, Target: to(t, tt.to), Addrs: []netip.Addr{netip.MustParseAddr(tt.addr)}}
			if d := chain(t, tt.policies...).DecideAction(a); d.Effect != tt.want {
				t.Errorf("got %v (%s), want %v", d.Effect, d.Reason, tt.want)
			}
		})
	}
	for _, bad := range []string{"10.0.0.0/8", "fe80::1%lo", "intern.test", "::ffff:10.1.2.3", ""} {
		src := fmt.Sprintf("version: 1\nnetwork: {allow: [{url: a.test, addresses: [%q]}]}", bad)
		if _, err := policy.Parse("p.yaml", []byte(src)); err == nil {
			t.Errorf("the address %q was accepted", bad)
		}
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\n"+named))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := policy.Parse("p.yaml", p.Print()); err != nil || string(again.Print()) != string(p.Print()) || !strings.Contains(string(p.Print()), "10.1.2.3") {
		t.Errorf("printed as\n%s%v", p.Print(), err)
	}
}
