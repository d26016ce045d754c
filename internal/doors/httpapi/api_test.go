package httpapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/tools/model"
)

func TestAgentsAreMadeChangedAndListed(t *testing.T) {
	s := server(t, newWorld())
	rec := post("/v1/agents", `{"name":"Clock","system_prompt":"Be brief.","capabilities":["current_time",{"ref":"web_fetch","config":{"a":1}}]}`).of(s)
	a := wantStatus(t, rec, 201)
	id, _ := a["id"].(string)
	if rec.Header().Get("Location") != "/v1/agents/"+id || rec.Header().Get("ETag") != `"v1"` {
		t.Errorf("headers %v", rec.Header())
	}
	caps, _ := a["capabilities"].([]any)
	if len(caps) != 2 || caps[0] != "current_time" || caps[1].(map[string]any)["ref"] != "web_fetch" {
		t.Errorf("capabilities %v", caps)
	}
	patch := ask{method: "PATCH", path: "/v1/agents/" + id, token: "admin", body: `{"capabilities":["web_fetch","current_time"]}`}
	a = wantStatus(t, patch.of(s), 200)
	if caps, _ = a["capabilities"].([]any); len(caps) != 2 || caps[0] != "web_fetch" || a["name"] != "Clock" {
		t.Errorf("after the change: %v", a)
	}
	wantStatus(t, patch.with("If-Match", `"v1"`).of(s), 412)
	wantStatus(t, patch.with("If-Match", `"v2"`).of(s), 200)
	wantStatus(t, patch.with("If-Match", `v2`).of(s), 400)
	for range 4 {
		wantStatus(t, post("/v1/agents", `{"name":"More"}`).of(s), 201)
	}
	seen, next := map[any]bool{}, ""
	for page := 0; ; page++ {
		l := wantStatus(t, get("/v1/agents?limit=2&cursor="+next).of(s), 200)
		for _, one := range l["items"].([]any) {
			seen[one.(map[string]any)["id"]] = true
		}
		if next, _ = l["next"].(string); next == "" || page > 5 {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("the pages have %d agents, want 5", len(seen))
	}
	wantStatus(t, ask{method: "DELETE", path: "/v1/agents/" + id, token: "admin"}.of(s), 204)
}

func TestBodiesAreStrict(t *testing.T) {
	s := server(t, newWorld())
	for name, c := range map[string]struct {
		body  string
		want  int
		field string
	}{
		"unknown field":           {`{"name":"a","sytem_prompt":"p"}`, 422, "body.sytem_prompt"},
		"wrong type":              {`{"name":5}`, 422, "body.name"},
		"missing":                 {`{}`, 422, "body"},
		"empty name":              {`{"name":""}`, 422, "body.name"},
		"bad capability":          {`{"name":"a","capabilities":[5]}`, 422, "body.capabilities[0]"},
		"capability's field":      {`{"name":"a","capabilities":[{"ref":"web_fetch","more":1}]}`, 422, "body.capabilities[0]"},
		"the same key twice":      {`{"name":"a","name":"b"}`, 400, "body"},
		"two values":              {`{"name":"a"} {}`, 400, "body"},
		"no JSON":                 {`name: a`, 400, "body"},
		"a list":                  {`[]`, 422, "body"},
		"deep":                    {`{"name":` + strings.Repeat("[", 9000) + `}`, 400, "body"},
		"limits":                  {`{"name":"a","limits":{"steps":-1}}`, 422, "body.limits.steps"},
		"unknown capability":      {`{"name":"a","capabilities":["nope"]}`, 422, "capabilities"},
		"half a surrogate":        {`{"name":"\ud800"}`, 400, "body"},
		"nothing":                 {``, 400, ""},
		"another case":            {`{"Name":"a"}`, 422, "body"},
		"a number that is no one": {`{"name":"a","limits":{"steps":1.5}}`, 422, "body.limits.steps"},
	} {
		rec := post("/v1/agents", c.body).of(s)
		if rec.Code != c.want {
			t.Errorf("%s: status %d, want %d: %s", name, rec.Code, c.want, rec.Body)
			continue
		}
		checkProblem(t, rec)
		if !strings.Contains(rec.Body.String(), `"`+c.field) {
			t.Errorf("%s: the field %q is not named: %s", name, c.field, rec.Body)
		}
		if strings.Contains(rec.Body.String(), "Go ") {
			t.Errorf("%s: it speaks of Go: %s", name, rec.Body)
		}
	}
	wantStatus(t, post("/v1/agents", `{"name":"a"}`).with("Content-Type", "text/plain").of(s), 415)
	wantStatus(t, post("/v1/agents", `{"name":"`+strings.Repeat("x", 2<<20)+`"}`).of(s), 413)
	wantStatus(t, get("/v1/agents?limit=0").of(s), 422)
	wantStatus(t, get("/v1/agents?lmit=1").of(s), 422)
	wantStatus(t, get("/v1/agents?cursor=AAAA").of(s), 400)
	wantStatus(t, ask{method: "GET", path: "/v1/agents", token: "admin", body: "x"}.of(s), 400)
	wantStatus(t, get("/v1/nothing").of(s), 404)
	if rec := (ask{method: "PUT", path: "/v1/agents", token: "admin", body: "{}"}).of(s); rec.Code != 405 || rec.Header().Get("Allow") != "GET, POST" {
		t.Errorf("PUT: %d, Allow %q", rec.Code, rec.Header().Get("Allow"))
	}
}

func TestATurnIsAnswered(t *testing.T) {
	s := server(t, newWorld())
	_, id := agentAndSession(t, s, "admin")
	turn := wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"hello"}`).of(s), 201)
	if turn["reply"] != "you said: hello" || turn["message"].(map[string]any)["content"] != "hello" || len(turn["messages"].([]any)) != 2 {
		t.Errorf("the turn is %v", turn)
	}
	rec := post("/v1/sessions/"+id+"/messages", `{"content":"again"}`).with("Prefer", "respond-async").of(s)
	if m := wantStatus(t, rec, 202); m["status"] != "working" || rec.Header().Get("Preference-Applied") != "respond-async" {
		t.Errorf("asynchronous: %v %v", m, rec.Header())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.Drain(ctx) // the turn is over
	l := wantStatus(t, get("/v1/sessions/"+id+"/messages?limit=3").of(s), 200)
	next, _ := l["next"].(string)
	if len(l["items"].([]any)) != 3 || next == "" {
		t.Fatalf("the first page: %v", l)
	}
	if l = wantStatus(t, get("/v1/sessions/"+id+"/messages?limit=3&cursor="+next).of(s), 200); len(l["items"].([]any)) != 1 || l["next"] != nil {
		t.Errorf("the last page: %v", l)
	}
}

func TestATurnThatWaitsForAPersonIsToldOf(t *testing.T) {
	w := newWorld()
	answered := make(chan struct{})
	w.turn = func(ctx context.Context, w *world, id, _ string, on func(agent.Event)) error {
		w.happen(id, agent.Event{Type: agent.StateChanged, State: agent.Waiting}, on)
		time.Sleep(20 * time.Millisecond) // nothing is answered before the question is known
		w.happen(id, agent.Event{Type: agent.ApprovalDue, Question: someID}, on)
		select {
		case <-answered:
		case <-ctx.Done():
		}
		w.happen(id, said(model.Assistant, "done"), on)
		return nil
	}
	s := server(t, w)
	_, id := agentAndSession(t, s, "admin")
	m := wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"do it"}`).of(s), 202)
	if m["status"] != "waiting" || m["approval_id"] != someID || m["message"].(map[string]any)["content"] != "do it" {
		t.Errorf("it says %v", m)
	}
	close(answered)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s.Drain(ctx) // the turn finished by itself
	if l := wantStatus(t, get("/v1/sessions/"+id+"/messages").of(s), 200); len(l["items"].([]any)) != 2 {
		t.Errorf("after the answer: %v", l)
	}
	wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"x"}`).of(s), 503)
	if rec := get("/readyz").as("").of(s); rec.Code != 503 {
		t.Errorf("ready: %d", rec.Code)
	}
}

func TestErrorsOfTurnsAreProblems(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	_, id := agentAndSession(t, s, "admin")
	for _, c := range []struct {
		err  error
		want int
		code string
	}{
		{fault.New(fault.ModelFailed, "the provider failed"), 502, "E8010"},
		{fault.New(fault.ModelBusy, "too many"), 503, "E8011"},
		{fault.New(fault.BudgetSpent, "no tokens are left"), 403, "E6012"},
		{fault.New(fault.Denied, "models x/y"), 403, "E1001"},
		{fault.New(fault.SessionBusy, "it works"), 409, "E8004"},
		{errors.New("/home/ann/.remit/remit.db: disk on fire"), 500, "E9999"},
		{fault.New(fault.StoreReadOnly, "/home/ann/.remit/remit.db cannot be written"), 503, "E5004"},
	} {
		w.turn = func(context.Context, *world, string, string, func(agent.Event)) error { return c.err }
		rec := post("/v1/sessions/"+id+"/messages", `{"content":"x"}`).of(s)
		if m := wantStatus(t, rec, c.want); m["code"] != c.code {
			t.Errorf("%v: %v", c.err, m)
		}
		if strings.Contains(rec.Body.String(), "/home") {
			t.Errorf("it tells of the inside: %s", rec.Body)
		}
	}
}

func TestRepeatedRequestsAreMadeOnce(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	make1 := post("/v1/agents", `{"name":"one"}`).with("Idempotency-Key", "k1")
	first := wantStatus(t, make1.of(s), 201)
	rec := make1.of(s)
	if again := wantStatus(t, rec, 201); again["id"] != first["id"] || rec.Header().Get("Idempotency-Replayed") != "true" || rec.Header().Get("ETag") != `"v1"` {
		t.Errorf("again: %v %v", again, rec.Header())
	}
	if m := wantStatus(t, post("/v1/agents", `{"name":"two"}`).with("Idempotency-Key", "k1").of(s), 422); m["code"] != "E2010" {
		t.Errorf("another body: %v", m)
	}
	w.caller("bob", "user:bob", "*")
	if other := wantStatus(t, make1.as("bob").of(s), 201); other["id"] == first["id"] {
		t.Error("another grant's key gave this one's answer")
	}
	w.revoke("bob")
	wantStatus(t, make1.as("bob").of(s), 401)
	_, id := agentAndSession(t, s, "admin")
	wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"x"}`).with("Idempotency-Key", "k2", "Accept", "text/event-stream").of(s), 400)
	wantStatus(t, post("/v1/agents", `{"name":"x"}`).with("Idempotency-Key", strings.Repeat("k", 300)).of(s), 400)
}

