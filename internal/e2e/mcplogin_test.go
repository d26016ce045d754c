package e2e_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// guarded is an MCP server behind OAuth, with the server that gives the tokens.
type guarded struct {
	t        *testing.T
	api, idp *httptest.Server

	mu        sync.Mutex
	codes     map[string]url.Values // what a code was asked for with
	valid     string                // the access token that is good now
	n         int                   // tokens given
	lives     int                   // seconds
	registers int
}

const tokenMark = "very-secret-token-" // what no record, log or output may hold

func newGuarded(t *testing.T) *guarded {
	g := &guarded{t: t, codes: map[string]url.Values{}, lives: 3600}
	srv := mcp.NewServer(&mcp.Implementation{Name: "guarded", Version: "1"}, nil)
	type none struct{}
	mcp.AddTool(srv, &mcp.Tool{Name: "whoami", Description: "Says who calls"}, func(_ context.Context, r *mcp.CallToolRequest, _ none) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "you sent " + r.Extra.Header.Get("Authorization")}}}, nil, nil
	})
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, nil)
	mux := http.NewServeMux()
	g.api = httptest.NewServer(mux)
	g.idp = httptest.NewServer(http.HandlerFunc(g.login))
	mux.HandleFunc("/.well-known/oauth-protected-resource/mcp", func(rw http.ResponseWriter, _ *http.Request) {
		answerJSON(rw, map[string]any{"resource": g.api.URL + "/mcp", "authorization_servers": []string{g.idp.URL}, "scopes_supported": []string{"read"}})
	})
	mux.HandleFunc("/mcp", func(rw http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		ok := g.valid != "" && r.Header.Get("Authorization") == "Bearer "+g.valid
		g.mu.Unlock()
		if !ok {
			rw.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+g.api.URL+`/.well-known/oauth-protected-resource/mcp"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(rw, r)
	})
	t.Cleanup(func() { g.api.Close(); g.idp.Close() })
	return g
}

func answerJSON(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v) // a broken answer fails the test elsewhere
}

// login is the server that gives tokens.
func (g *guarded) login(rw http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server":
		answerJSON(rw, map[string]any{
			"issuer": g.idp.URL, "authorization_endpoint": g.idp.URL + "/authorize", "token_endpoint": g.idp.URL + "/token", "registration_endpoint": g.idp.URL + "/register",
			"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"client_secret_post"},
		})
	case "/register":
		g.registers++
		rw.WriteHeader(http.StatusCreated)
		answerJSON(rw, map[string]any{"client_id": "c1", "client_secret": tokenMark + "client", "token_endpoint_auth_method": "client_secret_post", "redirect_uris": []string{"http://127.0.0.1/"}})
	case "/authorize":
		q := r.URL.Query()
		g.codes["code1"] = q
		http.Redirect(rw, r, q.Get("redirect_uri")+"?code=code1&state="+url.QueryEscape(q.Get("state")), http.StatusFound)
	case "/token":
		g.token(rw, r)
	default:
		http.NotFound(rw, r)
	}
}

func (g *guarded) token(rw http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // what is missing is refused
	sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
	asked := g.codes[r.Form.Get("code")]
	byCode := r.Form.Get("grant_type") == "authorization_code" && asked != nil && asked.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:])
	byRefresh := r.Form.Get("grant_type") == "refresh_token" && r.Form.Get("refresh_token") == tokenMark+"refresh"
	if r.Form.Get("client_secret") != tokenMark+"client" || !byCode && !byRefresh {
		rw.WriteHeader(http.StatusBadRequest)
		answerJSON(rw, map[string]any{"error": "invalid_grant"})
		return
	}
	g.n++
	g.valid = tokenMark + string(rune('a'+g.n))
	answerJSON(rw, map[string]any{"access_token": g.valid, "token_type": "Bearer", "refresh_token": tokenMark + "refresh", "expires_in": g.lives})
}

var printedURL = regexp.MustCompile(`(?m)^http://\S+/authorize\?\S+$`)

// signIn runs remit mcp login, and opens the URL that it prints.
func (w *world) signIn(args ...string) result {
	w.t.Helper()
	cmd := w.command(append([]string{"mcp", "login"}, args...)...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	var said strings.Builder
	buf := make([]byte, 4096)
	opened := false
	for {
		n, err := errs.Read(buf)
		said.Write(buf[:n])
		if at := printedURL.FindString(said.String()); at != "" && !opened {
			opened = true
			resp, err := http.Get(at) //nolint:noctx // a browser
			if err != nil {
				w.t.Error(err)
				break
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait() // its status tells
	http.DefaultClient.CloseIdleConnections()
	return result{out.String(), said.String(), cmd.ProcessState.ExitCode()}
}

// TestALoginAtAServerElsewhere signs in, uses what that gave, has it renewed, and
// finds the tokens nowhere.
func TestALoginAtAServerElsewhere(t *testing.T) {
	w := newWorld(t).durability("process")
	g := newGuarded(t)
	w.must(0, "mcp", "add", "far", "--url", g.api.URL+"/mcp")
	policy := w.beside("policy.yaml", "version: 1\nname: p\ntools: {allow: ['mcp:far:*']}\n")
	plan := w.plan("far", 1, call{Tool: "mcp:far:whoami"})
	if r := w.remit("mcp", "test", "far"); r.status == 0 || !strings.Contains(r.err, "E2012") || !strings.Contains(r.err, "remit mcp login far") {
		t.Fatalf("before the login: %s%s", r.out, r.err)
	}
	if r := w.signIn("far"); r.status == 0 || !strings.Contains(r.err, "--at "+g.idp.URL) || g.registered() > 0 {
		t.Fatalf("a login elsewhere went on unasked: %s%s", r.out, r.err)
	}
	if r := w.signIn("far", "--at", g.idp.URL); r.status != 0 {
		t.Fatalf("login: %s%s", r.out, r.err)
	}
	use := func(what string) {
		t.Helper()
		if run := w.run(plan, policy); run.Status != "completed" || !strings.Contains(string(run.Steps[0].Output), "you sent Bearer") {
			t.Errorf("%s: %+v", what, run.Steps[0])
		}
	}
	use("after the login")
	g.mu.Lock()
	g.lives = 1 // the token is over as soon as it is given: oauth2 renews it ten seconds before
	g.mu.Unlock()
	if r := w.signIn("far", "--anywhere"); r.status != 0 {
		t.Fatalf("login: %s%s", r.out, r.err)
	}
	g.mu.Lock()
	before := g.n
	g.mu.Unlock()
	use("with a token that is over")
	g.mu.Lock()
	if g.n == before {
		t.Error("no token was renewed")
	}
	g.valid = "another"
	g.mu.Unlock()
	// A token goes to the server that it was given for, and to no other of its name.
	var sent atomic.Value
	sent.Store("")
	stranger := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "" {
			sent.Store(got)
		}
		rw.WriteHeader(http.StatusUnauthorized)
	}))
	defer stranger.Close()
	w.must(0, "mcp", "add", "far", "--url", stranger.URL+"/mcp", "--replace")
	if r := w.remit("mcp", "test", "far"); r.status == 0 || sent.Load() != "" {
		t.Errorf("another server of the name was sent %q: %s%s", sent.Load(), r.out, r.err)
	}
	w.must(0, "mcp", "add", "far", "--url", g.api.URL+"/mcp", "--replace")
	if r := w.signIn("far", "--anywhere"); r.status != 0 {
		t.Fatalf("login: %s%s", r.out, r.err)
	}
	w.must(0, "mcp", "logout", "far")
	if r := w.remit("mcp", "test", "far"); r.status == 0 || !strings.Contains(r.err, "E2012") {
		t.Errorf("after the logout: %s%s", r.out, r.err)
	}
	w.must(0, "verify")
	for _, r := range w.allRuns() {
		if s := w.must(0, "show", r, "--json"); strings.Contains(s, tokenMark) {
			t.Errorf("the record of %s holds a token:\n%s", r, s)
		}
	}
	w.nowhere(tokenMark)
}

func (g *guarded) registered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.registers
}

func (w *world) allRuns() (ids []string) {
	w.t.Helper()
	var list struct {
		Runs []struct {
			ID string `json:"run_id"`
		} `json:"items"`
	}
	decode(w.t, w.must(0, "runs", "--all", "--limit", "1000", "--json"), &list)
	for _, r := range list.Runs {
		ids = append(ids, r.ID)
	}
	return ids
}

// nowhere looks for a text in every file below the home.
func (w *world) nowhere(text string) {
	w.t.Helper()
	err := filepath.WalkDir(w.home, func(name string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if bytes.Contains(b, []byte(text)) {
			w.t.Errorf("%s holds it", name)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
