package app_test

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/home"
)

func TestLabelsOfFilesOverHTTP(t *testing.T) {
	s := newWriter(t, func(q *app.ServeRequest) {
		labels := "labels: {drafts: {from: [\"files in/**\"]}}\nflows: {drafts: {ask: [\"side_effects fs.delete\"]}}\n"
		if err := os.WriteFile(q.Policy, []byte(writerPolicy+labels), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	dir, err := home.Workspace(s.dir)
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "in"), 0o700), os.WriteFile(filepath.Join(dir, "in/a.txt"), []byte("a draft"), 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	run := s.must(202, "POST", "/v1/runs", planBody(t, "steps:\n  - {id: r, tool: fs.read, args: {path: in/a.txt}}\n"+
		"  - {needs: [r], tool: fs.write, args: {path: out/b.txt, content: b}}\n  - {needs: [r], tool: fs.write, args: {path: out/c.txt, content: c}}\n", ""))["run_id"].(string)
	if r := s.ended(run); r["status"] != "completed" {
		t.Fatalf("the run %v", r)
	}
	first := s.must(200, "GET", "/v1/labels?limit=1", "")
	second := s.must(200, "GET", "/v1/labels?limit=1&cursor="+url.QueryEscape(first["next"].(string)), "")
	for i, m := range []map[string]any{first, second} {
		one := m["items"].([]any)[0].(map[string]any)
		if want := filepath.Join(dir, "out", string('b'+rune(i))+".txt"); one["path"] != want || one["label"] != "drafts" || one["run_id"] != run || one["call"] == nil {
			t.Errorf("page %d: %v", i+1, one)
		}
	}
	if second["next"] != nil {
		t.Errorf("a third page: %v", second["next"])
	}
	file := filepath.Join(dir, "out/b.txt")
	token, _ := s.narrow("version: 1\nname: all\nrest: inherit\napi: {allow: [\"*\"]}\n")
	if status, m := s.ask("POST", "/v1/labels/clear", token, `{"path":"`+file+`"}`); status != 403 {
		t.Errorf("a delegate may clear labels: %d %v", status, m)
	}
	if m := s.must(200, "POST", "/v1/labels/clear", `{"path":"`+file+`"}`); m["labels"] != 1.0 {
		t.Errorf("cleared %v", m)
	}
	s.must(404, "POST", "/v1/labels/clear", `{"path":"`+file+`"}`)
	if left := s.must(200, "GET", "/v1/labels?below="+url.QueryEscape(filepath.Join(dir, "out")), "")["items"].([]any); len(left) != 1 {
		t.Errorf("left are %v", left)
	}
	by := s.must(200, "GET", "/v1/audit?limit=1", "")["items"].([]any)[0].(map[string]any)
	if who, _ := by["by"].(string); !strings.HasPrefix(who, "user:") {
		t.Errorf("the record says %v", by)
	}
}
