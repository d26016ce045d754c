package dpop_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/remitrun/remit/internal/authority/dpop"
	"github.com/remitrun/remit/internal/base/fault"
)

const token = "remit1_abc"

var (
	now     = time.Unix(1_800_000_000, 0)
	request = dpop.Request{Method: "POST", Path: "/v1/runs", Origins: []string{"https://remit.example", "http://127.0.0.1:8642"}}
)

// claims are those of a good proof, with changes; nil removes one.
func claims(change map[string]any) map[string]any {
	sum := sha256.Sum256([]byte(token))
	c := map[string]any{"jti": "one", "htm": "POST", "htu": "https://remit.example/v1/runs", "iat": now.Unix(), "ath": base64.RawURLEncoding.EncodeToString(sum[:])}
	for k, v := range change {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign signs a proof; kind is its typ, "" for none.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kind string, payload any) string {
	t.Helper()
	raw, ok := payload.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(payload); err != nil {
			t.Fatal(err)
		}
	}
	o := &jose.SignerOptions{EmbedJWK: true}
	if kind != "" {
		o = o.WithType(jose.ContentType(kind))
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	sig, err := s.Sign(raw)
	if err != nil {
		t.Fatal(err)
	}
	text, err := sig.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// withHeader replaces the header of a proof, whose signature then is of another one.
func withHeader(text string, header map[string]any) string {
	b, _ := json.Marshal(header)
	_, rest, _ := strings.Cut(text, ".")
	return base64.RawURLEncoding.EncodeToString(b) + "." + rest
}

func keyOf(t *testing.T, jwk any) map[string]any {
	t.Helper()
	b, err := json.Marshal(jose.JSONWebKey{Key: jwk})
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func newKeys(t *testing.T) (ed25519.PrivateKey, *ecdsa.PrivateKey) {
	t.Helper()
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return ed, ec
}

func TestAProofOfTheHolder(t *testing.T) {
	ed, ec := newKeys(t)
	text, err := dpop.Make(ed, dpop.Use{Method: "POST", URL: "HTTPS://Remit.Example:443/v1/runs?wait=1#x", Token: token, At: now, ID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := dpop.Thumbprint(ed.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	p, err := dpop.Verify(text, token, request, now.Add(dpop.Window))
	if err != nil || p.Key != mine || !p.Until.Equal(now.Add(dpop.Window)) {
		t.Errorf("%+v, %v; want the key %s", p, err, mine)
	}
	first, err := dpop.Verify(sign(t, jose.ES256, ec, "dpop+jwt", claims(nil)), token, request, now)
	if err != nil || first.Key == mine || first.ID == p.ID {
		t.Errorf("of another key: %+v, %v", first, err)
	}
	again, err := dpop.Verify(sign(t, jose.ES256, ec, "dpop+jwt", claims(map[string]any{"iat": now.Unix() + 1})), token, request, now)
	if err != nil || again.ID != first.ID {
		t.Errorf("signed again with the same jti: %v, a new ID: %v", err, again.ID != first.ID)
	}
}

// An ECDSA signature can be changed without the key: it must count as the same proof.
func TestAChangedSignatureIsTheSameProof(t *testing.T) {
	_, ec := newKeys(t)
	text := sign(t, jose.ES256, ec, "dpop+jwt", claims(nil))
	at := strings.LastIndex(text, ".") + 1
	sig, err := base64.RawURLEncoding.DecodeString(text[at:])
	if err != nil {
		t.Fatal(err)
	}
	s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(sig[32:]))
	s.FillBytes(sig[32:])
	other := text[:at] + base64.RawURLEncoding.EncodeToString(sig)
	a, err := dpop.Verify(text, token, request, now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := dpop.Verify(other, token, request, now)
	if err != nil || other == text || a.ID != b.ID {
		t.Errorf("the changed proof: %v, another ID: %v", err, a.ID != b.ID)
	}
}

func TestForgedHeaders(t *testing.T) {
	ed, ec := newKeys(t)
	weak, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	large, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, jose.EdDSA, ed, "dpop+jwt", claims(nil))
	public := keyOf(t, ed.Public())
	head := func(alg string, jwk any) map[string]any {
		return map[string]any{"typ": "dpop+jwt", "alg": alg, "jwk": jwk}
	}
	mac := sign(t, jose.HS256, []byte(strings.Repeat("k", 32)), "dpop+jwt", claims(nil))
	for name, text := range map[string]string{
		"nothing":                     "",
		"no JWT":                      "a.b",
		"alg none, no signature":      withHeader(good, head("none", public))[:strings.LastIndex(withHeader(good, head("none", public)), ".")+1],
		"alg none":                    withHeader(good, head("none", public)),
		"alg None":                    withHeader(good, head("None", public)),
		"HMAC":                        mac,
		"HMAC with the public key":    withHeader(mac, head("HS256", public)),
		"HMAC with its key in jwk":    withHeader(mac, head("HS256", map[string]any{"kty": "oct", "k": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))})),
		"RSA":                         sign(t, jose.RS256, weak, "dpop+jwt", claims(nil)),
		"RSA-PSS":                     sign(t, jose.PS256, weak, "dpop+jwt", claims(nil)),
		"P-384":                       sign(t, jose.ES384, large, "dpop+jwt", claims(nil)),
		"the algorithm of another":    withHeader(good, head("ES256", public)),
		"a private key in jwk":        withHeader(good, head("EdDSA", keyOf(t, ed))),
		"a private key on P-256":      withHeader(sign(t, jose.ES256, ec, "dpop+jwt", claims(nil)), head("ES256", keyOf(t, ec))),
		"the key of another":          withHeader(good, head("EdDSA", keyOf(t, func() any { _, k, _ := ed25519.GenerateKey(rand.Reader); return k.Public() }()))),
		"no key":                      withHeader(good, map[string]any{"typ": "dpop+jwt", "alg": "EdDSA"}),
		"an unknown critical header":  withHeader(good, map[string]any{"typ": "dpop+jwt", "alg": "EdDSA", "jwk": public, "crit": []string{"x"}, "x": 1}),
		"no type":                     sign(t, jose.EdDSA, ed, "", claims(nil)),
		"the type of access tokens":   sign(t, jose.EdDSA, ed, "at+jwt", claims(nil)),
		"the type in capitals":        sign(t, jose.EdDSA, ed, "DPOP+JWT", claims(nil)),
		"a signature that was cut":    good[:len(good)-8],
		"claims of another proof":     good[:strings.Index(good, ".")] + sign(t, jose.EdDSA, ed, "dpop+jwt", claims(map[string]any{"jti": "two"}))[strings.Index(good, "."):][:60] + good[strings.LastIndex(good, "."):],
		"a JSON serialization":        `{"payload":"e30","signatures":[]}`,
		"two proofs in one header":    good + ", " + good,
		"no object":                   sign(t, jose.EdDSA, ed, "dpop+jwt", []byte(`"x"`)),
		"a claim that is there twice": sign(t, jose.EdDSA, ed, "dpop+jwt", []byte(`{"jti":"a","jti":"b"}`)),
	} {
		if _, err := dpop.Verify(text, token, request, now); fault.CodeOf(err) != fault.GrantHolder {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := dpop.Verify(strings.Repeat("a", dpop.MaxProof+1), token, request, now); fault.CodeOf(err) != fault.GrantTooLarge {
		t.Errorf("an oversized proof: %v", err)
	}
}

func TestClaimsOfProofs(t *testing.T) {
	ed, _ := newKeys(t)
	at := func(d time.Duration) any { return now.Add(d).Unix() }
	const good = fault.Code(0)
	for name, tt := range map[string]struct {
		change map[string]any
		want   fault.Code
	}{
		"as it should be":           {nil, good},
		"in loopback's name":        {map[string]any{"htu": "http://127.0.0.1:8642/v1/runs"}, good},
		"with the usual port":       {map[string]any{"htu": "https://remit.example:443/v1/runs"}, good},
		"host and scheme in caps":   {map[string]any{"htu": "HTTPS://REMIT.EXAMPLE/v1/runs"}, good},
		"as early as it may be":     {map[string]any{"iat": at(dpop.Window)}, good},
		"as late as it may be":      {map[string]any{"iat": at(-dpop.Window)}, good},
		"from the future":           {map[string]any{"iat": at(dpop.Window + time.Second)}, fault.GrantReplayed},
		"far from the future":       {map[string]any{"iat": 1e300}, fault.GrantHolder},
		"too old":                   {map[string]any{"iat": at(-dpop.Window - time.Second)}, fault.GrantReplayed},
		"without a time":            {map[string]any{"iat": nil}, fault.GrantHolder},
		"a time as text":            {map[string]any{"iat": "1800000000"}, fault.GrantHolder},
		"without jti":               {map[string]any{"jti": nil}, fault.GrantHolder},
		"an empty jti":              {map[string]any{"jti": ""}, fault.GrantHolder},
		"a long jti":                {map[string]any{"jti": strings.Repeat("j", 257)}, fault.GrantHolder},
		"another method":            {map[string]any{"htm": "GET"}, fault.GrantHolder},
		"the method in lower case":  {map[string]any{"htm": "post"}, fault.GrantHolder},
		"without a method":          {map[string]any{"htm": nil}, fault.GrantHolder},
		"another path":              {map[string]any{"htu": "https://remit.example/v1/grants"}, fault.GrantHolder},
		"the path in caps":          {map[string]any{"htu": "https://remit.example/V1/runs"}, fault.GrantHolder},
		"the path with a slash":     {map[string]any{"htu": "https://remit.example/v1/runs/"}, fault.GrantHolder},
		"the path escaped":          {map[string]any{"htu": "https://remit.example/v1/run%73"}, fault.GrantHolder},
		"dots in the path":          {map[string]any{"htu": "https://remit.example/v1/x/../runs"}, fault.GrantHolder},
		"another port":              {map[string]any{"htu": "https://remit.example:8443/v1/runs"}, fault.GrantHolder},
		"another host":              {map[string]any{"htu": "https://remit.example.evil.test/v1/runs"}, fault.GrantHolder},
		"not encrypted":             {map[string]any{"htu": "http://remit.example/v1/runs"}, fault.GrantHolder},
		"a query":                   {map[string]any{"htu": "https://remit.example/v1/runs?x=1"}, fault.GrantHolder},
		"an empty query":            {map[string]any{"htu": "https://remit.example/v1/runs?"}, fault.GrantHolder},
		"a fragment":                {map[string]any{"htu": "https://remit.example/v1/runs#x"}, fault.GrantHolder},
		"an empty fragment":         {map[string]any{"htu": "https://remit.example/v1/runs#"}, fault.GrantHolder},
		"a user":                    {map[string]any{"htu": "https://remit.example@evil.test/v1/runs"}, fault.GrantHolder},
		"its own user":              {map[string]any{"htu": "https://x@remit.example/v1/runs"}, fault.GrantHolder},
		"a path alone":              {map[string]any{"htu": "/v1/runs"}, fault.GrantHolder},
		"not an address":            {map[string]any{"htu": "https://remit.example\x00/v1/runs"}, fault.GrantHolder},
		"a list of addresses":       {map[string]any{"htu": []string{"https://remit.example/v1/runs"}}, fault.GrantHolder},
		"the hash of another token": {map[string]any{"ath": base64.RawURLEncoding.EncodeToString(make([]byte, 32))}, fault.GrantHolder},
		"without the token's hash":  {map[string]any{"ath": nil}, fault.GrantHolder},
	} {
		_, err := dpop.Verify(sign(t, jose.EdDSA, ed, "dpop+jwt", claims(tt.change)), token, request, now)
		if got := fault.CodeOf(err); err != nil && got != tt.want || (err == nil) != (tt.want == good) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlyAddressesOfRequestsAreProven(t *testing.T) {
	ed, _ := newKeys(t)
	for _, address := range []string{"", "remit.example/v1", "ftp://remit.example/", "https://", "https://%zz/"} {
		if _, err := dpop.Make(ed, dpop.Use{Method: "GET", URL: address, Token: token, At: now, ID: "x"}); fault.CodeOf(err) != fault.Usage {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("a.b.c")
	f.Add("eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6Im5vbmUifQ.e30.")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := dpop.Verify(text, token, request, now); err == nil {
			t.Error("a proof that nobody signed was accepted")
		}
	})
}
