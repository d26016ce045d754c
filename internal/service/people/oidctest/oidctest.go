// Package oidctest is a small identity provider (OpenID Connect) for tests: it has real keys,
// serves its metadata and keys, signs tokens, and signs people in by the authorization code
// flow with PKCE. Start at [New].
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Provider is an identity provider on loopback. It must be closed.
type Provider struct {
	URL    string // of the issuer
	Client string // the client that it knows
	Secret string // of that client; "": it has none
	Now    func() time.Time

	srv *httptest.Server

	mu      sync.Mutex
	user    map[string]any // who signs in
	keys    []key
	made    int // keys
	codes   map[string]flow
	fetched int            // how often the keys were
	change  map[string]any // of the metadata
}

type key struct {
	id   string
	pair crypto.Signer
}

// flow is a sign-in of which the code was not used so far.
type flow struct {
	user      map[string]any
	nonce     string
	redirect  string
	challenge string
}

// New starts a provider with a key of ECDSA, which knows one client.
func New(client, secret string) *Provider {
	p := &Provider{Client: client, Secret: secret, Now: time.Now, codes: map[string]flow{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.metadata)
	mux.HandleFunc("GET /keys", p.serveKeys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.srv = httptest.NewServer(mux)
	p.URL = p.srv.URL
	p.Rotate(false)
	return p
}

// Close stops it.
func (p *Provider) Close() { p.srv.Close() }

// SignsIn sets who signs in next, by the claims of the ID token.
func (p *Provider) SignsIn(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.user = claims
}

// Change sets fields of the metadata.
func (p *Provider) Change(fields map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = fields
}

// Fetched is how often the keys were fetched.
func (p *Provider) Fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched
}

// rsaKey is made once: it takes a while.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Rotate adds a key that signs from now on, and forgets the others unless keep. Every second
// key is one of RSA.
func (p *Provider) Rotate(keep bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !keep {
		p.keys = nil
	}
	p.made++
	var pair crypto.Signer
	var err error
	if p.made%2 == 0 {
		pair, err = rsaKey()
	} else {
		pair, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	if err != nil {
		panic(err)
	}
	p.keys = append(p.keys, key{"key-" + strconv.Itoa(p.made), pair})
}

// Claims are the claims of a token that is good for 5 minutes; more adds to them, and nil removes.
func (p *Provider) Claims(audience string, more map[string]any) map[string]any {
	now := p.Now()
	out := map[string]any{"iss": p.URL, "aud": audience, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix()}
	for k, v := range more {
		if out[k] = v; v == nil {
			delete(out, k)
		}
	}
	return out
}

// Sign signs a token with the newest key. The header's fields can be changed.
func (p *Provider) Sign(claims map[string]any, header ...map[string]any) string {
	p.mu.Lock()
	k := p.keys[len(p.keys)-1]
	p.mu.Unlock()
	head := map[string]any{"alg": algorithm(k.pair), "kid": k.id, "typ": "JWT"}
	for _, h := range header {
		for name, v := range h {
			head[name] = v
		}
	}
	text := encode(head) + "." + encode(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(sign(k.pair, text))
}

// Forgeries are forged versions of the token, by the kind of forgery.
func (p *Provider) Forgeries(claims map[string]any) map[string]string {
	p.mu.Lock()
	k := p.keys[len(p.keys)-1]
	p.mu.Unlock()
	part := func(head map[string]any) string { return encode(head) + "." + encode(claims) }
	out := map[string]string{}
	none := part(map[string]any{"alg": "none", "kid": k.id})
	out["without a signature"] = none + "."
	// The public key as the key of a MAC: the classic confusion.
	public, err := json.Marshal(jwk(k))
	if err != nil {
		panic(err)
	}
	mac := part(map[string]any{"alg": "HS256", "kid": k.id})
	h := hmac.New(sha256.New, public)
	h.Write([]byte(mac))
	out["with the public key as a shared key"] = mac + "." + base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	by := func(head map[string]any) string {
		text := part(head)
		return text + "." + base64.RawURLEncoding.EncodeToString(sign(other, text))
	}
	out["with another key"] = by(map[string]any{"alg": "ES256", "kid": k.id})
	out["with another key of no name"] = by(map[string]any{"alg": "ES256"})
	out["with an unknown key"] = by(map[string]any{"alg": "ES256", "kid": "mine"})
	out["with its own key in the header"] = by(map[string]any{"alg": "ES256", "jwk": jwk(key{"mine", other})})
	out["with an address of its key"] = by(map[string]any{"alg": "ES256", "kid": "mine", "jku": "http://127.0.0.1:1/keys"})
	return out
}

func algorithm(pair crypto.Signer) string {
	if _, ok := pair.(*rsa.PrivateKey); ok {
		return "RS256"
	}
	return "ES256"
}

func sign(pair crypto.Signer, text string) []byte {
	sum := sha256.Sum256([]byte(text))
	if k, ok := pair.(*ecdsa.PrivateKey); ok {
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			panic(err)
		}
		return append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	}
	b, err := pair.Sign(rand.Reader, sum[:], crypto.SHA256)
	if err != nil {
		panic(err)
	}
	return b
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// jwk is a public key as JSON (RFC 7517).
func jwk(k key) map[string]any {
	number := func(n *big.Int, size int) string {
		return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, size)))
	}
	out := map[string]any{"kid": k.id, "use": "sig", "alg": algorithm(k.pair)}
	switch pub := k.pair.Public().(type) {
	case *rsa.PublicKey:
		out["kty"], out["n"], out["e"] = "RSA", number(pub.N, pub.Size()), "AQAB"
	case *ecdsa.PublicKey:
		b, err := pub.Bytes() // 4, x, y
		if err != nil {
			panic(err)
		}
		out["kty"], out["crv"] = "EC", "P-256"
		out["x"], out["y"] = base64.RawURLEncoding.EncodeToString(b[1:33]), base64.RawURLEncoding.EncodeToString(b[33:])
	}
	return out
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

func (p *Provider) metadata(w http.ResponseWriter, _ *http.Request) {
	out := map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256", "RS256"}, "code_challenge_methods_supported": []string{"S256"}}
	p.mu.Lock()
	for k, v := range p.change {
		out[k] = v
	}
	p.mu.Unlock()
	answer(w, http.StatusOK, out)
}

func (p *Provider) serveKeys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	p.fetched++
	list := []any{}
	for _, k := range p.keys {
		list = append(list, jwk(k))
	}
	p.mu.Unlock()
	answer(w, http.StatusOK, map[string]any{"keys": list})
}

// authorize signs the next person in without asking.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	to, err := url.Parse(q.Get("redirect_uri"))
	if err != nil || q.Get("client_id") != p.Client || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") == "" {
		http.Error(w, "the request is not one of the client", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	p.mu.Lock()
	if p.user == nil {
		back.Set("error", "access_denied")
	} else {
		code := rand.Text()
		p.codes[code] = flow{p.user, q.Get("nonce"), q.Get("redirect_uri"), q.Get("code_challenge")}
		back.Set("code", code)
	}
	p.mu.Unlock()
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// token gives the ID token for a code, once.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if id != p.Client || secret != p.Secret {
		answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
		return
	}
	p.mu.Lock()
	f, ok := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != f.redirect || base64.RawURLEncoding.EncodeToString(sum[:]) != f.challenge {
		answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := p.Claims(p.Client, map[string]any{"nonce": f.nonce})
	for k, v := range f.user {
		claims[k] = v
	}
	answer(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": p.Sign(claims)})
}
