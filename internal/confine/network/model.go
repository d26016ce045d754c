package network

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of an answer of a model's service.
const (
	MaxModelBytes    = 64 << 20        // of the whole answer, as it comes in
	DefaultModelWait = 2 * time.Minute // how long nothing may come in
)

// ModelService is a service of models, as the operator's settings name it.
type ModelService struct {
	Model  string // the ID of the model that the call asks; the policies' models decide it
	Base   string // URL: requests go there, or below its path
	Header string // that carries the key; "" and no Key: none does
	Prefix string // before the key
	Key    string // by which the key is found
	Wait   time.Duration
}

// ModelTransport sends requests to one service of models, under the permit of a
// call that may ask one of its models. The policies' network section does not
// bound it: where the service is, the operator said. It follows no redirect. The
// zero ModelTransport refuses everything.
type ModelTransport struct {
	// Secret finds the value of ModelService.Key.
	Secret func(key string) (value string, ok bool)

	of   ModelService
	base tool.Target
	t    *Transport
}

// NewModelTransport makes the transport of one call. A base that cannot be used is
// a fault.HandleRefused error.
func NewModelTransport(p permit.Permit, of ModelService) (*ModelTransport, error) {
	u, base, err := target.URL("POST", of.Base)
	if err == nil && (u.RawQuery != "" || u.ForceQuery || strings.Contains(of.Base, "#")) {
		err = fault.New(fault.ArgsInvalid, "the URL %q has a query or fragment", of.Base)
	}
	if err != nil {
		return nil, fault.New(fault.HandleRefused, "the service of the model cannot be reached: %s", fault.Message(err))
	}
	if of.Wait <= 0 {
		of.Wait = DefaultModelWait
	}
	return &ModelTransport{of: of, base: base, t: NewTransport(p)}, nil
}

// RoundTrip sends a request to the service, with the key. A refusal is a
// fault.HandleRefused error; a key that is not there is fault.ModelKey. The
// answer's body fails with fault.LimitReached after MaxModelBytes, and with
// fault.ToolTimeout where nothing comes for the service's Wait.
func (m *ModelTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.send(req)
	if err != nil && req.Body != nil {
		_ = req.Body.Close() // the contract of RoundTripper; the body is of no more use
	}
	return resp, err
}

func (m *ModelTransport) send(req *http.Request) (*http.Response, error) {
	if m.t == nil {
		return nil, fault.New(fault.HandleRefused, "the permit for a model is missing")
	}
	u, to, err := m.within(req)
	if err != nil {
		return nil, err
	}
	if err := m.t.permit.Check(tool.Action{Kind: tool.Model, Model: m.of.Model}); err != nil {
		return nil, err
	}
	out := req.Clone(req.Context())
	secrets, err := m.sign(out)
	if err != nil {
		return nil, err
	}
	ctx, w := watch(req.Context(), m.of.Wait)
	addrs, err := m.resolve(ctx, to)
	if err != nil {
		w.end()
		return nil, err
	}
	out = out.WithContext(ctx)
	out.Method, out.URL, out.Host = to.Method, u, u.Host
	resp, err := m.t.over(to, addrs, max(req.ContentLength, 0)).RoundTrip(out)
	if err == nil {
		err = plainAnswer(resp)
	}
	if err != nil {
		defer w.end()
		return nil, failure(ctx, secrets.err(err), to.String())
	}
	m.bound(ctx, resp, to, secrets, w)
	resp.Request = req
	return resp, nil
}

// within reads the URL of a request, and refuses what leaves the service, or would
// make it see another request.
func (m *ModelTransport) within(req *http.Request) (*url.URL, tool.Target, error) {
	u, to, err := target.URL(req.Method, req.URL.String())
	if err != nil {
		return nil, to, fault.New(fault.HandleRefused, "%s", fault.Message(err))
	}
	root := strings.TrimSuffix(m.base.Path, "/")
	switch {
	case to.Scheme != m.base.Scheme || to.Host != m.base.Host || to.Port != m.base.Port,
		to.Path != root && !strings.HasPrefix(to.Path, root+"/"):
		return nil, to, fault.New(fault.HandleRefused, "%s: the request leaves the model's service %s", to, m.of.Base)
	case req.URL.User != nil || req.Host != "" && req.Host != req.URL.Host:
		return nil, to, fault.New(fault.HandleRefused, "%s: the request names another host than its URL, or a user", to)
	}
	for name := range req.Header {
		if reason := RefusedHeader(name); reason != "" {
			return nil, to, fault.New(fault.HandleRefused, "%s: the header %q is refused: %s", to, name, reason)
		}
		if SameHeader(name, m.of.Header) {
			return nil, to, fault.New(fault.HandleRefused, "%s: the header %q is Remit's to set", to, name)
		}
	}
	return u, to, nil
}

