package app_test

import (
	"bufio"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/people/oidctest"
)

// owned is what a person made.
type owned struct{ session, run, queued, grant string }

// works has a person make one of each thing that belongs to somebody.
func (s *team) works(token string) owned {
	s.t.Helper()
	var out owned
	out.session = s.session(token, `["current_time"]`)
	if status, got := s.ask("POST", "/v1/sessions/"+out.session+"/messages", token, `{"content":"Hi"}`); status != 201 || got["reply"] != "Hello." {
		s.t.Fatalf("a turn: %d %v", status, got)
	}
	_, got := s.call(token, "fs.read", `{"path": "clock.yaml"}`)
	out.run, _ = got["run_id"].(string)
	s.must(200, "POST", "/v1/queue/pause", "")
	_, got = s.ask("POST", "/v1/runs", token, planBody(s.t.(*testing.T), "name: later\nsteps: [{tool: time.now}]\n", `,"queue":{"delay":3600}`))
	out.queued, _ = got["run_id"].(string)
	_, got = s.ask("POST", "/v1/grants", token, `{"holder":"agent:docs"}`)
	out.grant, _ = got["id"].(string)
	if out.run == "" || out.queued == "" || out.grant == "" {
		s.t.Fatalf("made %+v, last %v", out, got)
	}
	return out
}

// sees gives the answers to a token that asks for each thing, by its path and in lists.
func (s *team) sees(token string, o owned) map[string]int {
	s.t.Helper()
	out := map[string]int{}
	for _, path := range []string{"/v1/sessions/" + o.session, "/v1/sessions/" + o.session + "/messages", "/v1/runs/" + o.run, "/v1/queue/" + o.queued, "/v1/grants/" + o.grant} {
		out[path], _ = s.ask("GET", path, token, "")
	}
	for path, id := range map[string]string{"/v1/sessions": o.session, "/v1/runs": o.run, "/v1/queue": o.queued, "/v1/grants": o.grant} {
		status, _, b := s.raw("GET", path, token, "")
		if status == 200 && !strings.Contains(string(b), id) {
			status = 404
		}
		out[path] = status
	}
	return out
}

func (s *team) wantSees(name, token string, o owned, want int) {
	s.t.Helper()
	for path, status := range s.sees(token, o) {
		if status != want {
			s.t.Errorf("%s: %s is %d, want %d", name, path, status, want)
		}
	}
}

// TestAPersonsWorkIsThePersons: it goes on under the person's next grant, and nobody else has it.
func TestAPersonsWorkIsThePersons(t *testing.T) {
	s := newTeam(t)
	ann := s.person("ann", "developers")
	o := s.works(ann)
	s.stop()
	s.begin() // every person gets another grant
	s.wantSees("the next grant", ann, o, 200)
	b := s.signIn("ann", "developers")
	for path, want := range map[string]string{"/ui/sessions/" + o.session: "Hello.", "/ui/runs/" + o.run: o.run, "/ui/sessions": o.session} {
		if res, text := b.do(http.MethodGet, path, nil); res.StatusCode != 200 || !strings.Contains(text, want) {
			t.Errorf("in the browser, %s: %d", path, res.StatusCode)
		}
	}
	if status, got := s.ask("POST", "/v1/sessions/"+o.session+"/messages", ann, `{"content":"What time is it?"}`); status != 201 || got["reply"] != "It is now." {
		t.Errorf("the session under the next grant: %d %v", status, got)
	}
	if status, got := s.ask("POST", "/v1/queue/"+o.queued+"/cancel", ann, ""); status != 200 {
		t.Errorf("the queued run under the next grant: %d %v", status, got)
	}
	s.wantSees("another person", s.person("bob", "developers"), o, 404)
	// What the person narrows or hands on has what was made under it, and no more.
	for name, body := range map[string]string{"handed on": `{"holder":"agent:docs"}`, "narrowed": `{"expires_in":600}`} {
		_, got := s.ask("POST", "/v1/grants", ann, body)
		token, _ := got["token"].(string)
		s.wantSees(name, token, o, 404)
		if status, got := s.ask("POST", "/v1/sessions/"+o.session+"/messages", token, `{"content":"Hi"}`); status != 404 {
			t.Errorf("%s: a message: %d %v", name, status, got)
		}
	}
}

