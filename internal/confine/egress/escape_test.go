package egress_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/egress"
)

// open allows everything public, in every way that there is.
const open = `{allow: ["*", "http://*", "https://*:8443", "http://*:8080", "tcp://*:22", "tcp://*:443"]}`

// TestNoWayToWhatIsNotPublic tries names and spellings of addresses of the host,
// private networks and metadata services, in each protocol, under a policy that
// allows all that is public. Nothing may reach the dialler.
func TestNoWayToWhatIsNotPublic(t *testing.T) {
	srv := newCanary(t, false, nil)
	hosts := []string{
		"127.0.0.1", "localhost", "localhost.", "LOCALHOST", "x.localhost", "[::1]", "0.0.0.0", "[::]", "169.254.169.254", "[fd00:ec2::254]",
		"metadata.google.internal", "168.63.129.16", "10.0.2.2", "host.docker.internal", "100.64.0.1", "192.168.1.1",
		"[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "127.1", "127.0.1", "0177.0.0.1",
		"[fe80::1%25lo]", "[fe80::1%lo]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::80ff:fffe]", "[::127.0.0.1]",
		"１２７.0.0.1", "①②⑦.0.0.1", "127。0。0。1", "allowed.test@127.0.0.1", "127.0.0.1%00.allowed.test", "127.0.0.1\\.allowed.test",
		"127.0.0.1#.allowed.test", "rebound.test", "mapped.test", "nat64.test", "six.test", "mixed.test",
	}
	w := &world{servers: map[uint16]string{0: srv.at()}, answers: map[string][]netip.Addr{
		"metadata.google.internal": {netip.MustParseAddr("169.254.169.254")},
		"host.docker.internal":     {netip.MustParseAddr("172.17.0.1")},
		"rebound.test":             {netip.MustParseAddr("127.0.0.1")},
		"mapped.test":              {netip.MustParseAddr("::ffff:10.0.0.1")},
		"nat64.test":               {netip.MustParseAddr("64:ff9b::a9fe:a9fe")},
		"six.test":                 {netip.MustParseAddr("2002:7f00:1::")},
		"mixed.test":               {netip.MustParseAddr("fd00::1")},
	}}
	b := serve(t, w, egress.Options{Permit: allowing(t, open)})
	if conn, reply := b.connect(t, "allowed.test:22"); conn == nil {
		t.Fatalf("the control does not get through: %s", reply)
	}
	for _, host := range hosts {
		for name, reply := range map[string]string{
			"plain":   b.raw(t, "GET http://"+host+"/ HTTP/1.1\r\nConnection: close\r\nHost: "+host+"\r\n$AUTH\r\n"),
			"other":   b.raw(t, "GET http://"+host+":8080/ HTTP/1.0\r\n$AUTH\r\n"),
			"connect": b.raw(t, "CONNECT "+host+":443 HTTP/1.1\r\nHost: "+host+":443\r\n$AUTH\r\n"),
		} {
			if !strings.HasPrefix(reply, "HTTP/1.1 403 ") && !strings.HasPrefix(reply, "HTTP/1.1 400 ") {
				t.Errorf("%s by %s: %q", host, name, reply)
			}
		}
		if c, code := b.socks(t, b.Password(), socksName(1, strings.Trim(host, "[]"), 22)); c != nil || code != 2 {
			t.Errorf("%s by SOCKS5: reply %d", host, code)
		}
	}
	if _, dialled := w.saw(); len(dialled) != 1 {
		t.Errorf("dialled %v", dialled)
	}
	if len(srv.requests()) != 0 {
		t.Errorf("the host was reached: %q", srv.requests())
	}
}

