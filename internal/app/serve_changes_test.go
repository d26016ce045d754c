package app_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// holds has an agent write files that are held, and gives the run's ID.
func (s *service) holds(files ...string) string {
	s.t.Helper()
	dir, err := home.Workspace(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	policy := filepath.Join(s.dir, "held.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nname: held\nfiles: {write: {allow: [\"**\"]}}\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
	r, err := s.beside().Runs.Begin(s.t.Context(), runs.Request{Name: "writer", Workspace: dir, Policy: policy, Changeset: true})
	if err != nil {
		s.t.Skipf("changes cannot be held here: %v", err)
	}
	for _, f := range files {
		if _, err := r.Call(s.t.Context(), runner.Call{Tool: "fs.write", Args: map[string]any{"path": f, "content": "new\n"}}); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := r.End(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return r.Result().ID.String()
}

func (s *service) exists(file string) bool {
	_, err := os.Stat(filepath.Join(s.dir, file))
	return err == nil
}

func TestHeldChangesAreAppliedByAPerson(t *testing.T) {
	s := newService(t)
	run := s.holds("a.txt", "b/c.txt")
	path := "/v1/changes/" + run
	token, _ := s.narrow("version: 1\nname: all\nrest: inherit\napi: {allow: [\"*\"]}\n")
	for _, verb := range []string{"/apply", "/discard", "/undo"} {
		if status, m := s.ask("POST", path+verb, token, ""); status != 403 && status != 404 {
			t.Errorf("a delegate may %s: %d %v", verb, status, m)
		}
	}
	shown := s.must(200, "GET", path+"?diff=true", "")
	if n := len(shown["changes"].([]any)); n != 3 || shown["state"] != "review" {
		t.Errorf("it holds %d changes: %v", n, shown)
	}
	if list := s.must(200, "GET", "/v1/changes", "")["items"].([]any); len(list) != 1 || list[0].(map[string]any)["run_id"] != run {
		t.Errorf("the list is %v", list)
	}
	if status, m := s.ask("POST", path+"/apply", s.token, `{"digest":"0000"}`); status != 409 || s.exists("a.txt") {
		t.Errorf("changes that were not shown: %d %v", status, m)
	}
	s.must(200, "POST", path+"/apply", `{"digest":"`+shown["digest"].(string)+`","paths":["a.txt"]}`)
	if !s.exists("a.txt") || s.exists("b/c.txt") {
		t.Error("not exactly a.txt was applied")
	}
	s.must(200, "POST", path+"/apply", `{}`)
	if !s.exists("b/c.txt") {
		t.Error("b/c.txt was not applied")
	}
	if got := s.must(200, "POST", path+"/undo", ""); len(got["restored"].([]any)) == 0 || s.exists("a.txt") || s.exists("b") {
		t.Errorf("undone: %v", got)
	}
}

func TestUIDecidesOnHeldChanges(t *testing.T) {
	s := newService(t)
	b, run := s.browser(), s.holds("a.txt", "b.txt")
	page := "/ui/changes/" + run
	_, text := b.do("GET", page, nil)
	digest := regexp.MustCompile(`name="digest" value="([0-9a-f]{64})"`).FindStringSubmatch(text)
	if digest == nil || !strings.Contains(text, "new") {
		t.Fatalf("the page does not show the changes: %s", text)
	}
	if res, text := b.do("POST", page, url.Values{"do": {"apply"}, "digest": {digest[1]}, "file": {"a.txt", "b.txt"}, "path": {"b.txt"}}); res.StatusCode != 303 || s.exists("a.txt") || !s.exists("b.txt") {
		t.Errorf("applying one: %d %s", res.StatusCode, text)
	}
	if res, text := b.do("POST", page, url.Values{"do": {"apply"}, "digest": {digest[1]}, "file": {"a.txt"}, "path": {"a.txt"}}); res.StatusCode != 409 || s.exists("a.txt") {
		t.Errorf("applying what was shown before: %d %s", res.StatusCode, text)
	}
	if res, text := b.do("POST", page, url.Values{"do": {"discard"}}); res.StatusCode != 303 || s.exists("a.txt") {
		t.Errorf("discarding: %d %s", res.StatusCode, text)
	}
}
