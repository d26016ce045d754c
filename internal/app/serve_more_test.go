package app_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
)

// Each operation's example, with each of its fields made wrong in many ways: none is
// an error of the service.
func TestNoBodyBreaksTheRealService(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time","session_file_system"]`)
	doc := s.must(200, "GET", "/v1/openapi.json", "")
	wrong := []any{nil, "", "x", "\u202e\u0000", strings.Repeat("é", 3000), -1, 1e18, 1.5, true, []any{}, []any{nil}, map[string]any{}, map[string]any{"a": []any{1}}, "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44", "../..", id}
	if os.Getenv("REMIT_SOAK") == "" {
		wrong = []any{nil, "x", "\u202e\u0000", -1, []any{nil}, map[string]any{"a": 1}, id}
	}
	paths := strings.NewReplacer("{session_id}", id, "{path}", "notes/x.md", "{tool_id}", "time.now", "{capability_id}", "noop")
	n := 0
	for path, item := range doc["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			if strings.HasSuffix(path, "/events") || method == "delete" && strings.HasSuffix(path, "{session_id}") {
				continue
			}
			for _, body := range bodies(o.(map[string]any), wrong) {
				for _, other := range []string{id, "nope", "%00", strings.Repeat("9", 200)} {
					p := paths.Replace(path)
					if !strings.Contains(p, "{") && other != id {
						break
					}
					for strings.Contains(p, "{") {
						i, j := strings.IndexByte(p, '{'), strings.IndexByte(p, '}')
						p = p[:i] + other + p[j+1:]
					}
					n++
					status, _, b := s.raw(strings.ToUpper(method), p, s.token, body)
					var problem httpapi.Problem
					if status >= 400 && (json.Unmarshal(b, &problem) != nil || problem.Status != status) {
						t.Fatalf("%s %s %.200s: %d is no problem: %.300s", method, p, body, status, b)
					}
					if status >= 500 && !strings.HasPrefix(problem.Code, "E80") {
						t.Fatalf("%s %s %.200s: %d %s", method, p, body, status, b)
					}
					if strings.Contains(string(b), s.homeDir) {
						t.Fatalf("%s %s tells of the service's folders: %s", method, p, b)
					}
				}
			}
		}
	}
	if n < 200 {
		t.Errorf("only %d requests", n)
	}
}

// bodies are an operation's example with each field made wrong.
func bodies(o map[string]any, wrong []any) []string {
	rb, ok := o["requestBody"].(map[string]any)
	if !ok {
		return []string{""}
	}
	media, ok := rb["content"].(map[string]any)["application/json"].(map[string]any)
	if !ok {
		return []string{"", "x"}
	}
	example := media["example"].(map[string]any)
	out := []string{"", "{}", "[]", "{", `{"unknown":1}`}
	for key := range example {
		for _, w := range wrong {
			b := map[string]any{}
			for k, v := range example {
				b[k] = v
			}
			b[key] = w
			text, _ := json.Marshal(b) // it is made of JSON's own values
			out = append(out, string(text))
		}
	}
	return out
}

// sse reads a stream's events until it ends, or one was read.
func (s *service) sse(r *http.Request, until func(agent.Event) bool) []agent.Event {
	s.t.Helper()
	r.Header.Set("Authorization", "Bearer "+s.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != 200 {
		b, _ := io.ReadAll(res.Body)
		s.t.Fatalf("%s: %s", res.Status, b)
	}
	var out []agent.Event
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e agent.Event
		if !ok || json.Unmarshal([]byte(data), &e) != nil {
			continue
		}
		if out = append(out, e); until(e) {
			break
		}
	}
	return out
}

