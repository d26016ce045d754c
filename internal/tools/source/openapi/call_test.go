package openapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/source/openapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const hush = "s3cr3t-token-0123"

// api is a source whose requests go to a local server.
type api struct {
	t      *testing.T
	url    string
	tools  map[string]*openapi.Tool
	now    time.Time
	hidden []string
}

func newAPI(t *testing.T, paths string, auth []openapi.Auth, h http.HandlerFunc) *api {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	a := &api{t: t, url: srv.URL, tools: map[string]*openapi.Tool{}, now: time.Now()}
	for i := range auth {
		auth[i].TokenURL = strings.ReplaceAll(auth[i].TokenURL, "SERVER", srv.URL)
	}
	s := openapi.New(openapi.Config{Name: "t", Base: srv.URL + "/v1", Auth: auth,
		Load:   func() (*openapi.Document, error) { return openapi.Compile("d", "", []byte(head+`"paths":`+paths+"}")) },
		Secret: func(key string) (string, bool) { return hush, key == "store:key" },
		Hide:   func(_, v string) { a.hidden = append(a.hidden, v) },
		Now:    func() time.Time { return a.now }})
	tools, err := s.Discover(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tools {
		a.tools[strings.TrimPrefix(string(x.Spec().ID), "api:t:")] = x
	}
	return a
}

const mayAll = "secrets: [{name: key, tools: [\"api:t:*\"], hosts: [\"SERVER\"]}]\nnetwork: {allow: [\"SERVER\"]}\n"

// call makes a call under a policy, in which SERVER is the server.
func (a *api) call(name, args, rules string) (map[string]any, error) {
	a.t.Helper()
	x := a.tools[name]
	if x == nil {
		a.t.Fatalf("no tool %q", name)
	}
	v := map[string]any{}
	dec := json.NewDecoder(strings.NewReader(args))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		a.t.Fatal(err)
	}
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\n"+strings.ReplaceAll(rules, "SERVER", a.url)))
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		a.t.Fatal(err)
	}
	chain := policy.Chain{r}
	pm := permit.Mint(permit.Terms{Tool: x.Spec().ID, Chain: chain, Limits: chain.Limits()})
	defer pm.End()
	res, err := permittest.Run(a.t.Context(), x, pm, v)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(res.Output)
	if err != nil {
		a.t.Fatal(err)
	}
	if strings.Contains(string(b), hush) || strings.Contains(string(b), base64.StdEncoding.EncodeToString([]byte("ann:"+hush))) {
		a.t.Errorf("the output tells the secret: %s", b)
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		a.t.Fatal(err)
	}
	if err := compileSchema(a.t, x.Spec().Output).Validate(out); err != nil {
		a.t.Errorf("%s: %v", b, err)
	}
	return out, nil
}

const echoPaths = `{"/e/{id}":{
	"get":{"operationId":"get","parameters":[{"name":"id","in":"path"},{"name":"q","in":"query"},{"name":"list","in":"query","schema":{}},
		{"name":"flat","in":"query","explode":false},{"name":"deep","in":"query","style":"deepObject"},{"name":"pipe","in":"query","style":"pipeDelimited","explode":false},
		{"name":"json","in":"query","content":{"application/json":{}}},{"name":"X-H","in":"header"},{"name":"c","in":"cookie"}]},
	"post":{"operationId":"post","requestBody":{"content":{"application/json":{}}}},
	"put":{"operationId":"form","requestBody":{"content":{"application/x-www-form-urlencoded":{"schema":{}}}}},
	"patch":{"operationId":"multi","requestBody":{"content":{"multipart/form-data":{"schema":{"properties":{"f":{"format":"binary"}}}}}}},
	"delete":{"operationId":"bytes","requestBody":{"content":{"application/octet-stream":{}}}}},
	"/m/{id}":{"get":{"operationId":"matrix","parameters":[{"name":"id","in":"path","style":"matrix","explode":true}]}},
	"/f/{path}":{"get":{"operationId":"file","parameters":[{"name":"path","in":"path","x-multi-segment":true}]}}}`

// echo answers with what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintf(w, "%s %s|%s|%s|%s|%s", r.Method, r.RequestURI, r.Header.Get("X-H"), r.Header.Get("Cookie"), r.Header.Get("Content-Type"), b)
}

