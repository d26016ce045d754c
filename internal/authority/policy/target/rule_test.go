package target_test

import (
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestRuleMatches(t *testing.T) {
	type c struct {
		deny      bool
		rule      string
		yes, no   string // targets, separated by spaces; METHOD@url for another method
		canonical string // what it prints as, if not as written
	}
	tests := map[string]c{
		"bare host is https on 443": {rule: "api.github.com", yes: "https://api.github.com https://api.github.com./a POST@https://API.GITHUB.com/x?y",
			no: "http://api.github.com https://api.github.com:8443 https://x.api.github.com https://api.github.com.evil.test https://evil-api.github.com https://github.com tcp://api.github.com:443"},
		"below a name, one or more labels": {rule: "*.example.com", yes: "https://a.example.com https://a.b.example.com", no: "https://example.com https://aexample.com https://evil-example.com https://a.example.com.evil.test https://a.example.com:444"},
		"any public host":                  {rule: "*", yes: "https://a https://a.b https://8.8.8.8 https://[2606:4700::1]", no: "https://127.0.0.1 https://localhost https://a.localhost https://10.0.0.1 https://[::1] https://[64:ff9b::7f00:1] http://a"},
		"any host, other port":             {rule: "http://*:8080", yes: "http://a:8080", no: "http://a http://127.0.0.1:8080"},
		"method and path":                  {rule: "GET https://*.example.com/v1/**", canonical: "GET *.example.com/v1/**", yes: "https://a.example.com/v1 https://a.example.com/v1/ https://a.example.com/v1/x/y?z https://a.example.com/v2/../v1/x https://a.example.com/%76%31/x", no: "POST@https://a.example.com/v1/x HEAD@https://a.example.com/v1/x https://a.example.com/v1x https://a.example.com/v1/../v2 https://a.example.com/v1/%2e%2e/v2 https://a.example.com/ https://a.example.com//v1/x https://a.example.com/V1/x"},
		"several methods":                  {rule: "POST,get h", canonical: "GET,POST h", yes: "https://h POST@https://h", no: "PUT@https://h"},
		"exact path":                       {rule: "h/a/b", yes: "https://h/a/b", no: "https://h/a/b/ https://h/a https://h/a/b/c https://h/a//b https://h/a/b;x"},
		"root only":                        {rule: "h/", yes: "https://h https://h/?x", no: "https://h/a https://h//"},
		"star in a segment":                {rule: "h/*/v*.json", yes: "https://h/a/v.json https://h/a/v12.json", no: "https://h//v1.json https://h/a/b/v1.json https://h/a/v1.jsonx"},
		"stars in the middle":              {rule: "h/a/**/z/**/end", yes: "https://h/a/z/end https://h/a/b/z/c/d/end https://h/a/z/z/end/end", no: "https://h/a/end https://h/a/z/c https://h/z/end"},
		"scheme brings its port":           {rule: "http://h", yes: "http://h", no: "https://h http://h:443"},
		"default port is not printed":      {rule: "https://h:443", canonical: "h", yes: "https://h", no: "https://h:444"},
		"literal address":                  {rule: "http://127.0.0.1:8080", yes: "http://127.0.0.1:8080/x", no: "http://127.0.0.2:8080 http://localhost:8080 http://127.0.0.1"},
		"literal IPv6":                     {rule: "http://[0::1]:8080", canonical: "http://[::1]:8080", yes: "http://[::1]:8080", no: "http://[::2]:8080 http://127.0.0.1:8080"},
		"localhost is a name":              {rule: "http://localhost:1", yes: "http://localhost:1 http://LOCALHOST.:1", no: "http://127.0.0.1:1 http://a.localhost:1"},
		"tcp":                              {rule: "tcp://git.example.com:22", yes: "tcp://git.example.com:22", no: "tcp://git.example.com:23 https://git.example.com:22"},
		"escaped pattern":                  {rule: "h/a%20b/é", canonical: "h/a%20b/%C3%A9", yes: "https://h/a%20b/%c3%a9", no: "https://h/a+b/%c3%a9"},
		"international name":               {rule: "bücher.de", canonical: "xn--bcher-kva.de", yes: "https://bücher.de https://xn--bcher-kva.de", no: "https://bucher.de"},

		"deny bare host means all of it": {deny: true, rule: "evil.test", yes: "https://evil.test http://evil.test:81/x tcp://evil.test:22 POST@https://evil.test", no: "https://a.evil.test https://evil.test.a"},
		"deny everything":                {deny: true, rule: "*", yes: "https://a http://127.0.0.1:1 tcp://a:1 http://localhost"},
		"deny a port":                    {deny: true, rule: "*:25", yes: "tcp://a:25 http://b:25", no: "http://b:26"},
		"deny a default port":            {deny: true, rule: "https://h:443", yes: "https://h tcp://h:443", no: "https://h:444"},
		"deny a method":                  {deny: true, rule: "DELETE *", yes: "DELETE@https://h tcp://h:443", no: "https://h"},
		"deny a path, however it is spelled": {deny: true, rule: "h/admin/**", yes: "https://h/admin https://h/admin/ https://h/admin/x https://h//admin/x https://h/ADMIN/x https://h/%61dmin https://h/admin;a=b/x https://h/x/../admin tcp://h:443 http://h:81/admin",
			no: "https://h/ https://h/adminx https://h/x/admin"},
		"deny one path":        {deny: true, rule: "h/a", yes: "https://h/a https://h/a/ https://h//a", no: "https://h/a/b https://h/"},
		"deny an address":      {deny: true, rule: "10.0.0.1", yes: "http://10.0.0.1:99", no: "http://10.0.0.2"},
		"deny a range":         {deny: true, rule: "10.0.0.0/8", yes: "http://10.9.9.9 tcp://10.1.1.1:22", no: "http://11.0.0.1 http://h"},
		"deny an IPv6 range":   {deny: true, rule: "fc00::/7", yes: "http://[fd00::1]", no: "http://[2606::1]"},
		"deny localhost":       {deny: true, rule: "localhost", yes: "http://localhost http://a.localhost http://127.9.9.9 http://[::1]", no: "http://10.0.0.1"},
		"deny only one scheme": {deny: true, rule: "http://*", yes: "http://a:9 tcp://a:80", no: "https://a"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := target.ParseRule(tc.rule, tc.deny)
			if err != nil {
				t.Fatal(err)
			}
			if tc.canonical == "" {
				tc.canonical = tc.rule
			}
			if r.String() != tc.canonical {
				t.Errorf("%q prints as %q, want %q", tc.rule, r, tc.canonical)
			}
			for _, s := range strings.Fields(tc.yes) {
				if !r.Match(mustTarget(t, s)) {
					t.Errorf("%q does not match %s", tc.rule, s)
				}
			}
			for _, s := range strings.Fields(tc.no) {
				if r.Match(mustTarget(t, s)) {
					t.Errorf("%q matches %s", tc.rule, s)
				}
			}
		})
	}
}

