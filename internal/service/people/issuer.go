package people

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/pause"
	"github.com/remitrun/remit/internal/service/settings"
)

const (
	maxToken    = 16 << 10         // bytes of a token
	maxDocument = 1 << 20          // bytes of what an issuer answers
	skew        = time.Minute      // that the clocks of an issuer and of this machine may differ
	keysFor     = 15 * time.Minute // how long an issuer's keys are believed
	keysEvery   = 2 * time.Second  // the shortest time between two requests for them
	issuerTime  = 10 * time.Second // for one request to an issuer
)

// issuer is an identity provider: its metadata and its keys.
type issuer struct {
	conf   settings.Issuer
	now    func() time.Time
	pause  func(ctx context.Context, d time.Duration) error
	client *http.Client

	mu     sync.Mutex
	known  metadata
	keys   *oidc.RemoteKeySet
	until  time.Time // of known and keys
	asked  time.Time // when the keys were last asked for, or will be
	failed error     // why the metadata could not be had
	again  time.Time // when it is asked for again after that
	asking *asking   // nil: no request for the metadata is under way
}

// asking is a request for the metadata of an issuer. All callers share it, so the end of one
// caller does not end it.
type asking struct {
	done  chan struct{} // closed once the rest is set
	known metadata
	keys  *oidc.RemoteKeySet
	err   error
}

// metadata is an issuer's own description.
type metadata struct {
	Authorize string `json:"authorization_endpoint"`
	Token     string `json:"token_endpoint"`
	Keys      string `json:"jwks_uri"`
	Named     bool   `json:"authorization_response_iss_parameter_supported"` // answers to sign-ins name the issuer (RFC 9207)
}

func newIssuer(conf settings.Issuer, now func() time.Time) *issuer {
	i := &issuer{conf: conf, now: now, pause: pause.For}
	dialer := &net.Dialer{Timeout: issuerTime}
	local := &net.Dialer{Timeout: issuerTime, Control: func(_, address string, _ syscall.RawConn) error {
		if a, err := netip.ParseAddrPort(address); err != nil || !a.Addr().Unmap().IsLoopback() {
			return fmt.Errorf("%s is not a loopback address, and the request is not encrypted", address)
		}
		return nil
	}}
	// A redirect would have the keys come from elsewhere.
	i.client = &http.Client{Timeout: issuerTime, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &careful{of: i,
		secure: &http.Transport{DialContext: dialer.DialContext, ForceAttemptHTTP2: true, MaxIdleConns: 2, IdleConnTimeout: issuerTime},
		plain:  &http.Transport{DialContext: local.DialContext, DisableKeepAlives: true}}}
	return i
}

// careful makes the requests to an issuer: only to its hosts, encrypted or on this machine,
// with bounded answers. A request for its keys comes a while after the one before, and all callers
// share it. So forged tokens make few requests, and hold no token of a new key up for longer.
type careful struct {
	of            *issuer
	secure, plain http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *careful) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.of.allowed(r.URL.String()); err != nil {
		return nil, err
	}
	if err := t.of.pause(r.Context(), t.of.keysWait(r.URL.String())); err != nil {
		return nil, err
	}
	via := t.secure
	if r.URL.Scheme == "http" {
		via = t.plain
	}
	res, err := via.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = &bounded{ReadCloser: res.Body, left: maxDocument}
	return res, nil
}

// keysWait returns how long a request must wait, if it is for the keys.
func (i *issuer) keysWait(address string) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if address != i.known.Keys {
		return 0
	}
	now := i.now()
	wait := keysEvery - now.Sub(i.asked)
	if wait < 0 || wait > 2*keysEvery { // so long ago, or the clock was put back
		wait = 0
	}
	i.asked = now.Add(wait)
	return wait
}

