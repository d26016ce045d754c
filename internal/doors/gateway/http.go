package gateway

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/doors/credential"
	"github.com/remitrun/remit/internal/doors/hostcheck"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
)

const (
	maxSockets  = 256              // network connections, a quarter of them of one address
	maxRate     = 10000            // requests a second of one grant, and of one root grant
	maxRefused  = 10               // requests a second of one address without a valid grant
	clientIdle  = 10 * time.Minute // time without requests after which a client is gone
	closeWithin = 10 * time.Second
)

// web serves clients over HTTP.
type web struct {
	gateway *Gateway
	hosts   []string // names that clients may use besides loopback's
	port    string
	rates   *admission.Rates // of grants; nil: another server has checked hosts, origins and rates
	refused *admission.Rates // of addresses; nil if rates is

	seats *admission.Seats // one for each client

	mu      sync.Mutex
	clients map[string]*client // by session, or by token in revisions without sessions
}

// client is a client over HTTP. Requests of its session must be under its grant: a person's next
// access token, which stands for the same grant, continues the session.
type client struct {
	key      string
	release  func() // gives its seat back
	token    [sha256.Size]byte
	sessions bool // whether the protocol has sessions
	conn     *conn
	handler  http.Handler
	active   int // requests under way; guarded by web.mu
	used     time.Time

	ready  chan struct{} // closed once the session can be used, or failed is set
	failed error         // why this node cannot serve the session
	shared bool          // other nodes may serve the session; set before ready is closed
	tag    string        // of this node's questions to the client; unguessable

	mu    sync.Mutex
	asked map[string]context.CancelFunc // questions to the client by their IDs
	made  made
}

// hasEnded reports whether the session has ended, or never started.
func (c *client) hasEnded() bool {
	return c.sessions && len(slices.Collect(c.conn.server.Sessions())) == 0
}

// revoked reports whether the grant of the session can no longer be used.
func (c *client) revoked(ctx context.Context) bool { return refusesGrant(c.conn.run().Usable(ctx)) }

// ServeHTTP serves clients on a listener until ctx ends. Every client presents a grant
// token as its bearer token, and works under that grant alone. Requests to another host
// than loopback or one of hosts are refused, as are those of web pages of other origins.
func (g *Gateway) ServeHTTP(ctx context.Context, l net.Listener, hosts []string) error {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return fault.Wrap(fault.Usage, err, "the address %s has no port", l.Addr())
	}
	w := newWeb(g)
	w.hosts, w.port = hosts, port
	w.rates, w.refused = admission.NewRates(maxRate, 2*maxRate), admission.NewRates(maxRefused, 2*maxRefused+1)
	door := g.opts.Door
	door.Conns = cmp.Or(door.Conns, maxSockets)
	door = door.Settled()
	srv := door.Server(w)
	srv.BaseContext = func(net.Listener) context.Context { return ctx }
	inner, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { g.watch(inner) })
	tasks.Go(func() { w.reap(inner) })
	tasks.Go(func() {
		<-inner.Done()
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
		defer cancel()
		w.endAll(after)
		if srv.Shutdown(after) != nil {
			_ = srv.Close() // remaining connections are closed
		}
	})
	err = srv.Serve(door.Listen(l))
	stop()
	tasks.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

func newWeb(g *Gateway) *web {
	return &web{gateway: g, clients: map[string]*client{}, seats: admission.NewSeats(g.opts.Clients)}
}

// service says under which hosts clients may call.
func (w *web) service() hostcheck.Service { return hostcheck.Service{Hosts: w.hosts, Port: w.port} }

// ServeHTTP implements http.Handler.
func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if why := w.service().Foreign(r); why != "" && w.rates != nil {
		http.Error(rw, why, http.StatusForbidden)
		return
	}
	token, who, status, err := w.recognize(r)
	if err != nil {
		if status == http.StatusUnauthorized {
			credential.Challenge(rw.Header(), r, err)
		}
		http.Error(rw, fault.CodeOf(err).Error()+" "+fault.Message(err), status)
		return
	}
	if r.Method == http.MethodGet { // a stream ends with the token that opened it
		ctx, stop := callers.Watch(r.Context(), w.gateway.opts.Gate, who, callers.CheckEvery)
		defer stop()
		r = r.WithContext(ctx)
	}
	if who, status, err = w.readBody(rw, r, who); err != nil {
		http.Error(rw, fault.CodeOf(err).Error()+" "+fault.Message(err), status)
		return
	}
	admission.Admit(r.Context(), who.Person)
	c, st, fresh, status, err := w.find(r, token, who)
	if err != nil {
		http.Error(rw, fault.CodeOf(err).Error()+" "+fault.Message(err), status)
		return
	}
	defer w.leave(c)
	if fresh {
		defer close(c.ready)
	}
	after := context.WithoutCancel(r.Context())
	switch {
	case c.refusedAgain(rw, r):
	case c.shared && !fresh:
		w.serveShared(rw, r, st, c)
	default:
		c.handler.ServeHTTP(rw, r)
	}
	gone := c.hasEnded() || r.Context().Err() != nil && c.revoked(after)
	if c.shared && fresh && (gone || c.initialized(after) != nil) {
		_ = c.forget(after, st) // it expires
	}
	if gone {
		w.end(after, c)
	}
}

