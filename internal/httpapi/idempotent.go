package httpapi

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/fault"
)

// remembered keeps answers for requests that are repeated with the same
// Idempotency-Key by the same grant. They are kept in memory, so many and for so
// long: a client repeats a request within moments of losing the answer. What a
// request changed is in the ledger in any case.
type remembered struct {
	most int

	mu    sync.Mutex
	all   map[string]*recording
	order []string // oldest first
	bytes int      // of the answers that are kept
}

const (
	rememberFor = 24 * time.Hour
	maxKept     = 256 << 10 // bytes of one answer
	maxBytes    = 32 << 20  // of all together
	maxKey      = 255
)

// recording is an answer that is being given, or was.
type recording struct {
	print  [sha256.Size]byte // of the request
	done   chan struct{}
	at     time.Time
	status int // 0: the answer is not kept
	header http.Header
	body   []byte
	large  bool
	size   int // as it counts; guarded by remembered.mu
}

func (rec *recording) add(b []byte) {
	if rec.large = rec.large || len(rec.body)+len(b) > maxKept; !rec.large {
		rec.body = append(rec.body, b...)
	}
}

func newRemembered(most int) *remembered {
	return &remembered{most: most, all: map[string]*recording{}}
}

// begin gives the recording of a key, and whether this request is the first.
func (m *remembered) begin(key string, print [sha256.Size]byte, now time.Time) (*recording, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if rec := m.all[key]; rec != nil && now.Sub(rec.at) < rememberFor {
		return rec, false
	}
	for len(m.order) > 0 && (len(m.all) >= m.most || len(m.order) >= 2*m.most || m.bytes > maxBytes) {
		m.drop(m.order[0])
		m.order = m.order[1:]
	}
	m.drop(key) // one that is too old
	rec := &recording{print: print, done: make(chan struct{}), at: now}
	m.all[key] = rec
	m.order = append(m.order, key)
	return rec, true
}

// drop forgets a key. The caller holds the lock.
func (m *remembered) drop(key string) {
	if rec := m.all[key]; rec != nil {
		m.bytes -= rec.size
		delete(m.all, key)
	}
}

// end keeps an answer, or forgets the key where there is nothing to keep: the next
// request with it is then made.
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

// once makes a request, unless it was made before under the same key.
func (s *Server) once(x *exchange, r *http.Request, body []byte, do func()) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || x.op.method != http.MethodPost {
		do()
		return
	}
	if len(key) > maxKey || x.op.stream && wantsStream(r) {
		s.fail(x, bad(http.StatusBadRequest, fault.Usage, "this Idempotency-Key cannot be used",
			"a key has at most 255 bytes, and streams have none: post with Prefer: respond-async and follow the session's events"))
		return
	}
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("Prefer"), string(body)} {
		n := sha256.Sum256([]byte(part))
		h.Write(n[:])
	}
	full := x.who.Leaf + "\x00" + key
	rec, first := s.again.begin(full, [sha256.Size]byte(h.Sum(nil)), time.Now())
	if first {
		s.record(x, full, rec, do)
		return
	}
	if rec.print != [sha256.Size]byte(h.Sum(nil)) {
		s.fail(x, bad(http.StatusUnprocessableEntity, fault.Conflict, "this Idempotency-Key was used for another request", "use a new key for a new request"))
		return
	}
	select {
	case <-rec.done:
	case <-r.Context().Done():
		return
	}
	if rec.status == 0 {
		s.fail(x, bad(http.StatusConflict, fault.Conflict, "the first request with this Idempotency-Key came to no answer that is kept",
			"look at what is there, and use a new key"))
		return
	}
	for name, values := range rec.header {
		x.Header()[name] = values
	}
	x.Header().Set("Idempotency-Replayed", "true")
	x.WriteHeader(rec.status)
	_, _ = x.Write(rec.body) // a client that has gone misses it
}

// record makes the first request of a key.
func (s *Server) record(x *exchange, key string, rec *recording, do func()) {
	keep := false
	defer func() { s.again.end(key, rec, keep) }()
	x.tee = rec
	do()
	// What waits for a person's answer is asked for again once it is there.
	asks := x.failed != nil && x.failed.Code == fault.NeedsApproval.Error()
	if keep = x.status != 0 && x.status < http.StatusInternalServerError && x.status != http.StatusTooManyRequests && !rec.large && !asks; !keep {
		return
	}
	rec.status, rec.header = x.status, http.Header{}
	for _, name := range []string{"Content-Type", "Etag", "Location", "Preference-Applied"} {
		if v := x.Header().Values(name); len(v) > 0 {
			rec.header[name] = v
		}
	}
}
