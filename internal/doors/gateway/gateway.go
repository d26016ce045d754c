// Package gateway serves the catalog's tools to MCP clients, on standard input and output
// or over HTTP. Every connection is a run of its own, under a grant of its own; of a session that several
// nodes serve, each node has a run. A client
// sees the tools that its grant could allow. Each call goes through the run's session, so
// it is decided and recorded as all calls are: the gateway only translates. Start at
// [New].
//
// Left out on purpose: the gateway decides nothing, opens nothing and keeps nothing
// between connections.
package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/grants"
)

// Session is the run of one connection.
type Session interface {
	// ID is the run's.
	ID() uuid.UUID
	// Chain gives the policies of the run's grant.
	Chain() policy.Chain
	// Usable fails if the run's grant cannot be used now, because it was revoked or paused,
	// or has expired.
	Usable(ctx context.Context) error
	// Call carries out a call. An error means that the session is over, or that its record
	// cannot be written.
	Call(ctx context.Context, c runner.Call) (runner.Outcome, error)
	// Refuse records a call that cannot be made, and why.
	Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error)
	// End waits for the calls that are under way and records the end.
	End(ctx context.Context) error
	// Interrupted reports whether the run cannot go on, as this node could not renew its lease.
	Interrupted() bool
}

// Asker asks the person at the client a question of an approval. It is a run's Here.
type Asker func(ctx context.Context, c approval.Case) (store.Vote, error)

// Gate authenticates the clients of a gateway.
type Gate interface {
	// Enter verifies what a client presents. It must be fast for a token that was verified before.
	Enter(ctx context.Context, c callers.Credential) (*callers.Caller, error)
	// Check returns the present state of an admitted caller, or an error if the caller would be
	// refused now.
	Check(ctx context.Context, c *callers.Caller) (*callers.Caller, error)
}

// Options says what a gateway serves.
type Options struct {
	Version string
	// Door bounds connections and slow clients over HTTP.
	Door admission.Door
	// Clients is how many clients over HTTP there can be at once, at most half of them of
	// one person; 0: as many as the memory is for.
	Clients int
	// Tools lists the catalog's enabled tools by ID, as far as they are known when ctx ends.
	Tools func(ctx context.Context) []*tool.Spec
	// Gate authenticates clients over HTTP. It is needed for HTTP only.
	Gate Gate
	// Shared is where the nodes of a ledger share the sessions of clients over HTTP; it gives
	// nil, or is nil, where this process alone has them.
	Shared func(ctx context.Context) (store.Ephemera, error)
	// Findings gives the suspicious parts of a tool's own text, which clients get in the
	// tool's _meta; nil: none.
	Findings func(id tool.ID) []Finding
	// Begin starts the run of a connection; granted is the grant that the client presented,
	// empty on standard input and output.
	Begin func(ctx context.Context, granted grants.Presented, ask Asker) (Session, error)
	// Elicit has the policy's questions answered by the person at the client; otherwise
	// they wait for others.
	Elicit bool
	// Person is the name of the person at the client.
	Person string
	// Watch calls f, which must be fast, whenever Tools may have changed, until stop is
	// called; nil: they never change.
	Watch func(f func()) (stop func())
	// Server names the one MCP server to serve, with its own names of tools, resources and
	// prompts; "": the whole catalog, with names of [NameOf].
	Server string
	// Offers lists the known offers of MCP servers besides tools; nil: none.
	Offers func() []Offer
	// Changes calls f, which must be fast, whenever Offers may have changed (uri is ""), or
	// a watched resource has, until stop is called. It is nil if Offers is.
	Changes func(f func(server, uri string)) (stop func())
	// Unwatch ends one watch of a resource. It is nil if Offers is.
	Unwatch func(ctx context.Context, server, uri string)
}

// Gateway serves MCP clients. It is safe for concurrent use.
type Gateway struct {
	opts Options

	mu    sync.Mutex
	conns map[*conn]bool
}

// New makes a gateway.
func New(o Options) *Gateway {
	if o.Clients == 0 {
		o.Clients = admission.Clients()
	}
	return &Gateway{opts: o, conns: map[*conn]bool{}}
}

// maxCalls is how many calls of a connection can be under way or waiting. More are
// refused.
const maxCalls = 256

// conn is a client with its run.
type conn struct {
	gateway *Gateway
	id      string // of its session over HTTP; unguessable
	server  *mcp.Server
	granted grants.Presented
	slots   chan struct{} // one for each call under way
	last    atomic.Int64  // index of the last call in the run
	ended   sync.Once

	runs    sync.Mutex // guards the next two
	session Session
	earlier []Session // that were interrupted

	listing sync.Mutex // held while listing

	mu     sync.Mutex
	usable bool               // whether the grant was usable at the last listing
	listed map[string]tool.ID // by names for the client
	shown  map[string]tool.Digest
	shelves
	level   string             // lowest level of logs that the client wants, in revisions with sessions
	watched map[origin]int     // number of watches by resource
	calls   map[int]*call      // under way, by index in the run
	parked  map[string]*parked // calls that wait until the client repeats them with an answer
}

