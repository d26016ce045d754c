package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/callers"
)

// Nodes that share a ledger share the sessions of clients over HTTP. A session's row has the
// digest of its token and the client's initialize request. A node that gets a request of a
// session that it does not have begins a run under the same grant, and repeats that request to
// its own server. So each node that serves a session has a run of its own for it.

const (
	kindSession = "mcp.session"
	sessionLife = clientIdle + touchEvery
	touchEvery  = time.Minute // how often the use of a session is written down
	maxSessions = 4096        // of all nodes
	maxHello    = 64 << 10    // bytes of an initialize request; the session of a longer one is not shared
)

// sharedSession is a session as it is kept.
type sharedSession struct {
	Token []byte `json:"token"`          // digest
	Self  string `json:"self,omitempty"` // the person whose own grant it is; each node may issue another one
	Hello []byte `json:"hello"`          // the client's initialize request
}

func sessionKey(id string) [sha256.Size]byte {
	return sha256.Sum256([]byte("remit mcp session\n" + id))
}

func errNoSession() error {
	return fault.New(fault.SessionUnknown, "unknown session: it has ended, or another node has it").WithHint("start a new session")
}

// shared is where sessions are shared; nil: this process alone has them.
func (g *Gateway) shared(ctx context.Context) (store.Ephemera, error) {
	if g.opts.Shared == nil {
		return nil, nil //nolint:nilnil // they are not shared
	}
	return g.opts.Shared(ctx)
}

// share writes a new session down before its client learns of it. Labels of data are on the node
// of the run, so a session whose policies have some stays there.
func (w *web) share(r *http.Request, st store.Ephemera, c *client, who *callers.Caller) error {
	body, err := readBody(r)
	var hello struct {
		Method string `json:"method"`
	}
	if err != nil || len(body) > maxHello || json.Unmarshal(body, &hello) != nil || hello.Method != "initialize" || c.conn.run().Chain().HasFlows() {
		return nil //nolint:nilerr // the client's server answers what cannot be read
	}
	b, err := json.Marshal(sharedSession{Token: c.token[:], Self: who.Self, Hello: body})
	if err != nil {
		return fault.Wrap(fault.Internal, err, "a session cannot be encoded")
	}
	e := store.Ephemeral{Kind: kindSession, Key: sessionKey(c.key), Owner: who.Root, Until: time.Now().Add(sessionLife), Data: b}
	saved, err := st.SaveEphemeral(r.Context(), e, store.EphemeralBounds{All: maxSessions})
	c.shared = saved && err == nil
	return err
}

// alive reports whether a shared session has not been ended at another node, and notes its use.
func (c *client) alive(ctx context.Context, st store.Ephemera) (bool, error) {
	if !c.shared || st == nil {
		return true, nil
	}
	e, there, err := st.Ephemeral(ctx, kindSession, sessionKey(c.key))
	if err != nil || !there {
		return false, err
	}
	if now := time.Now(); e.Until.Sub(now) < clientIdle {
		e.Until = now.Add(sessionLife)
		_, err = st.SaveEphemeral(ctx, e, store.EphemeralBounds{}) // another node may have noted it
	}
	return true, err
}

// endOthers ends the sessions that their clients have ended at another node.
func (w *web) endOthers(ctx context.Context) {
	st, err := w.gateway.shared(ctx)
	if err != nil || st == nil {
		return
	}
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.clients))
	w.mu.Unlock()
	for _, c := range all {
		select {
		case <-c.ready:
		default:
			continue
		}
		if !c.shared {
			continue
		}
		if _, there, err := st.Ephemeral(ctx, kindSession, sessionKey(c.key)); err == nil && !there {
			w.end(ctx, c)
		}
	}
}

// forget removes the row of a session that its client has ended.
func (c *client) forget(ctx context.Context, st store.Ephemera) error {
	for {
		e, there, err := st.Ephemeral(ctx, kindSession, sessionKey(c.key))
		if err != nil || !there {
			return err
		}
		if dropped, err := st.DropEphemeral(ctx, e); err != nil || dropped {
			return err
		}
	}
}

// readSession reads the row of a session.
func readSession(e store.Ephemeral, there bool) (s sharedSession, err error) {
	if !there {
		return s, errNoSession()
	}
	if err := json.Unmarshal(e.Data, &s); err != nil {
		return s, fault.Wrap(fault.StoreCorrupt, err, "the record of the session is damaged").WithHint("start a new session")
	}
	return s, nil
}

