package httpapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Requests records the requests with an Idempotency-Key, for other processes and later
// ones. Their responses are kept in memory only.
type Requests interface {
	// BeginRequest claims the key of a request, or gives the earlier request with the key.
	BeginRequest(ctx context.Context, r store.RequestRecord) (store.RequestRecord, store.RequestState, error)
	// EndRequest records the status of the response. Status 0 makes the key unused again, and so
	// does a failure of a request whose run has begun no call.
	EndRequest(ctx context.Context, r store.RequestRecord) error
}

// remembered keeps responses for requests that are repeated with the same Idempotency-Key
// under the same grant. It keeps them in memory, for a limited time: clients repeat a
// request soon after a response was lost. That a request was made is recorded for longer:
// see [Requests].
type remembered struct {
	most int

	mu    sync.Mutex
	all   map[string]*recording
	order []string       // oldest first
	bytes int            // of the kept responses
	of    map[string]int // number of requests by root grant
}

const (
	rememberFor = 24 * time.Hour
	maxKept     = 256 << 10 // bytes of one response
	maxBytes    = 32 << 20  // bytes of all responses
	maxKey      = 255
)

// recording is a response that is being written, or was.
type recording struct {
	root   string            // the caller's root grant
	print  [sha256.Size]byte // digest of the request
	done   chan struct{}
	at     time.Time
	status int // 0: the response is not kept
	header http.Header
	body   []byte
	large  bool
	size   int // as counted in remembered.bytes; guarded by remembered.mu
}

func (rec *recording) add(b []byte) {
	if rec.large = rec.large || len(rec.body)+len(b) > maxKept; !rec.large {
		rec.body = append(rec.body, b...)
	}
}

func newRemembered(most int) *remembered {
	return &remembered{most: most, all: map[string]*recording{}, of: map[string]int{}}
}

// begin gives the recording of a key, and whether this request is the first. At most half
// of the recordings belong to one root grant, so that it cannot push out all others.
func (m *remembered) begin(root, key string, print [sha256.Size]byte, now time.Time) (*recording, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rec := m.all[key]; rec != nil && now.Sub(rec.at) < rememberFor {
		return rec, false
	}
	for len(m.order) > 0 && (len(m.all) >= m.most || len(m.order) >= 2*m.most || m.bytes > maxBytes) {
		m.drop(m.order[0])
		m.order = m.order[1:]
	}
	m.drop(key) // it may be too old
	if m.of[root] >= max(1, m.most/2) {
		m.dropOldest(root)
	}
	m.of[root]++
	rec := &recording{root: root, print: print, done: make(chan struct{}), at: now}
	m.all[key] = rec
	m.order = append(m.order, key)
	return rec, true
}

// drop forgets a key. The caller holds the lock.
func (m *remembered) drop(key string) {
	if rec := m.all[key]; rec != nil {
		m.bytes -= rec.size
		delete(m.all, key)
		if m.of[rec.root]--; m.of[rec.root] == 0 {
			delete(m.of, rec.root)
		}
	}
}

// dropOldest forgets the oldest key of a root grant. The caller holds the lock.
func (m *remembered) dropOldest(root string) {
	for i, key := range m.order {
		if rec := m.all[key]; rec != nil && rec.root == root {
			m.drop(key)
			m.order = slices.Delete(m.order, i, i+1)
			return
		}
	}
}

// end keeps a response. It forgets the key if there is nothing to keep, so that the next
// request with the key is made.
func (m *remembered) end(key string, rec *recording, keep bool) {
	m.mu.Lock()
	switch there := m.all[key] == rec; {
	case there && keep:
		rec.size = len(rec.body)
		m.bytes += rec.size
	case there:
		m.drop(key)
	}
	m.mu.Unlock()
	close(rec.done)
}

// doOnce makes a request, unless it was made before with the same key.
func (s *Server) doOnce(x *exchange, r *http.Request, body []byte, do func()) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || x.op.method != http.MethodPost {
		do()
		return
	}
	if len(key) > maxKey || x.op.stream && wantsStream(r) {
		s.fail(x, bad(http.StatusBadRequest, fault.Usage, "this Idempotency-Key is not valid",
			"a key has at most 255 bytes, and streams have none: post with Prefer: respond-async and follow the session's events"))
		return
	}
	now := time.Now()
	full := cmp.Or(x.who.Self, x.who.Leaf) + "\x00" + key
	k := store.RequestRecord{Holder: cmp.Or(x.who.Self, rootOf(x.who)), Key: sha256.Sum256([]byte(full)), Print: printOf(r, body), Until: now.Add(rememberFor)}
	if p := s.placeOf(x, r, body, &k); p != nil {
		s.fail(x, p)
		return
	}
	rec, first := s.again.begin(k.Holder, full, k.Print, now)
	if first {
		s.record(x, r, full, rec, k, do)
		return
	}
	if rec.print != k.Print {
		s.fail(x, otherRequest())
		return
	}
	if !s.awaitFirst(x, r, rec) {
		return
	}
	if rec.status == 0 { // the record tells what came of it
		s.doOnce(x, r, body, do)
		return
	}
	for name, values := range rec.header {
		x.Header()[name] = values
	}
	x.Header().Set("Idempotency-Replayed", "true")
	x.WriteHeader(rec.status)
	_, _ = x.Write(rec.body) // the client may have gone
}

// awaitFirst waits for the response to the first request with a key. The repeated one frees its
// place meanwhile if a stream seat is free. A kept response needs no place. It returns false if the client has left.
func (s *Server) awaitFirst(x *exchange, r *http.Request, rec *recording) bool {
	select {
	case <-rec.done:
		return true
	default:
	}
	if release, err := s.moveToStreams(r.Context(), x); err == nil {
		defer release()
	}
	select {
	case <-rec.done:
	case <-r.Context().Done():
		return false
	}
	return rec.status != 0 || s.returnToPlace(r.Context(), x) == nil
}

// printOf gives the digest of a request.
func printOf(r *http.Request, body []byte) (print [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("Prefer"), string(body)} {
		n := sha256.Sum256([]byte(part))
		h.Write(n[:])
	}
	h.Sum(print[:0])
	return print
}
