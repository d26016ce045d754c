package people

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/settings"
)

// CallbackPath is where an issuer sends browsers back to, below the web UI.
const CallbackPath = "/signed-in"

const (
	attemptLife  = 10 * time.Minute
	maxCallback  = 4096             // bytes of each value that a browser brings back
	recentlyAuth = 10 * time.Minute // how long ago a person may have been asked, to count as asked now
)

// attempt is a sign-in under way, as the browser keeps it in a cookie: the issuer's answer must
// come to the browser in which it began.
type attempt struct {
	Issuer   string    `json:"issuer"`
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"` // of PKCE (RFC 7636)
	Again    bool      `json:"again,omitempty"`
	Until    time.Time `json:"until"`
}

// Entered is a person after the sign-in with a browser.
type Entered struct {
	Token     string    // of the person's grant
	Confirmed time.Time // when the issuer last asked the person; zero: it does not say
}

// Issuers are the names of the issuers at which people can sign in to the web UI.
func (p *People) Issuers() []string {
	var out []string
	for _, i := range p.issuers {
		if i.conf.ClientID != "" && p.callback(i.conf) != "" {
			out = append(out, i.conf.Name)
		}
	}
	return out
}

// callback is the address that an issuer knows for Remit; "": the service has no lasting one.
func (p *People) callback(conf settings.Issuer) string {
	if conf.Redirect != "" {
		return conf.Redirect
	}
	return p.redirect
}

// Page is the web UI's address as an issuer knows it; "": the settings do not say another one.
func (p *People) Page() string {
	for _, i := range p.issuers {
		if page, ok := strings.CutSuffix(i.conf.Redirect, CallbackPath); ok {
			return page
		}
	}
	return ""
}

// Encrypted reports whether the redirect address of an issuer is https: a proxy then ends TLS.
func (p *People) Encrypted() bool {
	return slices.ContainsFunc(p.issuers, func(i *issuer) bool {
		u, err := url.Parse(i.conf.Redirect)
		return err == nil && u.Scheme == "https"
	})
}

func (p *People) signInAt(name string) (*issuer, error) {
	at := slices.IndexFunc(p.issuers, func(i *issuer) bool { return i.conf.Name == name })
	if at < 0 || !slices.Contains(p.Issuers(), name) {
		return nil, fault.New(fault.NotFound, "nobody signs in at %q here", clip.Text(name, 60))
	}
	return p.issuers[at], nil
}

// client is Remit as the issuer knows it.
func (p *People) client(i *issuer, known metadata) (*oauth2.Config, error) {
	conf := &oauth2.Config{ClientID: i.conf.ClientID, Endpoint: oauth2.Endpoint{AuthURL: known.Authorize, TokenURL: known.Token}, RedirectURL: p.callback(i.conf), Scopes: i.conf.Scopes}
	if known.Authorize == "" || known.Token == "" {
		return nil, fault.New(fault.GrantKey, "the issuer %s has no sign-in by codes", i.conf.URL)
	}
	if name, ok := settings.StoredSecret(i.conf.Secret); ok {
		if conf.ClientSecret, ok = p.secret(name); !ok {
			return nil, fault.New(fault.GrantKey, "the secret %q of the sign-in is missing", name).ForOperator("remit secret set %s", name)
		}
	}
	return conf, nil
}

// Start begins a sign-in (authorization code with PKCE): the browser goes to the address, and
// keeps the cookie until it is back. Again: the issuer must ask the person once more.
func (p *People) Start(ctx context.Context, name string, again bool) (address, cookie string, err error) {
	i, err := p.signInAt(name)
	if err != nil {
		return "", "", err
	}
	known, _, err := i.discover(ctx)
	if err != nil {
		return "", "", err
	}
	conf, err := p.client(i, known)
	if err != nil {
		return "", "", err
	}
	a := attempt{Issuer: name, State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Again: again, Until: p.now().Add(attemptLife).UTC()}
	b, err := json.Marshal(a)
	if err != nil {
		return "", "", fault.Wrap(fault.Internal, err, "a sign-in cannot be encoded")
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)}
	if again {
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	return conf.AuthCodeURL(a.State, options...), base64.RawURLEncoding.EncodeToString(b), nil
}

// Expects checks that an answer is for the sign-in in the cookie, and asks nobody. Everybody can make
// such a pair up, so it admits nobody: the answer's code counts only for the verifier in the cookie.
func (p *People) Expects(cookie string, query url.Values) error {
	a, err := p.attempted(cookie, query)
	if err == nil {
		_, err = p.signInAt(a.Issuer)
	}
	return err
}

