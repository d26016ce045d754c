package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
)

// service is remit serve in this process.
type service struct {
	t       testing.TB
	homeDir string
	dir     string
	url     string
	token   string // the admin's
	told    app.Served
	stop    func()
	env     []string // besides the usual variables

	policy string // the file that start names; "": none
}

// script is a scripted model: it greets, tells the time, writes a file, and then
// says the same again and again.
const script = `
- text: "Hello."
- tool_calls: [{name: get_current_time, args: {timezone: UTC}}]
- text: "It is now."
- {text: "And again.", repeat: true}
`

// servePolicy is the built-in one, and lets the scripted model be read.
const servePolicy = `version: 1
name: serve
api: {allow: ["*"]}
models: {allow: ["*"]}
files: {read: {allow: [clock.yaml]}}
delegate: {actions: [api, files.read, models, tools], to: ["*"], depth: 8}
`

func newService(t testing.TB, change ...func(*app.ServeRequest)) *service {
	t.Helper()
	return newServiceWith(t, nil, change...)
}

func newServiceWith(t testing.TB, env []string, change ...func(*app.ServeRequest)) *service {
	t.Helper()
	s := &service{t: t, homeDir: t.TempDir(), dir: t.TempDir(), env: env}
	s.policy = filepath.Join(s.dir, "serve.yaml")
	for name, content := range map[string]string{filepath.Join(s.dir, "clock.yaml"): script, s.policy: servePolicy} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.start(change...)
	return s
}

func (s *service) start(change ...func(*app.ServeRequest)) {
	s.t.Helper()
	cfg, err := home.FromEnv(append([]string{"REMIT_HOME=" + s.homeDir, "HOME=" + s.homeDir, "USER=ann"}, s.env...))
	if err != nil {
		s.t.Fatal(err)
	}
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		s.t.Fatal(err)
	}
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	ready := make(chan app.Served, 1)
	q := app.ServeRequest{Listen: "127.0.0.1:0", Workspace: dir, Policy: s.policy, Ready: func(v app.Served) { ready <- v }}
	q.Limits.Refused, q.Limits.Rate, q.Limits.Drain = 1e6, 1e6, 5*time.Second
	for _, c := range change {
		c(&q)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	failed := make(chan error, 1)
	served.Go(func() {
		err := a.Serve(ctx, q)
		if cerr := a.Close(); err == nil {
			err = cerr
		}
		failed <- err
	})
	var once sync.Once
	s.stop = func() {
		once.Do(func() {
			cancel()
			served.Wait()
			if err := <-failed; err != nil {
				s.t.Errorf("Serve: %v", err)
			}
		})
	}
	select {
	case s.told = <-ready:
	case err := <-failed:
		s.t.Fatalf("Serve: %v", err)
	case <-time.After(time.Minute):
		s.t.Fatal("the service does not begin")
	}
	s.t.Cleanup(s.stop)
	b, err := os.ReadFile(filepath.Join(s.homeDir, "keys", "admin.token"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.url, s.token = s.told.URL, strings.TrimSpace(string(b))
}

// ask makes a request and gives the answer's status and JSON.
func (s *service) ask(method, path, token, body string, header ...string) (int, map[string]any) {
	s.t.Helper()
	status, _, b := s.raw(method, path, token, body, header...)
	var m map[string]any
	if len(b) > 0 && json.Unmarshal(b, &m) != nil {
		s.t.Fatalf("%s %s: %d %q", method, path, status, b)
	}
	return status, m
}

func (s *service) raw(method, path, token, body string, header ...string) (int, http.Header, []byte) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, res.Header, b
}

// must is ask by the admin, with a status that is wanted.
func (s *service) must(want int, method, path, body string) map[string]any {
	s.t.Helper()
	status, m := s.ask(method, path, s.token, body)
	if status != want {
		s.t.Fatalf("%s %s: %d, want %d: %v", method, path, status, want, m)
	}
	return m
}

// narrow makes a grant of the admin's with a policy.
func (s *service) narrow(policy string, more ...string) (token, id string) {
	s.t.Helper()
	b, err := json.Marshal(policy)
	if err != nil {
		s.t.Fatal(err)
	}
	m := s.must(201, "POST", "/v1/grants", `{"policies":[`+string(b)+`]`+strings.Join(more, "")+`}`)
	return m["token"].(string), m["id"].(string)
}

func (s *service) session(token string, capabilities string) string {
	s.t.Helper()
	a := s.must(201, "POST", "/v1/agents", `{"name":"Clock","model":"scripted:clock.yaml","capabilities":`+capabilities+`}`)
	status, m := s.ask("POST", "/v1/sessions", token, fmt.Sprintf(`{"agent_id":%q}`, a["id"]))
	if status != 201 {
		s.t.Fatalf("a session: %d %v", status, m)
	}
	return m["id"].(string)
}

func TestServeAnswersAMessage(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `["current_time","session_file_system"]`)
	if m := s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"Hi"}`); m["reply"] != "Hello." {
		t.Errorf("the first turn: %v", m)
	}
	m := s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"What time is it?"}`)
	if m["reply"] != "It is now." || len(m["messages"].([]any)) != 4 {
		t.Errorf("the second turn: %v", m)
	}
	run := m["session"].(map[string]any)["run_id"].(string)
	calls := s.must(200, "GET", "/v1/runs/"+run+"/calls", "")["items"].([]any)
	var tools []string
	for _, c := range calls {
		tools = append(tools, c.(map[string]any)["tool"].(string))
	}
	if got := strings.Join(tools, " "); got != "model.chat model.chat current_time.get_current_time model.chat" {
		t.Errorf("the run's calls are %s", got)
	}
	_, _, metrics := s.raw("GET", "/metrics", s.token, "")
	for _, want := range []string{`remit_calls_total{status="completed"} 4`, `remit_turns_total{status="completed"} 2`, `remit_model_tokens_total{model="scripted:clock.yaml",type="output"}`, `remit_decisions_total{effect="allow"} 4`} {
		if !strings.Contains(string(metrics), want) {
			t.Errorf("the metrics have no %s", want)
		}
	}
	documented(t, string(metrics))
	for _, path := range []string{"/v1/runs/" + run, "/v1/runs/" + run + "/report", "/v1/runs?limit=1", "/v1/audit", "/v1/tools?q=time", "/v1/tools/time.now", "/v1/grants", "/v1/approvals?all=true", "/v1/capabilities/current_time"} {
		s.must(200, "GET", path, "")
	}
}