// TestAPersonIsOneOfTheirIssuer: neither the subject nor the name of the issuer alone is a person.
func TestAPersonIsOneOfTheirIssuer(t *testing.T) {
	s := newTeam(t)
	o := s.works(s.person("ann", "developers"))
	other := oidctest.New("ui", "hush-hush-hush")
	t.Cleanup(other.Close)
	s.stop()
	first := s.idp.URL
	config := func(more string) {
		s.bindings(developers + more)
		s.begin()
	}
	s.idp.URL = other.URL // the settings' name is the same, its issuer another
	config("")
	evil := other.Sign(other.Claims("remit", map[string]any{"sub": "ann", "groups": []string{"developers"}}))
	s.wantSees("the same subject and name of another issuer", evil, o, 404)
	if status, got := s.ask("POST", "/v1/sessions/"+o.session+"/messages", evil, `{"content":"Hi"}`); status != 404 {
		t.Errorf("a message: %d %v", status, got)
	}
	s.stop()
	s.idp.URL = first
	config("")
	s.wantSees("the person", s.person("ann", "developers"), o, 200)
}

// TestALesserRoleContinuesWithLess: a session's next turn has the authority that its person has
// then.
func TestALesserRoleContinuesWithLess(t *testing.T) {
	s := newTeam(t)
	at := func(d time.Duration) { s.idp.Now = func() time.Time { return time.Now().Add(d) } }
	at(-20 * time.Second)
	before := s.person("ann", "developers")
	o := s.works(before)
	at(-10 * time.Second)
	less := s.person("ann", "readers")
	status, got := s.ask("POST", "/v1/sessions/"+o.session+"/messages", less, `{"content":"What time is it?"}`)
	if status != 201 {
		t.Fatalf("the next turn: %d %v", status, got)
	}
	_, calls := s.ask("GET", "/v1/sessions/"+o.session+"/calls?from=1&to=20", less, "")
	list := calls["items"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["status"] != "denied" {
		t.Errorf("the call that the lesser role denies is %v", list)
	}
	s.wantSees("the token of the greater role", before, o, 401)
	at(-5 * time.Second)
	if status, got := s.ask("GET", "/v1/sessions/"+o.session, s.person("ann", "visitors"), ""); status != 403 {
		t.Errorf("without a role: %d %v", status, got)
	}
	if status, got := s.ask("GET", "/v1/sessions/"+o.session, less, ""); status != 401 {
		t.Errorf("the lesser role's token after that: %d %v", status, got)
	}
}

// TestAPersonUndoesNothingOfTheOperators: a person's newer grant does not resume an older one, and
// a revoked one stays revoked.
func TestAPersonUndoesNothingOfTheOperators(t *testing.T) {
	s := newTeam(t)
	s.idp.Now = func() time.Time { return time.Now().Add(-20 * time.Second) }
	ann := s.person("ann", "developers")
	o := s.works(ann)
	_, g := s.ask("GET", "/v1/grants/"+o.grant, ann, "")
	first, _ := g["parent_id"].(string)
	s.stop()
	s.begin()
	s.wantSees("the next grant", ann, o, 200)
	s.must(200, "POST", "/v1/grants/"+first+"/pause", `{}`)
	if status, got := s.ask("POST", "/v1/grants/"+first+"/resume", ann, `{}`); status != 403 {
		t.Errorf("resuming the older grant: %d %v", status, got)
	}
	if status, got := s.ask("POST", "/v1/grants/"+o.grant+"/revoke", ann, `{}`); status != 200 {
		t.Errorf("revoking what the older grant handed on: %d %v", status, got)
	}
	_, list := s.ask("GET", "/v1/grants?holder=user:company:ann", s.token, "")
	for _, one := range list["items"].([]any) {
		s.must(200, "POST", "/v1/grants/"+one.(map[string]any)["id"].(string)+"/revoke", `{}`)
	}
	s.wantSees("a revoked grant", ann, o, 401)
	s.wantSees("a sign-in after that", s.again("ann", "developers"), o, 200)
}

// TestARequestIsMadeOncePerPerson: an Idempotency-Key is known under the person's next grant.
func TestARequestIsMadeOncePerPerson(t *testing.T) {
	s := newTeam(t)
	ann := s.person("ann", "developers")
	_, a := s.ask("POST", "/v1/agents", ann, `{"name":"Clock","model":"scripted:clock.yaml"}`)
	body := `{"agent_id":"` + a["id"].(string) + `"}`
	if status, got := s.ask("POST", "/v1/sessions", ann, body, "Idempotency-Key", "k1"); status != 201 {
		t.Fatalf("%d %v", status, got)
	}
	s.stop()
	s.begin()
	if status, got := s.ask("POST", "/v1/sessions", ann, body, "Idempotency-Key", "k1"); status != 409 {
		t.Errorf("the same request after a restart: %d %v", status, got)
	}
	if status, got := s.ask("POST", "/v1/sessions", s.person("bob", "developers"), body, "Idempotency-Key", "k1"); status != 201 {
		t.Errorf("another person's request with that key: %d %v", status, got)
	}
}

// TestAUniqueKeyIsOfAPerson: a person's next grant does not queue a second run of a key.
func TestAUniqueKeyIsOfAPerson(t *testing.T) {
	s := newTeam(t)
	s.must(200, "POST", "/v1/queue/pause", "")
	queued := func(name string) any {
		t.Helper()
		status, got := s.ask("POST", "/v1/runs", s.person(name, "developers"), planBody(t, "name: q\nsteps: [{tool: fs.read, args: {path: clock.yaml}}]\n", `,"queue":{"unique":"nightly"}`))
		if status != 202 && status != 200 {
			t.Fatalf("%s: %d %v", name, status, got)
		}
		return got["run_id"]
	}
	first := queued("ann")
	s.stop()
	s.begin()
	if again := queued("ann"); again != first {
		t.Errorf("under the person's next grant: %v; the first was %v", again, first)
	}
	if other := queued("bob"); other == first {
		t.Error("another person's key is taken")
	}
}

// TestMCPSessionsAreOfAPerson: a person's next token continues one, another person's does not.
func TestMCPSessionsAreOfAPerson(t *testing.T) {
	s := newTeam(t)
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	accept := []string{"Accept", "application/json, text/event-stream"}
	status, header, b := s.raw("POST", "/mcp", s.person("ann", "developers"), hello, accept...)
	id := header.Get("Mcp-Session-Id")
	if status != 200 || id == "" {
		t.Fatalf("%d %s", status, b)
	}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	in := append([]string{"Mcp-Session-Id", id}, accept...)
	if status, _, b := s.raw("POST", "/mcp", s.person("bob", "developers"), list, in...); status != 404 {
		t.Errorf("another person: %d %s", status, b)
	}
	next := s.idp.Sign(s.idp.Claims("remit", map[string]any{"sub": "ann", "groups": []string{"developers"}, "jti": "next"}))
	if status, _, b := s.raw("POST", "/mcp", next, list, in...); status != 200 || !strings.Contains(string(b), "time_now") && !strings.Contains(string(b), "time.now") {
		t.Errorf("the person's next token: %d %.300s", status, b)
	}
}

// follows reads the stream of questions after an event, and gives the first one of it.
func (s *team) follows(token, after string) func() string {
	s.t.Helper()
	r := request(s.t, http.MethodGet, s.url+"/v1/approvals/events", "", "Authorization", "Bearer "+token, "Last-Event-ID", after)
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 {
		s.t.Fatalf("the stream: %v %v", res, err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	return func() string {
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				return data
			}
		}
		return ""
	}
}

// TestAReviewerSeesLiveWhatMayBeReviewed: a reviewer sees questions as they are asked; other people do not.
func TestAReviewerSeesLiveWhatMayBeReviewed(t *testing.T) {
	s := newTeam(t)
	ann, bob, dan := s.person("ann", "developers"), s.person("bob", "reviewers"), s.person("dan", "developers")
	browser := s.signIn("bob", "reviewers")
	newest := s.must(200, "GET", "/v1/audit?limit=1", "")["items"].([]any)[0].(map[string]any)["seq"].(float64)
	after := strconv.Itoa(int(newest)) // a stream "from now on" may begin after the question
	ofBob, ofDan := s.follows(bob, after), s.follows(dan, after)
	live := browser.send(request(t, "GET", s.url, "").Context(), http.MethodGet, "/ui/events?after="+after, nil)
	defer func() { _ = live.Body.Close() }()
	lines := bufio.NewScanner(live.Body)
	first := s.asks(ann)
	if got := ofBob(); !strings.Contains(got, first) || !strings.Contains(got, "question_asked") {
		t.Errorf("the reviewer is told %s", got)
	}
	if status, got := s.call(dan, "fs.write", `{"path": "danger.txt", "content": "boom"}`); status != 403 || got["code"] != "E1002" {
		t.Fatalf("%d %v", status, got)
	}
	if got := ofDan(); strings.Contains(got, first) || !strings.Contains(got, "question_asked") {
		t.Errorf("another developer is told %s", got)
	}
	told := ""
	for told == "" && lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok && lines.Scan() {
			told = id + " " + lines.Text()
		}
	}
	if !strings.Contains(told, `"approvals"`) {
		t.Errorf("the reviewer's browser is told %q", told)
	}
	if status, _ := s.ask("GET", "/v1/events", bob, ""); status != 403 {
		t.Errorf("the whole record: %d", status)
	}
}