func TestWhatMayComeToAnotherAnswerIsNotRemembered(t *testing.T) {
	w := newWorld()
	s := server(t, w)
	_, id := agentAndSession(t, s, "admin")
	send := post("/v1/sessions/"+id+"/messages", `{"content":"x"}`).with("Idempotency-Key", "k")
	for code, status := range map[fault.Code]int{fault.ModelBusy: 503, fault.NeedsApproval: 403, fault.LimitReached: 429} {
		w.busy = fault.New(code, "later")
		wantStatus(t, send.of(s), status)
	}
	w.busy = nil
	wantStatus(t, send.of(s), 201)
	if n := len(w.messages[id]); n != 2 {
		t.Errorf("the session has %d messages, want the message and its answer", n)
	}
}

func TestCallersReachWhatTheyBegan(t *testing.T) {
	w := newWorld()
	all := []string{"agents.read", "sessions.read", "sessions.write", "files.read", "files.write"}
	w.caller("ann", "user:a", all...)
	w.caller("bob", "user:b", all...)
	s := server(t, w)
	_, id := agentAndSession(t, s, "ann")
	for _, p := range []string{"", "/messages", "/files"} {
		wantStatus(t, get("/v1/sessions/"+id+p).as("ann").of(s), 200)
		if m := wantStatus(t, get("/v1/sessions/"+id+p).as("bob").of(s), 404); m["code"] != "E8003" {
			t.Errorf("%s: %v", p, m)
		}
		wantStatus(t, get("/v1/sessions/"+id+p).as("admin").of(s), 200)
	}
	for _, p := range []string{"messages", "cancel", "pause", "resume", "fork"} {
		body := ""
		if p == "messages" {
			body = `{"content":"give me what ann may"}`
		}
		if p == "fork" {
			body = "{}"
		}
		wantStatus(t, post("/v1/sessions/"+id+"/"+p, body).as("bob").of(s), 404)
	}
	wantStatus(t, ask{method: "DELETE", path: "/v1/sessions/" + id, token: "bob"}.of(s), 404)
	wantStatus(t, ask{method: "PUT", path: "/v1/sessions/" + id + "/files/x", token: "bob", body: "x"}.of(s), 404)
	if l := wantStatus(t, get("/v1/sessions").as("bob").of(s), 200); len(l["items"].([]any)) != 0 {
		t.Errorf("bob sees %v", l)
	}
	if l := wantStatus(t, get("/v1/sessions").as("ann").of(s), 200); len(l["items"].([]any)) != 1 {
		t.Errorf("ann sees %v", l)
	}
	w.caller("reader", "user:r", "sessions.read", "sessions.write", "others.read")
	wantStatus(t, get("/v1/sessions/"+id).as("reader").of(s), 200)
	wantStatus(t, post("/v1/sessions/"+id+"/messages", `{"content":"x"}`).as("reader").of(s), 404)
}

