package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// buffers are for copying where the kernel cannot do it alone.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// outside is a connection to a host, kept for the next request to it.
type outside struct {
	conn net.Conn // nil: none
	br   *bufio.Reader
	head *capped
	key  string // scheme, host and port
	addr netip.Addr
	used bool // it has served a request
	last time.Time
}

// fresh is how long ago a connection may have served its last request to be
// trusted with one that cannot be repeated.
const fresh = 2 * time.Second

// repeatable reports whether a request may be sent again when the connection
// turns out to be dead.
func repeatable(h *head, t tool.Target) bool {
	return !h.hasBody() && slices.Contains([]string{"GET", "HEAD", "OPTIONS"}, t.Method)
}

func (o *outside) close() {
	if o.conn != nil {
		_ = o.conn.Close()
	}
	*o = outside{}
}

// silent reports whether the host has sent nothing after its last response, and
// has not closed the connection. Unsolicited bytes would be taken for the response
// to the next request. They can be in the buffer, decrypted or in the socket.
func (o *outside) silent() bool {
	c, ok := o.conn.(timed)
	if !ok || o.br.Buffered() > 0 || !emptySocket(c.Conn) || c.SetReadDeadline(time.Unix(1, 0)) != nil {
		return false
	}
	o.head.r = c.Conn // without timed, which would set another deadline
	defer func() { o.head.r = c }()
	_, err := o.br.Peek(1) // the deadline has passed, so the socket is not read
	return isTimeout(err)
}

// emptySocket reports whether a connection's socket is open and has nothing to read.
func emptySocket(conn net.Conn) bool {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	var one [1]byte
	var got error
	err = raw.Control(func(fd uintptr) { _, _, got = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK) })
	return err == nil && errors.Is(got, syscall.EAGAIN)
}

// timed gives every read and write of a connection a time.
type timed struct {
	net.Conn
	idle time.Duration
}

func (t timed) Read(p []byte) (int, error) {
	if err := t.SetReadDeadline(time.Now().Add(t.idle)); err != nil {
		return 0, err
	}
	return t.Conn.Read(p)
}

func (t timed) Write(p []byte) (int, error) {
	if err := t.SetWriteDeadline(time.Now().Add(t.idle)); err != nil {
		return 0, err
	}
	return t.Conn.Write(p)
}

// exchange decides one request, sends it and relays the response. It reports
// whether the connection goes on.
func (p *Proxy) exchange(ctx context.Context, s *stream, h *head, rec *record, req request, out *outside) bool {
	fields, err := p.prepare(ctx, h, rec, req.to)
	if err != nil {
		return p.refuse(s, h, rec, err)
	}
	call := ctx
	if p.limits.Request > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.limits.Request)
		defer cancel()
	}
	resp, up, err := p.roundTrip(ctx, s, h, rec, req, fields, out)
	if resp != nil {
		defer func() { _ = resp.Body.Close() }() // it was read, or its connection is closed by then
	}
	if err == nil && resp.ContentLength > 0 && rec.flow.most > 0 && resp.ContentLength > rec.flow.most && req.to.Method != http.MethodHead {
		err = deny(ruleResponse, "the response is larger than network.max_bytes allows")
	}
	if err != nil {
		err = inTime(ctx, err)
		out.close()
		up.abandon(s)
		if up != nil {
			h.ends = true // the rest of the body may still come
		}
		return p.refuse(s, h, rec, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		err := p.switchProtocols(call, s, rec, req.to, resp, out)
		out.close()
		p.end(rec, inTime(call, err))
		return false
	}
	keep, err := p.relay(ctx, s, h, rec, resp, out.conn)
	if err != nil || resp.Close || !up.finished() || !out.silent() {
		out.close()
		keep = keep && up.finished()
	}
	up.abandon(s)
	out.last = time.Now()
	p.end(rec, inTime(ctx, err))
	return keep && err == nil
}