func request(t testing.TB, method, url, body string, header ...string) *http.Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// A real turn is streamed; whoever was cut off at any of its events is told of
// exactly the messages after it, also by the next process.
func TestARealStreamGoesOnFromWhereverItWasCut(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time"]`)
	s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"Hi"}`)
	events := s.sse(request(t, "POST", s.url+"/v1/sessions/"+id+"/messages", `{"content":"What time is it?"}`, "Accept", "text/event-stream", "Content-Type", "application/json"),
		func(agent.Event) bool { return false })
	if len(events) < 7 || events[len(events)-1].Type != "end" || events[len(events)-1].Error != nil {
		t.Fatalf("the turn's events: %+v", events)
	}
	check := func(when string) {
		t.Helper()
		for i, e := range events {
			if e.ID == "" {
				continue
			}
			var want []int
			for _, later := range events[i+1:] {
				if later.Message != nil {
					want = append(want, later.Message.Number)
				}
			}
			if len(want) == 0 {
				continue
			}
			var got []int
			for _, again := range s.sse(request(t, "GET", s.url+"/v1/sessions/"+id+"/events", "", "Last-Event-ID", e.ID), func(e agent.Event) bool {
				return e.Message != nil && e.Message.Number == want[len(want)-1]
			}) {
				if again.Message != nil {
					got = append(got, again.Message.Number)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, cut at event %d (%s %s): told of messages %v, want %v", when, i, e.Type, e.ID, got, want)
			}
		}
	}
	check("in the same process")
	s.stop()
	s.start()
	check("in the next process")
}

// collector is an OpenTelemetry collector.
type collector struct {
	mu    sync.Mutex
	spans []span
}

type span struct {
	Trace      string `json:"traceId"`
	ID         string `json:"spanId"`
	Parent     string `json:"parentSpanId"`
	Name       string `json:"name"`
	Kind       int    `json:"kind"`
	Attributes []struct {
		Key   string                     `json:"key"`
		Value map[string]json.RawMessage `json:"value"`
	} `json:"attributes"`
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []span `json:"spans"`
			} `json:"scopeSpans"`
		} `json:"resourceSpans"`
	}
	if r.URL.Path != "/v1/traces" || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range body.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
}

// A turn is one trace: the request, the agent, and below it each call of a model or a
// tool, under the names of the conventions, without what was said.
func TestATurnIsOneTrace(t *testing.T) {
	c := &collector{}
	srv := httptest.NewServer(c)
	defer srv.Close()
	s := newServiceWith(t, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + srv.URL})
	if s.told.Traced != srv.URL+"/v1/traces" {
		t.Errorf("it is told that traces go to %q", s.told.Traced)
	}
	id := s.session(s.token, `["current_time"]`)
	s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"a secret"}`)
	s.raw("POST", "/v1/sessions/"+id+"/messages", s.token, `{"content":"What time is it?"}`, "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	s.stop() // sends what waits
	c.mu.Lock()
	defer c.mu.Unlock()
	var of []span
	for _, sp := range c.spans {
		if sp.Trace == "0af7651916cd43dd8448eb211c80319c" {
			of = append(of, sp)
		}
	}
	byName := map[string]span{}
	for _, sp := range of {
		byName[sp.Name] = sp
	}
	request, turn := byName["POST /v1/sessions/{session_id}/messages"], byName["invoke_agent"]
	if len(of) != 5 || request.Parent != "b7ad6b7169203331" || turn.Parent != request.ID || byName["chat clock.yaml"].Parent != turn.ID ||
		byName["execute_tool current_time.get_current_time"].Parent != turn.ID {
		t.Errorf("the trace is %+v", of)
	}
	text, err := json.Marshal(c.spans)
	if err != nil || strings.Contains(string(text), "a secret") || !strings.Contains(string(text), "gen_ai.usage.output_tokens") {
		t.Errorf("the spans are %s", text)
	}
}

// MCP clients are served beside the API, each under the grant that it presents.
func TestMCPIsMounted(t *testing.T) {
	s := newService(t)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	status, header, b := s.raw("POST", "/mcp", s.token, hello, "Accept", "application/json, text/event-stream")
	if status != 200 || header.Get("Mcp-Session-Id") == "" || !strings.Contains(string(b), `"serverInfo"`) {
		t.Errorf("%d %v %s", status, header, b)
	}
	for _, token := range []string{"", "remit1_nope"} {
		if status, _, _ := s.raw("POST", "/mcp", token, hello, "Accept", "application/json, text/event-stream"); status != 401 {
			t.Errorf("with %q: %d", token, status)
		}
	}
	if status, _, _ := s.raw("POST", "/mcp", s.token, hello, "Origin", "https://evil.example"); status != 403 {
		t.Errorf("from a web page: %d", status)
	}
}

// Two hundred sessions talk at once.
func TestManySessionsAtOnce(t *testing.T) {
	n := 50
	if os.Getenv("REMIT_SOAK") != "" {
		n = 200
	}
	s := newService(t)
	a := s.must(201, "POST", "/v1/agents", `{"name":"Many","model":"scripted:clock.yaml","capabilities":["current_time"]}`)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			status, m := s.ask("POST", "/v1/sessions", s.token, fmt.Sprintf(`{"agent_id":%q,"title":%q}`, a["id"], "t"+strconv.Itoa(i)))
			if status != 201 {
				t.Errorf("session %d: %d %v", i, status, m)
				return
			}
			path := fmt.Sprintf("/v1/sessions/%s/messages", m["id"])
			for _, want := range []string{"Hello.", "It is now."} {
				if status, m := s.ask("POST", path, s.token, `{"content":"go on"}`); status != 201 || m["reply"] != want {
					t.Errorf("session %d: %d %v", i, status, m)
					return
				}
			}
		})
	}
	all.Wait()
}

