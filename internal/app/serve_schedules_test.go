package app_test

import (
	"net/http"
	"testing"
)

// A client's schedule queues runs under the client's grant as it is then. Other grants do not
// know the schedule.
func TestSchedulesOfClients(t *testing.T) {
	s := newWriter(t)
	token, grant := s.narrow("version: 1\nname: own\nrest: inherit\napi: {allow: [tools.invoke, runs.read]}\n")
	const body = `{"name":"nightly","cron":"0 3 * * *","zone":"Europe/Berlin","priority":1,"plan":"name: sched\nsteps: [{tool: time.now}]\n"}`
	status, made := s.ask("POST", "/v1/schedules", token, body)
	if status != http.StatusCreated || made["grant_id"] != grant || made["next_at"] == nil {
		t.Fatalf("%d %v", status, made)
	}
	path := "/v1/schedules/" + made["schedule_id"].(string)
	if status, m := s.ask("POST", "/v1/schedules", token, body); status != http.StatusConflict {
		t.Errorf("a second one of its name gives %d %v", status, m)
	}
	other, _ := s.narrow("version: 1\nname: other\nrest: inherit\napi: {allow: [tools.invoke, runs.read]}\n")
	for _, c := range [][3]string{{"GET", path, ""}, {"PATCH", path, `{"paused":true}`}, {"DELETE", path, ""}, {"POST", path + "/run", ""}} {
		if status, m := s.ask(c[0], c[1], other, c[2]); status != http.StatusNotFound {
			t.Errorf("%s %s under another grant gives %d %v", c[0], c[1], status, m)
		}
	}
	if _, list := s.ask("GET", "/v1/schedules", other, ""); len(list["items"].([]any)) != 0 {
		t.Errorf("another grant sees %v", list)
	}

	run := s.must(200, "POST", path+"/run", "") // the admin has it run under the client's grant
	if r := s.queuedAs(run["run_id"].(string), "completed"); r["grant_id"] != grant || r["priority"] != 1.0 {
		t.Errorf("the run is %v", r)
	}
	_, seen := s.ask("GET", path, token, "")
	if runs := seen["runs"].([]any); len(runs) != 1 || runs[0].(map[string]any)["run_id"] != run["run_id"] || seen["last_at"] == nil || seen["next_at"] != made["next_at"] {
		t.Errorf("after a run now it is %v", seen)
	}

	changed := s.must(200, "PATCH", path, `{"cron":"30 4 * * *","zone":"UTC","paused":true}`)
	if changed["next_at"] == made["next_at"] || changed["paused"] != true || changed["zone"] != "UTC" || changed["priority"] != 1.0 {
		t.Errorf("changed it is %v", changed)
	}
	s.must(400, "PATCH", path, `{"cron":"30 4 * *"}`)
	s.must(409, "POST", path+"/run", "")
	s.must(200, "PATCH", path, `{"paused":false}`)
	s.must(200, "POST", "/v1/grants/"+grant+"/revoke", `{}`)
	run = s.must(200, "POST", path+"/run", "")
	if r := s.queuedAs(run["run_id"].(string), "refused"); r["code"] != "E6004" {
		t.Errorf("under a revoked grant its run is %v", r)
	}
	s.must(204, "DELETE", path, "")
	s.must(404, "GET", path, "")
}