// allowed reports why an address is not one of the issuer's.
func (i *issuer) allowed(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || settings.CheckWebhookURL(address) != nil {
		return fmt.Errorf("%q is neither https nor on this machine", clip.Text(address, 200))
	}
	own, err := url.Parse(i.conf.URL)
	if err != nil {
		return err
	}
	if own.Scheme == "https" && u.Scheme != "https" {
		return fmt.Errorf("%q is not https", clip.Text(address, 200))
	}
	if u.Host != own.Host && !slices.Contains(i.conf.Hosts, u.Host) {
		return fmt.Errorf("the host %q is not the issuer's; people.issuers.%s.hosts can allow it", clip.Text(u.Host, 100), i.conf.Name)
	}
	return nil
}

// bounded fails once more was read than is allowed.
type bounded struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxDocument)
	}
	return n, err
}

// discover returns the issuer's metadata and its keys. Both are asked for again after a while, so
// that a key that the issuer has withdrawn counts no longer.
func (i *issuer) discover(ctx context.Context) (metadata, *oidc.RemoteKeySet, error) {
	i.mu.Lock()
	now := i.now()
	switch {
	case i.keys != nil && now.Before(i.until):
		defer i.mu.Unlock()
		return i.known, i.keys, nil
	case i.failed != nil && now.Before(i.again):
		defer i.mu.Unlock()
		return metadata{}, nil, i.failed
	case i.asking == nil:
		i.asking = &asking{done: make(chan struct{})}
		go i.renew(i.asking)
	}
	a := i.asking
	i.mu.Unlock()
	select {
	case <-a.done:
		return a.known, a.keys, a.err
	case <-ctx.Done():
		return metadata{}, nil, fault.Wrap(fault.GrantKey, ctx.Err(), "the request ended before the issuer %s answered", i.conf.URL)
	}
}

// renew requests the metadata for all waiting callers. The client's timeout bounds it.
func (i *issuer) renew(a *asking) {
	ctx := oidc.ClientContext(context.Background(), i.client)
	known, err := i.ask(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	defer close(a.done)
	i.asking = nil
	if err != nil {
		a.err = fault.Wrap(fault.GrantKey, err, "the issuer %s cannot be asked for its keys: %s", i.conf.URL, clip.Text(err.Error(), 300)).
			ForOperator("try again; if it lasts, look at people.issuers.%s in config.yaml", i.conf.Name)
		i.failed, i.again = a.err, i.now().Add(keysEvery)
		return
	}
	a.known, a.keys = known, oidc.NewRemoteKeySet(ctx, known.Keys)
	i.known, i.keys, i.until, i.failed = a.known, a.keys, i.now().Add(keysFor), nil
	i.asked = time.Time{} // a new set has no keys yet: no earlier request may hold its first one up
}

// ask asks the issuer for its metadata, by the client in ctx. It must name the same issuer.
func (i *issuer) ask(ctx context.Context) (found metadata, err error) {
	provider, err := oidc.NewProvider(ctx, i.conf.URL)
	if err == nil {
		err = provider.Claims(&found)
	}
	for _, address := range []string{found.Keys, found.Authorize, found.Token} {
		if err == nil && (address != "" || found.Keys == "") {
			err = i.allowed(address)
		}
	}
	return found, err
}

// verify verifies a token of one of the issuers for one of the audiences.
func (p *People) verify(ctx context.Context, text string, audiences func(settings.Issuer) []string) (claimed, error) {
	if len(text) > maxToken {
		return claimed{}, fault.New(fault.GrantTooLarge, "the token has more than %d bytes", maxToken)
	}
	from, err := peek(text)
	if err != nil {
		return claimed{}, err
	}
	at := slices.IndexFunc(p.issuers, func(i *issuer) bool { return i.conf.URL == from })
	if at < 0 {
		return claimed{}, fault.New(fault.GrantInvalid, "the token's issuer %q is not one of this service", clip.Text(from, 200)).
			ForOperator("people.issuers in config.yaml lists the known ones")
	}
	return p.issuers[at].verify(ctx, text, audiences(p.issuers[at].conf))
}

// peek reads which issuer a token says that it is of. The header must be that of an identity token:
// issuers sign other things too.
func peek(text string) (issuer string, err error) {
	bad := func(why string) (string, error) {
		return "", fault.New(fault.GrantInvalid, "the token is not a JWT: %s", why)
	}
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return bad("it does not have three parts")
	}
	var head struct {
		Type string `json:"typ"`
	}
	var body struct {
		Issuer string `json:"iss"`
	}
	for i, into := range []any{&head, &body} {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil || json.Unmarshal(b, into) != nil {
			return bad("a part of it cannot be read")
		}
	}
	if kind := strings.TrimPrefix(strings.ToLower(head.Type), "application/"); !slices.Contains([]string{"", "jwt", "at+jwt"}, kind) {
		return bad(fmt.Sprintf("it is of the type %q", clip.Text(head.Type, 40)))
	}
	return body.Issuer, nil
}