// A session is steered, forked, and ended; what is gone is not there.
func TestSessionsAreSteered(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["session_file_system"]`)
	s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"Hi"}`)
	fork := s.must(201, "POST", "/v1/sessions/"+id+"/fork", `{"up_to":1}`)
	if fork["messages"] != 1.0 || fork["id"] == id {
		t.Errorf("the fork: %v", fork)
	}
	s.must(404, "POST", "/v1/sessions/"+id+"/fork", `{"up_to":9}`)
	for _, steer := range []string{"cancel", "pause", "resume"} {
		if status, m := s.ask("POST", "/v1/sessions/"+id+"/"+steer, s.token, ""); status != 200 && status != 409 {
			t.Errorf("%s with no turn under way: %d %v", steer, status, m)
		}
	}
	if m := s.must(200, "PUT", "/v1/sessions/"+id+"/files/a/b.txt", `hello`); m["version"] != 1.0 {
		t.Errorf("a file: %v", m)
	}
	if status, m := s.ask("PUT", "/v1/sessions/"+id+"/files/a/b.txt", s.token, "again", "If-Match", `"v9"`); status != 412 {
		t.Errorf("a stale file: %d %v", status, m)
	}
	if status, m := s.ask("DELETE", "/v1/sessions/"+id+"/files/a", s.token, ""); status != 409 && status != 422 {
		t.Errorf("a folder that is not empty: %d %v", status, m)
	}
	s.must(204, "DELETE", "/v1/sessions/"+id+"/files/a?recursive=true", "")
	s.must(404, "GET", "/v1/sessions/"+id+"/files/a/b.txt", "")
	agent := s.must(200, "GET", "/v1/sessions/"+id, "")["agent_id"].(string)
	s.must(204, "DELETE", "/v1/sessions/"+id, "")
	s.must(404, "GET", "/v1/sessions/"+id, "")
	s.must(204, "DELETE", "/v1/agents/"+agent, "")
	other := fork["id"].(string)
	s.must(200, "GET", "/v1/sessions/"+other+"/messages", "")
	if status, m := s.ask("POST", "/v1/sessions/"+other+"/messages", s.token, `{"content":"Hi"}`); status < 400 || status >= 500 {
		t.Errorf("a message to an agent that was deleted: %d %v", status, m)
	}
}

// The person's own outer bound holds for requests where it speaks of them, and for
// what they lead to in any case.
func TestTheOuterBoundHoldsForRequestsToo(t *testing.T) {
	for name, c := range map[string]struct {
		outer string
		want  int // of POST /v1/agents
	}{
		"it says nothing of the API": {"version: 1\nfiles: {read: {allow: [\"**\"]}}\n", 201},
		"it lets agents be read":     {"version: 1\nrest: inherit\napi: {allow: [\"agents.read\"]}\n", 403},
		"it denies writing":          {"version: 1\nrest: inherit\napi: {allow: [\"*\"], deny: [\"*.write\"]}\n", 403},
	} {
		t.Run(name, func(t *testing.T) {
			s := &service{t: t, homeDir: t.TempDir(), dir: t.TempDir()}
			if err := os.WriteFile(filepath.Join(s.homeDir, "policy.yaml"), []byte(c.outer), 0o600); err != nil {
				t.Fatal(err)
			}
			s.start()
			if status, m := s.ask("POST", "/v1/agents", s.token, `{"name":"a"}`); status != c.want {
				t.Errorf("%d %v", status, m)
			}
			s.must(200, "GET", "/v1/agents", "")
			if status, m := s.ask("POST", "/v1/tools/http.get/invoke", s.token, `{"args":{"url":"https://example.com"}}`); status != 403 {
				t.Errorf("a call that the outer bound does not allow: %d %v", status, m)
			}
		})
	}
}

// A grant that is bound to a key cannot be used by who only has its text.
func TestAGrantOfAKeyIsNotTakenAsABearers(t *testing.T) {
	s := newService(t)
	key := filepath.Join(t.TempDir(), "holder.key")
	public, err := grants.NewHolderKey(key)
	if err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(t.TempDir(), "p.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\napi: {allow: [\"*\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + s.homeDir, "HOME=" + s.homeDir, "USER=ann"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = a.Close() }()
	tok, err := a.Grants.Issue(context.Background(), grants.Terms{Policies: []string{policy}, Workspace: s.dir, HolderKey: public})
	if err != nil {
		t.Fatal(err)
	}
	if status, m := s.ask("GET", "/v1/agents", tok.Text, ""); status != 401 || m["code"] != "E6006" {
		t.Errorf("%d %v", status, m)
	}
}
