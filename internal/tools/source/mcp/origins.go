package mcp

import (
	"net/http"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
)

// Origins sends requests to some origins alone, and notes the first URL elsewhere
// that a request was for. Confined makes one.
type Origins struct {
	next    http.RoundTripper
	allowed []string

	mu   sync.Mutex
	want string
}

// Confined sends requests to these origins, as https://example.com, and no others.
func Confined(rt http.RoundTripper, origins []string) *Origins {
	return &Origins{next: rt, allowed: origins}
}

// RoundTrip implements http.RoundTripper.
func (o *Origins) RoundTrip(r *http.Request) (*http.Response, error) {
	to := r.URL.Scheme + "://" + r.URL.Host
	if slices.Contains(o.allowed, to) {
		return o.next.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close() // it is of no more use
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.want == "" {
		o.want = r.URL.String()
	}
	return nil, fault.New(fault.HandleRefused, "the login leads to %.300q, which was not confirmed", to)
}

// Wanted is the first URL that was wanted elsewhere, "" if none was.
func (o *Origins) Wanted() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.want
}
