package egress

import (
	"context"
	"crypto/rand"
	"io"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// directStart begins the connections that [Proxy.Expect] was told of. No protocol of the proxy begins so.
const directStart = 0xfe

// helloSize is the size of their first bytes.
const helloSize = 1 + 16

// expected are the connections that have not come yet, by their first bytes.
type expected struct {
	mu   sync.Mutex
	next int
	list map[[helloSize]byte]expectation
}

type expectation struct {
	to     tool.Target
	number int
}

// maxExpected bounds them. The older half is forgotten then: a connection comes at once, or not at all.
const maxExpected = 1024

func (e *expected) add(to tool.Target) (hello [helloSize]byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) >= maxExpected {
		maps.DeleteFunc(e.list, func(_ [helloSize]byte, one expectation) bool { return one.number <= e.next-maxExpected/2 })
	}
	if e.list == nil {
		e.list = map[[helloSize]byte]expectation{}
	}
	_, _ = rand.Read(hello[:]) // never an error: without randomness the program ends
	hello[0] = directStart
	e.next++
	e.list[hello] = expectation{to, e.next}
	return hello
}

func (e *expected) take(hello [helloSize]byte) (tool.Target, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one, ok := e.list[hello]
	delete(e.list, hello)
	return one.to, ok
}

// Expect implements [sandbox.DirectProxy]. It refuses at once where nothing could be allowed.
func (p *Proxy) Expect(host string, port uint16) (hello []byte, forget func(), err error) {
	if p.isClosed() {
		return nil, nil, deny(ruleOver, "the call that this belongs to is over")
	}
	rec := p.begin(sandbox.ViaDirect)
	to, err := target.ParseTCP(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if err != nil {
		err = malformed(fault.Message(err))
	} else {
		rec.to(to)
		err = p.unreachable(to)
	}
	if err != nil {
		switch to.Port { // as for an allowed connection
		case 443:
			rec.Protocol = "tls"
		case 80:
			rec.Protocol = "http"
		}
		p.tunnelEnds(rec, err)
		return nil, nil, err
	}
	first := p.expects.add(to)
	return first[:], func() { p.expects.take(first) }, nil
}

// hello reads the first bytes of a connection, and gives the host and port that it is meant for.
func (p *Proxy) hello(s *stream) (tool.Target, bool) {
	var first [helloSize]byte
	if _, err := io.ReadFull(s.br, first[:]); err != nil {
		return tool.Target{}, false
	}
	return p.expects.take(first)
}

// unreachable refuses a host and port for which the policies have no allow or ask entry.
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
	rec := p.begin(sandbox.ViaDirect)
	p.serveTunnel(ctx, s, rec, to, func(no *refusal) bool {
		if no != nil {
			p.refuseDirect(s, rec, no)
		}
		return no == nil
	})
}

// refusalTime is how long a refused program has to say which protocol it speaks.
const refusalTime = 5 * time.Second

// Alerts of TLS (RFC 8446).
const (
	tlsDenied   = 49 // access_denied
	tlsInternal = 80 // internal_error
)

// refuseDirect answers in the program's own protocol: HTTP, or an alert of TLS. Others find the connection reset.
func (p *Proxy) refuseDirect(s *stream, rec *record, no *refusal) {
	s.arm(refusalTime)
	first, err := s.br.Peek(1)
	switch {
	case err == nil && first[0] == tlsHandshake:
		alert := []byte{21, 3, 3, 0, 2, 2, tlsDenied}
		if no.failure {
			alert[6] = tlsInternal
		}
		_, _ = s.conn.Write(alert) // it is refused whatever the program gets
	case err == nil && first[0] >= 'A' && first[0] <= 'Z':
		if h, err := readHead(s.br); err == nil {
			rec.Method = h.method
			p.say(s, rec, no, true)
		}
	default:
		if c, ok := s.conn.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // it is closed next
		}
		return
	}
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, s.br, maxHead) // with unread bytes the kernel would drop the answer
	}
}
