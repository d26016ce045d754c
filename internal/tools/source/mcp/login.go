package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/auth/extauth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/remitrun/remit/internal/base/fault"
)

// Login is the result of a login at a remote server. All of it is secret.
type Login struct {
	Server string `json:"server"` // the URL that it is for: another one of the same name is never given it
	// Service: the tokens are the client's own (client credentials), and no
	// person's.
	Service  bool     `json:"service,omitempty"`
	TokenURL string   `json:"token_url"`
	ClientID string   `json:"client_id"`
	Secret   string   `json:"client_secret,omitempty"`
	Style    int      `json:"auth_style,omitempty"` // of the client's credentials, as oauth2.AuthStyle
	Scopes   []string `json:"scopes,omitempty"`     // that were granted, or asked for

	Access  string    `json:"access_token,omitempty"`
	Type    string    `json:"token_type,omitempty"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expires time.Time `json:"expires,omitzero"`

	// Wanted are scopes that the server asked for since: the next login asks for them.
	Wanted []string `json:"wanted,omitempty"`
}

// Logins are the settings for a login that a person, or the operator, chose before it.
type Logins struct {
	URL         string
	Version     string // of Remit
	Before      Login  // the last one; the zero Login: there was none
	Service     bool   // client credentials
	ClientID    string // of a client that is registered there; "": it registers itself
	Secret      string // of that client; "": it has none
	MetadataURL string // where the client describes itself, for servers that look there
	Redirect    string // where the person's browser brings the answer
	// Fetch has the person sign in at a URL and gives what their browser brought.
	Fetch func(ctx context.Context, url string) (code, state, issuer string, err error)
	// Transport sends all requests.
	Transport http.RoundTripper
}

// LogIn logs in at a server as it asks for it, and lists its tools to see that it
// worked. A server that asks for none gives an error.
func LogIn(ctx context.Context, q Logins) (Login, error) {
	got := &Login{}
	web := &noticing{next: q.Transport}
	handler, err := q.handler(got, &http.Client{Transport: web, CheckRedirect: stay})
	if err != nil {
		return Login{}, fault.New(fault.Usage, "these settings of a login do not fit together: %v", err)
	}
	client := sdk.NewClient(&sdk.Implementation{Name: "remit", Title: "Remit", Version: q.Version}, &sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}})
	cs, err := client.Connect(ctx, HTTP(q.URL, web, handler), nil)
	if err == nil {
		_, err = cs.ListTools(ctx, nil)
		_ = cs.Close() // all is known that was to be known
	}
	if q.Service {
		web.ownLogin(got, q)
	}
	switch {
	case err != nil && errors.Is(err, fault.HandleRefused):
		return Login{}, err
	case err != nil:
		return Login{}, fault.Wrap(fault.ToolFailed, err, "the login failed: %s", quoted(err.Error(), 500))
	case got.TokenURL == "":
		return Login{}, fault.New(fault.Usage, "the server at %s asks for no login", q.URL)
	}
	return *got, nil
}

func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// handler carries out the server's requests, as the SDK expects it.
func (q Logins) handler(got *Login, client *http.Client) (auth.OAuthHandler, error) {
	var known *oauthex.ClientCredentials
	if q.ClientID != "" {
		known = &oauthex.ClientCredentials{ClientID: q.ClientID}
		if q.Secret != "" {
			known.ClientSecretAuth = &oauthex.ClientSecretAuth{ClientSecret: q.Secret}
		}
	}
	if q.Service {
		return extauth.NewClientCredentialsHandler(&extauth.ClientCredentialsHandlerConfig{Credentials: known, HTTPClient: client})
	}
	c := &auth.AuthorizationCodeHandlerConfig{
		Client: client, RedirectURL: q.Redirect, PreregisteredClient: known, RequestRefreshToken: true,
		AuthorizationCodeFetcher: func(ctx context.Context, a *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			code, state, issuer, err := q.Fetch(ctx, a.URL)
			return &auth.AuthorizationResult{Code: code, State: state, Iss: issuer}, err
		},
		ScopeFilter: func(found []string) []string {
			all := slices.Clone(found)
			for _, s := range slices.Concat(q.Before.Wanted, q.Before.Scopes) {
				if len(q.Before.Wanted) > 0 && !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
			return all
		},
		NewTokenSource: func(ctx context.Context, c *oauth2.Config, t *oauth2.Token) (oauth2.TokenSource, error) {
			got.TokenURL, got.ClientID, got.Secret, got.Style, got.Scopes = c.Endpoint.TokenURL, c.ClientID, c.ClientSecret, int(c.Endpoint.AuthStyle), c.Scopes
			got.take(t)
			return c.TokenSource(ctx, t), nil
		},
	}
	if q.MetadataURL != "" {
		c.ClientIDMetadataDocumentConfig = &auth.ClientIDMetadataDocumentConfig{URL: q.MetadataURL}
	}
	if known == nil {
		c.DynamicClientRegistrationConfig = &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "Remit", RedirectURIs: []string{q.Redirect}, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		}}
	}
	return auth.NewAuthorizationCodeHandler(c)
}

func (l *Login) take(t *oauth2.Token) {
	l.Access, l.Type, l.Expires = t.AccessToken, t.TokenType, t.Expiry
	if t.RefreshToken != "" {
		l.Refresh = t.RefreshToken
	}
	if s, ok := t.Extra("scope").(string); ok && s != "" {
		l.Scopes = strings.Fields(s)
	}
}

// noticing notes where tokens of a client's own are asked for, which the SDK tells
// nobody.
type noticing struct {
	next http.RoundTripper

	mu    sync.Mutex
	token string // URL
	form  url.Values
}

// RoundTrip implements http.RoundTripper.
func (n *noticing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") && r.Body != nil {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
		if err := errors.Join(err, r.Body.Close()); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body = io.NopCloser(bytes.NewReader(body))
		if form, err := url.ParseQuery(string(body)); err == nil && form.Get("grant_type") == "client_credentials" {
			n.mu.Lock()
			n.token, n.form = r.URL.String(), form
			n.mu.Unlock()
		}
	}
	return n.next.RoundTrip(r)
}

// ownLogin is the login of a client of its own.
func (n *noticing) ownLogin(l *Login, q Logins) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.token != "" {
		*l = Login{Service: true, TokenURL: n.token, ClientID: q.ClientID, Secret: q.Secret, Scopes: strings.Fields(n.form.Get("scope"))}
	}
}

// Keep is how the use of a login tells what became of it: new tokens, or scopes
// that are wanted. It keeps nothing if the stored value has changed meanwhile, by a
// logout or a newer login, and fails.
type Keep func(was, is Login) error

// LoggedIn uses a login: requests carry its token, which is renewed by itself. A
// server that wants more is refused until a person has logged in again, or for the
// first time if l has no token.
func LoggedIn(name string, l Login, rt http.RoundTripper, keep Keep) auth.OAuthHandler {
	h := &loggedIn{name: name, login: l, keep: keep}
	ctx := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Transport: rt, CheckRedirect: stay})
	switch {
	case l.Service:
		h.src = (&clientcredentials.Config{ClientID: l.ClientID, ClientSecret: l.Secret, TokenURL: l.TokenURL, Scopes: l.Scopes, AuthStyle: oauth2.AuthStyle(l.Style)}).TokenSource(ctx)
	case l.Access != "":
		c := &oauth2.Config{ClientID: l.ClientID, ClientSecret: l.Secret, Endpoint: oauth2.Endpoint{TokenURL: l.TokenURL, AuthStyle: oauth2.AuthStyle(l.Style)}}
		h.src = c.TokenSource(ctx, &oauth2.Token{AccessToken: l.Access, TokenType: l.Type, RefreshToken: l.Refresh, Expiry: l.Expires})
	}
	return h
}

type loggedIn struct {
	name string
	keep Keep
	src  oauth2.TokenSource // nil: not logged in

	mu    sync.Mutex
	login Login
}

// TokenSource implements the SDK's OAuthHandler.
func (h *loggedIn) TokenSource(context.Context) (oauth2.TokenSource, error) {
	if h.src == nil {
		return nil, nil //nolint:nilnil // the SDK's word for none
	}
	return h, nil
}

// Token implements oauth2.TokenSource: a new token is stored.
func (h *loggedIn) Token() (*oauth2.Token, error) {
	t, err := h.src.Token()
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if t.AccessToken != h.login.Access {
		is := h.login
		is.take(t)
		if err := h.keep(h.login, is); err != nil {
			return nil, err
		}
		h.login = is
	}
	return t, nil
}

// Authorize implements the SDK's OAuthHandler: the server refused the token, or that
// there was none. Nobody is here to log in.
func (h *loggedIn) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	_ = resp.Body.Close() // it says nothing that the header does not
	challenges, _ := oauthex.ParseWWWAuthenticate(resp.Header["Www-Authenticate"])
	var wanted []string
	short := false
	for _, c := range challenges {
		if c.Scheme == "bearer" {
			wanted = append(wanted, strings.Fields(c.Params["scope"])...)
			short = short || c.Params["error"] == "insufficient_scope"
		}
	}
	if resp.StatusCode == http.StatusForbidden && !short {
		return fault.New(fault.ToolFailed, "the MCP server %q forbids it (403)", h.name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	is := h.login
	if is.Wanted = nil; short {
		is.Wanted = wanted
	}
	if !slices.Equal(is.Wanted, h.login.Wanted) {
		if err := h.keep(h.login, is); err != nil {
			return err
		}
		h.login = is
	}
	what := "wants a person to log in"
	if short {
		what = "wants a person to log in with more rights: " + quoted(strings.Join(wanted, " "), 200)
	}
	return fault.New(fault.LoginNeeded, "the MCP server %q %s", h.name, what).ForOperator("remit mcp login %s", h.name)
}