// documented compares the names of the metrics with the table of the documents.
func documented(t *testing.T, metrics string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(doc), "| metric | labels | |")
	listed := map[string]bool{"remit_spans_dropped": true} // only where traces are on
	for _, name := range regexp.MustCompile("`(remit_[a-z_]+)`").FindAllStringSubmatch(table, -1) {
		listed[name[1]] = true
	}
	for _, line := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(metrics, -1) {
		if !listed[line[1]] {
			t.Errorf("docs/operations.md does not list %s", line[1])
		}
		delete(listed, line[1])
	}
	delete(listed, "remit_spans_dropped")
	for name := range listed {
		t.Errorf("docs/operations.md lists %s, which is not measured", name)
	}
	for _, want := range []string{`remit_ledger_events [1-9]\d*`, `remit_ledger_sync_seconds_count [1-9]\d*`, `remit_ledger_unintegrated_events 0`, `remit_queue_runs{state="waiting"} 0`, `remit_home_free_bytes [1-9]\d*`} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(metrics) {
			t.Errorf("%s is not measured", want)
		}
	}
}

func TestToolsWithoutSideEffects(t *testing.T) {
	s := newService(t)
	for _, query := range []string{"without=fs.write&without=network.http", "without=fs.write,network.http"} {
		m := s.must(200, "GET", "/v1/tools?"+query, "")
		ids := map[string]bool{}
		for _, item := range m["items"].([]any) {
			ids[item.(map[string]any)["id"].(string)] = true
		}
		if !ids["time.now"] || ids["fs.write"] || ids["http.get"] {
			t.Errorf("%s: %v", query, ids)
		}
	}
	if m := s.must(422, "GET", "/v1/tools?without=fs.write&without=flying", ""); m["code"] != "E2002" {
		t.Error(m)
	}
}

