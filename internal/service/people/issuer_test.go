package people

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/people/oidctest"
	"github.com/remitrun/remit/internal/service/settings"
)

// clock is a time that tests move.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// service is people of one issuer, whose clock is the tests'.
func newService(t *testing.T, change ...func(*settings.Issuer)) (*People, *oidctest.Provider, *clock) {
	t.Helper()
	idp, c := oidctest.New("ui", "hush"), &clock{time.Now().Truncate(time.Second)}
	t.Cleanup(idp.Close)
	idp.Now = c.Now
	conf := settings.Issuer{Name: "company", URL: idp.URL, Audiences: []string{"remit"}, Algorithms: []string{"RS256", "ES256"}, Display: "email"}
	for _, f := range change {
		f(&conf)
	}
	h := &home.Home{}
	h.Settings.People.Issuers = []settings.Issuer{conf}
	p := New(h, nil, nil)
	p.Now = c.Now
	p.issuers[0].pause = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } // the clock is the test's
	return p, idp, c
}

func (p *People) check(t *testing.T, text string) (claimed, error) {
	t.Helper()
	return p.verify(t.Context(), text, func(i settings.Issuer) []string { return i.Audiences })
}

func TestTokensOfAnIssuer(t *testing.T) {
	p, idp, c := newService(t)
	other := oidctest.New("ui", "")
	t.Cleanup(other.Close)
	ann := func(more map[string]any) map[string]any {
		claims := idp.Claims("remit", map[string]any{"sub": "ann"})
		for k, v := range more {
			if claims[k] = v; v == nil {
				delete(claims, k)
			}
		}
		return claims
	}
	at := func(d time.Duration) int64 { return c.now.Add(d).Unix() }
	const good = fault.Code(0)
	for name, tt := range map[string]struct {
		text string
		want fault.Code
	}{
		"a good one":                 {idp.Sign(ann(nil)), good},
		"an access token":            {idp.Sign(ann(nil), map[string]any{"typ": "at+jwt"}), good},
		"for several audiences":      {idp.Sign(ann(map[string]any{"aud": []string{"x", "remit"}})), good},
		"expired within the skew":    {idp.Sign(ann(map[string]any{"exp": at(-59 * time.Second)})), good},
		"expired":                    {idp.Sign(ann(map[string]any{"exp": at(-time.Minute)})), fault.GrantExpired},
		"without an end":             {idp.Sign(ann(map[string]any{"exp": nil})), fault.GrantInvalid},
		"an end that is a text":      {idp.Sign(ann(map[string]any{"exp": "2099-01-01"})), fault.GrantForged},
		"without a beginning":        {idp.Sign(ann(map[string]any{"iat": nil})), fault.GrantInvalid},
		"early within the skew":      {idp.Sign(ann(map[string]any{"nbf": at(time.Minute)})), good},
		"early":                      {idp.Sign(ann(map[string]any{"nbf": at(61 * time.Second)})), fault.GrantEarly},
		"issued later":               {idp.Sign(ann(map[string]any{"iat": at(time.Hour)})), fault.GrantEarly},
		"an nbf that is no time":     {idp.Sign(ann(map[string]any{"nbf": true})), fault.GrantForged},
		"for another audience":       {idp.Sign(ann(map[string]any{"aud": "ui"})), fault.GrantAudience},
		"for no audience":            {idp.Sign(ann(map[string]any{"aud": nil})), fault.GrantAudience},
		"for an audience of numbers": {idp.Sign(ann(map[string]any{"aud": []any{1, nil}})), fault.GrantForged},
		"without a subject":          {idp.Sign(ann(map[string]any{"sub": nil})), fault.GrantInvalid},
		"a long subject":             {idp.Sign(ann(map[string]any{"sub": strings.Repeat("a", 256)})), fault.GrantInvalid},
		"a logout token":             {idp.Sign(ann(nil), map[string]any{"typ": "logout+jwt"}), fault.GrantInvalid},
		"of another issuer":          {other.Sign(other.Claims("remit", map[string]any{"sub": "ann"})), fault.GrantInvalid},
		"in the issuer's name":       {other.Sign(ann(nil)), fault.GrantForged},
		"of a name much like it":     {idp.Sign(ann(map[string]any{"iss": idp.URL + "/"})), fault.GrantInvalid},
		"too large":                  {idp.Sign(ann(map[string]any{"groups": strings.Repeat("x", maxToken)})), fault.GrantTooLarge},
		"not a token":                {"a.b.c", fault.GrantInvalid},
		"two parts":                  {"a.b", fault.GrantInvalid},
		"a critical header":          {idp.Sign(ann(nil), map[string]any{"crit": []string{"x"}, "x": 1}), fault.GrantForged},
	} {
		got, err := p.check(t, tt.text)
		if tt.want == good && (err != nil || got.subject != "ann") || tt.want != good && !errors.Is(err, tt.want) {
			t.Errorf("%s: %+v, %v; want %v", name, got.subject, err, tt.want)
		}
	}
	for name, text := range idp.Forgeries(ann(nil)) {
		c.now = c.now.Add(keysEvery) // so that the keys can be asked for again
		if got, err := p.check(t, text); !errors.Is(err, fault.GrantForged) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	whole := idp.Sign(ann(nil))
	for i, part := range strings.Split(whole, ".") {
		changed := []byte(whole)
		changed[strings.Index(whole, part)+len(part)/2] ^= 1
		if _, err := p.check(t, string(changed)); err == nil {
			t.Errorf("a changed part %d is accepted", i+1)
		}
	}
}

func TestKeysAreRotated(t *testing.T) {
	p, idp, c := newService(t)
	token := func() string { return idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann"})) }
	old := token()
	for range 3 {
		if _, err := p.check(t, old); err != nil {
			t.Fatal(err)
		}
	}
	if n := idp.Fetched(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
	idp.Rotate(false)
	c.now = c.now.Add(keysEvery)
	if _, err := p.check(t, token()); err != nil {
		t.Errorf("a token of the new key: %v", err)
	}
	// What is forged makes no more requests than one in a while.
	before, began := idp.Fetched(), c.now
	p.issuers[0].pause = func(_ context.Context, d time.Duration) error {
		c.now = c.now.Add(d)
		return nil
	}
	for range 20 {
		if _, err := p.check(t, idp.Forgeries(idp.Claims("remit", map[string]any{"sub": "ann"}))["with an unknown key"]); !errors.Is(err, fault.GrantForged) {
			t.Fatal(err)
		}
	}
	if n, most := idp.Fetched()-before, 1+int(c.now.Sub(began)/keysEvery); n > most {
		t.Errorf("20 forged tokens made %d requests in the time for %d", n, most)
	}
	// A key that was withdrawn is believed for a while, and then no more.
	if _, err := p.check(t, token()); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(time.Second)
	last := idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann", "exp": c.now.Add(time.Hour).Unix()}))
	idp.Rotate(false)
	if _, err := p.check(t, last); err != nil {
		t.Errorf("right after the key was withdrawn: %v", err)
	}
	c.now = c.now.Add(keysFor)
	if _, err := p.check(t, last); !errors.Is(err, fault.GrantForged) {
		t.Errorf("a while after the key was withdrawn: %v", err)
	}
}

// TestForgedTokensHoldNobodyUp: a client has sent tokens of unknown keys, and its next one waits. Tokens
// of known keys need no request; one of a new key gets the answer of the request that waits.
func TestForgedTokensHoldNobodyUp(t *testing.T) {
	p, idp, _ := newService(t)
	token := func() string { return idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann"})) }
	forged := func() string {
		return idp.Forgeries(idp.Claims("remit", map[string]any{"sub": "ann"}))["with an unknown key"]
	}
	waits, pass := make(chan time.Duration, 8), make(chan struct{})
	p.issuers[0].pause = func(ctx context.Context, d time.Duration) error {
		if d <= 0 {
			return nil
		}
		waits <- d
		<-pass
		return ctx.Err()
	}
	known := token()
	if _, err := p.check(t, known); err != nil {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	go func() { _, err := p.check(t, forged()); results <- err }()
	if d := <-waits; d > keysEvery {
		t.Errorf("the next request waits for %s", d)
	}
	if _, err := p.check(t, known); err != nil {
		t.Errorf("a token of a known key: %v", err)
	}
	idp.Rotate(false)
	ann := make(chan error, 1)
	go func() { _, err := p.check(t, token()); ann <- err }()
	before := idp.Fetched()
	close(pass)
	if err := <-ann; err != nil {
		t.Errorf("a token of a new key: %v", err)
	}
	if err := <-results; !errors.Is(err, fault.GrantForged) {
		t.Errorf("the forged token: %v", err)
	}
	if n := idp.Fetched() - before; n > 2 {
		t.Errorf("the issuer got %d requests", n)
	}
}

func TestOnlyTheIssuersOwnAddressesAreAsked(t *testing.T) {
	var asked int
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(elsewhere.Close)
	for name, tt := range map[string]struct {
		change map[string]any
		want   string
	}{
		"keys elsewhere":         {map[string]any{"jwks_uri": elsewhere.URL + "/keys"}, "is not the issuer's; people.issuers.company.hosts can allow it"},
		"keys without TLS":       {map[string]any{"jwks_uri": "http://keys.example/keys"}, "neither https nor on this machine"},
		"no keys":                {map[string]any{"jwks_uri": ""}, "neither https"},
		"keys in a file":         {map[string]any{"jwks_uri": "file:///etc/passwd"}, "neither https"},
		"a token endpoint":       {map[string]any{"token_endpoint": elsewhere.URL}, "is not the issuer's"},
		"another issuer":         {map[string]any{"issuer": "https://other.example"}, "did not match"},
		"a document without end": {map[string]any{"filler": strings.Repeat("x", maxDocument)}, "the answer has more than"},
	} {
		t.Run(name, func(t *testing.T) {
			p, idp, c := newService(t)
			idp.Change(tt.change)
			text := idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann"}))
			_, err := p.check(t, text)
			if !errors.Is(err, fault.GrantKey) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			idp.Change(nil)
			if _, again := p.check(t, text); again == nil {
				t.Error("an issuer that failed was asked again at once")
			}
			c.now = c.now.Add(keysEvery)
			if _, err := p.check(t, text); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		})
	}
	if asked != 0 {
		t.Errorf("%d requests went elsewhere", asked)
	}
	p, idp, _ := newService(t, func(i *settings.Issuer) { i.Hosts = []string{strings.TrimPrefix(elsewhere.URL, "http://")} })
	idp.Change(map[string]any{"authorization_endpoint": elsewhere.URL + "/authorize"})
	if _, err := p.check(t, idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann"}))); err != nil {
		t.Errorf("a host that the settings name: %v", err)
	}
}

// TestAMovedIssuerIsNotFollowed: the keys come from where the settings say.
func TestAMovedIssuerIsNotFollowed(t *testing.T) {
	idp := oidctest.New("ui", "")
	t.Cleanup(idp.Close)
	moved := httptest.NewServer(http.RedirectHandler(idp.URL+"/.well-known/openid-configuration", http.StatusFound))
	t.Cleanup(moved.Close)
	p, _, _ := newService(t, func(i *settings.Issuer) { i.URL = moved.URL })
	if _, err := p.check(t, idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann", "iss": moved.URL}))); !errors.Is(err, fault.GrantKey) {
		t.Errorf("got %v", err)
	}
}

// gate holds requests to an issuer up.
type gate struct {
	http.RoundTripper
	arrived chan string // the path of each request
	pass    chan struct{}
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	g.arrived <- r.URL.Path
	select {
	case <-g.pass:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return g.RoundTripper.RoundTrip(r)
}

// TestACallerWhoLeavesKeepsNobodyOut: whatever the issuer is asked for, the end of the caller who
// began it is no answer for the others.
func TestACallerWhoLeavesKeepsNobodyOut(t *testing.T) {
	audiences := func(i settings.Issuer) []string { return i.Audiences }
	canceled := func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
	for left, ends := range map[string]func(context.Context) (context.Context, context.CancelFunc){
		"hangs up": canceled,
		"runs out": func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Minute)
		},
		"has left": func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, end := canceled(ctx)
			end()
			return ctx, end
		},
	} {
		for phase, passed := range []string{"/.well-known/openid-configuration", "/keys"} {
			if left == "has left" && phase > 0 {
				continue // such a caller waits for no answer
			}
			t.Run(fmt.Sprintf("%s while %s is asked for", left, passed), func(t *testing.T) {
				p, idp, _ := newService(t)
				g := &gate{p.issuers[0].client.Transport, make(chan string, 8), make(chan struct{}, 8)}
				p.issuers[0].client.Transport = g
				for range phase {
					g.pass <- struct{}{}
				}
				token := idp.Sign(idp.Claims("remit", map[string]any{"sub": "ann"}))
				ctx, end := ends(t.Context())
				stranger := make(chan error, 1)
				go func() { _, err := p.verify(ctx, token, audiences); stranger <- err }()
				for at := ""; at != passed; {
					at = <-g.arrived
				}
				ann := make(chan error, 1)
				go func() { _, err := p.verify(t.Context(), token, audiences); ann <- err }()
				end()
				if err := <-stranger; err == nil {
					t.Error("who has left is let in")
				}
				g.pass <- struct{}{}
				g.pass <- struct{}{}
				if err := <-ann; err != nil {
					t.Errorf("who waited meanwhile: %v", err)
				}
				if _, err := p.check(t, token); err != nil {
					t.Errorf("who comes afterwards: %v", err)
				}
			})
		}
	}
}