// readBody reads a request's whole body, and checks then again that its client may make requests:
// a body can arrive long after the header.
func (w *web) readBody(rw http.ResponseWriter, r *http.Request, who *callers.Caller) (now *callers.Caller, status int, err error) {
	if r.Method != http.MethodPost {
		return who, 0, nil
	}
	b, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxMessage))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return who, http.StatusRequestEntityTooLarge, fault.New(fault.Usage, "the body is larger than %d bytes", maxMessage)
	case err != nil:
		return who, http.StatusBadRequest, fault.Wrap(fault.Usage, err, "the body cannot be read")
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
	if now, err = w.gateway.opts.Gate.Check(r.Context(), who); err != nil {
		status = refusal(err)
	}
	return now, status, err
}

// recognize authenticates the client of a request, within the limits on requests. Nothing
// is started or recorded for an invalid token.
func (w *web) recognize(r *http.Request) (token string, who *callers.Caller, status int, err error) {
	if who = callers.From(r.Context()); who != nil { // another server has recognized the client
		return who.Token, who, 0, nil
	}
	c, err := credential.Of(r, w.service())
	if err == nil {
		who, err = w.gateway.opts.Gate.Enter(r.Context(), c)
	}
	switch {
	case err == nil && w.rates != nil && !w.rates.Take(time.Now(), who.Root, who.Leaf):
		return "", who, http.StatusTooManyRequests, fault.New(fault.LimitReached, "this grant makes too many requests")
	case err == nil:
		return who.Token, who, 0, nil // of the grant that an identity provider's token stands for
	case !refusesGrant(err):
		return "", who, refusal(err), err
	case w.refused != nil && !w.refused.Take(time.Now(), admission.Address(r.RemoteAddr)):
		return "", who, http.StatusTooManyRequests, fault.New(fault.LimitReached, "too many requests without a valid grant from this address")
	}
	return "", who, http.StatusUnauthorized, err
}

// refusesGrant reports whether an error says that a grant is not valid.
func refusesGrant(err error) bool {
	code := fault.CodeOf(err)
	return code.OfGrant() || code == fault.GrantUnknown || code == fault.NotDelegable || code == fault.BudgetSpent
}

