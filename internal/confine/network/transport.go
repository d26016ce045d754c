// Package network is the handle for HTTP: the one way in which a call reaches
// the network. Under a permit it decides each request, resolves its host once,
// decides again with the addresses found, and dials only those. Start at
// [Client]; [Transport] is for code that needs an [http.RoundTripper].
//
// Proxies and other settings of the environment are ignored, there is no cookie
// jar, and no connection serves two requests.
package network

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Defaults for limits that the policies leave open, and bounds that they cannot
// change.
const (
	DefaultResponseBytes = 10 << 20
	DefaultTimeout       = 30 * time.Second
	MaxHeaderBytes       = 256 << 10 // of a response
)

// Transport sends single requests under a permit. It follows no redirect. The
// zero Transport refuses everything.
type Transport struct {
	// Secret finds a value by its policy.Secret.Key, for entries with a secret: a
	// variable of Remit's own environment or a stored value. Nil means that there
	// are none.
	Secret func(name string) (value string, ok bool)

	// Sign returns further credentials for a request that may be sent, which are
	// handled with the same care. Nil means none.
	Sign func(to tool.Target) ([]Credential, error)

	permit permit.Permit
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	dial   DialFunc
	roots  *x509.CertPool // nil: the system's
}

// NewTransport makes the transport of one call. It needs no closing: each
// response's body holds its connection and ends it when closed.
func NewTransport(p permit.Permit) *Transport {
	return &Transport{permit: p, lookup: Resolve, dial: DialTCP}
}

// RoundTrip decides a request and sends it. The request that goes out is the
// canonical one that was decided. A refusal is a fault.HandleRefused error, or
// ArgsInvalid for a URL that is not read. The response's body fails with
// fault.LimitReached after the policies' network.max_bytes (decoded), and with
// fault.ToolTimeout after network.timeout, counted from here.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.send(req)
	if err != nil && req.Body != nil {
		_ = req.Body.Close() // the contract of RoundTripper; the body is of no more use
	}
	return resp, err
}

func (t *Transport) send(req *http.Request) (*http.Response, error) {
	u, to, err := target.URL(req.Method, req.URL.String())
	if err != nil {
		return nil, err
	}
	if req.URL.User != nil || req.Host != "" && req.Host != req.URL.Host {
		return nil, fault.New(fault.HandleRefused, "%s: the request names another host than its URL, or a user", to)
	}
	for name := range req.Header {
		if reason := RefusedHeader(name); reason != "" {
			return nil, fault.New(fault.HandleRefused, "%s: the header %q is refused: %s", to, name, reason)
		}
	}
	if err := t.permit.Check(tool.Action{Kind: tool.Network, Target: to}); err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	secrets, err := t.credentials(out, u, to)
	if err != nil {
		return nil, fault.Wrap(fault.HandleRefused, err, "%s: %s", to, fault.Message(err))
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), t.timeout(), fault.ToolTimeout)
	inner, err := t.connect(ctx, to, max(req.ContentLength, 0))
	if err != nil {
		cancel()
		return nil, err
	}
	out = out.WithContext(ctx)
	out.Method, out.URL, out.Host = to.Method, u, u.Host
	if out.Header.Get("User-Agent") == "" {
		out.Header.Set("User-Agent", "remit")
	}
	resp, err := inner.RoundTrip(out)
	if err == nil && resp.StatusCode == http.StatusSwitchingProtocols {
		err = errors.Join(fault.New(fault.ToolFailed, "the server switched protocols"), resp.Body.Close())
	}
	if err != nil {
		defer cancel()
		return nil, failure(ctx, secrets.err(err), to.String())
	}
	if e := resp.Header.Get("Content-Encoding"); len(secrets) > 0 && e != "" && !strings.EqualFold(e, "identity") {
		defer cancel()
		return nil, errors.Join(fault.New(fault.ToolFailed, "%s: the answer is encoded as %.40q, and cannot be looked through for the secret that was sent", to, e), resp.Body.Close())
	}
	left := t.permit.Limits().ResponseBytes
	if left <= 0 {
		left = DefaultResponseBytes
	}
	what := to.String()
	resp.Body = secrets.body(&body{inner: resp.Body, live: t.permit.Live, count: func(n int) error { return t.permit.Transferred(int64(n), 0) }, cancel: cancel, left: left, of: what,
		coded: func(err error) error { return failure(ctx, secrets.err(err), what) }})
	secrets.header(resp.Header)
	resp.Trailer = nil // it comes after the searched body
	resp.Request = req
	return resp, nil
}