// join begins to serve a session that began at another node. It must be of the same grant, or
// of the own grant of the same person.
func (w *web) join(r *http.Request, st store.Ephemera, id string, hash [sha256.Size]byte, who *callers.Caller) (*client, int, error) {
	ctx := r.Context()
	e, there, err := st.Ephemeral(ctx, kindSession, sessionKey(id))
	var s sharedSession
	if err == nil {
		s, err = readSession(e, there)
	}
	if same := subtle.ConstantTimeCompare(s.Token, hash[:]) == 1; err == nil && !same && (s.Self == "" || s.Self != who.Self) {
		err = errNoSession()
	}
	if err != nil {
		return nil, refusal(err), err
	}
	c, mine, status, err := w.begin(r, hash, who, id)
	if err != nil {
		return nil, status, err
	}
	if mine {
		err = c.replay(context.WithoutCancel(ctx), s.Hello)
		c.shared, c.failed = true, err
		close(c.ready)
	} else if err = c.wait(ctx); err == nil && subtle.ConstantTimeCompare(c.token[:], hash[:]) != 1 {
		err = errNoSession()
	}
	if err != nil {
		w.leave(c)
		if mine {
			w.end(context.WithoutCancel(ctx), c)
		}
		return nil, refusal(err), err
	}
	return c, 0, nil
}

// wait waits until a session has been initialized at this node.
func (c *client) wait(ctx context.Context) error {
	select {
	case <-c.ready:
		return c.failed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// replay initializes a session at this node as its client did at another one.
func (c *client) replay(ctx context.Context, hello []byte) error {
	if status := c.post(ctx, hello, ""); status != http.StatusOK || c.hasEnded() {
		return c.whyFailed(ctx, status)
	}
	return c.initialized(ctx)
}

// initialized says that the client is ready. It may say so at another node.
func (c *client) initialized(ctx context.Context) error {
	if status := c.post(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), c.key); status != http.StatusAccepted {
		return c.whyFailed(ctx, status)
	}
	return nil
}

// whyFailed is why this node cannot initialize a session: its run cannot be used, it has ended meanwhile,
// or the kept request is damaged.
func (c *client) whyFailed(ctx context.Context, status int) error {
	if err := c.conn.run().Usable(ctx); err != nil {
		return err
	}
	if status < http.StatusBadRequest || status == http.StatusNotFound {
		return fault.New(fault.SessionBusy, "the session ended at this node while it began there").WithHint("repeat the request")
	}
	return fault.New(fault.StoreCorrupt, "the session cannot be continued: its initialize request was refused with the status %d", status).WithHint("start a new session")
}

// post gives a message to the client's server as a request of the client.
func (c *client) post(ctx context.Context, body []byte, session string) (status int) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", bytes.NewReader(body))
	if err != nil {
		return http.StatusInternalServerError
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	rw := &discarded{header: http.Header{}, status: http.StatusOK}
	c.handler.ServeHTTP(rw, r)
	return rw.status
}

// discarded is a response that nobody reads.
type discarded struct {
	header http.Header
	status int
}

// Header implements http.ResponseWriter.
func (d *discarded) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (d *discarded) WriteHeader(status int) { d.status = status }

// Flush implements http.Flusher.
func (d *discarded) Flush() {}

// serveShared serves a request of a shared session.
func (w *web) serveShared(rw http.ResponseWriter, r *http.Request, st store.Ephemera, c *client) {
	switch r.Method {
	case http.MethodDelete:
		if err := c.forget(r.Context(), st); err != nil {
			http.Error(rw, fault.CodeOf(err).Error()+" "+fault.Message(err), refusal(err))
			return
		}
	case http.MethodPost:
		left, status, err := c.receive(r, st)
		if err != nil {
			http.Error(rw, fault.CodeOf(err).Error()+" "+fault.Message(err), status)
			return
		}
		if !left {
			rw.WriteHeader(http.StatusAccepted)
			return
		}
	}
	ctx, stop := context.WithCancel(r.Context())
	q := &questioner{ResponseWriter: rw, ctx: ctx, st: st, c: c}
	c.handler.ServeHTTP(q, r)
	stop()
	q.waiting.Wait()
}

// ownerOf names a session as the owner of its answers.
func ownerOf(id string) string { key := sessionKey(id); return hex.EncodeToString(key[:]) }
