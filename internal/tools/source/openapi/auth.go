package openapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
)

// The kinds of credentials.
const (
	Bearer = "bearer" // Authorization: Bearer SECRET
	Basic  = "basic"  // Authorization: Basic, with a user's name
	Header = "header" // a header of its own
	Query  = "query"  // a parameter of the query
	OAuth  = "oauth"  // OAuth 2.0 client credentials, for a bearer token
	Login  = "login"  // OAuth 2.0 authorization code with PKCE: a person signs in, for a bearer token
)

// Auth is a credential that requests of a document are sent with.
type Auth struct {
	Kind     string   `json:"kind"`
	Secret   string   `json:"secret"`              // the stored secret's name
	Name     string   `json:"name,omitempty"`      // header, query: its name; basic: the user; oauth, login: the client's ID
	TokenURL string   `json:"token_url,omitempty"` // oauth, login
	Scopes   []string `json:"scopes,omitempty"`    // oauth, login
	// login: where the person signs in, and the stored secret that is the client's, if it has one.
	AuthorizeURL string `json:"authorize_url,omitempty"`
	ClientSecret string `json:"client_secret,omitempty"`
}

// Check reports the first error in a credential.
func (a Auth) Check() error {
	bad := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Usage, format, args...).In("auth")
	}
	switch a.Kind {
	case Bearer:
	case Basic:
		if a.Name == "" || strings.ContainsAny(a.Name, ":\r\n") {
			return bad("basic needs a user name without a colon").WithHint("write basic=USER:SECRET")
		}
	case Header:
		if !headerName(a.Name) || network.RefusedHeader(a.Name) != "" {
			return bad("%.80q is not a header that can carry a secret", a.Name)
		}
	case Query:
		if a.Name == "" {
			return bad("query needs the parameter's name")
		}
	case OAuth, Login:
		if !private("POST", a.TokenURL) {
			return bad("%s needs a token URL with https", a.Kind).WithHint("name it with --token-url")
		}
		if a.Name == "" {
			return bad("%s needs the client's ID", a.Kind)
		}
		if a.Kind == Login && !private("GET", a.AuthorizeURL) {
			return bad("login needs the URL, with https, where people sign in").WithHint("name it with --authorize-url")
		}
	default:
		return bad("%.40q is not a valid kind; expected bearer, basic, header, query, oauth or login", a.Kind)
	}
	return nil
}

// private reports whether a request to a URL is protected from readers between.
func private(method, to string) bool {
	u, err := target.Parse(method, to)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http" && (u.Host == "localhost" || u.Host == "127.0.0.1" || u.Host == "::1"))
}

// value returns a stored secret that the policies let a call send to a target.
func (s *Source) value(p permit.Permit, a Auth, to tool.Target) (string, error) {
	if err := p.Chain().MaySend(a.Secret, p.Tool(), to); err != nil {
		return "", err
	}
	v, ok := "", false
	if s.conf.Secret != nil {
		v, ok = s.conf.Secret("store:" + a.Secret)
	}
	if (!ok || v == "") && a.Kind == Login {
		return "", fault.New(fault.LoginNeeded, "nobody is signed in at %s", s.Name()).ForOperator("sign in with remit api login %s", s.conf.Name)
	}
	if !ok || v == "" {
		return "", fault.Wrap(fault.HandleRefused, fault.NotFound, "the secret %q is not in the store", a.Secret).ForOperator("set it with remit secret set %s", a.Secret)
	}
	return v, nil
}

// held holds the credentials of one call's requests: by each secret's name its value, or the access
// token obtained with it.
type held map[string]string

// credentials returns the credentials of a call's requests, if the policies let them be sent to a
// target.
func (s *Source) credentials(ctx context.Context, p permit.Permit, to tool.Target) (held, error) {
	out := held{}
	for _, a := range s.conf.Auth {
		v, err := s.value(p, a, to)
		if err == nil && a.Kind == OAuth {
			v, err = s.token(ctx, p, a)
		}
		if err == nil && a.Kind == Login {
			v, err = s.signedIn(ctx, p, a)
		}
		if err != nil {
			return nil, err
		}
		out[a.Secret] = v
	}
	return out, nil
}