// What a session does is bounded by the grant of who began it.
func TestASessionIsUnderItsCallersGrant(t *testing.T) {
	s := newService(t)
	poor, _ := s.narrow("version: 1\nrest: inherit\nmodels: {allow: [\"anthropic/*\"]}\n")
	id := s.session(poor, `[]`)
	status, m := s.ask("POST", "/v1/sessions/"+id+"/messages", poor, `{"content":"Hi"}`)
	if status != 403 || m["code"] != "E1001" {
		t.Errorf("a model that the grant does not allow: %d %v", status, m)
	}
	budget, _ := s.narrow("version: 1\nrest: inherit\n", `,"tokens":10`)
	id = s.session(budget, `[]`)
	if status, m = s.ask("POST", "/v1/sessions/"+id+"/messages", budget, `{"content":"Hi"}`); status != 403 || m["code"] != "E6012" {
		t.Errorf("more tokens than the grant has: %d %v", status, m)
	}
	other, _ := s.narrow("version: 1\nrest: inherit\napi: {allow: [\"sessions.*\"]}\n")
	if status, m = s.ask("POST", "/v1/sessions/"+id+"/messages", other, `{"content":"Hi"}`); status != 404 {
		t.Errorf("another's session: %d %v", status, m)
	}
	if status, m = s.ask("GET", "/v1/sessions", other, ""); status != 200 || len(m["items"].([]any)) != 0 {
		t.Errorf("others' sessions: %d %v", status, m)
	}
	if m := s.must(200, "GET", "/v1/sessions", ""); len(m["items"].([]any)) != 2 {
		t.Errorf("the admin's: %v", m)
	}
}

func TestRevokedGrantsAreRefusedAtOnce(t *testing.T) {
	s := newService(t)
	tok, id := s.narrow("version: 1\nrest: inherit\n", `,"note":"for a test"`)
	child := func() (int, map[string]any) { return s.ask("GET", "/v1/agents", tok, "") }
	if status, m := child(); status != 200 {
		t.Fatalf("before: %d %v", status, m)
	}
	s.must(200, "POST", "/v1/grants/"+id+"/pause", ``)
	if status, m := child(); status != 401 || m["code"] != "E6005" {
		t.Errorf("paused: %d %v", status, m)
	}
	s.must(200, "POST", "/v1/grants/"+id+"/resume", `{}`)
	if status, m := child(); status != 200 {
		t.Errorf("resumed: %d %v", status, m)
	}
	if g := s.must(200, "POST", "/v1/grants/"+id+"/revoke", `{"reason":"done"}`); g["standing"] != "revoked" || g["note"] != "for a test" {
		t.Errorf("it is %v", g)
	}
	if status, m := child(); status != 401 || m["code"] != "E6004" {
		t.Errorf("revoked: %d %v", status, m)
	}
	weak, _ := s.narrow("version: 1\nrest: inherit\napi: {allow: [\"grants.*\"]}\n")
	admin := s.must(200, "GET", "/v1/grants", "")["items"].([]any)
	root := admin[len(admin)-1].(map[string]any)["id"].(string)
	if status, m := s.ask("POST", "/v1/grants/"+root+"/revoke", weak, `{}`); status != 404 {
		t.Errorf("who holds less revokes more: %d %v", status, m)
	}
	if status, m := s.ask("POST", "/v1/grants", weak, `{"policies":["version: 1\nrest: inherit\napi: {allow: [\"*\"]}\n"]}`); status != 201 {
		t.Errorf("narrowing: %d %v", status, m)
	} else if status, m = s.ask("GET", "/v1/agents", m["token"].(string), ""); status != 403 || m["code"] != "E1001" {
		t.Errorf("a narrower grant allows more: %d %v", status, m)
	}
}