// refusal is the status of a request that is not served. MCP clients begin a new session after 404, end
// theirs after 403, and repeat requests after 503: so it says that the ledger cannot be used now.
func refusal(err error) int {
	if refusesGrant(err) {
		return http.StatusUnauthorized
	}
	switch fault.CodeOf(err) {
	case fault.SessionUnknown:
		return http.StatusNotFound
	case fault.StoreFailed, fault.StoreFull, fault.StoreReadOnly, fault.StoreVersion, fault.StoreMissing, fault.SessionBusy:
		return http.StatusServiceUnavailable
	case fault.StoreCorrupt, fault.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusForbidden
}

// find is clientOf with the store of shared sessions. A stream waits for a ledger that is away for a
// moment: MCP clients repeat a POST after 503, and end their session after it on a GET.
func (w *web) find(r *http.Request, token string, who *callers.Caller) (c *client, st store.Ephemera, fresh bool, status int, err error) {
	var limit time.Duration
	if r.Method == http.MethodGet {
		limit = store.LongPatience
	}
	err = store.Patiently(r.Context(), limit, store.PatientEvery, func() (err error) {
		if st, err = w.gateway.shared(r.Context()); err != nil {
			status = refusal(err)
			return err
		}
		c, fresh, status, err = w.clientOf(r, token, who, st)
		return err
	})
	return c, st, fresh, status, err
}

// clientOf finds the client of a request, or starts the run of a new one. fresh: the request
// begins a session, which nobody else knows yet.
func (w *web) clientOf(r *http.Request, token string, who *callers.Caller, st store.Ephemera) (c *client, fresh bool, status int, err error) {
	hash := sha256.Sum256([]byte(token))
	key := r.Header.Get("Mcp-Session-Id")
	sessions := r.Header.Get("Mcp-Protocol-Version") < stateless
	if !sessions {
		key = "token " + string(hash[:])
	}
	if c, err := w.findClient(r.Context(), key, hash, st); c != nil || err != nil {
		return c, false, refusal(err), err
	}
	if sessions && key != "" {
		if st == nil {
			err = errNoSession()
			return nil, false, refusal(err), err
		}
		c, status, err = w.join(r, st, key, hash, who)
		return c, false, status, err
	}
	if r.Method != http.MethodPost {
		return nil, false, http.StatusBadRequest, fault.New(fault.Usage, "a session must start with a POST request")
	}
	if c, _, status, err = w.begin(r, hash, who, key); err != nil || !sessions {
		return c, false, status, err
	}
	if st != nil {
		if err := w.share(r, st, c, who); err != nil {
			w.leave(c)
			close(c.ready)
			w.end(context.WithoutCancel(r.Context()), c)
			return nil, false, refusal(err), err
		}
	}
	return c, true, 0, nil
}

// begin starts the run of a client under a key; without a key, a new session. mine: no other
// request has started it.
func (w *web) begin(r *http.Request, hash [sha256.Size]byte, who *callers.Caller, key string) (c *client, mine bool, status int, err error) {
	if !who.Tools {
		return nil, false, http.StatusForbidden, fault.New(fault.Denied, "the grant allows no tools").
			WithHint("use a grant whose policies allow tools")
	}
	release, ok := w.seats.Take(who.Person)
	if !ok {
		return nil, false, http.StatusServiceUnavailable, fault.New(fault.LimitReached, "too many clients are connected; the limit is %d, at most half of them for one person", w.gateway.opts.Clients).
			ForOperator("raise limits.mcp_clients in config.yaml")
	}
	conn, err := w.gateway.connect(r.Context(), who.Presented())
	if err != nil {
		release()
		return nil, false, refusal(err), err
	}
	c = &client{key: key, release: release, token: hash, conn: conn, sessions: r.Header.Get("Mcp-Protocol-Version") < stateless, ready: make(chan struct{}), tag: unguessable()}
	switch {
	case !c.sessions:
		close(c.ready)
	case key == "":
		c.key = conn.id
	default:
		conn.id = key
	}
	first := w.enter(r.Context(), c)
	return first, first == c, 0, nil
}

// findClient finds a client by its key, if the token is the client's; nil: there is none, or its
// session has ended.
func (w *web) findClient(ctx context.Context, key string, hash [sha256.Size]byte, st store.Ephemera) (*client, error) {
	w.mu.Lock()
	c := w.clients[key]
	if c == nil || subtle.ConstantTimeCompare(c.token[:], hash[:]) != 1 {
		w.mu.Unlock()
		return nil, nil //nolint:nilnil // there is none
	}
	c.active++
	w.mu.Unlock()
	err := c.wait(ctx)
	alive := err == nil
	if alive && c.shared {
		if alive, err = c.alive(ctx, st); alive {
			alive = !c.hasEnded() // it was not used here for long
		}
	}
	if alive && err == nil {
		return c, nil
	}
	w.leave(c)
	if err == nil {
		w.end(context.WithoutCancel(ctx), c)
	}
	return nil, err
}

// enter adds a client, unless another request has added it.
func (w *web) enter(ctx context.Context, c *client) *client {
	c.handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return c.conn.server }, &mcp.StreamableHTTPOptions{
		Stateless: !c.sessions, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: !c.sessions, SessionTimeout: clientIdle,
		DisableLocalhostProtection: true, // hostcheck has checked the host
	})
	w.mu.Lock()
	first := w.clients[c.key]
	if first == nil {
		w.clients[c.key] = c
		first = c
	}
	first.active++
	w.mu.Unlock()
	if first != c {
		_ = c.conn.end(context.WithoutCancel(ctx)) // it was never used
		c.release()
	}
	return first
}

// leave notes the end of a request.
func (w *web) leave(c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.active--
	c.used = time.Now()
}

// end cancels a client's calls and ends its run.
func (w *web) end(ctx context.Context, c *client) {
	w.mu.Lock()
	there := w.clients[c.key] == c
	delete(w.clients, c.key)
	w.mu.Unlock()
	if !there {
		return // another request ends it
	}
	defer c.release()
	c.conn.stopCalls()
	for s := range c.conn.server.Sessions() {
		_ = s.Close() // it may have gone
	}
	_ = c.conn.end(ctx) // an error of the ledger shows at the next run
}

// reap ends the runs of absent clients and of revoked grants, despite requests under way.
func (w *web) reap(ctx context.Context) {
	t := time.NewTicker(clientIdle / 10)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		w.endGone(ctx)
		w.endOthers(ctx)
	}
}

func (w *web) endGone(ctx context.Context) {
	w.mu.Lock()
	idle := make(map[*client]bool, len(w.clients))
	for _, c := range w.clients {
		idle[c] = c.active == 0 && time.Since(c.used) > clientIdle
	}
	w.mu.Unlock()
	for c, gone := range idle {
		if gone || c.revoked(ctx) {
			w.end(ctx, c)
		}
	}
}

func (w *web) endAll(ctx context.Context) {
	w.mu.Lock()
	all := make([]*client, 0, len(w.clients))
	for _, c := range w.clients {
		all = append(all, c)
	}
	w.mu.Unlock()
	var each sync.WaitGroup
	for _, c := range all {
		each.Go(func() { w.end(ctx, c) })
	}
	each.Wait()
}
