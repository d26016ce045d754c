package apis_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/apis"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

// forge is a service and its authorization server, which signs in whoever comes.
type forge struct {
	*httptest.Server

	mu       sync.Mutex
	codes    map[string]url.Values // what each code was asked for with
	refresh  string                // the one refresh token that is good
	issued   int
	lifetime int
	refuse   bool
	trouble  []string
}

const clientSecret = "client-secret-0123456789"

func newForge(t *testing.T) *forge {
	f := &forge{codes: map[string]url.Values{}, lifetime: 3600}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		code := fmt.Sprintf("code-%d", len(f.codes))
		f.codes[code] = r.URL.Query()
		http.Redirect(w, r, r.URL.Query().Get("redirect_uri")+"?code="+code+"&state="+url.QueryEscape(r.URL.Query().Get("state")), http.StatusFound)
	})
	mux.HandleFunc("POST /token", f.token)
	mux.HandleFunc("GET /v1/who", func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		w.Header().Set("Cache-Control", "no-store")
		if r.Header.Get("Authorization") != fmt.Sprintf("Bearer access-token-%d", f.issued) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

func (f *forge) token(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, pass, _ := r.BasicAuth()
	err := r.ParseForm()
	ok := err == nil && user == "me" && pass == clientSecret && !f.refuse
	switch r.Form.Get("grant_type") {
	case "authorization_code":
		asked := f.codes[r.Form.Get("code")]
		delete(f.codes, r.Form.Get("code"))
		sum := sha256.Sum256([]byte(r.Form.Get("code_verifier")))
		ok = ok && asked.Get("code_challenge_method") == "S256" && asked.Get("code_challenge") == base64.RawURLEncoding.EncodeToString(sum[:]) &&
			asked.Get("redirect_uri") == r.Form.Get("redirect_uri") && asked.Get("client_id") == "me" && asked.Get("scope") == "read write"
	case "refresh_token":
		ok = ok && f.refresh != "" && r.Form.Get("refresh_token") == f.refresh
	default:
		ok = false
	}
	w.Header().Set("Content-Type", "application/json")
	if !ok {
		f.trouble = append(f.trouble, r.Form.Encode())
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		return
	}
	f.issued++
	f.refresh = fmt.Sprintf("refresh-token-%d", f.issued)
	_, _ = fmt.Fprintf(w, `{"access_token":"access-token-%d","token_type":"bearer","refresh_token":%q,"expires_in":%d}`, f.issued, f.refresh, f.lifetime)
}

// browse goes where a person's browser is sent, with another state if one is given.
func browse(t *testing.T, state string) func(string) {
	var visits sync.WaitGroup
	t.Cleanup(visits.Wait)
	return func(to string) {
		visits.Go(func() {
			client := &http.Client{CheckRedirect: func(r *http.Request, _ []*http.Request) error {
				if q := r.URL.Query(); state != "" && q.Has("code") {
					q.Set("state", state)
					r.URL.RawQuery = q.Encode()
				}
				return nil
			}}
			resp, err := client.Get(to)
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
}

// who calls the service under a policy, and gives the status of its answer.
func who(t *testing.T, a *app.App, rules string) (string, error) {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\ntools: {allow: ['api:forge:*']}\n"+rules))
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Runs.Begin(t.Context(), runs.Request{Root: p, Workspace: t.TempDir(), Name: "who"})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Call(t.Context(), runner.Call{Tool: "api:forge:who", Args: tool.Args{}})
	if err == nil {
		err = o.Err
	}
	if eerr := s.End(context.WithoutCancel(t.Context())); eerr != nil {
		t.Error(eerr)
	}
	return fmt.Sprint(o.Output["status"]), err
}

func TestAPersonSignsInForAnAPI(t *testing.T) {
	f, home := newForge(t), t.TempDir()
	a := apptest.New(t, home)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	doc := filepath.Join(t.TempDir(), "forge.json")
	must(os.WriteFile(doc, []byte(`{"openapi": "3.1.0", "info": {"title": "Forge", "version": "1"}, "servers": [{"url": "`+f.URL+`/v1"}],
		"paths": {"/who": {"get": {"operationId": "who"}}}}`), 0o600))
	_, err := a.Secrets.Set("forge-client", clientSecret)
	must(err)
	add := apis.Addition{Name: "forge", From: doc, Auth: []openapi.Auth{{Kind: openapi.Login, Name: "me", Secret: apis.LoginSecret("forge"), ClientSecret: "forge-client",
		AuthorizeURL: f.URL + "/authorize", TokenURL: f.URL + "/token", Scopes: []string{"read", "write"}}}}
	_, err = a.APIs.Add(t.Context(), add)
	must(err)
	a = apptest.New(t, home) // the tools of a process are those of when it began
	host := strings.TrimPrefix(f.URL, "http://")
	all := fmt.Sprintf("network: {allow: ['http://%s']}\nsecrets: [{name: api-login-forge, tools: ['api:forge:*'], hosts: ['http://%[1]s']}, {name: forge-client, tools: ['api:forge:*'], hosts: ['http://%[1]s']}]\n", host)

	if _, err := who(t, a, all); !errors.Is(err, fault.LoginNeeded) {
		t.Errorf("before the sign-in: %v", err)
	}
	if err := a.APIs.LogIn(t.Context(), "forge", apis.LogIn{Show: browse(t, "forged")}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("an answer to another sign-in: %v", err)
	}
	must(a.APIs.LogIn(t.Context(), "forge", apis.LogIn{Show: browse(t, "")}))
	if got, err := who(t, a, all); err != nil || got != "200" {
		t.Errorf("after the sign-in: %s, %v", got, err)
	}
	if _, err := who(t, a, strings.Replace(all, "{name: api-login-forge", "{name: other", 1)); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("a policy without the sign-in: %v", err)
	}
	noToken := strings.Replace(all, "allow: ['http://"+host+"']", "allow: ['GET http://"+host+"']", 1)
	if _, err := who(t, a, noToken); !errors.Is(err, fault.Denied) {
		t.Errorf("a policy without the token server: %v", err)
	}

	// An expired token is renewed once, and the new refresh token is kept for the next process.
	expire := func() {
		t.Helper()
		text, err := a.Secrets.Store.Get("api-login-forge")
		must(err)
		g, err := add.Auth[0].ReadGranted(text)
		must(err)
		g.Expires = time.Now().Add(-time.Minute)
		text, err = g.Text()
		must(err)
		_, err = a.Secrets.Store.Set("api-login-forge", text, time.Now())
		must(err)
	}
	for range 2 {
		expire()
		if got, err := who(t, apptest.New(t, home), all); err != nil || got != "200" {
			t.Errorf("after its token expired: %s, %v", got, err)
		}
	}
	if f.issued != 3 || len(f.trouble) != 0 {
		t.Errorf("%d tokens were issued, %q refused", f.issued, f.trouble)
	}
	expire()
	f.mu.Lock()
	f.refuse = true
	f.mu.Unlock()
	if _, err := who(t, apptest.New(t, home), all); !errors.Is(err, fault.LoginNeeded) {
		t.Errorf("after the service took the sign-in back: %v", err)
	}

	// The sign-in is a run like any other: it replays, and who looks at runs is not shown it.
	st, err := a.Reader(t.Context())
	must(err)
	list, err := st.Runs(t.Context(), store.RunFilter{Limit: 100})
	must(err)
	replayed := 0
	for _, r := range list {
		if r.Name == "api login forge" {
			res, err := a.Replays.Run(t.Context(), r.ID.String(), nil)
			if replayed++; err != nil || res.Mismatch != nil {
				t.Errorf("its replay: %+v, %v", res.Mismatch, err)
			}
		}
	}
	if replayed != 1 {
		t.Errorf("%d runs are of a sign-in", replayed)
	}

	must(a.APIs.LogOut("forge"))
	if err := a.APIs.LogOut("forge"); !errors.Is(err, fault.Usage) {
		t.Errorf("a second sign-out: %v", err)
	}
	checkNothingTells(t, a, home)
}

// checkNothingTells looks for what must not be in any file of $REMIT_HOME.
func checkNothingTells(t *testing.T, a *app.App, home string) {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	err := filepath.WalkDir(home, func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		for _, hidden := range []string{"access-token-", "refresh-token-", clientSecret, "code-0", "code-1"} {
			if strings.Contains(string(b), hidden) {
				t.Errorf("%s tells %q", name, hidden)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
