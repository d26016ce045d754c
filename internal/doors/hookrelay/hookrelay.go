// Package hookrelay answers agents' hooks at a Unix socket, for agents in a sandbox from outside of it,
// and for all agents of one user. It decides nothing. Start at [Forward] and at [Relay.Serve].
package hookrelay

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// Relay answers requests.
type Relay struct {
	Answer func(ctx context.Context, r hookwire.Request) hookwire.Answer
	Admit  func(conn *net.UnixConn) error // refuses what may not connect. Nil: nothing is refused
	Max    int                            // of a request, in bytes
	Time   time.Duration                  // for one answer
	Finish bool                           // the end of the listener cuts no request that was read
}

// atOnce bounds the connections that are answered at the same time. More of them wait.
const atOnce = 16

// readTime bounds how long a client may take for its request, which it has when it connects.
const readTime = 5 * time.Second

// Serve answers the connections to l, one request each, until l is closed.
func (r Relay) Serve(l net.Listener) error {
	reading, stopReading := context.WithCancel(context.Background())
	answering, stopAnswering := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer stopAnswering()
	free := make(chan struct{}, atOnce)
	for {
		free <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			if stopReading(); !r.Finish {
				stopAnswering()
			}
			all.Wait()
			return err
		}
		all.Go(func() {
			defer func() { <-free }()
			defer func() { _ = conn.Close() }()
			if b, err := r.read(reading, conn); err == nil {
				r.answer(answering, conn, b)
			}
		})
	}
}

// read reads a request. Whoever sends none, or something else, gets no answer: a hook then blocks
// the call, or decides it in another way.
func (r Relay) read(ctx context.Context, conn net.Conn) (hookwire.Request, error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	if r.Admit != nil {
		peer, ok := conn.(*net.UnixConn)
		if !ok {
			return hookwire.Request{}, errNoSocket
		}
		if err := r.Admit(peer); err != nil {
			return hookwire.Request{}, err
		}
	}
	if _, err := io.WriteString(conn, hookwire.Greeting); err != nil {
		return hookwire.Request{}, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(readTime)); err != nil {
		return hookwire.Request{}, err
	}
	if err := ctx.Err(); err != nil { // the deadline of its end was replaced
		return hookwire.Request{}, err
	}
	b, err := io.ReadAll(io.LimitReader(conn, int64(r.Max)+1))
	if err == nil && len(b) > r.Max {
		err = errTooLarge
	}
	if err != nil {
		return hookwire.Request{}, err
	}
	return hookwire.ParseRequest(b)
}

// answer answers a request.
func (r Relay) answer(ctx context.Context, conn net.Conn, q hookwire.Request) {
	ctx, stop := context.WithTimeout(ctx, r.Time)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	b := r.Answer(ctx, q).Bytes()
	if ctx.Err() == nil { // else it comes too late
		_, _ = conn.Write(b[len(hookwire.Greeting):]) // an agent that has gone needs no answer
	}
}

var (
	errNoSocket = errors.New("not a Unix socket")
	errTooLarge = errors.New("the request is too large")
	errDeclined = errors.New("it declined")
)

// Present reports whether this process is in a sandbox that holds a whole agent.
func Present() bool {
	st, err := os.Lstat(hookwire.Socket)
	return err == nil && st.Mode()&fs.ModeSocket != 0
}

// Forward sends a request to the socket at a path and returns the answer.
func Forward(ctx context.Context, at string, q hookwire.Request) (hookwire.Answer, error) {
	a, err := forward(ctx, at, q)
	if err != nil {
		err = fault.Wrap(fault.Internal, err, "the remit process at %s did not answer: %v", at, err)
	}
	return a, err
}

func forward(ctx context.Context, at string, q hookwire.Request) (hookwire.Answer, error) {
	b, err := q.Bytes()
	if err != nil {
		return hookwire.Answer{}, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", at)
	if err != nil {
		return hookwire.Answer{}, err
	}
	defer func() { _ = conn.Close() }()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return hookwire.Answer{}, err
		}
	}
	if _, err := conn.Write(b); err != nil {
		return hookwire.Answer{}, err
	}
	half, ok := conn.(*net.UnixConn)
	if !ok {
		return hookwire.Answer{}, errNoSocket
	}
	if err := half.CloseWrite(); err != nil {
		return hookwire.Answer{}, err
	}
	src, err := io.ReadAll(io.LimitReader(conn, hookwire.MaxAnswer))
	if err != nil {
		return hookwire.Answer{}, err
	}
	a, err := hookwire.ParseAnswer(src)
	if err == nil && a.Decline {
		err = errDeclined
	}
	return a, err
}