func mustTarget(t *testing.T, s string) tool.Target {
	t.Helper()
	method := ""
	if m, u, ok := strings.Cut(s, "@"); ok {
		method, s = m, u
	}
	got, err := target.Parse(method, s)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestRefusedRules(t *testing.T) {
	allow := strings.Split("|  h|GET  h|GE/T h|CONNECT h|,GET h|ftp://h|file:///x|://h|h?q|h#f|u@h|a.*.b|*a.b|a*|*.*|*.|**|127.1|0x7f.1|*.127.0.0.1|h:0|h:99999|h:*|[::1|tcp://h|tcp://h:1/x|GET tcp://h:1|"+
		"h/a**|h/**a/b|h/%2a|h/%2f|h/../x|h/./x|h/%2e%2e/x|h/**/../x|10.0.0.0/8|fc00::/7|*.localhost|h /x|h\t|h/\\x|h/%252e", "|")
	for _, s := range allow {
		if r, err := target.ParseRule(s, false); err == nil {
			t.Errorf("allow %q was read as %q", s, r)
		} else if fault.CodeOf(err) != fault.PolicyInvalid {
			t.Errorf("code of %v is not PolicyInvalid", err)
		}
	}
	for _, s := range []string{"10.0.0.1/8", "::ffff:0:0/96", "GET 10.0.0.0/33 x", "", "h?x", "tcp://h/x"} {
		if r, err := target.ParseRule(s, true); err == nil {
			t.Errorf("deny %q was read as %q", s, r)
		}
	}
}

func TestAllowedAddresses(t *testing.T) {
	tests := map[string]struct{ rule, yes, no string }{
		"a name covers public addresses only": {"example.com", "8.8.8.8 2606:4700::1 ::ffff:8.8.8.8", "127.0.0.1 10.0.0.1 169.254.169.254 ::1 fd00:ec2::254 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1:: 0.0.0.0"},
		"so does any host":                    {"*", "8.8.8.8", "127.0.0.1 10.0.0.1"},
		"and names below a name":              {"*.example.com", "8.8.8.8", "127.0.0.1"},
		"localhost covers loopback":           {"http://localhost", "127.0.0.1 127.0.0.9 ::1 8.8.8.8", "10.0.0.1 0.0.0.0 :: fe80::1"},
		"a literal covers itself":             {"http://10.0.0.1", "10.0.0.1 ::ffff:10.0.0.1", "10.0.0.2 8.8.8.8 127.0.0.1 64:ff9b::a00:1"},
		"a literal IPv6 covers itself":        {"http://[::1]", "::1", "127.0.0.1 ::2 ::1%lo"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := target.ParseRule(tc.rule, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range strings.Fields(tc.yes) {
				if !r.AllowsAddr(netip.MustParseAddr(s)) {
					t.Errorf("%q does not cover %s", tc.rule, s)
				}
			}
			for _, s := range strings.Fields(tc.no) {
				if r.AllowsAddr(netip.MustParseAddr(s)) {
					t.Errorf("%q covers %s", tc.rule, s)
				}
			}
			if r.AllowsAddr(netip.Addr{}) {
				t.Errorf("%q covers no address at all", tc.rule)
			}
		})
	}
}

func TestDeniedAddresses(t *testing.T) {
	tgt := mustTarget(t, "https://name.example")
	for rule, list := range map[string][2]string{
		"1.2.3.4":           {"1.2.3.4 ::ffff:1.2.3.4 64:ff9b::102:304 2002:102:304::", "1.2.3.5"},
		"1.0.0.0/8":         {"1.2.3.4 64:ff9b::102:304", "2.2.3.4"},
		"2606::/16":         {"2606::1", "2607::1"},
		"fe80::/10":         {"fe80::1 fe80::1%lo", "fec0::1"},
		"localhost":         {"127.0.0.1 ::1", "8.8.8.8"},
		"http://1.2.3.4":    {"", "1.2.3.4"},
		"https://1.2.3.4:1": {"", "1.2.3.4"},
		"name.example":      {"", "1.2.3.4"},
	} {
		r, err := target.ParseRule(rule, true)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false} {
			for _, s := range strings.Fields(list[i]) {
				if got := r.DeniesAddr(tgt, netip.MustParseAddr(s)); got != want {
					t.Errorf("%q on %s: %v, want %v", rule, s, got, want)
				}
			}
		}
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	tgt := mustTarget(t, "https://a.b.example.com/v1/x/y/z.json")
	lit := mustTarget(t, "https://8.8.8.8/")
	for _, s := range []string{"GET *.example.com/v1/**/*.json", "*", "a.b.example.com", "1.2.3.4"} {
		for _, deny := range []bool{false, true} {
			r, err := target.ParseRule(s, deny)
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(50, func() { r.Match(tgt); r.Match(lit) }); n != 0 {
				t.Errorf("%q allocates %v times", s, n)
			}
		}
	}
}

func TestZeroRuleMatchesNothing(t *testing.T) {
	var r target.Rule
	if tgt := mustTarget(t, "https://h"); r.Match(tgt) || r.AllowsAddr(netip.MustParseAddr("8.8.8.8")) || r.DeniesAddr(tgt, netip.MustParseAddr("8.8.8.8")) {
		t.Error("the zero rule matches")
	}
}

// The same words deny at least what they allow, and a path pattern agrees with
// a plain recursive matcher.
func TestDenyIsBroaderThanAllow(t *testing.T) {
	seg := rapid.SampledFrom([]string{"a", "b", "ab", "*", "a*", "**", ""})
	plain := rapid.SampledFrom([]string{"a", "b", "ab", "abc", "", "a;b"})
	rapid.Check(t, func(t *rapid.T) {
		pattern := "h/" + strings.Join(rapid.SliceOfN(seg, 0, 5).Draw(t, "pattern"), "/")
		path := "/" + strings.Join(rapid.SliceOfN(plain, 0, 6).Draw(t, "path"), "/")
		tgt, err := target.Parse("", "https://h"+path)
		if err != nil {
			t.Fatal(err)
		}
		allow, err := target.ParseRule(pattern, false)
		if err != nil {
			t.Fatal(err)
		}
		deny, err := target.ParseRule(pattern, true)
		if err != nil {
			t.Fatal(err)
		}
		got := allow.Match(tgt)
		if want := naive(strings.Split(pattern, "/")[1:], strings.Split(path, "/")[1:]); got != want {
			t.Fatalf("%q on %q: %v, want %v", pattern, path, got, want)
		}
		if got && !deny.Match(tgt) {
			t.Fatalf("%q allows %q but does not deny it", pattern, path)
		}
	})
}

func naive(p, s []string) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == "**":
		return naive(p[1:], s) || len(s) > 0 && naive(p, s[1:])
	case len(s) == 0:
		return false
	case p[0] == "*":
		return s[0] != "" && naive(p[1:], s[1:])
	case strings.HasSuffix(p[0], "*"):
		return strings.HasPrefix(s[0], strings.TrimSuffix(p[0], "*")) && naive(p[1:], s[1:])
	}
	return p[0] == s[0] && naive(p[1:], s[1:])
}