const instructions = `Tools of Remit. Every call is decided by policy and recorded. A denied call ` +
	`comes back as an error that names the rule and what is allowed instead: do that, or ask the person; ` +
	`the same call again is denied again. A call that needs approval says how a person gives it.`

// connect starts a connection's run and makes the MCP server for its client.
func (g *Gateway) connect(ctx context.Context, granted grants.Presented) (*conn, error) {
	c := &conn{
		gateway: g, id: unguessable(), granted: granted, slots: make(chan struct{}, maxCalls), listed: map[string]tool.ID{}, shown: map[string]tool.Digest{},
		calls: map[int]*call{}, parked: map[string]*parked{}, shelves: newShelves(), watched: map[origin]int{},
	}
	var err error
	if c.session, err = g.opts.Begin(ctx, granted, c.ask); err != nil {
		return nil, err
	}
	c.server = mcp.NewServer(&mcp.Implementation{Name: "remit", Title: "Remit", Version: g.opts.Version}, c.options())
	c.server.AddReceivingMiddleware(c.unlisted)
	c.list(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[c] = true
	return c, nil
}

// options gives the capabilities of the client's server.
func (c *conn) options() *mcp.ServerOptions {
	o := &mcp.ServerOptions{
		Instructions: instructions,
		GetSessionID: func() string { return c.id },
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}},
	}
	if c.gateway.opts.Offers != nil {
		o.Capabilities.Logging = &mcp.LoggingCapabilities{}
		o.Capabilities.Prompts = &mcp.PromptCapabilities{ListChanged: true}
		o.Capabilities.Resources = &mcp.ResourceCapabilities{ListChanged: true, Subscribe: true}
		o.CompletionHandler, o.SubscribeHandler, o.UnsubscribeHandler = c.complete, c.subscribe, c.unsubscribe
	}
	return o
}

// end cancels calls that wait for the client, and records the run's end.
func (c *conn) end(ctx context.Context) (err error) {
	c.ended.Do(func() {
		c.gateway.mu.Lock()
		delete(c.gateway.conns, c)
		c.gateway.mu.Unlock()
		c.stopCalls()
		c.unwatchAll(ctx)
		for _, s := range c.earlier {
			_ = s.End(context.WithoutCancel(ctx)) // other nodes close its run
		}
		err = c.run().End(context.WithoutCancel(ctx))
	})
	return err
}

// run is the connection's run.
func (c *conn) run() Session {
	c.runs.Lock()
	defer c.runs.Unlock()
	return c.session
}

// liveRun is the connection's run. If that was interrupted, it begins another one.
func (c *conn) liveRun(ctx context.Context) (Session, error) {
	c.runs.Lock()
	defer c.runs.Unlock()
	if !c.session.Interrupted() {
		return c.session, nil
	}
	if c.session.Chain().HasFlows() {
		return nil, fault.New(fault.StoreFailed, "the run was interrupted, and the labels of its data are lost").WithHint("start a new session")
	}
	next, err := c.gateway.opts.Begin(ctx, c.granted, c.ask)
	if err != nil {
		return nil, err
	}
	c.earlier, c.session = append(c.earlier, c.session), next
	return next, nil
}

// listTime is how long listing waits for sources of tools, when a client connects or
// something changed. Later tools are shown when they come.
const listTime = 8 * time.Second

// tellEvery is the shortest time between two messages to clients that a server's lists
// changed, as the server claims.
const tellEvery = 500 * time.Millisecond

// watch shows clients new tools, and tells them of resources that changed, until ctx ends.
func (g *Gateway) watch(ctx context.Context) {
	changed, news := make(chan struct{}, 1), newNews()
	note := func() {
		select {
		case changed <- struct{}{}:
		default: // noted already
		}
	}
	if g.opts.Watch != nil {
		defer g.opts.Watch(note)()
	}
	if g.opts.Changes != nil {
		defer g.opts.Changes(news.add)()
	}
	note() // for changes since the first listing
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			g.listAll(ctx, nil)
		case <-news.lists:
			g.listAll(ctx, news.servers())
			select {
			case <-time.After(tellEvery):
			case <-ctx.Done():
				return
			}
		case <-news.due:
			for o := range news.take() {
				for _, c := range g.all() {
					c.updated(ctx, o)
				}
			}
		}
	}
}

// listAll lists again for every client. For the named servers, clients are told of a change
// even if they see no difference.
func (g *Gateway) listAll(ctx context.Context, servers map[string]bool) {
	for _, c := range g.all() {
		for s := range servers {
			c.touch(s)
		}
		c.list(ctx)
	}
}

func (g *Gateway) all() []*conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Keys(g.conns))
}