func (t *Transport) timeout() time.Duration {
	if d := t.permit.Limits().RequestTimeout; d > 0 {
		return d
	}
	return DefaultTimeout
}

// connect resolves and decides, and gives a transport for one request that can
// dial nothing but the addresses decided on.
func (t *Transport) connect(ctx context.Context, to tool.Target, sending int64) (*http.Transport, error) {
	if _, err := netip.ParseAddr(to.Host); err != nil && to.Host != "localhost" {
		t.permit.Note(tool.Happened{Effect: tool.NetworkDNS, On: to.Host})
	}
	addrs, err := t.lookup(ctx, to.Host)
	if err != nil {
		return nil, err
	}
	addrs = unique(addrs)
	if len(addrs) == 0 {
		return nil, fault.New(fault.NotFound, "the host %q has no address", to.Host)
	}
	if err := t.permit.Check(tool.Action{Kind: tool.Network, Target: to, Addrs: addrs}); err != nil {
		return nil, err
	}
	return t.over(to, addrs, sending), nil
}

// over gives a transport for one request that dials nothing but addresses that
// were decided on.
func (t *Transport) over(to tool.Target, addrs []netip.Addr, sending int64) *http.Transport {
	return &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := t.dialAny(ctx, addrs, to.Port)
			if err == nil {
				if err := t.permit.Transferred(0, max(sending, 0)); err != nil {
					return nil, errors.Join(err, conn.Close())
				}
				t.permit.Note(tool.Happened{Effect: tool.NetworkHTTP, On: to.String(), Bytes: sending})
			}
			return conn, err
		},
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, ServerName: to.Host, RootCAs: t.roots},
		ForceAttemptHTTP2:      true,
		DisableKeepAlives:      true, // a connection that was decided for one request serves no other
		MaxResponseHeaderBytes: MaxHeaderBytes,
	}
}

// dialAny tries the addresses in turn while the call lasts.
func (t *Transport) dialAny(ctx context.Context, addrs []netip.Addr, port uint16) (net.Conn, error) {
	if !t.permit.Live() {
		return nil, fault.New(fault.HandleRefused, "the call that this connection belongs to is over")
	}
	return DialChecked(ctx, t.dial, addrs, port)
}

// body is a response's body: bounded in bytes and time, and dead with its permit.
type body struct {
	inner  io.ReadCloser
	live   func() bool
	count  func(n int) error  // counts received bytes; an error at the limit
	coded  func(error) error  // gives a failed read its code
	cancel context.CancelFunc // ends the request
	left   int64
	of     string
}

func (b *body) Read(p []byte) (int, error) {
	if !b.live() {
		return 0, fault.New(fault.HandleRefused, "%s: the call that this response belongs to is over", b.of)
	}
	if b.left <= 0 {
		return b.beyond()
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.inner.Read(p)
	b.left -= int64(n)
	if over := b.count(n); over != nil {
		return 0, over
	}
	if err != nil && err != io.EOF {
		err = b.coded(err)
	}
	return n, err
}

// beyond tells a response that ends at its limit from one that goes on.
func (b *body) beyond() (int, error) {
	var one [1]byte
	for {
		n, err := b.inner.Read(one[:])
		switch {
		case n > 0:
			return 0, fault.New(fault.LimitReached, "%s: the response is larger than network.max_bytes allows", b.of)
		case err == io.EOF:
			return 0, io.EOF
		case err != nil:
			return 0, b.coded(err)
		}
	}
}

func (b *body) Close() error {
	b.cancel() // first, so that closing does not wait for a slow sender
	return b.inner.Close()
}

// failure gives an error its code, and a message that is fit to be shown: what
// failed, without the query of a URL, and a bounded reason.
func failure(ctx context.Context, err error, what string) error {
	var coded *fault.Error
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(context.Cause(ctx), fault.ToolTimeout), errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.Wrap(fault.ToolTimeout, err, "%s: no complete answer in time", what)
	case ctx.Err() != nil:
		return fault.Wrap(fault.ToolCancelled, err, "%s: cancelled", what)
	}
	const most = 300
	reason := strings.ToValidUTF8(err.Error(), "?")
	if len(reason) > most {
		reason = strings.ToValidUTF8(reason[:most], "") + "…"
	}
	return fault.Wrap(fault.ToolFailed, err, "%s: %q", what, reason)
}
