package app_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

const waitPolicy = openPolicy + "tools: {ask: [time.now]}\n"

// got is an answer to a request that was made meanwhile.
type got struct {
	status int
	m      map[string]any
	took   time.Duration
}

// meanwhile makes a request, and gives its answer later.
func (s *service) meanwhile(method, path, token, body string, header ...string) <-chan got {
	ch := make(chan got, 1)
	go func() {
		began := time.Now()
		status, m := s.ask(method, path, token, body, header...)
		ch <- got{status, m, time.Since(began)}
	}()
	return ch
}

// asked is the newest question that waits.
func (s *service) asked() string {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if items, _ := s.must(200, "GET", "/v1/approvals", "")["items"].([]any); len(items) > 0 {
			return items[0].(map[string]any)["id"].(string)
		}
	}
	s.t.Fatal("nothing is asked")
	return ""
}

func (s *service) state(question string) string {
	return fmt.Sprint(s.must(200, "GET", "/v1/approvals/"+question, "")["state"])
}

const callTime, waits = "/v1/tools/time.now/invoke", `{"wait":60}`

// TestACallWaitsForItsAnswer: in a run of its own, and in an open one.
func TestACallWaitsForItsAnswer(t *testing.T) {
	s := policied(t, waitPolicy)
	for name, body := range map[string]string{"alone": waits, "in an open run": `{"wait":60,"run_id":"` + s.open(s.token, "{}") + `"}`} {
		for answer, want := range map[string]int{"approve": 200, "deny": 403} {
			ch := s.meanwhile("POST", callTime, s.token, body)
			q := s.asked()
			s.must(200, "POST", "/v1/approvals/"+q+"/"+answer, "{}")
			a := <-ch
			if a.status != want || want == 200 && a.m["output"] == nil || want == 403 && (a.m["code"] != "E1002" || !strings.Contains(fmt.Sprint(a.m["detail"]), "refused by")) {
				t.Errorf("%s, %s: %d %v", name, answer, a.status, a.m)
			}
			if status, m := s.ask("POST", "/v1/approvals/"+q+"/approve", s.token, "{}"); status != 404 && status != 409 {
				t.Errorf("answered twice: %d %v", status, m)
			}
		}
	}
	a := <-s.meanwhile("POST", callTime, s.token, `{"wait":1}`)
	detail, hint := fmt.Sprint(a.m["detail"]), fmt.Sprint(a.m["hint"])
	q, _ := a.m["approval_id"].(string)
	if a.status != 403 || a.m["code"] != "E1002" || a.took < time.Second || !strings.Contains(detail, "nobody answered while the call waited") || !strings.Contains(hint, q) || s.state(q) != "waiting" {
		t.Errorf("not answered: %+v", a)
	}
	s.must(200, "POST", "/v1/approvals/"+q+"/approve", "{}")
	if status, m := s.ask("POST", callTime, s.token, "{}"); status != 200 {
		t.Errorf("the same call after the answer: %d %v", status, m)
	}
	status, m := s.ask("POST", callTime, s.token, "{}")
	if detail = fmt.Sprint(m["detail"]); status != 403 || strings.Contains(detail, "no approver") || !strings.Contains(detail, "not approved yet") || m["approval_id"] == nil {
		t.Errorf("without wait: %d %v", status, m)
	}
	s.verifies(t)
}

// TestWaitsHaveBounds: no other value is taken, and none is asked about.
func TestWaitsHaveBounds(t *testing.T) {
	s := policied(t, waitPolicy)
	for _, wait := range []string{"-1", "601", "1e18", "1000000000000000000000", "1.5", `"5"`, "true", "[1]", "{}", "-0.0001"} {
		if status, m := s.ask("POST", callTime, s.token, `{"wait":`+wait+`}`); status != 422 && status != 400 {
			t.Errorf("wait %s: %d %v", wait, status, m)
		}
	}
	if list, _ := s.must(200, "GET", "/v1/approvals", "")["items"].([]any); len(list) != 0 {
		t.Errorf("questions: %v", list)
	}
	_, m := s.ask("POST", callTime, s.token, `{"wait":0}`)
	path := "/v1/approvals/" + m["approval_id"].(string)
	for _, wait := range []string{"-1", "601", "1e18", "9223372036854775808", "1.5", "x", "%00", "1&wait=2"} {
		if status, m := s.ask("GET", path+"?wait="+wait, s.token, ""); status != 422 && status != 400 && !(wait == "1&wait=2" && status == 200) {
			t.Errorf("wait=%s: %d %v", wait, status, m)
		}
	}
}

