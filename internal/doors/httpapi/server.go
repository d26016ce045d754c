// Package httpapi serves Remit's HTTP API: agents, their sessions, and the contents of the
// ledger, for programs. Every request presents a grant, is decided by the api section of
// that grant's policies, and is logged. Start at [New] and [Server.Serve]. Each resource
// has one file with its operations.
//
// Left out on purpose: the API decides nothing itself, opens nothing, and keeps nothing
// but the responses to repeated requests.
package httpapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/telemetry"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/nodes"
	"github.com/remitrun/remit/internal/service/settings"
)

// Caller is the authenticated caller of a request.
type Caller = callers.Caller

// grantsOf gives what the rate of a caller applies to: the root grant, and the caller's own. A person
// known to an identity provider has a root grant at each node, so the person stands for it.
func grantsOf(c *Caller) []string {
	switch root := rootOf(c); {
	case c.Role == "":
		return []string{root, c.Leaf}
	case root == c.Leaf:
		return []string{c.Person}
	}
	return []string{c.Person, c.Leaf}
}

func rootOf(c *Caller) string { return cmp.Or(c.Root, c.Leaf) }

// Gate authenticates callers.
type Gate interface {
	// Enter verifies the credential of a request, and that its grant can be used now. It must be
	// fast for a token that was verified before.
	Enter(ctx context.Context, c callers.Credential) (*Caller, error)
	// Check returns the present state of an admitted caller, or an error if the caller would be
	// refused now.
	Check(ctx context.Context, c *Caller) (*Caller, error)
}

// Lineage returns the grants under which a thing was made, for [Caller.Owns].
type Lineage interface {
	OfSession(ctx context.Context, s agent.Session) ([]string, error)
	OfRun(ctx context.Context, run string) ([]string, error)
	OfGrant(ctx context.Context, grant string) ([]string, error)
}

// Entry describes a request for logs.
type Entry struct {
	ID        string // of the request
	Operation string // as "createAgent"
	Action    string // as "agents.write"
	Who       string // the principal, "": not authenticated
	Subject   string // method and path
	Status    int
	Code      string // of an error, as "E1001"
	Error     string
	Cause     error // of an internal error, for operators
	Changes   bool  // the operation changes something
	Refused   bool  // the caller is not allowed to, or not authenticated
	Duration  time.Duration
}

// Options says what a server serves. Gate, Lineage, Agents, Sessions, Conversations,
// Turns and Files are required.
type Options struct {
	Version string
	Gate    Gate
	Lineage Lineage

	// Agents and their sessions; one value can implement all of these.
	Agents        Agents
	Sessions      Sessions
	Conversations Conversations
	Turns         Turns
	Files         Files

	Capabilities Capabilities
	Commands     Commands
	Tools        Tools
	Runs         Runs
	Queue        Queue // nil: runs cannot be queued
	Changes      Changes
	Grants       Grants
	Approvals    Approvals
	// Interrupted lists the newest questions whose calls ended with their process or caller; nil: none.
	Interrupted func(ctx context.Context) ([]store.Approval, error)
	Labels      Labels
	Audit       Audit
	Policies    Policies
	Parts       Parts
	// Nodes lists the services that share the ledger, and gives the seconds that this machine's clock is
	// ahead of the ledger's, if they matter; nil: none share it.
	Nodes    func(ctx context.Context) ([]nodes.Service, int, error)
	Requests Requests                                     // nil: requests with an Idempotency-Key are known to this process alone
	Ready    func(ctx context.Context) error              // nil: the service is always ready
	MCP      http.Handler                                 // at /mcp; nil: none
	Witness  http.Handler                                 // at /witness/add-checkpoint, for ledgers of others; nil: none
	UI       func(api http.Handler) (http.Handler, error) // makes the web UI at /ui, which makes its requests to api; nil: none
	// Interrupt ends the turns that do not finish in time when the service ends, so that
	// they can be resumed; nil: they are cancelled.
	Interrupt func(ctx context.Context)
	Logins    Logins // signs in programs without a browser; nil: nothing does
	Address   string // the origin at which browsers and programs reach the service

	Hosts   []string    // names that clients may use besides loopback's
	TLS     *tls.Config // nil: no TLS
	Log     func(Entry)
	Hide    func(text string) string // removes from messages what callers need not know, as the service's folders; nil: nothing
	Errors  *slog.Logger             // for errors of net/http; nil: they are not logged
	Metrics *telemetry.Metrics
	Tracer  *telemetry.Tracer // nil: no traces
	Spans   *telemetry.Turns  // the spans of turns, as parents of those of their calls; nil: none
	Limits  Limits
	// TakeRequests counts the requests of a grant with those at other processes of the ledger
	// (store.Rates), where Limits.Rate is given; nil: they are not counted there.
	TakeRequests func(ctx context.Context, key [32]byte, b store.Bucket, want int) (got int, wait time.Duration, err error)
}