// Each operation of the real service, without a grant, with a wrong, a forged, a
// revoked, an expired one, and one that may nothing.
func TestTheRealServiceIsGuarded(t *testing.T) {
	s := newService(t)
	nothing, _ := s.narrow("version: 1\nrest: inherit\napi: {deny: [\"*\"]}\n")
	revoked, id := s.narrow("version: 1\nrest: inherit\n")
	s.must(200, "POST", "/v1/grants/"+id+"/revoke", `{}`)
	expired, _ := s.narrow("version: 1\nrest: inherit\n", `,"expires_in":1`)
	time.Sleep(1100 * time.Millisecond) // the shortest that a grant can last
	forged := s.token[:len(s.token)-8] + "AAAAAAAA"
	for _, o := range operations(t, s) {
		if o.open {
			continue
		}
		body := ""
		if o.method == "POST" || o.method == "PATCH" || o.method == "PUT" {
			body = "{}"
		}
		for name, token := range map[string]string{"none": "", "wrong": "remit1_xyz", "forged": forged, "revoked": revoked, "expired": expired} {
			if status, m := s.ask(o.method, o.path, token, body); status != 401 {
				t.Errorf("%s %s with %s: %d %v", o.method, o.path, name, status, m)
			}
		}
		if o.path == "/v1/openapi.json" {
			continue
		}
		if status, m := s.ask(o.method, o.path, nothing, body); status != 403 || m["code"] != "E1001" {
			t.Errorf("%s %s with nothing: %d %v", o.method, o.path, status, m)
		}
	}
}

type operation struct {
	method, path string
	open         bool
}

// operations are those of the published document.
func operations(t testing.TB, s *service) []operation {
	t.Helper()
	doc := s.must(200, "GET", "/v1/openapi.json", "")
	const id = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"
	fill := strings.NewReplacer("{agent_id}", id, "{session_id}", id, "{path}", "x", "{tool_id}", "time.now", "{capability_id}", "noop", "{run_id}", id, "{grant_id}", id, "{approval_id}", id)
	var out []operation
	for path, item := range doc["paths"].(map[string]any) {
		for method := range item.(map[string]any) {
			out = append(out, operation{strings.ToUpper(method), fill.Replace(path), path == "/healthz" || path == "/readyz"})
		}
	}
	if len(out) < 45 {
		t.Fatalf("%d operations", len(out))
	}
	return out
}

// A delegate answers nothing in the name of the person whose grant its own derives from:
// neither for itself, nor for its child, nor for others, and neither yes nor no.
func TestADelegateAnswersForNobody(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "ask.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\ntools: {allow: [\"*\"], ask: [\"time.now\"]}\napprovals: {approvers: 2}\ndelegate: {actions: [tools, api], to: [\"*\"], depth: 3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newService(t, func(q *app.ServeRequest) { q.Policy = policy })
	may := `,"policies":["version: 1\nrest: inherit\napi: {allow: [\"*\"]}\n"]`
	hand := func(from, holder string) string {
		t.Helper()
		status, m := s.ask("POST", "/v1/grants", from, `{"holder":"`+holder+`"`+may+`}`)
		if status != 201 {
			t.Fatalf("%d %v", status, m)
		}
		return m["token"].(string)
	}
	lead := hand(s.token, "agent:lead")
	child := hand(lead, "agent:child")
	second := hand(s.token, "user:bob")
	status, m := s.ask("POST", "/v1/tools/time.now/invoke", child, `{}`)
	question, _ := m["approval_id"].(string)
	if status != 403 || question == "" {
		t.Fatalf("%d %v", status, m)
	}
	for name, token := range map[string]string{"the one above": lead, "itself": child, "a person to whom the grant was handed on": second} {
		for _, answer := range []string{"approve", "deny"} {
			if status, m := s.ask("POST", "/v1/approvals/"+question+"/"+answer, token, `{}`); status != 403 || m["code"] != "E1001" {
				t.Errorf("%s may %s: %d %v", name, answer, status, m)
			}
		}
	}
	if q := s.must(200, "POST", "/v1/approvals/"+question+"/approve", `{}`); q["state"] != "waiting" || len(q["votes"].([]any)) != 1 {
		t.Errorf("with one of two people: %v", q)
	}
	if status, m := s.ask("POST", "/v1/approvals/"+question+"/approve", s.token, `{}`); status != 409 {
		t.Errorf("the same person again: %d %v", status, m)
	}
	bob := filepath.Join(t.TempDir(), "bob.yaml")
	if err := os.WriteFile(bob, []byte("version: 1\napi: {allow: [\"*\"]}\n"), 0o600); err != nil {
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
	defer func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}()
	own, err := a.Grants.Issue(t.Context(), grants.Terms{Policies: []string{bob}, Holder: "user:bob", Workspace: s.dir})
	if err != nil {
		t.Fatal(err)
	}
	if status, m := s.ask("POST", "/v1/approvals/"+question+"/approve", own.Text, `{}`); status != 200 || m["state"] != "approved" {
		t.Errorf("with two people: %d %v", status, m)
	}
}