// verify verifies a token's signature, issuer, audience and time.
func (i *issuer) verify(ctx context.Context, text string, audiences []string) (claimed, error) {
	_, keys, err := i.discover(ctx)
	if err != nil {
		return claimed{}, err
	}
	token, err := oidc.NewVerifier(i.conf.URL, keys, &oidc.Config{SupportedSigningAlgs: i.conf.Algorithms, SkipClientIDCheck: true, SkipExpiryCheck: true}).Verify(ctx, text)
	if err != nil {
		return claimed{}, fault.Wrap(fault.GrantForged, err, "the token is not one of %s: %s", i.conf.URL, clip.Text(err.Error(), 200))
	}
	var raw json.RawMessage
	if err := token.Claims(&raw); err != nil {
		return claimed{}, fault.Wrap(fault.GrantInvalid, err, "the token's claims cannot be read")
	}
	v, err := canon.Decode(raw) // which refuses a claim that is there twice
	claims, ok := v.(map[string]any)
	if err != nil || !ok || claims["iss"] != i.conf.URL {
		return claimed{}, fault.Wrap(fault.GrantInvalid, err, "the token's claims cannot be read")
	}
	out := claimed{issuer: i.conf, claims: claims}
	if out.subject, _ = claims["sub"].(string); out.subject == "" || len(out.subject) > maxSubject {
		return claimed{}, fault.New(fault.GrantInvalid, "the token has no subject of at most %d bytes", maxSubject)
	}
	if !slices.ContainsFunc(audiencesOf(claims["aud"]), func(a string) bool { return slices.Contains(audiences, a) }) {
		return claimed{}, fault.New(fault.GrantAudience, "the token is for another audience").ForOperator("people.issuers.%s in config.yaml says which audiences count", i.conf.Name)
	}
	return out, out.inTime(i.now())
}

func audiencesOf(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []string
	for _, one := range list {
		if s, ok := one.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// inTime checks the times of a token, and keeps them. All but nbf must be there.
func (c *claimed) inTime(now time.Time) error {
	var began time.Time
	for name, into := range map[string]*time.Time{"exp": &c.expires, "iat": &c.issued, "nbf": &began} {
		at, ok := seconds(c.claims[name])
		if !ok && (name != "nbf" || c.claims[name] != nil) {
			return fault.New(fault.GrantInvalid, "the token's %s is not a time", name)
		}
		*into = at
	}
	switch {
	case !now.Before(c.expires.Add(skew)):
		return fault.New(fault.GrantExpired, "the token expired at %s", c.expires.UTC().Format(time.RFC3339)).WithHint("get a new one from its issuer")
	case now.Add(skew).Before(began), now.Add(skew).Before(c.issued):
		return fault.New(fault.GrantEarly, "the token is not valid yet").WithHint("look at the clock of this machine, and at the issuer's")
	}
	return nil
}

// seconds reads a time as JWTs write it.
func seconds(v any) (time.Time, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return time.Time{}, false
	}
	f, err := n.Float64()
	if err != nil || f < 0 || f > 253402300799 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(f * 1000)), true
}