// telling are beginnings of headers that describe this machine, which no service needs.
var telling = []string{"X-Stainless-"}

// sign adds the key, removes headers that the service does not need, and returns
// the mask for the response.
func (m *ModelTransport) sign(out *http.Request) (mask, error) {
	for name := range out.Header {
		if slices.ContainsFunc(telling, func(head string) bool { return strings.HasPrefix(http.CanonicalHeaderKey(name), head) }) {
			out.Header.Del(name)
		}
	}
	out.Header.Set("User-Agent", "remit")
	out.Header.Del("Accept-Encoding") // only a body that is decoded here can be searched
	if m.of.Key == "" {
		return nil, nil
	}
	value, ok := "", false
	if m.Secret != nil {
		value, ok = m.Secret(m.of.Key)
	}
	if value = strings.Trim(value, " \t\r\n"); !ok || value == "" {
		return nil, fault.New(fault.ModelKey, "the key %q of the model's service is not set", m.of.Key).
			ForOperator("set it with remit secret set %s, or as an environment variable of Remit", strings.ToLower(m.of.Key))
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fault.New(fault.ModelKey, "the key %q of the model's service cannot stand in a header", m.of.Key).
			WithHint("set it anew, without spaces and line breaks")
	}
	out.Header.Set(m.of.Header, m.of.Prefix+value)
	return mask(nil).add(value), nil
}

// resolve gives the addresses of the service. Private ones are for a base that
// names the address itself, or localhost.
func (m *ModelTransport) resolve(ctx context.Context, to tool.Target) ([]netip.Addr, error) {
	_, perr := netip.ParseAddr(to.Host)
	literal := perr == nil || to.Host == "localhost"
	if !literal {
		m.t.permit.Note(tool.Happened{Effect: tool.NetworkDNS, On: to.Host})
	}
	addrs, err := m.t.lookup(ctx, to.Host)
	if err != nil {
		return nil, err
	}
	if addrs = unique(addrs); len(addrs) == 0 {
		return nil, fault.New(fault.NotFound, "the host %q has no address", to.Host)
	}
	for _, a := range addrs {
		if !literal && !target.Public(a) {
			return nil, fault.New(fault.HandleRefused, "%s: the host has the address %s, which is not public", to, a).
				WithHint("name the address itself, or localhost, in the provider's base_url")
		}
	}
	return addrs, nil
}

// plainAnswer refuses answers that cannot be read through.
func plainAnswer(resp *http.Response) error {
	var err error
	switch e := resp.Header.Get("Content-Encoding"); {
	case resp.StatusCode == http.StatusSwitchingProtocols:
		err = fault.New(fault.ToolFailed, "the server switched protocols")
	case e != "" && !strings.EqualFold(e, "identity"):
		err = fault.New(fault.ToolFailed, "the answer is encoded as %.40q, and cannot be looked through for the key that was sent", e)
	default:
		return nil
	}
	return errors.Join(err, resp.Body.Close())
}

// bound puts bounds around an answer's body and hides the key in it.
func (m *ModelTransport) bound(ctx context.Context, resp *http.Response, to tool.Target, secrets mask, w *watchdog) {
	what := to.String()
	resp.Body = secrets.body(&body{
		inner: &watched{resp.Body, w}, live: m.t.permit.Live, cancel: w.end, left: MaxModelBytes, of: what,
		count: func(n int) error { return m.t.permit.Transferred(int64(n), 0) },
		coded: func(err error) error { return failure(ctx, secrets.err(err), what) },
	})
	secrets.header(resp.Header)
	resp.Trailer = nil // it comes after the searched body
}

// watchdog ends a request for which nothing comes in.
type watchdog struct {
	timer *time.Timer
	wait  time.Duration
	end   context.CancelFunc
}

// watch gives the context of a request that must not be silent for longer than
// wait.
func watch(ctx context.Context, wait time.Duration) (context.Context, *watchdog) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := fault.Wrap(fault.ToolTimeout, fault.ToolTimeout, "nothing came for %s", wait)
	w := &watchdog{timer: time.AfterFunc(wait, func() { cancel(late) }), wait: wait}
	w.end = func() {
		w.timer.Stop()
		cancel(nil)
	}
	return ctx, w
}

// watched tells a watchdog of what comes in.
type watched struct {
	io.ReadCloser
	w *watchdog
}

func (r *watched) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.w.timer.Reset(r.w.wait)
	}
	return n, err
}
