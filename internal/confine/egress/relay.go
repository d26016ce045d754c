package egress

import (
	"net"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Relay is the way out of a sandbox that lives longer than one call, such as that of a
// browser. Each call has a proxy of its own, with the call's permit, see [Relay.Begin].
// Between calls every connection is closed at once. It implements [sandbox.Proxy].
type Relay struct {
	authority *Authority // of all its proxies, so that the program has to trust one only

	mu       sync.Mutex
	proxy    *Proxy // of the call under way; nil: none is
	listener net.Listener
	closed   bool
}

// NewRelay makes a relay. No call is under way.
func NewRelay() *Relay { return &Relay{authority: NewAuthority(time.Now())} }

// Begin sends later connections through a proxy of a call. The caller must call
// end when the call is over: it cuts every connection and returns the list of them.
func (r *Relay) Begin(o Options) (end func() []sandbox.Connection) {
	o.Authority, o.OneProgram = r.authority, true
	p := New(o)
	r.mu.Lock()
	r.proxy = p
	r.mu.Unlock()
	return func() []sandbox.Connection {
		r.mu.Lock()
		if r.proxy == p {
			r.proxy = nil
		}
		r.mu.Unlock()
		p.Close()
		return p.Connections()
	}
}

// KeyHash identifies the key of the certificates for inspected hosts, as browsers pin it.
func (r *Relay) KeyHash() string { return r.authority.keyHash() }

// Serve implements [sandbox.Proxy].
func (r *Relay) Serve(l net.Listener) error {
	r.mu.Lock()
	r.listener = l
	closed := r.closed
	r.mu.Unlock()
	if closed {
		return l.Close()
	}
	for {
		conn, err := l.Accept()
		r.mu.Lock()
		p, closed := r.proxy, r.closed
		r.mu.Unlock()
		switch {
		case closed:
			if err == nil {
				_ = conn.Close()
			}
			return nil
		case isShort(err):
			time.Sleep(shortPause) // descriptors are short for a moment; nothing announces their return
		case err != nil:
			return err
		case p == nil:
			_ = conn.Close()
		default:
			p.admit(conn, p.serveConn)
		}
	}
}

// ServeSocket implements [sandbox.Proxy]: sockets of the host are for commands only.
func (r *Relay) ServeSocket(_ string, l net.Listener) error { return l.Close() }

// Env implements [sandbox.Proxy].
func (r *Relay) Env(int) map[string]string { return map[string]string{} }

// CA implements [sandbox.Proxy].
func (r *Relay) CA() []byte { return nil }

// Connections implements [sandbox.Proxy]: each call tells its own.
func (r *Relay) Connections() []sandbox.Connection { return nil }

// Close implements [sandbox.Proxy].
func (r *Relay) Close() {
	r.mu.Lock()
	r.closed = true
	p, l := r.proxy, r.listener
	r.proxy = nil
	r.mu.Unlock()
	if l != nil {
		_ = l.Close() // closing twice is harmless
	}
	if p != nil {
		p.Close()
	}
}
