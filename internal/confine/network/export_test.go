package network

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing/iotest"
)

// SetLookup replaces the resolver.
func (t *Transport) SetLookup(f func(ctx context.Context, host string) ([]netip.Addr, error)) {
	t.lookup = f
}

// SetDial replaces dialling; guard is the last check of an address.
func (t *Transport) SetDial(f func(ctx context.Context, to netip.AddrPort, guard func(addr string) error) (net.Conn, error)) {
	t.dial = func(ctx context.Context, to netip.AddrPort, c Guard) (net.Conn, error) {
		return f(ctx, to, func(addr string) error { return c("tcp", addr, syscall.RawConn(nil)) })
	}
}

// SetRoots replaces the system's certificate authorities.
func (t *Transport) SetRoots(p *x509.CertPool) { t.roots = p }

// Mask reads a text in pieces of at most cut bytes through the mask of secrets,
// each in its plain spelling.
func Mask(secrets []string, text string, cut int) (string, error) {
	var m mask
	for _, s := range secrets {
		m = m.add(s)
	}
	b, err := io.ReadAll(m.body(io.NopCloser(iotest.DataErrReader(pieces{strings.NewReader(text), cut}))))
	return string(b), err
}

type pieces struct {
	r   io.Reader
	cut int
}

func (p pieces) Read(b []byte) (int, error) {
	return p.r.Read(b[:min(len(b), p.cut)])
}

// SetModelWorld replaces the resolver, dialling and the certificate authorities.
func (m *ModelTransport) SetModelWorld(like *Transport) {
	m.t.lookup, m.t.dial, m.t.roots = like.lookup, like.dial, like.roots
}