// Limits bounds the resources that callers can use. Zero fields have the defaults.
type Limits struct {
	admission.Door // connections, headers and slow clients

	Body       int64         // bytes of a JSON body; default 1 MiB
	File       int64         // bytes of a session's file; default 16 MiB
	Rate       float64       // requests a second of one grant, and of one root grant with all that derive from it; default 10,000
	Burst      int           // of them at once; default 2 s of Rate
	Refused    float64       // requests a second of one address without a valid grant; default 10
	Requests   int           // requests that are carried out at once, turns included, at most half of them of one person; default 1024
	Large      int           // bodies of files larger than Body, or of unknown size, at once, at most half of them of one person; default 32
	Runs       int           // runs of plans at once, at most half of them of one person; default 64
	OpenRuns   int           // open runs without a plan, at most half of them of one person; default 1024
	RunIdle    time.Duration // without a call, after which an open run ends; default 10 min
	Streams    int           // open event streams at once, at most half of them of one person; default 2048
	Turn       time.Duration // how long a turn is waited for; default 10 min
	Heartbeat  time.Duration // of event streams; default 15 s
	Drain      time.Duration // time for requests under way when the server is told to stop; default 20 s
	Remembered int           // responses that are kept for repeated requests; default 4096
}

// Defaults are the limits where nothing else is said.
func Defaults() Limits { return Limits{}.settled() }

// With returns the limits with those of the settings in the place of its zero fields.
func (l Limits) With(s settings.Limits) Limits {
	for into, set := range map[*int]int{
		&l.Conns: s.Connections, &l.PerAddress: s.PerAddress, &l.Header: s.Header, &l.Requests: s.Requests, &l.Large: s.Uploads, &l.Runs: s.Runs, &l.OpenRuns: s.OpenRuns, &l.Streams: s.Streams,
	} {
		*into = cmp.Or(*into, set)
	}
	l.Body, l.File = cmp.Or(l.Body, int64(s.Body)), cmp.Or(l.File, int64(s.File))
	l.Refused, l.Turn, l.RunIdle = cmp.Or(l.Refused, float64(s.Refused)), cmp.Or(l.Turn, s.Turn), cmp.Or(l.RunIdle, s.RunIdle)
	return l
}

func (l Limits) settled() Limits {
	l.Door = l.Settled()
	l.Body, l.File = cmp.Or(l.Body, 1<<20), cmp.Or(l.File, 16<<20)
	l.Rate, l.Refused = cmp.Or(l.Rate, 10000), cmp.Or(l.Refused, 10)
	l.Burst = cmp.Or(l.Burst, int(2*l.Rate)+1)
	l.Streams, l.Remembered = cmp.Or(l.Streams, 2048), cmp.Or(l.Remembered, 4096)
	l.Requests, l.Runs, l.Large = cmp.Or(l.Requests, 1024), cmp.Or(l.Runs, 64), cmp.Or(l.Large, 32)
	l.OpenRuns, l.RunIdle = cmp.Or(l.OpenRuns, 1024), cmp.Or(l.RunIdle, 10*time.Minute)
	l.Turn, l.Heartbeat, l.Drain = cmp.Or(l.Turn, 10*time.Minute), cmp.Or(l.Heartbeat, 15*time.Second), cmp.Or(l.Drain, 20*time.Second)
	return l
}

