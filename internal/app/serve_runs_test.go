package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

// planBody is the body of POST /v1/runs for a plan.
func planBody(t *testing.T, plan, more string) string {
	t.Helper()
	b, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	return `{"plan":` + string(b) + more + `}`
}

// ended follows a run to its end.
func (s *service) ended(id string) map[string]any {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if r := s.must(200, "GET", "/v1/runs/"+id, ""); r["status"] != "running" {
			return r
		}
	}
	s.t.Fatalf("the run %s does not end", id)
	return nil
}

// writerPolicy is a policy for plans, and askingPolicy one that asks about a tool.
const (
	writerPolicy = `version: 1
name: writer
api: {allow: ["*"]}
files: {read: {allow: ["**"]}, write: {allow: ["out/**"]}}
delegate: {actions: [api, files.read, files.write, tools], to: ["*"], depth: 8}
`
	askingPolicy = "version: 1\nname: asking\nrest: inherit\ntools: {ask: [time.now]}\n"
)

func newWriter(t *testing.T, change ...func(*app.ServeRequest)) *service {
	t.Helper()
	own := func(q *app.ServeRequest) {
		if err := os.WriteFile(q.Policy, []byte(writerPolicy), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newService(t, append([]func(*app.ServeRequest){own}, change...)...)
	if err := os.Mkdir(filepath.Join(s.dir, "out"), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPlanRunsOverHTTP(t *testing.T) {
	s := newWriter(t)
	plan := `
name: greet
inputs: {who: {type: string, required: true}, times: {type: integer, default: 1}}
steps:
  - {id: write, tool: fs.write, args: {path: out/a.txt, content: "hello ${{ inputs.who }} ${{ inputs.times }}"}}
  - {id: read, tool: fs.read, args: {path: "${{ steps.write.output.path }}"}}
`
	status, head, b := s.raw("POST", "/v1/runs", s.token, planBody(t, plan, `,"inputs":{"who":"ann","times":9007199254740993}`))
	var begun struct {
		ID   string `json:"run_id"`
		Name string `json:"name"`
	}
	if err := json.Unmarshal(b, &begun); err != nil || status != http.StatusAccepted || begun.Name != "greet" || head.Get("Location") != "/v1/runs/"+begun.ID {
		t.Fatalf("%d %s, %v: %s", status, head.Get("Location"), err, b)
	}
	if r := s.ended(begun.ID); r["status"] != "completed" || r["completed"] != 2.0 {
		t.Fatalf("the run is %v", r)
	}
	written, err := os.ReadFile(filepath.Join(s.dir, "out", "a.txt"))
	if err != nil || string(written) != "hello ann 9007199254740993" {
		t.Errorf("written: %q, %v", written, err)
	}
	if m := s.must(409, "POST", "/v1/runs/"+begun.ID+"/cancel", ""); m["code"] != "E2010" {
		t.Errorf("a run that has ended: %v", m)
	}
}

func TestAPlanOverHTTPStaysInItsBounds(t *testing.T) {
	s := newWriter(t)
	reader, _ := s.narrow("version: 1\nname: reader\nrest: inherit\nfiles: {write: {allow: []}}\n")
	write := "steps: [{tool: fs.write, args: {path: out/x.txt, content: x}}]"
	for name, c := range map[string]struct{ token, body, code string }{
		"narrower grant":        {reader, planBody(t, write, ""), "E1001"},
		"planning":              {s.token, planBody(t, write, `,"planning":true`), "E6014"},
		"outside the workspace": {s.token, planBody(t, "steps: [{tool: fs.read, args: {path: /etc/hostname}}]", ""), "E1001"},
	} {
		t.Run(name, func(t *testing.T) {
			status, m := s.ask("POST", "/v1/runs", c.token, c.body)
			if status != http.StatusAccepted {
				t.Fatalf("%d %v", status, m)
			}
			id := m["run_id"].(string)
			if r := s.ended(id); r["status"] != "denied" {
				t.Errorf("the run is %v", r)
			}
			_, _, calls := s.raw("GET", "/v1/runs/"+id+"/calls", s.token, "")
			if !strings.Contains(string(calls), c.code) {
				t.Errorf("not %s: %s", c.code, calls)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(s.dir, "out", "x.txt")); err == nil {
		t.Error("the file was written")
	}
	for body, field := range map[string]string{
		`{"queue":{}}`: "body.plan", `{"plan":"steps: [{tool: no.such}]"}`: "1:9 steps[0].tool", `{"plan":"steps: []","inputs":{"x":1}}`: "", `{"frozen":{"version":1}}`: "",
		`{"plan":"policy: {}"}`: "",
	} {
		status, m := s.ask("POST", "/v1/runs", s.token, body)
		text, _ := json.Marshal(m["errors"])
		if status < 400 || status >= 500 || field != "" && !strings.Contains(string(text), `"`+field+`"`) {
			t.Errorf("%s: %d %v", body, status, m)
		}
	}
}

func TestAFrozenPlanOverHTTP(t *testing.T) {
	s := newWriter(t)
	a := s.beside()
	plan := "steps: [{id: w, tool: fs.write, args: {path: out/f.txt, content: frozen}}]"
	p, err := a.Runs.ParsePlan("plan", []byte(plan))
	if err != nil {
		t.Fatal(err)
	}
	f, err := a.Runs.Freeze(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(plan, "content: frozen", "content: other", 1)
	if status, m := s.ask("POST", "/v1/runs", s.token, planBody(t, other, `,"frozen":`+string(f.Encode()))); status != 403 || m["code"] != "E6015" {
		t.Errorf("another plan: %d %v", status, m)
	}
	m := s.must(202, "POST", "/v1/runs", `{"frozen":`+string(f.Encode())+`}`)
	if r := s.ended(m["run_id"].(string)); r["status"] != "completed" {
		t.Errorf("the run is %v", r)
	}
	call := func(content string) string {
		return `{"args":{"path":"out/f.txt","content":"` + content + `"},"frozen":` + string(f.Encode()) + `}`
	}
	if status, m := s.ask("POST", "/v1/tools/fs.write/invoke", s.token, call("other")); status != 403 || m["code"] != "E6015" {
		t.Errorf("another call: %d %v", status, m)
	}
	s.must(200, "POST", "/v1/tools/fs.write/invoke", call("frozen"))
	if status, m := s.ask("POST", "/v1/tools/fs.write/invoke", s.token, `{"args":{"path":"out/f.txt","content":"x"},"planning":true}`); status != 403 || m["code"] != "E6014" {
		t.Errorf("planning: %d %v", status, m)
	}
}

func TestARunOverHTTPWaitsAndIsCancelled(t *testing.T) {
	s := newWriter(t, func(q *app.ServeRequest) { q.Limits.Runs = 2 })
	asking, _ := s.narrow(askingPolicy)
	other, _ := s.narrow("version: 1\nname: other\nrest: inherit\napi: {allow: [tools.invoke, runs.read]}\n")
	plan := planBody(t, "steps: [{tool: time.now}, {tool: time.now}]", "")
	status, m := s.ask("POST", "/v1/runs", asking, plan)
	if status != 202 {
		t.Fatalf("%d %v", status, m)
	}
	id := m["run_id"].(string)
	if status, m := s.ask("POST", "/v1/runs", asking, plan); status != 503 || m["code"] != "E1005" {
		t.Errorf("one run too many: %d %v", status, m)
	}
	if status, m := s.ask("POST", "/v1/runs/"+id+"/cancel", other, ""); status != 404 {
		t.Errorf("another's grant: %d %v", status, m)
	}
	if r := s.must(200, "POST", "/v1/runs/"+id+"/cancel", ""); r["status"] != "cancelled" {
		t.Errorf("the run is %v", r)
	}
	status = 503
	for until := time.Now().Add(time.Minute); status == 503 && time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		status, m = s.ask("POST", "/v1/runs", asking, plan) // its place is free again, soon after the answer
	}
	if status != 202 {
		t.Fatalf("%d %v", status, m)
	}
	id = m["run_id"].(string)
	question := s.question(id)
	s.must(200, "POST", "/v1/approvals/"+question+"/approve", "{}")
	s.must(200, "POST", "/v1/approvals/"+s.question(id, question)+"/approve", "{}")
	if r := s.ended(id); r["status"] != "completed" {
		t.Errorf("the approved run is %v", r)
	}
}

// question waits for the question of a run that is not one of those known.
func (s *service) question(run string, known ...string) string {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		for _, q := range s.must(200, "GET", "/v1/approvals", "")["items"].([]any) {
			if q := q.(map[string]any); q["run_id"] == run && !slices.Contains(known, q["id"].(string)) {
				return q["id"].(string)
			}
		}
	}
	s.t.Fatalf("the run %s asks nothing", run)
	return ""
}

// A run does not outlive its grant.
func TestARunOverHTTPEndsWithItsGrant(t *testing.T) {
	s := newWriter(t)
	token, id := s.narrow(askingPolicy)
	_, m := s.ask("POST", "/v1/runs", token, planBody(t, "steps: [{tool: time.now}]", ""))
	run := m["run_id"].(string)
	s.question(run)
	s.must(200, "POST", "/v1/grants/"+id+"/revoke", "{}")
	if r := s.ended(run); r["status"] == "completed" {
		t.Errorf("the run is %v", r)
	}
	if status, m := s.ask("POST", "/v1/runs", token, planBody(t, "steps: [{tool: time.now}]", "")); status != 401 {
		t.Errorf("a revoked grant: %d %v", status, m)
	}
}

const planningScript = `
- tool_calls: [{name: fs_write, args: {path: out/p.txt, content: planned}}]
- text: "I would write it."
- tool_calls: [{name: fs_write, args: {path: out/p.txt, content: planned}}, {name: fs_write, args: {path: out/q.txt, content: other}}]
- {text: "Done.", repeat: true}
`

// An agent plans, a person freezes what it wanted, and the agent goes on with that alone.
func TestAnAgentPlansOverHTTP(t *testing.T) {
	s := newWriter(t, func(q *app.ServeRequest) {
		policy := strings.Replace(writerPolicy, "delegate: {actions: [api,", "models: {allow: [\"*\"]}\ndelegate: {actions: [api, models,", 1)
		for name, text := range map[string]string{q.Policy: policy, filepath.Join(q.Workspace, "plan.yaml"): planningScript} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	})
	a := s.must(201, "POST", "/v1/agents", `{"name":"Planner","model":"scripted:plan.yaml","capabilities":["workspace"]}`)
	made := s.must(201, "POST", "/v1/sessions", `{"agent_id":"`+a["id"].(string)+`","planning":true}`)
	if made["mode"] != "planning" {
		t.Errorf("the session is %v", made)
	}
	turn := s.must(201, "POST", "/v1/sessions/"+made["id"].(string)+"/messages", `{"content":"write it"}`)
	if turn["reply"] != "I would write it." || s.exists("out/p.txt") {
		t.Fatalf("the turn is %v", turn)
	}
	run := turn["session"].(map[string]any)["run_id"].(string)
	collected := s.must(200, "GET", "/v1/runs/"+run+"/plan", "")
	if collected["steps"] != 1.0 {
		t.Fatalf("collected: %v", collected)
	}
	status, _, f := s.raw("POST", "/v1/plans/freeze", s.token, planBody(t, collected["plan"].(string), ""))
	if status != 200 {
		t.Fatalf("%d %s", status, f)
	}
	path := "/v1/sessions/" + made["id"].(string) + "/fork"
	if m := s.must(201, "POST", path, ""); m["mode"] != "planning" {
		t.Errorf("a fork is %v", m)
	}
	fork := s.must(201, "POST", path, `{"frozen":`+string(f)+`}`)
	if fork["mode"] != "frozen" {
		t.Errorf("the fork is %v", fork)
	}
	id := fork["id"].(string)
	turn = s.must(201, "POST", "/v1/sessions/"+id+"/messages", `{"content":"now do it"}`)
	if b, err := os.ReadFile(filepath.Join(s.dir, "out", "p.txt")); err != nil || string(b) != "planned" || s.exists("out/q.txt") {
		t.Errorf("%q, %v: %v", b, err, turn)
	}
	s.stop()
	s.start() // the run has ended, and the next one would know nothing of its calls
	if status, m := s.ask("POST", "/v1/sessions/"+id+"/messages", s.token, `{"content":"again"}`); status != 403 || m["code"] != "E6015" {
		t.Errorf("a second run of the frozen plan: %d %v", status, m)
	}
	status, m := s.ask("POST", "/v1/commands", s.token, `{"line":"/call fs.write path=out/z.txt content=z","planning":true}`)
	if status != 403 || m["code"] != "E6014" || s.exists("out/z.txt") {
		t.Errorf("a slash command: %d %v", status, m)
	}
}

// What a slash command gives is a message of its session, for whoever may speak in it.
func TestACommandOfASessionIsAMessage(t *testing.T) {
	s := newService(t)
	id := s.session(s.token, `[]`)
	got := s.must(200, "POST", "/v1/commands", `{"line":"/call time.now","session_id":"`+id+`"}`)
	items := s.must(200, "GET", "/v1/sessions/"+id+"/messages", "")["items"].([]any)
	if len(items) != 1 {
		t.Fatalf("the conversation is %v", items)
	}
	m, run := items[0].(map[string]any), got["call"].(map[string]any)["run_id"].(string)
	if m["kind"] != "command" || !strings.HasPrefix(m["content"].(string), "/call time.now: completed (run "+run+")") {
		t.Errorf("the message is %v", m)
	}
	s.must(200, "POST", "/v1/commands", `{"line":"/help","session_id":"`+id+`"}`) // calls nothing
	if status, m := s.ask("POST", "/v1/commands", s.token, `{"line":"/call fs.read path=/etc/hostname","session_id":"`+id+`"}`); status != 403 || m["code"] != "E1001" {
		t.Errorf("a refused command: %d %v", status, m)
	}
	if n := len(s.must(200, "GET", "/v1/sessions/"+id+"/messages", "")["items"].([]any)); n != 2 {
		t.Errorf("%d messages", n)
	}
	other, _ := s.narrow("version: 1\nname: other\nrest: inherit\napi: {allow: [tools.invoke]}\n")
	if status, m := s.ask("POST", "/v1/commands", other, `{"line":"/call time.now","session_id":"`+id+`"}`); status != 404 {
		t.Errorf("another's session: %d %v", status, m)
	}
}
