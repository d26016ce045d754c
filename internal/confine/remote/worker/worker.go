// Package worker is the worker's half of commands on workers: it carries out single commands
// that a node sends with a permit token, in the same sandbox as everywhere. It has no
// database, no policies and no secrets of its own. Start at [Worker.Serve].
package worker

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/remote/tree"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// Config is the identity of a worker and its connection.
type Config struct {
	Dir  string             // its own folder, absolute and without links: cache and used tokens
	Key  ed25519.PrivateKey // that its certificate is for
	Node ed25519.PublicKey  // signs permit tokens
	// Told is called with each command that begins, and as it ends with how; nil: nothing is told.
	Told func(argv []string, ended string)
}

// Worker carries out commands.
type Worker struct {
	conf  Config
	box   *linux.Box
	cache *cache
	used  *used

	mu    sync.Mutex
	calls map[permit.Intent]*egress
}

// New makes a Worker. It must be closed.
func New(c Config) (*Worker, error) {
	w := &Worker{conf: c, calls: map[permit.Intent]*egress{}}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the worker's folder %q cannot be made", c.Dir)
	}
	var err error
	if w.cache, err = openCache(c.Dir); err != nil {
		return nil, err
	}
	if w.used, err = openUsed(filepath.Join(c.Dir, "used")); err != nil {
		return nil, err
	}
	w.box = linux.New(linux.Config{State: c.Dir, Place: policy.Remote, Egress: w.egress})
	return w, nil
}

// Close ends every command.
func (w *Worker) Close() error { return errors.Join(w.box.Close(), w.used.close()) }

// Serve answers the requests of a node on a connection until it ends. Both have proved their
// identity with certificates.
func (w *Worker) Serve(ctx context.Context, conn net.Conn) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /missing", w.missing)
	mux.HandleFunc("PUT /blobs/{hash}", w.put)
	mux.HandleFunc("POST /calls/{id}", w.call)
	mux.HandleFunc("POST /calls/{id}/egress", w.connect)
	s := &http.Server{Handler: mux, Protocols: new(http.Protocols), ReadHeaderTimeout: 30 * time.Second,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: 2000, SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
		BaseContext: func(net.Listener) context.Context { return ctx }}
	s.Protocols.SetUnencryptedHTTP2(true) // TLS is below already
	l := &oneConn{conn: conn, over: make(chan struct{})}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // its requests end, and with them the commands
	_ = s.Serve(l)                                           // the connection has ended
	_ = s.Close()                                            // so have its requests
}

// oneConn is the listener of a connection that is there already.
type oneConn struct {
	conn net.Conn
	once sync.Once
	over chan struct{}
	gave bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if !l.gave {
		l.gave = true
		return &served{l.conn, l}, nil
	}
	<-l.over
	return nil, net.ErrClosed
}

func (l *oneConn) Close() error {
	l.once.Do(func() { close(l.over) })
	return nil
}

func (l *oneConn) Addr() net.Addr { return l.conn.LocalAddr() }

// served hides that the connection is one of TLS, and tells its listener when it ends.
type served struct {
	net.Conn
	l *oneConn
}

func (c *served) Close() error {
	_ = c.l.Close() // it never fails
	return c.Conn.Close()
}

// refuse answers a request that starts nothing.
func refuse(rw http.ResponseWriter, err error) {
	rw.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(rw).Encode(wire.Refusal{Code: fault.CodeOf(err), Message: fault.Message(err)}) // the node may have gone
}

func (w *Worker) missing(rw http.ResponseWriter, r *http.Request) {
	var hashes []string
	if err := wire.Read(bufio.NewReader(http.MaxBytesReader(rw, r.Body, wire.MaxLine)), &hashes); err != nil {
		refuse(rw, fault.New(fault.ArgsInvalid, "the list of digests cannot be read"))
		return
	}
	lack := []string{}
	for _, h := range hashes {
		if err := tree.CheckHash(h); err != nil {
			refuse(rw, err)
			return
		}
		if !w.cache.has(h) {
			lack = append(lack, h)
		}
	}
	_ = wire.Write(rw, lack) // the node may have gone
}

func (w *Worker) put(rw http.ResponseWriter, r *http.Request) {
	if err := w.cache.put(r.PathValue("hash"), r.Body); err != nil {
		refuse(rw, err)
		return
	}
	rw.WriteHeader(http.StatusNoContent)
}

// accepted is a call whose token was verified and marked as used.
type accepted struct {
	token   permit.Verified
	command wire.Command
	tree    string // the folder of the workspace's copy
	out     *egress
}

