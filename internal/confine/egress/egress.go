// Package egress is the one way out of a sandbox: a proxy that decides every
// connection by the policies of the call that the sandbox was made for, dials
// only the addresses it decided on, and counts and records what passes. It
// speaks HTTP (absolute-form and CONNECT) and SOCKS5 on one listener, which the
// sandbox opens where nothing else can be reached. Start at [New].
//
// The proxy decides:
//
//   - a plain HTTP request by method, host, port and path; the request that goes
//     out is written anew from the decided values;
//   - a tunnel for TLS by host and port, if an entry without method and path
//     allows it; its ClientHello must name that host;
//   - where the policies inspect, TLS ends here and every request inside is
//     decided as a plain one, with a certificate authority made for the run;
//   - a tunnel of a tcp:// entry by host and port alone.
//
// A tunnel that is not inspected shows nothing but its ClientHello: behind a host
// that serves several names, another one can be asked for inside. Use inspect
// where that matters.
package egress

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Defaults for limits that nobody set.
const (
	DefaultConnections = 256
	DefaultHeader      = 15 * time.Second
	DefaultConnect     = 15 * time.Second
	DefaultIdle        = 10 * time.Minute
)

// Options are the parts of a proxy. Only Permit is needed; without it, or with
// one that is over, everything is refused.
type Options struct {
	Permit permit.Permit
	Limits Limits

	// Ask is asked where the policies ask, and holds the connection until it
	// returns. Nil means that nobody answers, which is a no. The context ends
	// when the proxy is closed. Each target is asked about once, and all requests
	// that read from a host are one. It is called from several goroutines.
	Ask func(ctx context.Context, a tool.Action, d policy.Decision) bool

	// Secret finds a value by its policy.Secret.Key, for entries with a secret: a
	// variable of Remit's own environment or a stored value. Nil means that there
	// are none.
	Secret func(name string) (value string, ok bool)

	// Authority signs for inspected hosts. Nil: one made for this proxy, if the
	// policies inspect anything.
	Authority *Authority

	// OneProgram: nothing but one program reaches the listener, so that it needs no credentials.
	OneProgram bool

	// TrustFile is where the sandbox finds the certificates to trust ([Proxy.CA]
	// and the system's), for the variables of [Proxy.Env].
	TrustFile string

	// Agent is the path of the person's SSH agent's socket, without links; "": there is none.
	Agent string

	RootCAs *x509.CertPool           // who signs for hosts outside; nil: the system's
	Notice  func(sandbox.Connection) // told of every connection as it ends or is refused; must be quick and safe for concurrent use
}

// Limits bounds one sandbox's use of the network. A zero number of bytes means
// what the permit's policies say, and none if they say nothing.
type Limits struct {
	ResponseBytes int64         // of one response, or into the sandbox through one tunnel
	TotalBytes    int64         // all connections, both ways together
	Bandwidth     int64         // bytes a second, all connections, both ways together
	Connections   int           // at once; 0: DefaultConnections
	Header        time.Duration // for a handshake or a request's head; 0: DefaultHeader
	Connect       time.Duration // for resolving a name and connecting; 0: DefaultConnect
	Idle          time.Duration // of silence in both directions; 0: DefaultIdle
	Request       time.Duration // for one whole HTTP exchange; 0: the permit's network.timeout, or no limit
}

func (l Limits) or(p policy.Limits) Limits {
	set := func(into *int64, v int64) {
		if *into <= 0 {
			*into = v
		}
	}
	wait := func(into *time.Duration, v time.Duration) {
		if *into <= 0 {
			*into = v
		}
	}
	set(&l.ResponseBytes, p.ResponseBytes)
	set(&l.TotalBytes, p.TotalBytes)
	set(&l.Bandwidth, p.Bandwidth)
	wait(&l.Header, DefaultHeader)
	wait(&l.Connect, DefaultConnect)
	wait(&l.Idle, DefaultIdle)
	wait(&l.Request, p.RequestTimeout)
	if l.Connections <= 0 {
		l.Connections = DefaultConnections
	}
	return l
}

