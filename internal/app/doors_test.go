package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/service/grants"
)

// belongings are things of ann, by the name of the parameter that has their ID.
type belongings map[string]string

// belongs has ann make one of each thing that belongs to somebody.
func (s *team) belongs() belongings {
	s.t.Helper()
	ann := s.person("ann", "developers")
	o := s.works(ann)
	out := belongings{"session_id": o.session, "run_id": o.run, "grant_id": o.grant, "approval_id": s.asks(ann), "queued": o.queued}
	_, made := s.ask("POST", "/v1/schedules", ann, `{"name":"nightly","cron":"0 3 * * *","plan":"name: x\nsteps: [{tool: time.now}]\n"}`)
	out["schedule_id"], _ = made["schedule_id"].(string)
	if out["schedule_id"] == "" {
		s.t.Fatalf("a schedule: %v", made)
	}
	return out
}

// root issues a grant to a person of this machine, under a policy of its own.
func (s *service) root(holder, api string) (token, id string) {
	s.t.Helper()
	p, err := policy.Parse("root.yaml", []byte("version: 1\nname: root\ntools: {allow: [\"*\"]}\nmodels: {allow: [\"*\"]}\nfiles: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\n"+
		"delegate: {actions: [api, files.read, files.write, models, tools], to: [\"*\"], depth: 8}\napi: "+api+"\n"))
	if err != nil {
		s.t.Fatal(err)
	}
	made, err := s.beside().Grants.Issue(s.t.Context(), grants.Terms{Workspace: s.dir, Holder: holder, Expires: time.Hour, Parsed: []*policy.Policy{p}})
	if err != nil {
		s.t.Fatal(err)
	}
	return made.Text, made.Claims.Leaf().String()
}

// requestOf is a request of an operation, with one ID of a thing that belongs to somebody.
type requestOf struct {
	name, method, path string
	body               []byte
	kind               string // of the content
	id                 string // "": the request names nothing of anybody
	changes            bool
}

const (
	unknownID = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"
	someID    = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b55"
)

// idFields are the parameters and fields that name something that belongs to somebody.
var idFields = map[string]string{"session_id": "session_id", "run_id": "run_id", "run": "run_id", "runs": "run_id", "grant_id": "grant_id",
	"approval_id": "approval_id", "schedule_id": "schedule_id", "parent_id": ""}

// requests makes one request of each operation in the published document for each ID that it
// takes.
func requests(t *testing.T, s *service, things belongings) []requestOf {
	t.Helper()
	var out []requestOf
	for path, item := range s.must(200, "GET", "/v1/openapi.json", "")["paths"].(map[string]any) {
		for method, o := range item.(map[string]any) {
			op := o.(map[string]any)
			base := requestOf{name: op["operationId"].(string), method: strings.ToUpper(method), kind: "application/json"}
			base.changes = method != "get" && !strings.HasPrefix(path, "/v1/policies/")
			var example map[string]any
			fields := map[string]any{}
			if rb, ok := op["requestBody"].(map[string]any); ok {
				content := rb["content"].(map[string]any)
				if j, ok := content["application/json"].(map[string]any); ok {
					example, _ = j["example"].(map[string]any)
					fields = properties(t, s, j["schema"].(map[string]any))
				} else {
					base.kind, base.body = "application/octet-stream", []byte("x")
				}
			}
			filled := pathOf(path, things)
			n := len(out)
			add := func(id, path string, extra map[string]any) {
				r := base
				r.id, r.path = id, path
				if base.kind == "application/json" && (example != nil || extra != nil || method == "post" || method == "patch") {
					body := map[string]any{}
					for k, v := range example {
						body[k] = v
					}
					for k, v := range extra {
						if body[k] = v; v == nil {
							delete(body, k)
						}
					}
					r.body, _ = json.Marshal(body)
				}
				out = append(out, r)
			}
			params, _ := op["parameters"].([]any)
			for _, one := range params {
				if p := one.(map[string]any); p["in"] == "query" && p["required"] == true {
					filled += map[bool]string{true: "?", false: "&"}[!strings.Contains(filled, "?")] + p["name"].(string) + "=1"
				}
			}
			if id := idIn(path, things); id != "" {
				add(id, filled, nil)
			}
			for _, one := range params {
				p := one.(map[string]any)
				if id := things[idFields[p["name"].(string)]]; p["in"] == "query" && id != "" {
					add(id, filled+"?"+p["name"].(string)+"="+id, nil)
				}
			}
			for name := range fields {
				if id := things[idFields[name]]; id != "" {
					var v any = id
					if name == "runs" {
						v = []any{id}
					}
					extra := map[string]any{name: v}
					if _, ok := fields["content"]; ok { // a message instead of a plan
						extra["content"], extra["plan"] = "Hi", nil
					}
					add(id, filled, extra)
				}
			}
			if len(out) == n {
				add("", filled, nil)
			}
		}
	}
	if len(out) < 60 {
		t.Fatalf("%d requests", len(out))
	}
	return out
}

