package egress_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/confine/egress"
)

// FuzzHead holds the request reader to net/http's: what it takes, that one must
// take as the same message with the same end, and printed anew it must read as
// before.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nrest",
		"POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
		"GET /x HTTP/1.0\r\nConnection: close, X\r\nX: 1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := egress.ReadHead(bytes.NewReader(in))
		if err != nil {
			return
		}
		var out strings.Builder
		fmt.Fprintf(&out, "%s %s HTTP/1.%d\r\n", h.Method, h.URI, h.Minor)
		for _, f := range h.Fields {
			fmt.Fprintf(&out, "%s: %s\r\n", f[0], f[1])
		}
		again, err := egress.ReadHead(strings.NewReader(out.String() + "\r\n"))
		if err != nil || fmt.Sprint(again.Fields) != fmt.Sprint(h.Fields) || again.URI != h.URI || again.Length != h.Length || again.Chunked != h.Chunked {
			t.Fatalf("%q\nreads back as %+v, %v", out.String(), again, err)
		}
		br := bufio.NewReader(bytes.NewReader(in))
		r, err := http.ReadRequest(br)
		if err != nil {
			return // it is stricter in places, which is harmless
		}
		if r.Method != h.Method || r.RequestURI != h.URI || r.Header.Get("Host") != "" {
			t.Fatalf("net/http reads %s %s, here %s %s", r.Method, r.RequestURI, h.Method, h.URI)
		}
		if chunked := len(r.TransferEncoding) > 0; chunked != h.Chunked || !chunked && r.ContentLength != max(h.Length, 0) {
			t.Fatalf("net/http frames by %v %d, here %v %d", r.TransferEncoding, r.ContentLength, h.Chunked, h.Length)
		}
		if h.BodyErr != nil {
			return
		}
		body, err := io.ReadAll(r.Body)
		rest, _ := io.ReadAll(br)
		if err != nil || string(body) != h.Body || string(rest) != h.Rest {
			t.Fatalf("net/http ends the body elsewhere: %q %q %v, here %q %q", body, rest, err, h.Body, h.Rest)
		}
	})
}

// FuzzSOCKS checks that what is taken for a request is one canonical target, and
// that nothing of what follows it is eaten.
func FuzzSOCKS(f *testing.F) {
	hello := "\x05\x02\x00\x02\x01\x05remit\x03abc"
	for _, s := range []string{"\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x16SSH", "\x05\x01\x00\x03\x06a.test\x01\xbb", "\x05\x03\x00\x03\x06a.test\x01\xbb",
		"\x05\x01\x00\x04aaaaaaaaaaaaaaaa\x00\x50"} {
		f.Add([]byte(hello + s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		given, to, rest, err := egress.ReadSOCKS(bytes.NewReader(in))
		if err != nil {
			return
		}
		if again, err := target.ParseTCP(to.HostPort()); err != nil || again != to {
			t.Fatalf("%+v is not canonical: %+v %v", to, again, err)
		}
		if !bytes.HasSuffix(in, rest) || !strings.Contains(given, ":") {
			t.Fatalf("%q left %q, %q", in, rest, given)
		}
		if eaten := len(in) - len(rest); eaten < 2+1+3+10 {
			t.Fatalf("%d bytes are no request: %q", eaten, in)
		}
	})
}