// A call that needs approval waits, is answered over the API by a person, and goes on.
func TestApprovalsAreAnsweredOverTheAPI(t *testing.T) {
	policy := filepath.Join(t.TempDir(), "ask.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nfiles: {read: {allow: [clock.yaml]}}\nmodels: {allow: [\"*\"]}\ntools: {allow: [\"*\"], ask: [\"current_time.*\", \"time.now\"]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newService(t, func(q *app.ServeRequest) { q.Policy = policy })
	id := s.session(s.token, `["current_time"]`)
	s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"Hi"}`)
	m := s.must(202, "POST", "/v1/sessions/"+id+"/messages", `{"content":"What time is it?"}`)
	question, _ := m["approval_id"].(string)
	if m["status"] != "waiting" || question == "" {
		t.Fatalf("it does not wait: %v", m)
	}
	q := s.must(200, "GET", "/v1/approvals/"+question, "")
	if q["state"] != "waiting" || q["asks"].(map[string]any)["tool"] != "current_time.get_current_time" {
		t.Errorf("the question: %v", q)
	}
	outsider, _ := s.narrow("version: 1\nrest: inherit\napi: {allow: [\"approvals.*\"]}\n")
	if status, m := s.ask("POST", "/v1/approvals/"+question+"/approve", outsider, `{}`); status != 404 {
		t.Errorf("an outsider answers: %d %v", status, m)
	}
	q = s.must(200, "POST", "/v1/approvals/"+question+"/approve", ``)
	if vote := q["votes"].([]any)[0].(map[string]any); vote["by"] != home.Person() || vote["grant"] == nil {
		t.Errorf("the answer: %v", q)
	}
	s.follow(id, func(e agent.Event) bool { return e.Message != nil && e.Message.Text == "It is now." })

	status, m := s.ask("POST", "/v1/tools/time.now/invoke", s.token, `{}`)
	if question, _ = m["approval_id"].(string); status != 403 || m["code"] != "E1002" || question == "" {
		t.Fatalf("a tool that needs approval: %d %v", status, m)
	}
	s.must(200, "POST", "/v1/approvals/"+question+"/approve", `{}`)
	if m := s.must(200, "POST", "/v1/tools/time.now/invoke", `{}`); m["status"] != "completed" {
		t.Errorf("approved: %v", m)
	}
	if m := s.must(403, "POST", "/v1/tools/time.now/invoke", `{}`); m["code"] != "E1002" {
		t.Errorf("a second time: %v", m)
	}
}

// follow reads a session's events from the first message until one is seen.
func (s *service) follow(id string, until func(agent.Event) bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.url+"/v1/sessions/"+id+"/events", http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Last-Event-ID", "0")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	lines := bufio.NewScanner(res.Body)
	var seen bytes.Buffer
	for lines.Scan() {
		fmt.Fprintln(&seen, lines.Text())
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		var e agent.Event
		if ok && json.Unmarshal([]byte(data), &e) == nil && until(e) {
			return
		}
	}
	s.t.Fatalf("it did not come: %v\n%s", lines.Err(), &seen)
}

func TestTheAdminsTokenIsMadeOnce(t *testing.T) {
	s := newService(t)
	file := filepath.Join(s.homeDir, "keys", "admin.token")
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", st.Mode(), err)
	}
	first := s.token
	if s.told.Token != first || s.told.Replace {
		t.Errorf("the first start told %q", s.told.Token)
	}
	id := s.session(s.token, `[]`)
	s.stop()
	s.start()
	if s.token != first || s.told.Token != "" {
		t.Errorf("a second start: %q, told %q", s.token, s.told.Token)
	}
	if m := s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"Hi"}`); m["reply"] != "Hello." {
		t.Errorf("a session goes on after a restart: %v", m)
	}
	s.stop()
	s.start(func(q *app.ServeRequest) { q.NewToken = true })
	if s.token == first || s.told.Token != s.token || !s.told.Replace {
		t.Errorf("a new token: %+v", s.told)
	}
	if status, m := s.ask("GET", "/v1/agents", first, ""); status != 401 || m["code"] != "E6004" {
		t.Errorf("the old token: %d %v", status, m)
	}
	second := s.token
	s.stop()
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	s.start()
	if s.token == second {
		t.Error("a token that others could read is used again")
	}
	if status, _ := s.ask("GET", "/v1/agents", second, ""); status != 401 {
		t.Errorf("the token that others could read: %d", status)
	}
}

