// Package hookrelay carries the events of an agent's hook out of the sandbox in which the whole
// agent runs, to the Remit process outside, and its answers back. It decides nothing. Inside start
// at [Forward], outside at [Relay.Serve].
package hookrelay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// At is the socket's path in the sandbox. On the machine itself only root can make it.
const At = "/run/remit/hook.sock"

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 1 << 20

// Event is what an agent's hook was started with.
type Event struct {
	Agent string `json:"agent"`
	Input []byte `json:"input"`
}

// Answer is how the hook ends.
type Answer struct {
	Out    []byte `json:"out"`
	Err    string `json:"err"`
	Status int    `json:"status"`
}

// Relay answers events outside of the sandbox.
type Relay struct {
	Answer   func(ctx context.Context, e Event) Answer
	MaxInput int           // of an event, in bytes
	Time     time.Duration // for one event, from its first byte to the answer
}

// atOnce bounds the connections that are answered at the same time. More of them wait.
const atOnce = 16

// Serve answers the connections to l, one event each, until l is closed. What connects is the
// confined agent, or any program that it started.
func (r Relay) Serve(l net.Listener) error {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	free := make(chan struct{}, atOnce)
	for {
		free <- struct{}{}
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		all.Go(func() {
			defer func() { <-free }()
			cut := context.AfterFunc(ctx, func() { _ = conn.Close() })
			defer cut()
			defer func() { _ = conn.Close() }()
			r.serve(ctx, conn)
		})
	}
}

func (r Relay) serve(ctx context.Context, conn net.Conn) {
	ctx, stop := context.WithTimeout(ctx, r.Time)
	defer stop()
	until, _ := ctx.Deadline()
	if conn.SetDeadline(until) != nil {
		return
	}
	var e Event
	src, err := io.ReadAll(io.LimitReader(conn, int64(r.MaxInput)*4/3+1024)) // base64 is a third longer
	if err != nil || json.Unmarshal(src, &e) != nil {
		return // the hook inside blocks the call
	}
	b, err := json.Marshal(r.Answer(ctx, e))
	if err == nil && ctx.Err() == nil { // else it comes too late
		_, _ = conn.Write(b) // an agent that has gone needs no answer
	}
}

// Present reports whether this process is in such a sandbox.
func Present() bool {
	st, err := os.Lstat(At)
	return err == nil && st.Mode()&fs.ModeSocket != 0
}

// Forward sends an event out of the sandbox at a socket's path and gives the answer.
func Forward(ctx context.Context, at string, e Event) (Answer, error) {
	fail := func(err error) (Answer, error) {
		return Answer{}, fault.Wrap(fault.Internal, err, "remit outside of the sandbox did not answer: %v", err)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", at)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = conn.Close() }()
	if until, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(until); err != nil {
			return fail(err)
		}
	}
	b, err := json.Marshal(e)
	if err != nil {
		return fail(err)
	}
	if _, err := conn.Write(b); err != nil {
		return fail(err)
	}
	half, ok := conn.(*net.UnixConn)
	if !ok {
		return fail(errors.New("not a Unix socket"))
	}
	if err := half.CloseWrite(); err != nil {
		return fail(err)
	}
	src, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if err != nil {
		return fail(err)
	}
	var a Answer
	if err := json.Unmarshal(src, &a); err != nil {
		return fail(err)
	}
	return a, nil
}