func TestFilesHaveVersions(t *testing.T) {
	s := server(t, newWorld())
	_, id := agentAndSession(t, s, "admin")
	base := "/v1/sessions/" + id + "/files/"
	put := func(path, body string, header ...string) ask {
		return ask{method: "PUT", path: base + path, token: "admin", body: body}.with(header...)
	}
	rec := put("notes/today.md", "# today").of(s)
	if m := wantStatus(t, rec, 200); m["path"] != "/notes/today.md" || rec.Header().Get("ETag") != `"v1"` {
		t.Errorf("written: %v %v", m, rec.Header())
	}
	rec = get(base + "notes/today.md").of(s)
	if rec.Code != 200 || rec.Body.String() != "# today" || rec.Header().Get("Content-Type") != "application/octet-stream" || rec.Header().Get("Content-Disposition") != "attachment" {
		t.Errorf("read: %d %q %v", rec.Code, rec.Body, rec.Header())
	}
	if m := wantStatus(t, get(base+"notes%2Ftoday.md").with("Accept", "application/json").of(s), 200); m["content"] != "# today" || m["encoding"] != "text" {
		t.Errorf("as JSON: %v", m)
	}
	wantStatus(t, put("notes/today.md", "b", "If-Match", `"v7"`).of(s), 412)
	wantStatus(t, put("notes/today.md", "\xff\xfe", "If-Match", `"v1"`).of(s), 200)
	if m := wantStatus(t, get(base+"notes/today.md").with("Accept", "application/json").of(s), 200); m["content"] != "//4=" || m["encoding"] != "base64" {
		t.Errorf("bytes as JSON: %v", m)
	}
	wantStatus(t, put("empty", "").of(s), 200)
	wantStatus(t, put("x", "y", "If-None-Match", "*").of(s), 400)
	for _, bad := range []string{"../x", "a/../b", "a//b", "./x", "a/%00", "..%2Fx", "a/"} {
		if rec := put(bad, "x").of(s); rec.Code != 400 && rec.Code != 404 {
			t.Errorf("%q: %d %s", bad, rec.Code, rec.Body)
		}
	}
	if l := wantStatus(t, get("/v1/sessions/"+id+"/files").of(s), 200); l["total"] != 2.0 {
		t.Errorf("the list: %v", l)
	}
	wantStatus(t, ask{method: "DELETE", path: base + "notes/today.md", token: "admin"}.of(s), 204)
	wantStatus(t, get(base+"notes/today.md").of(s), 404)
	wantStatus(t, put("big", strings.Repeat("x", 17<<20)).of(s), 413)
}

