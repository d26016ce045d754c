package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// live is a server that runs.
type live struct {
	server  *Server
	link    *Link
	session *sdk.ClientSession
	heard   atomic.Int64 // when it last sent something, in nanoseconds
	once    sync.Once

	calls int         // under way; guarded by the server's lock
	idle  *time.Timer // guarded by the server's lock

	mu       sync.Mutex
	broken   error // why the connection is of no use any more
	good     bool  // it has answered a call
	next     int   // progress token
	progress map[string]func(tool.Progress)
	flights  map[*flight]bool // calls under way, for messages of the server that name none
	level    string           // from which level on the server was told to log; "": not at all
	toolsOf  bool             // its tools were listed on this connection
	turn     chan struct{}    // taken by a call that must be the only one
}

// client makes the client that talks to the server.
func (l *live) client() *sdk.Client {
	s, asks := l.server, l.server.cfg.Asks
	o := &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ToolListChangedHandler:      func(context.Context, *sdk.ToolListChangedRequest) { s.noteChange() },
		PromptListChangedHandler:    func(context.Context, *sdk.PromptListChangedRequest) { s.noteChange() },
		ResourceListChangedHandler:  func(context.Context, *sdk.ResourceListChangedRequest) { s.noteChange() },
		ResourceUpdatedHandler:      func(_ context.Context, r *sdk.ResourceUpdatedNotificationRequest) { s.updated(r.Params.URI) },
		ProgressNotificationHandler: l.tell,
		LoggingMessageHandler:       l.log,
		MultiRoundTrip:              &sdk.MultiRoundTripOptions{Disabled: true},
	}
	if asks.Elicitation {
		o.Capabilities.Elicitation = &sdk.ElicitationCapabilities{Form: &sdk.FormElicitationCapabilities{}}
	}
	if asks.Sampling {
		o.Capabilities.Sampling = &sdk.SamplingCapabilities{}
	}
	if asks.Roots {
		o.Capabilities.RootsV2 = &sdk.RootCapabilities{}
	}
	c := sdk.NewClient(&sdk.Implementation{Name: "remit", Title: "Remit", Version: s.cfg.Version}, o)
	c.AddSendingMiddleware(uncached, l.noteRefusal)
	c.AddReceivingMiddleware(l.answerQuestions)
	return c
}

func (l *live) take() {
	l.calls++
	if l.idle != nil {
		l.idle.Stop()
	}
}

func (l *live) give() int    { l.calls--; return l.calls }
func (l *live) unused() bool { return l.calls == 0 }

// stop ends the connection and the server.
func (l *live) stop() {
	l.once.Do(func() {
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			_ = l.session.Close() // a fault in it is reported where it is used
		}()
		select {
		case <-closed:
		case <-time.After(time.Second): // it may wait for calls that nobody answers
		}
		l.link.Stop()
		<-closed
	})
}

// fail notes the first thing that made the connection useless.
func (l *live) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = why
	}
}

// hasEnded reports whether the server has ended, or its connection is of no use.
func (l *live) hasEnded() bool {
	select {
	case <-l.link.Ended:
		return true
	default:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken != nil
}

func (l *live) answered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.good
}

func (l *live) ok() {
	l.mu.Lock()
	l.good = true
	l.mu.Unlock()
	s := l.server
	s.mu.Lock()
	s.failures = 0
	s.mu.Unlock()
}

// reason is why a server that is over is that, as far as it is known by now.
func (l *live) reason() error { return l.word(errGone, "ended") }

// explain describes the failure of a connection: a fault of the server itself, else the end of its
// process, else err. The end of its output comes a moment before the end of the process, which is
// waited for.
func (l *live) explain(err error, what string) error {
	l.mu.Lock()
	known := errors.As(l.broken, new(*fault.Error))
	l.mu.Unlock()
	if !known && !l.link.Remote {
		select {
		case <-l.link.Ended:
		case <-time.After(2 * time.Second):
		}
	}
	return l.word(err, what)
}

func (l *live) word(err error, what string) error {
	l.mu.Lock()
	broken := l.broken
	l.mu.Unlock()
	if !errors.As(broken, new(*fault.Error)) {
		select {
		case <-l.link.Ended:
			if broken = l.link.Why(); broken == nil {
				broken = errors.New("it exited")
			}
		default:
		}
	}
	if broken != nil {
		err = broken
	}
	text := err.Error()
	if coded := (*fault.Error)(nil); errors.As(err, &coded) {
		text = fault.Message(coded)
	}
	e := fault.Wrap(fault.ToolFailed, err, "the MCP server %q %s: %s", l.server.cfg.Name, what, quoted(text, 500))
	hint := ""
	if l.server.cfg.Logs != "" {
		hint = "its standard error is in " + l.server.cfg.Logs
	}
	if io, ok := l.link.Transport.(*stdio); ok {
		if n, first := io.lines.noiseSoFar(); n > 0 {
			hint = strings.TrimPrefix(fmt.Sprintf("%s; %d lines of its standard output are not messages, the first: %s", hint, n, first), "; ")
		}
	}
	if hint == "" {
		return e
	}
	return e.WithHint("%s", hint)
}

