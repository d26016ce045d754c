package mcp

import (
	"context"
	"errors"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A server elsewhere that was restarted does not know the sessions that it began before. A request
// that it refused for that reason was not carried out, so it is sent once more in a new session.

// delivery tells how far one request to a server elsewhere came. A nil delivery notes nothing.
type delivery struct {
	mu     sync.Mutex
	lost   bool
	partly bool // the server has carried out a part of the request
}

type deliveryKey struct{}

func withDelivery(ctx context.Context) (context.Context, *delivery) {
	d := &delivery{}
	return context.WithValue(ctx, deliveryKey{}, d), d
}

func deliveryOf(ctx context.Context) *delivery {
	d, _ := ctx.Value(deliveryKey{}).(*delivery)
	return d
}

// noteLost notes that the server refused the request because it does not know the session.
func (d *delivery) noteLost() {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.lost = true
	d.mu.Unlock()
}

// notePartly notes that the server has carried out a part of the request.
func (d *delivery) notePartly() {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.partly = true
	d.mu.Unlock()
}

// refused reports whether the server refused the request and carried out nothing of it.
func (d *delivery) refused() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost && !d.partly
}

// inSession uses the server, and once more in a new session if its old one has ended and the request
// was not carried out.
func (s *Server) inSession(ctx context.Context, use func(ctx context.Context, l *live) error) error {
	for again := false; ; again = true {
		l, done, err := s.use(ctx)
		if err != nil {
			return err
		}
		one, d := withDelivery(ctx)
		err = use(one, l)
		done()
		if err == nil {
			return nil
		}
		lost := l.link.Remote && d.refused()
		if lost || l.link.Remote && saysSessionEnded(err) {
			s.renew(l)
		}
		if !lost || again || ctx.Err() != nil {
			return err
		}
	}
}

// notInSession is the code of the protocol's own SDKs for a session that is not known.
const notInSession = -32001

// saysSessionEnded reports whether the answer to a request says that the session has ended. The
// request is not repeated then: only the refusal of its delivery proves that it was not carried out.
func saysSessionEnded(err error) bool {
	werr := (*jsonrpc.Error)(nil)
	return errors.As(err, &werr) && werr.Code == notInSession && ofSession.MatchString(werr.Message)
}

// renew forgets a connection whose session has ended. That is not a failure of the server.
func (s *Server) renew(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cur != l || s.closed {
		return
	}
	s.cur = nil
	s.begun.Go(l.stop)
}

// watchEnd forgets the connection to a server elsewhere as soon as it is of no use any more.
func (s *Server) watchEnd(l *live) {
	s.begun.Go(func() {
		err := l.session.Wait()
		if errors.Is(err, sdk.ErrSessionMissing) {
			s.renew(l)
			return
		}
		if err == nil {
			err = errGone
		}
		l.fail(err)
		s.drop(l)
	})
}
