// Package browser is the handle for web pages: the one way in which a call uses a browser.
// Each session, or run without one, has a browser of its own for each authority that acts in
// it, with a profile that is thrown away. It runs in the sandbox, where the only way out is a proxy that decides every request
// by the permit of the call under way; between calls it reaches nothing. Start at [New] and
// [Browsers.Use].
//
// A page may take its browser over. So all output of the browser is untrusted: sizes are
// bounded, and no decision depends on it.
package browser

import (
	"context"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

const (
	// Most is the number of browsers that are open at once.
	Most = 8 // the one that is idle longest gives way to another
	// Idle is how long a browser stays open without a call.
	Idle = 10 * time.Minute

	startTime = 30 * time.Second
)

// Box runs commands confined: linux.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
	NewFolder(p permit.Permit, bytes int64, files int) (*sandbox.Folder, error)
}

// Browsers are the open browsers of a process. They are safe for concurrent use.
type Browsers struct {
	box    Box
	secret func(key string) (string, bool)

	mu     sync.Mutex
	open   map[scope]*seat
	uses   int // calls that were the last of their seat so far
	closed bool
}

// scope names the owner of a browser. No other authority, and no other person, uses the accounts that it is signed in
// to.
type scope struct{ session, authority string }

// scopeOf is the zero scope, which shares nothing, for an authority that cannot be told from
// others.
func scopeOf(p permit.Permit) scope {
	authority, ok := p.Authority()
	if !ok {
		return scope{}
	}
	return scope{p.Scope(), authority}
}

// seat is the place of one scope's browser. One call at a time has its turn.
type seat struct {
	turn chan struct{}
	life context.Context // over when the seat was taken away; its browser is stopped then
	stop context.CancelFunc
	page *Page // guarded by turn; nil: no browser is open

	// Guarded by Browsers.mu.
	waiting int  // calls that have the seat or wait for it
	open    bool // the last call left a browser
	used    int  // Browsers.uses when the last call left
	idle    *time.Timer
}

