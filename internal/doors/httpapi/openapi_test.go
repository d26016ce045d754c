package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// document reads the published document as others do.
func document(t testing.TB) *openapi3.T {
	t.Helper()
	rec := get("/v1/openapi.json").of(server(t, newWorld()))
	if rec.Code != 200 || rec.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", rec.Code, rec.Header())
	}
	doc, err := openapi3.NewLoader().LoadFromData(rec.Body.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestTheDocumentIsOpenAPI31(t *testing.T) {
	doc := document(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %q", doc.OpenAPI)
	}
	if err := doc.Validate(context.Background()); err != nil {
		t.Error(err)
	}
}

// Every operation says what it is, who may ask for it, and how it fails.
func TestEveryOperationIsDescribed(t *testing.T) {
	s := server(t, newWorld())
	doc := document(t)
	n := 0
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			n++
			name := method + " " + path
			if op.Summary == "" || op.OperationID == "" || len(op.Tags) != 1 || !strings.Contains(op.Description, "Needs ") {
				t.Errorf("%s: summary, ID, tag or what it needs is missing", name)
			}
			open := path == "/healthz" || path == "/readyz"
			if open != (op.Security == nil || len(*op.Security) == 0) {
				t.Errorf("%s: security %v", name, op.Security)
			}
			if !open && op.Responses.Value("401") == nil {
				t.Errorf("%s: 401 is missing", name)
			}
			good := 0
			for code, r := range op.Responses.Map() {
				if strings.HasPrefix(code, "2") {
					good++
				} else if m := r.Value.Content["application/problem+json"]; m == nil || m.Example == nil {
					if path != "/readyz" || code != "503" {
						t.Errorf("%s: %s is no problem with an example", name, code)
					}
				}
				if m := r.Value.Content["application/json"]; strings.HasPrefix(code, "2") && m != nil && m.Example == nil && !strings.HasPrefix(path, "/v1/openapi") && !strings.HasSuffix(path, "/report") && !strings.Contains(path, "/files/") {
					t.Errorf("%s: %s has no example", name, code)
				}
			}
			if good == 0 {
				t.Errorf("%s: no good answer", name)
			}
			if op.RequestBody != nil {
				if m := op.RequestBody.Value.Content["application/json"]; m != nil && m.Example == nil {
					t.Errorf("%s: the body has no example", name)
				}
			}
			if strings.Contains(path, "{") && op.Parameters == nil {
				t.Errorf("%s: its path's parameters are missing", name)
			}
		}
	}
	if n != len(s.Operations()) || n < 45 {
		t.Errorf("%d operations in the document, %d are served", n, len(s.Operations()))
	}
}

// The examples of bodies are what the schemas say.
func TestExamplesFitTheirSchemas(t *testing.T) {
	for path, item := range document(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			m := op.RequestBody.Value.Content["application/json"]
			if m == nil {
				continue
			}
			if err := m.Schema.Value.VisitJSON(m.Example); err != nil {
				t.Errorf("%s %s: %v", method, path, err)
			}
		}
	}
}

// Names that programs depend on do not change by accident.
func TestTheOperationsAreThose(t *testing.T) {
	var have []string
	for _, o := range server(t, newWorld()).Operations() {
		have = append(have, strings.TrimSpace(o.Method+" "+o.Path+" "+o.ID+" "+o.Action))
	}
	slices.Sort(have)
	file := "testdata/operations.txt"
	got := strings.Join(have, "\n") + "\n"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("the operations are\n%s\nand were\n%s\nUPDATE_GOLDEN=1 writes them", got, want)
	}
}

func TestTheDocumentIsJSONInOneForm(t *testing.T) {
	var docs [2][]byte
	for i := range docs {
		var err error
		if docs[i], err = server(t, newWorld()).OpenAPI(); err != nil || !json.Valid(docs[i]) {
			t.Fatalf("%v: %.100q", err, docs[i])
		}
	}
	if !bytes.Equal(docs[0], docs[1]) {
		t.Error("two servers publish two documents")
	}
}
