package admission

import (
	"container/list"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Listen limits a listener to the connections of the door. An address with too many of them gets
// no further one; loopback addresses and proxies, which many clients share, have no limit of
// their own. While all connections are taken, a new one replaces the oldest one that is not kept for
// a person ([Admit]); without such a connection, it waits.
func (d Door) Listen(l net.Listener) net.Listener {
	return &listener{Listener: l, door: d, slots: make(chan struct{}, d.Conns), gone: make(chan struct{}), kept: NewSeats(d.Conns), of: map[string]int{}, others: list.New()}
}

type listener struct {
	net.Listener
	door  Door
	slots chan struct{}
	gone  chan struct{}
	once  sync.Once

	kept *Seats // of the connections of each person that no new one replaces

	mu     sync.Mutex
	of     map[string]int // connections by address
	others *list.List     // *conn that are not kept, the oldest first
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from, ok := l.enter(raw.RemoteAddr())
		if !ok {
			_ = raw.Close() // its address has too many
			continue
		}
		select {
		case l.slots <- struct{}{}:
		default:
			l.replace()
			select {
			case l.slots <- struct{}{}:
			case <-l.gone:
				_ = raw.Close() // nobody serves it
				return nil, net.ErrClosed
			}
		}
		c := &conn{Conn: raw, l: l, from: from, proxied: l.door.announced(raw.RemoteAddr())}
		l.mu.Lock()
		c.place = l.others.PushBack(c)
		l.mu.Unlock()
		return c, nil
	}
}

// replace closes the oldest connection that is not kept.
func (l *listener) replace() {
	l.mu.Lock()
	oldest := l.others.Front()
	l.mu.Unlock()
	if oldest == nil {
		return
	}
	if c, ok := oldest.Value.(*conn); ok {
		_ = c.Close() // its server notices
	}
}

// enter counts a connection, if its address can have another one.
func (l *listener) enter(a net.Addr) (from string, ok bool) {
	ap, err := netip.ParseAddrPort(a.String())
	if err == nil && (ap.Addr().Unmap().IsLoopback() || l.door.proxy(ap.Addr())) {
		return "", true
	}
	from = Address(a.String())
	l.mu.Lock()
	defer l.mu.Unlock()
	return from, l.count(from)
}

// count counts a connection of an address. The caller holds the lock.
func (l *listener) count(from string) bool {
	if l.of[from] >= l.door.PerAddress {
		return false
	}
	l.of[from]++
	return true
}

var errTooMany = errors.New("too many connections of this address")

// moveTo counts a proxy's connection as one of its client's.
func (l *listener) moveTo(c *conn, client net.Addr) error {
	from := Address(client.String())
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.left || !l.count(from) {
		return errTooMany
	}
	c.from = from
	return nil
}

// announced reports whether a connection begins with the header of a proxy.
func (d Door) announced(a net.Addr) bool {
	ap, err := netip.ParseAddrPort(a.String())
	return d.ProxyHeader && err == nil && d.proxy(ap.Addr())
}

func (l *listener) leave(c *conn) {
	<-l.slots
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(c)
	if c.left = true; c.release != nil {
		c.release()
	}
	if c.from == "" {
		return
	}
	if l.of[c.from]--; l.of[c.from] == 0 {
		delete(l.of, c.from)
	}
}

// forget removes a connection from the list of others. The caller holds the lock.
func (l *listener) forget(c *conn) {
	if c.place != nil {
		l.others.Remove(c.place)
		c.place = nil
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.gone) })
	return l.Listener.Close()
}

type conn struct {
	net.Conn
	l    *listener
	once sync.Once
	kept atomic.Bool

	// Guarded by the listener's lock.
	from    string
	left    bool
	place   *list.Element // among the others
	release func()        // of the seat; nil: the connection is not kept

	// Of a connection that begins with the header of a proxy; client and failed are set by header.
	proxied bool
	header  sync.Once
	client  net.Addr // nil: the header names none
	failed  error
}

// admit keeps the connection for a person, unless the person has a full share of connections.
func (c *conn) admit(person string) {
	if c.kept.Load() {
		return
	}
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if c.left || c.release != nil {
		return
	}
	release, ok := c.l.kept.Take(person)
	if !ok {
		return
	}
	c.release = release
	c.kept.Store(true)
	c.l.forget(c)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.once.Do(func() { c.l.leave(c) })
	return c.Conn.Close()
}
