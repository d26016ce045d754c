package admission

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Door bounds the resources that clients of an HTTP service can hold. A client is a stranger until
// its request is admitted ([Admit]): a stranger has one request, and little time for it. Zero
// fields have the defaults.
type Door struct {
	Header int // bytes of a request's header; default 64 KiB

	Arrive time.Duration // for a TLS handshake, and for a header; default 10 s
	Read   time.Duration // for a whole request; default 30 s
	Write  time.Duration // for the client to read a part of the response, and a stranger all of it; default 15 s
	Idle   time.Duration // between two requests; default 2 min
	Linger time.Duration // for the rest of a stranger's request, after the response; default 1 s

	Conns      int            // connections at once; default 4096
	PerAddress int            // connections at once of one address, or IPv6 network; default a quarter of Conns
	Proxies    []netip.Prefix // addresses of proxies whose X-Forwarded-For counts

	ProxyHeader bool // connections of Proxies begin with a header of the PROXY protocol
}

// Settled returns the door with the defaults for zero fields.
func (d Door) Settled() Door {
	d.Header, d.Conns = cmp.Or(d.Header, 64<<10), cmp.Or(d.Conns, 4096)
	d.PerAddress = cmp.Or(d.PerAddress, max(1, d.Conns/4))
	for at, def := range map[*time.Duration]time.Duration{
		&d.Arrive: 10 * time.Second, &d.Read: 30 * time.Second, &d.Write: 15 * time.Second, &d.Idle: 2 * time.Minute, &d.Linger: time.Second,
	} {
		*at = cmp.Or(*at, def)
	}
	return d
}

// Server makes a server for the connections of [Door.Listen]. Both need a settled door.
func (d Door) Server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: &guarded{d, h}, ReadHeaderTimeout: d.Arrive, ReadTimeout: d.Read, IdleTimeout: d.Idle, MaxHeaderBytes: d.Header,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if encrypted, ok := c.(*tls.Conn); ok {
				c = encrypted.NetConn()
			}
			return context.WithValue(ctx, connKey{}, c)
		},
	}
}

// proxy reports whether an address is one of a proxy.
func (d Door) proxy(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(d.Proxies, func(p netip.Prefix) bool { return p.Contains(a) })
}

// client returns the address of a request's client: behind a proxy, the last forwarded address that
// is not one of a proxy. Earlier addresses, which the client itself wrote, do not count.
func (d Door) client(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !d.proxy(at.Addr()) {
		return r.RemoteAddr
	}
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, text := range slices.Backward(forwarded) {
		text = strings.TrimSpace(text)
		a, err := netip.ParseAddr(text)
		if at, perr := netip.ParseAddrPort(text); perr == nil { // some proxies add the port
			a, err = at.Addr(), nil
		}
		if err != nil {
			break // a proxy that does not say is the client
		}
		if !d.proxy(a) {
			return netip.AddrPortFrom(a, 0).String()
		}
	}
	return r.RemoteAddr
}

type (
	connKey  struct{}
	visitKey struct{}
)

// Admit notes that the client of a request has a grant of a person, so its connection can stay open.
// Of each person as many are kept as [Seats] allows. While all are taken, new ones replace others.
func Admit(ctx context.Context, person string) {
	if v, ok := ctx.Value(visitKey{}).(*visit); ok {
		v.admit()
	}
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.admit(person)
	}
}

// guarded applies the bounds of a door to each request.
type guarded struct {
	door Door
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (g *guarded) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{door: g.door, rc: http.NewResponseController(w)}
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	r.RemoteAddr = g.door.client(r)
	p := &reply{ResponseWriter: w, visit: v}
	g.next.ServeHTTP(p, r)
	if !p.begun {
		v.begin(w.Header())
	}
	v.pace() // for the rest of the response
}

// visit is a request with the deadlines of its connection.
type visit struct {
	door Door
	rc   *http.ResponseController

	mu       sync.Mutex
	admitted bool
	paced    bool // a stranger's response has its deadline
}

func (v *visit) admit() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.admitted = true
}

// pace gives the client time to read the next piece.
func (v *visit) pace() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.paced || v.admitted {
		v.paced = true
		_ = v.rc.SetWriteDeadline(time.Now().Add(v.door.Write)) // without a connection there is no deadline
	}
}

// begin prepares the header of the response.
func (v *visit) begin(h http.Header) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.admitted {
		h.Set("Connection", "close")
		_ = v.rc.SetReadDeadline(time.Now().Add(v.door.Linger)) // as above
	}
}

// reply is a response with its deadlines.
type reply struct {
	http.ResponseWriter
	visit *visit
	begun bool
}

// WriteHeader implements http.ResponseWriter.
func (p *reply) WriteHeader(status int) {
	if !p.begun && status >= http.StatusOK {
		p.begun = true
		p.visit.begin(p.Header())
	}
	p.visit.pace()
	p.ResponseWriter.WriteHeader(status)
}

// maxPart is the most bytes that a client must read within the time for a part.
const maxPart = 64 << 10

// Write implements http.ResponseWriter. It writes a large body in parts, so a slow client that reads
// on keeps its connection.
func (p *reply) Write(b []byte) (int, error) {
	if !p.begun {
		p.WriteHeader(http.StatusOK)
	}
	var n int
	for {
		part := b[n:min(n+maxPart, len(b))]
		p.visit.pace()
		wrote, err := p.ResponseWriter.Write(part)
		if n += wrote; err != nil || n >= len(b) {
			return n, err
		}
	}
}

// FlushError is what http.ResponseController calls.
func (p *reply) FlushError() error {
	if !p.begun {
		p.WriteHeader(http.StatusOK)
	}
	p.visit.pace()
	return p.visit.rc.Flush()
}

// Flush implements http.Flusher.
func (p *reply) Flush() { _ = p.FlushError() } // data that cannot be flushed now is sent later

// Unwrap is for http.ResponseController.
func (p *reply) Unwrap() http.ResponseWriter { return p.ResponseWriter }
