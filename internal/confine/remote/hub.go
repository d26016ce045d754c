// Package remote is the node's half of commands on workers: it keeps the connections of
// workers, sends a command with a permit token and the files that it may read, decides the
// command's connections here, and takes over what it wrote. A worker is never trusted:
// everything that it says is checked. Start at [Hub.Attach] and [Hub.Run].
package remote

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/remote/wire"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Identity is a worker as its certificate names it.
type Identity struct {
	Name   string
	Key    ed25519.PublicKey
	Labels []string
}

// Config has the data of the node that a Hub needs.
type Config struct {
	Key  ed25519.PrivateKey // signs permit tokens
	Node string             // names this node in them
	// Overlay mounts the layers of held writes, see linux.Box.Overlay.
	Overlay func(lower, upper, work string) (int, error)
	// Egress makes the proxy that decides the connections of one command.
	Egress func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error)
	// Leaf looks an intent up in the ledger: the ledger's origin, and the intent's leaf.
	Leaf func(ctx context.Context, seq uint64) (origin string, leaf tool.Digest, err error)
}

// Hub knows the workers that are connected to this node.
type Hub struct {
	conf  Config
	epoch int64 // of this node's process

	mu      sync.Mutex
	workers map[*worker]bool
}

// worker is one connected worker.
type worker struct {
	Identity
	since  time.Time
	client *http.Client
	drop   func()
	calls  int // under way
}

// Connected is a worker that is connected.
type Connected struct {
	Name   string    `json:"name"`
	Labels []string  `json:"labels"`
	Since  time.Time `json:"since"`
	Calls  int       `json:"calls"`
}

// New makes a Hub.
func New(c Config) *Hub {
	return &Hub{conf: c, epoch: time.Now().UnixNano(), workers: map[*worker]bool{}}
}

// Attach takes the connection of a worker whose certificate was verified, and returns once
// the connection has ended.
func (h *Hub) Attach(ctx context.Context, conn net.Conn, id Identity) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := &endingConn{Conn: conn, ended: cancel}
	w := &worker{Identity: id, since: time.Now(), drop: func() { _ = watched.Close() }}
	tr := &http.Transport{
		Protocols: new(http.Protocols), DisableCompression: true, MaxResponseHeaderBytes: 16 << 10,
		DialContext: onceDialer(watched),
		HTTP2:       &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: 5 * time.Second},
	}
	tr.Protocols.SetUnencryptedHTTP2(true) // TLS is below already
	w.client = &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if !w.greet(ctx) {
		_ = watched.Close()
		return
	}
	h.mu.Lock()
	h.workers[w] = true
	h.mu.Unlock()
	<-ctx.Done()
	h.mu.Lock()
	delete(h.workers, w)
	h.mu.Unlock()
	_ = watched.Close() // it may have ended by itself
	tr.CloseIdleConnections()
}

// greet makes the first request, so that a connection that does not work is not used.
func (w *worker) greet(ctx context.Context) bool {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	missing, err := w.missing(ctx, nil)
	return err == nil && len(missing) == 0
}

// endingConn tells when the connection ends.
type endingConn struct {
	net.Conn
	ended func()
}

func (c *endingConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.ended()
	}
	return n, err
}

func (c *endingConn) Close() error {
	c.ended()
	return c.Conn.Close()
}

// onceDialer gives the worker's own connection to the first caller, and an error to all others.
func onceDialer(conn net.Conn) func(context.Context, string, string) (net.Conn, error) {
	var once sync.Mutex
	used := false
	return func(context.Context, string, string) (net.Conn, error) {
		once.Lock()
		defer once.Unlock()
		if used {
			return nil, errors.New("the worker's connection has ended")
		}
		used = true
		return conn, nil
	}
}

// Workers lists the connected workers, by name.
func (h *Hub) Workers() []Connected {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Connected
	for w := range h.workers {
		out = append(out, Connected{w.Name, w.Labels, w.since, w.calls})
	}
	slices.SortFunc(out, func(a, b Connected) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Drop ends the connections of a worker that was removed. Its calls end with an unknown outcome.
func (h *Hub) Drop(key ed25519.PublicKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.workers {
		if w.Key.Equal(key) {
			go w.drop() // Attach takes the lock
		}
	}
}

// Available implements placement.Elsewhere.
func (h *Hub) Available(at policy.Placement, c sandbox.Command) error {
	if what := onlyHere(c); what != "" {
		return fault.New(fault.SandboxMissing, "the policy says where: remote, and %s can only run on the node's machine", what).
			WithHint("add local to where for such commands")
	}
	if h.free(at.Labels, false) == nil {
		if len(at.Labels) > 0 {
			return fault.New(fault.SandboxMissing, "the policy says where: remote, and no connected worker has the labels %s", strings.Join(at.Labels, ", ")).
				ForOperator("remit workers list shows the connected workers")
		}
		return fault.New(fault.SandboxMissing, "the policy says where: remote, and no worker is connected").ForOperator("remit workers list shows them; start one with remit worker")
	}
	return nil
}

// onlyHere names what ties a command to this machine; "": nothing does.
func onlyHere(c sandbox.Command) string {
	switch {
	case c.Stdio != nil:
		return "a command with streams of its own, such as a server or a terminal's,"
	case c.Folder != nil:
		return "code in a session's folder"
	case len(c.Services) > 0 || len(c.Publish) > 0:
		return "a command that serves or publishes something on this machine"
	case c.Observe:
		return "an observed command"
	}
	return ""
}

// free chooses the least busy worker with all labels, and counts a call for it if asked.
func (h *Hub) free(labels []string, count bool) *worker {
	h.mu.Lock()
	defer h.mu.Unlock()
	var best *worker
	for w := range h.workers {
		has := !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(w.Labels, l) })
		if has && (best == nil || cmp.Or(cmp.Compare(w.calls, best.calls), strings.Compare(w.Name, best.Name)) < 0) {
			best = w
		}
	}
	if best != nil && count {
		best.calls++
	}
	return best
}

func (h *Hub) done(w *worker) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.calls--
}

// Fingerprint names a key for people.
func Fingerprint(key ed25519.PublicKey) string { return hex.EncodeToString(key)[:16] }

// lost is the error of a call whose worker cannot tell how it ended.
func lost(w *worker, err error) error {
	return fault.Wrap(fault.Interrupted, err, "worker %s was lost while it carried out the command: it may or may not have taken effect", w.Name)
}

// base is the address in requests; any address leads to the worker's connection.
const base = "http://" + wire.NodeName