func TestForeignPagesAreRefused(t *testing.T) {
	s := server(t, newWorld(), func(o *httpapi.Options) { o.Hosts = []string{"remit.example"} })
	for _, c := range []struct {
		host, origin, site string
		want               int
	}{
		{"127.0.0.1", "", "", 200}, {"localhost:8080", "", "", 200}, {"[::1]:1", "", "", 200}, {"remit.example", "", "", 200}, {"127.8.8.8", "", "", 200},
		{"evil.example", "", "", 403}, {"127.0.0.1.nip.example", "", "", 403}, {"10.0.0.1", "", "", 403}, {"", "", "", 403},
		{"127.0.0.1", "https://evil.example", "", 403}, {"127.0.0.1", "null", "", 403}, {"127.0.0.1", "", "cross-site", 403},
		{"127.0.0.1", "http://127.0.0.1", "same-origin", 200}, {"127.0.0.1", "http://localhost", "", 403}, {"127.0.0.1", "http://127.0.0.1:99", "", 403},
	} {
		a := get("/v1/agents")
		a.header = map[string]string{}
		if c.origin != "" {
			a.header["Origin"] = c.origin
		}
		if c.site != "" {
			a.header["Sec-Fetch-Site"] = c.site
		}
		rec := a.on(c.host).of(s)
		if rec.Code != c.want {
			t.Errorf("%+v: %d %s", c, rec.Code, rec.Body)
		}
		if rec.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%+v: other origins are let in", c)
		}
	}
}