// Finish ends a sign-in with the cookie and the issuer's answer that the browser brought.
func (p *People) Finish(ctx context.Context, cookie string, query url.Values) (Entered, error) {
	a, err := p.attempted(cookie, query)
	if err != nil {
		return Entered{}, err
	}
	i, err := p.signInAt(a.Issuer)
	if err != nil {
		return Entered{}, err
	}
	known, _, err := i.discover(ctx)
	if err != nil {
		return Entered{}, err
	}
	if from := query.Get("iss"); from != i.conf.URL && (from != "" || known.Named) { // RFC 9207
		return Entered{}, fault.New(fault.GrantForged, "the answer is of another issuer")
	}
	conf, err := p.client(i, known)
	if err != nil {
		return Entered{}, err
	}
	answer, err := conf.Exchange(context.WithValue(ctx, oauth2.HTTPClient, i.client), query.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Entered{}, fault.Wrap(fault.GrantInvalid, err, "the issuer does not accept the sign-in").WithHint("sign in again")
	}
	text, _ := answer.Extra("id_token").(string)
	if len(text) > maxToken {
		return Entered{}, fault.New(fault.GrantTooLarge, "the token has more than %d bytes", maxToken)
	}
	if from, err := peek(text); err != nil || from != i.conf.URL {
		return Entered{}, fault.Wrap(fault.GrantInvalid, err, "the issuer has given no ID token of its own")
	}
	c, err := i.verify(ctx, text, []string{i.conf.ClientID})
	if err != nil {
		return Entered{}, err
	}
	return p.entered(ctx, a, c)
}

// attempted checks that an answer is for the attempt in the cookie.
func (p *People) attempted(cookie string, query url.Values) (attempt, error) {
	var a attempt
	refuse := func(why string) (attempt, error) {
		return attempt{}, fault.New(fault.GrantInvalid, "%s", why).WithHint("sign in again")
	}
	b, err := base64.RawURLEncoding.DecodeString(cookie)
	if err != nil || len(cookie) > maxCallback || json.Unmarshal(b, &a) != nil || a.State == "" || a.Nonce == "" || a.Verifier == "" {
		return refuse("this browser has no sign-in under way")
	}
	for _, name := range []string{"code", "state", "iss", "error"} {
		if len(query[name]) > 1 || len(query.Get(name)) > maxCallback {
			return refuse("the issuer's answer cannot be read")
		}
	}
	switch {
	case subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.State)) != 1:
		return refuse("the answer is not for the sign-in of this browser")
	case !p.now().Before(a.Until) || a.Until.After(p.now().Add(attemptLife)):
		return refuse("the sign-in took too long")
	case query.Get("error") != "":
		return refuse("the issuer refused the sign-in")
	case query.Get("code") == "":
		return refuse("the issuer's answer cannot be read")
	}
	return a, nil
}

// entered admits the person that a verified ID token names, once for each attempt.
func (p *People) entered(ctx context.Context, a attempt, c claimed) (Entered, error) {
	nonce, _ := c.claims["nonce"].(string)
	if subtle.ConstantTimeCompare([]byte(nonce), []byte(a.Nonce)) != 1 {
		return Entered{}, fault.New(fault.GrantReplayed, "the issuer's token is not of this sign-in").WithHint("sign in again")
	}
	if azp, there := c.claims["azp"]; there && azp != c.issuer.ClientID {
		return Entered{}, fault.New(fault.GrantAudience, "the issuer's token was made for another client")
	}
	out := Entered{}
	if at, ok := seconds(c.claims["auth_time"]); ok && at.Before(p.now().Add(skew)) {
		out.Confirmed = at
	}
	if a.Again && p.now().Sub(out.Confirmed) > recentlyAuth {
		return Entered{}, fault.New(fault.GrantInvalid, "the issuer does not say that it has asked you again").WithHint("sign out there, and sign in again")
	}
	_, st, err := p.grants.Open(ctx)
	if err != nil {
		return Entered{}, err
	}
	fresh, err := st.UseProof(ctx, sha256.Sum256([]byte("remit sign-in\n"+a.State)), a.Until)
	if err == nil && !fresh {
		err = fault.New(fault.GrantReplayed, "this sign-in was used already").WithHint("sign in again")
	}
	if err != nil {
		return Entered{}, err
	}
	out.Token, err = p.admit(ctx, c)
	return out, err
}
