package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// serveConnect serves a CONNECT request, the connection's last one.
func (p *Proxy) serveConnect(ctx context.Context, s *stream, h *head) {
	rec := p.begin("connect")
	to, err := target.ParseTCP(h.uri)
	switch {
	case err != nil:
		err = malformed(fault.Message(err))
	case h.hasBody():
		err = malformed("a CONNECT request has no body")
	case h.hosts == 1 && !sameAuthority(h.host, to):
		err = malformed("the Host is not the one that the request is for")
	}
	if err != nil {
		p.say(s, rec, asRefusal(err), true)
		p.end(rec, err)
		return
	}
	p.serveTunnel(ctx, s, rec, to, func(no *refusal) bool {
		if no != nil {
			return p.say(s, rec, no, true)
		}
		_, err := io.WriteString(s.conn, "HTTP/1.1 200 Connection established\r\n\r\n")
		return err == nil
	})
}

// sameAuthority compares the Host of a CONNECT, which some programs write
// without the port.
func sameAuthority(host string, to tool.Target) bool {
	if t, err := target.ParseTCP(host); err == nil {
		return t == to
	}
	t, err := target.ParseTCP(host + ":1")
	return err == nil && t.Host == to.Host
}

// route has the protocols that may pass through a tunnel to a host and port. The
// first bytes show the protocol; any other is refused.
type route struct {
	verdict
	to      tool.Target // the subject of the verdict, if there is one
	raw     bool        // any bytes
	tls     bool        // TLS for the host
	inspect bool        // TLS that is opened, each request to be decided
	plain   bool        // plain HTTP, each request to be decided
}

// known reports whether it is decided without the sandbox's first bytes.
func (r route) known() bool { return r.raw || r.tls && !r.plain }

// route decides on a host and port by name.
func (p *Proxy) route(ctx context.Context, to tool.Target) (route, error) {
	secure, open := to, to
	secure.Scheme, open.Scheme = "https", "http"
	network := func(t tool.Target) tool.Action { return tool.Action{Kind: tool.Network, Target: t} }
	may := func(t tool.Target) bool { return p.permit.Check(network(t)) == nil }

	var r route
	reachable, inspected := p.chain.MayReach(secure), p.chain.Inspects(secure)
	switch {
	case may(to):
		r.raw, r.to = true, to
	case inspected:
		r.inspect = reachable && p.permit.Live()
	case may(secure):
		r.tls, r.to = true, secure
	}
	r.plain = !r.raw && p.chain.MayReach(open) && p.permit.Live()
	if r.inspect || r.plain && !r.tls {
		return r, nil
	}
	if r.raw || r.tls {
		v, err := p.decide(ctx, network(r.to))
		r.verdict = v
		return r, err
	}
	// Nothing is allowed outright: it is asked about, or refused.
	v, err := p.decide(ctx, network(to))
	if err == nil {
		return route{verdict: v, to: to, raw: true}, nil
	}
	first := err
	v, err = p.decide(ctx, network(secure))
	switch {
	case err == nil && inspected:
		return route{}, deny("default", "the tunnel must be inspected, and nothing inside can be allowed")
	case err == nil:
		return route{verdict: v, to: secure, tls: true}, nil
	}
	if p.chain.DecideAction(network(to)).Effect == policy.Ask {
		return route{}, first
	}
	no := *asRefusal(err)
	if no.hint != "" {
		no.hint = p.chain.NetworkHint(network(to)) // it may not be TLS
	}
	if reachable && no.rule == "default" {
		no.reason += ": entries with a method or a path need inspect: true for TLS"
		no.hint = "write the entry as {url: ..., inspect: true}"
	}
	return route{}, &no
}

