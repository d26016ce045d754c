package httpapi

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/fault"
)

// Requests keeps which requests were begun with an Idempotency-Key, beyond this
// process: what was answered is kept in memory alone.
type Requests interface {
	// BeginRequest notes a request, unless its caller used the key before: then it
	// gives that one, and false.
	BeginRequest(ctx context.Context, r Keyed) (Keyed, bool, error)
	// EndRequest notes how it was answered; status 0 makes the key new again.
	EndRequest(ctx context.Context, r Keyed) error
}

// Keyed is a request with an Idempotency-Key.
type Keyed struct {
	Grant  string   // of the caller
	Key    [32]byte // the key's digest
	Print  [32]byte // the request's
	Until  time.Time
	Status int    // of the answer; 0: there is none, or not yet
	Place  string // what the answer's Location said
}

// remembered keeps answers for requests that are repeated with the same
// Idempotency-Key by the same grant. They are kept in memory, so many and for so
// long: a client repeats a request within moments of losing the answer. That a
// request was made is known for longer: see [Requests].
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
	now := time.Now()
	k := Keyed{Grant: x.who.Leaf, Key: sha256.Sum256([]byte(key)), Print: printOf(r, body), Until: now.Add(rememberFor)}
	full := x.who.Leaf + "\x00" + key
	rec, first := s.again.begin(full, k.Print, now)
	if first {
		s.record(x, r, full, rec, k, do)
		return
	}
	if rec.print != k.Print {
		s.fail(x, otherRequest())
		return
	}
	select {
	case <-rec.done:
	case <-r.Context().Done():
		return
	}
	if rec.status == 0 {
		s.fail(x, notKept(0, ""))
		return
	}
	for name, values := range rec.header {
		x.Header()[name] = values
	}
	x.Header().Set("Idempotency-Replayed", "true")
	x.WriteHeader(rec.status)
	_, _ = x.Write(rec.body) // a client that has gone misses it
}

// printOf tells one request from another.
func printOf(r *http.Request, body []byte) (print [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("Prefer"), string(body)} {
		n := sha256.Sum256([]byte(part))
		h.Write(n[:])
	}
	h.Sum(print[:0])
	return print
}

func otherRequest() *Problem {
	return bad(http.StatusUnprocessableEntity, fault.Conflict, "this Idempotency-Key was used for another request", "use a new key for a new request")
}

// notKept refuses a request that was made before, of whose answer nothing more is
// known.
func notKept(status int, place string) *Problem {
	if status == 0 {
		return bad(http.StatusConflict, fault.Conflict, "the first request with this Idempotency-Key came to no answer that is kept",
			"look at what is there, and use a new key")
	}
	hint := "look at what is there, and use a new key for a new request"
	if place != "" {
		hint = "what it made is at " + place
	}
	return bad(http.StatusConflict, fault.Conflict,
		fmt.Sprintf("the request with this Idempotency-Key was made, and answered with %d; the answer is not kept any more", status), hint)
}

// record makes the first request of a key that this process knows of.
func (s *Server) record(x *exchange, r *http.Request, key string, rec *recording, k Keyed, do func()) {
	keep := false
	defer func() { s.again.end(key, rec, keep) }()
	if p := s.noted(r.Context(), x, k); p != nil {
		s.fail(x, p)
		return
	}
	x.tee = rec
	do()
	// What waits for a person's answer is asked for again once it is there.
	asks := x.failed != nil && x.failed.Code == fault.NeedsApproval.Error()
	made := x.status != 0 && x.status < http.StatusInternalServerError && x.status != http.StatusTooManyRequests && !asks
	s.settled(r.Context(), x, k, made)
	if keep = made && !rec.large; !keep {
		return
	}
	rec.status, rec.header = x.status, http.Header{}
	for _, name := range []string{"Content-Type", "Etag", "Location", "Preference-Applied"} {
		if v := x.Header().Values(name); len(v) > 0 {
			rec.header[name] = v
		}
	}
}

// noted notes that a request is about to be made, or says why it is not.
func (s *Server) noted(ctx context.Context, x *exchange, k Keyed) *Problem {
	if s.o.Requests == nil {
		return nil
	}
	was, fresh, err := s.o.Requests.BeginRequest(ctx, k)
	switch {
	case err != nil:
		return problem(err)
	case fresh:
		return nil
	case was.Print != k.Print:
		return otherRequest()
	}
	if was.Place != "" {
		x.Header().Set("Location", was.Place)
	}
	return notKept(was.Status, was.Place)
}

// settled notes whether a request was made. Where that cannot be noted, its key stays
// one that was used: better refused once more than made twice.
func (s *Server) settled(ctx context.Context, x *exchange, k Keyed, made bool) {
	if s.o.Requests == nil {
		return
	}
	if k.Status = 0; made {
		k.Status, k.Place = x.status, x.Header().Get("Location")
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer stop()
	x.unsettled = s.o.Requests.EndRequest(ctx, k)
}

// settleWithin bounds how long it is tried to note how a request was answered.
const settleWithin = 10 * time.Second
