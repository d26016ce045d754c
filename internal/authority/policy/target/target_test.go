package target_test

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"code.dny.dev/ssrf"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestCanonicalURL(t *testing.T) {
	tests := map[string]struct{ raw, want, sent string }{
		"bare host":              {"https://example.com", "GET https://example.com/", "https://example.com/"},
		"upper case":             {"HTTPS://EXAMPLE.Com/A", "GET https://example.com/A", "https://example.com/A"},
		"default port":           {"https://example.com:443/", "GET https://example.com/", "https://example.com/"},
		"other port":             {"http://example.com:443/", "GET http://example.com:443/", "http://example.com:443/"},
		"final dot":              {"http://example.com./", "GET http://example.com/", "http://example.com/"},
		"fragment":               {"http://example.com/a#b?c", "GET http://example.com/a", "http://example.com/a"},
		"query kept":             {"http://h/a?b=/../%2f&c=\"é", "GET http://h/a", "http://h/a?b=/../%2f&c=%22%C3%A9"},
		"empty query kept":       {"http://h/a?", "GET http://h/a", "http://h/a?"},
		"query right after host": {"http://h?x", "GET http://h/", "http://h/?x"},
		"dot segments":           {"http://h/a/./b/../c", "GET http://h/a/c", "http://h/a/c"},
		"encoded dot segments":   {"http://h/a/%2e%2E/c", "GET http://h/c", "http://h/c"},
		"above the root":         {"http://h/../../c", "GET http://h/c", "http://h/c"},
		"final dot segment":      {"http://h/a/b/..", "GET http://h/a/", "http://h/a/"},
		"escapes sent as they were, compared decoded": {"http://h/%61%2Bb+c%3d", "GET http://h/a+b+c=", "http://h/%61%2Bb+c%3d"},
		"unsafe bytes escaped":                        {"http://h/é<", "GET http://h/é<", "http://h/%C3%A9%3C"},
		"international name":                          {"http://bücher.de/", "GET http://xn--bcher-kva.de/", "http://xn--bcher-kva.de/"},
		"sharp s stays":                               {"http://faß.de/", "GET http://xn--fa-hia.de/", "http://xn--fa-hia.de/"},
		"underscore":                                  {"http://_dmarc.x/", "GET http://_dmarc.x/", "http://_dmarc.x/"},
		"IPv4":                                        {"http://127.0.0.1:8080/", "GET http://127.0.0.1:8080/", "http://127.0.0.1:8080/"},
		"IPv6 has one spelling":                       {"http://[0:0::0001]:80/", "GET http://[::1]/", "http://[::1]/"},
		"empty segments stay":                         {"http://h//a//b/", "GET http://h//a//b/", "http://h//a//b/"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			u, got, err := target.URL("", tc.raw)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != tc.want || u.String() != tc.sent {
				t.Errorf("%q is %q, sent as %q; want %q, %q", tc.raw, got, u, tc.want, tc.sent)
			}
		})
	}
}