// serveTunnel decides on a tunnel, answers, and passes on the permitted bytes.
func (p *Proxy) serveTunnel(ctx context.Context, s *stream, rec *record, to tool.Target, answer func(*refusal) bool) {
	rec.to(to)
	r, err := p.route(ctx, to)
	if err != nil && to.Port == 443 {
		rec.Protocol = "tls" // as for an allowed tunnel
	}
	var up net.Conn
	if err == nil && r.known() {
		rec.allowed(r.verdict)
		rec.to(r.to)
		up, rec.Addr, r.verdict, err = p.reach(ctx, r.to)
	}
	s.arm(p.limits.Header)
	if err != nil {
		answer(asRefusal(err))
		p.tunnelEnds(rec, err)
		return
	}
	if up != nil {
		defer func() { _ = up.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = up.Close() })
		defer stop()
		rec.allowed(r.verdict)
	}
	if !answer(nil) {
		p.tunnelEnds(rec, failed("the sandbox went away"))
		return
	}
	if r.raw {
		p.tunnelEnds(rec, p.tunnel(ctx, s, rec, nil, up))
		return
	}
	p.serveSniffed(ctx, s, rec, r, to, up)
}

// tunnelEnds closes a tunnel's record. The protocol of a tunnel for TLS is tls.
func (p *Proxy) tunnelEnds(rec *record, err error) {
	if rec.Protocol == "https" && rec.Method == "" {
		rec.Protocol = "tls"
	}
	p.end(rec, err)
}

// tlsHandshake is the type of a TLS record that begins a connection, RFC 8446.
const tlsHandshake = 22

// serveSniffed looks at the first byte to tell TLS from plain HTTP.
func (p *Proxy) serveSniffed(ctx context.Context, s *stream, rec *record, r route, to tool.Target, up net.Conn) {
	first, err := s.br.Peek(1)
	isTLS := err == nil && first[0] == tlsHandshake
	switch {
	case err != nil:
		switch {
		case up != nil: // a connection was made, and is recorded
			p.tunnelEnds(rec, err)
		case rec.Via == sandbox.ViaDirect && isTimeout(err):
			p.tunnelEnds(rec, deny(ruleProtocol, "the program waited for the host's first bytes; such protocols need an entry with tcp://"))
		}
	case isTLS && r.inspect:
		p.inspect(ctx, s, rec, to)
	case isTLS && r.tls:
		p.tunnelEnds(rec, p.tunnelTLS(ctx, s, rec, r, up))
	case !isTLS && r.plain && first[0] > ' ' && first[0] < 0x7f:
		p.serveOrigin(ctx, s, rec.Via, "http", to)
	case isTLS:
		p.tunnelEnds(rec, deny(ruleProtocol, "TLS is not allowed there, only plain HTTP"))
	default:
		p.tunnelEnds(rec, deny(ruleProtocol, "what was sent is not TLS; other protocols need an entry with tcp://"))
	}
}

// tunnelTLS lets TLS pass whose ClientHello names the host decided on.
func (p *Proxy) tunnelTLS(ctx context.Context, s *stream, rec *record, r route, up net.Conn) error {
	hello, err := readHello(s, r.to.Host)
	if err != nil {
		return err
	}
	if up == nil { // plain HTTP would have been possible as well
		rec.to(r.to)
		rec.allowed(r.verdict)
		up, rec.Addr, r.verdict, err = p.reach(ctx, r.to)
		if err != nil {
			return err
		}
		defer func() { _ = up.Close() }()
		stop := context.AfterFunc(ctx, func() { _ = up.Close() })
		defer stop()
	}
	return p.tunnel(ctx, s, rec, hello, up)
}

// pipe is a tunnel while it lasts.
type pipe struct {
	p    *Proxy
	flow *flow
	last atomic.Int64 // when bytes last passed, either way; Unix nanoseconds
}

// tunnel copies both ways until both ends are done. begun are the bytes that were
// already read beyond the buffer.
func (p *Proxy) tunnel(ctx context.Context, s *stream, rec *record, begun []byte, up net.Conn) error {
	if n := s.br.Buffered(); n > 0 {
		rest, _ := s.br.Peek(n) // it is there
		begun = append(begun, rest...)
	}
	_ = s.conn.SetDeadline(time.Time{})
	t := &pipe{p: p, flow: rec.flow}
	t.last.Store(time.Now().UnixNano())
	if len(begun) > 0 {
		if err := t.flow.send(ctx, len(begun)); err != nil {
			return err
		}
		if _, err := (timed{up, p.limits.Idle}).Write(begun); err != nil {
			return err
		}
	}
	ended := make(chan error, 2)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ended <- t.copy(ctx, up, s.conn, false) })
	wg.Go(func() { ended <- t.copy(ctx, s.conn, up, true) })
	return t.watch(ended, func() { _ = up.Close(); _ = s.conn.Close() })
}

