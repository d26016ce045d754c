package app_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

// queuedAs follows a queued run until it has a status.
func (s *service) queuedAs(id, status string) map[string]any {
	s.t.Helper()
	var r map[string]any
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		if r = s.must(200, "GET", "/v1/queue/"+id, ""); r["status"] == status {
			return r
		}
	}
	s.t.Fatalf("the queued run %s is %v, want %s", id, r, status)
	return nil
}

// A run that a client queues is started by the service, under the client's grant as it is
// then, and others do not see it.
func TestARunIsQueuedOverHTTP(t *testing.T) {
	s := newWriter(t)
	const plan = "name: queued\nsteps: [{tool: fs.write, args: {path: out/q.txt, content: hi}}]\n"
	s.must(200, "POST", "/v1/queue/pause", "") // else it may run before the answer is written
	status, head, b := s.raw("POST", "/v1/runs", s.token, planBody(t, plan, `,"queue":{"priority":1,"limits":[{"key":"grant","most":1}]}`))
	var begun struct {
		ID     string `json:"run_id"`
		Status string `json:"status"`
	}
	unmarshal(t, b, &begun)
	if status != http.StatusAccepted || begun.Status != "waiting" || head.Get("Location") != "/v1/queue/"+begun.ID {
		t.Fatalf("%d %v %s", status, head, b)
	}
	s.must(200, "POST", "/v1/queue/resume", "")
	r := s.queuedAs(begun.ID, "completed")
	if r["completed"] != 1.0 || r["priority"] != 1.0 {
		t.Errorf("it is %v", r)
	}
	if got, err := os.ReadFile(filepath.Join(s.dir, "out", "q.txt")); err != nil || string(got) != "hi" {
		t.Errorf("it wrote %q, %v", got, err)
	}
	if run := s.must(200, "GET", "/v1/runs/"+begun.ID, ""); run["status"] != "completed" {
		t.Errorf("its run is %v", run)
	}

	s.must(200, "POST", "/v1/queue/pause", "")
	token, grant := s.narrow(writerPolicy)
	_, _, b = s.raw("POST", "/v1/runs", token, planBody(t, plan, `,"queue":{"unique":"k"}`))
	unmarshal(t, b, &begun)
	var again struct {
		ID string `json:"run_id"`
	}
	_, _, b = s.raw("POST", "/v1/runs", token, planBody(t, plan, `,"queue":{"unique":"k"}`))
	if unmarshal(t, b, &again); again.ID != begun.ID {
		t.Errorf("a second one of its key is %s", b)
	}
	other, _ := s.narrow("version: 1\nname: other\nrest: inherit\napi: {allow: [tools.invoke, runs.read]}\n")
	for _, path := range []string{"/v1/queue/" + begun.ID, "/v1/queue/" + begun.ID + "/cancel"} {
		method := map[bool]string{true: "POST", false: "GET"}[len(path) > len("/v1/queue/")+36]
		if status, _ := s.ask(method, path, other, ""); status != http.StatusNotFound {
			t.Errorf("another grant gets %d from %s", status, path)
		}
	}
	if status, list := s.ask("GET", "/v1/queue", other, ""); status != 200 || len(list["items"].([]any)) != 0 {
		t.Errorf("another grant sees %v", list)
	}
	if status, _ := s.ask("POST", "/v1/queue/resume", other, ""); status != http.StatusForbidden {
		t.Errorf("a grant without queue.write gets %d", status)
	}
	s.must(200, "POST", "/v1/grants/"+grant+"/revoke", `{}`)
	if state := s.must(200, "POST", "/v1/queue/resume", ""); state["paused"] != false {
		t.Errorf("the queue is %v", state)
	}
	if r := s.queuedAs(begun.ID, "refused"); r["code"] != "E6004" {
		t.Errorf("under a revoked grant it is %v", r)
	}

	later := s.must(202, "POST", "/v1/runs", planBody(t, plan, `,"queue":{"delay":3600}`))["run_id"].(string)
	if r := s.must(200, "POST", "/v1/queue/"+later+"/cancel", ""); r["status"] != "cancelled" {
		t.Errorf("cancelled it is %v", r)
	}
	s.must(409, "POST", "/v1/queue/"+later+"/cancel", "")
	s.must(400, "POST", "/v1/runs", planBody(t, plan, `,"queue":{"limits":[{"key":"tool:nope","most":1}]}`))
}

// What waits when the service ends is carried out by the next one. A full queue says how
// many wait.
func TestAQueueSurvivesTheService(t *testing.T) {
	s := newWriter(t)
	if err := os.WriteFile(filepath.Join(s.homeDir, "config.yaml"), []byte("queue: {waiting: 2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.start(func(q *app.ServeRequest) {})
	s.must(200, "POST", "/v1/queue/pause", "")
	const plan = "name: queued\nsteps: [{tool: time.now}]\n"
	id := s.must(202, "POST", "/v1/runs", planBody(t, plan, `,"queue":{}`))["run_id"].(string)
	status, body := s.ask("POST", "/v1/runs", s.token, planBody(t, plan, `,"queue":{}`))
	if status != http.StatusTooManyRequests || body["code"] != "E5008" {
		t.Errorf("a full queue gives %d %v", status, body)
	}
	s.must(200, "POST", "/v1/queue/resume", "")
	s.queuedAs(id, "completed")
	id = s.must(202, "POST", "/v1/runs", planBody(t, plan, `,"queue":{}`))["run_id"].(string)
	s.stop()
	s.start(func(q *app.ServeRequest) {})
	s.queuedAs(id, "completed")
}

func unmarshal(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
}