func TestTheCheckedAddressIsTheOneDialled(t *testing.T) {
	srv := newCanary(t, false, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}, answers: map[string][]netip.Addr{
		"rebinding.test": {public, netip.MustParseAddr("127.0.0.1")}}}
	b := serve(t, w, egress.Options{Permit: allowing(t, open)})
	if reply := b.raw(t, "GET http://rebinding.test/ HTTP/1.1\r\nHost: rebinding.test\r\n$AUTH\r\n"); !strings.HasPrefix(reply, "HTTP/1.1 200 ") {
		t.Errorf("%q", reply)
	}
	asked, dialled := w.saw()
	if len(asked) != 1 || len(dialled) != 1 || dialled[0].Addr() != public {
		t.Errorf("asked %v, dialled %v", asked, dialled)
	}
	if c, code := b.socks(t, b.Password(), socksName(1, "rebinding.test", 22)); c != nil || code != 2 {
		t.Errorf("the second answer: %d", code)
	}
	if _, dialled = w.saw(); len(dialled) != 1 {
		t.Errorf("dialled %v", dialled)
	}
}

func TestNamesAreLookedUpOnlyOnceAllowed(t *testing.T) {
	w := &world{}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: [allowed.test, "GET http://allowed.test/x", "tcp://allowed.test:22"]}`)})
	for _, send := range []string{
		"GET http://c2VjcmV0.evil.test/ HTTP/1.1\r\nHost: c2VjcmV0.evil.test\r\n$AUTH\r\n",
		"GET http://allowed.test/other HTTP/1.1\r\nHost: allowed.test\r\n$AUTH\r\n",
		"CONNECT c2VjcmV0.evil.test:443 HTTP/1.1\r\nHost: c2VjcmV0.evil.test:443\r\n$AUTH\r\n",
		"CONNECT allowed.test.evil.test:443 HTTP/1.1\r\nHost: allowed.test.evil.test:443\r\n$AUTH\r\n",
		"CONNECT evil-allowed.test:443 HTTP/1.1\r\nHost: evil-allowed.test:443\r\n$AUTH\r\n",
		"CONNECT allowed.test:444 HTTP/1.1\r\nHost: allowed.test:444\r\n$AUTH\r\n",
		"CONNECT allowed.test.:22222 HTTP/1.1\r\nHost: allowed.test\r\n$AUTH\r\n",
		"CONNECT x.allowed.test:443 HTTP/1.1\r\nHost: x.allowed.test\r\n$AUTH\r\n",
		"CONNECT allowed.test:443\\@evil.test:443 HTTP/1.1\r\nHost: allowed.test\r\n$AUTH\r\n",
	} {
		if reply := b.raw(t, send); !strings.HasPrefix(reply, "HTTP/1.1 403 ") && !strings.HasPrefix(reply, "HTTP/1.1 400 ") {
			t.Errorf("%q: %q", send, reply)
		}
	}
	if asked, dialled := w.saw(); len(asked)+len(dialled) != 0 {
		t.Errorf("looked up %v, dialled %v", asked, dialled)
	}
	// One name has one spelling: with a final dot or in capitals it is the same.
	if reply := b.raw(t, "CONNECT ALLOWED.test.:443 HTTP/1.1\r\nHost: allowed.test:443\r\n$AUTH\r\n"); !strings.HasPrefix(reply, "HTTP/1.1 502 ") {
		t.Errorf("%q", reply)
	}
	if asked, _ := w.saw(); len(asked) != 1 || asked[0] != "allowed.test" {
		t.Errorf("looked up %v", asked)
	}
}

// hello is the first record of a TLS client.
func hello(t *testing.T, name string) []byte {
	t.Helper()
	return helloOf(t, &tls.Config{ServerName: name, InsecureSkipVerify: true}) //nolint:gosec // it never ends
}

// hidden is the ClientHello for a name that is encrypted; what can be seen is the
// outer one.
func hidden(t *testing.T, inner, outer string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := append([]byte{1, 0, 0x20, 0, 32}, key.PublicKey().Bytes()...) // ECHConfigContents of RFC 9849
	c = append(c, 0, 4, 0, 1, 0, 1, 32, byte(len(outer)))
	c = append(append(c, outer...), 0, 0)
	c = append([]byte{0xfe, 0x0d, 0, byte(len(c))}, c...)
	list := append([]byte{0, byte(len(c))}, c...)
	return helloOf(t, &tls.Config{ServerName: inner, MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: list})
}

func helloOf(t *testing.T, conf *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		_ = tls.Client(a, conf).Handshake()
		a.Close()
	}()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

func TestATunnelIsForItsHostAlone(t *testing.T) {
	var sunk atomic.Int64
	sink, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sink.Close() })
	go func() {
		for {
			c, err := sink.Accept()
			if err != nil {
				return
			}
			go func() { n, _ := io.Copy(io.Discard, c); sunk.Add(n); c.Close() }()
		}
	}()
	good := hello(t, "allowed.test")
	split := append(append([]byte{22, 3, 1, 0, 5}, good[5:10]...), 22, 3, 1, byte((len(good)-10)>>8), byte(len(good)-10))
	split = append(split, good[10:]...)
	tests := map[string]struct {
		host string
		send []byte
		pass bool
		rule string
	}{
		"the host's name":      {"allowed.test", good, true, ""},
		"in two records":       {"allowed.test", split, true, ""},
		"the name in capitals": {"allowed.test", bytes.Replace(good, []byte("allowed.test"), []byte("ALLOWED.test"), 1), true, ""},
		"another name":         {"allowed.test", hello(t, "evil.test"), false, "sni"},
		"a name below":         {"allowed.test", hello(t, "x.allowed.test"), false, "sni"},
		"no name":              {"allowed.test", hello(t, "93.184.216.34"), false, "sni"},
		"a name with NUL":      {"allowed.test", bytes.Replace(good, []byte("allowed.test"), []byte("allowed\x00tes"), 1), false, ""},
		"an encrypted name, the outer one another": {"allowed.test", hidden(t, "allowed.test", "evil.test"), false, "sni"},
		"an encrypted name, the outer one it":      {"allowed.test", hidden(t, "evil.test", "allowed.test"), true, ""},
		"no name, for an address":                  {"93.184.216.34", hello(t, "93.184.216.34"), true, ""},
		"a name, for an address":                   {"93.184.216.34", hello(t, "evil.test"), false, "sni"},
		"plain HTTP":                               {"allowed.test", []byte("GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"), false, "protocol"},
		"SSH":                                      {"allowed.test", []byte("SSH-2.0-OpenSSH_9.9\r\n"), false, "protocol"},
		"a TLS alert first":                        {"allowed.test", append([]byte{21, 3, 1, 0, 2, 1, 0}, good...), false, "protocol"},
		"TLS data instead of a hello":              {"allowed.test", append([]byte{22, 3, 1, 0, 4}, 2, 0, 0, 0), false, "protocol"},
		"an endless hello":                         {"allowed.test", append([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 20000)...), false, "protocol"},
		"SSLv2":                                    {"allowed.test", []byte("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"), false, "protocol"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := &world{servers: map[uint16]string{0: sink.Addr().String()}}
			b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: [allowed.test, "https://93.184.216.34"]}`)})
			before := sunk.Load()
			c, reply := b.connect(t, tt.host+":443")
			if c == nil {
				t.Fatal(reply)
			}
			_, _ = c.Write(tt.send)
			_ = c.(*net.TCPConn).CloseWrite()
			_, _ = io.ReadAll(c)
			b.Close()
			time.Sleep(20 * time.Millisecond) // the sink counts when it has seen the end
			if got := sunk.Load() - before; tt.pass && got != int64(len(tt.send)) || !tt.pass && got != 0 {
				t.Errorf("%d bytes reached the host of %d", got, len(tt.send))
			}
			if got := refusals(b); tt.rule != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.rule+":")) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestInspectedTunnelsAreForTheirHostAlone(t *testing.T) {
	srv := newCanary(t, true, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	b := serve(t, w, egress.Options{Permit: allowing(t, `{inspect: true, allow: [example.com]}`), RootCAs: pool(t, srv)})
	dial := func(name string) *tls.Conn {
		c, reply := b.connect(t, "example.com:443")
		if c == nil {
			t.Fatal(reply)
		}
		return tls.Client(c, &tls.Config{ServerName: name, RootCAs: pool(t, nil, b.CA()), InsecureSkipVerify: name != "example.com"}) //nolint:gosec // for the wrong names
	}
	for _, name := range []string{"evil.test", ""} {
		if err := dial(name).Handshake(); err == nil {
			t.Errorf("%q: a handshake", name)
		}
	}
	for send, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n":                                         "200",
		"GET / HTTP/1.1\r\nHost: example.com:443\r\n\r\n":                                     "200",
		"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n":                                           "400",
		"GET / HTTP/1.1\r\nHost: example.com:444\r\n\r\n":                                     "400",
		"GET / HTTP/1.1\r\nHost: example.com@evil.test\r\n\r\n":                               "400",
		"GET / HTTP/1.1\r\n\r\n":                                                              "400",
		"GET https://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n":                          "400",
		"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n":                           "400",
		"GET / HTTP/1.1\r\nHost: example.com\r\nX-Forwarded-Host: evil.test\r\n\r\n":          "403",
		"GET / HTTP/1.1\r\nHost: example.com\r\nX_HTTP_Method_Override: DELETE\r\n\r\n":       "403",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":                                                    "400",
		"GET //evil.test/x HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n":        "200",
		"GET / HTTP/1.1\r\nHost: example.com\r\nUpgrade: websocket\r\nConnection: up\r\n\r\n": "200",
	} {
		c := dial("example.com")
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, send)
		got := make([]byte, 12)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "HTTP/1.1 "+want {
			t.Errorf("%q: %q %v", send, got, err)
		}
		c.Close()
	}
	for _, seen := range srv.requests() {
		if !strings.Contains(seen, " example.com/") || strings.Contains(seen, "Upgrade") {
			t.Errorf("the host saw %s", seen)
		}
	}
}

