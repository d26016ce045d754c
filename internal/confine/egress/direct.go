package egress

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// viaDirect marks connections of programs that know no proxy.
const viaDirect = "direct"

// expected are the connections that [Proxy.Expect] was told of.
type expected struct {
	mu   sync.Mutex
	next int
	list map[netip.AddrPort]expectation
}

type expectation struct {
	number int
	to     tool.Target
}

// maxExpected bounds the connections that did not come.
const maxExpected = 4096

func (e *expected) add(from netip.AddrPort, to tool.Target) (forget func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.list == nil || len(e.list) >= maxExpected {
		e.list = map[netip.AddrPort]expectation{}
	}
	e.next++
	number := e.next
	e.list[from] = expectation{number, to}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.list[from].number == number {
			delete(e.list, from)
		}
	}
}

// take gives the target of a connection.
func (e *expected) take(conn net.Conn) (tool.Target, bool) {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return tool.Target{}, false
	}
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok := e.list[from]
	delete(e.list, from)
	return one.to, ok
}

// Expect implements [sandbox.DirectProxy]. It refuses at once where nothing could be allowed.
func (p *Proxy) Expect(from netip.AddrPort, host string, port uint16) (forget func(), err error) {
	if p.isClosed() {
		return nil, deny(ruleOver, "the call that this belongs to is over")
	}
	to, err := target.ParseTCP(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		p.log.add(sandbox.Connection{Start: time.Now(), Via: viaDirect, Rule: ruleProtocol, Reason: fault.Message(err)})
		return nil, err
	}
	if err := p.unreachable(to); err != nil {
		rec := p.begin(viaDirect)
		rec.to(to)
		p.tunnelEnds(rec, err)
		return nil, err
	}
	return p.expects.add(from, to), nil
}

// unreachable returns the refusal if no connection to a host and port can be allowed, and nobody is asked.
func (p *Proxy) unreachable(to tool.Target) error {
	secure, open := to, to
	secure.Scheme, open.Scheme = "https", "http"
	for _, t := range []tool.Target{to, secure} {
		if p.chain.DecideAction(tool.Action{Kind: tool.Network, Target: t}).Effect != policy.Deny {
			return nil
		}
	}
	if p.chain.MayReach(open) || p.chain.MayReach(secure) && p.chain.Inspects(secure) {
		return nil
	}
	if to.Port == 80 {
		_, err := p.decide(context.Background(), tool.Action{Kind: tool.Network, Target: open})
		return err
	}
	_, err := p.route(context.Background(), to)
	return err
}

// serveDirect serves a connection that is meant for a host and port.
func (p *Proxy) serveDirect(ctx context.Context, s *stream, to tool.Target) {
	rec := p.begin(viaDirect)
	p.serveTunnel(ctx, s, rec, to, func(no *refusal) bool {
		if no != nil {
			p.refuseDirect(s, rec, no)
		}
		return no == nil
	})
}

// refusalTime is how long a refused program has to say which protocol it speaks.
const refusalTime = time.Second

// refuseDirect answers in the program's own protocol: HTTP, or the alert access_denied of TLS (RFC 8446). Others find the connection
// closed.
func (p *Proxy) refuseDirect(s *stream, rec *record, no *refusal) {
	s.arm(refusalTime)
	first, err := s.br.Peek(1)
	switch {
	case err != nil:
	case first[0] == tlsHandshake:
		_, _ = s.conn.Write([]byte{21, 3, 3, 0, 2, 2, 49}) // it is refused whatever the program gets
	case first[0] >= 'A' && first[0] <= 'Z':
		if h, err := readHead(s.br); err == nil {
			rec.Method = h.method
			p.say(s, rec, no, true)
		}
	}
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, s.br, maxHead) // what is not read makes the kernel drop the answer
	}
}
