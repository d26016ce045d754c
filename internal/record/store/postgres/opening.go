package postgres

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"
)

const (
	// maxOpenings is how many connections of a pool are opened at once.
	maxOpenings = 2
	// openingTime is how long a server may take, which the time for each address in the URL shortens.
	openingTime = time.Minute
	// unclaimed is how long an opened connection waits for a caller.
	unclaimed = 5 * time.Second
)

// openings opens the connections of a pool. A connection whose caller stopped waiting is opened all the
// same, and the next caller gets it: when many nodes come back to a server that has little room, it
// works for all of them, and none would ever be connected if it began again each time.
type openings struct {
	driver.Connector
	room    chan struct{}    // for each connection that is being opened, or waits for a caller
	waiting chan driver.Conn // opened ones, without a caller
	closed  context.Context
	end     context.CancelFunc
	under   sync.WaitGroup
}

func newOpenings(of driver.Connector) *openings {
	o := &openings{Connector: of, room: make(chan struct{}, maxOpenings), waiting: make(chan driver.Conn)}
	o.closed, o.end = context.WithCancel(context.Background())
	return o
}

// opened is the end of an opening.
type opened struct {
	conn driver.Conn
	err  error
}

// Connect implements driver.Connector.
func (o *openings) Connect(ctx context.Context) (driver.Conn, error) {
	if o.closed.Err() != nil {
		return nil, driver.ErrBadConn
	}
	select {
	case c := <-o.waiting:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case o.room <- struct{}{}:
	}
	end := make(chan opened)
	waits, leave := context.WithCancel(ctx)
	defer leave()
	o.under.Go(func() { o.open(waits, end) })
	select {
	case e := <-end:
		return e.conn, e.err
	case c := <-o.waiting:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// open opens a connection for a caller, or for another one when that does not wait any more.
func (o *openings) open(waits context.Context, end chan<- opened) {
	defer func() { <-o.room }()
	within, stop := context.WithTimeout(o.closed, openingTime)
	c, err := o.Connector.Connect(within)
	stop()
	select {
	case end <- opened{c, err}:
		return
	case <-waits.Done():
	}
	if err != nil {
		return
	}
	late := time.NewTimer(unclaimed)
	defer late.Stop()
	select {
	case o.waiting <- c:
	case <-late.C:
		_ = c.Close() // nobody has used it
	case <-o.closed.Done():
		_ = c.Close()
	}
}

// Close implements io.Closer: a pool that is closed closes also what waits for a caller.
func (o *openings) Close() error {
	o.end()
	o.under.Wait()
	return nil
}