// inTime says of an error that the time ran out, where it did.
func inTime(ctx context.Context, err error) error {
	var r *refusal
	if err != nil && !errors.As(err, &r) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// prepare decides a request by name and gives the fields to send.
func (p *Proxy) prepare(ctx context.Context, h *head, rec *record, t tool.Target) ([]field, error) {
	v, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: t})
	if err != nil {
		return nil, err
	}
	fields, err := h.forwarded()
	if err != nil {
		return nil, err
	}
	if t.Scheme == "https" || isLoopback(t.Host) {
		if fields, err = p.secrets(h, t, fields); err != nil {
			return nil, err
		}
	}
	rec.allowed(v)
	return p.webSocket(ctx, h, t, fields)
}

// roundTrip sends a request and reads the response's head. A kept connection
// that turns out to be dead is replaced once, where that repeats nothing.
func (p *Proxy) roundTrip(ctx context.Context, s *stream, h *head, rec *record, req request, fields []field, out *outside) (*http.Response, *upload, error) {
	if !repeatable(h, req.to) && time.Since(out.last) > fresh {
		out.close()
	}
	for {
		if err := p.dialFor(ctx, rec, req.to, out); err != nil {
			return nil, nil, err
		}
		resp, up, err := p.try(ctx, s, h, rec, req, fields, out)
		var r *refusal
		again := err != nil && out.used && ctx.Err() == nil && !errors.As(err, &r) && repeatable(h, req.to)
		if !again {
			out.used = true
			return resp, up, err
		}
		out.close()
	}
}

// dialFor decides with addresses and gives a connection for a request, the
// kept one if it leads there.
func (p *Proxy) dialFor(ctx context.Context, rec *record, t tool.Target, out *outside) error {
	key := t.Scheme + "://" + t.HostPort()
	if out.conn != nil && out.key == key && out.silent() {
		rec.Addr = out.addr
		v, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: t, Addrs: []netip.Addr{out.addr}})
		rec.allowed(v)
		return err
	}
	out.close()
	conn, addr, v, err := p.reach(ctx, t)
	if err != nil {
		return err
	}
	rec.allowed(v)
	rec.Addr = addr
	if t.Scheme == "https" {
		if conn, err = p.secure(ctx, conn, t.Host); err != nil {
			return err
		}
	}
	c := timed{conn, p.limits.Idle}
	head := &capped{r: c, left: -1}
	*out = outside{conn: c, br: bufio.NewReaderSize(head, 16<<10), head: head, key: key, addr: addr}
	return nil
}

// secure makes a TLS connection to a host and verifies that it is that host.
func (p *Proxy) secure(ctx context.Context, conn net.Conn, host string) (net.Conn, error) {
	c := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: p.roots, NextProtos: []string{"http/1.1"}})
	one, cancel := context.WithTimeout(ctx, p.limits.Connect)
	defer cancel()
	if err := c.HandshakeContext(one); err != nil {
		_ = conn.Close()
		var bad *tls.CertificateVerificationError
		if errors.As(err, &bad) {
			return nil, failed("the host's certificate does not prove that it is that host")
		}
		return nil, failed("no TLS connection with the host came about")
	}
	return c, nil
}

func (p *Proxy) try(ctx context.Context, s *stream, h *head, rec *record, req request, fields []field, out *outside) (*http.Response, *upload, error) {
	conn := out.conn
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop() // the relay has its own
	head := writeHead(h, req, fields)
	if err := rec.flow.send(ctx, len(head)); err != nil {
		return nil, nil, err
	}
	if _, err := conn.Write(head); err != nil {
		return nil, nil, err
	}
	up := p.upload(ctx, s, h, rec, conn)
	resp, err := readResponse(out, h, req.to.Method)
	if err != nil {
		if why := up.failure(); why != nil {
			err = why
		}
		return nil, up, err
	}
	return resp, up, nil
}