func TestSmugglingIsRefused(t *testing.T) {
	const two = "0\r\n\r\nGET http://allowed.test/smuggled HTTP/1.1\r\nHost: allowed.test\r\n\r\n"
	head := func(lines ...string) string {
		return "POST http://allowed.test/ok HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n$AUTH\r\n"
	}
	tests := map[string]string{
		"CL and TE":               head("Host: allowed.test", "Content-Length: 5", "Transfer-Encoding: chunked") + two,
		"TE and CL":               head("Host: allowed.test", "Transfer-Encoding: chunked", "Content-Length: 5") + two,
		"CL twice":                head("Host: allowed.test", "Content-Length: 0", "Content-Length: 5") + two,
		"CL twice, the same":      head("Host: allowed.test", "Content-Length: 5", "Content-Length: 5") + two,
		"CL as a list":            head("Host: allowed.test", "Content-Length: 5, 5") + two,
		"CL with a sign":          head("Host: allowed.test", "Content-Length: +5") + two,
		"CL negative":             head("Host: allowed.test", "Content-Length: -1"),
		"CL hexadecimal":          head("Host: allowed.test", "Content-Length: 0x5") + two,
		"CL with zeros":           head("Host: allowed.test", "Content-Length: 005") + two,
		"CL too large":            head("Host: allowed.test", "Content-Length: 99999999999999999999"),
		"CL with underscore":      head("Host: allowed.test", "Content_Length: 5") + two,
		"TE of another name":      head("Host: allowed.test", "Transfer-Encoding: xchunked") + two,
		"TE chunked and more":     head("Host: allowed.test", "Transfer-Encoding: gzip, chunked") + two,
		"TE twice":                head("Host: allowed.test", "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + two,
		"TE with tab in name":     head("Host: allowed.test", "Transfer-Encoding\t: chunked") + two,
		"TE with space in name":   head("Host: allowed.test", "Transfer-Encoding : chunked") + two,
		"TE folded":               head("Host: allowed.test", "Transfer-Encoding:\r\n chunked") + two,
		"TE with vertical tab":    head("Host: allowed.test", "Transfer-Encoding: \vchunked") + two,
		"TE in HTTP/1.0":          strings.Replace(head("Host: allowed.test", "Transfer-Encoding: chunked"), "HTTP/1.1", "HTTP/1.0", 1) + two,
		"obs-fold":                head("Host: allowed.test", "X: a\r\n b"),
		"a space before a field":  head(" Host: allowed.test"),
		"bare LF":                 head("Host: allowed.test\nX: y"),
		"bare LF at the end":      "GET http://allowed.test/ok HTTP/1.1\nHost: allowed.test\n\n",
		"bare CR":                 head("Host: allowed.test", "X: a\rTransfer-Encoding: chunked"),
		"NUL":                     head("Host: allowed.test", "X: a\x00b"),
		"no colon":                head("Host: allowed.test", "X"),
		"empty name":              head("Host: allowed.test", ": x"),
		"Host of another":         head("Host: evil.test"),
		"Host with another port":  head("Host: allowed.test:81"),
		"Host twice":              head("Host: allowed.test", "Host: evil.test"),
		"no Host":                 head("X: y"),
		"userinfo":                strings.Replace(head("Host: allowed.test"), "http://allowed.test", "http://u:p@allowed.test", 1),
		"userinfo that deceives":  strings.Replace(head("Host: evil.test"), "http://allowed.test", "http://allowed.test@evil.test", 1),
		"https without a tunnel":  strings.Replace(head("Host: allowed.test"), "http://", "https://", 1),
		"ftp":                     strings.Replace(head("Host: allowed.test"), "http://", "ftp://", 1),
		"origin-form":             strings.Replace(head("Host: allowed.test"), "http://allowed.test", "", 1),
		"two spaces":              strings.Replace(head("Host: allowed.test"), "POST ", "POST  ", 1),
		"a tab":                   strings.Replace(head("Host: allowed.test"), "POST ", "POST\t", 1),
		"a third part":            strings.Replace(head("Host: allowed.test"), " HTTP/1.1", " x HTTP/1.1", 1),
		"HTTP/0.9":                "GET http://allowed.test/ok\r\n\r\n",
		"HTTP/1.2":                strings.Replace(head("Host: allowed.test"), "HTTP/1.1", "HTTP/1.2", 1),
		"HTTP/2":                  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"an empty line first":     "\r\n" + head("Host: allowed.test"),
		"TRACE":                   strings.Replace(head("Host: allowed.test"), "POST", "TRACE", 1),
		"encoded slash":           strings.Replace(head("Host: allowed.test"), "/ok", "/a%2f..", 1),
		"an expectation":          head("Host: allowed.test", "Expect: 200-ok"),
		"a head without end":      head("Host: allowed.test", "X: "+strings.Repeat("x", 70<<10)),
		"fields without end":      head("Host: allowed.test", strings.Repeat("X: y\r\n", 300)+"X: y"),
		"CONNECT with a body":     "CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\nContent-Length: 3\r\n$AUTH\r\nabc",
		"CONNECT to a path":       "CONNECT allowed.test:80/x HTTP/1.1\r\nHost: allowed.test:80\r\n$AUTH\r\n",
		"CONNECT without a port":  "CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n$AUTH\r\n",
		"CONNECT to another Host": "CONNECT allowed.test:80 HTTP/1.1\r\nHost: evil.test:80\r\n$AUTH\r\n",
	}
	for name, send := range tests {
		t.Run(name, func(t *testing.T) {
			srv := newCanary(t, false, nil)
			w := &world{servers: map[uint16]string{0: srv.at()}}
			b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://allowed.test", "http://evil.test"]}`)})
			reply := b.raw(t, send)
			if n := strings.Count(reply, "Content-Length:"); n > 1 || reply != "" && !strings.HasPrefix(reply, "HTTP/1.1 4") {
				t.Errorf("answered %q", reply)
			}
			if got := srv.requests(); len(got) != 0 {
				t.Errorf("the host saw %q", got)
			}
			b.Close()
			if len(refusals(b)) == 0 {
				t.Error("the report does not tell")
			}
		})
	}
}

func TestBodiesEndWhereTheySay(t *testing.T) {
	const chunked = "POST http://allowed.test/ok HTTP/1.1\r\nHost: allowed.test\r\nTransfer-Encoding: chunked\r\n$AUTH\r\n"
	tests := map[string]struct {
		send string
		seen []string
	}{
		"two requests": {"POST http://allowed.test/a HTTP/1.1\r\nHost: allowed.test\r\nContent-Length: 3\r\n$AUTH\r\nabcGET http://allowed.test/b HTTP/1.1\r\nHost: allowed.test\r\n$AUTH\r\n",
			[]string{`POST allowed.test/a "abc"`, `GET allowed.test/b ""`}},
		"chunked":          {chunked + "3\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n", []string{`POST allowed.test/ok "abcde"`}},
		"extension":        {chunked + "3;x=y\r\nabc\r\n0\r\n\r\n", nil},
		"chunk too long":   {chunked + "2\r\nabc\r\n0\r\n\r\n", nil},
		"chunk bare LF":    {chunked + "3\nabc\r\n0\r\n\r\n", nil},
		"chunk sign":       {chunked + "+3\r\nabc\r\n0\r\n\r\n", nil},
		"chunk prefix":     {chunked + "0x3\r\nabc\r\n0\r\n\r\n", nil},
		"chunk underscore": {chunked + "0_3\r\nabc\r\n0\r\n\r\n", nil},
		"chunk space":      {chunked + "3 \r\nabc\r\n0\r\n\r\n", nil},
		"chunk huge":       {chunked + "ffffffffffffffff\r\nabc\r\n0\r\n\r\n", nil},
		"trailer folded":   {chunked + "0\r\n x\r\n\r\n", nil},
		"hop by hop": {"GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: X-Private, Upgrade, HTTP2-Settings\r\nX-Private: 1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nKeep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: keep-alive\r\nProxy-Foo: bar\r\nX-Kept: 1\r\n$AUTH\r\n",
			[]string{`GET allowed.test/ X-Kept=1 ""`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			srv := newCanary(t, false, nil)
			w := &world{servers: map[uint16]string{0: srv.at()}}
			b := serve(t, w, egress.Options{Permit: allowing(t, `{allow: ["http://allowed.test"]}`)})
			reply := b.raw(t, tt.send)
			srv.Close()
			got := srv.requests()
			if len(tt.seen) > 0 && fmt.Sprint(got) != fmt.Sprint(tt.seen) {
				t.Errorf("the host saw %q", got)
			}
			for _, g := range got { // a half body may have begun to arrive, but is no request that is complete
				if len(tt.seen) == 0 && strings.HasSuffix(g, `"abc"`) && strings.HasPrefix(reply, "HTTP/1.1 200") {
					t.Errorf("the host saw %q, the answer was %q", g, reply)
				}
			}
			if n := strings.Count(reply, "HTTP/1.1 200"); n != len(tt.seen) {
				t.Errorf("answered %q", reply)
			}
		})
	}
}

func TestEachSandboxHasItsOwnCredentials(t *testing.T) {
	srv := newCanary(t, false, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	mine := serve(t, w, egress.Options{Permit: allowing(t, open)})
	other := serve(t, w, egress.Options{Permit: allowing(t, open)})
	if mine.Password() == other.Password() || len(mine.Password()) != 32 {
		t.Fatal("the passwords are not their own")
	}
	send := func(auth string) string {
		return "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n" + auth + "\r\n"
	}
	for name, auth := range map[string]string{
		"none": "", "another's": other.auth(), "no password": "Proxy-Authorization: Basic cmVtaXQ6\r\n", "no base64": "Proxy-Authorization: Basic !\r\n",
		"bearer": "Proxy-Authorization: Bearer " + mine.Password() + "\r\n", "for the host": strings.Replace(mine.auth(), "Proxy-", "", 1),
		"twice": other.auth() + mine.auth(),
	} {
		if reply := mine.raw(t, send(auth)); !strings.HasPrefix(reply, "HTTP/1.1 407 ") && !strings.HasPrefix(reply, "HTTP/1.1 400 ") {
			t.Errorf("%s: %q", name, reply)
		}
	}
	if c, code := mine.socks(t, other.Password(), socksName(1, "allowed.test", 22)); c != nil || code != -1 {
		t.Errorf("SOCKS5: %d", code)
	}
	if got := srv.requests(); len(got) != 0 {
		t.Errorf("the host saw %q", got)
	}
	if reply := mine.raw(t, send(mine.auth())); !strings.HasPrefix(reply, "HTTP/1.1 200 ") {
		t.Errorf("the control: %q", reply)
	}
	for _, seen := range srv.requests() {
		if strings.Contains(seen, "Authorization") {
			t.Errorf("the host saw %s", seen)
		}
	}
	mine.Close()
	if text := fmt.Sprintf("%+v", mine.Connections()); strings.Contains(text, mine.Password()) || strings.Contains(text, other.Password()) {
		t.Errorf("the report shows a password: %s", text)
	}
	if got := refusals(mine); len(got) < 2 {
		t.Errorf("%q", got)
	}
	// Who waits to be asked is asked, on the same connection.
	reply := mine2(t, w)
	if !strings.Contains(reply, "407") || !strings.Contains(reply, `Basic realm="remit"`) || !strings.Contains(reply, "HTTP/1.1 200 ") {
		t.Errorf("%q", reply)
	}
}

func mine2(t *testing.T, w *world) string {
	b := serve(t, w, egress.Options{Permit: allowing(t, open)})
	reply := b.raw(t, "GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n$AUTH\r\n")
	b.Close()
	if got := refusals(b); len(got) != 0 {
		t.Errorf("being asked is no refusal: %q", got)
	}
	return reply
}

func TestRefusalsCannotCrowdOutOthers(t *testing.T) {
	b := serve(t, &world{}, egress.Options{Permit: allowing(t, `{allow: ["http://allowed.test"]}`)})
	c := b.client(t, nil)
	for range 200 {
		if status, _, _ := get(t, c, "http://evil.test/x"); status != http.StatusForbidden {
			t.Fatal(status)
		}
	}
	get(t, c, "http://evil.test/y")
	r := b.Connections()
	if len(r) != 2 || r[0].Count != 200 || r[1].Count != 1 || b.Dropped() != 0 {
		t.Errorf("%+v", r)
	}
}

// TestOrdinaryRequestsPass: forms of requests that programs use, and that servers read in one way or that their entry allows in each.
func TestOrdinaryRequestsPass(t *testing.T) {
	const tunnel = "CONNECT allowed.test:80 HTTP/1.1\r\nHost: allowed.test:80\r\n$AUTH\r\n"
	for name, c := range map[string]struct{ send, seen string }{
		"an encoded slash":              {"GET http://allowed.test/@types%2fnode HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n$AUTH\r\n", `GET allowed.test/@types%2fnode ""`},
		"an encoded slash, in a tunnel": {tunnel + "GET /a%2Fb/c HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n", `GET allowed.test/a%2Fb/c ""`},
		"HTTP/1.0 without a Host":       {"GET http://allowed.test/ok HTTP/1.0\r\n$AUTH\r\n", `GET allowed.test/ok ""`},
		"the same in a tunnel":          {tunnel + "GET /ok HTTP/1.0\r\n\r\n", `GET allowed.test/ok ""`},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newCanary(t, false, nil)
			b := serve(t, &world{servers: map[uint16]string{0: srv.at()}}, egress.Options{Permit: allowing(t, `{allow: ["http://allowed.test"]}`)})
			if reply := b.raw(t, c.send); !strings.Contains(reply, "hello from allowed.test") {
				t.Errorf("answered %q", reply)
			}
			if got := srv.requests(); !slices.Equal(got, []string{c.seen}) {
				t.Errorf("the host saw %q", got)
			}
		})
	}
}
