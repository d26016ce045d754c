package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// errHello ends a handshake after its ClientHello was read.
var errHello = errors.New("the ClientHello is read")

// readHello reads a TLS ClientHello, checks that it names the host and gives the
// bytes that were read. It answers nothing: the handshake is the host's.
func readHello(s *stream, host string) ([]byte, error) {
	peek := &peeker{from: s.br, Conn: s.conn}
	var said *tls.ClientHelloInfo
	err := tls.Server(peek, &tls.Config{MinVersion: tls.VersionTLS10, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { //nolint:gosec // it is read, never answered
		said = h
		return nil, errHello
	}}).Handshake()
	switch {
	case said == nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isTimeout(err)):
		return nil, err
	case said == nil || !errors.Is(err, errHello):
		return nil, deny(ruleProtocol, "what was sent is not a TLS ClientHello")
	}
	if err := checkSNI(said.ServerName, host); err != nil {
		return nil, err
	}
	return peek.read.Bytes(), nil
}

// checkSNI holds a ClientHello to the host that was decided on. With encrypted
// ClientHello it is the outer name that is seen and must be the host's.
func checkSNI(name, host string) error {
	if _, err := netip.ParseAddr(host); err == nil && name == "" {
		return nil // TLS has no names for addresses
	}
	if name == "" {
		return deny(ruleSNI, "the TLS ClientHello names no host")
	}
	t, err := target.ParseTCP(name + ":1")
	if err != nil || t.Host != host || !strings.EqualFold(name, host) {
		return deny(ruleSNI, "the TLS ClientHello names another host than the one decided on")
	}
	return nil
}

// peeker keeps the bytes that are read through it and writes nothing.
type peeker struct {
	net.Conn
	from io.Reader
	read bytes.Buffer
}

func (p *peeker) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.read.Write(b[:n])
	return n, err
}

func (p *peeker) Write(b []byte) (int, error) { return len(b), nil }

// buffered is a connection whose first bytes were read into a buffer.
type buffered struct {
	net.Conn
	from io.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.from.Read(p) }

// inspect ends the sandbox's TLS here, in the host's name, and serves the
// requests inside.
func (p *Proxy) inspect(ctx context.Context, s *stream, rec *record, to tool.Target) {
	to.Scheme = "https"
	rec.to(to)
	var refused error
	conn := tls.Server(buffered{s.conn, s.br}, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if refused = checkSNI(h.ServerName, to.Host); refused != nil {
				return nil, refused
			}
			return p.authority.leaf(to.Host, time.Now())
		},
	})
	defer func() { _ = conn.Close() }()
	s.arm(p.limits.Header)
	if err := conn.HandshakeContext(ctx); err != nil {
		if refused == nil {
			refused = failed("the sandbox's program did not accept Remit's certificate, or speaks no HTTP/1.1 in TLS")
		}
		p.tunnelEnds(rec, refused)
		return
	}
	p.serveOrigin(ctx, newStream(conn), rec.Via, "https", to)
}
