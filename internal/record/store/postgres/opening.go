package postgres

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

const (
	// maxOpenings is how many connections of a pool are opened at once.
	maxOpenings = 2
	// openingTime is how long the opening of a connection may take. The server's name and the settings of the session are
	// looked up and sent outside of connect_timeout.
	openingTime = 15 * time.Second
	// unclaimed is how long an opened connection waits for a caller.
	unclaimed = 5 * time.Second
)

// openings opens the connections of a pool. A connection whose caller has stopped waiting is opened all the same, and goes to the
// next caller. Many nodes can come back to a server that has little room: if each caller began again, none would ever be
// connected.
type openings struct {
	driver.Connector
	room    chan struct{}    // for each connection that is being opened, or waits for a caller
	waiting chan driver.Conn // opened ones, without a caller
	closed  context.Context
	end     context.CancelFunc
	mu      sync.Mutex // for the end, which no opening begins after
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

// errClosed is not repeated: the pool stays closed.
var errClosed = fault.New(fault.StoreFailed, "the connections to the database are being closed")

// Connect implements driver.Connector.
func (o *openings) Connect(ctx context.Context) (driver.Conn, error) {
	select {
	case c := <-o.waiting:
		return c, nil
	default:
	}
	select {
	case c := <-o.waiting:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-o.closed.Done():
		return nil, errClosed
	case o.room <- struct{}{}:
	}
	end := make(chan opened)
	waits, leave := context.WithCancel(ctx)
	defer leave()
	if !o.begin(waits, end) {
		return nil, errClosed
	}
	select {
	case e := <-end:
		return e.conn, e.err
	case c := <-o.waiting:
		return c, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin begins an opening, unless the pool is closed.
func (o *openings) begin(waits context.Context, end chan<- opened) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed.Err() != nil {
		return false
	}
	o.under.Go(func() { o.open(waits, end) })
	return true
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
		_ = c.Close() // it is unused
	case <-o.closed.Done():
		_ = c.Close()
	}
}

// Close implements io.Closer: a pool that is closed closes also what waits for a caller.
func (o *openings) Close() error {
	o.mu.Lock()
	o.end()
	o.mu.Unlock()
	o.under.Wait()
	return nil
}