// A rule prints to itself, and a rule without wildcards matches the target that
// it spells.
func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"api.github.com", "GET,POST https://*.example.com:8443/v1/**", "10.0.0.0/8", "tcp://h:22", "*", "http://[::1]:80/%20*", "h/%25", "https://A/://", "unix:/run/docker.sock"} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, s string, deny bool) {
		r, err := target.ParseRule(s, deny)
		if err != nil {
			return
		}
		again, err := target.ParseRule(r.String(), deny)
		if err != nil || again.String() != r.String() {
			t.Fatalf("%q prints as %q, which is read as %v, %v", s, r, again, err)
		}
		text := r.String()
		if strings.ContainsAny(text, " *") || strings.HasPrefix(text, "tcp:") || strings.HasPrefix(text, "unix:/") {
			return
		}
		if scheme, _, ok := strings.Cut(text, "://"); !ok || strings.Contains(scheme, "/") {
			text = "https://" + text
		}
		tgt, err := target.Parse("", text)
		if err == nil && (!r.Match(tgt) || !again.Match(tgt)) && !isRange(s) {
			t.Fatalf("%q does not match its own %q", r, tgt)
		}
	})
}

// Words that allow a target also deny it, and a target that is a special
// address is allowed by a rule that spells it only.
func FuzzRuleOnTarget(f *testing.F) {
	f.Add("*", "https://127.0.0.1/")
	f.Add("GET *.example.com/v1/**", "https://a.example.com/v1/x;y//z")
	f.Add("http://[::1]:80", "http://[::1]/")
	f.Add("http://10.0.0.1/a*c", "http://10.0.0.1/abc")
	f.Fuzz(func(t *testing.T, rule, raw string) {
		tgt, err := target.Parse("", raw)
		if err != nil {
			return
		}
		allow, err := target.ParseRule(rule, false)
		if err != nil || !allow.Match(tgt) {
			return
		}
		if deny, err := target.ParseRule(rule, true); err != nil || !deny.Match(tgt) {
			t.Fatalf("%q allows %q but as a denial it does not match (%v)", rule, tgt, err)
		}
		if a, err := netip.ParseAddr(tgt.Host); err == nil && !target.Public(a) && (!allow.AllowsAddr(a) || !strings.Contains(allow.String(), tgt.Host)) {
			t.Fatalf("%q matches %q without naming it", rule, tgt)
		}
	})
}

