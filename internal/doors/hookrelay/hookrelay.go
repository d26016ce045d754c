// Package hookrelay answers agents' hooks at a Unix socket, for agents in a sandbox from outside of it,
// and for all agents of one user, whose scripts it passes on as well. It decides nothing. Start at [Forward] and at [Relay.Serve].
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

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/hookwire"
)

// Relay answers requests.
type Relay struct {
	Answer func(ctx context.Context, r hookwire.Request) hookwire.Answer
	Admit  func(conn *net.UnixConn) error // refuses clients that may not connect. Nil: none is refused
	Max    int                            // of a request, in bytes
	Time   time.Duration                  // for one answer
	Finish bool                           // the end of the listener cuts no request that was read
	// Shell runs a script with the descriptors of the client. It takes over the connection and the
	// descriptors, and returns at once. Nil: scripts are refused.
	Shell func(conn *net.UnixConn, r hookwire.Request, files []int)
}

// atOnce bounds the connections that are answered at the same time. More of them wait.
const atOnce = 16

// readTime bounds how long a client may take for its request, which it has when it connects.
const readTime = 5 * time.Second

// fullTime is how long a relay waits for a free descriptor.
const fullTime = 10 * time.Millisecond

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
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) { // this process has too many files open now
			<-free
			time.Sleep(fullTime)
			continue
		}
		if err != nil {
			if stopReading(); !r.Finish {
				stopAnswering()
			}
			all.Wait()
			return err
		}
		all.Go(func() {
			defer func() { <-free }()
			q, files, err := r.read(reading, conn)
			if peer, ok := conn.(*net.UnixConn); ok && err == nil && q.Shell {
				r.Shell(peer, q, files)
				return
			}
			closeAll(files)
			defer func() { _ = conn.Close() }()
			if err == nil {
				r.answer(answering, conn, q)
			}
		})
	}
}

// read reads a request. Whoever sends none, or something else, gets no answer: a hook then blocks
// the call, or decides it in another way.
func (r Relay) read(ctx context.Context, conn net.Conn) (q hookwire.Request, files []int, err error) {
	defer context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })()
	peer, ok := conn.(*net.UnixConn)
	if !ok && (r.Admit != nil || r.Shell != nil) {
		return q, nil, errNoSocket
	}
	if r.Admit != nil {
		if err := r.Admit(peer); err != nil {
			return q, nil, err
		}
	}
	if _, err := io.WriteString(conn, hookwire.Greeting); err != nil {
		return q, nil, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(readTime)); err != nil {
		return q, nil, err
	}
	if err := ctx.Err(); err != nil { // the deadline of its end was replaced
		return q, nil, err
	}
	var from io.Reader = conn
	if r.Shell != nil {
		taker := &taker{conn: peer}
		defer func() { files = taker.files }()
		from = taker
	}
	b, err := io.ReadAll(io.LimitReader(from, int64(r.Max)+1))
	if err == nil && len(b) > r.Max {
		err = errTooLarge
	}
	if err == nil {
		q, err = hookwire.ParseRequest(b)
	}
	if err == nil && q.Shell && r.Shell == nil {
		err = errNoShell
	}
	return q, nil, err
}

// taker reads a connection, and takes the descriptors that come with the message.
type taker struct {
	conn  *net.UnixConn
	files []int
}

// Read implements io.Reader.
func (t *taker) Read(b []byte) (int, error) {
	var control [256]byte
	n, size, _, _, err := t.conn.ReadMsgUnix(b, control[:])
	n = max(n, 0) // -1 with some errors
	if errors.Is(err, io.EOF) {
		return n, io.EOF
	}
	list, perr := unix.ParseSocketControlMessage(control[:size])
	for _, m := range list {
		files, err := unix.ParseUnixRights(&m)
		t.files, perr = append(t.files, files...), errors.Join(perr, err)
	}
	if perr == nil && len(t.files) > hookwire.Descriptors {
		perr = errTooLarge
	}
	return n, errors.Join(err, perr) // nil for two that are
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = unix.Close(fd)
	}
}

// answer answers a request.
func (r Relay) answer(ctx context.Context, conn net.Conn, q hookwire.Request) {
	ctx, stop := context.WithTimeout(ctx, r.Time)
	defer stop()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	a := r.Answer(ctx, q)
	defer closeAll(a.Files)
	b := a.Bytes()[len(hookwire.Greeting):]
	peer, ok := conn.(*net.UnixConn)
	switch {
	case ctx.Err() != nil: // it comes too late
	case ok && len(a.Files) > 0:
		_, _, _ = peer.WriteMsgUnix(b, unix.UnixRights(a.Files...), nil) // as below
	default:
		_, _ = conn.Write(b) // an agent that has gone needs no answer
	}
}

var (
	errNoSocket = errors.New("not a Unix socket")
	errTooLarge = errors.New("the request is too large")
	errDeclined = errors.New("it declined")
	errNoShell  = errors.New("scripts are not run here")
)

// Present reports whether this process is in a sandbox that holds a whole agent.
func Present() bool {
	st, err := os.Lstat(hookwire.Socket)
	return err == nil && st.Mode()&fs.ModeSocket != 0
}

// Forward sends a request to the socket at a path and returns the answer. The caller closes its Files.
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
	from := &taker{conn: half}
	src, err := io.ReadAll(io.LimitReader(from, hookwire.MaxAnswer))
	var a hookwire.Answer
	if err == nil {
		a, err = hookwire.ParseAnswer(src)
	}
	if err == nil && a.Decline {
		err = errDeclined
	}
	if err != nil || !q.Port {
		closeAll(from.files)
		return a, err
	}
	a.Files = from.files
	return a, nil
}