// properties are the fields of a body.
func properties(t *testing.T, s *service, schema map[string]any) map[string]any {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		all := s.must(200, "GET", "/v1/openapi.json", "")["components"].(map[string]any)["schemas"].(map[string]any)
		schema = all[ref[strings.LastIndexByte(ref, '/')+1:]].(map[string]any)
	}
	out, _ := schema["properties"].(map[string]any)
	return out
}

// pathParameter is a parameter of a path that names something that belongs to somebody.
var pathParameter = regexp.MustCompile(`\{(session_id|run_id|grant_id|approval_id|schedule_id)\}`)

func idIn(path string, things belongings) string {
	m := pathParameter.FindStringSubmatch(path)
	switch {
	case m == nil:
		return ""
	case strings.HasPrefix(path, "/v1/queue/"):
		return things["queued"]
	}
	return things[m[1]]
}

func pathOf(path string, things belongings) string {
	path = pathParameter.ReplaceAllString(path, idIn(path, things))
	return strings.NewReplacer("{agent_id}", someID, "{tool_id}", "time.now", "{capability_id}", "noop", "{path}", "notes.md", "{index}", "1", "{number}", "1", "{seq}", "1").Replace(path)
}

// newest is the number of the newest event in the record.
func (s *service) newest() float64 {
	s.t.Helper()
	return s.must(200, "GET", "/v1/audit?limit=1", "")["items"].([]any)[0].(map[string]any)["seq"].(float64)
}

// unchanged checks that since an event nothing but refusals was recorded.
func (s *service) unchanged(name string, since float64) {
	s.t.Helper()
	for _, one := range s.must(200, "GET", "/v1/audit?limit=20", "")["items"].([]any) {
		if e := one.(map[string]any); e["seq"].(float64) > since && e["event"] != "violation" && e["event"] != "grant_refused" {
			s.t.Errorf("%s: the record has %v", name, e)
		}
	}
}