// Proxy serves one sandbox. It is made by [New] and ended by [Proxy.Close].
type Proxy struct {
	permit    permit.Permit
	chain     policy.Chain
	limits    Limits
	ask       func(context.Context, tool.Action, policy.Decision) bool
	secret    func(string) (string, bool)
	authority *Authority // nil: nothing is inspected
	agent     string     // of the SSH agent, see Options
	signed    atomic.Int64
	trustFile string
	roots     *x509.CertPool
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	dial      network.DialFunc
	password  string
	open      bool // no credentials are needed
	meter     *meter
	log       report
	answers   sandbox.Answers[question]
	slots     chan struct{}
	expects   expected

	mu     sync.Mutex
	closed bool
	next   int
	stops  map[int]func()  // what Close ends
	names  map[string]bool // that were looked up
	wg     sync.WaitGroup
}

const user = "remit"

// New makes the proxy of one sandbox. Its credentials are made at random and
// known only through [Proxy.Env].
func New(o Options) *Proxy {
	var key [16]byte
	_, _ = rand.Read(key[:]) // never an error: without randomness the program ends
	p := &Proxy{
		permit: o.Permit, chain: o.Permit.Chain(), limits: o.Limits.or(o.Permit.Limits()),
		ask: o.Ask, secret: o.Secret, authority: o.Authority, agent: o.Agent, trustFile: o.TrustFile, roots: o.RootCAs,
		lookup: network.Resolve, dial: network.DialTCP, open: o.OneProgram,
		password: hex.EncodeToString(key[:]), stops: map[int]func(){},
	}
	if !p.chain.InspectsAny() || !p.chain.Connects() {
		p.authority = nil
	} else if p.authority == nil {
		p.authority = NewAuthority(time.Now())
	}
	p.log.notice, p.log.refuse = o.Notice, o.Permit.Refuse
	in, out := p.permit.Allowance()
	p.meter = newMeter(p.limits.TotalBytes, in, out, p.limits.Bandwidth)
	p.slots = make(chan struct{}, p.limits.Connections)
	return p
}

// Env gives the variables that send programs in the sandbox to the proxy, which
// they reach on a port of 127.0.0.1. They hold the proxy's credentials. The
// sandbox's own loopback addresses are reached without it, unless the policies
// name those of the host. Where the policies inspect and there is a trust file,
// its variables are added.
func (p *Proxy) Env(port int) map[string]string {
	at := user + ":" + p.password + "@127.0.0.1:" + strconv.Itoa(port)
	own := sandbox.OwnHosts
	if p.chain.NamesLoopback() {
		own = "" // the host's is meant, and the proxy leads there
	}
	env := map[string]string{
		"HTTP_PROXY": "http://" + at, "HTTPS_PROXY": "http://" + at, "ALL_PROXY": "socks5h://" + at, "NO_PROXY": own,
		"http_proxy": "http://" + at, "https_proxy": "http://" + at, "all_proxy": "socks5h://" + at, "no_proxy": own,
		"NODE_USE_ENV_PROXY": "1",
	}
	if p.authority == nil || p.trustFile == "" {
		return env
	}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS",
		"REQUESTS_CA_BUNDLE", "PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "NIX_SSL_CERT_FILE", "HTTPLIB2_CA_CERTS",
		"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "BUNDLE_SSL_CA_CERT", "YARN_HTTPS_CA_FILE_PATH",
		"npm_config_cafile"} { // the last one wins over a cafile of the machine's npmrc
		env[name] = p.trustFile
	}
	return env
}

// CA is the certificate (PEM) that the sandbox must trust, beside the system's,
// for inspected hosts; nil where nothing is inspected.
func (p *Proxy) CA() []byte {
	if p.authority == nil {
		return nil
	}
	return p.authority.CA()
}

// Serve accepts connections until the listener fails or the proxy is closed,
// which gives nil. It closes the listener. Connections go on until Close.
func (p *Proxy) Serve(l net.Listener) error { return p.accept(l, p.serveConn) }