// accept verifies a start. Nothing has begun if it returns an error.
func (w *Worker) accept(id string, s wire.Start) (*accepted, func(), error) {
	v, err := permit.Verify(s.Token, w.conf.Node, w.conf.Key.Public().(ed25519.PublicKey), time.Now())
	if err != nil {
		return nil, nil, err
	}
	work := v.Work()
	name, err := nameOf(work.Intent)
	if err != nil || name != id {
		return nil, nil, fault.New(fault.GrantInvalid, "the permit token is refused: it is for another call")
	}
	a := &accepted{token: v, out: newEgress(s.Env, s.CA)}
	if err := json.Unmarshal(work.Command, &a.command); err != nil {
		return nil, nil, fault.New(fault.GrantInvalid, "the permit token is refused: its command cannot be read")
	}
	dir, release, err := w.cache.tree(tree.Digest{Hash: work.Tree, Size: work.TreeSize})
	if err != nil {
		return nil, nil, err
	}
	if err := w.used.mark(name, v.Until()); err != nil {
		release()
		return nil, nil, err
	}
	a.tree = dir
	w.mu.Lock()
	w.calls[work.Intent] = a.out
	w.mu.Unlock()
	return a, func() {
		w.mu.Lock()
		delete(w.calls, work.Intent)
		w.mu.Unlock()
		a.out.Close()
		release()
	}, nil
}

// call carries out one command.
func (w *Worker) call(rw http.ResponseWriter, r *http.Request) {
	body := bufio.NewReader(r.Body)
	var start wire.Start
	if err := wire.Read(body, &start); err != nil {
		refuse(rw, fault.New(fault.ArgsInvalid, "the start of the call cannot be read"))
		return
	}
	a, release, err := w.accept(r.PathValue("id"), start)
	if err != nil {
		refuse(rw, err)
		return
	}
	defer release()
	rw.WriteHeader(http.StatusOK)
	if err := http.NewResponseController(rw).Flush(); err != nil {
		return // the node has gone
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	go lapse(ctx, a.token, cancel)
	go renewals(body, a.token, cancel)
	w.perform(ctx, a, rw)
}

// lapse ends a call whose token is not renewed.
func lapse(ctx context.Context, v permit.Verified, end context.CancelCauseFunc) {
	for {
		left := time.Until(v.Until())
		if left <= 0 {
			end(fault.New(fault.ToolCancelled, "the node did not renew the permit token"))
			return
		}
		t := time.NewTimer(left)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
	}
}

// renewals takes renewals until the connection ends. One that is refused ends the call.
func renewals(from *bufio.Reader, v permit.Verified, end context.CancelCauseFunc) {
	for {
		var t permit.Token
		if err := wire.Read(from, &t); err != nil {
			end(fault.New(fault.ToolCancelled, "the node ended the call"))
			return
		}
		if err := v.Renewed(t, time.Now()); err != nil {
			end(err)
			return
		}
	}
}

// held are the layers of one call over the copy of the workspace.
type held struct {
	*changeset.Hold
	workspace string
}

// Workspace is the path at which commands see the copy.
func (h held) Workspace() string { return h.workspace }

// perform runs the command and answers with the result.
func (w *Worker) perform(ctx context.Context, a *accepted, rw http.ResponseWriter) {
	work := a.token.Work()
	name, err := nameOf(work.Intent)
	if err != nil {
		return
	}
	set, err := w.cache.changes().Begin(name, a.tree)
	if err != nil {
		w.fail(rw, err, sandbox.Outcome{})
		return
	}
	defer func() { _ = set.Drop() }() // the next start removes the rest
	hold := set.Hold(w.box.Overlay)
	hold.Bound(sandbox.HeldBytes(work.Limits))
	p, err := permit.Redeem(a.token, held{hold, work.Bound.Workspace})
	if err != nil {
		w.fail(rw, err, sandbox.Outcome{})
		return
	}
	w.tell(a.command.Argv, "")
	out, err := w.box.Run(ctx, p, a.command.Sandbox())
	p.End()
	hold.Close()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		err = cause
	}
	if err != nil {
		w.tell(a.command.Argv, fault.Message(err))
		w.fail(rw, err, out)
		return
	}
	w.tell(a.command.Argv, "done")
	list, err := set.Review(ctx, func(string, changeset.Use) error { return nil }) // the node decides
	if err != nil {
		w.fail(rw, err, out)
		return
	}
	_, upper, _ := set.Layers()
	_ = answer(rw, wire.Result{Outcome: out, Started: true, Changes: list}, upper) // without it the node knows that the worker was lost
}

func (w *Worker) tell(argv []string, ended string) {
	if w.conf.Told != nil {
		w.conf.Told(argv, ended)
	}
}

// fail answers that the command did not run, or was ended.
func (w *Worker) fail(rw http.ResponseWriter, err error, out sandbox.Outcome) {
	_ = wire.Write(rw, wire.Result{Outcome: out, Started: out.Duration > 0, Code: fault.CodeOf(err), Message: fault.Message(err)}) // the node may have gone
}

// nameOf names a call, also in paths.
func nameOf(in permit.Intent) (string, error) {
	if len(in.Run) != 36 || in.Call <= 0 {
		return "", fault.New(fault.GrantInvalid, "the permit token is refused: %.40q is not the ID of a run", in.Run)
	}
	for _, c := range in.Run {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return "", fault.New(fault.GrantInvalid, "the permit token is refused: %.40q is not the ID of a run", in.Run)
		}
	}
	return in.Run + "-" + strconv.Itoa(in.Call), nil
}