// watch waits for the end of both ways. It ends a tunnel in which nothing
// passes, also if the receiver does not read. It returns an error only for a
// reached limit; most tunnels end because one side closes.
func (t *pipe) watch(ended <-chan error, end func()) (why error) {
	tick := time.NewTicker(t.p.limits.Idle)
	defer tick.Stop()
	tell := func(err error) {
		var r *refusal
		if errors.As(err, &r) && why == nil {
			why = r
		}
		if err != nil {
			end()
		}
	}
	for done := 0; done < 2; {
		select {
		case err := <-ended:
			done++
			tell(err)
		case <-tick.C:
			if t.silent(2 * t.p.limits.Idle) {
				tell(idleEnd())
			}
		}
	}
	return why
}

// copy passes bytes one way, and then says that no more come.
func (t *pipe) copy(ctx context.Context, dst, src net.Conn, in bool) error {
	var err error
	fast := !t.p.meter.counts()
	_, a := dst.(*net.TCPConn)
	_, b := src.(*net.TCPConn)
	if fast && a && b {
		err = t.splice(dst, src, in)
	} else {
		err = t.count(ctx, dst, src, in)
	}
	if err != nil {
		return err
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // the other way may go on
		return nil
	}
	return dst.Close()
}

// piece is how much the kernel passes between two looks at the limits.
const piece = 1 << 20

// splice lets the kernel copy. Bytes are counted as they have passed.
func (t *pipe) splice(dst, src net.Conn, in bool) error {
	counter := &t.flow.out
	if in {
		counter = &t.flow.in
	}
	for {
		n := int64(piece)
		if in && t.flow.most > 0 {
			if n = min(n, t.flow.most-t.flow.got); n == 0 {
				return t.beyond(src)
			}
		}
		if err := t.wait(src); err != nil {
			return err
		}
		moved, err := io.Copy(dst, &io.LimitedReader{R: src, N: n})
		counter.Add(moved)
		if in {
			t.flow.got += moved
		}
		if moved > 0 {
			t.last.Store(time.Now().UnixNano())
		}
		switch {
		case err == nil && moved < n:
			return nil
		case err == nil:
		case isTimeout(err):
			if t.silent(t.p.limits.Idle) {
				return idleEnd()
			}
		default:
			return err
		}
	}
}

// look is how often a waiting tunnel looks whether the call still lasts.
const look = 2 * time.Second

// wait gives the next read its time, while the call lasts.
func (t *pipe) wait(src net.Conn) error {
	if !t.p.permit.Live() {
		return deny(ruleOver, "the call that this belongs to is over")
	}
	return src.SetReadDeadline(time.Now().Add(min(t.p.limits.Idle, look)))
}

func (t *pipe) silent(d time.Duration) bool { return time.Since(time.Unix(0, t.last.Load())) >= d }

func idleEnd() error {
	return &refusal{status: http.StatusGatewayTimeout, rule: ruleLimit, failure: true, reason: "nothing passed for too long"}
}

// beyond tells a tunnel that ends at its limit from one that goes on.
func (t *pipe) beyond(src net.Conn) error {
	var one [1]byte
	for {
		if err := t.wait(src); err != nil {
			return err
		}
		n, err := src.Read(one[:])
		switch {
		case n > 0:
			return deny(ruleResponse, "more came in than network.max_bytes allows")
		case err == io.EOF:
			return nil
		case isTimeout(err) && !t.silent(t.p.limits.Idle):
		case err != nil:
			return err
		}
	}
}

// count copies by hand, so that every byte is within the limits before it passes.
func (t *pipe) count(ctx context.Context, dst, src net.Conn, in bool) error {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	for {
		if err := t.wait(src); err != nil {
			return err
		}
		n, err := src.Read(buf[:t.p.meter.step()])
		if n > 0 {
			pass := t.flow.send
			if in {
				pass = t.flow.receive
			}
			if perr := pass(ctx, n); perr != nil {
				return perr
			}
			t.last.Store(time.Now().UnixNano())
			if _, werr := dst.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case isTimeout(err):
			if t.silent(t.p.limits.Idle) {
				return idleEnd()
			}
		case err != nil:
			return err
		}
	}
}