func isRange(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

func TestSocketRules(t *testing.T) {
	socket := func(at string) tool.Target {
		t.Helper()
		to, err := target.Socket("unix:" + at)
		if err != nil || to.String() != "unix:"+at {
			t.Fatalf("%s, %v", to, err)
		}
		return to
	}
	web, err := target.Parse("", "https://run/docker.sock")
	if err != nil {
		t.Fatal(err)
	}
	docker, other := socket("/run/docker.sock"), socket("/run/Docker.sock")
	for _, deny := range []bool{false, true} {
		r, err := target.ParseRule("unix:/run/docker.sock", deny)
		if err != nil || r.String() != "unix:/run/docker.sock" {
			t.Fatalf("%s, %v", r, err)
		}
		if !r.Match(docker) || r.Match(web) || r.Match(socket("/run/docker.sock2")) || r.Match(other) != deny {
			t.Errorf("deny %v: what it matches", deny)
		}
		if at, ok := r.Socket(); !ok || at != "/run/docker.sock" || r.AllowsAddr(netip.MustParseAddr("127.0.0.1")) {
			t.Errorf("%s, %v", at, ok)
		}
	}
	for _, allow := range []string{"*", "http://*", "tcp://*:22", "run/docker.sock", "run", "localhost", "http://localhost/**"} {
		r, err := target.ParseRule(allow, false)
		if err != nil || r.Match(docker) || r.Covers(docker) {
			t.Errorf("%s allows a socket: %v", allow, err)
		}
	}
	for deny, want := range map[string]bool{"*": true, "tcp://*": true, "http://*": false, "run": false, "localhost": false, "10.0.0.0/8": false} {
		if r, err := target.ParseRule(deny, true); err != nil || r.Match(docker) != want {
			t.Errorf("%s denies a socket: %v, want %v (%v)", deny, !want, want, err)
		}
	}
	for _, bad := range []string{"unix:/", "unix:/a/../b", "unix:/a/", "unix:/a//b", "unix:/*.sock", "unix:/**", "GET unix:/a", "unix:/a b", "unix:/a\x1b", "unix:a", "unix://a"} {
		if r, err := target.ParseRule(bad, false); err == nil {
			t.Errorf("%q is read as %s", bad, r)
		}
	}
	one, _ := target.ParseRule("unix:/a", false)
	same, _ := target.ParseRule("unix:/a", false)
	two, _ := target.ParseRule("unix:/b", false)
	host, _ := target.ParseRule("*", false)
	if !one.Includes(same) || one.Includes(two) || host.Includes(one) || one.Includes(host) || !one.Apart(two) || one.Apart(same) || !one.Apart(host) {
		t.Error("how rules of sockets compare")
	}
	if _, _, err := target.URL("GET", "unix:/run/docker.sock"); err == nil {
		t.Error("a socket passes for a URL")
	}
}

func TestAgentRules(t *testing.T) {
	const one, two = "SHA256:QnPSzFyBcDwYFbLUJ4hGxnTcCRi0Q7nOXsaL4ZKT3yM", "SHA256:xnPSzFyBcDwYFbLUJ4hGxnTcCRi0Q7nO/saL4ZKT+yM"
	use := func(method, key string) tool.Target {
		t.Helper()
		to, err := target.AgentKey(method, "ssh-agent:"+key)
		if again, err := target.Local(to.String()); err != nil || again != to {
			t.Errorf("%s is read as %s, %v", to, again, err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	sign, login, other := use("SIGN", one), use("LOGIN", one), use("SIGN", two)
	socket, _ := target.Socket("unix:/a")
	rule := func(s string, deny bool) *target.Rule {
		t.Helper()
		r, err := target.ParseRule(s, deny)
		if err != nil || r.String() != s {
			t.Fatalf("%q is read as %v, %v", s, r, err)
		}
		return r
	}
	for s, want := range map[string][3]bool{ // of sign, login, other
		"ssh-agent:*": {true, true, true}, "SIGN ssh-agent:*": {true, false, true}, "ssh-agent:" + one: {true, true, false}, "LOGIN ssh-agent:" + one: {false, true, false}, "LOGIN,SIGN ssh-agent:" + two: {false, false, true},
	} {
		for _, deny := range []bool{false, true} {
			r := rule(s, deny)
			if got := [3]bool{r.Match(sign), r.Match(login), r.Match(other)}; got != want || r.Match(socket) {
				t.Errorf("%s, deny %v: matches %v, want %v", s, deny, got, want)
			}
		}
	}
	for _, allow := range []string{"*", "http://*", "tcp://*:22", "unix:/a", "localhost"} {
		if r := rule(allow, false); r.Match(sign) || r.Includes(rule("ssh-agent:*", false)) || rule("ssh-agent:*", false).Includes(r) || !r.Apart(rule("ssh-agent:*", false)) {
			t.Errorf("%s speaks of a key", allow)
		}
	}
	if !rule("*", true).Match(sign) || rule("unix:/a", true).Match(sign) {
		t.Error("what denies a key")
	}
	all, ones, signs := rule("ssh-agent:*", false), rule("ssh-agent:"+one, false), rule("SIGN ssh-agent:"+one, false)
	if !all.Includes(ones) || !ones.Includes(signs) || ones.Includes(all) || signs.Includes(ones) || ones.Apart(all) || !ones.Apart(rule("ssh-agent:"+two, false)) || !signs.Apart(rule("LOGIN ssh-agent:*", false)) {
		t.Error("how rules of keys compare")
	}
	for _, bad := range []string{"ssh-agent:", "ssh-agent:" + one[:20], "ssh-agent:MD5:00", "GET ssh-agent:*", "ssh-agent:**", "ssh-agent:SHA256:*", "SIGN ssh-agent:/a", "gpg-agent:*"} {
		if r, err := target.ParseRule(bad, false); err == nil {
			t.Errorf("%q is read as %s", bad, r)
		}
	}
}

// TestAnEncodedSlashIsReadBothWays: an allow rule matches a path with encoded slashes only if it matches the path that servers see
// which decode them, and the one that others see. Ask and deny rules match if they match either.
func TestAnEncodedSlashIsReadBothWays(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		both, either  bool
	}{
		{"", "/@types%2fnode", true, true},
		{"/**", "/@types%2Fnode", true, true},
		{"/*", "/@types%2fnode", false, true},
		{"/*/*", "/@types%2fnode", false, true},
		{"/@types/**", "/@types%2fnode", false, true},
		{"/@types/node", "/@types%2fnode", false, true},
		{"/@types*/**", "/@types%2fnode", true, true},
		{"/@*", "/@types%2fnode", false, true},
		{"/@types/node/x", "/@types%2fnode", false, false},
		{"/projects/**", "/projects/a%2Fb/issues", true, true},
		{"/projects/*/issues", "/projects/a%2Fb/issues", false, true},
		{"/projects/**/issues", "/projects/a%2fb%2fc/issues", true, true},
		{"/admin/**", "/admin%2fkeys", false, true},
		{"/public/**", "/public/a%2Fb", true, true},
		{"/**/keys", "/x/admin%2fkeys", false, true},
	} {
		host := "registry.example"
		to, err := target.Parse("GET", "https://"+host+c.path)
		if err != nil {
			t.Fatal(err)
		}
		allow, ask, deny := must(t)(target.ParseRule(host+c.pattern, false)), must(t)(target.ParseRule(host+c.pattern, false)), must(t)(target.ParseRule(host+c.pattern, true))
		ask.Asks()
		if allow.Match(to) != c.both || ask.Match(to) != c.either || deny.Match(to) != c.either {
			t.Errorf("%s of %s: allow %v, ask %v, deny %v", c.pattern, c.path, allow.Match(to), ask.Match(to), deny.Match(to))
		}
		text := target.Text(to)
		if back, ok := target.ParseText(text); !ok || back != to {
			t.Errorf("%s is read back as %+v", text, back)
		}
		if sent, _, err := target.URL("GET", "https://"+host+c.path); err != nil || !strings.EqualFold(sent.EscapedPath(), c.path) {
			t.Errorf("%s is sent as %v, %v", c.path, sent, err)
		}
	}
	for _, pattern := range []string{"h.example/a%2fb", "h.example/%2F**"} {
		if _, err := target.ParseRule(pattern, false); err == nil || !strings.Contains(err.Error(), "encoded slash cannot be matched") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

func must(t *testing.T) func(*target.Rule, error) *target.Rule {
	return func(r *target.Rule, err error) *target.Rule {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}
