package admission_test

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/admission"
)

// binaryHeader is a header of version 2.
func binaryHeader(command, family byte, body string) string {
	size := binary.BigEndian.AppendUint16(nil, uint16(len(body)))
	return "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{command, family}) + string(size) + body
}

var local = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}

// TestProxyHeaders: what a proxy says of its client, and what is not a header.
func TestProxyHeaders(t *testing.T) {
	four, six := "\xc0\x00\x02\x01\xc0\x00\x02\x02\x00\x50\x01\xbb", "\x20\x01\x0d\xb8"+strings.Repeat("\x00", 11)+"\x01"+"\x20\x01\x0d\xb8"+strings.Repeat("\x00", 11)+"\x02"+"\x00\x50\x01\xbb"
	for header, want := range map[string]string{
		"PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\n":           "192.0.2.1:80",
		"PROXY TCP6 2001:db8::1 2001:db8::2 80 443\r\n":       "[2001:db8::1]:80",
		"PROXY UNKNOWN\r\n":                                   "127.0.0.1",
		"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n":       "127.0.0.1",
		binaryHeader(0x21, 0x11, four):                        "192.0.2.1:80",
		binaryHeader(0x21, 0x21, six):                         "[2001:db8::1]:80",
		binaryHeader(0x21, 0x11, four+"\x04\x00\x02\x00\x00"): "192.0.2.1:80", // with an extension
		binaryHeader(0x20, 0x00, ""):                          "127.0.0.1",    // a check of the proxy itself
		binaryHeader(0x20, 0x11, four):                        "127.0.0.1",
		binaryHeader(0x21, 0x31, strings.Repeat("x", 216)):    "127.0.0.1", // a Unix socket
		"":                                      "",
		"PROXY TCP4 192.0.2.1 192.0.2.2 80\r\n": "",
		"PROXY TCP4 192.0.2.1 192.0.2.2 080 443\r\n":                      "",
		"PROXY TCP4 192.0.2.1 192.0.2.2 80 65536\r\n":                     "",
		"PROXY TCP4 192.0.2.1  192.0.2.2 80 443\r\n":                      "",
		"PROXY TCP4 2001:db8::1 2001:db8::2 80 443\r\n":                   "",
		"PROXY TCP6 192.0.2.1 192.0.2.2 80 443\r\n":                       "",
		"PROXY TCP6 fe80::1%eth0 fe80::2 80 443\r\n":                      "",
		"PROXY UDP4 192.0.2.1 192.0.2.2 80 443\r\n":                       "",
		"proxy TCP4 192.0.2.1 192.0.2.2 80 443\r\n":                       "",
		"PROXY TCP4 192.0.2.1 192.0.2.2 80 443" + strings.Repeat(" ", 80): "",
		binaryHeader(0x11, 0x11, four):                                    "",
		binaryHeader(0x22, 0x11, four):                                    "",
		binaryHeader(0x21, 0x11, four[:11]):                               "",
		binaryHeader(0x21, 0x21, four):                                    "",
		binaryHeader(0x21, 0x11, four+strings.Repeat("x", 5000)):          "",
	} {
		addr := open(t, admission.Door{Proxies: local, ProxyHeader: true, Arrive: 10 * time.Second}, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
		got, _ := io.ReadAll(say(t, addr, header+"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 198.51.100.7\r\nConnection: close\r\n\r\n")) // reset where it is refused
		_, body, _ := strings.Cut(string(got), "\r\n\r\n")
		switch {
		case want == "127.0.0.1": // the proxy, whose other header counts then
			want = "198.51.100.7:0"
		case want == "" && body != "" || want == "" && strings.Contains(string(got), "200 OK"):
			t.Errorf("%.60q is taken: %q", header, got)
		}
		if want != "" && body != want {
			t.Errorf("%.60q gives %q, want %q", header, body, want)
		}
	}
}

// TestHeadersOfOthersDoNotCount: an address that is not one of a proxy cannot say that it is.
func TestHeadersOfOthersDoNotCount(t *testing.T) {
	for _, d := range []admission.Door{{Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, ProxyHeader: true}, {Proxies: local}, {ProxyHeader: true}} {
		addr := open(t, d, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RemoteAddr) })
		c := say(t, addr, "PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); err == nil && !strings.Contains(line, "400") {
			t.Errorf("%+v: %q", d, line)
		}
	}
}

// TestClientsOfAProxyAreCounted: one of them has its connections, others have theirs. A connection
// without its header ends in time.
func TestClientsOfAProxyAreCounted(t *testing.T) {
	addr := open(t, admission.Door{Proxies: local, ProxyHeader: true, PerAddress: 2, Arrive: 100 * time.Millisecond, Read: time.Minute}, func(w http.ResponseWriter, r *http.Request) {
		admission.Admit(r.Context(), "user:ann")
		_, _ = io.WriteString(w, "ok")
	})
	connect := func(client string) bool {
		c := say(t, addr, "PROXY TCP4 "+client+" 192.0.2.200 80 443\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		return err == nil && strings.Contains(line, "200")
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		for range 2 {
			if !connect(client) {
				t.Errorf("%s has no two connections", client)
			}
		}
		if connect(client) {
			t.Errorf("%s has three connections", client)
		}
	}
	silent, err := net.Dial("tcp", addr) //nolint:noctx // the server is of this test
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("a connection without a header gets an answer")
	}
}

// FuzzProxyHeader: no header stops the server, and none is read beyond its end.
func FuzzProxyHeader(f *testing.F) {
	for _, seed := range []string{"PROXY UNKNOWN\r\n", "PROXY TCP4 192.0.2.1 192.0.2.2 80 443\r\n", binaryHeader(0x21, 0x11, "\xc0\x00\x02\x01\xc0\x00\x02\x02\x00\x50\x01\xbb"), binaryHeader(0x20, 0, "")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r := strings.NewReader(header + "rest")
		at, err := admission.ReadProxyHeader(r)
		if err != nil {
			if at.IsValid() {
				t.Errorf("%q gives %s and an error", header, at)
			}
			return
		}
		read := header + "rest"
		read = read[:len(read)-r.Len()]
		again, err := admission.ReadProxyHeader(strings.NewReader(read))
		if err != nil || again != at {
			t.Errorf("%q gives %s, and without what follows %s, %v", read, at, again, err)
		}
		if strings.HasPrefix(read, "PROXY ") && !strings.HasSuffix(read, "\r\n") || len(read) > 16+4<<10 {
			t.Errorf("%q is read as a header", read)
		}
	})
}