func TestArgumentsBecomeRequests(t *testing.T) {
	a := newAPI(t, echoPaths, nil, echo)
	tests := map[string]struct{ tool, args, want string }{
		"plain":           {"get", `{"id":"a b","q":"x&y=1"}`, "GET /v1/e/a%20b?q=x%26y%3D1||||"},
		"numbers":         {"get", `{"id":12,"q":1.50}`, "GET /v1/e/12?q=1.50||||"},
		"lists":           {"get", `{"id":"x","list":["a",2,true],"flat":["a,b","c"],"pipe":["a","b"]}`, "GET /v1/e/x?list=a&list=2&list=true&flat=a%2Cb,c&pipe=a%7Cb||||"},
		"objects":         {"get", `{"id":"x","deep":{"b":1,"a":"y"},"json":{"k":[1]}}`, "GET /v1/e/x?deep%5Ba%5D=y&deep%5Bb%5D=1&json=%7B%22k%22%3A%5B1%5D%7D||||"},
		"header, cookie":  {"get", `{"id":"x","X-H":"v, w","c":"a;b"}`, "GET /v1/e/x|v, w|c=a%3Bb||"},
		"matrix":          {"matrix", `{"id":["a","b"]}`, "GET /v1/m/;id=a;id=b||||"},
		"several parts":   {"file", `{"path":"docs/a b.md"}`, "GET /v1/f/docs/a%20b.md||||"},
		"a JSON body":     {"post", `{"id":"x","body":{"a":"<",` + `"n":1.50}}`, `POST /v1/e/x|||application/json|{"a":"<","n":1.50}`},
		"no body":         {"post", `{"id":"x"}`, "POST /v1/e/x||||"},
		"a form":          {"form", `{"id":"x","body":{"b":["1","2"],"a":"x y"}}`, "PUT /v1/e/x|||application/x-www-form-urlencoded|a=x+y&b=1&b=2"},
		"bytes":           {"bytes", `{"id":"x","body":"/wA="}`, "DELETE /v1/e/x|||application/octet-stream|\xff\x00"},
		"a path's escape": {"get", `{"id":"a%b?c#d"}`, "GET /v1/e/a%25b%3Fc%23d||||"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := a.call(tc.tool, tc.args, mayAll)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := out["text"].(string)
			if s, ok := out["body_base64"].(string); ok {
				b, _ := base64.StdEncoding.DecodeString(s)
				got = string(b)
			}
			if got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
	out, err := a.call("multi", `{"id":"x","body":{"f":"/wA=","n":"v"}}`, mayAll)
	if s := fmt.Sprint(out["body_base64"]); err != nil || s == "" {
		t.Errorf("%v, %v", out, err)
	}
}

func TestArgumentsThatCannotBeSent(t *testing.T) {
	a := newAPI(t, echoPaths, nil, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, c := range [][2]string{{"get", `{}`}, {"get", `{"id":""}`}, {"get", `{"id":".."}`}, {"get", `{"id":"."}`}, {"get", `{"id":"a/b"}`}, {"get", `{"id":"a\\b"}`},
		{"get", `{"id":[]}`}, {"get", `{"id":"x","X-H":"a\r\nB: c"}`}, {"file", `{"path":"a/../b"}`}, {"file", `{"path":"/a"}`}, {"file", `{"path":"a//b"}`},
		{"form", `{"id":"x","body":5}`}, {"bytes", `{"id":"x","body":"!"}`}, {"multi", `{"id":"x","body":{"f":"!"}}`}} {
		if out, err := a.call(c[0], c[1], mayAll); !errors.Is(err, fault.ArgsInvalid) {
			t.Errorf("%s %s: %v, %v", c[0], c[1], out, err)
		}
	}
}

func TestThePolicyDecidesEachRequest(t *testing.T) {
	var asked atomic.Int32
	a := newAPI(t, echoPaths, nil, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=600")
		_, _ = io.WriteString(w, "x")
	})
	for i, c := range []struct {
		rules string
		ok    bool
	}{{"network: {allow: [\"GET SERVER/v1/e/*\"]}\n", true}, {"network: {allow: [\"POST SERVER\"]}\n", false}, {"network: {allow: [\"GET SERVER/v1/x/**\"]}\n", false},
		{"network: {allow: [\"SERVER\"], deny: [\"SERVER/v1/e/x\"]}\n", false}, {"", false}} {
		out, err := a.call("get", `{"id":"x"}`, c.rules)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, fault.HandleRefused) {
			t.Errorf("%d: %v, %v", i, out, err)
		}
	}
	if asked.Load() != 1 {
		t.Errorf("%d requests were sent", asked.Load())
	}
	acts, err := permittest.Actions(a.tools["get"], tool.Env{}, tool.Args{"id": "x"})
	if err != nil || len(acts) != 1 || acts[0].String() != "network GET "+a.url+"/v1/e/x" {
		t.Errorf("%v, %v", acts, err)
	}
}

func TestCredentials(t *testing.T) {
	basic := base64.StdEncoding.EncodeToString([]byte("ann:" + hush))
	tests := map[string]struct {
		auth openapi.Auth
		want string
	}{
		"bearer": {openapi.Auth{Kind: openapi.Bearer, Secret: "key"}, "Bearer " + hush + "||"},
		"basic":  {openapi.Auth{Kind: openapi.Basic, Name: "ann", Secret: "key"}, "Basic " + basic + "||"},
		"header": {openapi.Auth{Kind: openapi.Header, Name: "X-Api-Key", Secret: "key"}, "|" + hush + "|"},
		"query":  {openapi.Auth{Kind: openapi.Query, Name: "api_key", Secret: "key"}, "||" + hush},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			got := ""
			a := newAPI(t, `{"/a":{"get":{"operationId":"a"}},"/open":{"get":{"operationId":"open","security":[]}},"/away":{"get":{"operationId":"away"}}}`,
				[]openapi.Auth{tc.auth}, func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					defer mu.Unlock()
					got = r.Header.Get("Authorization") + "|" + r.Header.Get("X-Api-Key") + "|" + r.URL.Query().Get("api_key")
					if strings.HasSuffix(r.URL.Path, "/away") {
						http.Redirect(w, r, strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1)+"/v1/open", http.StatusFound)
						return
					}
					w.Header().Set("Location", "https://x.example/?k="+got)
					_, _ = fmt.Fprintf(w, "%s %s", got, r.URL)
				})
			if out, err := a.call("a", `{}`, mayAll); err != nil || got != tc.want {
				t.Errorf("sent %q, want %q: %v, %v", got, tc.want, out, err)
			}
			if _, err := a.call("open", `{}`, mayAll); err != nil || got != "||" {
				t.Errorf("an operation without security was sent %q: %v", got, err)
			}
			local := strings.Replace(a.url, "127.0.0.1", "localhost", 1)
			if out, err := a.call("away", `{}`, mayAll+"tools: {}\n"); err == nil {
				t.Errorf("a redirect that no policy allows: %v", out)
			}
			if _, err := a.call("away", `{}`, strings.Replace(mayAll, `allow: ["SERVER"]`, `allow: ["SERVER", "`+local+`"]`, 1)); err != nil || got != "||" {
				t.Errorf("another origin was sent %q: %v", got, err)
			}
			for _, rules := range []string{"network: {allow: [\"SERVER\"]}\n", strings.Replace(mayAll, "name: key", "name: other", 1),
				strings.Replace(mayAll, "api:t:*", "api:x:*", 1), strings.Replace(mayAll, `hosts: ["SERVER"]`, `hosts: [other.example]`, 1)} {
				got = ""
				if _, err := a.call("a", `{}`, rules); !errors.Is(err, fault.HandleRefused) || got != "" {
					t.Errorf("%s: sent %q, %v", rules, got, err)
				}
			}
		})
	}
}

