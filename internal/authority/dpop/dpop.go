// Package dpop makes and verifies proofs of possession (RFC 9449): a small signed token that a
// client sends with each HTTP request, so that a stolen access token alone is of no use. It is
// pure: the caller remembers which proofs were used. Start at [Verify] and [Make].
package dpop

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
)

// Algorithms are the signatures that proofs may have, as challenges name them.
const Algorithms = "ES256 EdDSA"

const (
	// Window is how far a proof's time may be from the verifier's.
	Window = 30 * time.Second
	// MaxProof bounds the text of a proof.
	MaxProof = 4 << 10

	proofType = "dpop+jwt"
	maxID     = 256 // bytes of a proof's jti
)

// Request is the HTTP request that a proof must be for.
type Request struct {
	Method  string
	Path    string   // as it was sent, with its escapes
	Origins []string // of the service, as [Origin] writes them; never taken from the request
}

// Proof is a verified proof.
type Proof struct {
	Key   string    // thumbprint (RFC 7638) of the key that signed it
	ID    [32]byte  // the same for each copy of the proof, and for no other proof of the key
	Until time.Time // from then on [Verify] refuses it
}

// Verify verifies a proof for one request with an access token. The caller must check the
// proof's key, and that the proof was not used before. A refused proof is fault.GrantHolder,
// an old one fault.GrantReplayed.
func Verify(text, token string, r Request, now time.Time) (Proof, error) {
	if len(text) > MaxProof {
		return Proof{}, fault.New(fault.GrantTooLarge, "the DPoP proof has %d bytes; at most %d are allowed", len(text), MaxProof)
	}
	payload, key, err := verified(text)
	if err != nil {
		return Proof{}, err
	}
	c, err := claimsOf(payload)
	if err != nil {
		return Proof{}, err
	}
	switch {
	case c.method != r.Method:
		return Proof{}, refused("it is for the method "+clip.Text(c.method, 20), "make a proof for each request")
	case !r.targets(c.address):
		return Proof{}, refused("it is for another address ("+clip.Text(c.address, 200)+")",
			"htu is the request's address without query and fragment, under one of the service's own names")
	case c.token != hashOf(token):
		return Proof{}, refused("it is for another token", "ath is the base64url of the token's SHA-256")
	}
	if d := now.Sub(c.made); d > Window || d < -Window {
		return Proof{}, fault.New(fault.GrantReplayed, "the DPoP proof was made at %s, more than %s from now", c.made.UTC().Format(time.RFC3339), Window).
			WithHint("make a new one for each request; look at the clocks if it is new")
	}
	return Proof{Key: key, ID: sha256.Sum256([]byte("dpop\x00" + key + "\x00" + c.id)), Until: c.made.Add(Window)}, nil
}

func refused(why, hint string) error {
	return fault.New(fault.GrantHolder, "the DPoP proof was refused: %s", why).WithHint("%s", hint)
}

// verified checks the header and the signature of a proof. key is the thumbprint of its key.
func verified(text string) (payload []byte, key string, err error) {
	sig, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.ES256, jose.EdDSA})
	if err != nil || len(sig.Signatures) != 1 {
		return nil, "", refused("it is not a JWT that is signed with one of "+Algorithms, "expected the header typ, alg and jwk with a public key")
	}
	head := sig.Signatures[0].Protected
	if head.ExtraHeaders[jose.HeaderType] != proofType {
		return nil, "", refused("its type is not "+proofType, "set typ in the header")
	}
	jwk := head.JSONWebKey
	if jwk == nil || !usable(jwk.Key, head.Algorithm) {
		return nil, "", refused("its header has no public key that fits its algorithm", "expected a key on P-256 for ES256, or of Ed25519 for EdDSA, as jwk")
	}
	payload, err = sig.Verify(jwk)
	if err != nil {
		return nil, "", refused("its signature is not valid", "sign it with the key in its header")
	}
	print, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, "", refused("its key has no thumbprint", "use another key")
	}
	return payload, base64.RawURLEncoding.EncodeToString(print), nil
}

// usable reports whether a key is a public one for an algorithm.
func usable(key any, algorithm string) bool {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return algorithm == string(jose.ES256) && k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA) && len(k) == ed25519.PublicKeySize
	}
	return false
}

type claims struct {
	id, method, address, token string
	made                       time.Time
}

// claimsOf reads the claims of a proof. A claim that is there twice is refused.
func claimsOf(payload []byte) (claims, error) {
	v, err := canon.Decode(payload)
	all, ok := v.(map[string]any)
	if err != nil || !ok {
		return claims{}, refused("its claims cannot be read", "expected jti, htm, htu, iat and ath")
	}
	var c claims
	for name, into := range map[string]*string{"jti": &c.id, "htm": &c.method, "htu": &c.address, "ath": &c.token} {
		if *into, ok = all[name].(string); !ok || *into == "" {
			return claims{}, refused("its claim "+name+" is missing", "expected jti, htm, htu, iat and ath")
		}
	}
	n, ok := all["iat"].(json.Number)
	at, err := n.Float64()
	if !ok || err != nil || at < 0 || at > 253402300799 {
		return claims{}, refused("its claim iat is not a time", "expected seconds since 1970")
	}
	if c.made = time.UnixMilli(int64(at * 1000)); len(c.id) > maxID {
		return claims{}, refused("its jti is too long", "at most 256 bytes")
	}
	return c, nil
}

// targets reports whether an address is the request's, under one of the service's origins. The
// path must be written as it was sent.
func (r Request) targets(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(address, "#") {
		return false
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	return path == r.Path && slices.Contains(r.Origins, Origin(u))
}

// Origin writes the scheme, host and port of an address in one form.
func Origin(u *url.URL) string {
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	switch scheme {
	case "http":
		host = strings.TrimSuffix(host, ":80")
	case "https":
		host = strings.TrimSuffix(host, ":443")
	}
	return scheme + "://" + strings.TrimSuffix(host, ":")
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Thumbprint identifies a holder's key as proofs do (RFC 7638).
func Thumbprint(key ed25519.PublicKey) (string, error) {
	sum, err := (&jose.JSONWebKey{Key: key}).Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fault.Wrap(fault.GrantHolder, err, "the key has no thumbprint")
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// Use is one use of a token in a request.
type Use struct {
	Method, URL string // a query and a fragment are left out
	Token       string
	At          time.Time
	ID          string // that no other proof of the key has
}

// Make makes the proof for one use, which the header DPoP carries.
func Make(key ed25519.PrivateKey, u Use) (string, error) {
	address, err := url.Parse(u.URL)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return "", fault.New(fault.Usage, "%q is not a valid address of a request", clip.Text(u.URL, 200)).WithHint("expected an address such as https://remit.example/v1/runs")
	}
	target := url.URL{Scheme: address.Scheme, Host: address.Host, Path: address.Path, RawPath: address.RawPath}
	if target.Path == "" {
		target.Path = "/"
	}
	payload, err := json.Marshal(map[string]any{"jti": u.ID, "htm": u.Method, "htu": target.String(), "iat": u.At.Unix(), "ath": hashOf(u.Token)})
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "a proof cannot be encoded")
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, (&jose.SignerOptions{EmbedJWK: true}).WithType(proofType))
	if err != nil {
		return "", fault.Wrap(fault.GrantHolder, err, "the key cannot sign proofs")
	}
	sig, err := signer.Sign(payload)
	if err != nil {
		return "", fault.Wrap(fault.GrantHolder, err, "the key cannot sign proofs")
	}
	return sig.CompactSerialize()
}