// writeHead writes the request that was decided, in one way only.
func writeHead(h *head, req request, fields []field) []byte {
	var b strings.Builder
	b.WriteString(req.to.Method + " " + req.url.RequestURI() + " HTTP/1.1\r\nHost: " + req.url.Host + "\r\n")
	for _, f := range fields {
		b.WriteString(f.name + ": " + f.value + "\r\n")
	}
	switch {
	case h.chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case h.length >= 0:
		b.WriteString("Content-Length: " + strconv.FormatInt(h.length, 10) + "\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}

// readResponse reads a response's head, and passes over interim ones.
func readResponse(out *outside, h *head, method string) (*http.Response, error) {
	for range 10 {
		out.head.left = network.MaxHeaderBytes
		resp, err := http.ReadResponse(out.br, &http.Request{Method: method})
		if err != nil {
			var r *refusal
			if errors.As(err, &r) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isNet(err) {
				return nil, err
			}
			return nil, failed("the host's answer is not HTTP/1.1")
		}
		out.head.left = -1
		switch {
		case h.agrees(resp):
			return resp, nil
		case resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, failed("the host switched protocols, which nobody asked for")
		case resp.StatusCode >= 200:
			return resp, nil
		}
	}
	return nil, failed("the host sends interim answers only")
}

func isNet(err error) bool {
	var n net.Error
	return errors.As(err, &n)
}

// relay writes a response to the sandbox. It reports whether another response may
// follow, because the end of this one is clear.
func (p *Proxy) relay(ctx context.Context, s *stream, h *head, rec *record, resp *http.Response, from net.Conn) (keep bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = from.Close() })
	defer stop()
	rec.Status = resp.StatusCode
	none := rec.Method == http.MethodHead || resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified
	chunked := !none && resp.ContentLength < 0 && h.minor == 1
	keep = !h.ends && (none || chunked || resp.ContentLength >= 0)
	head, err := responseHead(resp, none, chunked, keep)
	if err != nil {
		return false, err
	}
	if err := rec.flow.pass(ctx, &rec.flow.in, len(head)); err != nil {
		return false, err
	}
	w := bufio.NewWriterSize(timed{s.conn, p.limits.Idle}, 16<<10)
	_, _ = w.WriteString(head) // its error comes back at the flush
	if none {
		return keep, w.Flush()
	}
	if err := p.copyBody(ctx, w, resp.Body, rec, chunked); err != nil {
		return false, err
	}
	return keep, w.Flush()
}

// copyBody passes a response's body on as it comes.
func (p *Proxy) copyBody(ctx context.Context, w *bufio.Writer, from io.Reader, rec *record, chunked bool) error {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		n, err := from.Read(buf[:p.meter.step()])
		if n > 0 {
			if !p.permit.Live() {
				return deny(ruleOver, "the call that this belongs to is over")
			}
			if err := rec.flow.receive(ctx, n); err != nil {
				return err
			}
			if chunked {
				_, _ = w.WriteString(strconv.FormatInt(int64(n), 16) + "\r\n")
			}
			_, _ = w.Write(buf[:n])
			if chunked {
				_, _ = w.WriteString("\r\n")
			}
			if err == nil || !chunked { // the end of a body goes with its last bytes
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
		switch {
		case err == io.EOF:
			if chunked {
				_, _ = w.WriteString("0\r\n\r\n")
			}
			return nil
		case err != nil:
			return err
		}
	}
}

// responseHead writes a response's head, in one way only.
func responseHead(resp *http.Response, none, chunked, keep bool) (string, error) {
	var b strings.Builder
	b.WriteString("HTTP/1.1 " + strconv.Itoa(resp.StatusCode) + " " + http.StatusText(resp.StatusCode) + "\r\n")
	if err := writeFields(&b, resp.Header); err != nil {
		return "", err
	}
	switch {
	case chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	case resp.ContentLength >= 0 && (!none || resp.ContentLength > 0):
		b.WriteString("Content-Length: " + strconv.FormatInt(resp.ContentLength, 10) + "\r\n")
	}
	if !keep {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	return b.String(), nil
}