// TestBalancersCallTheServiceByItsAddress: a balancer names no host, or the node's address. It gets a
// status and nothing else; other paths, and pages of other origins, get nothing.
func TestBalancersCallTheServiceByItsAddress(t *testing.T) {
	down := errors.New("the reason")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		for _, host := range []string{"", "10.0.0.1", "10.0.0.1:8642", "node-1.internal", "[fd00::1]:8642"} {
			s := server(t, newWorld(), func(o *httpapi.Options) { o.Ready = func(context.Context) error { return down } })
			for _, method := range []string{"GET", "HEAD"} {
				rec := ask{method: method, path: path}.on(host).of(s)
				if rec.Code != want || rec.Body.Len() > 0 {
					t.Errorf("%s %s of %q: %d %s", method, path, host, rec.Code, rec.Body)
				}
			}
			for header, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
				a := get(path).as("")
				a.header = map[string]string{header: value}
				wantStatus(t, a.on(host).of(s), 403)
			}
			for _, other := range []string{"/metrics", "/v1/agents", path + "/", "/%72eadyz/.."} {
				if rec := get(other).on(host).of(s); rec.Code != 403 {
					t.Errorf("%s of %q: %d", other, host, rec.Code)
				}
			}
			wantStatus(t, ask{method: "POST", path: path}.on(host).of(s), 403)
		}
	}
}

func TestRatesAreBounded(t *testing.T) {
	w := newWorld()
	w.caller("bob", "user:bob", "*")
	s := server(t, w, func(o *httpapi.Options) { o.Limits.Rate, o.Limits.Burst, o.Limits.Refused = 0.001, 5, 0.001 })
	last := 0
	for range 7 {
		last = get("/v1/agents").of(s).Code
	}
	if rec := get("/v1/agents").of(s); last != 429 || rec.Header().Get("Retry-After") == "" {
		t.Errorf("after seven: %d", last)
	}
	wantStatus(t, get("/v1/agents").as("bob").of(s), 200)
	wantStatus(t, get("/v1/agents").as("guess1").of(s), 401)
	wantStatus(t, get("/v1/agents").as("guess2").of(s), 429)
	wantStatus(t, get("/v1/agents").as("bob").of(s), 200)
	wantStatus(t, get("/healthz").as("").of(s), 200)
}