// accept serves the connections of a listener.
func (p *Proxy) accept(l net.Listener, serve func(context.Context, net.Conn)) error {
	forget, ok := p.onClose(func() { _ = l.Close() })
	defer func() { _ = l.Close() }() // closing twice is harmless
	if !ok {
		return nil
	}
	defer forget()
	pause := time.Millisecond
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			pause = time.Millisecond
			p.admit(conn, serve)
		case p.isClosed():
			return nil
		case isShort(err):
			pause = min(2*pause, time.Second)
			time.Sleep(pause) // descriptors are short for a moment; nothing announces their return
		default:
			return err
		}
	}
}

// shortPause is how long [Relay.Serve] waits for descriptors.
const shortPause = 50 * time.Millisecond

// isShort reports whether the machine lacks something for a moment.
func isShort(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, syscall.ENOBUFS)
}

// admit starts serving a connection, if there is room for one more.
func (p *Proxy) admit(conn net.Conn, serve func(context.Context, net.Conn)) {
	select {
	case p.slots <- struct{}{}:
	default:
		p.log.add(sandbox.Connection{Start: time.Now(), Rule: ruleLimit, Reason: "too many connections at once"})
		_ = conn.Close()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop := func() { cancel(); _ = conn.Close() }
	forget, ok := p.onClose(stop)
	if !ok {
		stop()
		<-p.slots
		return
	}
	go func() {
		defer func() { stop(); <-p.slots; forget() }()
		defer p.survive()
		serve(ctx, conn)
	}()
}

// survive keeps a panic in serving one connection from ending Remit: the data
// comes from a sandbox.
func (p *Proxy) survive() {
	if r := recover(); r != nil {
		p.log.add(sandbox.Connection{Start: time.Now(), Rule: ruleInternal, Reason: "a bug in Remit ended the connection"})
	}
}

// onClose registers work that Close ends with stop and then waits for until it
// is forgotten. It reports false if Close has been called.
func (p *Proxy) onClose(stop func()) (forget func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return func() {}, false
	}
	id := p.next
	p.next++
	p.stops[id] = stop
	p.wg.Add(1)
	return func() {
		p.mu.Lock()
		delete(p.stops, id)
		p.mu.Unlock()
		p.wg.Done()
	}, true
}

func (p *Proxy) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Close ends the listeners and all connections and waits until nothing of the
// proxy runs any more. The connections are then in [Proxy.Report] and the
// permit's notes. Closing twice is harmless.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	stops := make([]func(), 0, len(p.stops))
	for _, stop := range p.stops {
		stops = append(stops, stop)
	}
	p.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	p.wg.Wait()
}

// stream is a connection from the sandbox, buffered both ways. For an inspected
// tunnel it is the decrypted connection.
type stream struct {
	conn net.Conn
	br   *bufio.Reader
	bw   *bufio.Writer
}

func newStream(conn net.Conn) *stream {
	return &stream{conn, bufio.NewReaderSize(conn, 4<<10), bufio.NewWriterSize(conn, 16<<10)}
}

// serveConn tells the protocols apart by their first byte.
func (p *Proxy) serveConn(ctx context.Context, conn net.Conn) {
	s := newStream(conn)
	if conn.SetDeadline(time.Now().Add(p.limits.Header)) != nil {
		return
	}
	first, err := s.br.Peek(1)
	switch {
	case err != nil: // it said nothing
	case first[0] == socksVersion:
		p.serveSOCKS(ctx, s)
	case first[0] == directStart:
		if to, ok := p.hello(s); ok {
			p.serveDirect(ctx, s, to)
			return
		}
		p.log.add(sandbox.Connection{Start: time.Now(), Rule: ruleProtocol, Reason: "a connection that was not expected"})
	case first[0] < ' ' || first[0] >= 0x7f:
		p.log.add(sandbox.Connection{Start: time.Now(), Rule: ruleProtocol, Reason: "neither HTTP nor SOCKS5 was spoken to the proxy"})
	default:
		p.serveHTTP(ctx, s)
	}
}