func TestRefusedURLs(t *testing.T) {
	tests := map[string]string{
		"empty": "", "no scheme": "example.com", "opaque": "http:example.com", "one slash": "http:/example.com",
		"file": "file:///etc/passwd", "gopher": "gopher://h/", "ftp": "ftp://h/", "data": "data:,x", "javascript": "javascript://h/%0a1",
		"unix socket": "unix:///var/run/docker.sock", "blob": "blob:https://h/",
		"no host": "http:///a", "only a port": "http://:80/", "empty port": "http://h:/", "port 0": "http://h:0/",
		"port too big": "http://h:65536/", "port with zeros": "http://h:080/", "port with sign": "http://h:+80/", "two ports": "http://h:80:80/",
		"userinfo": "http://allowed@127.0.0.1/", "password": "http://a:b@h/", "empty userinfo": "http://@h/", "at in port": "http://h:80@evil/",
		"tab": "http://h\t/", "newline": "http://h/\n", "space": "http://h /", "leading space": " http://h/", "no-break space": "http://h/\u00a0",
		"NUL": "http://h\x00/", "DEL": "http://h/\x7f", "backslash": `http://h\@evil/`, "backslash slashes": `http:\\h/`, "right-to-left override": "http://h/\u202e",
		"zero width": "http://h/\u200b", "not UTF-8": "http://h/\xff",
		"decimal": "http://2130706433/", "octal": "http://0177.0.0.1/", "octal whole": "http://017700000001/", "hex": "http://0x7f000001/", "hex part": "http://0x7f.1/",
		"short": "http://127.1/", "short three": "http://127.0.1/", "bare hex": "http://0x/", "IPv4 with dot": "http://127.0.0.1./", "number last": "http://a.1/", "hex last": "http://a.0xff/",
		"five parts": "http://1.2.3.4.5/", "part too big": "http://256.0.0.1/", "fullwidth digits": "http://１２７.0.0.1/", "ideographic dots": "http://127。0。0。1/",
		"circled digits": "http://①②⑦.0.0.1/", "fullwidth dot to number": "http://a．1/",
		"zone": "http://[fe80::1%25lo]/", "zone plain": "http://[fe80::1%lo]/", "mapped": "http://[::ffff:127.0.0.1]/", "mapped hex": "http://[::ffff:7f00:1]/",
		"bracket open": "http://[::1/", "bracket text": "http://[::1]a/", "brackets around name": "http://[h]/", "brackets around IPv4": "http://[127.0.0.1]/", "IPv6 bare": "http://::1/",
		"encoded host": "http://%31%32%37.0.0.1/", "encoded dot": "http://h%2eevil/", "encoded slash in host": "http://h%2fevil/",
		"soft hyphen only": "http://\u00ad/", "mapped slash": "http://h℀evil/", "two dots": "http://a..b/", "leading dot": "http://.a/", "two final dots": "http://a../",
		"leading hyphen": "http://-a/", "trailing hyphen": "http://a-/", "star": "http://*.a/", "comma": "http://a,b/", "bad punycode": "http://xn--a/", "hidden upper punycode": "http://xn--BCHER-KVA1/",
		"label too long": "http://" + strings.Repeat("a", 64) + "/", "name too long": "http://" + strings.Repeat("a.", 127) + "aa/", "URL too long": "http://h/" + strings.Repeat("a", target.MaxURL),
		"encoded slash before dots": "http://h/a%2f..", "encoded slash after dots": "http://h/..%2Fa", "encoded slash after dots with parameters": "http://h/..;x%2fa", "encoded slash at the end": "http://h/a%2f", "encoded slashes": "http://h/a%2F%2fb", "encoded slash alone": "http://h/%2f", "encoded slash and backslash": "http://h/a%2fb%5cc", "encoded slash, doubly encoded slash": "http://h/a%2fb%252fc", "encoded backslash": "http://h/a%5Cb", "encoded NUL": "http://h/%00", "encoded newline": "http://h/%0a", "bad escape": "http://h/%zz", "cut escape": "http://h/%4",
		"encoded bad UTF-8": "http://h/%ff", "doubly encoded dot": "http://h/%252e%252e/", "doubly encoded slash": "http://h/a%252fb", "trebly encoded": "http://h/%25252f",
		"dot segment with parameter": "http://h/a/..;x/b", "dots after empty": "http://h/a//../b",
	}
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := target.Parse("", raw)
			if err == nil {
				t.Fatalf("%q was read as %q", raw, got)
			}
			if fault.CodeOf(err) != fault.ArgsInvalid {
				t.Errorf("code of %v is %v, want ArgsInvalid", err, fault.CodeOf(err))
			}
		})
	}
}

func TestMethods(t *testing.T) {
	for in, want := range map[string]string{"": "GET", "get": "GET", "Post": "POST", "PROPFIND": "PROPFIND", "VERSION-CONTROL": "VERSION-CONTROL"} {
		if got, err := target.Parse(in, "http://h"); err != nil || got.Method != want {
			t.Errorf("method %q is %q, %v; want %q", in, got.Method, err, want)
		}
	}
	for _, in := range []string{"GET ", "G\r\nX", "-", "GÉT", "CONNECT", "trace", strings.Repeat("A", 40)} {
		if got, err := target.Parse(in, "http://h"); err == nil {
			t.Errorf("method %q was read as %q", in, got.Method)
		}
	}
}

