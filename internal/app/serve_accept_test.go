package app_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/service/apis"
)

// TestAToolIsAcceptedByThePersonWhoSawItsChange: the look of one person does not count for another,
// neither through the API nor in the web UI.
func TestAToolIsAcceptedByThePersonWhoSawItsChange(t *testing.T) {
	s := newService(t)
	s.stop()
	for _, description := range []string{"Gives a pet.", "Sells a pet."} {
		file := filepath.Join(s.dir, "pets.json")
		doc := `{"openapi":"3.0.3","info":{"title":"Pets","version":"1"},"servers":[{"url":"http://127.0.0.1:9"}],"paths":{"/pets":{"get":{"operationId":"getPet","description":"` + description + `","responses":{"200":{"description":"ok"}}}}}}`
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.beside().APIs.Add(t.Context(), apis.Addition{Name: "pets", From: file, Replace: description != "Gives a pet."}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.beside().Catalog().Lookup("api:pets:getPet"); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	const path, page = "/v1/tools/api:pets:getPet", "/ui/tools/api:pets:getPet"
	bob, _ := s.root("user:bob", `{allow: ["*"]}`)
	eve, _ := s.root("user:eve", `{allow: ["*"]}`)
	_, seen := s.ask("GET", path+"/change", bob, "")
	digest, _ := seen["digest"].(string)
	if digest == "" {
		t.Fatalf("the change is %v", seen)
	}
	accept := `{"digest":"` + digest + `"}`
	if status, got := s.ask("POST", path+"/accept", eve, accept); status != 409 || !strings.Contains(got["detail"].(string), "was not shown to you") {
		t.Errorf("another person: %d %v", status, got)
	}
	b, form := s.browser(), url.Values{"do": {"accept"}, "digest": {digest}}
	if res, text := b.do("POST", page, form); res.StatusCode != 409 || !strings.Contains(text, "was not shown to you") {
		t.Errorf("in the browser of another person: %d %s", res.StatusCode, text)
	}
	// The page of the refusal showed the change.
	if res, text := b.do("POST", page, form); res.StatusCode != 303 {
		t.Errorf("after an own look: %d %s", res.StatusCode, text)
	}
	if status, got := s.ask("POST", path+"/accept", bob, accept); status != 409 {
		t.Errorf("what was accepted already: %d %v", status, got)
	}
}
