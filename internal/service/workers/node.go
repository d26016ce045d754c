package workers

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/remote"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
)

// joinRequest is a worker's request to join, and joinAnswer the answer to it.
type joinRequest struct {
	Token   string `json:"token"`
	Request []byte `json:"request"` // for a certificate, PKCS #10
}

type joinAnswer struct {
	Certificate []byte        `json:"certificate,omitempty"`
	Refusal     *wire.Refusal `json:"refusal,omitempty"`
}

// Parts are what commands on workers need of the node.
type Parts struct {
	Overlay func(lower, upper, work string) (int, error)
	Egress  func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error)
}

// Node takes the connections of workers.
type Node struct {
	Hub *remote.Hub
	URL string // where workers join

	s    *Workers
	a    authority
	conf *tls.Config
}

const (
	handshakeTime = 10 * time.Second
	maxHandshakes = 64
	maxJoin       = 64 << 10
)

// Node makes the node's side.
func (s *Workers) Node(name string, p Parts) (*Node, error) {
	a, err := s.authority()
	if err != nil {
		return nil, err
	}
	der, key, err := a.nodeCertificate(time.Now())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &Node{s: s, a: a,
		Hub: remote.New(remote.Config{Key: a.key, Node: name, Overlay: p.Overlay, Egress: p.Egress, Leaf: s.leaf}),
		conf: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS13, ClientAuth: tls.VerifyClientCertIfGiven,
			ClientCAs: pool, NextProtos: []string{wire.WorkProtocol, wire.JoinProtocol}, SessionTicketsDisabled: true}}, nil
}

// Listen takes workers at an address until stop is called. "" as the address: none are taken,
// and the Node is nil.
func (s *Workers) Listen(ctx context.Context, addr string, p Parts) (n *Node, stop func(), err error) {
	if addr == "" {
		return nil, nil, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, fault.Wrap(fault.Usage, err, "cannot listen for workers on %q: %v", addr, err).WithHint("expected an address such as 127.0.0.1:8643")
	}
	if n, err = s.Node(l.Addr().String(), p); err != nil {
		_ = l.Close()
		return nil, nil, err
	}
	n.URL = "https://" + l.Addr().String()
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { n.Serve(ctx, l) })
	return n, func() { cancel(); serving.Wait() }, nil
}

// Count tells how many workers are connected, and how many commands they run for this node. A
// nil Node has none.
func (n *Node) Count() (connected, calls int) {
	if n == nil {
		return 0, 0
	}
	for _, w := range n.Hub.Workers() {
		connected++
		calls += w.Calls
	}
	return connected, calls
}

// leaf looks up the intent that a permit token rests on.
func (s *Workers) leaf(ctx context.Context, seq uint64) (string, tool.Digest, error) {
	st, err := s.Store(ctx)
	if err != nil {
		return "", tool.Digest{}, err
	}
	for e, err := range st.Events(ctx, ledger.Seq(seq)) {
		if err != nil {
			return "", tool.Digest{}, err
		}
		if e.Seq != ledger.Seq(seq) || e.Event.Kind != ledger.CallIntent {
			break
		}
		b, err := ledger.Encode(&e.Event)
		return st.Origin(), tool.Digest(tlog.RecordHash(b)), err
	}
	return "", tool.Digest{}, fault.New(fault.StoreFailed, "the intent %d is not in the ledger, so no worker may carry it out", seq)
}

// Serve takes workers on a listener until ctx ends.
func (n *Node) Serve(ctx context.Context, l net.Listener) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	all.Go(func() { n.watch(ctx) })
	slots := make(chan struct{}, maxHandshakes)
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			time.Sleep(100 * time.Millisecond) // too many files are open, or the like
			continue
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			_ = conn.Close()
			return
		}
		all.Go(func() { n.admit(ctx, conn, sync.OnceFunc(func() { <-slots })) })
	}
}

// admit finds out who connects. done is called once that is known.
func (n *Node) admit(ctx context.Context, raw net.Conn, done func()) {
	defer done()
	conn := tls.Server(raw, n.conf)
	defer func() { _ = conn.Close() }() // it may have ended by itself
	_ = conn.SetDeadline(time.Now().Add(handshakeTime))
	if conn.HandshakeContext(ctx) != nil {
		return
	}
	switch s := conn.ConnectionState(); {
	case s.NegotiatedProtocol == wire.JoinProtocol:
		n.join(ctx, conn)
	case s.NegotiatedProtocol == wire.WorkProtocol && len(s.VerifiedChains) > 0:
		id, err := identityOf(s.PeerCertificates[0])
		if err != nil || !n.mayConnect(id, s.PeerCertificates[0]) {
			return
		}
		_ = conn.SetDeadline(time.Time{})
		done()
		n.Hub.Attach(ctx, conn, id)
	}
}

// join answers a worker that wants to join, or to renew its certificate.
func (n *Node) join(ctx context.Context, conn *tls.Conn) {
	var q joinRequest
	if wire.Read(bufio.NewReader(io.LimitReader(conn, maxJoin)), &q) != nil {
		return
	}
	var cert []byte
	var err error
	if s := conn.ConnectionState(); q.Token == "" && len(s.VerifiedChains) > 0 {
		cert, err = n.s.renew(n.a, s.PeerCertificates[0], q)
	} else {
		cert, err = n.s.admit(ctx, n.a, q)
	}
	a := joinAnswer{Certificate: cert}
	if err != nil {
		a.Refusal = &wire.Refusal{Code: fault.CodeOf(err), Message: fault.Message(err)}
	}
	_ = wire.Write(conn, a) // the worker may have gone; its token is used
}

// mayConnect reports whether a worker may connect. One that joined at another node is added.
func (n *Node) mayConnect(id remote.Identity, c *x509.Certificate) bool {
	key := hex.EncodeToString(id.Key)
	ok := true
	err := n.s.change(func(st *state) error {
		i := slices.IndexFunc(st.Workers, func(w Worker) bool { return w.Key == key })
		if i < 0 {
			st.Workers = append(st.Workers, Worker{Name: id.Name, Labels: id.Labels, Key: key, Joined: c.NotBefore, Until: c.NotAfter})
			i = len(st.Workers) - 1
		}
		if ok = st.Workers[i].Removed.IsZero(); ok {
			st.Workers[i].Seen = time.Now().UTC()
		}
		return nil
	})
	return ok && err == nil
}

// watch ends the connections of removed workers, and notes which are connected.
func (n *Node) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	noted := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		here := n.Hub.Workers()
		if len(here) == 0 {
			continue
		}
		list, err := n.s.List()
		if err != nil {
			continue // the next look may succeed
		}
		for _, w := range list {
			if key, err := hex.DecodeString(w.Key); err == nil && !w.Removed.IsZero() {
				n.Hub.Drop(ed25519.PublicKey(key))
			}
		}
		if time.Since(noted) >= seenEvery {
			noted = time.Now()
			_ = n.s.change(func(st *state) error { // the list then says that it is away
				for i := range st.Workers {
					if slices.ContainsFunc(here, func(c remote.Connected) bool { return c.Name == st.Workers[i].Name }) && st.Workers[i].Removed.IsZero() {
						st.Workers[i].Seen = noted.UTC()
					}
				}
				return nil
			})
		}
	}
}