func newSeat() *seat {
	s := &seat{turn: make(chan struct{}, 1)}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// New makes the handle. Nothing is started. secret finds stored values, for the policies'
// entries that add one to requests.
func New(box Box, secret func(key string) (string, bool)) *Browsers {
	return &Browsers{box: box, secret: secret, open: map[scope]*seat{}}
}

// Use has do use the page of the permit's scope, and returns the connections that were asked
// for meanwhile. Only with start is a browser started if none is open.
func (b *Browsers) Use(ctx context.Context, p permit.Permit, start bool, do func(*Page) error) (asked []sandbox.Connection, err error) {
	err = b.take(ctx, p, start, func(page *Page) error {
		end := page.relay.Begin(egress.Options{Permit: p, Ask: p.Asker(), Secret: b.secret})
		defer func() { asked = end() }()
		return do(page)
	})
	return asked, err
}

// Look is Use of an open page that reaches no network meanwhile.
func (b *Browsers) Look(ctx context.Context, p permit.Permit, do func(*Page) error) error {
	return b.take(ctx, p, false, do)
}

// take has do use the page while no other call does.
func (b *Browsers) take(ctx context.Context, p permit.Permit, start bool, do func(*Page) error) error {
	if !p.Live() {
		return fault.New(fault.HandleRefused, "the call that the browser is for is over")
	}
	if ctx.Err() != nil {
		return permit.Ended(ctx)
	}
	at := scopeOf(p)
	s, err := b.enter(ctx, at, start)
	if err != nil {
		return err
	}
	defer b.leave(at, s)
	if s.page != nil && s.page.gone() {
		s.page.close()
		s.page = nil
	}
	if s.page == nil && !start {
		return errNoPage
	}
	if s.page == nil {
		starting, cancel := context.WithCancelCause(ctx)
		defer context.AfterFunc(s.life, func() { cancel(errGone) })()
		if s.page, err = b.start(starting, p); err != nil { // without a network: Chromium asks its maker for much when it starts
			return over(ctx, p, err)
		}
	}
	defer context.AfterFunc(s.life, s.page.stop)()
	s.page.began()
	return over(ctx, p, do(s.page))
}

var errNoPage = fault.New(fault.NotFound, "no page is open").WithHint("open one with browser.open")

// over explains an error of a call that ran out of time.
func over(ctx context.Context, p permit.Permit, err error) error {
	switch {
	case err == nil || ctx.Err() == nil && p.Live():
		return err
	case !p.Live():
		return fault.Wrap(fault.HandleRefused, err, "the call that the browser is for is over")
	}
	return permit.Ended(ctx)
}

// enter waits for the scope's turn.
func (b *Browsers) enter(ctx context.Context, at scope, start bool) (*seat, error) {
	s, out, err := b.seatFor(at, start)
	if out != nil {
		out.close()
	}
	if err != nil {
		return nil, err
	}
	select {
	case s.turn <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		b.left(at, s)
		return nil, permit.Ended(ctx)
	}
}

// seatFor finds or makes the scope's seat, for one call more. out, if any, gave way to it and
// is to be closed.
func (b *Browsers) seatFor(at scope, start bool) (s, out *seat, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s = b.open[at]
	switch {
	case b.closed:
		return nil, nil, fault.New(fault.ToolFailed, "the browsers are closed")
	case s == nil && !start:
		return nil, nil, errNoPage
	case s == nil && len(b.open) >= Most:
		if out = b.oldest(); out == nil {
			return nil, nil, fault.New(fault.LimitReached, "%d browsers are in use already", Most).WithHint("browser.close ends one that is not needed any more")
		}
	}
	if s == nil {
		s = newSeat()
		b.open[at] = s
	}
	s.waiting++
	if s.idle != nil {
		s.idle.Stop()
	}
	return s, out, nil
}

// oldest takes away the seat that has been idle longest; nil: all are in use. b.mu is held.
func (b *Browsers) oldest() *seat {
	var out *seat
	var of scope
	for at, s := range b.open {
		if s.waiting == 0 && (out == nil || s.used < out.used) {
			out, of = s, at
		}
	}
	if out != nil {
		delete(b.open, of)
		out.idle.Stop()
	}
	return out
}

// leave ends a turn. A browser that shares nothing, that has ended, or whose seat was taken
// away meanwhile is closed.
func (b *Browsers) leave(at scope, s *seat) {
	b.mu.Lock()
	removed := b.open[at] != s
	b.mu.Unlock()
	if s.page != nil && (at.session == "" || removed || s.page.gone()) {
		s.page.close()
		s.page = nil
	}
	b.mu.Lock()
	s.open = s.page != nil
	b.left(at, s)
	b.mu.Unlock()
	<-s.turn
}

// left counts a call that has the seat no more, or waits for it no more. The last one leaves
// a browser that closes when it is idle, or no seat. b.mu is held.
func (b *Browsers) left(at scope, s *seat) {
	s.waiting--
	switch {
	case s.waiting > 0 || b.open[at] != s:
	case !s.open:
		delete(b.open, at)
	default:
		b.uses++
		s.used = b.uses
		s.idle = time.AfterFunc(Idle, func() { b.closeIdle(at, s) })
	}
}

func (b *Browsers) closeIdle(at scope, s *seat) {
	b.mu.Lock()
	if s.waiting > 0 || b.open[at] != s {
		b.mu.Unlock()
		return
	}
	delete(b.open, at)
	b.mu.Unlock()
	s.close()
}

// close ends the seat's browser, also under a call that uses it.
func (s *seat) close() {
	s.stop()
	s.turn <- struct{}{}
	if s.page != nil {
		s.page.close()
		s.page = nil
	}
	<-s.turn
}

// End ends all browsers of a session or run, under every authority, and reports whether there
// were any.
func (b *Browsers) End(session string) bool {
	return b.end(func(at scope) bool { return at.session == session })
}

// EndOwn ends the browser of the permit's session and authority, and reports whether there
// was one.
func (b *Browsers) EndOwn(p permit.Permit) bool {
	own := scopeOf(p)
	return b.end(func(at scope) bool { return at == own && own.session != "" })
}

func (b *Browsers) end(of func(scope) bool) bool {
	var ended []*seat
	b.mu.Lock()
	for at, s := range b.open {
		if of(at) {
			ended = append(ended, s)
			delete(b.open, at)
		}
	}
	b.mu.Unlock()
	for _, s := range ended {
		s.close()
	}
	return len(ended) > 0
}

// Close ends all browsers.
func (b *Browsers) Close() error {
	b.mu.Lock()
	b.closed = true
	all := b.open
	b.open = map[scope]*seat{}
	b.mu.Unlock()
	for _, s := range all {
		s.close()
	}
	return nil
}
