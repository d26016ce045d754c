package httpapi

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/credential"
	"github.com/remitrun/remit/internal/doors/hostcheck"
	"github.com/remitrun/remit/internal/record/telemetry"
)

// ServeHTTP implements http.Handler. It does what all requests need. Requests for the web UI
// come back as requests of their own, each with a grant.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.ui != nil && (r.URL.Path == "/ui" || strings.HasPrefix(r.URL.Path, "/ui/")) {
		s.ui.ServeHTTP(w, r)
		return
	}
	x := &exchange{ResponseWriter: w, asked: r, id: requestID(r), began: time.Now()}
	h := w.Header()
	h.Set("X-Request-Id", x.id)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	defer s.ended(x, r)
	defer s.recovered(x)
	if x.bare = s.probed(r); x.bare {
		h.Del("X-Request-Id")
	} else if why := s.origin().Foreign(r); why != "" {
		s.fail(x, bad(http.StatusForbidden, fault.Denied, why, "call the service by one of its own names"))
		return
	}
	if !plainPath(r.URL.EscapedPath()) { // the mux would redirect the client
		s.unknown(x, r)
		return
	}
	// The path of a session's file is one parameter, with its slashes.
	s.mux.ServeHTTP(x, oneParameter(r))
}

// probed reports whether a balancer asks for the health of the service by a name that is not one of
// its own, as its address. Only the status tells, and no page of another origin gets it.
func (s *Server) probed(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || r.URL.Path != "/healthz" && r.URL.Path != "/readyz" {
		return false
	}
	return r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" && s.origin().Foreign(r) != ""
}

// exchange is a request with its response.
type exchange struct {
	http.ResponseWriter
	asked  *http.Request // as the client sent it
	id     string
	began  time.Time
	op     *operation
	who    *Caller
	status int
	bare   bool // the response is a status alone
	failed *Problem
	span   *telemetry.Span
	tee    *recording // nil: the response is not kept
	run    uuid.UUID  // the ID that the run of the request gets; zero: a new one

	place     place // among the requests that are carried out at once
	untouched bool  // the request failed before it changed anything
	unsettled error // why the response to a request with an Idempotency-Key could not be recorded
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if x.status == 0 {
		x.status = status
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	if x.bare {
		return len(b), nil
	}
	if x.tee != nil {
		x.tee.add(b)
	}
	return x.ResponseWriter.Write(b)
}

// Unwrap implements the interface of http.ResponseController.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// requestID gives the client's own ID if it is valid, or a new one.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	ok := id != "" && len(id) <= 64
	for _, c := range []byte(id) {
		ok = ok && (c == '-' || c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z')
	}
	if ok {
		return id
	}
	return rand.Text()[:16]
}

// recovered answers a panic with an internal error.
func (s *Server) recovered(x *exchange) {
	v := recover()
	if v == nil {
		return
	}
	if v == http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		panic(v)
	}
	err := fault.Wrap(fault.Internal, fmt.Errorf("%v\n%s", v, debug.Stack()), "the request crashed")
	if x.status != 0 {
		x.failed = problem(err)
		return // the response has started
	}
	s.fail(x, problem(err))
}

// fail responds with a problem.
func (s *Server) fail(x *exchange, p *Problem) {
	p = s.finished(x, p)
	b, err := json.Marshal(p)
	if err != nil {
		b = []byte(`{"type":"urn:remit:E9999","title":"Internal Server Error","status":500,"code":"E9999"}`)
	}
	x.Header().Set("Content-Type", problemType)
	x.WriteHeader(p.Status)
	_, _ = x.Write(append(b, '\n')) // the client may have gone
}

// finished adds the request's ID to a problem, and notes the problem for the log.
func (s *Server) finished(x *exchange, p *Problem) *Problem {
	c := *p
	c.Instance = "urn:remit:request:" + x.id
	if s.o.Hide != nil {
		c.Detail, c.Hint = s.o.Hide(c.Detail), s.o.Hide(c.Hint)
	}
	x.failed = &c
	if c.Status == http.StatusUnauthorized {
		credential.Challenge(x.Header(), x.asked, p)
	}
	if c.retry != "" {
		x.Header().Set("Retry-After", c.retry)
	}
	return &c
}

