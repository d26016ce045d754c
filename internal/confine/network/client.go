package network

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
)

// MaxRedirects is how many redirects of one request are followed.
const MaxRedirects = 10

// Client sends requests under a permit and follows redirects, each decided
// anew. The zero Client refuses everything.
type Client struct {
	Transport *Transport
}

// NewClient makes the client of one call.
func NewClient(p permit.Permit) *Client { return &Client{NewTransport(p)} }

// Request is what to send.
type Request struct {
	Method string // "" means GET
	URL    string
	Header http.Header
	Body   []byte // nil for none
}

// Response is the answer to a request after its redirects.
type Response struct {
	*http.Response          // its Body must be closed
	URL            string   // where the answer came from, without a fragment
	Redirects      []string // the URLs on the way, the first request's first; empty if there were none
}

// Do sends a request and follows its redirects by the fetch standard, only more
// careful with a change of origin (scheme, host or port): then only harmless
// headers go along, and a body is not sent on at all. A status of 400 and more
// is an answer, not an error. The policies' network.timeout bounds it all, until
// the answer's body is read.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if c.Transport == nil {
		return nil, fault.New(fault.HandleRefused, "the permit for the network is missing")
	}
	header := r.Header.Clone()
	if header == nil {
		header = http.Header{}
	}
	u, to, err := target.URL(r.Method, r.URL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Transport.timeout(), fault.ToolTimeout)
	resp, err := c.chain(ctx, hop{method: to.Method, url: u, header: header, body: r.Body})
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = ending{resp.Body, cancel}
	return resp, nil
}

// ending ends a context when a body is closed.
type ending struct {
	io.ReadCloser
	end context.CancelFunc
}

func (e ending) Close() error {
	e.end()
	return e.ReadCloser.Close()
}

// chain sends one request after the other until none redirects.
func (c *Client) chain(ctx context.Context, next hop) (*Response, error) {
	var seen []string
	for {
		resp, err := c.send(ctx, next)
		if err != nil {
			return nil, inRedirect(err, seen)
		}
		location := resp.Header.Get("Location")
		if !isRedirect(resp.StatusCode) || location == "" {
			return &Response{Response: resp, URL: next.url.String(), Redirects: seen}, nil
		}
		if err := resp.Body.Close(); err != nil {
			return nil, failure(ctx, err, next.url.Host)
		}
		seen = append(seen, next.url.String())
		if len(seen) > MaxRedirects {
			return nil, fault.New(fault.ToolFailed, "more than %d redirects", MaxRedirects)
		}
		if next, err = next.follow(resp.StatusCode, location); err != nil {
			return nil, inRedirect(err, seen)
		}
	}
}

func (c *Client) send(ctx context.Context, h hop) (*http.Response, error) {
	var body io.Reader
	if h.body != nil {
		body = bytes.NewReader(h.body)
	}
	req, err := http.NewRequestWithContext(ctx, h.method, h.url.String(), body)
	if err != nil {
		return nil, fault.Wrap(fault.ArgsInvalid, err, "the request to %q cannot be built", h.url.Host)
	}
	req.Header = h.header.Clone()
	return c.Transport.RoundTrip(req)
}

// hop is one request of a chain of redirects.
type hop struct {
	method string
	url    *url.URL // canonical
	header http.Header
	body   []byte
}

// crossing lists the headers that go along to another origin: those that say
// nothing about the caller.
var crossing = []string{"Accept", "Accept-Encoding", "Accept-Language", "Range", "User-Agent"}

func (h hop) follow(status int, location string) (hop, error) {
	resolved, err := h.url.Parse(location)
	if err != nil {
		return hop{}, fault.Wrap(fault.HandleRefused, err, "the redirect's address %.200q cannot be read", location)
	}
	next := hop{method: h.method, header: h.header.Clone(), body: h.body}
	rewritten := status == http.StatusSeeOther && h.method != "HEAD" ||
		(status == http.StatusMovedPermanently || status == http.StatusFound) && h.method == "POST"
	if rewritten {
		next.method, next.body = "GET", nil
		for _, name := range []string{"Content-Encoding", "Content-Language", "Content-Location", "Content-Type"} {
			next.header.Del(name)
		}
	}
	u, to, err := target.URL(next.method, resolved.String())
	if err != nil {
		return hop{}, fault.New(fault.HandleRefused, "%s", fault.Message(err))
	}
	next.url = u
	if u.Scheme == h.url.Scheme && u.Host == h.url.Host {
		return next, nil
	}
	if next.body != nil {
		return hop{}, fault.New(fault.HandleRefused, "%s: a body is not sent on to another origin", to).
			WithHint("send it there in a call of its own")
	}
	next.header = http.Header{}
	for _, name := range crossing {
		if v := h.header.Values(name); len(v) > 0 {
			next.header[name] = v
		}
	}
	return next, nil
}

func isRedirect(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// inRedirect says of an error that it met a redirect, and after which host.
func inRedirect(err error, seen []string) error {
	if len(seen) == 0 {
		return err
	}
	from := ""
	if u, uerr := url.Parse(seen[len(seen)-1]); uerr == nil {
		from = u.Host
	}
	return fault.Wrap(fault.CodeOf(err), err, "in a redirect from %s: %s", from, fault.Message(err))
}
