// Package browser is the handle for web pages: the one way in which a call uses a browser.
// Each session, or run without one, has a browser of its own with a profile that is thrown
// away. It runs in the sandbox, where the only way out is a proxy that decides every request
// by the permit of the call under way; between calls it reaches nothing. Start at [New] and
// [Browsers.Use].
//
// A page may take its browser over. So all that the browser says is untrusted: sizes are
// bounded, and nothing that it says decides what is allowed.
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
	Most = 8
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
	open   map[string]*seat // by scope
	closed bool
}

// seat is the place of one scope's browser. One call at a time has its turn.
type seat struct {
	turn    chan struct{}
	life    context.Context // over when the seat was taken away; its browser is stopped then
	stop    context.CancelFunc
	page    *Page // guarded by turn; nil: no browser is open
	waiting int   // calls that have the seat or wait for it; guarded by Browsers.mu
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
	return &Browsers{box: box, secret: secret, open: map[string]*seat{}}
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
	s, err := b.enter(ctx, p.Scope(), start)
	if err != nil {
		return err
	}
	defer b.leave(p.Scope(), s)
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
func (b *Browsers) enter(ctx context.Context, scope string, start bool) (*seat, error) {
	b.mu.Lock()
	s := b.open[scope]
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, fault.New(fault.ToolFailed, "the browsers are closed")
	case s == nil && !start:
		b.mu.Unlock()
		return nil, errNoPage
	case s == nil && len(b.open) >= Most:
		b.mu.Unlock()
		return nil, fault.New(fault.LimitReached, "%d browsers are open already", Most).WithHint("browser.close ends one that is not needed any more")
	case s == nil:
		s = newSeat()
		b.open[scope] = s
	}
	s.waiting++
	if s.idle != nil {
		s.idle.Stop()
	}
	b.mu.Unlock()
	select {
	case s.turn <- struct{}{}:
		return s, nil
	case <-ctx.Done():
		b.mu.Lock()
		s.waiting--
		b.mu.Unlock()
		return nil, permit.Ended(ctx)
	}
}

// leave ends a turn. A browser that shares nothing, that has ended, or whose seat was taken
// away meanwhile is closed.
func (b *Browsers) leave(scope string, s *seat) {
	b.mu.Lock()
	removed := b.open[scope] != s
	b.mu.Unlock()
	if s.page != nil && (scope == "" || removed || s.page.gone()) {
		s.page.close()
		s.page = nil
	}
	b.mu.Lock()
	s.waiting--
	switch {
	case s.waiting > 0:
	case s.page == nil && b.open[scope] == s:
		delete(b.open, scope)
	case s.page != nil:
		s.idle = time.AfterFunc(Idle, func() { b.closeIdle(scope, s) })
	}
	b.mu.Unlock()
	<-s.turn
}

func (b *Browsers) closeIdle(scope string, s *seat) {
	b.mu.Lock()
	if s.waiting > 0 || b.open[scope] != s {
		b.mu.Unlock()
		return
	}
	delete(b.open, scope)
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

// End ends the browser of a scope, and reports whether there was one.
func (b *Browsers) End(scope string) bool {
	b.mu.Lock()
	s := b.open[scope]
	delete(b.open, scope)
	b.mu.Unlock()
	if s != nil {
		s.close()
	}
	return s != nil
}

// Close ends all browsers.
func (b *Browsers) Close() error {
	b.mu.Lock()
	b.closed = true
	all := b.open
	b.open = map[string]*seat{}
	b.mu.Unlock()
	for _, s := range all {
		s.close()
	}
	return nil
}