// TestABodyAfterTheRevocationHasNoEffect: each operation that takes a body gets it when the
// caller's grant has been revoked, after the request was let in by its header.
func TestABodyAfterTheRevocationHasNoEffect(t *testing.T) {
	s := newTeam(t)
	things := s.belongs()
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	walked := requests(t, s.service, things)
	for _, path := range []string{"/mcp"} {
		walked = append(walked, requestOf{name: path, method: "POST", path: path, kind: "application/json",
			body: []byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"0"}}}`)})
	}
	n := 0
	for _, r := range walked {
		if len(r.body) == 0 || strings.HasPrefix(r.path, "/v1/login") || strings.HasPrefix(r.path, "/oauth") {
			continue
		}
		n++
		token, id := s.root("user:eve", `{allow: ["*"]}`)
		c, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
			r.method, r.path, u.Host, token, r.kind, len(r.body))
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(c)
		line, err := in.ReadString('\n') // the service waits for the body: it has let the request in
		if err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%s %s: %q %v", r.method, r.path, line, err)
		}
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		s.must(200, "POST", "/v1/grants/"+id+"/revoke", `{}`)
		before := s.newest()
		if _, err := c.Write(r.body); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusUnauthorized {
			b, _ := io.ReadAll(io.LimitReader(res.Body, 300))
			t.Errorf("%s: %d %s", r.name, res.StatusCode, b)
		}
		_ = res.Body.Close()
		_ = c.Close()
		s.unchanged(r.name, before)
	}
	if n < 35 {
		t.Errorf("%d operations with a body", n)
	}
}

// TestAReadChangesNothing: each operation with GET is repeated, for each thing that it can name. Nothing is
// recorded.
func TestAReadChangesNothing(t *testing.T) {
	s := newTeam(t)
	made := 0
	for _, r := range requests(t, s.service, s.belongs()) {
		if r.method != http.MethodGet || strings.Contains(r.path, "/events") { // a stream does not end
			continue
		}
		before := s.newest()
		for range 2 {
			if status, _, _ := s.raw(r.method, r.path, s.token, ""); status == http.StatusOK {
				made++
			}
		}
		if now := s.newest(); now != before {
			s.unchanged(r.name, before)
			t.Errorf("%s: the newest event is %v, and was %v", r.name, now, before)
		}
	}
	if made < 60 {
		t.Errorf("only %d requests were answered", made)
	}
}

// TestOfChangesOfOneVersionOneIsMade: many clients change one version of a thing at once.
func TestOfChangesOfOneVersionOneIsMade(t *testing.T) {
	s := newService(t)
	session := s.session(s.token, `["session_file_system"]`)
	a := s.must(201, "POST", "/v1/agents", `{"name":"A"}`)
	s.must(200, "PUT", "/v1/sessions/"+session+"/files/a.txt", "one")
	for _, r := range []requestOf{{method: "PATCH", path: "/v1/agents/" + a["id"].(string), body: []byte(`{"name":"B"}`)}, {method: "PUT", path: "/v1/sessions/" + session + "/files/a.txt", body: []byte("two")},
		{method: "DELETE", path: "/v1/sessions/" + session + "/files/a.txt"}} {
		version := `"v1"`
		if r.method == "DELETE" {
			version = `"v2"`
		}
		statuses := make([]int, 8)
		var clients sync.WaitGroup
		for i := range statuses {
			clients.Go(func() { statuses[i], _, _ = s.raw(r.method, r.path, s.token, string(r.body), "If-Match", version) })
		}
		clients.Wait()
		made := 0
		for _, status := range statuses {
			if status/100 == 2 {
				made++
			} else if status != http.StatusPreconditionFailed && status != http.StatusNotFound && status != http.StatusConflict {
				t.Errorf("%s %s: %d", r.method, r.path, status)
			}
		}
		if made != 1 {
			t.Errorf("%s %s: made %d times: %v", r.method, r.path, made, statuses)
		}
	}
}

// answerTo is the answer to a request, without what differs between any two requests.
func (s *service) answerTo(r requestOf, token, id string) (status int, text string) {
	s.t.Helper()
	path, body := r.path, string(r.body)
	if r.id != "" {
		path, body = strings.ReplaceAll(path, r.id, id), strings.ReplaceAll(body, r.id, id)
	}
	header := []string{"X-Request-Id", "same", "Content-Type", r.kind}
	if body == "" {
		header = header[:2]
	}
	status, h, b := s.raw(r.method, path, token, body, header...)
	h.Del("Date")
	return status, fmt.Sprintf("%d %v %s", status, h, strings.ReplaceAll(string(b), id, "ID"))
}

// TestThingsOfOthersAreUnknown: for each operation and each right to things of others, a thing of
// another person is answered to the byte as one that does not exist, and stays as it is, unless
// the caller has the right that the operation needs: others.write for all that change something.
func TestThingsOfOthersAreUnknown(t *testing.T) {
	s := newTeam(t)
	things := s.belongs()
	walked := requests(t, s.service, things)
	slices.SortFunc(walked, func(a, b requestOf) int { // those that end something come last
		return strings.Compare(rank(a)+a.name+a.path, rank(b)+b.name+b.path)
	})
	// With others.write things are changed, and some end: it comes last.
	for _, right := range [][2]string{{"none", `{allow: ["*"], deny: [others.read, others.write]}`}, {"read", `{allow: ["*"], deny: [others.write]}`}, {"write", `{allow: ["*"], deny: [others.read]}`}} {
		token, _ := s.root("user:eve", right[1])
		reached := 0
		for _, r := range walked {
			may := right[0] == "read" && !r.changes || right[0] == "write" && r.changes
			if r.id == "" || may && strings.HasSuffix(r.path, "/events") { // a stream does not end
				continue
			}
			before := s.newest()
			_, unknown := s.answerTo(r, token, unknownID)
			_, foreign := s.answerTo(r, token, r.id)
			switch {
			case may && foreign != unknown:
				reached++
			case may:
				t.Errorf("%s with others.%s: a thing of another person is unknown: %s", r.name, right[0], foreign)
			case foreign != unknown:
				t.Errorf("%s with others.%s: a thing of another person differs from an unknown one:\n%s\n%s", r.name, right[0], foreign, unknown)
			case r.changes:
				s.unchanged(r.name, before)
			}
		}
		if right[0] != "none" && reached < 12 {
			t.Errorf("with others.%s, %d operations reach the things of others", right[0], reached)
		}
	}
}

// rank puts requests that end their thing behind all others.
func rank(r requestOf) string {
	if r.method == "DELETE" {
		return "2"
	}
	return "1"
}

// TestADelegateOfAReviewerSeesNoQuestions: whom a reviewer hands a grant on to answers nothing, so
// the questions of others are unknown to it, at each operation with questions.
func TestADelegateOfAReviewerSeesNoQuestions(t *testing.T) {
	s := newTeam(t)
	s.stop()
	s.write(filepath.Join(s.homeDir, "roles", "reviewer.yaml"), "version: 1\nname: reviewer\nrest: inherit\nfiles: {}\napi: {allow: [approvals.*, runs.read, grants.write]}\n")
	s.begin()
	ann, bob := s.person("ann", "developers"), s.person("bob", "reviewers")
	id := s.asks(ann)
	if status, list := s.ask("GET", "/v1/approvals", bob, ""); status != 200 || len(list["items"].([]any)) != 1 {
		t.Fatalf("the reviewer sees %d %v", status, list)
	}
	for name, terms := range map[string]string{"handed on": `{"holder":"agent:helper"}`, "narrowed": `{"expires_in":600}`} {
		_, g := s.ask("POST", "/v1/grants", bob, terms)
		token, _ := g["token"].(string)
		for _, all := range []string{"", "?all=true"} {
			if status, list := s.ask("GET", "/v1/approvals"+all, token, ""); status != 200 || len(list["items"].([]any)) > 0 {
				t.Errorf("%s: %d %v", name, status, list)
			}
		}
		for _, r := range [][2]string{{"GET", ""}, {"GET", "/history"}, {"POST", "/approve"}, {"POST", "/deny"}} {
			if status, got := s.ask(r[0], "/v1/approvals/"+id+r[1], token, ""); status != 404 {
				t.Errorf("%s: %s %s: %d %v", name, r[0], r[1], status, got)
			}
		}
	}
}

// TestNoFormChangesThingsOfOthers: each form of the web UI with the ID of another person's thing,
// with each of the answers that forms have, by a person who may read everything.
func TestNoFormChangesThingsOfOthers(t *testing.T) {
	s := newTeam(t)
	s.write(filepath.Join(s.homeDir, "roles", "reader.yaml"), "version: 1\nname: reader\nrest: inherit\nfiles: {}\napi: {allow: [\"*\"], deny: [others.write]}\n")
	s.stop()
	s.begin()
	things := s.belongs()
	b := s.signIn("eve", "readers")
	files, err := filepath.Glob("../doors/webui/templates/*.html")
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	answers := map[[2]string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`name="(do|answer)" value="([a-z]+)"`).FindAllStringSubmatch(string(text), -1) {
			answers[[2]string{m[1], m[2]}] = true
		}
	}
	for _, more := range []string{"pause", "resume", "revoke", "run", "remove"} {
		answers[[2]string{"do", more}] = true
	}
	if len(answers) < 25 {
		t.Fatalf("%d answers", len(answers))
	}
	before := s.newest()
	for path, id := range map[string]string{"sessions": things["session_id"], "runs": things["run_id"], "changes": things["run_id"], "grants": things["grant_id"],
		"schedules": things["schedule_id"], "approvals": things["approval_id"], "queue": ""} {
		path = strings.TrimSuffix("/ui/"+path+"/"+id, "/")
		if id != "" {
			if res, _ := b.do("GET", path, nil); res.StatusCode != 200 && !strings.HasPrefix(path, "/ui/changes") {
				t.Errorf("%s: %d", path, res.StatusCode)
			}
		}
		for a := range answers {
			if path == "/ui/queue" && a[1] != "cancel" {
				continue // the queue is of all
			}
			b.do("POST", path, url.Values{a[0]: {a[1]}, "run": {things["queued"]}, "content": {"Hi"}, "digest": {"0"}, "version": {"1"}, "cron": {"* * * * *"}, "zone": {"UTC"}})
		}
		s.unchanged(path, before)
	}
}
