package egress_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/remitrun/remit/internal/confine/egress"
)

// BenchmarkGet is one GET over a new connection, straight to the host and
// through the proxy: the difference is what the proxy adds.
func BenchmarkGet(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })}
	go func() { _ = srv.Serve(l) }()
	b.Cleanup(func() { _ = srv.Close() })
	at := l.Addr().String()
	p := serve(b, nil, egress.Options{Permit: allowing(b, `{allow: ["GET http://`+at+`/x/**"]}`)})
	one := func(b *testing.B, addr, request string) {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.WriteString(c, request)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		_ = c.Close()
	}
	direct := "GET /x/y HTTP/1.1\r\nHost: " + at + "\r\nConnection: close\r\n\r\n"
	through := "GET http://" + at + "/x/y HTTP/1.1\r\nHost: " + at + "\r\nConnection: close\r\n" + p.auth() + "\r\n"
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			one(b, at, direct)
		}
	})
	b.Run("proxy", func(b *testing.B) {
		for b.Loop() {
			one(b, p.addr, through)
		}
	})
}

// BenchmarkTunnel is the throughput from a host to the sandbox, beside that
// without a proxy.
func BenchmarkTunnel(b *testing.B) {
	const size = 512 << 20
	at, _ := sink(b)
	receive := func(b *testing.B, open func() net.Conn) {
		buf := make([]byte, 1<<20)
		b.SetBytes(size)
		for b.Loop() {
			c := open()
			fmt.Fprintf(c, "%d\n", size)
			_ = c.(*net.TCPConn).CloseWrite()
			for n := 0; n < size; {
				k, err := c.Read(buf)
				if err != nil {
					b.Fatal(err)
				}
				n += k
			}
			_ = c.Close()
		}
	}
	b.Run("direct", func(b *testing.B) {
		receive(b, func() net.Conn {
			c, err := net.Dial("tcp", at)
			if err != nil {
				b.Fatal(err)
			}
			return c
		})
	})
	for _, way := range []struct{ name, more string }{{"kernel", ""}, {"counted", ", total_bytes: 1TiB"}} {
		b.Run(way.name, func(b *testing.B) {
			p := serve(b, nil, egress.Options{Permit: allowing(b, `{allow: ["tcp://`+at+`"]`+way.more+`}`)})
			receive(b, func() net.Conn {
				c, reply := p.connect(b, at)
				if c == nil {
					b.Fatal(reply)
				}
				return c
			})
		})
	}
}

// BenchmarkInspected is one GET over a new connection whose TLS ends at the
// proxy, beside one straight to the host.
func BenchmarkInspected(b *testing.B) {
	srv := newCanary(b, true, nil)
	w := &world{servers: map[uint16]string{0: srv.at()}}
	p := serve(b, w, egress.Options{Permit: allowing(b, `{inspect: true, allow: ["GET https://example.com/x/**"]}`), RootCAs: pool(b, srv)})
	one := func(b *testing.B, c net.Conn, conf *tls.Config) {
		tc := tls.Client(c, conf)
		_, _ = io.WriteString(tc, "GET /x/y HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(tc), nil)
		if err != nil || resp.StatusCode != 200 {
			b.Fatal(resp, err)
		}
		_ = resp.Body.Close()
		_ = c.Close()
	}
	b.Run("direct", func(b *testing.B) {
		conf := &tls.Config{ServerName: "example.com", RootCAs: pool(b, srv)}
		for b.Loop() {
			c, err := net.Dial("tcp", srv.at())
			if err != nil {
				b.Fatal(err)
			}
			one(b, c, conf)
		}
	})
	b.Run("proxy", func(b *testing.B) {
		conf := &tls.Config{ServerName: "example.com", RootCAs: pool(b, nil, p.CA())}
		for b.Loop() {
			c, reply := p.connect(b, "example.com:443")
			if c == nil {
				b.Fatal(reply)
			}
			one(b, c, conf)
		}
	})
}
