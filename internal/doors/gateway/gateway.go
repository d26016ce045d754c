// Package gateway lets MCP clients use the catalog's tools: one server, on
// standard input and output or over HTTP, whose every connection is a run of its
// own under a grant of its own. A client sees the tools that its grant could
// allow. Each call goes through the run's session, so it is decided and recorded
// as from any other door; the gateway only translates. Start at [New].
//
// It is left out on purpose: the gateway decides nothing, opens nothing and keeps
// nothing between connections.
package gateway

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// Session is the run of one connection.
type Session interface {
	// Run is the run's ID.
	Run() string
	// Chain is what the run's grant allows.
	Chain() policy.Chain
	// Usable says why the run's grant may not be used now: it was revoked or paused, or
	// its time is over.
	Usable(ctx context.Context) error
	// Call takes one call all the way, whatever comes of it. An error means that
	// the session is over, or its record cannot be written.
	Call(ctx context.Context, c runner.Call) (runner.Outcome, error)
	// Refuse records a call that cannot be made, and why.
	Refuse(ctx context.Context, c runner.Call, why error) (runner.Outcome, error)
	// End waits for the calls that are under way and records the end.
	End(ctx context.Context) error
}

// Asker puts an approval's question to the person at the client. It is what a
// run's Here is.
type Asker func(ctx context.Context, c approval.Case) (store.Vote, error)

// Holder is who presents a token over HTTP.
type Holder struct {
	Leaf, Root string // the grant's ID and that of its root: limits are of both
	Opens      bool   // its policies allow any tool at all
}

// Options say what a gateway serves.
type Options struct {
	Version string
	// Tools lists the catalog's tools by ID, those that are switched off left out:
	// what is known of them when ctx ends.
	Tools func(ctx context.Context) []*tool.Spec
	// Enter verifies a token that a client presents over HTTP, and records nothing. It
	// must be quick for one that was verified before. Only over HTTP is it needed.
	Enter func(ctx context.Context, token string) (Holder, error)
	// Findings is what in a tool's own text should be read with care; nil: nothing is
	// known. Clients are told in the tool's _meta.
	Findings func(id tool.ID) []Finding
	// Begin starts the run of a connection; token is the grant that the client
	// presented, "" on standard input and output.
	Begin func(ctx context.Context, token string, ask Asker) (Session, error)
	// Elicit lets the person at the client answer the questions that the policy
	// asks; else they are filed for others.
	Elicit bool
	// Person is who answers at the client.
	Person string
	// Watch calls f, which is quick, whenever Tools may give others, until stop is
	// called; nil: they never change.
	Watch func(f func()) (stop func())
	// Server names the one MCP server that is served, under the names that it gives
	// its tools, resources and prompts; "": the whole catalog, under names of
	// [NameOf].
	Server string
	// Offers lists what MCP servers offer besides tools, as it is known now; nil:
	// there are none.
	Offers func() []Offer
	// Changes calls f, which is quick, whenever what Offers gives may be something
	// else (uri is ""), or a resource changed that is watched, until stop is called.
	// Nil like Offers.
	Changes func(f func(server, uri string)) (stop func())
	// Unwatch ends what one call that watches a resource began. Nil like Offers.
	Unwatch func(ctx context.Context, server, uri string)
}

// Gateway serves MCP clients. It is safe for concurrent use.
type Gateway struct {
	opts Options

	mu    sync.Mutex
	conns map[*conn]bool
}

// New makes a gateway.
func New(o Options) *Gateway { return &Gateway{opts: o, conns: map[*conn]bool{}} }

// maxCalls bounds the calls of one connection that are under way or wait for
// their turn; more are refused.
const maxCalls = 256

// conn is one client with its run.
type conn struct {
	gateway *Gateway
	id      string // of its session over HTTP; nobody can guess it
	server  *mcp.Server
	session Session
	slots   chan struct{} // one for each call under way
	last    atomic.Int64  // the last call's place in the run
	ended   sync.Once

	listing sync.Mutex // one at a time lists

	mu     sync.Mutex
	usable bool               // the grant was, at the last listing
	listed map[string]tool.ID // by the name that the client knows
	shown  map[string]tool.Digest
	shelves
	level   string             // from which level on the client wants logs, in revisions with sessions
	watched map[origin]int     // resources, and how often the client watches them
	calls   map[int]*call      // under way, by their place in the run
	parked  map[string]*parked // that wait for the client to come back with an answer
}

const instructions = `Tools of Remit. Every call is decided by policy and recorded. A denied call ` +
	`comes back as an error that names the rule and what is allowed instead: do that, or ask the person; ` +
	`the same call again is denied again. A call that needs approval says how a person gives it.`

// connect starts a connection's run and makes the server that the client talks to.
func (g *Gateway) connect(ctx context.Context, token string) (*conn, error) {
	c := &conn{
		gateway: g, id: unguessable(), slots: make(chan struct{}, maxCalls), listed: map[string]tool.ID{}, shown: map[string]tool.Digest{},
		calls: map[int]*call{}, parked: map[string]*parked{}, shelves: newShelves(), watched: map[origin]int{},
	}
	var err error
	if c.session, err = g.opts.Begin(ctx, token, c.ask); err != nil {
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

// options say what the client's server can do.
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

// end stops what waits for the client and records the run's end.
func (c *conn) end(ctx context.Context) (err error) {
	c.ended.Do(func() {
		c.gateway.mu.Lock()
		delete(c.gateway.conns, c)
		c.gateway.mu.Unlock()
		c.stopCalls()
		c.unwatchAll(ctx)
		err = c.session.End(context.WithoutCancel(ctx))
	})
	return err
}

// listTime is how long the sources of tools may take when a client connects, or
// something changed. What comes later is shown when it comes.
const listTime = 8 * time.Second

// tellEvery is how often at most clients are told that a server says that its lists
// changed, be that true or not.
const tellEvery = 500 * time.Millisecond

// watch shows clients what is new as it comes, and tells them of resources that
// changed, until ctx ends.
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
	note() // what changed since the client was shown the tools
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

// listAll shows every client what there is. Of these servers they are told that
// something changed even if they do not see a difference.
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