func TestEveryRequestIsToldOf(t *testing.T) {
	w := newWorld()
	w.caller("weak", "agent:weak", "agents.read")
	s := server(t, w)
	wantStatus(t, post("/v1/agents", `{"name":"a"}`).with("X-Request-Id", "my-id").of(s), 201)
	rec := post("/v1/agents", `{"name":"a"}`).as("weak").of(s)
	p := wantStatus(t, rec, 403)
	if p["instance"] != "urn:remit:request:"+rec.Header().Get("X-Request-Id") {
		t.Errorf("the request's ID: %v %v", p, rec.Header())
	}
	if len(w.log) != 2 {
		t.Fatalf("%d entries", len(w.log))
	}
	if e := w.log[0]; e.ID != "my-id" || e.Who != "user:ann" || e.Action != "agents.write" || !e.Changes || e.Status != 201 || e.Operation != "createAgent" {
		t.Errorf("the first: %+v", e)
	}
	if e := w.log[1]; e.Who != "agent:weak" || e.Code != "E1001" || e.Status != 403 {
		t.Errorf("the second: %+v", e)
	}
}

func TestMessagesFromANumberAndTheirCalls(t *testing.T) {
	s := server(t, newWorld())
	id, _ := wantStatus(t, post("/v1/agents", `{"name":"a"}`).of(s), 201)["id"].(string)
	one, _ := wantStatus(t, post("/v1/sessions", `{"agent_id":"`+id+`"}`).of(s), 201)["id"].(string)
	for range 3 {
		wantStatus(t, post("/v1/sessions/"+one+"/messages", `{"content":"x"}`).of(s), 201)
	}
	list, _ := wantStatus(t, get("/v1/sessions/"+one+"/messages?from=5&limit=2").of(s), 200)["items"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["number"] != 5.0 {
		t.Errorf("from 5: %v", list)
	}
	wantStatus(t, get("/v1/sessions/"+one+"/messages?from=0").of(s), 422)
	if calls, _ := wantStatus(t, get("/v1/sessions/"+one+"/calls?from=2&to=4").of(s), 200)["items"].([]any); len(calls) != 2 {
		t.Errorf("calls %v", calls)
	}
	for _, q := range []string{"", "?from=2", "?from=3&to=2", "?from=1&to=501"} {
		wantStatus(t, get("/v1/sessions/"+one+"/calls"+q).of(s), 422)
	}
	wantStatus(t, get("/v1/sessions/"+someID+"/calls?from=1&to=2").of(s), 404)
	wantStatus(t, get("/v1/sessions?parent_id="+someID).of(s), 404)
	if l, _ := wantStatus(t, get("/v1/sessions?status=failed").of(s), 200)["items"].([]any); len(l) != 0 {
		t.Errorf("failed sessions: %v", l)
	}
	if a := wantStatus(t, get("/v1/agents/"+id+"/effective").of(s), 200); a["agent_id"] != id {
		t.Errorf("effective: %v", a)
	}
	if c := wantStatus(t, get("/v1/capabilities/web_fetch").of(s), 200); c["prompt"] != "use web_fetch" || c["name"] != "Web" {
		t.Errorf("capability: %v", c)
	}
}

func TestSlashCommands(t *testing.T) {
	s := server(t, newWorld())
	if l, _ := wantStatus(t, get("/v1/commands").of(s), 200)["items"].([]any); len(l) != 1 || l[0].(map[string]any)["text"] != "/elp" {
		t.Errorf("completions %v", l)
	}
	if m := wantStatus(t, get("/v1/commands/help").of(s), 200); m["help"] != "/help\n" {
		t.Errorf("help %v", m)
	}
	wantStatus(t, get("/v1/commands/help?topic=x").of(s), 404)
	// Without a session, the last response is the grant's own.
	call, _ := wantStatus(t, post("/v1/commands", `{"line":"/call time.now"}`).of(s), 200)["call"].(map[string]any)
	if call["output"] != "user:ann /call time.now of grant grant-admin" {
		t.Errorf("output %v", call["output"])
	}
	wantStatus(t, post("/v1/commands", `{"line":"/call time.now","session_id":"`+someID+`"}`).of(s), 404)
	wantStatus(t, post("/v1/commands", `{"line":""}`).of(s), 422)
}
