package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"syscall"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// SetLookup replaces the resolver.
func (p *Proxy) SetLookup(f func(ctx context.Context, host string) ([]netip.Addr, error)) {
	p.lookup = f
}

// SetDial replaces dialling; guard is the last check of an address.
func (p *Proxy) SetDial(f func(ctx context.Context, to netip.AddrPort, guard func(addr string) error) (net.Conn, error)) {
	p.dial = func(ctx context.Context, to netip.AddrPort, g network.Guard) (net.Conn, error) {
		return f(ctx, to, func(addr string) error { return g("tcp", addr, syscall.RawConn(nil)) })
	}
}

// Password is the proxy's.
func (p *Proxy) Password() string { return p.password }

// Head is what was read of a request's head, for fuzzing.
type Head struct {
	Method, URI, Host string
	Minor             int
	Length            int64
	Chunked           bool
	Fields            [][2]string
	Body              string
	BodyErr           error
	Rest              string
}

// ReadHead reads a request.
func ReadHead(r io.Reader) (*Head, error) {
	br := bufio.NewReaderSize(r, 4<<10)
	h, err := readHead(br)
	if err != nil {
		return nil, err
	}
	out := &Head{Method: h.method, URI: h.uri, Host: h.host, Minor: int(h.minor), Length: h.length, Chunked: h.chunked}
	for _, f := range h.fields {
		out.Fields = append(out.Fields, [2]string{f.name, f.value})
	}
	body, err := io.ReadAll(newBody(br, h))
	out.Body, out.BodyErr = string(body), err
	rest, _ := io.ReadAll(br)
	out.Rest = string(rest)
	return out, nil
}

// ReadSOCKS reads a whole SOCKS5 handshake and what follows.
func ReadSOCKS(r io.Reader) (given string, to tool.Target, rest []byte, err error) {
	br := bufio.NewReader(r)
	given, err = readSocksHello(br, bufio.NewWriter(io.Discard))
	if err != nil {
		return given, to, nil, err
	}
	to, err = readSocksRequest(br)
	rest, _ = io.ReadAll(br)
	return given, to, rest, err
}
