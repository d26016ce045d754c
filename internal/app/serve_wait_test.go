package app_test

import (
	"context"
	"encoding/json"
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
	err    error
}

// meanwhile makes a request, and gives its answer later. See answer.
func (s *service) meanwhile(method, path, token, body string, header ...string) <-chan got {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	ch := make(chan got, 1)
	go func() {
		began, a := time.Now(), got{}
		res, err := http.DefaultClient.Do(r)
		if a.err = err; err == nil {
			a.status, a.err = res.StatusCode, json.NewDecoder(res.Body).Decode(&a.m)
			_ = res.Body.Close() // it was read
		}
		a.took = time.Since(began)
		ch <- a
	}()
	return ch
}

// answer waits for the answer to a request of meanwhile.
func (s *service) answer(ch <-chan got) got {
	s.t.Helper()
	select {
	case a := <-ch:
		if a.err != nil {
			s.t.Fatal(a.err)
		}
		return a
	case <-time.After(2 * time.Minute):
		s.t.Fatal("a request has no answer")
	}
	return got{}
}

// eventually waits for a state.
func (s *service) eventually(what string, state func() bool) {
	s.t.Helper()
	for until := time.Now().Add(time.Minute); !state(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("not within a minute: %s", what)
		}
	}
}

// waiting waits until a number of stream seats are taken.
func (s *service) waiting(n int) {
	s.t.Helper()
	want := fmt.Sprintf("\nremit_http_streams %d\n", n)
	s.eventually(fmt.Sprintf("%d requests wait", n), func() bool {
		_, _, metrics := s.raw("GET", "/metrics", s.token, "")
		return strings.Contains(string(metrics), want)
	})
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

const callTime, waits = "/v1/tools/time.now/invoke", `{"wait":600}`

// TestACallWaitsForItsAnswer: in a run of its own, and in an open one.
func TestACallWaitsForItsAnswer(t *testing.T) {
	s := policied(t, waitPolicy)
	for name, body := range map[string]string{"alone": waits, "in an open run": `{"wait":600,"run_id":"` + s.open(s.token, "{}") + `"}`} {
		for answer, want := range map[string]int{"approve": 200, "deny": 403} {
			ch := s.meanwhile("POST", callTime, s.token, body)
			q := s.asked()
			s.must(200, "POST", "/v1/approvals/"+q+"/"+answer, "{}")
			a := s.answer(ch)
			if a.status != want || want == 200 && a.m["output"] == nil || want == 403 && (a.m["code"] != "E1002" || !strings.Contains(fmt.Sprint(a.m["detail"]), "refused by")) {
				t.Errorf("%s, %s: %d %v", name, answer, a.status, a.m)
			}
			if status, m := s.ask("POST", "/v1/approvals/"+q+"/approve", s.token, "{}"); status != 404 && status != 409 {
				t.Errorf("answered twice: %d %v", status, m)
			}
		}
	}
	a := s.answer(s.meanwhile("POST", callTime, s.token, `{"wait":1}`))
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
	if a := s.answer(s.meanwhile("GET", path+"?wait=1", s.token, "")); a.status != 200 || a.m["state"] != "waiting" || a.took < time.Second {
		t.Errorf("not answered: %+v", a)
	}
	other, _ := s.narrow("version: 1\nname: other\nrest: inherit\napi: {allow: [approvals.read]}\n")
	if a := s.answer(s.meanwhile("GET", path+"?wait=600", other, "")); a.status != 404 || a.took > 30*time.Second {
		t.Errorf("of others: %+v", a)
	}
	ch := s.meanwhile("GET", path+"?wait=600", s.token, "")
	s.waiting(1)
	s.must(200, "POST", path+"/approve", "{}")
	if a := s.answer(ch); a.status != 200 || a.m["state"] != "approved" || a.took > 30*time.Second {
		t.Errorf("answered: %+v", a)
	}
	if a := s.answer(s.meanwhile("GET", path+"?wait=600", s.token, "")); a.status != 200 || a.took > 30*time.Second {
		t.Errorf("answered before: %+v", a)
	}
	mine, id := s.narrow("version: 1\nname: mine\nrest: inherit\napi: {allow: [approvals.read, tools.invoke]}\n")
	_, m = s.ask("POST", callTime, mine, "{}")
	ch = s.meanwhile("GET", "/v1/approvals/"+m["approval_id"].(string)+"?wait=600", mine, "")
	s.waiting(1)
	s.must(200, "POST", "/v1/grants/"+id+"/revoke", "{}")
	if a := s.answer(ch); a.status != 401 || a.m["code"] != "E6004" {
		t.Errorf("revoked: %+v", a)
	}
	ch = s.meanwhile("GET", "/v1/approvals/"+m["approval_id"].(string)+"?wait=600", s.token, "")
	s.waiting(1)
	s.stop()
	if a := s.answer(ch); a.status != 200 || a.m["state"] != "waiting" || a.took > 30*time.Second {
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
	if a := s.answer(ch); a.status != 403 || a.m["code"] != "E6004" {
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
	ch = s.meanwhile("POST", callTime, s.token, `{"wait":600,"run_id":"`+run+`"}`)
	s.asked()
	if r := s.must(200, "POST", "/v1/runs/"+run+"/cancel", ""); r["status"] != "cancelled" || r["completed"] != 0.0 {
		t.Errorf("cancelled: %v", r)
	}
	if a := s.answer(ch); a.m["output"] != nil {
		t.Errorf("cancelled: %+v", a)
	}
	ch = s.meanwhile("POST", callTime, s.token, waits, "Idempotency-Key", "k")
	s.asked()
	s.stop()
	if a := s.answer(ch); a.status != 409 || a.m["code"] != "E2011" || !strings.Contains(fmt.Sprint(a.m["detail"]), "waited") {
		t.Errorf("stopped: %+v", a)
	}
	s.start()
	ch = s.meanwhile("POST", callTime, s.token, waits, "Idempotency-Key", "k")
	s.must(200, "POST", "/v1/approvals/"+s.asked()+"/approve", "{}")
	if a := s.answer(ch); a.status != 200 || a.m["output"] == nil {
		t.Errorf("again with the same key: %+v", a)
	}
	s.verifies(t)
}

// TestWaitingTakesNoPlaceOfOthers: more requests wait than may be carried out at once, and others are
// carried out meanwhile.
func TestWaitingTakesNoPlaceOfOthers(t *testing.T) {
	const most = 12
	s := policied(t, waitPolicy, func(q *app.ServeRequest) { q.Limits.Requests, q.Limits.Streams = 16, 2*most }) // one person gets half
	_, m := s.ask("POST", callTime, s.token, "{}")
	path := "/v1/approvals/" + m["approval_id"].(string)
	var looks, calls []<-chan got
	for i := range most {
		if i%2 == 0 {
			looks = append(looks, s.meanwhile("GET", path+"?wait=600", s.token, ""))
		} else {
			calls = append(calls, s.meanwhile("POST", callTime, s.token, waits))
		}
		s.waiting(i + 1)
		s.eventually("the place of a request that waits is free", func() bool {
			status, _ := s.ask("GET", "/v1/tools/time.now", s.token, "")
			return status == 200
		})
	}
	for _, r := range [][3]string{{"GET", path + "?wait=1", ""}, {"POST", callTime, waits}} {
		status, m := s.ask(r[0], r[1], s.token, r[2])
		s.wants("one more than may wait", status, m, 503, "E1005")
	}
	s.must(200, "POST", path+"/approve", "{}")
	for _, ch := range looks {
		if a := s.answer(ch); a.status != 200 || a.m["state"] == "waiting" {
			t.Errorf("a question: %+v", a)
		}
	}
	for len(calls) > 0 { // an approval is for one of them
		for i := range calls {
			select {
			case a := <-calls[i]:
				if a.err != nil || a.status != 200 || a.m["output"] == nil {
					t.Fatalf("a call: %+v", a)
				}
				calls = append(calls[:i:i], calls[i+1:]...)
				if len(calls) > 0 {
					s.must(200, "POST", "/v1/approvals/"+s.asked()+"/approve", "{}")
				}
			default:
				continue
			}
			break
		}
		time.Sleep(time.Millisecond)
	}
	s.verifies(t)
}
