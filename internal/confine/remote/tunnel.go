package remote

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
)

// tunnel is the listener of one command's connections. Each is one request that waits at
// the worker until the command connects. Close ends all of them.
type tunnel struct {
	ctx    context.Context //nolint:containedctx // of all its connections
	cancel context.CancelFunc
	client *http.Client
	url    string
}

func newTunnel(ctx context.Context, client *http.Client, url string) *tunnel {
	t := &tunnel{client: client, url: url}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// Accept waits for the next connection of the command.
func (t *tunnel) Accept() (net.Conn, error) {
	pr, pw := io.Pipe()
	req, err := http.NewRequestWithContext(t.ctx, http.MethodPost, t.url, pr)
	if err != nil {
		return nil, err
	}
	res, err := t.client.Do(req)
	if err != nil {
		return nil, net.ErrClosed
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close() // only read
		return nil, net.ErrClosed
	}
	here, there := net.Pipe() // it has deadlines, which a request does not
	go splice(there, pw, res.Body)
	return here, nil
}

// splice copies both ways between a connection and a request until one of them ends.
func splice(conn net.Conn, w *io.PipeWriter, r io.ReadCloser) {
	end := sync.OnceFunc(func() {
		_, _, _ = conn.Close(), w.Close(), r.Close() // each may have ended
	})
	defer end()
	go func() {
		defer end()
		_, _ = io.Copy(w, conn) // the proxy sees that it ended
	}()
	_, _ = io.Copy(conn, r)
}

func (t *tunnel) Close() error {
	t.cancel()
	return nil
}

// Addr is no address of a network: the connections come from a sandbox.
func (t *tunnel) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: "worker"} }
