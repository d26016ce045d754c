package worker

import (
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// egress leads the connections of one command to the node, which decides them. It is the
// sandbox.Proxy of that command.
type egress struct {
	env     map[string]string
	ca      []byte
	waiting chan *way

	over chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	all    sync.WaitGroup // of what begin began
}

// way is a request of the node that waits for a connection.
type way struct {
	rw   http.ResponseWriter
	body io.Reader
	done chan struct{}
}

func newEgress(env map[string]string, ca []byte) *egress {
	return &egress{env: env, ca: ca, waiting: make(chan *way), over: make(chan struct{})}
}

// egress finds the way out of a command.
func (w *Worker) egress(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.calls[p.Intent()]; e != nil {
		return e, nil
	}
	return nil, fault.New(fault.HandleRefused, "the call is not under way on this worker")
}

// connect waits until the command connects, and then copies both ways.
func (w *Worker) connect(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	var e *egress
	for in, x := range w.calls {
		if name, err := nameOf(in); err == nil && name == r.PathValue("id") {
			e = x
		}
	}
	w.mu.Unlock()
	if e == nil {
		refuse(rw, fault.New(fault.NotFound, "the call is not under way on this worker"))
		return
	}
	x := &way{rw, r.Body, make(chan struct{})}
	select {
	case e.waiting <- x:
		<-x.done
	case <-e.over:
	case <-r.Context().Done():
	}
}

// Serve implements sandbox.Proxy.
func (e *egress) Serve(l net.Listener) error {
	if !e.begin(func() {
		<-e.over
		_ = l.Close() // the sandbox has ended
	}) {
		return l.Close()
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		if !e.begin(func() { e.lead(conn) }) {
			_ = conn.Close() // nobody waits for it
		}
	}
}

// begin runs f, which Close waits for, unless Close was called already.
func (e *egress) begin(f func()) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.all.Go(f)
	}
	return !e.closed
}

// lead gives a connection to the next request that waits.
func (e *egress) lead(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var x *way
	select {
	case x = <-e.waiting:
	case <-e.over:
		return
	}
	defer close(x.done)
	x.rw.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(x.rw).Flush
	if flush() != nil {
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(conn, x.body) // the node ended the connection
		_ = conn.Close()
	}()
	go func() {
		select {
		case <-e.over:
			_ = conn.Close()
		case <-ended:
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		n, err := conn.Read(buf)
		if n > 0 {
			if _, werr := x.rw.Write(buf[:n]); werr != nil || flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// ServeSocket implements sandbox.Proxy: sockets of the node's machine are not reached from here.
func (e *egress) ServeSocket(_ string, l net.Listener) error { return l.Close() }

// Env implements sandbox.Proxy.
func (e *egress) Env(int) map[string]string { return e.env }

// CA implements sandbox.Proxy.
func (e *egress) CA() []byte { return e.ca }

// Connections implements sandbox.Proxy: the node knows them.
func (e *egress) Connections() []sandbox.Connection { return nil }

// Close implements sandbox.Proxy.
func (e *egress) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.over)
	}
	e.mu.Unlock()
	e.all.Wait()
}