func TestTCP(t *testing.T) {
	for in, want := range map[string]string{"git.example.com:22": "tcp://git.example.com:22", "[::1]:5432": "tcp://[::1]:5432"} {
		if got, err := target.ParseTCP(in); err != nil || got.String() != want {
			t.Errorf("%q is %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{"git.example.com", "h:22/x", "h:22?", "u@h:22", "0x7f.1:22", ""} {
		if got, err := target.ParseTCP(in); err == nil {
			t.Errorf("%q was read as %q", in, got)
		}
	}
	if u, _, err := target.URL("", "tcp://h:1"); err == nil {
		t.Errorf("URL gave %v for tcp", u)
	}
}

func TestRefusalHidesPassword(t *testing.T) {
	_, err := target.Parse("", "https://me:hunter2@host/x")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}

// sameAsSent is the property that everything rests on: what was decided is what
// is sent, in the eyes of net/url as well.
func sameAsSent(t *testing.T, raw string, u *url.URL, want tool.Target) {
	t.Helper()
	again, err := target.Parse(want.Method, u.String())
	if err != nil || again != want {
		t.Fatalf("%q: decided %q, but %q is read as %q, %v", raw, want, u, again, err)
	}
	std, err := url.Parse(u.String())
	if err != nil || std.Hostname() != want.Host || std.Path != want.Path || std.Scheme != want.Scheme || std.User != nil ||
		std.String() != u.String() || std.RequestURI() != u.RequestURI() {
		t.Fatalf("%q: decided %q, but net/url reads %q as %#v, %v", raw, want, u, std, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"https://a.example/b/../c?d#e", "http://[::1]:8080/%41", "http://bücher.de//x/;y", "http://127.0.0.1/?", "HTTP://EXAMPLE.com.:80/é%20"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, got, err := target.URL("", raw)
		if err == nil {
			sameAsSent(t, raw, u, got)
		}
	})
}

func TestWHATWGCases(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: the WHATWG cases are not there")
	}
	src, err := os.ReadFile(filepath.Join(dir, "ssrf", "whatwg_url.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Input, Hostname, Protocol, Port string
			Base                            *string
			Failure                         *bool
		}
	}
	if err := json.Unmarshal(src, &file); err != nil {
		t.Fatal(err)
	}
	accepted := 0
	for _, c := range file.Cases {
		u, got, err := target.URL("", c.Input)
		if err != nil {
			continue
		}
		accepted++
		sameAsSent(t, c.Input, u, got)
		host := strings.TrimSuffix(strings.Trim(c.Hostname, "[]"), ".")
		if c.Failure != nil && *c.Failure || got.Host != host || got.Scheme+":" != c.Protocol {
			t.Errorf("%q is read as %q; WHATWG reads %s//%s, failure %v", c.Input, got, c.Protocol, c.Hostname, c.Failure)
		}
	}
	if len(file.Cases) < 800 || accepted < 50 {
		t.Errorf("%d of %d cases accepted: the test has lost its point", accepted, len(file.Cases))
	}
	t.Logf("%d of %d accepted, the others refused", accepted, len(file.Cases))
}

func TestPublic(t *testing.T) {
	private := strings.Fields(`0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.255.254
		168.63.129.16 169.254.169.254 169.254.0.1 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.1 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1
		192.168.0.1 192.168.255.255 192.175.48.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.250 240.0.0.1 255.255.255.255
		:: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::ffff:169.254.169.254 ::127.0.0.1 ::8.8.8.8 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.0.0.1
		64:ff9b:1::1 64:ff9b:1:7f00:0:100:: 100::1 2001::1 2001:0:7f00:1:: 2001:0:808:808::80ff:fffe 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1:: 2002:a00:1::1
		2002:a9fe:a9fe:: 2620:4f:8000::1 3fff::1 5f00::1 fc00::1 fd00:ec2::254 fd20:ce::254 fdff::1 fe80::1 fec0::1 ff02::1 ff0e::1 4000::1
		2606:4700::5efe:127.0.0.1 2606:4700::200:5efe:10.0.0.1 2002:808:808::5efe:10.0.0.1 ::ffff:0:127.0.0.1`)
	public := strings.Fields(`1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 169.253.255.255 172.15.255.255 172.32.0.0
		191.255.255.255 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255 93.184.216.34 168.63.129.17
		2606:4700:4700::1111 2001:4860:4860::8888 2a00:1450::1 ::ffff:8.8.8.8 64:ff9b::808:808 2002:808:808::1 2001:0:808:808::f7f7:f7f7 2606:4700::5efe:8.8.8.8`)
	check := func(list []string, want bool) {
		for _, s := range list {
			if got := target.Public(netip.MustParseAddr(s)); got != want {
				t.Errorf("Public(%s) is %v, want %v", s, got, want)
			}
		}
	}
	check(private, false)
	check(public, true)
	if len(private)+len(public) < 67 {
		t.Errorf("only %d addresses", len(private)+len(public))
	}
	if target.Public(netip.Addr{}) || target.Public(netip.MustParseAddr("2606:4700::1%eth0")) {
		t.Error("an invalid address or one with a zone is public")
	}
}

// Whatever an independent table prohibits is not public, apart from addresses
// whose embedded IPv4 address decides.
func FuzzPublicAgreesWithSSRF(f *testing.F) {
	guard := ssrf.New(ssrf.WithAnyPort())
	for _, s := range []string{"10.0.0.1", "8.8.8.8", "2606::1", "2002:7f00:1::", "fe80::1", "3fff::1", "64:ff9b::808:808"} {
		b := netip.MustParseAddr(s).AsSlice()
		f.Add(b)
	}
	embeds := []netip.Prefix{netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("64:ff9b::/96"),
		netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("2001::/32")}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		for _, p := range embeds {
			if a.Is4In6() || p.Contains(a) {
				return
			}
		}
		if guard.SafeAddr(a) != nil && target.Public(a) {
			t.Errorf("%s is public here and prohibited there", a)
		}
	})
}
