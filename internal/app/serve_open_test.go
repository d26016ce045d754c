package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/app"
)

// open opens a run.
func (s *service) open(token, body string) string {
	s.t.Helper()
	status, m := s.ask("POST", "/v1/runs", token, body)
	if status != http.StatusCreated || m["status"] != "running" {
		s.t.Fatalf("opening a run: %d %v", status, m)
	}
	return m["run_id"].(string)
}

// add adds a call to an open run.
func (s *service) add(token, run, id, args string, header ...string) (int, map[string]any) {
	s.t.Helper()
	return s.ask("POST", "/v1/tools/"+id+"/invoke", token, fmt.Sprintf(`{"run_id":%q,"args":%s}`, run, args), header...)
}

func (s *service) addTime(token, run string) (int, map[string]any) {
	s.t.Helper()
	return s.add(token, run, "time.now", "{}")
}

// wants checks a status and an error number.
func (s *service) wants(what string, status int, m map[string]any, want int, code string) {
	s.t.Helper()
	if status != want || code != "" && m["code"] != code || code != "" && m["hint"] == nil {
		s.t.Errorf("%s: %d %v; want %d %s with a hint", what, status, m, want, code)
	}
}

// policied is newService under a policy.
func policied(t *testing.T, text string, change ...func(*app.ServeRequest)) *service {
	t.Helper()
	own := func(q *app.ServeRequest) {
		if err := os.WriteFile(q.Policy, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return newService(t, append([]func(*app.ServeRequest){own}, change...)...)
}

const openPolicy = `version: 1
name: opener
api: {allow: ["*"]}
files: {read: {allow: ["**"]}, write: {allow: ["**"]}}
delegate: {actions: [api, files.read, files.write, tools], to: ["*"], depth: 8}
`

// TestCallsAtOnceShareAnOpenRun: calls that callers add at once get the indexes 1 to n, and count
// together against the limits of the run.
func TestCallsAtOnceShareAnOpenRun(t *testing.T) {
	const most, callers, each = 9, 6, 4
	s := policied(t, openPolicy+fmt.Sprintf("limits: {calls: %d}\n", most))
	run := s.open(s.token, `{"name":"many"}`)
	var mu sync.Mutex
	var indexes []int
	done := 0
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range each {
				status, m := s.addTime(s.token, run)
				mu.Lock()
				if status == http.StatusOK {
					done++
				} else if m["code"] != "E1005" {
					t.Errorf("%d %v", status, m)
				}
				indexes = append(indexes, int(m["call"].(float64)))
				if m["run_id"] != run {
					t.Errorf("the call is of %v", m["run_id"])
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	slices.Sort(indexes)
	for i, n := range indexes {
		if n != i+1 {
			t.Fatalf("the indexes are %v", indexes)
		}
	}
	r := s.must(200, "POST", "/v1/runs/"+run+"/finish", "")
	if done != most || r["name"] != "many" || r["total"] != float64(callers*each) || r["completed"] != float64(most) || r["status"] != "denied" {
		t.Errorf("%d calls were made of %d: %v", done, most, r)
	}
	s.verifies(t)
}

// TestAnOpenRunKeepsItsLabels: what a call has read decides the later ones of its run, and of no
// other run. Calls outside of a run are refused, since nothing is known of the earlier ones.
func TestAnOpenRunKeepsItsLabels(t *testing.T) {
	s := policied(t, openPolicy+"labels:\n  private: {from: [\"files private/**\"], kind: confidential}\nflows:\n  private: {only: [\"files private/**\"]}\n")
	if err := os.MkdirAll(filepath.Join(s.dir, "private"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "private", "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := s.open(s.token, "{}"), s.open(s.token, "{}")
	write := `{"path":"out.txt","content":"x"}`
	for _, step := range []struct {
		run, tool, args, code string
	}{
		{a, "fs.write", write, ""}, {a, "fs.read", `{"path":"private/a"}`, ""}, {a, "fs.write", write, "E6024"}, {b, "fs.write", write, ""}, {a, "fs.read", `{"path":"private/a"}`, ""},
	} {
		if status, m := s.add(s.token, step.run, step.tool, step.args); (status == 200) != (step.code == "") || step.code != "" && m["code"] != step.code {
			t.Errorf("%s in %s: %d %v", step.tool, step.run, status, m)
		}
	}
	status, m := s.ask("POST", "/v1/tools/fs.write/invoke", s.token, `{"args":`+write+`}`)
	s.wants("a call of its own", status, m, 403, "E6024")
	if hint, _ := m["hint"].(string); !strings.Contains(hint, "run_id") {
		t.Errorf("the hint does not name the way out: %s", hint)
	}
}

// TestAnOpenRunIsOfItsGrant: only the grant that opened a run adds calls and, with those above it, ends it. For others it is
// not there.
func TestAnOpenRunIsOfItsGrant(t *testing.T) {
	s := policied(t, openPolicy)
	mine := "version: 1\nname: mine\nrest: inherit\napi: {allow: [tools.invoke, runs.read, grants.write]}\n"
	ann, _ := s.narrow(mine)
	bob, _ := s.narrow(mine)
	status, m := s.ask("POST", "/v1/grants", ann, `{"policies":["version: 1\nname: below\nrest: inherit\n"]}`)
	if status != 201 {
		t.Fatalf("%d %v", status, m)
	}
	below := m["token"].(string)
	run := s.open(ann, "{}")
	for name, token := range map[string]string{"a stranger": bob, "a grant below": below} {
		for _, path := range []string{"/v1/tools/time.now/invoke", "/v1/runs/RUN/finish", "/v1/runs/RUN/cancel"} {
			var answers [2]string
			for i, id := range []string{run, uuid.Must(uuid.NewV7()).String()} {
				body := ""
				if strings.HasSuffix(path, "invoke") {
					body = `{"run_id":"` + id + `"}`
				}
				status, _, b := s.raw("POST", strings.ReplaceAll(path, "RUN", id), token, body, "X-Request-Id", "same")
				answers[i] = fmt.Sprint(status, strings.ReplaceAll(string(b), id, "ID"))
			}
			if !strings.HasPrefix(answers[0], "404") || answers[0] != answers[1] {
				t.Errorf("%s, %s: %s and %s", name, path, answers[0], answers[1])
			}
		}
	}
	status, m = s.addTime(s.token, run) // the admin sees it
	s.wants("the grant above", status, m, 403, "E1001")
	if status, m := s.addTime(ann, run); status != 200 || m["call"] != 1.0 {
		t.Errorf("the grant itself: %d %v", status, m)
	}
	if r := s.must(200, "POST", "/v1/runs/"+run+"/finish", ""); r["total"] != 1.0 {
		t.Errorf("%v", r)
	}
}

// TestOddRunsTakeNoCalls: IDs of any bytes, and runs of other kinds.
func TestOddRunsTakeNoCalls(t *testing.T) {
	s := policied(t, openPolicy)
	run := s.open(s.token, "{}")
	for _, id := range []string{"", " ", run[:35], run + "0", strings.ToUpper(run), "{" + run + "}", "urn:uuid:" + run, strings.ReplaceAll(run, "-", ""), run + "\x00", "../" + run, "\u202e" + run, "null", uuid.Nil.String(), strings.Repeat("a", 100)} {
		b, err := json.Marshal(map[string]any{"run_id": id})
		if err != nil {
			t.Fatal(err)
		}
		status, m := s.ask("POST", "/v1/tools/time.now/invoke", s.token, string(b))
		if id == "" && status == 200 && m["run_id"] != run {
			continue // as without it
		}
		if status != 404 {
			t.Errorf("%q: %d %v", id, status, m)
		}
	}
	for _, body := range []string{`{"run_id":7}`, `{"run_id":["` + run + `"]}`, `{"run_id":"` + run + `","run_id":"` + run + `"}`, `{"RUN_ID":"` + run + `"}`, `{"run_id":"` + strings.Repeat("a", 101) + `"}`} {
		if status, m := s.ask("POST", "/v1/tools/time.now/invoke", s.token, body); status != 422 && status != 400 {
			t.Errorf("%s: %d %v", body, status, m)
		}
	}
	_, m := s.ask("POST", "/v1/runs", s.token, planBody(t, "steps: [{tool: time.now}]", ""))
	planned := m["run_id"].(string)
	s.ended(planned)
	status, m := s.addTime(s.token, planned)
	s.wants("a run that has ended", status, m, 409, "E2010")
	for body, field := range map[string]string{`{"inputs":{"x":1}}`: "body.inputs", planBody(t, "steps: [{tool: time.now}]", `,"name":"x"`): "body.name", `{"name":"` + strings.Repeat("x", 101) + `"}`: "body.name", `{"queue":{}}`: "body.plan"} {
		status, m := s.ask("POST", "/v1/runs", s.token, body)
		if errs, _ := m["errors"].([]any); status != 422 || len(errs) == 0 || errs[0].(map[string]any)["field"] != field {
			t.Errorf("%s: %d %v", body, status, m)
		}
	}
	if r := s.must(200, "GET", "/v1/runs/"+run, ""); r["total"] != 0.0 {
		t.Errorf("the run got calls: %v", r)
	}
}

// TestAnOpenRunNarrows: what narrows a run holds for all of its calls, and no call changes it.
func TestAnOpenRunNarrows(t *testing.T) {
	s := policied(t, openPolicy)
	run, write := s.open(s.token, `{"planning":true}`), `{"path":"out.txt","content":"x"}`
	status, m := s.add(s.token, run, "fs.write", write)
	s.wants("a write while planning", status, m, 403, "E6014")
	for _, more := range []string{`"planning":true`, `"frozen":{"version":1}`, `"planning":true,"frozen":{}`} {
		status, m = s.ask("POST", "/v1/tools/fs.write/invoke", s.token, `{"run_id":"`+run+`","args":`+write+`,`+more+`}`)
		s.wants(more, status, m, 422, "E2002")
	}
	held := s.open(s.token, `{"changeset":true}`)
	if status, m := s.add(s.token, held, "fs.write", write); status != 200 {
		t.Errorf("a held write: %d %v", status, m)
	}
	s.must(200, "POST", "/v1/runs/"+held+"/finish", "")
	if _, err := os.Stat(filepath.Join(s.dir, "out.txt")); err == nil {
		t.Error("the file was written")
	}
}

// TestAnOpenRunEnds: by request, with a change of its policies, and with the service.
func TestAnOpenRunEnds(t *testing.T) {
	s := policied(t, openPolicy, func(q *app.ServeRequest) { q.Limits.RunIdle = time.Hour })
	status := func(run string) string { return fmt.Sprint(s.must(200, "GET", "/v1/runs/"+run, "")["status"]) }
	for verb, want := range map[string]string{"finish": "completed", "cancel": "cancelled"} {
		run := s.open(s.token, "{}")
		if r := s.must(200, "POST", "/v1/runs/"+run+"/"+verb, ""); r["status"] != want {
			t.Errorf("%s: %v", verb, r)
		}
		for _, again := range []string{"finish", "cancel"} {
			code, m := s.ask("POST", "/v1/runs/"+run+"/"+again, s.token, "")
			s.wants(verb+", then "+again, code, m, 409, "E2010")
			if strings.Contains(fmt.Sprint(m["hint"]), "open another run") {
				t.Errorf("%s, then %s: the hint is for calls: %v", verb, again, m)
			}
		}
		code, m := s.addTime(s.token, run)
		s.wants(verb+", then a call", code, m, 409, "E2010")
		if !strings.Contains(fmt.Sprint(m["hint"]), "open another run") {
			t.Errorf("%s, then a call: %v", verb, m)
		}
	}
	x := &changed{service: s}
	run := s.open(s.token, "{}")
	undo := file("policy.yaml", noTime, true)(x)
	code, m := s.addTime(s.token, run)
	s.wants("a changed policy", code, m, 409, "E2010")
	if detail := fmt.Sprint(m["detail"]); !strings.Contains(detail, "policies have changed") {
		t.Errorf("a changed policy: %s", detail)
	}
	undo()
	left := s.open(s.token, "{}")
	if got := status(left); got != "running" {
		t.Errorf("before the service stops, the run is %s", got)
	}
	s.stop()
	s.start()
	if got := status(left); got != "completed" {
		t.Errorf("the service stopped, and the run is %s", got)
	}
}

// TestAnIdleRunEnds: without a call for a while.
func TestAnIdleRunEnds(t *testing.T) {
	s := policied(t, openPolicy, func(q *app.ServeRequest) { q.Limits.RunIdle = 50 * time.Millisecond })
	if r := s.ended(s.open(s.token, "{}")); r["status"] != "completed" {
		t.Errorf("an idle run: %v", r)
	}
}

// TestAnOpenRunEndsWithItsGrant: though it is not idle for long enough.
func TestAnOpenRunEndsWithItsGrant(t *testing.T) {
	s := policied(t, openPolicy, func(q *app.ServeRequest) { q.Limits.RunIdle = time.Hour })
	for name, end := range map[string]func(id string){
		"revoked": func(id string) { s.must(200, "POST", "/v1/grants/"+id+"/revoke", "{}") }, "expired": func(string) {},
	} {
		more := ""
		if name == "expired" {
			more = `,"expires_in":5`
		}
		token, id := s.narrow("version: 1\nname: short\nrest: inherit\n", more)
		run := s.open(token, "{}")
		end(id)
		if r := s.ended(run); r["status"] != "completed" {
			t.Errorf("%s: %v", name, r)
		}
		if code, m := s.addTime(token, run); code != 401 {
			t.Errorf("%s: %d %v", name, code, m)
		}
	}
}

// TestACancelledRunEndsItsCalls: a call under way ends, and the run with it. So it is where another
// request waits for the end of the calls to finish the run.
func TestACancelledRunEndsItsCalls(t *testing.T) {
	s := policied(t, openPolicy+"tools: {ask: [time.now]}\n")
	for _, finishes := range []bool{false, true} {
		run := s.open(s.token, "{}")
		call := s.meanwhile("POST", callTime, s.token, `{"wait":600,"run_id":"`+run+`"}`)
		s.asked()
		var finish <-chan got
		if finishes {
			finish = s.meanwhile("POST", "/v1/runs/"+run+"/finish", s.token, "")
			s.eventually("the run takes no calls", func() bool {
				_, m := s.add(s.token, run, "random.uuid", "{}")
				return m["code"] == "E2010"
			})
		}
		if r := s.must(200, "POST", "/v1/runs/"+run+"/cancel", ""); r["status"] != "cancelled" || r["completed"] != 0.0 {
			t.Errorf("finishes %t: %v", finishes, r)
		}
		if a := s.answer(call); a.m["output"] != nil {
			t.Errorf("finishes %t: the call was made: %+v", finishes, a)
		}
		if finishes {
			if a := s.answer(finish); a.status != 200 || a.m["status"] != "cancelled" {
				t.Errorf("finish: %+v", a)
			}
		}
	}
}

// TestKeysHoldInOpenRuns: a repeated call of an open run is made once, also after a restart.
func TestKeysHoldInOpenRuns(t *testing.T) {
	s := policied(t, openPolicy)
	a, b := s.open(s.token, "{}"), s.open(s.token, "{}")
	write := func(run string) (int, map[string]any) {
		return s.add(s.token, run, "fs.write", `{"path":"out.txt","content":"x"}`, "Idempotency-Key", "k")
	}
	s.addTime(s.token, a)
	_, first := write(a)
	if first["call"] != 2.0 {
		t.Fatalf("the first: %v", first)
	}
	if _, m := write(a); m["call"] != 2.0 || m["run_id"] != a {
		t.Errorf("again: %v", m)
	}
	if status, m := write(b); status != 422 || m["code"] != "E2010" {
		t.Errorf("in another run: %d %v", status, m)
	}
	_, _, key := s.raw("POST", "/v1/runs", s.token, "{}", "Idempotency-Key", "open")
	s.must(200, "POST", "/v1/runs/"+a+"/finish", "")
	s.stop()
	s.start()
	if status, m := write(a); status != 200 || m["call"] != 2.0 || m["tool"] != "fs.write" {
		t.Errorf("after a restart: %d %v", status, m)
	}
	status, _, again := s.raw("POST", "/v1/runs", s.token, "{}", "Idempotency-Key", "open")
	var was, is map[string]any
	if json.Unmarshal(key, &was) != nil || json.Unmarshal(again, &is) != nil || status != 201 || was["run_id"] != is["run_id"] {
		t.Errorf("opened again: %d %s; was %s", status, again, key)
	}
	if r := s.must(200, "GET", "/v1/runs/"+a, ""); r["total"] != 2.0 {
		t.Errorf("%v", r)
	}
}

// TestAnOpenRunIsOpenAtOneService: another service of the ledger neither makes the call nor ends the
// run.
func TestAnOpenRunIsOpenAtOneService(t *testing.T) {
	s := policied(t, openPolicy)
	run := s.open(s.token, "{}")
	other := &service{t: t, homeDir: s.homeDir, dir: s.dir, env: s.env, policy: s.policy}
	other.start()
	status, m := other.addTime(s.token, run)
	s.wants("a call at another service", status, m, 409, "E2010")
	for _, verb := range []string{"finish", "cancel"} {
		status, m = other.ask("POST", "/v1/runs/"+run+"/"+verb, s.token, "")
		s.wants(verb+" at another service", status, m, 409, "E2010")
	}
	other.stop()
	if status, m := s.addTime(s.token, run); status != 200 || m["call"] != 1.0 {
		t.Errorf("%d %v", status, m)
	}
}

// TestOpenRunsAreBounded: a person gets a share of the open runs, and a run that ended gives its
// place back.
func TestOpenRunsAreBounded(t *testing.T) {
	s := policied(t, openPolicy, func(q *app.ServeRequest) { q.Limits.OpenRuns = 4 })
	a, _ := s.open(s.token, "{}"), s.open(s.token, "{}")
	status, m := s.ask("POST", "/v1/runs", s.token, "{}")
	s.wants("a third of four", status, m, 503, "E1005")
	s.must(200, "POST", "/v1/runs/"+a+"/finish", "")
	s.open(s.token, "{}")
}
