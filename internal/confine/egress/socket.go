package egress

import (
	"context"
	"errors"
	"net"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// ServeSocket is Serve for a listener that stands for a Unix socket of the host. Each connection
// is decided and recorded by the socket's path. Only bytes pass: no descriptors and no
// credentials of processes.
func (p *Proxy) ServeSocket(path string, l net.Listener) error {
	if path == sandbox.AgentAt {
		return p.accept(l, p.serveAgent)
	}
	return p.accept(l, func(ctx context.Context, conn net.Conn) { p.serveSocket(ctx, conn, path) })
}

func (p *Proxy) serveSocket(ctx context.Context, conn net.Conn, path string) {
	rec := p.begin("unix")
	err := p.joinSocket(ctx, conn, rec, path)
	p.end(rec, err)
}

// joinSocket decides on one connection, and joins it with one to the host's socket.
func (p *Proxy) joinSocket(ctx context.Context, conn net.Conn, rec *record, path string) error {
	to, err := target.Socket("unix:" + path)
	if err != nil {
		return deny("default", fault.Message(err))
	}
	rec.to(to)
	v, err := p.decide(ctx, tool.Action{Kind: tool.Network, Target: to})
	if err != nil {
		return err
	}
	rec.allowed(v)
	one, cancel := context.WithTimeout(ctx, p.limits.Connect)
	defer cancel()
	up, err := network.DialSocket(one, path)
	if errors.Is(err, fault.HandleRefused) {
		return deny("default", fault.Message(err))
	}
	if err != nil {
		return failed("the socket cannot be reached")
	}
	defer func() { _ = up.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = up.Close() })
	defer stop()
	rec.socket = true
	return p.tunnel(ctx, newStream(conn), rec, nil, up)
}