// A policy that is edited ends no token: it bounds them besides the one that they were
// made under, and sessions that were begun go on under it.
func TestAnEditedPolicyLogsNobodyOut(t *testing.T) {
	s := &service{t: t, homeDir: t.TempDir(), dir: t.TempDir()}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const open = "version: 1\nname: serve\napi: {allow: ['*']}\nmodels: {allow: ['*']}\nfiles: {read: {allow: ['*.txt', '*.yaml']}}\ndelegate: {actions: [api, models, tools, files.read], to: ['*'], depth: 8}\n"
	file := filepath.Join(s.dir, "serve-policy.yaml")
	write("clock.yaml", script)
	write("a.txt", "one")
	write("serve-policy.yaml", open)
	with := func(q *app.ServeRequest) { q.Policy = file }
	s.start(with)
	first, id := s.token, s.session(s.token, `[]`)
	narrowed := s.must(201, "POST", "/v1/grants", `{"holder":"client:one"}`)["token"].(string)
	read := func(token string) int {
		status, _ := s.ask("POST", "/v1/tools/fs.read/invoke", token, `{"args":{"path":"a.txt"}}`)
		return status
	}
	for _, token := range []string{first, narrowed} {
		if got := read(token); got != 200 {
			t.Fatalf("before: %d", got)
		}
	}
	own := issued(t, s, open)

	// Less: what the policy does not allow any more is refused to all that derives from the admin's.
	s.stop()
	write("serve-policy.yaml", strings.Replace(strings.Replace(open, "'*.txt', ", "", 1), "api: {allow: ['*']}", "api: {allow: ['*'], deny: ['audit.*']}", 1))
	s.start(with)
	if s.token != first || s.told.Token != "" || !s.told.Older || s.told.Replace {
		t.Fatalf("the token was not kept: %+v", s.told)
	}
	for _, token := range []string{first, narrowed} {
		if got := read(token); got != 403 {
			t.Errorf("a file that the edited policy does not allow: %d", got)
		}
		if status, m := s.ask("GET", "/v1/audit", token, ""); status != 403 {
			t.Errorf("an action that the edited policy denies: %d %v", status, m)
		}
	}
	if got := read(own); got != 200 {
		t.Errorf("a grant that was issued under a policy of its own: %d", got)
	}
	if m := s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"Hi"}`); m["reply"] != "Hello." {
		t.Errorf("a session does not go on: %v", m)
	}

	// No models at all: the session goes on, and is decided anew.
	s.stop()
	write("serve-policy.yaml", strings.Replace(open, "models: {allow: ['*']}", "models: {allow: []}", 1))
	s.start(with)
	if status, m := s.ask("POST", "/v1/sessions/"+id+"/messages", s.token, `{"content":"Hi"}`); status == 201 && m["reply"] != nil && m["reply"] != "" {
		t.Errorf("a model that the edited policy does not allow answers: %d %v", status, m)
	}

	// More: the policy that the token was made under bounds it still, until a new one is made.
	s.stop()
	write("serve-policy.yaml", strings.Replace(open, "'*.txt'", "'*.txt', '*.md'", 1))
	write("b.md", "two")
	s.start(with)
	if status, _ := s.ask("POST", "/v1/tools/fs.read/invoke", first, `{"args":{"path":"b.md"}}`); status != 403 {
		t.Errorf("an old token was widened: %d", status)
	}
	if got := read(first); got != 200 {
		t.Errorf("what both allow: %d", got)
	}
	s.stop()
	s.start(with, func(q *app.ServeRequest) { q.NewToken = true })
	s.must(200, "POST", "/v1/tools/fs.read/invoke", `{"args":{"path":"b.md"}}`)
	for _, token := range []string{first, narrowed} {
		if status, m := s.ask("GET", "/v1/agents", token, ""); status != 401 || m["code"] != "E6004" {
			t.Errorf("a token after --new-token: %d %v", status, m)
		}
	}
}

// issued is a grant of the service's ledger under a policy of its own.
func issued(t *testing.T, s *service, text string) string {
	t.Helper()
	p, err := policy.Parse("own.yaml", []byte(text))
	if err != nil {
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
	tok, err := a.Grants.Issue(t.Context(), grants.Terms{Workspace: s.dir, Holder: "client:own", Expires: time.Hour, Parsed: []*policy.Policy{p}})
	if err != nil {
		t.Fatal(err)
	}
	return tok.Text
}

// A policy without a section of the API bounds what calls do, and is itself what
// tokens that derive from the admin's are bounded by.
func TestTheAdminsPolicy(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		want int // of GET /v1/agents by the admin
	}{
		"yaml":          {"version: 1\nname: mine\nfiles:\n  read: {allow: [\"**\"]}\n", 200},
		"json":          {`{"version": 1, "files": {"read": {"allow": ["**"]}}}`, 200},
		"says no":       {"version: 1\napi: {allow: [\"runs.*\"]}\n", 403},
		"says nothing":  {"version: 1\napi: {}\n", 403},
		"comment after": {"version: 1 # no line end", 200},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, "p.yaml")
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := newService(t, func(q *app.ServeRequest) { q.Policy = file })
			if status, m := s.ask("GET", "/v1/agents", s.token, ""); status != c.want {
				t.Errorf("%d %v", status, m)
			}
		})
	}
}

func TestServeListensWhereItMay(t *testing.T) {
	for name, c := range map[string]struct {
		q    app.ServeRequest
		want string
	}{
		"public":            {app.ServeRequest{Listen: "0.0.0.0:0"}, "not a loopback address"},
		"all":               {app.ServeRequest{Listen: ":0"}, "not a loopback address"},
		"public, no name":   {app.ServeRequest{Listen: "0.0.0.0:0", Public: true}, "by which name"},
		"a name":            {app.ServeRequest{Listen: "localhost:0"}, "names no address"},
		"no port":           {app.ServeRequest{Listen: "127.0.0.1"}, "is not an address and a port"},
		"half of TLS":       {app.ServeRequest{Listen: "127.0.0.1:0", Cert: "x"}, "belong together"},
		"no certificate":    {app.ServeRequest{Listen: "127.0.0.1:0", Cert: "/nonexistent", Key: "/nonexistent"}, "cannot be used"},
		"mapped v4 address": {app.ServeRequest{Listen: "[::ffff:10.0.0.1]:0"}, "not a loopback address"},
	} {
		cfg, err := home.FromEnv([]string{"REMIT_HOME=" + t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		a, err := app.New(cfg, app.Own{})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Serve(context.Background(), c.q); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
