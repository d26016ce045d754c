// Package mcp makes the tools of MCP servers available. A server is a foreign program: it
// is started on demand and confined (see [Config].Start), stopped when idle, and none of
// its messages is trusted or kept without a bound. Start at [New].
//
// A server's questions (elicitation, sampling, roots) reach the caller only if the operator
// and the caller's policy allow it; see caller.go.
package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Link is a server that was started, or reached.
type Link struct {
	Transport sdk.Transport
	// Remote: the server is elsewhere, and is only reached from here.
	Remote bool
	// Ended is closed when the server has ended by itself or was stopped; of a
	// server elsewhere, when it is not reached any more.
	Ended <-chan struct{}
	// Why tells, once Ended is closed, how the server ended; nil: as it should.
	Why func() error
	// Stop ends the server and waits until it has ended.
	Stop func()
	Kill func() // ends it at once; nil: Stop does
}

// Config describes a server and its address.
type Config struct {
	Name    string // of the server: the middle of its tools' IDs
	Source  string // what its tools' specifications name as their source: "mcp" or "mcp-remote"
	Version string // of Remit, told to the server
	Pin     string // identifies the files that the server runs; part of its tools' digests; "": not known
	// Start starts the server, or gets ready to reach it. The link outlives ctx.
	Start func(ctx context.Context) (*Link, error)
	// Cannot are side effects that its confinement makes impossible.
	Cannot tool.Effects
	// Within says which arguments are paths and URLs that the caller's rules decide,
	// and Folder where relative paths begin.
	Within []Within
	Folder string
	// Stream is how long one answer of a server elsewhere may last, that on which it
	// tells of changes included; 0: as long as it likes.
	Stream time.Duration
	// Idle is how long the server may run unused; 0: 5 minutes.
	Idle time.Duration
	// StartTime is how long it may take until it answers; 0: 30 s.
	StartTime time.Duration
	// Logs names where its standard error goes, for messages; "": nowhere.
	Logs string
	// Asks are the requests that the server may send to its callers, where their policies allow
	// them too.
	Asks policy.MCP
	// Protocol is the revision to begin with; "": the newest that both know.
	Protocol string
	// Updated is told that a resource changed to which somebody subscribed; nil:
	// nobody is.
	Updated func(uri string)
	// Reoffered is told that the server says that its tools changed, or that what
	// [Server.Offered] gives did; nil: nobody is.
	Reoffered func()
}

const (
	defaultIdle  = 5 * time.Minute
	defaultStart = 30 * time.Second
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
)

// Protocols are the revisions that are spoken, the newest first.
func Protocols() []string { return sdk.SupportedProtocolVersions() }

// Server is an MCP server as a source of tools. It is safe for concurrent use.
type Server struct {
	cfg     Config
	changed chan struct{}

	mu       sync.Mutex
	cur      *live     // nil: it does not run
	starting *starting // nil: it is not being started
	failures int       // starts in a row that failed, or came to nothing
	notYet   time.Time // it is not started again before then
	lastErr  error
	closed   bool
	remote   bool           // it is elsewhere: calls wait for the next attempt to reach it
	called   time.Time      // when a tool of it was called last
	offered  Offered        // besides tools, as listed last
	subs     map[string]int // watched resources, and the number of watchers
	begun    sync.WaitGroup // goroutines that start and stop servers
}

// starting is a start that several callers may wait for.
type starting struct {
	cancel context.CancelFunc
	done   chan struct{}
	live   *live
	err    error
}

// New makes a source of a server. Nothing is started.
func New(c Config) *Server {
	if c.Idle <= 0 {
		c.Idle = defaultIdle
	}
	if c.StartTime <= 0 {
		c.StartTime = defaultStart
	}
	return &Server{cfg: c, changed: make(chan struct{}, 1), subs: map[string]int{}}
}

// Name is the prefix of the IDs of the server's tools.
func (s *Server) Name() string { return "mcp:" + s.cfg.Name }

// Changed reports that the server's tools may have changed.
func (s *Server) Changed() <-chan struct{} { return s.changed }

func (s *Server) noteChange() {
	select {
	case s.changed <- struct{}{}:
	default: // told already
	}
	if s.cfg.Reoffered != nil {
		s.cfg.Reoffered()
	}
}

// Close stops the server and refuses to start it again.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	cur := s.cur
	s.cur = nil
	if s.starting != nil {
		s.starting.cancel() // no call waits for it any more
	}
	s.mu.Unlock()
	if cur != nil {
		cur.stop()
	}
	s.begun.Wait()
	return nil
}

