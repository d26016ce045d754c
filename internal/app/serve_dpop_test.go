package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/service/grants"
)

// bound issues a grant that is bound to a new key, and gives its token and the key's file.
func (s *service) bound(text string) grants.Presented {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "holder.key")
	public, err := grants.NewHolderKey(file)
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := policy.Parse("p.yaml", []byte(text))
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := s.beside().Grants.Issue(s.t.Context(), grants.Terms{Parsed: []*policy.Policy{p}, Workspace: s.dir, Holder: "agent:bound", HolderKey: public})
	if err != nil {
		s.t.Fatal(err)
	}
	return grants.Presented{Token: made.Text, KeyFile: file}
}

// proof makes a proof for a request to the service.
func (s *service) proof(p grants.Presented, method, path string) string {
	s.t.Helper()
	text, err := grants.RequestProof(p, method, s.url+path)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// as makes a request under a bound grant, with a proof of its own.
func (s *service) as(p grants.Presented, method, path, body string, header ...string) (int, map[string]any) {
	s.t.Helper()
	return s.ask(method, path, "", body, append(header, "Authorization", "DPoP "+p.Token, "DPoP", s.proof(p, method, path))...)
}

func TestAStolenBoundTokenIsRefused(t *testing.T) {
	s := newWriter(t)
	p, other := s.bound(writerPolicy), s.bound(writerPolicy)
	if status, m := s.as(p, "GET", "/v1/runs", ""); status != 200 {
		t.Fatalf("the holder: %d %v", status, m)
	}
	good := s.proof(p, "GET", "/v1/runs")
	foreign := func(method, address string) string {
		text, err := grants.RequestProof(p, method, address)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(s.url, "http://"), ":")
	for name, tt := range map[string]struct {
		header []string
		error  string
	}{
		"as a bearer token":             {[]string{"Authorization", "Bearer " + p.Token}, ""},
		"as a bearer token, proven":     {[]string{"Authorization", "Bearer " + p.Token, "DPoP", good}, ""},
		"without a proof":               {[]string{"Authorization", "DPoP " + p.Token}, "invalid_dpop_proof"},
		"of the thief's key":            {[]string{"Authorization", "DPoP " + p.Token, "DPoP", s.proof(other, "GET", "/v1/runs")}, "invalid_dpop_proof"},
		"for another method":            {[]string{"Authorization", "DPoP " + p.Token, "DPoP", s.proof(p, "POST", "/v1/runs")}, "invalid_dpop_proof"},
		"for another path":              {[]string{"Authorization", "DPoP " + p.Token, "DPoP", s.proof(p, "GET", "/v1/grants")}, "invalid_dpop_proof"},
		"for another service":           {[]string{"Authorization", "DPoP " + p.Token, "DPoP", foreign("GET", "https://evil.test/v1/runs")}, "invalid_dpop_proof"},
		"for another port":              {[]string{"Authorization", "DPoP " + p.Token, "DPoP", foreign("GET", "http://127.0.0.1:1/v1/runs")}, "invalid_dpop_proof"},
		"encrypted, as it is not":       {[]string{"Authorization", "DPoP " + p.Token, "DPoP", foreign("GET", "https://127.0.0.1:"+port+"/v1/runs")}, "invalid_dpop_proof"},
		"oversized":                     {[]string{"Authorization", "DPoP " + p.Token, "DPoP", good + strings.Repeat("A", 5000)}, "invalid_dpop_proof"},
		"the scheme of a bound one":     {[]string{"Authorization", "DPoP " + s.token, "DPoP", good}, "invalid_dpop_proof"},
		"a token that is no grant":      {[]string{"Authorization", "DPoP remit1_x", "DPoP", good}, "invalid_token"},
		"the proof in place of a token": {[]string{"Authorization", "DPoP " + good, "DPoP", good}, "invalid_token"},
	} {
		status, head, b := s.raw("GET", "/v1/runs", "", "", tt.header...)
		said := strings.Join(head.Values("WWW-Authenticate"), ", ")
		if status != 401 || !strings.Contains(said, `algs="ES256 EdDSA"`) || tt.error != "" && !strings.Contains(said, `DPoP realm="remit", error="`+tt.error+`"`) {
			t.Errorf("%s: %d %s %s", name, status, said, b)
		}
	}
	if status, head, _ := s.raw("GET", "/v1/runs", p.Token, ""); status != 401 || !strings.HasPrefix(head.Get("WWW-Authenticate"), "Bearer ") {
		t.Errorf("%d %v", status, head)
	}
	// None of the refusals has used the holder's proof up.
	if status, _, b := s.raw("GET", "/v1/runs?limit=1", "", "", "Authorization", "dpop "+p.Token, "DPoP", good); status != 200 {
		t.Errorf("the proof with a query in the request: %d %s", status, b)
	}
}

// Many copies of one request arrive at once, at two services of one ledger: one counts.
func TestAProofCountsOnce(t *testing.T) {
	s := newWriter(t)
	p := s.bound(writerPolicy)
	twin := &service{t: t, homeDir: s.homeDir, dir: s.dir, policy: s.policy}
	// Both are reached as remit.example, behind a proxy that ends TLS.
	s.stop()
	named := func(q *app.ServeRequest) { q.Hosts = []string{"remit.example"} }
	s.start(named)
	twin.start(named)
	proof, err := grants.RequestProof(p, "GET", "https://remit.example/v1/runs")
	if err != nil {
		t.Fatal(err)
	}
	var good, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 24 {
		all.Go(func() {
			at := []*service{s, twin}[i%2]
			r, err := http.NewRequestWithContext(t.Context(), "GET", at.url+"/v1/runs", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			r.Host = "remit.example"
			r.Header.Set("Authorization", "DPoP "+p.Token)
			r.Header.Set("DPoP", proof)
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close()
			switch res.StatusCode {
			case 200:
				good.Add(1)
			case 401:
				refused.Add(1)
			default:
				t.Errorf("one is answered %d", res.StatusCode)
			}
		})
	}
	all.Wait()
	if good.Load() != 1 || refused.Load() != 23 {
		t.Errorf("of 24 copies %d counted and %d were refused", good.Load(), refused.Load())
	}
}

// What a holder begins goes on without further proofs: runs, queued runs, sessions, MCP.
func TestWorkUnderABoundGrant(t *testing.T) {
	s := newWriter(t)
	p := s.bound(writerPolicy)
	const plan = "name: bound\nsteps: [{tool: fs.write, args: {path: out/b.txt, content: hi}}]\n"
	status, m := s.as(p, "POST", "/v1/runs", planBody(t, plan, ""))
	if status != 202 || m["run_id"] == nil {
		t.Fatalf("a run: %d %v", status, m)
	}
	status, m = s.as(p, "POST", "/v1/runs", planBody(t, plan, `,"queue":{}`))
	if status != 202 {
		t.Fatalf("a queued run: %d %v", status, m)
	}
	s.queuedAs(m["run_id"].(string), "completed")
	if status, m := s.as(p, "POST", "/v1/tools/fs.read/invoke", `{"args": {"path": "clock.yaml"}}`); status != 200 || m["status"] != "completed" {
		t.Errorf("a call: %d %v", status, m)
	}

	accept := []string{"Accept", "application/json, text/event-stream", "Content-Type", "application/json", "Authorization", "DPoP " + p.Token}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	status, head, b := s.raw("POST", "/mcp", "", hello, append(accept, "DPoP", s.proof(p, "POST", "/mcp"))...)
	if status != 200 {
		t.Fatalf("an MCP client: %d %s", status, b)
	}
	in := append(accept, "Mcp-Session-Id", head.Get("Mcp-Session-Id"))
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	if status, _, b := s.raw("POST", "/mcp", "", list, append(in, "DPoP", s.proof(p, "POST", "/mcp"))...); status != 200 || !strings.Contains(string(b), "fs_read") {
		t.Errorf("its next request: %d %s", status, b)
	}
	if status, _, b := s.raw("POST", "/mcp", "", list, in...); status != 401 {
		t.Errorf("its session without a proof: %d %s", status, b)
	}
}

// A token of an identity provider that is bound to a key (cnf.jkt) needs proofs as well.
func TestABoundTokenOfAnIssuer(t *testing.T) {
	s := newTeam(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	print, err := (&jose.JSONWebKey{Key: key.Public()}).Thumbprint(5) // SHA-256
	if err != nil {
		t.Fatal(err)
	}
	sign := func(cnf any) string {
		return s.idp.Sign(s.idp.Claims("remit", map[string]any{"sub": "ann", "groups": []string{"developers"}, "cnf": cnf}))
	}
	token := sign(map[string]any{"jkt": base64.RawURLEncoding.EncodeToString(print)})
	header := func(method, path string) []string {
		sum := sha256.Sum256([]byte(token))
		b, err := json.Marshal(map[string]any{"jti": rand.Text(), "htm": method, "htu": s.url + path, "iat": time.Now().Unix(), "ath": base64.RawURLEncoding.EncodeToString(sum[:])})
		if err != nil {
			t.Fatal(err)
		}
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{EmbedJWK: true}).WithType("dpop+jwt"))
		if err != nil {
			t.Fatal(err)
		}
		sig, err := signer.Sign(b)
		if err != nil {
			t.Fatal(err)
		}
		proof, err := sig.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return []string{"Authorization", "DPoP " + token, "DPoP", proof}
	}
	if status, _, b := s.raw("GET", "/v1/runs", token, ""); status != 401 {
		t.Errorf("as a bearer token: %d %s", status, b)
	}
	h := header("GET", "/v1/runs")
	if status, _, b := s.raw("GET", "/v1/runs", "", "", h...); status != 200 {
		t.Errorf("with a proof: %d %s", status, b)
	}
	if status, _, b := s.raw("GET", "/v1/runs", "", "", h...); status != 401 {
		t.Errorf("with the proof again: %d %s", status, b)
	}
	// What it stands for is not given out: a grant that derives from it would need no proof.
	for _, terms := range []string{`{}`, `{"holder": "agent:helper"}`, `{"sealed": true}`} {
		status, _, b := s.raw("POST", "/v1/grants", "", terms, header("POST", "/v1/grants")...)
		if status != 403 || strings.Contains(string(b), "remit1") || !strings.Contains(string(b), "the token is bound to a key") {
			t.Errorf("a grant of %s: %d %s", terms, status, b)
		}
	}
	for name, cnf := range map[string]any{"a certificate": map[string]any{"x5t#S256": "x"}, "nothing": map[string]any{}, "both": map[string]any{"jkt": "x", "kid": "y"}, "a text": "x"} {
		if status, _, b := s.raw("GET", "/v1/runs", sign(cnf), ""); status != 401 {
			t.Errorf("bound to %s: %d %s", name, status, b)
		}
	}
}

// A bound grant that was begun with counts in a workspace's queue after a restart too.
func TestAQueuedRunOfABoundGrantOutlivesTheService(t *testing.T) {
	s := newWriter(t)
	p := s.bound(writerPolicy)
	s.must(200, "POST", "/v1/queue/pause", "")
	status, m := s.as(p, "POST", "/v1/runs", planBody(t, "name: later\nsteps: [{tool: fs.write, args: {path: out/l.txt, content: hi}}]\n", `,"queue":{}`))
	if status != 202 {
		t.Fatalf("%d %v", status, m)
	}
	s.stop()
	s.start()
	s.must(200, "POST", "/v1/queue/resume", "")
	s.queuedAs(m["run_id"].(string), "completed")
	if b, err := os.ReadFile(filepath.Join(s.dir, "out", "l.txt")); err != nil || string(b) != "hi" {
		t.Errorf("it wrote %q, %v", b, err)
	}
}