// ended counts and logs a request.
func (s *Server) ended(x *exchange, r *http.Request) {
	took, route := time.Since(x.began), "other"
	e := Entry{ID: x.id, Subject: r.Method + " " + r.URL.Path, Status: x.status, Duration: took}
	if x.op != nil {
		route = x.op.path
		e.Operation, e.Action, e.Changes = x.op.id, x.op.action, x.op.changes()
	}
	if x.who != nil {
		e.Who = x.who.Name
	}
	if p := x.failed; p != nil {
		e.Code, e.Error = p.Code, p.Detail
		e.Refused = p.Status == http.StatusForbidden || p.Status == http.StatusUnauthorized
		if p.Status >= http.StatusInternalServerError {
			e.Cause = p.cause
			x.span.Fail(p.Code)
		}
	}
	if e.Cause == nil {
		e.Cause = x.unsettled
	}
	s.met.requests.Add(1, method(r.Method), route, strconv.Itoa(x.status))
	if x.op == nil || !x.op.stream {
		s.met.latency.Observe(took, method(r.Method), route)
	}
	x.span.Set(telemetry.Attr{Key: "http.response.status_code", Value: int64(x.status)})
	x.span.End()
	if s.o.Log != nil {
		s.o.Log(e)
	}
}

func method(m string) string {
	if slices.Contains([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}, m) {
		return m
	}
	return "other"
}

// origin says under which hosts the service may be called.
func (s *Server) origin() hostcheck.Service {
	o := hostcheck.Service{Hosts: s.o.Hosts, TLS: s.o.TLS != nil, Address: s.o.Address}
	if own := s.port.Load(); own != nil {
		o.Port = *own
	}
	return o
}

// unknown responds to requests for which there is no operation.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	x, _ := w.(*exchange) // ServeHTTP made it
	var allow []string
	for _, m := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
		probe := &http.Request{Method: m, URL: r.URL, Host: r.Host}
		if !plainPath(r.URL.EscapedPath()) {
			break
		}
		if _, pattern := s.mux.Handler(probe); pattern != "/" && pattern != "" {
			allow = append(allow, m)
		}
	}
	if len(allow) == 0 {
		s.fail(x, bad(http.StatusNotFound, fault.Usage, "unknown path", "GET /v1/openapi.json describes every operation"))
		return
	}
	x.Header().Set("Allow", strings.Join(allow, ", "))
	s.fail(x, bad(http.StatusMethodNotAllowed, fault.Usage, "this path does not support "+method(r.Method), "it supports "+strings.Join(allow, ", ")))
}

// plainPath reports whether a path has neither empty parts nor dots alone.
func plainPath(path string) bool {
	for part := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		if part == "." || part == ".." || part == "" && path != "/" && !strings.HasSuffix(path, "/") {
			return false
		}
	}
	return strings.HasPrefix(path, "/") && !strings.Contains(path, "//")
}

// oneParameter escapes the slashes of a file's path below /v1/sessions/ID/files/, so that
// it is one segment.
func oneParameter(r *http.Request) *http.Request {
	path := r.URL.EscapedPath()
	rest, ok := strings.CutPrefix(path, "/v1/sessions/")
	if !ok {
		return r
	}
	id, file, ok := strings.Cut(rest, "/files/")
	if !ok || strings.Contains(id, "/") || file == "" {
		return r
	}
	plain, err := url.PathUnescape(file)
	if err != nil {
		return r
	}
	plainID, err := url.PathUnescape(id)
	if err != nil {
		return r
	}
	u := *r.URL
	u.RawPath = "/v1/sessions/" + id + "/files/" + strings.ReplaceAll(url.PathEscape(plain), ".", "%2E")
	u.Path = "/v1/sessions/" + plainID + "/files/" + plain
	c := *r
	c.URL = &u
	return &c
}

// Flush implements http.Flusher.
func (x *exchange) Flush() {
	_ = http.NewResponseController(x.ResponseWriter).Flush() // data that cannot be flushed now is sent later
}
