package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
)

// slowServer opens a connection for each turn that it gets.
type slowServer struct {
	driver.Connector
	turns   chan error
	begun   chan struct{}
	at      atomic.Int64 // opened now
	most    atomic.Int64 // of openings at once
	running atomic.Int64
}

func newSlowServer() *slowServer {
	return &slowServer{turns: make(chan error), begun: make(chan struct{}, 100)}
}

// Connect implements driver.Connector.
func (s *slowServer) Connect(ctx context.Context) (driver.Conn, error) {
	s.most.Store(max(s.most.Load(), s.running.Add(1)))
	defer s.running.Add(-1)
	s.begun <- struct{}{}
	select {
	case err := <-s.turns:
		if err != nil {
			return nil, err
		}
		s.at.Add(1)
		return &slowConn{of: s}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type slowConn struct {
	driver.Conn
	of *slowServer
}

// Close implements driver.Conn.
func (c *slowConn) Close() error { c.of.at.Add(-1); return nil }

// TestAConnectionThatCameTooLateIsUsed: callers go before the server is ready. The connections that they
// asked for are those of the next callers.
func TestAConnectionThatCameTooLateIsUsed(t *testing.T) {
	s := newSlowServer()
	for range 20 {
		o := newOpenings(s)
		ctx, stop := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := o.Connect(ctx)
			gone <- err
		}()
		<-s.begun
		stop()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Fatalf("a caller who stopped waiting got %v", err)
		}
		s.turns <- nil
		c, err := o.Connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := s.at.Load(); n != 1 {
			t.Fatalf("%d connections are open", n)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if err := o.Close(); err != nil || s.at.Load() != 0 {
			t.Errorf("%v; %d connections are left", err, s.at.Load())
		}
		for len(s.begun) > 0 { // the second caller may have begun to open one
			<-s.begun
		}
	}
}

// TestFewConnectionsAreOpenedAtOnce: many callers wait at once, each gets its connection or its error, and
// a pool that is closed leaves none open.
func TestFewConnectionsAreOpenedAtOnce(t *testing.T) {
	s := newSlowServer()
	o := newOpenings(s)
	const callers = 50
	ends := make(chan opened)
	for range callers {
		go func() {
			c, err := o.Connect(t.Context())
			ends <- opened{c, err}
		}()
	}
	refused, failed := errors.New("the server is starting up"), 0
	for range maxOpenings {
		<-s.begun
	}
	for i := range callers {
		var answer error
		if i%3 == 0 {
			answer = refused
		}
		s.turns <- answer
		switch e := <-ends; {
		case e.err == nil:
			_ = e.conn.Close()
		case errors.Is(e.err, refused):
			failed++
		default:
			t.Error(e.err)
		}
	}
	if failed != (callers+2)/3 || s.most.Load() != maxOpenings {
		t.Errorf("%d callers got an error, %d connections were opened at once", failed, s.most.Load())
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := o.Connect(ctx); err == nil {
		t.Error("a caller that has gone got a connection")
	}
	go func() { _, _ = o.Connect(t.Context()) }()
	for s.running.Load() == 0 {
		<-s.begun
	}
	if err := o.Close(); err != nil || s.at.Load() != 0 || s.running.Load() != 0 {
		t.Errorf("%v; %d connections are left, %d are being opened", err, s.at.Load(), s.running.Load())
	}
	if _, err := o.Connect(t.Context()); !errors.Is(err, errClosed) || transient(err) {
		t.Errorf("a closed pool gave %v", err)
	}
}

// TestAPoolIsClosedWhileCallersWait: callers come before, during and after the end of a pool. Each gets an answer, and no
// connection is left.
func TestAPoolIsClosedWhileCallersWait(t *testing.T) {
	for range 200 {
		s := newSlowServer()
		o := newOpenings(s)
		const callers = 6
		ends := make(chan error, callers)
		for range callers {
			go func() {
				c, err := o.Connect(t.Context())
				if err == nil {
					err = c.Close()
				}
				ends <- err
			}()
		}
		select {
		case s.turns <- nil:
		case <-s.begun:
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		for range callers {
			<-ends
		}
		if s.at.Load() != 0 || s.running.Load() != 0 {
			t.Fatalf("%d connections are left, %d are being opened", s.at.Load(), s.running.Load())
		}
	}
}
