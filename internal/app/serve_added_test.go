package app_test

import (
	"strconv"
	"strings"
	"testing"
)

func TestTheRecordIsReadByRunAndSubject(t *testing.T) {
	s := newService(t)
	s.must(200, "POST", "/v1/tools/time.now/invoke", `{"args":{}}`)
	run := s.must(200, "POST", "/v1/tools/time.now/invoke", `{"args":{}}`)["run_id"].(string)
	s.must(200, "POST", "/v1/tools/time.now/invoke", `{"args":{}}`)
	items := s.must(200, "GET", "/v1/audit?run_id="+run, "")["items"].([]any)
	if len(items) < 3 {
		t.Errorf("the run has the events %v", items)
	}
	for _, e := range items {
		if got := e.(map[string]any)["run_id"]; got != run {
			t.Errorf("an event is of the run %v", got)
		}
	}
	first := items[0].(map[string]any)
	one := s.must(200, "GET", "/v1/audit/"+jsonNumber(first["seq"]), "")
	if one["event"] != first["event"] || one["seq"] != first["seq"] {
		t.Errorf("the event is %v, listed as %v", one, first)
	}
	s.must(404, "GET", "/v1/audit/999999999", "")
	s.must(404, "GET", "/v1/audit?run_id=019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b99", "")
	session := s.session(s.token, `[]`)
	of := s.must(200, "GET", "/v1/audit?subject="+session, "")["items"].([]any)
	if len(of) == 0 {
		t.Error("the session has no event")
	}
	for _, e := range of {
		if got := e.(map[string]any)["subject"]; got != session {
			t.Errorf("an event is of %v", got)
		}
	}
	if v := s.must(200, "POST", "/v1/audit/verify", ""); v["ok"] != true || v["events"].(float64) < 9 {
		t.Errorf("the record: %v", v)
	}
}

func TestAPolicyIsLearnedFromRuns(t *testing.T) {
	s := newService(t)
	run := s.must(200, "POST", "/v1/tools/time.now/invoke", `{"args":{}}`)["run_id"].(string)
	got := s.must(200, "POST", "/v1/policies/learn", `{"run_ids":["`+run+`"]}`)
	if !strings.Contains(got["policy"].(string), "time.now") || got["calls"].(float64) != 1 {
		t.Errorf("learned %v", got)
	}
	s.must(404, "POST", "/v1/policies/learn", `{"run_ids":["019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b99"]}`)
}

func TestPartsHaveNoValues(t *testing.T) {
	s := newService(t)
	if _, err := s.beside().Secrets.Set("deploy", "the-value-of-the-secret"); err != nil {
		t.Fatal(err)
	}
	_, _, b := s.raw("GET", "/v1/parts", s.token, "")
	if text := string(b); !strings.Contains(text, `"name":"deploy"`) || strings.Contains(text, "the-value") {
		t.Errorf("the parts are %s", text)
	}
}

func TestOnlyAPersonAcceptsATool(t *testing.T) {
	s := newService(t)
	token, _ := s.narrow("version: 1\nname: all\nrest: inherit\n")
	for _, c := range [][2]string{{"GET", "/v1/tools/time.now/change"}, {"POST", "/v1/tools/time.now/accept"}} {
		body := ""
		if c[0] == "POST" {
			body = `{"digest":"sha256:1"}`
		}
		if status, m := s.ask(c[0], c[1], token, body); status != 403 {
			t.Errorf("a delegate: %v: %d %v", c, status, m)
		}
	}
	if got := s.must(200, "GET", "/v1/tools/time.now/change", ""); got["changed"] != false {
		t.Errorf("a built-in tool: %v", got)
	}
	s.must(409, "POST", "/v1/tools/time.now/accept", `{"digest":"sha256:1"}`)
}

func jsonNumber(v any) string { return strconv.FormatFloat(v.(float64), 'f', -1, 64) }