// use returns the running server, started if need be; done must be called.
func (s *Server) use(ctx context.Context) (l *live, done func(), err error) {
	for {
		l, wait, err := s.current()
		if errors.Is(err, errLater) {
			select { // the back-off is nearly over
			case <-time.After(soon):
				continue
			case <-ctx.Done():
				return nil, nil, context.Cause(ctx)
			}
		}
		if err != nil {
			return nil, nil, err
		}
		if l != nil {
			return l, func() { s.release(l) }, nil
		}
		select {
		case <-wait.done:
			if wait.err != nil {
				return nil, nil, wait.err
			}
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// current takes the server that runs, or gives the start to wait for.
func (s *Server) current() (*live, *starting, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fault.New(fault.ToolFailed, "the MCP server %q is not used any more", s.cfg.Name)
	}
	if s.cur != nil && s.cur.hasEnded() {
		s.forgetLive(s.cur)
	}
	if s.cur != nil {
		s.cur.take()
		return s.cur, nil, nil
	}
	if s.starting != nil {
		return nil, s.starting, nil
	}
	switch wait := time.Until(s.notYet); {
	case wait > maxPatience:
		return nil, nil, fault.New(fault.ToolFailed, "the MCP server %q failed %d times in a row and is not started again for %s; last: %s",
			s.cfg.Name, s.failures, wait.Round(100*time.Millisecond), bare(s.lastErr)).ForOperator("remit mcp test %s", s.cfg.Name)
	case wait > 0:
		return nil, nil, errLater
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.StartTime)
	st := &starting{cancel: cancel, done: make(chan struct{})}
	s.starting = st
	s.begun.Go(func() { s.start(ctx, st) })
	return nil, st, nil
}

// start starts the server for all who wait. It does not depend on any of them.
func (s *Server) start(ctx context.Context, st *starting) {
	defer st.cancel()
	l, err := s.connect(ctx)
	s.mu.Lock()
	s.starting = nil
	closed := s.closed
	switch {
	case err != nil:
		s.failed(err)
	case !closed:
		s.cur = l
	}
	s.mu.Unlock()
	if closed && l != nil {
		l.stop()
		err = fault.New(fault.ToolFailed, "the MCP server %q is not used any more", s.cfg.Name)
	}
	st.live, st.err = l, err
	close(st.done)
}

// failed counts a failure; the caller holds the lock. A missing login is not one: the
// server can be asked again as soon as somebody has logged in.
func (s *Server) failed(err error) {
	if errors.Is(err, fault.LoginNeeded) {
		return
	}
	s.failures++
	s.lastErr = err
	if s.failures > 1 { // a single failure: the next call tries again at once
		most := maxBackoff
		if s.remote {
			most = maxPatience
		}
		s.notYet = time.Now().Add(min(firstBackoff<<min(s.failures-2, 10), most))
	}
}

// forgetLive forgets a server that ended; the caller holds the lock.
func (s *Server) forgetLive(l *live) {
	if s.cur != l {
		return
	}
	s.cur = nil
	if l.answered() {
		s.failures = 0
	}
	s.failed(l.reason())
	s.begun.Go(l.stop)
}

// drop ends a server whose connection is of no use any more, also if nobody calls
// it.
func (s *Server) drop(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.forgetLive(l)
	}
}

// release ends the use of a server. An idle server is stopped.
func (s *Server) release(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.give() > 0 || s.closed || s.cur != l || len(s.subs) > 0 {
		return
	}
	l.idle = time.AfterFunc(s.cfg.Idle, func() { s.stopIdle(l) })
}

func (s *Server) stopIdle(l *live) {
	s.mu.Lock()
	if s.closed || s.cur != l || !l.unused() || len(s.subs) > 0 {
		s.mu.Unlock()
		return
	}
	s.cur = nil
	s.begun.Add(1)
	s.mu.Unlock()
	defer s.begun.Done()
	l.stop()
}

// expire ends a connection on which changes are not told any more: the SDK opens the
// stream for them once. If the server was used lately it is asked again, which
// connects anew; else it is as good as idle.
func (s *Server) expire(l *live) {
	s.mu.Lock()
	if s.closed || s.cur != l {
		s.mu.Unlock()
		return
	}
	if !l.unused() {
		time.AfterFunc(time.Second, func() { s.expire(l) })
		s.mu.Unlock()
		return
	}
	s.cur = nil
	lately := time.Since(s.called) < s.cfg.Idle || len(s.subs) > 0
	s.begun.Add(1)
	s.mu.Unlock()
	defer s.begun.Done()
	l.stop()
	if lately {
		s.noteChange()
	}
}

// relist asks a server again, if it was used lately, each time that the stream of its change
// notices may have been cut: the SDK opens that anew, and notices sent meanwhile are lost.
func (s *Server) relist(l *live) {
	s.mu.Lock()
	over := s.closed || s.cur != l
	lately := time.Since(s.called) < s.cfg.Idle || len(s.subs) > 0
	s.mu.Unlock()
	if over {
		return
	}
	time.AfterFunc(s.cfg.Stream, func() { s.relist(l) })
	if lately {
		s.noteChange()
	}
}

// abandon stops a server that is stuck, so that the next call gets a new one.
func (s *Server) abandon(l *live, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.fail(why)
	s.forgetLive(l)
}

// legacy is the last revision that begins with a handshake.
const legacy = "2025-11-25"

// connect starts the server and agrees with it on the protocol: the newest, or,
// since older servers may not survive being asked for it, the last with a
// handshake. A server that refuses that and lists the revisions that it knows is asked for the
// newest that both know.
func (s *Server) connect(ctx context.Context) (*live, error) {
	if s.cfg.Protocol != "" {
		l, _, err := s.attempt(ctx, s.cfg.Protocol)
		return l, err
	}
	first, stop := context.WithTimeout(ctx, s.cfg.StartTime/3)
	defer stop()
	l, started, err := s.attempt(first, "")
	if err == nil || !started || ctx.Err() != nil || errors.Is(err, errTooLong) || errors.Is(err, fault.LoginNeeded) {
		return l, err
	}
	common := commonRevision(err)
	if common == "" {
		if l, _, err = s.attempt(ctx, legacy); err == nil {
			return l, nil
		}
		common = commonRevision(err)
	}
	if common != "" {
		l, _, err = s.attempt(ctx, common)
	}
	return l, err
}

// attempt starts the server once; started reports whether it was started.
func (s *Server) attempt(ctx context.Context, revision string) (_ *live, started bool, err error) {
	link, err := s.cfg.Start(ctx)
	if err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	s.remote = link.Remote
	s.mu.Unlock()
	// A server that never reads blocks all writes to it, so it is ended as soon as its time is
	// over. One that was cut off was never used: it has nothing to end well.
	end := sync.OnceFunc(func() {
		if errors.Is(ctx.Err(), context.Canceled) && link.Kill != nil {
			link.Kill()
		} else {
			link.Stop()
		}
	})
	inTime := context.AfterFunc(ctx, end)
	l := &live{server: s, link: link, progress: map[string]func(tool.Progress){}, flights: map[*flight]bool{}, turn: make(chan struct{}, 1)}
	l.session, err = l.client().Connect(ctx, &metered{link.Transport, l}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if !inTime() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		if link.Remote {
			s.watchEnd(l)
		}
		s.resubscribe(ctx, l)
		if link.Remote && s.cfg.Stream > 0 {
			cut := s.relist
			if l.modern() {
				cut = s.expire
			}
			time.AfterFunc(s.cfg.Stream, func() { cut(l) })
		}
		return l, true, nil
	}
	if coded := loginNeeded(err); coded != nil {
		err = coded
	} else if ctx.Err() != nil {
		err = fault.New(fault.ToolTimeout, "the MCP server %q did not answer within %s", s.cfg.Name, s.cfg.StartTime)
	} else {
		err = l.explain(err, "could not be started")
	}
	end()
	return nil, true, err
}

// loginNeeded is the error in err that says that a person has to log in, or nil.
func loginNeeded(err error) error {
	if coded := (*fault.Error)(nil); errors.As(err, &coded) && coded.Code == fault.LoginNeeded {
		return coded
	}
	return nil
}

// maxPatience is how much of a back-off a call waits for; soon is how often it looks.
const (
	maxPatience = 2 * time.Second
	soon        = 50 * time.Millisecond
)

var errLater = errors.New("the server is started again in a moment")

// bare is an error's message without its hint.
func bare(err error) string {
	if coded := (*fault.Error)(nil); errors.As(err, &coded) {
		return coded.Msg
	}
	return "it ended"
}

var errGone = errors.New("the server has gone")
