// Package signin receives on a loopback address the answer of a sign-in that happens in
// the browser. It accepts no other requests, and does not depend on its callers. Start at [New].
package signin

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// requestTime is the time for a request, for its response, and until the next one.
const requestTime = 10 * time.Second

// Callback is where the browser of somebody who signs in brings the answer.
type Callback struct {
	URL string // that the browser is sent to

	srv  *http.Server
	got  chan url.Values
	done chan struct{}
}

// New waits on a listener of loopback, which it closes in the end, for a
// browser that is sent to a URL with this path.
func New(l net.Listener, at, path string) *Callback {
	c := &Callback{URL: at, got: make(chan url.Values, 1), done: make(chan struct{})}
	c.srv = &http.Server{ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: requestTime, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != path || r.URL.Query().Get("state") == "" {
			http.NotFound(rw, r)
			return
		}
		select {
		case c.got <- r.URL.Query():
		default: // the first counts
		}
		rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = rw.Write([]byte("Remit has what it needs. You can close this page.\n")) // for a person, perhaps gone by now
	})}
	go func() {
		defer close(c.done)
		_ = c.srv.Serve(l) // it is closed by Close
	}()
	return c
}

// Listen opens the address of loopback where the browser of the person who signs
// in brings the answer: that of a redirect URL, or a free port.
func Listen(ctx context.Context, redirect string) (*Callback, error) {
	addr, path := "127.0.0.1:0", "/callback"
	if redirect != "" {
		u, err := url.Parse(redirect)
		if err != nil || u.Scheme != "http" || u.Port() == "" || u.Path == "" || !loopback(u.Hostname()) {
			return nil, fault.New(fault.Usage, "--redirect %q is not a loopback URL with a port and a path", redirect).WithHint("for example http://127.0.0.1:8765/callback")
		}
		addr, path = net.JoinHostPort("127.0.0.1", u.Port()), u.Path
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "nothing can listen on %q for the browser: %v", addr, err)
	}
	if redirect == "" {
		redirect = "http://" + l.Addr().String() + path
	}
	return New(l, redirect, path), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Wait gives what the browser brought.
func (c *Callback) Wait(ctx context.Context) (code, state, issuer string, err error) {
	select {
	case q := <-c.got:
		if e := q.Get("error"); e != "" {
			return "", "", "", fault.New(fault.ToolFailed, "the sign-in was refused: %.100q", e)
		}
		return q.Get("code"), q.Get("state"), q.Get("iss"), nil
	case <-ctx.Done():
		return "", "", "", context.Cause(ctx)
	}
}

// Close ends the waiting.
func (c *Callback) Close() {
	_ = c.srv.Close() // nothing of it is needed any more
	<-c.done
}