// Server serves the API. It is safe for concurrent use.
type Server struct {
	o       Options
	limits  Limits
	mux     *http.ServeMux
	api     huma.API
	ops     []*operation
	port    atomic.Pointer[string] // that it listens on; nil: not yet
	spec    func() ([]byte, error)
	rates   *admission.Rates
	shared  *admission.Shared // nil: other processes do not count
	refused *admission.Rates
	again   *remembered
	late    late
	met     meters
	seats   *admission.Seats // of event streams
	places  *admission.Seats // of other requests
	large   *admission.Seats // of large bodies, beside their requests
	running *admission.Seats // of runs that were started
	opened  *admission.Seats // of open runs
	health  health
	ui      http.Handler // nil: none

	draining chan struct{} // closed when the server is told to stop
	drain    sync.Once
	entering sync.Mutex      // no turn is added after draining is closed
	work     context.Context // of turns: they can outlive their request, but not the server
	stop     context.CancelFunc
	turns    sync.WaitGroup // and runs
	underWay underWay       // runs that can be cancelled
}

// New makes a server.
func New(o Options) (*Server, error) {
	if o.Gate == nil || o.Lineage == nil || o.Agents == nil || o.Sessions == nil || o.Conversations == nil || o.Turns == nil || o.Files == nil {
		return nil, fault.New(fault.Internal, "an API needs a gate, lineage, agents, sessions, conversations, turns and files")
	}
	if o.Metrics == nil {
		o.Metrics = telemetry.New()
	}
	s := &Server{o: o, limits: o.Limits.settled(), mux: http.NewServeMux(), draining: make(chan struct{})}
	s.work, s.stop = context.WithCancel(context.Background())
	s.rates, s.refused = admission.NewRates(s.limits.Rate, s.limits.Burst), admission.NewRates(s.limits.Refused, int(s.limits.Refused*2)+1)
	if o.TakeRequests != nil && o.Limits.Rate > 0 {
		s.shared = admission.NewShared(s.limits.Rate, s.limits.Burst, o.TakeRequests)
	}
	s.again, s.met = newRemembered(s.limits.Remembered), newMeters(o.Metrics)
	s.large = admission.NewSeats(s.limits.Large)
	s.seats, s.places, s.running = admission.NewSeats(s.limits.Streams), admission.NewSeats(s.limits.Requests), admission.NewSeats(s.limits.Runs)
	s.opened = admission.NewSeats(s.limits.OpenRuns)
	s.api = s.describe()
	s.system()
	s.capabilities()
	s.agents()
	s.sessions()
	s.messages()
	s.events()
	s.files()
	s.tools()
	s.commands()
	s.runs()
	s.queue()
	s.changes()
	s.grants()
	s.approvals()
	s.labels()
	s.audit()
	s.policies()
	s.parts()
	if o.MCP != nil {
		s.mux.HandleFunc("/mcp", s.mcp)
	}
	if o.Witness != nil {
		s.mux.HandleFunc("/witness/add-checkpoint", s.witness)
	}
	s.login()
	s.mux.HandleFunc("/", s.unknown)
	if o.UI != nil {
		var err error
		if s.ui, err = o.UI(s); err != nil {
			return nil, err
		}
	}
	s.spec = s.document()
	return s, nil
}

// Serve serves requests on a listener until ctx ends. Requests under way then have some
// time: streams are told, turns can finish.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return fault.Wrap(fault.Usage, err, "the address %s has no port", l.Addr())
	}
	s.port.Store(&port)
	srv := s.limits.Server(s)
	srv.TLSConfig = s.o.TLS
	if s.o.Errors != nil {
		srv.ErrorLog = slog.NewLogLogger(s.o.Errors.Handler(), slog.LevelDebug)
	}
	l = s.limits.Listen(l)
	if s.o.TLS != nil {
		l = tls.NewListener(l, s.o.TLS)
	}
	ended := make(chan struct{})
	var tasks sync.WaitGroup
	tasks.Go(func() {
		select {
		case <-ctx.Done():
		case <-ended:
		}
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.Drain)
		defer cancel()
		s.Drain(after)
		if srv.Shutdown(after) != nil {
			_ = srv.Close() // remaining connections are closed
		}
	})
	err = srv.Serve(l)
	close(ended)
	tasks.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// Drain ends event streams and lets turns finish until ctx ends. Then it interrupts turns:
// their sessions can be resumed when the service is back.
func (s *Server) Drain(ctx context.Context) {
	s.drain.Do(func() {
		s.entering.Lock()
		defer s.entering.Unlock()
		close(s.draining)
	})
	done := make(chan struct{})
	go func() {
		s.turns.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		if s.o.Interrupt != nil {
			s.o.Interrupt(context.WithoutCancel(ctx))
		}
	}
	s.stop()
	<-done
	s.late.tasks.Wait()
}
