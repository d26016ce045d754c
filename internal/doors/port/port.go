// Package port shows a server of an agent's sandbox in a person's browser, at a random local name. A request under another name is
// refused, so that neither other users of the machine nor pages of other sites reach the server.
// Start at [New].
package port

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
)

// Door passes requests on to one server.
type Door struct {
	l      net.Listener
	name   string // the host of its address
	server *http.Server
	inside string // the server's own origin
}

// Limits of one door.
const (
	headTime   = 30 * time.Second // until a request's head is there
	headBytes  = 256 << 10        // of a request's or an answer's head
	idleTime   = 2 * time.Minute  // of a connection without a request
	connsIdle  = 8                // to the server, that are kept
	connsAtAll = 256              // to the server at the same time
)

// New listens at a port of this machine's loopback address (0: a free one). Dial connects to the server, which sees the Host localhost:inside.
func New(at, inside uint16, dial func(context.Context) (net.Conn, error)) (*Door, error) {
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(at))))
	if err != nil {
		return nil, fault.Wrap(fault.Usage, err, "the port %d of this machine cannot be used: %v", at, err).ForOperator("choose another with --at, or leave --at out")
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	d := &Door{l: l, inside: "http://localhost:" + strconv.Itoa(int(inside))}
	d.name = strings.ToLower(rand.Text()) + ".localhost:" + port
	d.server = &http.Server{
		Handler: d.guard(d.proxy(dial)), ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: headBytes,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // clients that have gone
	}
	return d, nil
}

// URL is the address for the browser. Browsers resolve each name below localhost to this machine.
func (d *Door) URL() string { return "http://" + d.name + "/" }

// Serve passes requests on until ctx ends.
func (d *Door) Serve(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() { _ = d.server.Close() })()
	if err := d.server.Serve(d.l); !errors.Is(err, http.ErrServerClosed) {
		return fault.Wrap(fault.Internal, err, "the port cannot be served: %v", err)
	}
	return nil
}

// guard refuses requests under another name.
func (d *Door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Host, d.name) {
			http.Error(w, "This address needs the name that remit port has printed.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// proxy passes on requests, also those that become WebSockets. The server sees its own name, since development servers refuse
// others.
func (d *Door) proxy(dial func(context.Context) (net.Conn, error)) http.Handler {
	outside := "http://" + d.name
	to, _ := url.Parse(d.inside) // it is a valid URL
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			swap(r.Out.Header, outside, d.inside, "Origin", "Referer")
		},
		ModifyResponse: func(r *http.Response) error {
			swap(r.Header, d.inside, outside, "Location", "Content-Location", "Access-Control-Allow-Origin")
			return nil
		},
		Transport: &http.Transport{
			DialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
			MaxIdleConns: connsIdle, MaxIdleConnsPerHost: connsIdle, MaxConnsPerHost: connsAtAll, IdleConnTimeout: idleTime,
			MaxResponseHeaderBytes: headBytes, DisableCompression: true,
		},
		FlushInterval: -1, // events come as they are sent
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "No server of the session answers at "+d.inside+". It may have ended, or not begun yet.", http.StatusBadGateway)
		},
	}
}

// swap replaces the origin at the beginning of headers' values.
func swap(h http.Header, from, to string, names ...string) {
	for _, name := range names {
		if rest, ok := strings.CutPrefix(h.Get(name), from); ok && (rest == "" || rest[0] == '/' || rest[0] == '?' || rest[0] == '#') {
			h.Set(name, to+rest)
		}
	}
}
