package openapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// Granted is what a person's sign-in at a service gave. It is kept as the stored secret of the
// credential, as JSON.
type Granted struct {
	At      string    `json:"token_url"` // where it is renewed, by the client
	Client  string    `json:"client_id"`
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expires time.Time `json:"expires,omitzero"`
}

// ReadGranted reads the tokens of a sign-in, if they are of this credential.
func (a Auth) ReadGranted(text string) (Granted, error) {
	var g Granted
	if err := json.Unmarshal([]byte(text), &g); err != nil || g.Access == "" || g.At != a.TokenURL || g.Client != a.Name {
		return Granted{}, fault.New(fault.LoginNeeded, "the sign-in that is stored as %q is not one of this credential", a.Secret)
	}
	return g, nil
}

// Text is how it is kept.
func (g Granted) Text() (string, error) {
	b, err := json.Marshal(g)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the sign-in cannot be written")
	}
	return string(b), nil
}

// OAuth2 is the credential as the OAuth 2.0 library takes it. The client's secret goes in the
// Authorization header, or not at all.
func (a Auth) OAuth2(clientSecret string) oauth2.Config {
	style := oauth2.AuthStyleInHeader
	if clientSecret == "" {
		style = oauth2.AuthStyleInParams
	}
	return oauth2.Config{ClientID: a.Name, ClientSecret: clientSecret, Scopes: a.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: a.AuthorizeURL, TokenURL: a.TokenURL, AuthStyle: style}}
}

// GrantedBy makes the stored form of a token server's answer. before is the former stored form: a
// server need not repeat the refresh token.
func (a Auth) GrantedBy(t *oauth2.Token, err error, before Granted) (Granted, error) {
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused):
		return Granted{}, fault.New(fault.LoginNeeded, "the token server %q refuses: status %d, %q", a.TokenURL, refused.Response.StatusCode, clip.Text(refused.ErrorCode, 60))
	case err != nil:
		return Granted{}, fault.Wrap(fault.ToolFailed, err, "the token server %q did not answer as it must", a.TokenURL)
	case !strings.EqualFold(t.Type(), "bearer") || !sendable(t.AccessToken):
		return Granted{}, fault.New(fault.ToolFailed, "the token server %q returned no bearer token", a.TokenURL)
	}
	g := Granted{At: a.TokenURL, Client: a.Name, Access: t.AccessToken, Refresh: t.RefreshToken, Expires: t.Expiry}
	if g.Refresh == "" {
		g.Refresh = before.Refresh
	}
	return g, nil
}

// TokenClient is the client of requests to a token server: it follows no redirect.
func TokenClient(ctx context.Context, p permit.Permit) context.Context {
	client := &http.Client{Transport: network.NewTransport(p), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return context.WithValue(ctx, oauth2.HTTPClient, client)
}

// sendable reports whether a token can be sent in a header.
func sendable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// signedIn returns the access token of a person's sign-in, renewed where it has expired. A call
// that may not send the sign-in to the token server, or not reach that, may not use it at all.
func (s *Source) signedIn(ctx context.Context, p permit.Permit, a Auth) (string, error) {
	to, err := target.Parse("POST", a.TokenURL)
	if err != nil {
		return "", err
	}
	if err := p.Check(tool.Action{Kind: tool.Network, Target: to}); err != nil {
		return "", err
	}
	again := func(err error) error {
		return fault.Wrap(fault.LoginNeeded, err, "%s", fault.Message(err)).ForOperator("sign in again with remit api login %s", s.conf.Name)
	}
	s.renewing.Lock()
	defer s.renewing.Unlock()
	stored, err := s.value(p, a, to)
	if err != nil {
		return "", err
	}
	g, err := a.ReadGranted(stored)
	if err != nil {
		return "", again(err)
	}
	s.hide(a, g)
	if g.Expires.IsZero() || s.now().Add(slack).Before(g.Expires) {
		return g.Access, nil
	}
	if g.Refresh == "" {
		return "", again(fault.New(fault.LoginNeeded, "the sign-in at %s has expired", s.Name()))
	}
	client := ""
	if a.ClientSecret != "" {
		if client, err = s.value(p, Auth{Secret: a.ClientSecret}, to); err != nil {
			return "", err
		}
	}
	conf := a.OAuth2(client)
	t, err := conf.TokenSource(TokenClient(ctx, p), &oauth2.Token{RefreshToken: g.Refresh}).Token()
	renewed, err := a.GrantedBy(t, err, g)
	if errors.Is(err, fault.LoginNeeded) {
		// Another process may have used up the refresh token, and kept what it got.
		if now, verr := s.value(p, a, to); verr == nil && now != stored {
			if g, verr = a.ReadGranted(now); verr == nil {
				s.hide(a, g)
				return g.Access, nil
			}
		}
		return "", again(err)
	}
	if err != nil {
		return "", err
	}
	s.hide(a, renewed)
	text, err := renewed.Text()
	if err == nil {
		err = s.conf.Renewed(a.Secret, stored, text)
	}
	return renewed.Access, err
}

// hide makes the tokens of a sign-in known as secrets.
func (s *Source) hide(a Auth, g Granted) {
	if s.conf.Hide == nil {
		return
	}
	s.conf.Hide(a.Secret+"-access", g.Access)
	if g.Refresh != "" {
		s.conf.Hide(a.Secret+"-refresh", g.Refresh)
	}
}