// TestParametersThatAreCredentialsAreNoArguments: documents name them twice.
func TestParametersThatAreCredentialsAreNoArguments(t *testing.T) {
	a := newAPI(t, `{"/a":{"get":{"operationId":"a","parameters":[{"name":"x-api-key","in":"header","required":true,"schema":{"type":"string"}},
		{"name":"q","in":"query","required":true,"schema":{"type":"string"}}]}}}`,
		[]openapi.Auth{{Kind: openapi.Header, Name: "X-Api-Key", Secret: "key"}}, func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprint(w, r.Header.Get("X-Api-Key") == hush, r.URL.RawQuery)
		})
	s := string(a.tools["a"].Spec().Input)
	if strings.Contains(s, "x-api-key") || !strings.Contains(s, `"required":["q"]`) || !strings.Contains(s, `"additionalProperties":false`) {
		t.Errorf("%s", s)
	}
	if out, err := a.call("a", `{"q":"v"}`, mayAll); err != nil || out["text"] != "trueq=v" {
		t.Errorf("%v, %v", out, err)
	}
}

func TestASecretThatIsNotThere(t *testing.T) {
	a := newAPI(t, `{"/a":{"get":{"operationId":"a"}}}`, []openapi.Auth{{Kind: openapi.Bearer, Secret: "gone"}},
		func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	if _, err := a.call("a", `{}`, strings.Replace(mayAll, "name: key", "name: gone", 1)); !errors.Is(err, fault.HandleRefused) || !strings.Contains(err.Error(), "not in the store") {
		t.Error(err)
	}
}

func TestClientCredentials(t *testing.T) {
	var asked, used atomic.Int32
	auth := []openapi.Auth{{Kind: openapi.OAuth, Name: "me", Secret: "key", TokenURL: "SERVER/token", Scopes: []string{"a", "b"}}}
	a := newAPI(t, `{"/a":{"get":{"operationId":"a"}}}`, auth, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if r.URL.Path == "/token" {
			asked.Add(1)
			user, pass, _ := r.BasicAuth()
			if err := r.ParseForm(); err != nil || user != "me" || pass != hush || r.Form.Get("grant_type") != "client_credentials" || r.Form.Get("scope") != "a b" {
				http.Error(w, "no", http.StatusUnauthorized)
				return
			}
			_, _ = fmt.Fprintf(w, `{"access_token":"tok-%d-abcdef","token_type":"Bearer","expires_in":600}`, asked.Load())
			return
		}
		used.Add(1)
		_, _ = io.WriteString(w, r.Header.Get("Authorization"))
	})
	for range 3 {
		if out, err := a.call("a", `{}`, mayAll); err != nil || strings.Contains(fmt.Sprint(out), "tok-1") || !strings.HasPrefix(fmt.Sprint(out["text"]), "Bearer ***") {
			t.Errorf("%v, %v", out, err)
		}
	}
	if asked.Load() != 1 || used.Load() != 3 || !reflect.DeepEqual(a.hidden, []string{"tok-1-abcdef"}) {
		t.Errorf("asked %d times, used %d times, hidden %q", asked.Load(), used.Load(), a.hidden)
	}
	a.now = a.now.Add(580 * time.Second)
	if _, err := a.call("a", `{}`, mayAll); err != nil || asked.Load() != 2 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
	// Who may not ask for a token may not use that of another call.
	if _, err := a.call("a", `{}`, strings.Replace(mayAll, `network: {allow: ["SERVER"]}`, `network: {allow: ["SERVER/v1/**"]}`, 1)); !errors.Is(err, fault.HandleRefused) {
		t.Error(err)
	}
	acts, err := permittest.Actions(a.tools["a"], tool.Env{}, tool.Args{})
	if err != nil || len(acts) != 2 || acts[1].String() != "network POST "+a.url+"/token" {
		t.Errorf("%v, %v", acts, err)
	}
}