// tell passes progress on to its call.
func (l *live) tell(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	l.passProgress(r.Params)
}

func (l *live) passProgress(p *sdk.ProgressNotificationParams) {
	token, _ := p.ProgressToken.(string)
	l.mu.Lock()
	tell := l.progress[token]
	l.mu.Unlock()
	if tell != nil {
		tell(tool.Progress{Done: p.Progress, Total: p.Total, Message: quoted(p.Message, 200)})
	}
}

// follow registers for a call's progress.
func (l *live) follow(tell func(tool.Progress)) (token string, stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	token = "p" + strconv.Itoa(l.next)
	l.progress[token] = tell
	return token, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.progress, token)
	}
}

// metered looks at all that a server sends. A server may send unrequested messages (notifications,
// requests, answers to nothing) only so often: the queues of the SDK are bounded by that.
type metered struct {
	sdk.Transport
	live *live
}

// Connect implements the SDK's Transport.
func (m *metered) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := m.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	if m.live.link.Remote { // over HTTP the SDK needs its own connection; its bodies are bounded where they are read
		return c, nil
	}
	return &meteredConn{Connection: c, live: m.live, left: burst, at: time.Now()}, nil
}

const (
	burst     = 500 // unsolicited messages at once
	perSecond = 100 // and lastingly
	maxWait   = 10_000
)

type meteredConn struct {
	sdk.Connection
	live *live

	waiting pending

	mu   sync.Mutex
	left float64
	at   time.Time
}

// Read implements the SDK's Connection.
func (c *meteredConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.live.fail(unread(err))
			c.live.server.drop(c.live)
			return nil, err
		}
		c.live.heard.Store(time.Now().UnixNano())
		pass, err := c.admit(m)
		if err != nil {
			c.live.fail(err)
			c.live.server.drop(c.live)
			return nil, err
		}
		if pass && !c.live.heed(m) {
			return m, nil
		}
	}
}

// heed takes in messages about a call that may come right before its answer: the SDK would hand
// them on beside the answer, so that they could be late. It reports whether it did.
func (l *live) heed(m jsonrpc.Message) bool {
	r, ok := m.(*jsonrpc.Request)
	if !ok || r.IsCall() {
		return false
	}
	switch r.Method {
	case "notifications/message":
		var p sdk.LoggingMessageParams
		if json.Unmarshal(r.Params, &p) == nil {
			l.logged(&p)
		}
		return true
	case "notifications/progress":
		var p sdk.ProgressNotificationParams
		if json.Unmarshal(r.Params, &p) == nil {
			l.passProgress(&p)
		}
		return true
	}
	return false
}

// admit reports whether a message has a receiver.
func (c *meteredConn) admit(m jsonrpc.Message) (bool, error) {
	r, answer := m.(*jsonrpc.Response)
	if answer {
		if method, ok := c.waiting.take(r); ok {
			mend(r, method)
			return true, nil
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.left = min(burst, c.left+now.Sub(c.at).Seconds()*perSecond)
	c.at = now
	if c.left--; c.left < 0 {
		return false, fault.New(fault.ToolFailed, "it sent too many unsolicited messages: the limit is %d at once and %d a second", burst, perSecond)
	}
	return !answer, nil // an answer without a request, or a second one, is dropped
}

// Write implements the SDK's Connection.
func (c *meteredConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() && !c.waiting.add(r) {
		return fault.New(fault.ToolFailed, "%d requests wait for an answer", maxWait)
	}
	return c.Connection.Write(ctx, m)
}

// unread words why nothing more can be read of a server.
func unread(err error) error {
	coded := (*fault.Error)(nil)
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, fs.ErrClosed), errors.Is(err, context.Canceled):
		return errGone
	}
	return fault.New(fault.ToolFailed, "its standard output is not MCP: %s", quoted(err.Error(), 200))
}

// quoted shows untrusted text: cut, and with control characters written out.
func quoted(s string, most int) string {
	cut := ""
	if len(s) > most {
		s, cut = strings.ToValidUTF8(s[:most], ""), "…"
	}
	q := fmt.Sprintf("%q", s)
	return q[1:len(q)-1] + cut
}