// TestAQuestionIsAwaited: until it is answered or the time is over, by callers that may see it.
func TestAQuestionIsAwaited(t *testing.T) {
	s := policied(t, waitPolicy)
	_, m := s.ask("POST", callTime, s.token, "{}")
	path := "/v1/approvals/" + m["approval_id"].(string)
	if a := <-s.meanwhile("GET", path+"?wait=1", s.token, ""); a.status != 200 || a.m["state"] != "waiting" || a.took < time.Second {
		t.Errorf("not answered: %+v", a)
	}
	other, _ := s.narrow("version: 1\nname: other\nrest: inherit\napi: {allow: [approvals.read]}\n")
	if a := <-s.meanwhile("GET", path+"?wait=60", other, ""); a.status != 404 || a.took > 30*time.Second {
		t.Errorf("of others: %+v", a)
	}
	ch := s.meanwhile("GET", path+"?wait=60", s.token, "")
	time.Sleep(50 * time.Millisecond) // it may wait by now
	s.must(200, "POST", path+"/approve", "{}")
	if a := <-ch; a.status != 200 || a.m["state"] != "approved" || a.took > 30*time.Second {
		t.Errorf("answered: %+v", a)
	}
	if a := <-s.meanwhile("GET", path+"?wait=60", s.token, ""); a.status != 200 || a.took > 30*time.Second {
		t.Errorf("answered before: %+v", a)
	}
	mine, id := s.narrow("version: 1\nname: mine\nrest: inherit\napi: {allow: [approvals.read, tools.invoke]}\n")
	_, m = s.ask("POST", callTime, mine, "{}")
	ch = s.meanwhile("GET", "/v1/approvals/"+m["approval_id"].(string)+"?wait=60", mine, "")
	time.Sleep(50 * time.Millisecond)
	s.must(200, "POST", "/v1/grants/"+id+"/revoke", "{}")
	if a := <-ch; a.status != 401 || a.m["code"] != "E6004" {
		t.Errorf("revoked: %+v", a)
	}
	ch = s.meanwhile("GET", "/v1/approvals/"+m["approval_id"].(string)+"?wait=60", s.token, "")
	time.Sleep(50 * time.Millisecond)
	s.stop()
	if a := <-ch; a.status != 200 || a.m["state"] != "waiting" || a.took > 30*time.Second {
		t.Errorf("stopped: %+v", a)
	}
}

// TestAWaitingCallIsGivenUp: its grant is revoked, its client leaves, its run is cancelled, or the
// service stops. It is not made then.
func TestAWaitingCallIsGivenUp(t *testing.T) {
	s := policied(t, waitPolicy)
	token, id := s.narrow("version: 1\nname: short\nrest: inherit\n")
	ch := s.meanwhile("POST", callTime, token, waits)
	s.asked()
	s.must(200, "POST", "/v1/grants/"+id+"/revoke", "{}")
	if a := <-ch; a.status != 403 || a.m["code"] != "E6004" {
		t.Errorf("revoked: %+v", a)
	}
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+callTime, strings.NewReader(waits))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Content-Type", "application/json")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close() // not read
		}
	}()
	q := s.asked()
	leave()
	<-left
	for until := time.Now().Add(time.Minute); s.state(q) == "waiting"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the client has left, and its question waits")
		}
	}
	run := s.open(s.token, "{}")
	ch = s.meanwhile("POST", callTime, s.token, `{"wait":60,"run_id":"`+run+`"}`)
	s.asked()
	if r := s.must(200, "POST", "/v1/runs/"+run+"/cancel", ""); r["status"] != "cancelled" || r["completed"] != 0.0 {
		t.Errorf("cancelled: %v", r)
	}
	if a := <-ch; a.m["output"] != nil {
		t.Errorf("cancelled: %+v", a)
	}
	ch = s.meanwhile("POST", callTime, s.token, waits, "Idempotency-Key", "k")
	s.asked()
	s.stop()
	if a := <-ch; a.status != 409 || a.m["code"] != "E2011" || !strings.Contains(fmt.Sprint(a.m["detail"]), "waited") {
		t.Errorf("stopped: %+v", a)
	}
	s.start()
	ch = s.meanwhile("POST", callTime, s.token, waits, "Idempotency-Key", "k")
	s.must(200, "POST", "/v1/approvals/"+s.asked()+"/approve", "{}")
	if a := <-ch; a.status != 200 || a.m["output"] == nil {
		t.Errorf("again with the same key: %+v", a)
	}
	s.verifies(t)
}

// TestWaitingTakesNoPlaceOfOthers: more requests wait than may be carried out at once, and others are
// carried out meanwhile.
func TestWaitingTakesNoPlaceOfOthers(t *testing.T) {
	const most = 40
	s := policied(t, waitPolicy, func(q *app.ServeRequest) { q.Limits.Requests, q.Limits.Streams = 8, 2*most })
	var all []<-chan got
	_, m := s.ask("POST", callTime, s.token, "{}")
	path := "/v1/approvals/" + m["approval_id"].(string)
	for i := range most {
		if i%2 == 0 {
			all = append(all, s.meanwhile("GET", path+"?wait=60", s.token, ""))
		} else {
			all = append(all, s.meanwhile("POST", callTime, s.token, waits))
		}
		for len(all) == i+1 { // it waits: its place is free
			status, m := s.ask("POST", "/v1/tools/random.uuid/invoke", s.token, "{}")
			if status != 503 {
				if status != 200 && status != 404 && status != 403 {
					t.Fatalf("beside %d: %d %v", i, status, m)
				}
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, m := s.ask("GET", path+"?wait=1", s.token, "")
		if status == 503 && m["code"] == "E1005" {
			break // all seats of the person are taken
		}
		for i, ch := range all {
			select {
			case a := <-ch:
				t.Fatalf("request %d ended: %+v", i, a)
			default:
			}
		}
		if time.Now().After(until) {
			t.Fatalf("one more than may wait: %d %v", status, m)
		}
	}
	s.must(200, "POST", path+"/deny", "{}")
	for items := []any{nil}; len(items) > 0; {
		items, _ = s.must(200, "GET", "/v1/approvals", "")["items"].([]any)
		for _, q := range items {
			s.ask("POST", "/v1/approvals/"+q.(map[string]any)["id"].(string)+"/deny", s.token, "{}")
		}
	}
	for _, ch := range all {
		if a := <-ch; a.status != 200 && a.status != 403 && a.status != 503 {
			t.Errorf("%+v", a)
		}
	}
}