// sign returns the credentials of a request, which goes where the document says:
// one that was redirected elsewhere gets none, and each one is decided anew.
func (s *Source) sign(p permit.Permit, with held) func(tool.Target) ([]network.Credential, error) {
	return func(to tool.Target) ([]network.Credential, error) {
		if !s.isOwnOrigin(to) {
			return nil, nil
		}
		var out []network.Credential
		for _, a := range s.conf.Auth {
			if err := p.Chain().MaySend(a.Secret, p.Tool(), to); err != nil {
				return nil, err
			}
			v := with[a.Secret]
			c := network.Credential{Header: "Authorization", Value: "Bearer " + v, Secret: v}
			switch a.Kind {
			case Basic:
				v = base64.StdEncoding.EncodeToString([]byte(a.Name + ":" + v))
				c.Value, c.Secret = "Basic "+v, v
			case Header:
				c.Header, c.Value = a.Name, v
			case Query:
				c = network.Credential{Query: a.Name, Value: v, Secret: v}
			}
			out = append(out, c)
		}
		return out, nil
	}
}

// isOwnOrigin reports whether a target is at the document's own scheme, host and port.
func (s *Source) isOwnOrigin(to tool.Target) bool {
	base, err := target.Parse("GET", s.base)
	return err == nil && base.Scheme == to.Scheme && base.Host == to.Host && base.Port == to.Port
}

// token is an access token of an OAuth server.
type token struct {
	value string
	until time.Time
}

// slack is how long before its end a token is no longer used.
const slack = 30 * time.Second

// maxTokens bounds the tokens that are kept.
const maxTokens = 16

// token returns an access token, asking for one if none is there yet. That request
// is decided by the policies like the call's own.
func (s *Source) token(ctx context.Context, p permit.Permit, a Auth) (string, error) {
	to, err := target.Parse("POST", a.TokenURL)
	if err != nil {
		return "", err
	}
	// A call that may not ask for a token may not use one that another call asked for.
	if err := p.Check(tool.Action{Kind: tool.Network, Target: to}); err != nil {
		return "", err
	}
	secret, err := s.value(p, a, to)
	if err != nil {
		return "", err
	}
	key := strings.Join([]string{a.Name, a.TokenURL, secret}, "\x00")
	s.mu.Lock()
	t, ok := s.tokens[key]
	s.mu.Unlock()
	if ok && s.now().Add(slack).Before(t.until) {
		return t.value, nil
	}
	if t, err = s.ask(ctx, p, a, secret); err != nil {
		return "", err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil || len(s.tokens) >= maxTokens {
		s.tokens = map[string]token{}
	}
	s.tokens[key] = t
	return t.value, nil
}

// maxToken bounds the answer of a token server.
const maxToken = 64 << 10

// ask gets an access token by client credentials (RFC 6749, section 4.4).
func (s *Source) ask(ctx context.Context, p permit.Permit, a Auth, secret string) (token, error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if len(a.Scopes) > 0 {
		form.Set("scope", strings.Join(a.Scopes, " "))
	}
	id := base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(a.Name) + ":" + url.QueryEscape(secret)))
	client := network.NewClient(p)
	client.Transport.Sign = func(to tool.Target) ([]network.Credential, error) {
		return []network.Credential{{Header: "Authorization", Value: "Basic " + id, Secret: id}}, p.Chain().MaySend(a.Secret, p.Tool(), to)
	}
	// Its answer holds a secret by design: only the secret that was sent is masked in it.
	resp, err := client.Transport.RoundTrip(tokenRequest(ctx, a.TokenURL, form.Encode()))
	if err != nil {
		return token{}, err
	}
	defer func() { _ = resp.Body.Close() }() // the answer is read or given up
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxToken))
	if err != nil {
		return token{}, err
	}
	var t struct {
		Access  string `json:"access_token"`
		Kind    string `json:"token_type"`
		Expires int64  `json:"expires_in"`
	}
	if err := json.Unmarshal(body, &t); err != nil || resp.StatusCode != http.StatusOK || !strings.EqualFold(t.Kind, "bearer") || !sendable(t.Access) {
		return token{}, fault.New(fault.ToolFailed, "the token server %q returned no bearer token: status %d", a.TokenURL, resp.StatusCode)
	}
	if s.conf.Hide != nil {
		s.conf.Hide(a.Secret+"-token", t.Access)
	}
	if t.Expires <= 0 || t.Expires > 24*3600 {
		t.Expires = 3600
	}
	return token{t.Access, s.now().Add(time.Duration(t.Expires) * time.Second)}, nil
}

func tokenRequest(ctx context.Context, to, form string) *http.Request {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form))
	if err != nil {
		// The URL was read before, so this is not reached; a request to nowhere is refused.
		return (&http.Request{Method: http.MethodPost, URL: &url.URL{}, Header: http.Header{}}).WithContext(ctx)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	return req
}