func TestAnswersAreKeptByTheRulesOfHTTP(t *testing.T) {
	tests := map[string]struct {
		control, etag string
		after         time.Duration
		want          string // how the second call got its answer
	}{
		"fresh":          {"max-age=60", "", 30 * time.Second, "hit"},
		"no longer":      {"max-age=60", "", 90 * time.Second, "none"},
		"asked about":    {"max-age=60", `"v1"`, 90 * time.Second, "revalidated"},
		"no-cache":       {"no-cache", `"v1"`, 0, "revalidated"},
		"no-store":       {"no-store, max-age=60", `"v1"`, 0, "none"},
		"nothing said":   {"", "", 0, "none"},
		"private":        {"private, max-age=60", "", 0, "hit"},
		"cannot be read": {"max-age=soon", "", 0, "none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, echoPaths, nil, func(w http.ResponseWriter, r *http.Request) {
				if tc.control != "" {
					w.Header().Set("Cache-Control", tc.control)
				}
				if tc.etag != "" {
					w.Header().Set("ETag", tc.etag)
					if r.Header.Get("If-None-Match") == tc.etag {
						w.WriteHeader(http.StatusNotModified)
						return
					}
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"a":1}`)
			})
			if out, err := a.call("get", `{"id":"x"}`, mayAll); err != nil || out["cache"] != "none" {
				t.Fatalf("%v, %v", out, err)
			}
			a.now = a.now.Add(tc.after)
			out, err := a.call("get", `{"id":"x"}`, mayAll)
			if err != nil || out["cache"] != tc.want || !reflect.DeepEqual(out["body"], map[string]any{"a": 1.0}) || out["status"] != 200.0 {
				t.Errorf("%v, %v; want %s", out, err, tc.want)
			}
			if out, err := a.call("get", `{"id":"x","q":"other"}`, mayAll); err != nil || out["cache"] != "none" {
				t.Errorf("another request: %v, %v", out, err)
			}
			if _, err := a.call("post", `{"id":"x"}`, mayAll); err != nil {
				t.Fatal(err)
			}
			if out, err := a.call("get", `{"id":"x"}`, mayAll); err != nil || out["cache"] != "none" {
				t.Errorf("after a change: %v, %v", out, err)
			}
		})
	}
}

func TestRequestsAreRetriedWhereThatDoesNoHarm(t *testing.T) {
	tests := map[string]struct {
		tool, args string
		answers    []int
		status     float64
		attempts   float64
	}{
		"a moment":          {"get", `{"id":"x"}`, []int{503, 502, 200}, 200, 3},
		"too often":         {"get", `{"id":"x"}`, []int{503, 503, 503, 200}, 503, 3},
		"asked to wait":     {"form", `{"id":"x"}`, []int{429, 200}, 200, 2},
		"not idempotent":    {"post", `{"id":"x"}`, []int{503, 200}, 503, 1},
		"nor with a limit":  {"post", `{"id":"x"}`, []int{429, 200}, 429, 1},
		"no use to retry":   {"get", `{"id":"x"}`, []int{500, 200}, 500, 1},
		"an error of yours": {"get", `{"id":"x"}`, []int{404, 200}, 404, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int32
			a := newAPI(t, echoPaths, nil, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(tc.answers[n.Add(1)-1])
			})
			out, err := a.call(tc.tool, tc.args, mayAll)
			if err != nil || out["status"] != tc.status || out["attempts"] != tc.attempts {
				t.Errorf("%v, %v", out, err)
			}
		})
	}
}

func TestALimitIsKept(t *testing.T) {
	var n atomic.Int32
	a := newAPI(t, echoPaths, nil, func(w http.ResponseWriter, _ *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	if out, err := a.call("get", `{"id":"x"}`, mayAll); err != nil || out["status"] != 429.0 || out["attempts"] != 1.0 {
		t.Errorf("%v, %v", out, err)
	}
	if out, err := a.call("post", `{"id":"x"}`, mayAll); !errors.Is(err, fault.ToolFailed) || !strings.Contains(err.Error(), "rate limit") || n.Load() != 1 {
		t.Errorf("%v, %v, %d requests", out, err, n.Load())
	}
	a.now = a.now.Add(601 * time.Second)
	if out, err := a.call("post", `{"id":"x"}`, mayAll); err != nil || out["status"] != 200.0 {
		t.Errorf("%v, %v", out, err)
	}
}

func TestForgedAnswers(t *testing.T) {
	big := bytes.Repeat([]byte("é"), openapi.DefaultMaxBytes)
	tests := map[string]struct {
		answer http.HandlerFunc
		check  func(out map[string]any, err error) bool
	}{
		"JSON that is none": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"a":1} {"b":2}`)
		}, func(out map[string]any, err error) bool { return err == nil && out["text"] == `{"a":1} {"b":2}` }},
		"deep JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, strings.Repeat("[", 5000)+strings.Repeat("]", 5000))
		}, func(out map[string]any, err error) bool {
			return err == nil && out["body"] == nil && out["text"] != nil
		}},
		"large": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(big) },
			func(out map[string]any, err error) bool {
				s, _ := out["text"].(string)
				return err == nil && out["truncated"] == true && len(s) == openapi.DefaultMaxBytes
			}},
		"bytes": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{0xff, 0}) },
			func(out map[string]any, err error) bool { return err == nil && out["body_base64"] == "/wA=" }},
		"cut off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		}, func(_ map[string]any, err error) bool { return errors.Is(err, fault.ToolFailed) }},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		}, func(_ map[string]any, err error) bool { return errors.Is(err, fault.HandleRefused) }},
		"an empty one": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			func(out map[string]any, err error) bool {
				return err == nil && out["status"] == 204.0 && out["text"] == nil
			}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, echoPaths, nil, tc.answer)
			if out, err := a.call("get", `{"id":"x"}`, mayAll); !tc.check(out, err) {
				t.Errorf("%.300v, %v", out, err)
			}
		})
	}
	a := newAPI(t, echoPaths, nil, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 5000)) })
	if out, err := a.call("get", `{"id":"x"}`, "network: {allow: [\"SERVER\"], max_bytes: 1KiB}\n"); err != nil || out["truncated"] != true || out["bytes_returned"] != 1024.0 {
		t.Errorf("over the policy's bound: %.200v, %v", out, err)
	}
}

func TestACallThatIsGivenUpEnds(t *testing.T) {
	a := newAPI(t, echoPaths, nil, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\n"+strings.ReplaceAll(mayAll, "SERVER", a.url)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Bind(policy.Env{Workspace: "/w"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	pm := permit.Mint(permit.Terms{Tool: "api:t:get", Chain: policy.Chain{r}})
	if _, err := permittest.Run(ctx, a.tools["get"], pm, tool.Args{"id": "x"}); err == nil {
		t.Error("an answer")
	}
	if _, err := permittest.Run(t.Context(), a.tools["get"], permit.Permit{}, tool.Args{"id": "x"}); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("without a permit: %v", err)
	}
}
